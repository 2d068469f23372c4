"""Which constants do measured training steps give a device, and how well do these predict others?

Each constant that no run feels is set aside first; the rest are fitted as those of collectives are
(`fitting`): least sum of Huber's loss over `log(predicted / measured)`, then each constant, the
vaguest first, goes back where the loss hardly grows. Cross-validation repeats all of that without
one fold of the runs at a time, and predicts that fold.
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from scalewright.calibration.step_constants import StepBench, StepConstant, step_constants
from scalewright.calibration.step_override import override_texts
from scalewright.errors import InvalidError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy import float64
    from numpy.typing import NDArray

    from scalewright.calibration.fitting import Problem
    from scalewright.calibration.step_rows import StepRun

    Vector = NDArray[float64]
    Progress = Callable[[int, int], object]

FOLDS = 4
_RUNS_A_CONSTANT = 2
# by how much of itself a step must change with a constant to tell anything of it
_FELT = 0.01
_STEP = 0.05
_DIGITS = 4
_COARSE = 1e-3
_NAMED = 3
_FAR = 3.0
"""Factor between a predicted and a measured step at which a run is no run of that job."""


@dataclass(frozen=True)
class StepCalibration:
    """Fitted constants that only whole steps tell, and how well they predict."""

    device: str
    runs: tuple[dict[str, Any], ...]
    """By run: `place`, `measured_s`, `before_s`, `after_s`, `held_out_s`, `searched`."""
    constants: tuple[dict[str, Any], ...]
    """By constant: `name`, `unit`, `before`, `after`, `interval` over folds, `told_by` (how many
    runs, and those that tell most) and `status`: `fitted`; `confirmed`, as the runs give no reason
    to change it; `untold`, as they fix it too vaguely; `unfelt`, as none changes with it."""
    errors: dict[str, dict[str, float]]
    """Relative errors `before`, `after` and `held_out`: of their sizes `median_abs_error`,
    `mean_abs_error` and `worst_abs_error`; `median_error` with its sign."""
    better: bool
    """Whether held-out runs are predicted better than before."""
    overrides: dict[str, str]
    """TOML texts by the kind of entry that they change."""
    far: tuple[str, ...] = ()
    """Lines of runs that come out, held out, more than three times too fast or too slow."""
    notes: tuple[str, ...] = ()
    """What was taken for what lines leave open, and what seems wrong with them."""
    new_profile: str | None = None
    """The software profile that begins with these runs, as they say none; jobs have to name it."""

    @property
    def sound(self) -> bool:
        """Whether held-out runs are predicted better than before, and none implausibly."""
        return self.better and not self.far

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "device": self.device,
            "folds": FOLDS,
            "runs": list(self.runs),
            "constants": list(self.constants),
            "errors": self.errors,
            "better": self.better,
            "sound": self.sound,
            "far": list(self.far),
            "notes": list(self.notes),
            "new_profile": self.new_profile,
            "overrides": self.overrides,
        }


@dataclass(frozen=True)
class _Fit:
    """Constants after a fit to some runs, and what became of each."""

    values: dict[StepConstant, float]
    """Those that were fitted."""
    status: dict[StepConstant, str]


def calibrate_steps(
    runs: Sequence[StepRun],
    *,
    only: Sequence[str] = (),
    progress: Progress | None = None,
) -> StepCalibration:
    """Fit the constants of a device that whole steps tell.

    Args:
        runs: Measured runs, all on one kind of device.
        only: Names of the constants to be fitted, or their beginnings; all that can be, where none
            is given.
        progress: Called with the fits done and the fits in all.

    Raises:
        InvalidError: There are fewer runs than constants need.
        UnknownNameError: `only` names no constant of these runs.
    """
    which = _wanted(step_constants(runs), only)
    bench = StepBench(runs)
    felt = _felt(bench, which)
    moving = [constant for constant in which if any(size >= _FELT for size in felt[constant])]
    kinds = _kinds(runs)
    _need_runs(max(kinds) + 1, moving)
    told = progress or _silent
    told(0, FOLDS + 1)
    fit = _fitted(bench, moving)
    held_out = [0.0] * len(runs)
    folds: list[_Fit] = []
    for fold in range(FOLDS):
        told(fold + 1, FOLDS + 1)
        out = [place for place, kind in enumerate(kinds) if kind % FOLDS == fold]
        rest = [run for run, kind in zip(runs, kinds, strict=True) if kind % FOLDS != fold]
        folds.append(_fitted(StepBench(rest), moving))
        apart = StepBench([runs[place] for place in out])
        for place, time in zip(out, apart.times(folds[-1].values), strict=True):
            held_out[place] = time
    return _answer(bench, which, (fit, folds, felt), held_out)


def step_entries(runs: Sequence[StepRun], only: Sequence[str] = ()) -> list[tuple[str, str]]:
    """List the entries of the catalog, kind and name, that a fit to some runs may change.

    Raises:
        UnknownNameError: `only` names no constant of these runs.
    """
    return list(dict.fromkeys(constant.entry for constant in _wanted(step_constants(runs), only)))


def _kinds(runs: Sequence[StepRun]) -> list[int]:
    """Number the runs, those of the same job and plan alike: what repeats one tells no more."""
    numbers: dict[str, int] = {}
    found: list[int] = []
    for run in runs:
        system, training = (json.dumps(part, sort_keys=True) for part in (run.system, run.training))
        key = "|".join((run.model, system, str(run.devices), training, run.plan))
        found.append(numbers.setdefault(key, len(numbers)))
    return found


def _wanted(found: list[StepConstant], only: Sequence[str]) -> list[StepConstant]:
    for name in only:
        if not any(constant.name.startswith(name) for constant in found):
            known = ", ".join(constant.name for constant in found)
            message = f"fit: unknown name '{name:.60}'; known: {known}"
            raise UnknownNameError(message)
    return [c for c in found if not only or any(c.name.startswith(name) for name in only)]


def _felt(bench: StepBench, which: Sequence[StepConstant]) -> dict[StepConstant, list[float]]:
    """Return by constant and run by how much the step time changes with it, as an elasticity.

    Taken at the value now and at the usual one: at the end of its range a constant may do nothing.
    """
    found: dict[StepConstant, list[float]] = {}
    for constant in which:
        sizes = [0.0] * len(bench.runs)
        for value in (constant.start, constant.usual):
            step = -_STEP if value * math.exp(_STEP) > constant.most else _STEP
            here = bench.times({constant: value})
            there = bench.times({constant: value * math.exp(step)})
            slopes = [abs(math.log(b / a) / step) for a, b in zip(here, there, strict=True)]
            sizes = [max(pair) for pair in zip(sizes, slopes, strict=True)]
        found[constant] = sizes
    return found


def _need_runs(runs: int, moving: Sequence[StepConstant]) -> None:
    least = max(_RUNS_A_CONSTANT * len(moving), FOLDS)
    if runs >= least:
        return
    names = ", ".join(constant.name for constant in moving)
    message = (
        f"rows: got {runs} different runs to fit {len(moving)} constants ({names}); "
        f"allowed: {least} or more, or fewer constants (--fit NAME)"
    )
    raise InvalidError(message)


def _fitted(bench: StepBench, moving: Sequence[StepConstant]) -> _Fit:
    """Fit constants to all runs of a bench."""
    import numpy as np

    from scalewright.calibration.fitting import descend, settled

    if not moving:
        return _Fit({}, {})
    problem = _problem(bench, moving)
    everything = np.ones(len(moving), dtype=np.bool_)
    usual = np.log([constant.usual for constant in moving])
    starts = (problem.start, problem.inside(usual))
    ends = [descend(problem, start, everything, _COARSE) for start in starts]
    found, moved, untold = settled(problem, min(ends, key=problem.loss))
    status = np.where(moved, "fitted", np.where(untold, "untold", "confirmed")).tolist()
    rounded = [float(f"{value:.{_DIGITS}g}") for value in np.exp(found).tolist()]
    values = {
        constant: value
        for constant, value, what in zip(moving, rounded, status, strict=True)
        if what == "fitted"
    }
    return _Fit(values, dict(zip(moving, status, strict=True)))


def _problem(bench: StepBench, moving: Sequence[StepConstant]) -> Problem:
    import numpy as np

    from scalewright.calibration.fitting import Problem

    measured = np.log([run.measured_s for run in bench.runs])

    def errors(values: Vector) -> Vector:
        given = dict(zip(moving, np.exp(values).tolist(), strict=True))
        return np.log(bench.times(given)) - measured

    bounds = (np.log([c.least for c in moving]), np.log([c.most for c in moving]))
    return Problem(errors, np.log([c.start for c in moving]), bounds)


def _answer(
    bench: StepBench,
    which: Sequence[StepConstant],
    found: tuple[_Fit, Sequence[_Fit], dict[StepConstant, list[float]]],
    held_out: Sequence[float],
) -> StepCalibration:
    """Put together what was found and how well it predicts."""
    fit, folds, felt = found
    before, after = bench.times({}), bench.times(fit.values)
    times = {"before": before, "after": after, "held_out": list(held_out)}
    errors = {name: _errors(bench, predicted) for name, predicted in times.items()}
    runs = tuple(
        {
            "place": ", ".join(run.places),
            "measured_s": run.measured_s,
            "before_s": before[place],
            "after_s": after[place],
            "held_out_s": held_out[place],
            "searched": run.searched,
        }
        for place, run in enumerate(bench.runs)
    )
    basis = bench.runs[0].device.get("calibration", {}).get("basis", "")
    told = tuple(_told(c, bench, fit, folds, felt[c]) for c in which)
    pairs = zip(bench.runs, held_out, strict=True)
    factors = [(run, max(time / run.measured_s, run.measured_s / time)) for run, time in pairs]
    new = [constant.entry[1] for constant in fit.values if not constant.known]
    return StepCalibration(
        device=str(bench.runs[0].device["name"]),
        runs=runs,
        constants=told,
        errors=errors,
        better=bool(fit.values)
        and errors["held_out"]["mean_abs_error"] < errors["before"]["mean_abs_error"],
        overrides=override_texts(fit.values, _source(bench, errors), str(basis)),
        far=tuple(place for run, factor in factors if factor > _FAR for place in run.places),
        notes=tuple(note for run in bench.runs for note in run.notes),
        new_profile=new[0] if new else None,
    )


def _told(
    constant: StepConstant,
    bench: StepBench,
    fit: _Fit,
    folds: Sequence[_Fit],
    felt: Sequence[float],
) -> dict[str, Any]:
    """Return what is told of a constant."""
    status = fit.status.get(constant, "unfelt")
    after = fit.values.get(constant, constant.before)
    across = [fold.values.get(constant, constant.start) for fold in folds]
    order = sorted(range(len(felt)), key=lambda place: -felt[place])
    telling = [place for place in order if felt[place] >= _FELT]
    return {
        "name": constant.name,
        "unit": constant.unit,
        "before": constant.before,
        "after": after,
        "status": status,
        "interval": [min(across), max(across)] if status == "fitted" else None,
        "told_by": {
            "runs": len(telling),
            "most": [bench.runs[place].place for place in telling[:_NAMED]],
        },
    }


def _errors(bench: StepBench, predicted: Sequence[float]) -> dict[str, float]:
    pairs = zip(predicted, bench.runs, strict=True)
    errors = [time / run.measured_s - 1.0 for time, run in pairs]
    sizes = [abs(error) for error in errors]
    return {
        "median_abs_error": statistics.median(sizes),
        "mean_abs_error": statistics.fmean(sizes),
        "worst_abs_error": max(sizes),
        "median_error": statistics.median(errors),
    }


def _source(bench: StepBench, errors: dict[str, dict[str, float]]) -> str:
    lines: dict[str, list[str]] = {}
    for run in bench.runs:
        for place in run.places:
            file, _, line = place.rpartition(", line ")
            lines.setdefault(PurePath(file).name, []).append(line)
    rows = "; ".join(f"lines {', '.join(found)} of {file}" for file, found in lines.items())
    return (
        f"Fitted by `scalewright calibrate step` to {rows}: mean error "
        f"{errors['before']['mean_abs_error']:.1%} before, "
        f"{errors['after']['mean_abs_error']:.1%} after, "
        f"{errors['held_out']['mean_abs_error']:.1%} on runs held out in {FOLDS} folds"
    )


def _silent(done: int, total: int) -> None:
    """Tell nobody."""
