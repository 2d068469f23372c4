"""Which constants do timed matrix products give a device, and how well do these predict?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.calibration.families import FINE_TILES, Family, family, table, with_values
from scalewright.calibration.kernels import (
    FOLDS,
    Bench,
    KernelCalibration,
    calibrated,
    need_rows,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    from scalewright.calibration.constants import Constant
    from scalewright.calibration.fitting import Problem
    from scalewright.reproductions.kernels.rows import KernelRow

    Vector = NDArray[float64]
    Flags = NDArray[bool_]
    Path = tuple[str, ...]
    Values = dict[Path, float]

_DIGITS = 4
_EARNED = 0.8
"""Share of the loss that finer tiles may leave at most: chance must not choose among many."""
# the same files must give the same constants
_SEED, _STARTS, _SPREAD = 7, 6, 0.8


def calibrate_products(
    rows: Sequence[KernelRow],
    device: Mapping[str, Any],
    progress: Callable[[int, int], object] | None = None,
) -> KernelCalibration:
    """Fit the constants of a device's matrix products to timed ones.

    Args:
        rows: What was timed, all on this device.
        device: The fields of the device.
        progress: Called with the families done and the families in all.

    Raises:
        InvalidError: There are too few rows of a family.
    """
    groups: dict[Path, list[KernelRow]] = {}
    for row in rows:
        groups.setdefault(table(row.shape.request), []).append(row)
    # the plain formats first: they tell what a launch takes
    return calibrated(groups, sorted(groups, key=len), device, _fitted, progress)


def _fitted(
    _path: Path, rows: Sequence[KernelRow], device: dict[str, Any], apart: set[tuple[str, int]]
) -> tuple[dict[str, Any], Values]:
    """Return what is told of a family, and the new values of its constants."""
    import numpy as np

    rows = sorted(rows, key=lambda row: (row.shape.work, row.line))
    kind = family([row.shape.request for row in rows], device)
    held = np.array([(row.file, row.line) in apart for row in rows], dtype=np.bool_)
    need_rows(kind.name, _not_held(rows, held), len(kind.constants))
    trials = [_trial(rows, device, kind, ~held, dict(fixed)) for fixed in _tries(kind)]
    _, fixed, values = _nearest(trials)
    bench = _bench(rows, with_values(device, fixed), kind)
    after = {
        **fixed,
        **{
            path: float(f"{value:.{_DIGITS}g}")
            for path, value in zip(_paths(kind), np.exp(values).tolist(), strict=True)
        },
    }
    ratios = bench.times(after) / np.exp(bench.log_measured)
    crossed = _crossed(rows, with_values(device, fixed), kind, ~held, values)
    measured = np.exp(bench.log_measured)
    parts = {
        "held_out": (ratios[held], measured[held]),
        "fitted": (ratios[~held], measured[~held]),
        "cross_validation": (crossed, measured[~held]),
    }
    return told(kind.name, rows, device, after, parts), after


def _nearest(trials: Sequence[tuple[float, Values, Vector]]) -> tuple[float, Values, Vector]:
    """Return the trial of least loss; one with more tiles to choose from has to earn them."""
    best = min(trials, key=lambda trial: trial[0])
    plain = [trial for trial in trials if not any(trial[1][p] is True for p in _fine(trial[1]))]
    usual = min(plain, key=lambda trial: trial[0])
    return best if best[0] < _EARNED * usual[0] else usual


def _fine(fixed: Values) -> list[Path]:
    return [path for path in fixed if path[-1] == FINE_TILES]


def _not_held(rows: Sequence[KernelRow], held: Flags) -> list[KernelRow]:
    return [row for row, out in zip(rows, held, strict=True) if not out]


def _paths(kind: Family) -> list[Path]:
    return [constant.path for constant in kind.constants]


def _bench(rows: Sequence[KernelRow], device: Mapping[str, Any], kind: Family) -> Bench:
    return Bench(rows, device, _paths(kind))


def _tries(kind: Family) -> list[list[tuple[tuple[str, ...], float]]]:
    """List the settings of what is tried rather than descended on."""
    tries: list[list[tuple[tuple[str, ...], float]]] = [[]]
    for constant, values in kind.fixed:
        tries = [[*given, (constant.path, value)] for given in tries for value in values]
    return tries


def _trial(
    rows: Sequence[KernelRow],
    device: dict[str, Any],
    kind: Family,
    chosen: Flags,
    fixed: Values,
) -> tuple[float, Values, Vector]:
    import numpy as np

    from scalewright.calibration.fitting import best

    problem = _problem(rows, with_values(device, fixed), kind, chosen)
    chance = np.random.default_rng(_SEED)
    starts = [np.log(start) for start in kind.starts]
    starts += [
        problem.inside(start + chance.normal(0.0, _SPREAD, len(start)))
        for start in starts
        for _ in range(_STARTS)
    ]
    values = best(problem, starts, lambda _done, _total: None)
    return problem.loss(values), fixed, values


def _problem(
    rows: Sequence[KernelRow], device: dict[str, Any], kind: Family, chosen: Flags
) -> Problem:
    import numpy as np

    from scalewright.calibration.fitting import Problem

    bench = _bench([row for row, fits in zip(rows, chosen, strict=True) if fits], device, kind)
    bounds = _bounds(kind.constants)
    return Problem(bench.errors, np.log(kind.starts[0]), bounds)


def _bounds(constants: Sequence[Constant]) -> tuple[Vector, Vector]:
    import numpy as np

    return (
        np.log([constant.least for constant in constants]),
        np.log([constant.most for constant in constants]),
    )


def _crossed(
    rows: Sequence[KernelRow],
    device: dict[str, Any],
    kind: Family,
    chosen: Flags,
    values: Vector,
) -> Vector:
    """Return predicted over measured times of the chosen rows, each fold fitted without it."""
    import numpy as np

    from scalewright.calibration.fitting import descend

    places = np.flatnonzero(chosen)
    ratios = np.empty(len(places))
    everything = np.ones(len(values), dtype=np.bool_)
    for fold in range(FOLDS):
        out = np.zeros(len(rows), dtype=np.bool_)
        out[places[fold::FOLDS]] = True
        problem = _problem(rows, device, kind, chosen & ~out)
        found = descend(problem, values, everything, 1e-3)
        judged = _problem(rows, device, kind, out)
        ratios[fold::FOLDS] = np.exp(judged.errors(found))
    return ratios
