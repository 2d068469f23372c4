"""Which constants do timed attention or experts give a device, and how well do these predict?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.calibration.device_override import override_text
from scalewright.calibration.families import with_values
from scalewright.calibration.serving_families import constants, starts, table
from scalewright.config import json_text
from scalewright.errors import InvalidError
from scalewright.reproductions.kernels.rows import SPLIT, KernelRow, held_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    Vector = NDArray[float64]
    Flags = NDArray[bool_]
    Path = tuple[str, ...]

_FOLDS = 4
_DIGITS = 3
_ROWS_A_CONSTANT = 2


@dataclass(frozen=True)
class ServingCalibration:
    """Fitted constants of a device's attention or experts, and how well they predict."""

    device: str
    files: tuple[str, ...]
    families: tuple[dict[str, Any], ...]
    """By family: `table`, `dtypes`, `rows` (fitted, held_out), `constants` (name, before, after)
    and `errors`: `held_out`, `fitted` and `cross_validation`, each row of the fitted ones predicted
    with constants that are fitted to the others' folds."""
    override: str
    """The TOML text of the override."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "device": self.device,
            "files": list(self.files),
            "split": SPLIT,
            "folds": _FOLDS,
            "families": list(self.families),
            "override": self.override,
        }


def calibrate_serving(
    rows: Sequence[KernelRow],
    device: Mapping[str, Any],
    progress: Callable[[int, int], object] | None = None,
) -> ServingCalibration:
    """Fit the constants of a device's attention or experts to timed kernels.

    Args:
        rows: What was timed, all on this device.
        device: The fields of the device.
        progress: Called with the families done and the families in all.

    Raises:
        InvalidError: There are too few rows of a family.
    """
    apart = held_out(rows)
    groups: dict[Path, list[KernelRow]] = {}
    for row in rows:
        groups.setdefault(table(row.shape.request), []).append(row)
    fields = {key: value for key, value in device.items() if key != "sources"}
    found: list[dict[str, Any]] = []
    changes: dict[str, dict[Path, float]] = {}
    for done, path in enumerate(sorted(groups)):
        if progress is not None:
            progress(done, len(groups))
        line, values = _fitted(path, groups[path], fields, apart)
        fields = with_values(fields, values)
        changes[str(line["table"])] = values
        found.append(line)
    files = tuple(dict.fromkeys(row.file for row in rows))
    name = str(device["name"])
    sources = {str(line["table"]): _source(line, files) for line in found}
    return ServingCalibration(name, files, tuple(found), override_text(name, changes, sources))


class _Bench:
    """Rows of one family; the engine prices them again and again."""

    def __init__(
        self, rows: Sequence[KernelRow], device: Mapping[str, Any], paths: Sequence[Path]
    ) -> None:
        import numpy as np

        self._device = dict(device)
        self._paths = paths
        self.log_measured = np.log([row.time_s for row in rows])
        requests: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            text = json_text("kernel", dict(row.shape.request))
            requests.setdefault(text, []).append(place)
        self._calls = [
            (
                request,
                np.array(places),
                {
                    name: np.array([rows[at].shape.numbers[name] for at in places])
                    for name in rows[places[0]].shape.numbers
                },
            )
            for request, places in requests.items()
        ]

    def errors(self, values: Vector) -> Vector:
        """Return the logarithm of predicted over measured times, by logarithms of constants."""
        import numpy as np

        given = dict(zip(self._paths, np.exp(values).tolist(), strict=True))
        text = json_text("device", with_values(self._device, given))
        predicted = np.empty(len(self.log_measured))
        for request, places, columns in self._calls:
            predicted[places] = _engine.kernel_times(text, request, columns)
        return np.log(predicted) - self.log_measured


def _fitted(
    path: Path,
    rows: Sequence[KernelRow],
    device: Mapping[str, Any],
    apart: set[tuple[str, int]],
) -> tuple[dict[str, Any], dict[Path, float]]:
    """Return what is told of a family, and the new values of its constants."""
    import numpy as np

    rows = sorted(rows, key=lambda row: (row.shape.work, row.line))
    bounds = constants(path, [row.shape for row in rows])
    held = np.array([(row.file, row.line) in apart for row in rows], dtype=np.bool_)
    places = np.flatnonzero(~held)
    least = _ROWS_A_CONSTANT * len(bounds)
    if len(places) < least:
        message = (
            f"rows: got {len(places)} to fit {'.'.join(path)}; allowed: {least} or more, small and "
            "large shapes"
        )
        raise InvalidError(message)

    def searched(chosen: Flags, first: Sequence[Vector], *, more: int) -> Vector:
        from scalewright.calibration.searching import Search

        picked = [row for row, fits in zip(rows, chosen, strict=True) if fits]
        bench = _Bench(picked, device, list(bounds))
        ends = np.log([(low, high) for _, low, high in bounds.values()])
        return Search(bench.errors, ends[:, 0], ends[:, 1]).best(first, more)

    first = [np.log([start[place] for place in bounds]) for start in starts(path, bounds)]
    values = searched(~held, first, more=2)
    rounded = np.array([float(f"{value:.{_DIGITS}g}") for value in np.exp(values).tolist()])
    everything = _Bench(rows, device, list(bounds))
    errors = np.expm1(everything.errors(np.log(rounded)))
    crossed = np.empty(len(places))
    for fold in range(_FOLDS):
        out = np.zeros(len(rows), dtype=np.bool_)
        out[places[fold::_FOLDS]] = True
        without = searched(~held & ~out, [values], more=0)
        crossed[fold::_FOLDS] = np.expm1(everything.errors(without))[out]
    after = dict(zip(bounds, rounded.tolist(), strict=True))
    line: dict[str, Any] = {
        "table": ".".join(path),
        "dtypes": sorted({row.shape.dtype for row in rows}),
        "rows": {"fitted": len(places), "held_out": int(held.sum())},
        "constants": [
            {"name": ".".join(place), "before": _before(device, place), "after": value}
            for place, value in after.items()
        ],
        "errors": {
            "held_out": _figures(errors[held]),
            "cross_validation": _figures(crossed),
            "fitted": _figures(errors[~held]),
        },
    }
    return line, after


def _figures(errors: Vector) -> dict[str, Any]:
    import numpy as np

    if not errors.size:
        return {"rows": 0, "median_abs_error": None, "p90_abs_error": None, "median_error": None}
    sizes = np.abs(errors)
    return {
        "rows": int(errors.size),
        "median_abs_error": float(np.median(sizes)),
        "p90_abs_error": float(np.quantile(sizes, 0.9)),
        "median_error": float(np.median(errors)),
    }


def _before(device: Mapping[str, Any], path: Path) -> float | None:
    """Return the constant that the device has; None where it leaves it to the default."""
    inner: Mapping[str, Any] = device
    for key in path[:-1]:
        inner = inner.get(key, {})
    return inner.get(path[-1])


def _source(line: Mapping[str, Any], files: Sequence[str]) -> str:
    names = ", ".join(PurePath(file).name for file in files)
    counts = line["rows"]
    text = (
        f"Fitted by `scalewright calibrate` to {counts['fitted']} of "
        f"{counts['fitted'] + counts['held_out']} rows of {names} ({', '.join(line['dtypes'])}); "
        "every third by work is held out"
    )
    error = line["errors"]["held_out"]["median_abs_error"]
    return text if error is None else f"{text} (median error there {error:.1%})"
