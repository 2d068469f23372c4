"""Which units of a search are walked, and what did they find?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scalewright import _engine

Piece: TypeAlias = "tuple[int, int, str]"
"""First unit, the unit behind the last, and the part that they are."""


@dataclass(frozen=True)
class State:
    """How far a search is."""

    done: tuple[tuple[int, int], ...] = ()
    """Ranges of units that are walked, in order, apart from one another."""
    before: str | None = None
    """The part that further units get as their incumbent."""
    within: str | None = None
    """The part of units that are walked but not in `before`: those of the wave under way."""
    start: int = 0
    """Where that wave begins."""

    def joined(self, search: _engine.Search, piece: Piece) -> State:
        """Return the state with one more piece of the wave under way."""
        first, last, part = piece
        ranges: list[tuple[int, int]] = []
        for start, end in sorted([*self.done, (first, last)]):
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((start, end))
        within = part if self.within is None else search.merge([self.within, part])
        return replace(self, done=tuple(ranges), within=within)

    def turned(self, search: _engine.Search, start: int) -> State:
        """Return the state at the start of a wave: what is walked is its incumbent."""
        return State(self.done, self.part(search), None, start)

    def part(self, search: _engine.Search) -> str | None:
        """Return the part of all units walked; none where there are none."""
        if self.before is None or self.within is None:
            return self.before or self.within
        return search.merge([self.before, self.within])

    def left(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges from `first` to before `last` that are still to be walked."""
        at = first
        for start, end in (*self.done, (last, last)):
            if at < min(start, last):
                yield at, min(start, last)
            at = max(at, end)

    def walked(self) -> int:
        """Return how many units are walked."""
        return sum(end - start for start, end in self.done)
