"""Which constants bring predicted times nearest to measured ones?

Least sum of Huber's loss over `log(predicted / measured)`, in the logarithms of the constants, by
Levenberg-Marquardt steps inside bounds from several starts: the least of several algorithms wins
at each size, so one start may end where an algorithm never wins. Huber 1964; More 1978.

Constants that were measured before are known to a factor: they pull as measured rows do (`near`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    Vector = NDArray[float64]
    Flags = NDArray[bool_]
    Errors = Callable[[Vector], Vector]

# an error beyond this counts by its size, not by its square
_HUBER = 0.05
# what pulls a constant that nothing else moves back to where it was, in errors per factor e
_PULL = 2e-2
_STEP = 1e-5
_MOST_STEPS = 60
_LONGEST_STEP = 0.7
_COARSE, _FINE = 1e-2, 1e-6
_STARTS = 6
_SPREAD = 0.5
# rows are no truer than this, whatever their scatter
_LEAST_SCATTER = 0.01
# standard deviation over median size of what is normally distributed
_NORMAL = 1.4826
# a constant known to no better than this factor (in logarithms) is vague
_VAGUE = 0.5
_AKAIKE = 2.0
"""Squares of the scatter that a constant has to earn (Akaike 1974)."""
KNOWN = 0.5
"""How far off (in logarithms) a constant likely is that was measured on other rows."""


class Problem:
    """Errors as a function of constants, and what the constants may be; all in logarithms."""

    def __init__(
        self,
        errors: Errors,
        start: Vector,
        bounds: tuple[Vector, Vector],
        *,
        pull: float | Vector = _PULL,
        copies: float = 1.0,
    ) -> None:
        """Take the errors by row, the start, and the bounds below and above.

        Args:
            errors: Errors by row.
            start: Where constants were.
            bounds: The least and the most that they may be.
            pull: What pulls each back to its start, in errors per factor e.
            copies: Rows of each shape, which tell no more than one of them.
        """
        self.errors = errors
        self.start = start
        self.least, self.most = bounds
        self.pull, self.copies = pull, copies

    def inside(self, values: Vector) -> Vector:
        """Return the nearest values that are allowed."""
        return values.clip(self.least, self.most)

    def loss(self, values: Vector) -> float:
        """Return Huber's loss, doubled so that it is a sum of squares where errors are small."""
        import numpy as np

        size = np.abs(self.errors(values))
        return float(np.where(size <= _HUBER, size**2, _HUBER * (2 * size - _HUBER)).sum())

    def pulled(self, values: Vector) -> float:
        """Return the loss and what pulls constants back to their start."""
        return self.loss(values) + float((self.pull**2 * (values - self.start) ** 2).sum())

    def slopes(self, values: Vector, at: Vector, free: Flags) -> Vector:
        """Return the change of each error with each free constant."""
        import numpy as np

        columns = np.zeros((len(at), len(values)))
        for place in np.flatnonzero(free):
            # at the upper bound the step goes down
            step = -_STEP if values[place] + _STEP > self.most[place] else _STEP
            moved = values.copy()
            moved[place] += step
            columns[:, place] = (self.errors(moved) - at) / step
        return columns


def best(problem: Problem, starts: list[Vector], progress: Callable[[int, int], object]) -> Vector:
    """Return the constants of least loss from given starts and from some about the best of them."""
    import numpy as np

    everything = np.ones(len(problem.start), dtype=np.bool_)
    # the same files must give the same constants
    chance = np.random.default_rng(20)
    found: list[tuple[float, Vector]] = []
    for done in range(len(starts) + _STARTS):
        progress(done, len(starts) + _STARTS + 1)
        if done < len(starts):
            start = starts[done]
        else:
            middle = min(found, key=lambda pair: pair[0])[1]
            start = middle + chance.normal(0.0, _SPREAD, len(middle))
        end = descend(problem, problem.inside(start), everything, _COARSE)
        found.append((problem.loss(end), end))
    return descend(problem, min(found, key=lambda pair: pair[0])[1], everything)


def descend(problem: Problem, values: Vector, free: Flags, least_gain: float = _FINE) -> Vector:
    """Return where steps downhill from `values` end; constants that are not free stay.

    It ends at a step that lessens the loss by less than the share `least_gain`.
    """
    import numpy as np

    damping = 1e-3
    loss = problem.pulled(values)
    for _ in range(_MOST_STEPS):
        at = problem.errors(values)
        slopes = problem.slopes(values, at, free)
        weight = np.minimum(1.0, _HUBER / np.maximum(np.abs(at), 1e-300))
        pull = np.where(free, problem.pull**2, 1.0)
        matrix = slopes.T @ (slopes * weight[:, None]) + np.diag(pull)
        downhill = -slopes.T @ (weight * at) - np.where(free, pull * (values - problem.start), 0.0)
        # a constant at its bound that would leave it stays
        out = (downhill > 0) & (values >= problem.most) | (downhill < 0) & (values <= problem.least)
        stays = out | ~free
        matrix[stays, :] = matrix[:, stays] = 0.0
        matrix[stays, stays] = 1.0
        downhill[stays] = 0.0
        gain = 0.0
        while damping < 1e8:
            step = np.linalg.solve(matrix + damping * np.diag(np.diag(matrix)), downhill)
            step *= min(1.0, _LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
            moved = problem.inside(values + step)
            gain = loss - (lower := problem.pulled(moved))
            if gain > 0:
                values, loss, damping = moved, lower, max(damping / 5, 1e-9)
                break
            damping *= 4
        if gain <= least_gain * loss + 1e-15:
            break
    return values


def near(problem: Problem, known: Flags, others: Sequence[Vector]) -> tuple[Vector, Flags]:
    """Return constants near a start that was measured before, and which of them have moved.

    Each pulls back as a row would that told it to within `KNOWN`, so that what the rows hardly tell
    does not wander off where other shapes would show it.

    Args:
        problem: Errors and constants.
        known: Which of the start's values were measured.
        others: Where further descents begin.
    """
    import numpy as np

    everything = np.ones(len(problem.start), dtype=np.bool_)
    starts = [problem.start, *(problem.inside(other) for other in others)]
    ends = [descend(problem, start, everything, _COARSE) for start in starts]
    first = min(ends, key=problem.loss)
    held = Problem(
        problem.errors,
        problem.start,
        (problem.least, problem.most),
        pull=np.where(known, math.sqrt(problem.copies) * _scatter(problem, first) / KNOWN, _PULL),
        copies=problem.copies,
    )
    ends = [descend(held, start, everything) for start in (held.start, first)]
    shapes = len(problem.errors(problem.start)) / problem.copies
    values, moved, _ = settled(held, min(ends, key=held.pulled), price_of(shapes))
    return values, moved


def price_of(shapes: float) -> float:
    """Return the squares of the scatter that a constant earns which leaves a measured value.

    More rows find more effects of chance, and it has to stay for good reason (Schwarz 1978).
    """
    return max(_AKAIKE, math.log(shapes))


def settled(
    problem: Problem, values: Vector, price: float = _AKAIKE
) -> tuple[Vector, Flags, Flags]:
    """Return the constants, which of them were fitted, and of which the rows say too little.

    One constant after the other, the vaguest first, goes back to its start while the rest are
    fitted again; it stays there where the loss grows by less than `price` squares of the scatter,
    two by Akaike's criterion. What was only vaguely known is untold.
    """
    import numpy as np

    fitted = np.ones(len(values), dtype=np.bool_)
    judged, untold = ~fitted, ~fitted
    worth = price * problem.copies * _scatter(problem, values) ** 2
    while not judged.all():
        spread = _spread(problem, values, fitted)
        place = int(np.argmax(np.where(judged, -1.0, spread)))
        judged[place] = True
        without = fitted.copy()
        without[place] = False
        back = values.copy()
        back[place] = problem.start[place]
        again = descend(problem, back, without, _COARSE)
        if problem.loss(again) - problem.loss(values) <= worth:
            values, fitted = again, without
            untold[place] = spread[place] > _VAGUE
    return descend(problem, values, fitted), fitted, untold


def _scatter(problem: Problem, values: Vector) -> float:
    """Return the standard deviation of the errors, as their median says: outliers do not count."""
    import numpy as np

    middle = float(np.median(np.abs(problem.errors(values))))
    return max(_NORMAL * middle, _LEAST_SCATTER)


def _spread(problem: Problem, values: Vector, free: Flags) -> Vector:
    """Return how far each free constant may be off; before, a factor e either way is known."""
    import numpy as np

    slopes = problem.slopes(values, problem.errors(values), free)
    matrix = slopes.T @ slopes / _scatter(problem, values) ** 2 + np.eye(len(values))
    return np.sqrt(np.diag(np.linalg.inv(matrix)))
