"""Which constants do timed matrix products give a device, and how well do these predict?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.calibration.device_override import override_text
from scalewright.calibration.families import Family, family, table, with_values
from scalewright.config import json_text
from scalewright.errors import InvalidError
from scalewright.reproductions.kernels.rows import SPLIT, KernelRow, held_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy import bool_, float64
    from numpy.typing import NDArray

    from scalewright.calibration.constants import Constant
    from scalewright.calibration.fitting import Problem

    Vector = NDArray[float64]
    Flags = NDArray[bool_]
    Values = dict[tuple[str, ...], float]

_FOLDS = 4
_DIGITS = 4
_ROWS_A_CONSTANT = 2
_NEAR = 1.5
# the same files must give the same constants
_SEED, _STARTS, _SPREAD = 7, 6, 0.8
_LONG_S = 20e-6


@dataclass(frozen=True)
class ProductCalibration:
    """Fitted constants of a device's matrix products, and how well they predict."""

    device: str
    files: tuple[str, ...]
    families: tuple[dict[str, Any], ...]
    """By family: `table`, `dtypes`, `rows` (fitted, held_out), `constants` (name, before, after)
    and `errors`: `held_out`, `fitted` and `cross_validation`: each fold of the fitted rows with
    constants that are fitted to the others."""
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


def calibrate_products(
    rows: Sequence[KernelRow],
    device: Mapping[str, Any],
    progress: Callable[[int, int], object] | None = None,
) -> ProductCalibration:
    """Fit the constants of a device's matrix products to timed ones.

    Args:
        rows: What was timed, all on this device.
        device: The fields of the device.
        progress: Called with the families done and the families in all.

    Raises:
        InvalidError: There are too few rows of a family.
    """
    apart = held_out(rows)
    groups: dict[tuple[str, ...], list[KernelRow]] = {}
    for row in rows:
        groups.setdefault(table(row.shape.request), []).append(row)
    fields = {key: value for key, value in device.items() if key != "sources"}
    found: list[dict[str, Any]] = []
    changes: dict[str, Values] = {}
    # the plain formats first: they tell what a launch takes
    for done, key in enumerate(sorted(groups, key=len)):
        if progress is not None:
            progress(done, len(groups))
        line, values = _fitted(groups[key], fields, apart)
        fields = with_values(fields, values)
        changes[str(line["table"])] = values
        found.append(line)
    files = tuple(dict.fromkeys(row.file for row in rows))
    name = str(device["name"])
    sources = {str(line["table"]): _source(line, files) for line in found}
    return ProductCalibration(name, files, tuple(found), override_text(name, changes, sources))


class _Bench:
    """Rows of one family; the engine prices them again and again."""

    def __init__(self, rows: Sequence[KernelRow], device: dict[str, Any], kind: Family) -> None:
        import numpy as np

        self.device = device
        self.paths = [constant.path for constant in kind.constants]
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

        given = dict(zip(self.paths, np.exp(values).tolist(), strict=True))
        return np.log(self.times(given)) - self.log_measured

    def times(self, values: Values) -> Vector:
        """Return predicted times in seconds."""
        import numpy as np

        text = json_text("device", with_values(self.device, values))
        predicted = np.empty(len(self.log_measured))
        for request, places, columns in self._calls:
            predicted[places] = _engine.kernel_times(text, request, columns)
        return predicted


def _fitted(
    rows: Sequence[KernelRow], device: dict[str, Any], apart: set[tuple[str, int]]
) -> tuple[dict[str, Any], Values]:
    """Return what is told of a family, and the new values of its constants."""
    import numpy as np

    rows = sorted(rows, key=lambda row: (row.shape.work, row.line))
    kind = family([row.shape.request for row in rows])
    held = np.array([(row.file, row.line) in apart for row in rows], dtype=np.bool_)
    least = _ROWS_A_CONSTANT * len(kind.constants)
    if (~held).sum() < least:
        message = (
            f"rows: got {int((~held).sum())} to fit {kind.name}; allowed: {least} or more, small "
            "and large shapes"
        )
        raise InvalidError(message)
    trials = [_trial(rows, device, kind, ~held, dict(fixed)) for fixed in _tries(kind)]
    _, fixed, values = min(trials, key=lambda trial: trial[0])
    bench = _Bench(rows, with_values(device, fixed), kind)
    after = {
        **fixed,
        **{
            path: float(f"{value:.{_DIGITS}g}")
            for path, value in zip(bench.paths, np.exp(values).tolist(), strict=True)
        },
    }
    ratios = bench.times(after) / np.exp(bench.log_measured)
    crossed = _crossed(rows, with_values(device, fixed), kind, ~held, values)
    measured = np.exp(bench.log_measured)
    line = {
        "table": kind.name,
        "dtypes": sorted({row.shape.dtype for row in rows}),
        "rows": {"fitted": int((~held).sum()), "held_out": int(held.sum())},
        "constants": [
            {"name": ".".join(path), "before": _before(device, path), "after": value}
            for path, value in after.items()
        ],
        "errors": {
            "held_out": _errors(ratios[held], measured[held]),
            "fitted": _errors(ratios[~held], measured[~held]),
            "cross_validation": _errors(crossed, measured[~held]),
        },
    }
    return line, after


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

    bench = _Bench([row for row, fits in zip(rows, chosen, strict=True) if fits], device, kind)
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
    for fold in range(_FOLDS):
        out = np.zeros(len(rows), dtype=np.bool_)
        out[places[fold::_FOLDS]] = True
        problem = _problem(rows, device, kind, chosen & ~out)
        found = descend(problem, values, everything, 1e-3)
        judged = _problem(rows, device, kind, out)
        ratios[fold::_FOLDS] = np.exp(judged.errors(found))
    return ratios


def _errors(ratios: Vector, measured: Vector) -> dict[str, Any]:
    """Return median and 90th percentile of kernels from 20 us on, and the share of others near."""
    import numpy as np

    long = measured >= _LONG_S
    sizes = np.abs(ratios[long] - 1.0)
    brief = ratios[~long]
    near = (brief <= _NEAR) & (brief >= 1.0 / _NEAR)
    return {
        "long_rows": int(long.sum()),
        "median_abs_error": float(np.median(sizes)) if sizes.size else None,
        "p90_abs_error": float(np.quantile(sizes, 0.9)) if sizes.size else None,
        "median_error": float(np.median(ratios[long] - 1.0)) if sizes.size else None,
        "brief_rows": int(brief.size),
        "brief_share_within_1_5": float(near.mean()) if brief.size else None,
    }


def _before(device: Mapping[str, Any], path: tuple[str, ...]) -> object:
    value: Any = device
    for key in path:
        value = value.get(key, {})
    return None if value == {} else value


def _source(line: Mapping[str, Any], files: Sequence[str]) -> str:
    names = ", ".join(PurePath(file).name for file in files)
    counts = line["rows"]
    total = counts["fitted"] + counts["held_out"]
    text = (
        f"Fitted by `scalewright calibrate gemm` to {counts['fitted']} of {total} rows of {names} "
        f"({', '.join(line['dtypes'])}); every third by work is held out"
    )
    error = line["errors"]["held_out"]["median_abs_error"]
    return text if error is None else f"{text} (median error there {error:.1%})"
