"""Which constants do timed matrix products give a device, and how well do these predict?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from scalewright.calibration.families import FINE_TILES, Family, family, table, with_values
from scalewright.calibration.kernels import (
    Bench,
    FittedFamily,
    KernelCalibration,
    calibrated,
    felt,
    folds,
    known_of,
    need_rows,
    rounded,
    shapes_of,
    told,
)
from scalewright.calibration.known import own_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    from scalewright.calibration.fitting import Problem
    from scalewright.reproductions.kernels.rows import KernelRow

    Vector = NDArray[float64]
    Flags = NDArray[bool_]
    Path = tuple[str, ...]
    Values = dict[Path, float]

_DIGITS = 4
_EARNED = 0.8
"""Share of the loss that finer tiles may leave at most: chance must not choose among many."""
_SHAPES_A_FORMAT = 12
"""Shapes of a format without which the share of the peak in it stays as it is."""
# the same files must give the same constants
_SEED, _STARTS, _SPREAD = 7, 6, 0.8


class _Trial(NamedTuple):
    """A fit with some settings of what is tried rather than descended on."""

    loss: float
    fixed: Values
    values: Vector
    moved: Flags


@dataclass(frozen=True)
class _Task:
    """Rows of one family, in order of work, and what is fitted to some of them."""

    rows: Sequence[KernelRow]
    device: dict[str, Any]
    kind: Family
    own: Values
    """What the device has of the family already; empty where a fit begins at no device's values."""

    @property
    def paths(self) -> list[Path]:
        return [constant.path for constant in self.kind.constants]

    @property
    def known(self) -> Flags:
        import numpy as np

        return np.array([path in self.own for path in self.paths], dtype=np.bool_)

    def problem(self, chosen: Flags, fixed: Values) -> Problem:
        """Return the errors of the chosen rows as a function of the constants."""
        import numpy as np

        from scalewright.calibration.fitting import Problem

        rows = [row for row, fits in zip(self.rows, chosen, strict=True) if fits]
        bench = Bench(rows, with_values(self.device, fixed), self.paths)
        usual = zip(self.kind.constants, self.kind.starts[0], strict=True)
        start = np.log([self.own.get(constant.path, value) for constant, value in usual])
        constants = self.kind.constants
        bounds = (np.log([c.least for c in constants]), np.log([c.most for c in constants]))
        copies = len(rows) / max(shapes_of(rows), 1) if self.own else 1.0
        return Problem(bench.errors, start.clip(*bounds), bounds, copies=copies)

    def starts(self) -> list[Vector]:
        """Return where fits begin that no device's values guide."""
        import numpy as np

        return [np.log(start) for start in self.kind.starts]


def calibrate_products(
    rows: Sequence[KernelRow],
    device: Mapping[str, Any],
    progress: Callable[[int, int], object] | None = None,
    *,
    afresh: bool = False,
    force: bool = False,
) -> KernelCalibration:
    """Fit the constants of a device's matrix products to timed ones.

    Args:
        rows: What was timed, all on this device.
        device: The fields of the device.
        progress: Called with the families done and the families in all.
        afresh: Begin at values of no device, though those of this one were measured.
        force: Take constants that predict held-out rows worse than those of the device, too.

    Raises:
        InvalidError: There are too few rows of a family.
    """
    groups: dict[Path, list[KernelRow]] = {}
    for row in rows:
        groups.setdefault(table(row.shape.request), []).append(row)
    refused: list[str] = []
    for path, group in groups.items():
        if len(path) == 1:
            groups[path] = _of_told_formats(group, refused)
    # the plain formats first: they tell what a launch takes
    fit = partial(_fitted, afresh=afresh)
    order = sorted(groups, key=len)
    return calibrated(groups, order, device, fit, progress, refused=refused, force=force)


def _of_told_formats(rows: list[KernelRow], refused: list[str]) -> list[KernelRow]:
    """Return the rows of formats that have shapes enough to tell their share of the peak."""
    shapes = Counter(
        str(row.shape.request["a"]) for row in {row.timed: row for row in rows}.values()
    )
    most = max(shapes, key=shapes.__getitem__)
    few = {name for name, count in shapes.items() if count < _SHAPES_A_FORMAT and name != most}
    for name in sorted(few):
        own = [row for row in rows if row.shape.request["a"] == name]
        refused.append(
            f"{own[0].file}, line {own[0].line}: shapes: got {shapes[name]} in {name} to fit "
            f"matmul.efficiency.{name}; allowed: {_SHAPES_A_FORMAT} or more"
        )
    return [row for row in rows if row.shape.request["a"] not in few]


def _fitted(
    _path: Path,
    rows: Sequence[KernelRow],
    device: dict[str, Any],
    apart: set[tuple[str, int]],
    *,
    afresh: bool,
) -> FittedFamily:
    """Return what is told of a family, and the new values of its constants."""
    import numpy as np

    rows = sorted(rows, key=lambda row: (row.shape.work, row.line))
    kind = family([row.shape.request for row in rows], device)
    held = np.array([(row.file, row.line) in apart for row in rows], dtype=np.bool_)
    fitted = [row for row, out in zip(rows, held, strict=True) if not out]
    need_rows(kind.name, fitted, len(kind.constants))
    own = known_of(device, [constant.path for constant in kind.constants], afresh=afresh)
    task = _Task(rows, device, kind, own)
    best = _nearest(task, [_trial(task, ~held, fixed) for fixed in _tries(task)])
    after = _after(task, best)
    bench = Bench(rows, device, ())
    measured = np.exp(bench.log_measured)
    ratios = bench.times(after) / measured
    crossed = _crossed(task, ~held, best)
    parts = {
        "held_out": (ratios[held], measured[held]),
        "fitted": (ratios[~held], measured[~held]),
        "cross_validation": (crossed, measured[~held]),
    }
    every = [*best.fixed, *task.paths]
    return FittedFamily(told(kind.name, rows, device, (every, after), parts), after)


def _after(task: _Task, best: _Trial) -> Values:
    """Return the new values of the constants that do not stay as the device has them."""
    fixed = {path: v for path, v in best.fixed.items() if own_value(task.device, path) != v}
    after = {
        **(fixed if task.own else best.fixed),
        **rounded(task.paths, best.values, best.moved, _DIGITS),
    }
    usual = rounded(task.paths, best.values, ~best.moved & ~task.known, _DIGITS)
    return {**after, **felt(task.rows, task.device, after, usual)}


def _nearest(task: _Task, trials: Sequence[_Trial]) -> _Trial:
    """Return the trial of least loss; one with more tiles to choose from has to earn them.

    So has one with other settings than those that were measured before, the first.
    """
    from scalewright.calibration.fitting import price_of

    best = min(trials, key=lambda trial: trial.loss)
    if task.own:
        usual = trials[0]
        shapes = shapes_of(task.rows)
        share = min(_EARNED, 1.0 - price_of(shapes) / shapes)
        return best if best.loss < share * usual.loss else usual
    plain = [trial for trial in trials if not any(trial.fixed[p] is True for p in _fine(trial))]
    usual = min(plain, key=lambda trial: trial.loss)
    return best if best.loss < _EARNED * usual.loss else usual


def _fine(trial: _Trial) -> list[Path]:
    return [path for path in trial.fixed if path[-1] == FINE_TILES]


def _tries(task: _Task) -> list[Values]:
    """List the settings of what is tried rather than descended on, those of the device first."""
    tries: list[Values] = [{}]
    for constant, values in task.kind.fixed:
        own = own_value(task.device, constant.path) if task.own else None
        first = own if isinstance(own, (bool, float)) else values[0]
        order = [first, *(value for value in values if value != first)]
        tries = [{**given, constant.path: value} for value in order for given in tries]
    return tries


def _trial(task: _Task, chosen: Flags, fixed: Values) -> _Trial:
    import numpy as np

    from scalewright.calibration.fitting import best, near

    problem = task.problem(chosen, fixed)
    if task.own:
        values, moved = near(problem, task.known, task.starts())
        return _Trial(problem.loss(values), fixed, values, moved)
    chance = np.random.default_rng(_SEED)
    starts = task.starts()
    starts += [
        problem.inside(start + chance.normal(0.0, _SPREAD, len(start)))
        for start in starts
        for _ in range(_STARTS)
    ]
    values = best(problem, starts, lambda _done, _total: None)
    return _Trial(problem.loss(values), fixed, values, np.ones(len(values), dtype=np.bool_))


def _crossed(task: _Task, chosen: Flags, found: _Trial) -> Vector:
    """Return predicted over measured times of the chosen rows, each fold fitted without it."""
    import numpy as np

    from scalewright.calibration.fitting import descend, near

    places = np.flatnonzero(chosen)
    ratios = np.empty(len(places))
    everything = np.ones(len(found.values), dtype=np.bool_)
    for fold in folds([task.rows[place] for place in places.tolist()]):
        out = np.zeros(len(task.rows), dtype=np.bool_)
        out[places[fold]] = True
        problem = task.problem(chosen & ~out, found.fixed)
        if task.own:
            values, _ = near(problem, task.known, [found.values])
        else:
            values = descend(problem, found.values, everything, 1e-3)
        ratios[fold] = np.exp(task.problem(out, found.fixed).errors(values))
    return ratios
