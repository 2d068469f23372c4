"""How are constants of a device's kernels fitted family by family, and what is told of the fit?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.calibration.device_override import override_text
from scalewright.calibration.families import with_values
from scalewright.config import json_text
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.reproductions.kernels.rows import SPLIT, KernelRow, held_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy import float64
    from numpy.typing import NDArray

    Vector = NDArray[float64]
    Path = tuple[str, ...]
    Values = dict[Path, float]
    Fit = Callable[
        [Path, Sequence[KernelRow], dict[str, Any], set[tuple[str, int]]],
        tuple[dict[str, Any], Values],
    ]

FOLDS = 4
_ROWS_A_CONSTANT = 2
_NEAR = 1.5
_LONG_S = 20e-6
_SHOWN = 3
"""Digits of an error, as a share, that reports show."""
_BAD = 0.5
"""Median error of longer kernels, and share of brief ones that are near, at which a fit is none."""
_VERBS = {
    "prefill": "attention",
    "decode": "attention",
    "training_attention": "attention",
    "experts": "moe",
}
"""What is calibrated, by the first word of a table; products where it is none of these."""


@dataclass(frozen=True)
class KernelCalibration:
    """Fitted constants of a device's kernels, and how well they predict."""

    device: str
    files: tuple[str, ...]
    families: tuple[dict[str, Any], ...]
    """By family: `table`, `dtypes`, `rows` (fitted, held_out), `constants` (name, before, after)
    and `errors`: `held_out`, `fitted` and `cross_validation`: each fold of the fitted rows with
    constants that are fitted to the others; `held_out_before` and `fitted_before`: the same rows
    with the constants that the device had. `worse` lists those of `held_out` and `cross_validation`
    that come out worse than with these."""
    override: str
    """The TOML text of the override."""
    refused: tuple[str, ...] = ()
    """Why families have no fit, where others have one."""

    @property
    def sound(self) -> bool:
        """Whether held-out rows of every family are predicted better than by half."""
        return all(_sound(line["errors"]) for line in self.families)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "device": self.device,
            "files": list(self.files),
            "split": SPLIT,
            "folds": FOLDS,
            "families": list(self.families),
            "refused": list(self.refused),
            "sound": self.sound,
            "override": self.override,
        }


def calibrated(
    groups: Mapping[Path, Sequence[KernelRow]],
    order: Iterable[Path],
    device: Mapping[str, Any],
    fit: Fit,
    progress: Callable[[int, int], object] | None = None,
) -> KernelCalibration:
    """Fit the families of a device one after another, each with what those before it gave.

    Args:
        groups: Timed kernels by the table that holds their constants, all on this device.
        order: The tables in the order in which they are fitted.
        device: The fields of the device.
        fit: Returns what is told of a family (`told`), and the new values of its constants.
        progress: Called with the families done and the families in all.

    Raises:
        InvalidError: There are too few rows of every family.
    """
    rows = [row for group in groups.values() for row in group]
    apart = held_out(rows)
    fields = {key: value for key, value in device.items() if key != "sources"}
    found: list[dict[str, Any]] = []
    refused: list[str] = []
    changes: dict[str, Values] = {}
    for done, path in enumerate(order):
        if progress is not None:
            progress(done, len(groups))
        try:
            line, values = fit(path, groups[path], fields, apart)
        except InvalidError as error:
            refused.append(str(error))
            continue
        line |= _beside(groups[path], apart, device, line["errors"])
        fields = with_values(fields, values)
        changes[str(line["table"])] = values
        found.append(line)
    if not found:
        raise InvalidError("; ".join(refused))
    files = tuple(dict.fromkeys(row.file for row in rows))
    name = str(device["name"])
    sources = {str(line["table"]): _source(line, files) for line in found}
    override = override_text(name, changes, sources)
    return KernelCalibration(name, files, tuple(found), override, tuple(refused))


def _beside(
    rows: Sequence[KernelRow],
    apart: set[tuple[str, int]],
    device: Mapping[str, Any],
    errors: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the errors of a family with those of the device's own constants, and what is worse."""
    before: dict[str, dict[str, Any]] = {}
    for part, held in (("held_out_before", True), ("fitted_before", False)):
        chosen = [row for row in rows if ((row.file, row.line) in apart) == held]
        before[part] = _errors(*_with_own(chosen, device))
    pairs = {
        "held_out": (errors["held_out"], before["held_out_before"]),
        "cross_validation": (errors["cross_validation"], before["fitted_before"]),
    }
    worse = [part for part, (after, old) in pairs.items() if _worse(after, old)]
    return {"errors": {**errors, **before}, "worse": worse}


def _with_own(rows: Sequence[KernelRow], device: Mapping[str, Any]) -> tuple[Vector, Vector]:
    """Return predicted over measured times with a device's own constants, and measured seconds.

    There are none where the device cannot run such kernels without constants that are fitted.
    """
    import numpy as np

    fields = {key: value for key, value in device.items() if key != "sources"}
    try:
        bench = Bench(rows, fields, ())
        measured = np.exp(bench.log_measured)
        return bench.times({}) / measured, measured
    except ScalewrightError:
        return np.empty(0), np.empty(0)


def _worse(after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Judge by the longer kernels, and by brief ones where all are brief; to the digits shown."""
    if after["long_rows"] and before["long_rows"]:
        medians = (figures["median_abs_error"] for figures in (after, before))
        new, old = (round(median, _SHOWN) for median in medians)
        return new > old
    if not after["long_rows"] and after["brief_rows"] and before["brief_rows"]:
        return after["brief_share_within_1_5"] < before["brief_share_within_1_5"]
    return False


class Bench:
    """Rows of one family; the engine prices them again and again."""

    def __init__(
        self, rows: Sequence[KernelRow], device: Mapping[str, Any], paths: Sequence[Path]
    ) -> None:
        """Sort the rows by what they ask of the engine, which prices each lot in one call."""
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
        return np.log(self.times(given)) - self.log_measured

    def times(self, values: Values) -> Vector:
        """Return predicted times in seconds."""
        import numpy as np

        text = json_text("device", with_values(self._device, values))
        predicted = np.empty(len(self.log_measured))
        for request, places, columns in self._calls:
            predicted[places] = _engine.kernel_times(text, request, columns)
        return predicted


def _sound(errors: Mapping[str, Mapping[str, Any]]) -> bool:
    """Judge by the longer kernels of held-out rows, and by brief ones where all are brief."""
    rows = "held_out" if errors["held_out"]["long_rows"] else "cross_validation"
    if errors[rows]["long_rows"]:
        return errors[rows]["median_abs_error"] < _BAD
    return (errors["held_out"]["brief_share_within_1_5"] or 0.0) > _BAD


def need_rows(name: str, rows: Sequence[KernelRow], constants: int) -> None:
    """Refuse to fit so many constants to fewer shapes than twice as many.

    Raises:
        InvalidError: There are fewer.
    """
    least = _ROWS_A_CONSTANT * constants
    shapes = len({row.key for row in rows})
    if shapes < least:
        got = f"got {len(rows)} of {shapes} shapes to fit {name}"
        message = f"rows: {got}; allowed: {least} or more, small and large shapes"
        raise InvalidError(message)


def told(
    name: str,
    rows: Sequence[KernelRow],
    device: Mapping[str, Any],
    after: Values,
    parts: Mapping[str, tuple[Vector, Vector]],
) -> dict[str, Any]:
    """Return what is told of a family.

    Args:
        name: Its table.
        rows: All of its rows.
        device: The fields of the device before the fit.
        after: The new values of its constants.
        parts: Predicted over measured times, and measured seconds, of rows `held_out`, `fitted` and
            in `cross_validation`.
    """
    return {
        "table": name,
        "dtypes": sorted({row.shape.dtype for row in rows}),
        "rows": {part: len(parts[part][0]) for part in ("fitted", "held_out")},
        "constants": [
            {"name": ".".join(path), "before": _before(device, path), "after": value}
            for path, value in after.items()
        ],
        "errors": {part: _errors(*given) for part, given in parts.items()},
    }


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


def _before(device: Mapping[str, Any], path: Path) -> object:
    """Return the constant that the device has; None where it leaves it to the default."""
    value: Any = device
    for key in path:
        value = value.get(key, {})
    return None if value == {} else value


def _source(line: Mapping[str, Any], files: Sequence[str]) -> str:
    names = ", ".join(PurePath(file).name for file in files)
    counts = line["rows"]
    total = counts["fitted"] + counts["held_out"]
    what = _VERBS.get(str(line["table"]).partition(".")[0], "gemm")
    text = (
        f"Fitted by `scalewright calibrate {what}` to {counts['fitted']} of {total} rows of "
        f"{names} ({', '.join(line['dtypes'])}); every third by work is held out"
    )
    errors = line["errors"]
    error = errors["held_out"]["median_abs_error"]
    if error is None:
        return text
    before = errors["held_out_before"]["median_abs_error"]
    beside = "" if before is None else f", with the constants before {before:.1%}"
    return f"{text} (median error there {error:.1%}{beside})"
