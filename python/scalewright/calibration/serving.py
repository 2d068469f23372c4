"""Which constants do timed attention or experts give a device, and how well do these predict?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.calibration.kernels import (
    FOLDS,
    Bench,
    KernelCalibration,
    calibrated,
    need_rows,
    told,
)
from scalewright.calibration.serving_families import constants, starts, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    from scalewright.reproductions.kernels.rows import KernelRow

    Vector = NDArray[float64]
    Flags = NDArray[bool_]
    Path = tuple[str, ...]

_DIGITS = 3


def calibrate_serving(
    rows: Sequence[KernelRow],
    device: Mapping[str, Any],
    progress: Callable[[int, int], object] | None = None,
) -> KernelCalibration:
    """Fit the constants of a device's attention or experts to timed kernels.

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
    return calibrated(groups, sorted(groups), device, _fitted, progress)


def _fitted(
    path: Path,
    rows: Sequence[KernelRow],
    device: dict[str, Any],
    apart: set[tuple[str, int]],
) -> tuple[dict[str, Any], dict[Path, float]]:
    """Return what is told of a family, and the new values of its constants."""
    import numpy as np

    rows = sorted(rows, key=lambda row: (row.shape.work, row.line))
    bounds = constants(path, [row.shape for row in rows], device)
    held = np.array([(row.file, row.line) in apart for row in rows], dtype=np.bool_)
    places = np.flatnonzero(~held)
    need_rows(".".join(path), [rows[place] for place in places], len(bounds))

    def searched(chosen: Flags, first: Sequence[Vector], *, more: int) -> Vector:
        from scalewright.calibration.searching import Search

        picked = [row for row, fits in zip(rows, chosen, strict=True) if fits]
        bench = Bench(picked, device, list(bounds))
        ends = np.log([(low, high) for _, low, high in bounds.values()])
        return Search(bench.errors, ends[:, 0], ends[:, 1]).best(first, more)

    first = [np.log([start[place] for place in bounds]) for start in starts(path, bounds)]
    values = searched(~held, first, more=2)
    rounded = np.array([float(f"{value:.{_DIGITS}g}") for value in np.exp(values).tolist()])
    everything = Bench(rows, device, list(bounds))
    measured = np.exp(everything.log_measured)
    ratios = np.exp(everything.errors(np.log(rounded)))
    crossed = np.empty(len(places))
    for fold in range(FOLDS):
        out = np.zeros(len(rows), dtype=np.bool_)
        out[places[fold::FOLDS]] = True
        without = searched(~held & ~out, [values], more=0)
        crossed[fold::FOLDS] = np.exp(everything.errors(without))[out]
    after = dict(zip(bounds, rounded.tolist(), strict=True))
    parts = {
        "held_out": (ratios[held], measured[held]),
        "fitted": (ratios[~held], measured[~held]),
        "cross_validation": (crossed, measured[~held]),
    }
    return told(".".join(path), rows, device, after, parts), after
