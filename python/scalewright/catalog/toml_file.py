"""What does one TOML file say, and where is it wrong?"""

from __future__ import annotations

import math
import tomllib
from typing import TYPE_CHECKING, Any, cast

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

Table = dict[str, Any]


def read_table(path: Traversable) -> Table:
    """Read a TOML file whose values can all be written as JSON.

    Raises:
        InvalidError: The file cannot be read, is no TOML, or holds a date or an endless number.
    """
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}"
        raise InvalidError(message) from error
    except (ValueError, RecursionError) as error:
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


def leaves(table: Table, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Walk over the values of a table with their dotted paths.

    An array of tables is addressed by the `name` of its members, as in `tiers.hbm.capacity`.
    """
    for key, value in table.items():
        yield from _value_leaves(f"{prefix}{key}", value)


def named_members(value: object) -> list[Table] | None:
    """Return the members of an array of tables that all have a name; none for anything else."""
    if not (isinstance(value, list) and value):
        return None
    members = cast("list[object]", value)
    named = [cast("Table", m) for m in members if isinstance(m, dict) and "name" in m]
    return named if len(named) == len(members) else None


def _value_leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from leaves(cast("Table", value), f"{path}.")
    elif (members := named_members(value)) is not None:
        for member in members:
            yield from leaves(member, f"{path}.{member['name']}.")
    elif isinstance(value, list):
        for member in cast("list[object]", value):
            yield from _value_leaves(path, member)
    else:
        yield path, value
