"""Is an argument of a kind that the call can use?"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, cast

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import SupportsIndex

_MOST_COUNT = 2**32 - 1


def need(name: str, value: object, kinds: type | tuple[type, ...], allowed: str) -> None:
    """Refuse an argument of another kind.

    Raises:
        InvalidError: It is of none of the kinds.
    """
    if not isinstance(value, kinds):
        message = f"{name}: got {value!r:.60}; allowed: {allowed}"
        raise InvalidError(message)


def plain(value: object) -> object:
    """Return a single number of NumPy as Python's own; anything else as it is."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "shape", None) == () else value


def need_count(name: str, value: object, least: int = 1) -> int:
    """Return a whole number, which may be one of NumPy's; refuse what the engine cannot hold.

    Raises:
        InvalidError: It is none, or out of range.
    """
    count = None if isinstance(value, bool) or not hasattr(value, "__index__") else _index(value)
    if count is None or not least <= count <= _MOST_COUNT:
        message = f"{name}: got {value!r:.60}; allowed: a whole number from {least} to 2^32 - 1"
        raise InvalidError(message)
    return count


def _index(value: object) -> int | None:
    try:
        return index(cast("SupportsIndex", value))
    except TypeError:
        return None  # NumPy's truth values and arrays, which are no number


def need_places(places: Iterable[str | Path]) -> None:
    """Refuse overrides that are no list of paths; a lone text would count letter by letter."""
    allowed = "a list of files and directories"
    need("overrides", places, (list, tuple), allowed)
    for place in cast("list[object]", places):
        if not isinstance(place, str) and not hasattr(place, "__fspath__"):
            message = f"overrides: got {place!r:.60}; allowed: {allowed}"
            raise InvalidError(message)
