"""Which constants do measured rows give a level of a system, and how well do these predict?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from scalewright.calibration.constants import Constant, changed, constants
from scalewright.calibration.measured import HELD_OUT, Measured, SkippedLine, held_out
from scalewright.calibration.override import override_text
from scalewright.calibration.pricing import Bench
from scalewright.calibration.residuals import residuals
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    from scalewright.planning import System

    Vector = NDArray[float64]
    Flags = NDArray[bool_]

_LEAST_SIZES = 2
_LINES_NAMED = 5


_BAD = 0.5
"""Median error of the fitted rows at which a fit is none."""
_NEAR = 0.05
"""Median error of held-out rows up to which nobody minds that the old constants came nearer."""


@dataclass(frozen=True)
class Calibration:
    """Fitted constants of one level, what they rest on and how well they predict."""

    system: str
    level: str
    in_place: bool
    files: tuple[str, ...]
    rows: dict[str, int]
    """How many rows were read, fitted, held out, and left out since they cross another level."""
    constants: tuple[dict[str, Any], ...]
    """By constant: `name`, `before`, `after`, and `status`: `fitted`, `confirmed` (the rows tell it
    and give no reason to change it) or `untold` (they do not)."""
    errors: dict[str, list[dict[str, Any]]]
    """Lines of `residuals`: `held_out`, `fitted`, and `held_out_before` with the old constants."""
    override: str
    """The TOML text of the override."""
    left_out: tuple[str, ...] = ()
    """Lines that cannot be used, with the reason."""

    @property
    def sound(self) -> bool:
        """Whether fitted rows are within a half, and held-out ones no worse off than before."""
        if self.errors["fitted"][0]["median_abs_error"] > _BAD:
            return False
        after, before = (
            [line["median_abs_error"] for line in self.errors[kind][:1]]
            for kind in ("held_out", "held_out_before")
        )
        return not after or not before or after[0] <= max(before[0], _NEAR)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "system": self.system,
            "level": self.level,
            "in_place": self.in_place,
            "files": list(self.files),
            "split": HELD_OUT,
            "rows": self.rows,
            "constants": list(self.constants),
            "errors": self.errors,
            "sound": self.sound,
            "override": self.override,
            "left_out": list(self.left_out),
        }


def calibrate(
    rows: Sequence[Measured | SkippedLine],
    system: System,
    level: str | None = None,
    *,
    in_place: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Calibration:
    """Fit the constants of one level of a system to measured rows.

    Args:
        rows: What was measured; lines that cannot be used are named in the answer.
        system: The machines; constants of its other levels stay as they are.
        level: The level's name; may be left out where all rows cross the same one.
        in_place: Fit the times in place rather than those out of place.
        progress: Called with the steps done and the steps in all.

    Raises:
        InvalidError: There are too few rows, or they do not say which level is meant.
    """
    import numpy as np

    measured = [row for row in rows if isinstance(row, Measured)]
    measured = _timed_in_place(measured) if in_place else measured
    everything = Bench(measured, system, in_place=in_place)
    crossed = everything.outermost()
    place = _level(everything, crossed, level)
    crossing = [row for row, at in zip(measured, crossed, strict=True) if at == place]
    bench = Bench(crossing, system, in_place=in_place)
    apart = np.array(held_out(bench.rows), dtype=np.bool_)
    wrong = tuple(str(row) for row in rows if isinstance(row, SkippedLine))
    if len({row.buffer_bytes for row in bench.rows}) < _LEAST_SIZES:
        message = f"rows: got one size; allowed: {_LEAST_SIZES} or more, small ones and large ones"
        raise InvalidError("; left out: ".join([message, *wrong[:_LINES_NAMED]]))
    which = constants(bench.levels[place], innermost=place == 0)
    before = np.array([constant.of(bench.levels[place]) for constant in which])
    after, status = _fitted(bench, (place, which), ~apart, progress or _silent)
    found = _answer(bench, (place, which), (before, after, status), apart, len(measured))
    return replace(found, left_out=wrong)


def _timed_in_place(rows: Sequence[Measured]) -> list[Measured]:
    timed = [
        replace(row, time_s=row.in_place_time_s) for row in rows if row.in_place_time_s is not None
    ]
    if not timed:
        message = "in_place: got no row with a time in place; allowed: rows of nccl-tests' logs"
        raise InvalidError(message)
    return timed


def _level(bench: Bench, crossed: NDArray[Any], wanted: str | None) -> int:
    """Return the place of the level that is meant."""
    names = [str(found["name"]) for found in bench.levels]
    counts = {name: int((crossed == place).sum()) for place, name in enumerate(names)}
    told = ", ".join(f"{name} ({count} rows)" for name, count in counts.items() if count)
    if wanted is None:
        used = [name for name, count in counts.items() if count]
        if len(used) != 1:
            message = f"level: got nothing; allowed: one of those that the rows cross: {told}"
            raise InvalidError(message)
        return names.index(used[0])
    if not counts.get(wanted):
        message = f"level: got {wanted!r:.60}; allowed: one that rows cross: {told}"
        raise InvalidError(message)
    return names.index(wanted)


def _fitted(
    bench: Bench,
    what: tuple[int, list[Constant]],
    chosen: Flags,
    progress: Callable[[int, int], object],
) -> tuple[Vector, list[str]]:
    """Return the constants after the fit, and what was done with each."""
    import numpy as np

    from scalewright.calibration.fitting import Problem, best, settled

    place, which = what
    rows = [row for row, fits in zip(bench.rows, chosen, strict=True) if fits]
    ordered = sorted(rows, key=lambda row: row.time_s)
    fit = Bench(ordered, bench.system, in_place=bench.in_place)
    level = fit.levels[place]
    measured = np.log(fit.measured_s)

    def errors(values: Vector) -> Vector:
        levels = list(fit.levels)
        levels[place] = changed(level, which, np.exp(values).tolist())
        return np.log(fit.times(levels)) - measured

    bounds = [np.log([getattr(c, end) for c in which]) for end in ("least", "most")]
    start = np.log([min(max(c.of(level), c.least), c.most) for c in which])
    problem = Problem(errors, start, (bounds[0], bounds[1]))
    starts = [start, problem.inside(_scaled(which, start, errors(start)))]
    found, moved, untold = settled(problem, best(problem, starts, progress))
    kept = np.array([constant.of(level) for constant in which])
    # what is written is rounded; what is told of it must be the same
    rounded = np.array([float(f"{value:.6g}") for value in np.exp(found)])
    status = np.where(moved, "fitted", np.where(untold, "untold", "confirmed"))
    return np.where(moved, rounded, kept), status.tolist()


def _scaled(which: list[Constant], start: Vector, errors: Vector) -> Vector:
    """Return a start that is right for the quickest and the slowest rows; errors in their order."""
    import numpy as np

    ends = max(len(errors) // 3, 1)
    quick, slow = float(np.median(errors[:ends])), float(np.median(errors[-ends:]))
    moved = start.copy()
    for at, constant in enumerate(which):
        if constant.seconds:
            moved[at] -= quick
        elif constant.path == ("efficiency",):
            moved[at] += slow
    return moved


def _answer(
    bench: Bench,
    what: tuple[int, list[Constant]],
    found: tuple[Vector, Vector, list[str]],
    apart: Flags,
    read: int,
) -> Calibration:
    """Put together what was found and how well it predicts."""
    place, which = what
    before, after, status = found
    level = bench.levels[place]
    changes = [
        (constant, float(value))
        for constant, value, what in zip(which, after, status, strict=True)
        if what == "fitted"
    ]
    levels = list(bench.levels)
    levels[place] = changed(level, which, after.tolist())
    predicted, old = bench.times(levels), bench.times()
    errors = {
        "held_out": residuals(bench.rows, predicted, apart),
        "held_out_before": residuals(bench.rows, old, apart),
        "fitted": residuals(bench.rows, predicted, ~apart),
    }
    files = tuple(dict.fromkeys(row.place.rsplit(", line ", 1)[0] for row in bench.rows))
    rows = {
        "read": read,
        "fitted": int((~apart).sum()),
        "held_out": int(apart.sum()),
        "left_out": read - len(bench.rows),
    }
    return Calibration(
        system=bench.system.name,
        level=str(level["name"]),
        in_place=bench.in_place,
        files=files,
        rows=rows,
        constants=tuple(
            {"name": c.name, "before": float(b), "after": float(a), "status": s}
            for c, b, a, s in zip(which, before, after, status, strict=True)
        ),
        errors=errors,
        override=override_text(
            bench.system.table, level, changes, _source(bench.in_place, files, rows, errors)
        ),
    )


def _source(
    in_place: bool,
    files: Sequence[str],
    rows: dict[str, int],
    errors: dict[str, list[dict[str, Any]]],
) -> str:
    names = ", ".join(PurePath(file).name for file in files)
    text = (
        f"Fitted by `scalewright calibrate nccl` to {rows['fitted']} of "
        f"{rows['fitted'] + rows['held_out']} rows of {names}"
        f"{', timed in place' if in_place else ''}; {HELD_OUT}"
    )
    if errors["held_out"]:
        text += f" (median error there {errors['held_out'][0]['median_abs_error']:.1%})"
    return text


def _silent(done: int, total: int) -> None:
    """Tell nobody."""
