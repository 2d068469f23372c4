"""How does a search go on from where it is, and what stays of it where it is stopped?"""

from __future__ import annotations

import os
from contextlib import closing
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from scalewright import _engine
    from scalewright.searching.state import Piece, State

    Progress: TypeAlias = Callable[[int, int], object]
    Incumbent: TypeAlias = Callable[[], str | None]

_PIECE_S = 0.5
"""What a stop loses, and how long the cores work between two looks at the state."""
_EACH = 4
"""Units of a piece for each core, at least: fewer would leave cores idle at its end."""
_GROWTH = 4


class WorkerPool(Protocol):
    """Who walks units."""

    in_waves: bool
    """True where units get what the waves before theirs found, and nothing else, as incumbent: then
    what they count depends neither on their order nor on time. False: all that is known by then."""

    def walk(
        self, left: Sequence[tuple[int, int]], incumbent: Incumbent, tell: Progress | None
    ) -> Generator[Piece]:
        """Yield pieces that cover the ranges, in any order.

        `tell` hears of units walked that are not yet yielded.
        """
        ...


class LocalWorkers:
    """The cores of this process."""

    in_waves = True

    def __init__(self, search: _engine.Search) -> None:
        """Walk units of this search."""
        self._search = search
        self._least = _EACH * (os.cpu_count() or 1)
        self._units = self._least

    def walk(
        self, left: Sequence[tuple[int, int]], incumbent: Incumbent, tell: Progress | None
    ) -> Generator[Piece]:
        """Yield pieces one after another, each walked by all cores."""
        for first, end in left:
            at = first
            while at < end:
                last = min(at + self._units, end)
                start = perf_counter()
                part = self._search.run(at, last, incumbent(), progress=tell)
                self._learn(last - at, perf_counter() - start)
                yield at, last, part
                at = last

    def _learn(self, units: int, elapsed_s: float) -> None:
        """Size the next piece by the pace of the last one."""
        wanted = int(units * _PIECE_S / max(elapsed_s, 1e-6))
        self._units = max(self._least, min(wanted, self._units * _GROWTH))


class Walk:
    """A search under way; its state is whole at any moment at which Ctrl-C may come."""

    def __init__(
        self,
        search: _engine.Search,
        state: State,
        keep: Callable[[State], None],
        progress: Progress | None,
    ) -> None:
        """Go on from a state; `keep` sees each state that follows."""
        self.state = state
        self._search = search
        self._keep = keep
        self._progress = progress

    def go(self, workers: WorkerPool) -> bool:
        """Walk what is left; false where Ctrl-C came before all was."""
        units = self._search.units
        bounds = self._search.waves if workers.in_waves else [0, units]
        try:
            self._tell(0, 0)
            for first, last in pairwise(bounds):
                left = list(self.state.left(first, last))
                if left:
                    self._wave(workers, first, left)
        except KeyboardInterrupt:
            return self.state.walked() == units
        return True

    def _wave(self, workers: WorkerPool, first: int, left: list[tuple[int, int]]) -> None:
        if self.state.start != first or not workers.in_waves:
            self.state = self.state.turned(self._search, first)
        tell = None if self._progress is None else self._tell
        pieces = workers.walk(left, lambda: self.state.before, tell)
        with closing(pieces):
            for piece in pieces:
                state = self.state.joined(self._search, piece)
                self.state = state if workers.in_waves else state.turned(self._search, first)
                self._keep(self.state)
                self._tell(0, 0)

    def _tell(self, done: int, _: int) -> None:
        if self._progress is not None:
            self._progress(self.state.walked() + done, self._search.units)
