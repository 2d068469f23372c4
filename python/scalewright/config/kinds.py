"""Is an argument of a kind that the call can use?"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, cast

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
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


def need_progress(progress: object) -> None:
    """Refuse a callback that cannot be called.

    Raises:
        InvalidError: It is neither None nor callable.
    """
    if progress is not None and not callable(progress):
        message = f"progress: got {progress!r:.60}; allowed: a function of done and all, or None"
        raise InvalidError(message)


def need_listed(name: str, value: object, allowed: str) -> list[object]:
    """Return a list or tuple as a list; a lone text would count letter by letter.

    Raises:
        InvalidError: It is neither.
    """
    need(name, value, (list, tuple), allowed)
    return list(cast("Sequence[object]", value))


def need_tables(name: str, value: object, allowed: str) -> list[dict[str, object]]:
    """Return a list of tables as plain ones.

    Raises:
        InvalidError: It is no list, or one of its members is no table with names.
    """
    listed = need_listed(name, value, allowed)
    return [need_table(f"{name}[{place}]", table, allowed) for place, table in enumerate(listed)]


def need_table(name: str, value: object, allowed: str) -> dict[str, object]:
    """Return a table as a plain one.

    Raises:
        InvalidError: It is none, or a name in it is no text.
    """
    need(name, value, Mapping, allowed)
    table = dict(cast("Mapping[object, object]", value))
    for key in table:
        need(f"{name}: a name", key, str, allowed)
    return cast("dict[str, object]", table)


def need_number(name: str, value: object, allowed: str) -> float:
    """Return a number, which may be one of NumPy's, as Python's own.

    Raises:
        InvalidError: It is none; truth values and texts are none.
    """
    number = plain(value)
    message = f"{name}: got {value!r:.60}; allowed: {allowed}"
    if isinstance(number, bool) or not isinstance(number, Real):
        raise InvalidError(message)
    try:
        return float(number)
    except OverflowError as error:
        raise InvalidError(message) from error


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
