"""Which constants make the typical error least, where errors jump as constants move?

Waves and choices of kernels make times step functions of their constants, so slopes say little.
Each constant in turn goes up or down by a factor, which grows where that helps and shrinks where it
does not: a pattern search in logarithms (Hooke and Jeeves 1961), from several starts.

Constants that were measured before are known to a factor: they pull as measured rows do (`near`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright.calibration.fitting import KNOWN, price_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    Vector = NDArray[float64]
    Flags = NDArray[bool_]

# an error beyond this (in logarithms) counts no more
_FAR = 1.5
# weight of the median beside the mean of the errors' sizes
_MEDIAN = 0.5
_FIRST_STEP, _SHORT_STEP, _LAST_STEP = 0.5, 0.1, 0.01
_GROWTH, _SHRINKAGE = 1.6, 0.5
_MOST_ROUNDS = 400
# a step that gains less is none: what the rows do not tell stays at its start
_LEAST_GAIN = 1e-6
_SPREAD = 0.5
# a loss below that of errors of 1% does not come from what is timed
_LEAST_LOSS = 0.01
_MORE = 2


@dataclass(frozen=True)
class Regularisation:
    """What pulls constants back to where they were."""

    start: Vector
    weights: Vector
    """Loss for a factor e of each."""


class Search:
    """Searches constants inside bounds; all in logarithms."""

    def __init__(
        self,
        errors: Callable[[Vector], Vector],
        least: Vector,
        most: Vector,
        pull: Regularisation | None = None,
    ) -> None:
        """Take the errors by row as a function of the constants, the bounds, and what pulls."""
        self._errors = errors
        self._least, self._most = least, most
        self._pull = pull

    def best(self, starts: Sequence[Vector], more: int) -> Vector:
        """Return the best constants from all starts, and from `more` about the best of them."""
        import numpy as np

        # the same rows must give the same constants
        chance = np.random.default_rng(20)
        found = min((self._descend(start) for start in starts), key=lambda pair: pair[0])
        for _ in range(more):
            moved = found[1] + chance.normal(0.0, _SPREAD, len(found[1]))
            found = min(found, self._descend(moved), key=lambda pair: pair[0])
        return found[1]

    def near(
        self, start: Vector, known: Flags, others: Sequence[Vector], shapes: int
    ) -> tuple[Vector, Flags]:
        """Return constants near a start that was measured before, and which of them have moved.

        As `fitting.near` does: each pulls back as a row would that told it to within `KNOWN`; then
        one after the other, the one that matters least first, goes back where the loss hardly
        grows. Errors beyond their typical size count as of a double exponential distribution.

        Args:
            start: The constants.
            known: Which of them were measured.
            others: Where further searches begin.
            shapes: Different shapes among the rows: copies of one tell no more.
        """
        import numpy as np

        start = start.clip(self._least, self._most)
        first = self.best([start, *others], _MORE)
        a_row = max(self.loss(first), _LEAST_LOSS) / shapes
        pull = Regularisation(start, np.where(known, a_row / (2.0 * KNOWN**2), 0.0))
        held = Search(self._errors, self._least, self._most, pull)
        values = held.best([start, first], _MORE)
        moved = np.abs(values - start) > 1e-9
        values = np.where(moved, values, start)
        worth = price_of(shapes) * a_row
        for place in self._by_weight(values, start, moved):
            fewer = moved.copy()
            fewer[place] = False
            back = np.where(fewer, values, start)
            again = held.descend(back, fewer, _SHORT_STEP)[1]
            if self.loss(again) - self.loss(values) <= worth:
                values, moved = again, fewer
        return values, moved

    def _by_weight(self, values: Vector, start: Vector, moved: Flags) -> list[int]:
        """List the constants that have moved, those first that matter least alone."""
        import numpy as np

        grown: dict[int, float] = {}
        for place in np.flatnonzero(moved).tolist():
            back = values.copy()
            back[place] = start[place]
            grown[place] = self.loss(back)
        return sorted(grown, key=grown.__getitem__)

    def loss(self, values: Vector) -> float:
        """Return the loss of the rows."""
        import numpy as np

        sizes = np.abs(self._errors(values))
        return float(np.minimum(sizes, _FAR).mean() + _MEDIAN * np.median(sizes))

    def _pulled(self, values: Vector) -> float:
        loss = self.loss(values)
        if self._pull is None:
            return loss
        return loss + float((self._pull.weights * (values - self._pull.start) ** 2).sum())

    def _descend(self, start: Vector) -> tuple[float, Vector]:
        import numpy as np

        return self.descend(start, np.ones(len(start), dtype=np.bool_))

    def descend(
        self, start: Vector, free: Flags, first_step: float = _FIRST_STEP
    ) -> tuple[float, Vector]:
        """Return the least loss that steps from `start` reach, and its constants."""
        import numpy as np

        values = start.clip(self._least, self._most)
        loss = self._pulled(values)
        steps = np.where(free, first_step, 0.0)
        for _ in range(_MOST_ROUNDS):
            for place in np.flatnonzero(free).tolist():
                for sign in (1.0, -1.0):
                    moved = values.copy()
                    moved[place] += sign * steps[place]
                    moved = moved.clip(self._least, self._most)
                    lower = self._pulled(moved)
                    if lower < loss - _LEAST_GAIN:
                        values, loss = moved, lower
                        steps[place] *= _GROWTH
                        break
                else:
                    steps[place] *= _SHRINKAGE
            if steps.max() < _LAST_STEP:
                break
        return loss, values
