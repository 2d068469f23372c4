"""Which constants make the typical error least, where errors jump as constants move?

Waves and choices of kernels make times step functions of their constants, so slopes say little.
Each constant in turn goes up or down by a factor, which grows where that helps and shrinks where it
does not: a pattern search in logarithms (Hooke and Jeeves 1961), from several starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy import float64
    from numpy.typing import NDArray

    Vector = NDArray[float64]

# an error beyond this (in logarithms) counts no more
_FAR = 1.5
# weight of the median beside the mean of the errors' sizes
_MEDIAN = 0.5
_FIRST_STEP, _LAST_STEP = 0.5, 0.01
_GROWTH, _SHRINKAGE = 1.6, 0.5
_MOST_ROUNDS = 400
# a step that gains less is none: what the rows do not tell stays at its start
_LEAST_GAIN = 1e-6
_SPREAD = 0.5


class Search:
    """Searches constants inside bounds; all in logarithms."""

    def __init__(self, errors: Callable[[Vector], Vector], least: Vector, most: Vector) -> None:
        """Take the errors by row as a function of the constants, and the bounds."""
        self._errors = errors
        self._least, self._most = least, most

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

    def _loss(self, values: Vector) -> float:
        import numpy as np

        sizes = np.abs(self._errors(values))
        return float(np.minimum(sizes, _FAR).mean() + _MEDIAN * np.median(sizes))

    def _descend(self, start: Vector) -> tuple[float, Vector]:
        import numpy as np

        values = start.clip(self._least, self._most)
        loss = self._loss(values)
        steps = np.full(len(values), _FIRST_STEP)
        for _ in range(_MOST_ROUNDS):
            for place in range(len(values)):
                for sign in (1.0, -1.0):
                    moved = values.copy()
                    moved[place] += sign * steps[place]
                    moved = moved.clip(self._least, self._most)
                    lower = self._loss(moved)
                    if lower < loss - _LEAST_GAIN:
                        values, loss = moved, lower
                        steps[place] *= _GROWTH
                        break
                else:
                    steps[place] *= _SHRINKAGE
            if steps.max() < _LAST_STEP:
                break
        return loss, values
