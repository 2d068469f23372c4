"""Which numbers, names and machines does an argument mean?"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from scalewright.config import need
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.planning.inputs import System
from scalewright.planning.inputs import system as read_system

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_MOST_RANKS = 2**32 - 1
_NO_NUMBERS = "bcmMSU"
"""Kinds of NumPy: truth values and texts, complex numbers (it would take the real part), dates (it
would take days since 1970)."""


def machines_of(system: System | str, counts: NDArray[np.uint32] | None, stride: int) -> System:
    """Return the machines, or so many of a named system as the largest group spans.

    Raises:
        InvalidError: The system is a name and there is no number of ranks.
    """
    if isinstance(system, str):
        if counts is None:
            message = "ranks: got nothing; allowed: a count where the system is a name"
            raise InvalidError(message)
        most = int(counts.max()) if counts.size else 1
        one = read_system(system, 1)
        return replace(one, devices=group_span(one, most, stride))
    need("system", system, System, "what scalewright.system(...) returns, or a catalog name")
    return system


def group_span(system: System, ranks: int, stride: int) -> int:
    """Return the devices from the first rank of a group to its last, both counted.

    Raises:
        InvalidError: All levels of the system, or the engine, have fewer.
    """
    joined = system.table["levels"][-1].get("devices")
    most = _MOST_RANKS if joined is None else int(joined)
    whose = "" if joined is None else f" (all levels of {system.name})"
    if ranks > most:
        message = f"ranks: got {ranks}; allowed: 1 to {most}{whose}"
        raise InvalidError(message)
    span = max((ranks - 1) * stride + 1, 1)
    if span > most:
        largest = (most - 1) // (ranks - 1)
        message = (
            f"stride: got {stride}, so that {ranks} ranks span {span} devices; "
            f"allowed: 1 to {largest}, within {most} devices{whose}"
        )
        raise InvalidError(message)
    return span


def floats(field: str, values: ArrayLike) -> Floats:
    """Return an argument as numbers.

    Raises:
        InvalidError: It holds something else.
    """
    import numpy as np

    wrong = next(_no_numbers(values), None)
    if wrong is not None:
        message = f"{field}: got {wrong[0]!r:.60}; allowed: numbers"
        raise InvalidError(message)
    message = f"{field}: got {values!r:.60}; allowed: numbers"
    try:
        given = np.asarray(values)
        floats = None if given.dtype.kind in _NO_NUMBERS else given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidError(message) from error
    if floats is None:
        raise InvalidError(message)
    return floats


def _no_numbers(values: object) -> Iterator[tuple[object]]:
    """List what NumPy would take for a number though it is none: gaps, truth values and texts."""
    if values is None or isinstance(values, (bool, str, bytes)):
        yield (values,)
    elif isinstance(values, (list, tuple)):
        for inner in cast("Sequence[object]", values):
            if type(inner) is not float:
                yield from _no_numbers(inner)
    elif getattr(getattr(values, "dtype", None), "kind", "") == "O":
        yield from _no_numbers(cast("NDArray[Any]", values).tolist())


def spread(field: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return numbers of this shape; a single one stands for all.

    Raises:
        InvalidError: They are of another shape, or no numbers.
    """
    import numpy as np

    given = floats(field, values)
    if given.shape not in ((), shape):
        message = f"{field}: got shape {given.shape}; allowed: a number or shape {shape}"
        raise InvalidError(message)
    return np.array(np.broadcast_to(given, shape))


def counts(ranks: ArrayLike) -> NDArray[np.uint32]:
    """Return an argument as numbers of ranks.

    Raises:
        InvalidError: It holds something else.
    """
    import numpy as np

    wrong = next(_no_numbers(ranks), (ranks,))
    message = f"ranks: got {wrong[0]!r:.60}; allowed: whole numbers from 1 to {_MOST_RANKS}"
    if wrong[0] is not ranks:
        raise InvalidError(message)
    try:
        given = np.asarray(ranks)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidError(message) from error
    if given.dtype.kind not in "iu" or np.any((given < 1) | (given > _MOST_RANKS)):
        raise InvalidError(message)
    return given.astype(np.uint32)


def known_names(field: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names of arguments that a call does not take.

    Raises:
        UnknownNameError: There is one; says which come nearest.
    """
    allowed = list(known)
    for name in given:
        if name not in allowed:
            close = get_close_matches(name, allowed, n=2)
            hint = f"nearest: {', '.join(close)}" if close else f"known: {', '.join(allowed)}"
            message = f"{field}: unknown name '{name:.60}'; {hint}"
            raise UnknownNameError(message)


def names(field: str, names: str | Sequence[str] | None) -> list[str]:
    """Return one name or several as a list; none for none.

    Raises:
        InvalidError: It holds something else.
    """
    if names is None:
        return []
    try:
        listed = [names] if isinstance(names, str) else list(names)
    except TypeError as error:
        message = f"{field}: got {names!r:.60}; allowed: names, as ring"
        raise InvalidError(message) from error
    for name in listed:
        need(field, name, str, "names, as ring")
    return listed
