"""Is an argument of a kind that the call can use?"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_MOST_COUNT = 2**32 - 1


def need(name: str, value: object, kinds: type | tuple[type, ...], allowed: str) -> None:
    """Refuse an argument of another kind.

    Raises:
        InvalidError: It is of none of the kinds.
    """
    if not isinstance(value, kinds):
        message = f"{name}: got {value!r:.60}; allowed: {allowed}"
        raise InvalidError(message)


def need_count(name: str, value: object, least: int = 1) -> None:
    """Refuse what is no whole number that the engine can hold."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST_COUNT:
        message = f"{name}: got {value!r:.60}; allowed: a whole number from {least} to 2^32 - 1"
        raise InvalidError(message)


def need_places(places: Iterable[str | Path]) -> None:
    """Refuse overrides that are no list of paths; a lone text would count letter by letter."""
    allowed = "a list of files and directories"
    need("overrides", places, (list, tuple), allowed)
    for place in cast("list[object]", places):
        if not isinstance(place, str) and not hasattr(place, "__fspath__"):
            message = f"overrides: got {place!r:.60}; allowed: {allowed}"
            raise InvalidError(message)
