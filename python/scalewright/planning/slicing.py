"""How long should the slices of a sequence be, so that a pipeline over tokens ends soonest?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from scalewright import _engine
from scalewright.config import json_text, named_as, need_count
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    Times = ArrayLike | Callable[[int, int], float]


_PATHS = {
    r"tables\[\d+\]\.sequences": "times: a number of sequences",
    r"tables\[\d+\]\.times_s": "times",
}
"""What a caller wrote, by the engine's path."""
_MOST_UNITS = 2048
"""The engine weighs no more; every length and context is asked for before."""


@dataclass(frozen=True)
class SlicedPart:
    """Sequences that go through together.

    Attributes:
        sequences: How many.
        lengths: Tokens of each slice.
        times_s: Seconds of each slice on one stage.
    """

    sequences: int
    lengths: tuple[int, ...]
    times_s: tuple[float, ...]


@dataclass(frozen=True)
class TokenSlices(Answer):
    """Slices that end soonest.

    Attributes:
        parts: Parts of the batch in the order in which they go through.
        time_s: All slices on one stage, and the slowest of them on each other stage.
        sum_s: All slices on one stage.
        slowest_s: The slowest slice.
        whole_s: The same where no sequence is sliced; None where that is not allowed.
        error_s: How much sooner another slicing might end; 0: none does.
    """

    parts: tuple[SlicedPart, ...]
    time_s: float
    sum_s: float
    slowest_s: float
    whole_s: float | None
    error_s: float

    @property
    def speedup(self) -> float | None:
        """Return how many times sooner it ends than without slices."""
        if self.whole_s is None or self.time_s == 0.0:
            return None
        return self.whole_s / self.time_s


def token_slices(
    times: Times | Mapping[int, Times],
    stages: int,
    *,
    sequences: int = 1,
    tokens: int | None = None,
    granularity: int = 1,
    epsilon_s: float = 0.0,
) -> TokenSlices | None:
    """Find the slices of sequences with which a pipeline over tokens (TeraPipe) ends soonest.

    Least is made the sum of all slices and `stages - 1` times the slowest, over every slicing and
    every way to share the batch out.

    Args:
        times: Seconds on one stage, forward and backward and sends, of a slice behind a context:
            a matrix with `times[length - 1, context]` in units of `granularity` tokens (infinite:
            not allowed), or a function of length and context in tokens. A mapping gives one of them
            for each number of sequences that may go through together.
        stages: Pipeline stages, all alike.
        sequences: Sequences in all.
        tokens: Tokens of a sequence, where times are functions.
        granularity: Tokens that a slice's length is a multiple of.
        epsilon_s: Slowest slices that lie closer than this are not told apart.

    Returns:
        The slices, or None where none are allowed.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need_count("stages", stages)
    need_count("sequences", sequences)
    need_count("granularity", granularity)
    tables = cast("Mapping[int, Times]", times if isinstance(times, Mapping) else {1: times})
    asked = {
        "tables": [
            {"sequences": count, "times_s": _table(f"times[{count}]", table, tokens, granularity)}
            for count, table in tables.items()
        ],
        "sequences": sequences,
        "stages": stages,
        "epsilon_s": epsilon_s,
    }
    with named_as(_PATHS):
        found: dict[str, Any] | None = json.loads(_engine.token_slices(json_text("", asked)))
    if found is None:
        return None
    found["parts"] = tuple(
        SlicedPart(
            sequences=part["sequences"],
            lengths=tuple(length * granularity for length in part["lengths"]),
            times_s=tuple(part["times_s"]),
        )
        for part in found["parts"]
    )
    return TokenSlices(**found)


def _table(
    field: str, times: Times, tokens: int | None, granularity: int
) -> list[list[float | None]]:
    """Return a row per length with a column per context; None: not allowed."""
    if callable(times):
        if tokens is None:
            message = "tokens: got nothing; allowed: a count where times are functions"
            raise InvalidError(message)
        need_count("tokens", tokens)
        if tokens % granularity:
            message = f"tokens: got {tokens}; allowed: a multiple of granularity, {granularity}"
            raise InvalidError(message)
        units = tokens // granularity
        if units > _MOST_UNITS:
            most = f"up to {_MOST_UNITS} times the granularity, {granularity}"
            message = f"tokens: got {tokens}; allowed: {most}"
            raise InvalidError(message)
        rows = [
            [times(length * granularity, c * granularity) for c in range(units - length + 1)]
            for length in range(1, units + 1)
        ]
        flat = floats(field, [time for row in rows for time in row]).tolist()
        given = iter(flat)
        return [[_allowed(next(given)) for _ in row] for row in rows]
    matrix = floats(field, times)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        message = f"{field}: got shape {matrix.shape}; allowed: lengths x contexts, as many of both"
        raise InvalidError(message)
    return [
        [_allowed(time) for time in row[: len(matrix) - place]]
        for place, row in enumerate(matrix.tolist())
    ]


def _allowed(time: float) -> float | None:
    """Return a time, or None for one without end."""
    return None if time == float("inf") else time
