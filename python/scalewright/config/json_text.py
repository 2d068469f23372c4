"""Which JSON text does a value become, and can it be written as JSON at all?"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, cast

from scalewright.config.kinds import plain
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_SURROGATE = "\\ud"
"""How JSON text in ASCII starts half of a pair, and a letter or two."""


def json_text(what: str, value: object, indent: int | None = None) -> str:
    """Return `value` as JSON text.

    Args:
        what: What the value is called; nothing where its fields are what a caller wrote.
        value: The value.
        indent: Spaces by which nested lines are set in; one line where left out.

    Raises:
        InvalidError: It holds a number that is not finite, half of a surrogate pair, or something
            that JSON cannot hold.
    """
    called = what or "arguments"
    try:
        text = json.dumps(value, allow_nan=False, indent=indent, default=_plain)
    except RecursionError as error:
        message = f"{called}: got fields in one another without end; allowed: a few levels"
        raise InvalidError(message) from error
    except (ValueError, TypeError) as error:
        for path, number in _endless(what, value):
            message = f"{path}: got {number}; allowed: a finite number"
            raise InvalidError(message) from error
        message = f"{called}: cannot be written as JSON ({error}); allowed: text, finite numbers"
        raise InvalidError(message) from error
    if _SURROGATE in text:
        for path, broken in _halves(what, value):
            message = f"{path}: got {broken!a:.60}; allowed: text without halves of surrogate pairs"
            raise InvalidError(message)
    return text


def _plain(value: object) -> object:
    """Return a number of NumPy as Python's own; `json` asks for what it cannot write."""
    found = plain(value)
    if found is value:
        message = f"Object of type {type(value).__name__} is not JSON serializable"
        raise TypeError(message)
    return found


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _halves(path: str, value: object) -> Iterator[tuple[str, str]]:
    """List the texts that no encoding can hold, with the paths of their fields."""
    if isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            yield path, value
    elif isinstance(value, dict):
        for key, inner in cast("Mapping[object, object]", value).items():
            yield from _halves(f"{path}: a name", key)
            yield from _halves(_below(path, key), inner)
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(cast("Sequence[object]", value)):
            yield from _halves(f"{path}[{place}]", inner)


def _endless(path: str, value: object) -> Iterator[tuple[str, float]]:
    """List the numbers that are not finite, with the paths of their fields."""
    number = plain(value)
    if isinstance(number, float):
        if not math.isfinite(number):
            yield path, number
    elif isinstance(value, dict):
        for key, inner in cast("Mapping[object, object]", value).items():
            yield from _endless(_below(path, key), inner)
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(cast("Sequence[object]", value)):
            yield from _endless(f"{path}[{place}]", inner)
