"""How are constants of a device's kernels fitted family by family, and what is told of the fit?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.calibration.device_override import override_text
from scalewright.calibration.families import with_values
from scalewright.calibration.known import own_numbers, own_value, were_measured
from scalewright.config import json_text
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.reproductions.kernels.rows import SPLIT, KernelRow, held_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy import bool_, float64, int64
    from numpy.typing import NDArray

    Vector = NDArray[float64]
    Flags = NDArray[bool_]
    Places = NDArray[int64]
    Path = tuple[str, ...]
    Values = dict[Path, float]
    Fit = Callable[
        [Path, Sequence[KernelRow], dict[str, Any], set[tuple[str, int]]], "FittedFamily"
    ]

FOLDS = 4
_ROWS_A_CONSTANT = 2
_MOST_MISSING = 0.5
"""Share of its constants that a device may lack of a family whose others are known."""
_FELT = 0.01
"""Change of a time, as a logarithm, by which a constant shows in it."""
_FILES_NAMED = 3
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
    """By family: `table`, `dtypes`, `rows` (fitted, held_out), `constants` (name, before, after and
    `status`: `fitted`, or `kept` where the rows do not tell it or give no reason to change it) and
    `errors`: `held_out`, `fitted` and `cross_validation`: each fold of the fitted rows with
    constants that are fitted to the others; `held_out_before` and `fitted_before`: the same rows
    with the constants that the device had. `worse` lists those of `held_out` and `cross_validation`
    that come out worse than with these, and `taken` says whether the override has the family: what
    is worse is left as it was, unless it is forced."""
    override: str
    """The TOML text of the override; empty where it would change nothing."""
    refused: tuple[str, ...] = ()
    """Why families, or formats of one, have no fit, where others have one."""

    @property
    def sound(self) -> bool:
        """Whether held-out rows are predicted better than by half, longer and brief ones alike."""
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


@dataclass(frozen=True)
class FittedFamily:
    """What a fit gave a family."""

    line: dict[str, Any]
    """What is told of it."""
    values: Values
    """The new values of constants that do not stay as they are."""


def calibrated(
    groups: Mapping[Path, Sequence[KernelRow]],
    order: Iterable[Path],
    device: Mapping[str, Any],
    fit: Fit,
    progress: Callable[[int, int], object] | None = None,
    *,
    refused: Sequence[str] = (),
    force: bool = False,
) -> KernelCalibration:
    """Fit the families of a device one after another, each with what those before it gave.

    Args:
        groups: Timed kernels by the table that holds their constants, all on this device.
        order: The tables in the order in which they are fitted.
        device: The fields of the device.
        fit: Fits a family.
        progress: Called with the families done and the families in all.
        refused: What is not fitted, and why.
        force: Take fits that are worse than the constants of the device, too.

    Raises:
        InvalidError: There are too few rows of every family.
    """
    rows = [row for group in groups.values() for row in group]
    apart = _apart(rows)
    fields = {key: value for key, value in device.items() if key != "sources"}
    found: list[dict[str, Any]] = []
    untold = list(refused)
    changes: dict[str, Values] = {}
    for done, path in enumerate(order):
        if progress is not None:
            progress(done, len(groups))
        try:
            fitted = fit(path, groups[path], fields, apart)
        except InvalidError as error:
            untold.append(f"{_names(groups[path])}: {error}")
            continue
        line = fitted.line | _beside(groups[path], apart, device, fitted.line["errors"])
        line["taken"] = bool(fitted.values) and (force or not line["worse"])
        if line["taken"]:
            fields = with_values(fields, fitted.values)
            changes[str(line["table"])] = fitted.values
        found.append(line)
    if not found:
        raise InvalidError("; ".join(untold))
    files = tuple(dict.fromkeys(row.file for row in rows))
    name = str(device["name"])
    override = _override(device, changes, found, files) if changes else ""
    return KernelCalibration(name, files, tuple(found), override, tuple(untold))


def _apart(rows: Sequence[KernelRow]) -> set[tuple[str, int]]:
    """Return the rows that are held out; all are of one device, however each spells it."""
    return held_out([replace(row, system="") for row in rows])


def _names(rows: Sequence[KernelRow]) -> str:
    names = list(dict.fromkeys(row.file for row in rows))
    more = ["..."] if len(names) > _FILES_NAMED else []
    return ", ".join([*names[:_FILES_NAMED], *more])


def _override(
    device: Mapping[str, Any],
    changes: Mapping[str, Values],
    found: Sequence[Mapping[str, Any]],
    files: Sequence[str],
) -> str:
    sources = {str(line["table"]): _source(line, files) for line in found if line["taken"]}
    # what was measured before still holds of what stays
    basis = device["calibration"].get("basis", "") if were_measured(device) else None
    return override_text(str(device["name"]), changes, sources, basis)


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
    """Judge by the longer kernels of held-out rows, and by all brief ones that were predicted."""
    rows = "held_out" if errors["held_out"]["long_rows"] else "cross_validation"
    if errors[rows]["long_rows"] and errors[rows]["median_abs_error"] >= _BAD:
        return False
    parts = [errors[part] for part in ("held_out", "cross_validation")]
    brief = sum(part["brief_rows"] for part in parts)
    near = sum(part["brief_rows"] * (part["brief_share_within_1_5"] or 0.0) for part in parts)
    return not brief or near > _BAD * brief


def folds(rows: Sequence[KernelRow]) -> list[Places]:
    """Return the places of the rows of each fold; all rows of a shape are in the same one."""
    import numpy as np

    numbers: dict[tuple[object, ...], int] = {}
    kinds = np.array([numbers.setdefault(row.timed, len(numbers)) for row in rows])
    return [np.flatnonzero(kinds % FOLDS == fold) for fold in range(min(FOLDS, len(numbers)))]


def shapes_of(rows: Sequence[KernelRow]) -> int:
    """Return how many shapes some rows of one device are of."""
    return len({row.timed for row in rows})


def known_of(device: Mapping[str, Any], paths: Sequence[Path], *, afresh: bool) -> Values:
    """Return which constants of a family a device has already, where these were measured.

    There are none where most of them are missing, or `afresh` says to pass over them.
    """
    own = own_numbers(device, paths)
    if afresh or not were_measured(device) or len(own) < _MOST_MISSING * len(paths):
        return {}
    return own


def rounded(paths: Sequence[Path], values: Vector, moved: Flags, digits: int) -> Values:
    """Return the constants that have moved, as they are written."""
    import numpy as np

    numbers = zip(paths, np.exp(values).tolist(), moved.tolist(), strict=True)
    return {path: float(f"{value:.{digits}g}") for path, value, changed in numbers if changed}


def felt(
    rows: Sequence[KernelRow], device: Mapping[str, Any], after: Values, others: Values
) -> Values:
    """Return those of some constants that a device lacks which change what rows are predicted.

    Args:
        rows: The rows.
        device: The fields of the device, whose defaults stand for the others.
        after: The new values of other constants.
        others: The values with which these were fitted.
    """
    import numpy as np

    bench = Bench(rows, device, ())
    usual = bench.times(after)
    return {
        path: value
        for path, value in others.items()
        if np.abs(np.log(bench.times({**after, path: value}) / usual)).max() > _FELT
    }


def need_rows(name: str, rows: Sequence[KernelRow], constants: int) -> None:
    """Refuse to fit so many constants to fewer shapes than twice as many.

    Raises:
        InvalidError: There are fewer.
    """
    least = _ROWS_A_CONSTANT * constants
    shapes = shapes_of(rows)
    if shapes < least:
        got = f"got {len(rows)} of {shapes} shapes to fit {name}"
        message = f"rows: {got}; allowed: {least} or more, small and large shapes"
        raise InvalidError(message)


def told(
    name: str,
    rows: Sequence[KernelRow],
    device: Mapping[str, Any],
    values: tuple[Iterable[Path], Values],
    parts: Mapping[str, tuple[Vector, Vector]],
) -> dict[str, Any]:
    """Return what is told of a family.

    Args:
        name: Its table.
        rows: All of its rows.
        device: The fields of the device before the fit.
        values: Its constants, and the new values of those that change.
        parts: Predicted over measured times, and measured seconds, of rows `held_out`, `fitted` and
            in `cross_validation`.
    """
    paths, after = values
    return {
        "table": name,
        "dtypes": sorted({row.shape.dtype for row in rows}),
        "rows": {part: len(parts[part][0]) for part in ("fitted", "held_out")},
        "constants": [_constant(device, path, after) for path in paths],
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


def _constant(device: Mapping[str, Any], path: Path, after: Values) -> dict[str, Any]:
    value = after[path] if path in after else own_numbers(device, [path]).get(path)
    status = "fitted" if path in after else "kept"
    before = own_value(device, path)
    return {"name": ".".join(path), "before": before, "after": value, "status": status}


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
