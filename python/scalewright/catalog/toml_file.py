"""What does one TOML file say, and where is it wrong?"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import Any, cast

from scalewright.errors import InvalidError

Table = dict[str, Any]


def read_table(path: Traversable) -> Table:
    """Read a TOML file whose values can all be written as JSON.

    Raises:
        InvalidError: The file cannot be read, is no TOML, or holds a date or an endless number.
    """
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}"
        raise InvalidError(message) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        message = f"{path}: not valid TOML: {error}"
        raise InvalidError(message) from error
    for field, value in leaves(table):
        finite = not isinstance(value, float) or math.isfinite(value)
        if not (isinstance(value, str | int | float) and finite):
            message = f"{path}: {field}: got {value}; allowed: text, a finite number, true or false"
            raise InvalidError(message)
    return table


def text_field(path: Traversable, table: Table, field: str) -> str:
    """Return a field that must hold text."""
    value = table.get(field)
    if not (isinstance(value, str) and value.strip()):
        message = f"{path}: {field}: got {value!r}; allowed: a name"
        raise InvalidError(message)
    return value


def leaves(table: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Walk over the values of a table with their dotted paths.

    An array of tables is addressed by the `name` of its members, as in `tiers.hbm.capacity`.
    """
    for key, value in table.items():
        yield from _value_leaves(f"{prefix}{key}", value)


def _value_leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from leaves(cast(Table, value), f"{path}.")
    elif isinstance(value, list):
        for index, member in enumerate(cast(list[Any], value)):
            if isinstance(member, dict):
                member = cast(Table, member)
                yield from leaves(member, f"{path}.{member.get('name', index)}.")
            else:
                yield from _value_leaves(path, member)
    else:
        yield path, value
