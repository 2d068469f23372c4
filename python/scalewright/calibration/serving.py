"""Which constants do timed attention or experts give a device, and how well do these predict?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

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
from scalewright.calibration.serving_families import constants, starts, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    from scalewright.calibration.searching import Search
    from scalewright.calibration.serving_families import Bounds
    from scalewright.reproductions.kernels.rows import KernelRow

    Vector = NDArray[float64]
    Flags = NDArray[bool_]
    Path = tuple[str, ...]
    Values = dict[Path, float]

_DIGITS = 3


@dataclass(frozen=True)
class _Task:
    """Rows of one family, in order of work, and what is fitted to some of them."""

    path: Path
    rows: Sequence[KernelRow]
    device: dict[str, Any]
    bounds: dict[Path, Bounds]
    own: Values
    """What the device has of the family already; empty where a fit begins at no device's values."""

    def found(self, chosen: Flags, others: Sequence[Vector], *, more: int) -> tuple[Vector, Flags]:
        """Return the constants that suit the chosen rows, and which of them have moved."""
        import numpy as np

        rows = [row for row, fits in zip(self.rows, chosen, strict=True) if fits]
        search = self._search(rows)
        if not self.own:
            values = search.best(others, more)
            return values, np.ones(len(values), dtype=np.bool_)
        usual = np.log([self.own.get(path, bounds[0]) for path, bounds in self.bounds.items()])
        known = np.array([path in self.own for path in self.bounds], dtype=np.bool_)
        return search.near(usual, known, others, shapes_of(rows))

    def _search(self, rows: Sequence[KernelRow]) -> Search:
        import numpy as np

        from scalewright.calibration.searching import Search

        bench = Bench(rows, self.device, list(self.bounds))
        ends = np.log([(low, high) for _, low, high in self.bounds.values()])
        return Search(bench.errors, ends[:, 0], ends[:, 1])


def calibrate_serving(
    rows: Sequence[KernelRow],
    device: Mapping[str, Any],
    progress: Callable[[int, int], object] | None = None,
    *,
    afresh: bool = False,
    force: bool = False,
) -> KernelCalibration:
    """Fit the constants of a device's attention or experts to timed kernels.

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
    fit = partial(_fitted, afresh=afresh)
    return calibrated(groups, sorted(groups), device, fit, progress, force=force)


def _fitted(
    path: Path,
    rows: Sequence[KernelRow],
    device: dict[str, Any],
    apart: set[tuple[str, int]],
    *,
    afresh: bool,
) -> FittedFamily:
    """Return what is told of a family, and the new values of its constants."""
    import numpy as np

    rows = sorted(rows, key=lambda row: (row.shape.work, row.line))
    bounds = constants(path, [row.shape for row in rows], device)
    held = np.array([(row.file, row.line) in apart for row in rows], dtype=np.bool_)
    name = ".".join(path)
    need_rows(name, [row for row, out in zip(rows, held, strict=True) if not out], len(bounds))
    task = _Task(path, rows, device, bounds, known_of(device, list(bounds), afresh=afresh))
    first = [np.log([start[place] for place in bounds]) for start in starts(path, bounds)]
    values, moved = task.found(~held, first, more=2)
    after = rounded(list(bounds), values, moved, _DIGITS)
    missing = np.array([place not in task.own for place in bounds], dtype=np.bool_)
    usual = rounded(list(bounds), values, ~moved & missing, _DIGITS)
    after |= felt(rows, device, after, usual)
    bench = Bench(rows, device, ())
    measured = np.exp(bench.log_measured)
    ratios = bench.times(after) / measured
    parts = {
        "held_out": (ratios[held], measured[held]),
        "fitted": (ratios[~held], measured[~held]),
        "cross_validation": (_crossed(task, ~held, values), measured[~held]),
    }
    return FittedFamily(told(name, rows, device, (list(bounds), after), parts), after)


def _crossed(task: _Task, chosen: Flags, values: Vector) -> Vector:
    """Return predicted over measured times of the chosen rows, each fold fitted without it."""
    import numpy as np

    places = np.flatnonzero(chosen)
    rows = [task.rows[place] for place in places.tolist()]
    everything = Bench(rows, task.device, list(task.bounds))
    ratios = np.empty(len(places))
    for fold in folds(rows):
        out = np.zeros(len(task.rows), dtype=np.bool_)
        out[places[fold]] = True
        without, _ = task.found(chosen & ~out, [values], more=0)
        ratios[fold] = np.exp(everything.errors(without))[fold]
    return ratios
