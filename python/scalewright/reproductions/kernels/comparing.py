"""How do predicted kernels compare with measured ones, row by row and by device and format?"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog import names
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.planning import kernel_times
from scalewright.reproductions.kernels.devices import Devices, sources_of_constants
from scalewright.reproductions.kernels.kinds import KINDS
from scalewright.reproductions.kernels.limits import too_quick
from scalewright.reproductions.kernels.rows import (
    SPLIT,
    KernelRow,
    UnreadKernelRow,
    held_out,
    read,
    shipped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from scalewright.reproductions.kernels.devices import ResolvedDevice

Result = dict[str, Any]
Timed = tuple[object, ...]
LONG_S = 20e-6
"""Kernels from here on are judged by their error, shorter ones by their factor."""
PARTS = ("held_out", "not_calibrated", "unknown", "fitted")
_NEAR = 1.5


def run(
    pattern: str | None = None,
    rows_path: str | Path | None = None,
    only_device: str | None = None,
    *,
    overrides: Sequence[str | Path] = (),
    progress: Callable[[int, int], object] | None = None,
) -> Result:
    """Predict timed kernels and compare.

    A row is `fitted` where the constants of its device may have been fitted to it or were set from
    its source, `held_out` where they were fitted to others, `not_calibrated` where to none,
    `unknown` where a user's own files give the constants of its kind, which may have been fitted to
    any row.

    Args:
        pattern: Only rows whose kind, device or format contains this.
        rows_path: A CSV file of timings; absent: the ones that come with the package.
        only_device: Device on which all rows ran; absent: as each row says.
        overrides: User files or directories that add to the catalog or change it.
        progress: Called with rows done and rows in all.

    Returns:
        `rows` with a status each (priced or skipped) and `summary`. An error is predicted over
        measured time, less one.

    Raises:
        ScalewrightError: The file cannot be read, or no row has the pattern.
    """
    results = prepared(pattern, rows_path, only_device, overrides)
    price(results, progress)
    for result in results:
        del result["shape"], result["meant"]
    return {"rows": results, "summary": summary(results)}


def prepared(
    pattern: str | None = None,
    rows_path: str | Path | None = None,
    only_device: str | None = None,
    overrides: Sequence[str | Path] = (),
) -> list[Result]:
    """Return rows that are not priced yet, each with its `shape` and the device `meant`.

    Raises:
        ScalewrightError: The file cannot be read, or no row has the pattern.
    """
    for kind in ("device", "system"):
        names(kind, overrides)
    seen = _seen()
    devices = Devices(only_device, overrides)
    found = shipped() if rows_path is None else read(rows_path)
    results = [_result(row, devices, seen) for row in found]
    return results if pattern is None else _chosen(results, pattern)


@dataclass(frozen=True)
class _Seen:
    """What the constants of the package have seen of its own rows."""

    fitted: frozenset[tuple[str, Timed]]
    """Kernels that fitted constants, by device, where others of their kind are held out."""
    families: frozenset[tuple[str, str, str]]
    """Devices, kinds and formats that were timed."""
    set_by: frozenset[tuple[str, Timed]]
    """Kernels of sources all of whose rows set constants, by device."""


@cache
def _seen() -> _Seen:
    own = [row for row in shipped() if isinstance(row, KernelRow)]
    apart = held_out(own)
    devices = Devices()
    meant = [(row, devices.meant(row.system)) for row in own]
    used = [(row, of) for row, of in meant if (row.file, row.line) not in apart]
    sources = sources_of_constants()
    return _Seen(
        frozenset((of.name, row.timed) for row, of in used if row.kind in of.calibrated),
        frozenset((of.name, row.kind, row.shape.dtype) for row, of in used),
        frozenset(
            (of.name, row.timed) for row, of in meant if (row.source, of.name, row.kind) in sources
        ),
    )


def summary(results: Iterable[Result]) -> Result:
    """Sum up errors by part, and by kind, device and format within it."""
    rows = [row for row in results if row["error"] is not None]
    skipped: dict[str, list[str]] = {}
    for row in results:
        if row["error"] is None:
            skipped.setdefault(row["reason"], []).append(f"{row['file']}:{row['line']}")
    noted: dict[str, list[str]] = {}
    for row in rows:
        if row["note"]:
            noted.setdefault(row["note"], []).append(f"{row['file']}:{row['line']}")
    groups: dict[tuple[str, str, str, str], list[Result]] = {}
    for row in rows:
        key = (row["part"], row["kind"], row["device"], row["dtype"])
        groups.setdefault(key, []).append(row)
    return {
        "error_definition": "predicted time / measured time - 1, as a share",
        "split": SPLIT,
        "long_from_s": LONG_S,
        "by_part": {part: _figures([r for r in rows if r["part"] == part]) for part in PARTS},
        "by_kernel": [
            {"part": part, "kind": kind, "device": device, "dtype": dtype, **_figures(members)}
            for (part, kind, device, dtype), members in sorted(groups.items())
        ],
        "noted": noted,
        "skipped": skipped,
    }


def _chosen(results: list[Result], pattern: str) -> list[Result]:
    wanted = pattern.casefold()
    fields = ("kind", "system", "device", "dtype", "file")
    chosen = [
        result
        for result in results
        if any(wanted in str(result[field]).casefold() for field in fields)
    ]
    if not chosen:
        kinds = ", ".join(dict.fromkeys(kind.name for kind in KINDS))
        message = f"pattern: got '{pattern}'; allowed: part of a kind ({kinds}), device or format"
        raise InvalidError(message)
    return chosen


def _result(
    row: KernelRow | UnreadKernelRow,
    devices: Devices,
    seen: _Seen,
) -> Result:
    result: Result = {
        "file": row.file,
        "line": row.line,
        "kind": row.kind,
        "system": row.system,
        "device": None,
        "dtype": None,
        "numbers": None,
        "measured_s": None,
        "predicted_s": None,
        "error": None,
        "part": None,
        "reason": None,
        "note": None,
        "shape": None,
        "meant": None,
    }
    if isinstance(row, UnreadKernelRow):
        return result | {"reason": row.reason}
    result |= {
        "dtype": row.shape.dtype,
        "numbers": dict(row.shape.numbers),
        "measured_s": row.time_s,
    }
    try:
        meant = devices.meant(row.system)
    except ScalewrightError as error:
        return result | {"reason": str(error)}
    result["device"] = meant.name
    ran = meant.runs(row.shape.request)
    refused, note = too_quick(row.shape, ran, meant.table, row.time_s)
    if refused:
        return result | {"reason": refused}
    if ran != row.shape.request:
        note = f"{meant.name} multiplies no {row.shape.dtype}: products in 16 bits taken"
    return result | {
        "part": _part(row, meant, seen),
        "note": "; ".join(filter(None, (meant.note, note, meant.stand_in(ran)))) or None,
        "shape": row.shape,
        "meant": meant,
    }


def _part(row: KernelRow, meant: ResolvedDevice, seen: _Seen) -> str:
    """Return what the constants of a row's device have seen of it."""
    if not meant.is_ours(row.kind):
        return "unknown"
    if (meant.name, row.timed) in seen.set_by:
        return "fitted"
    if row.kind not in meant.calibrated:
        return "not_calibrated"
    if (meant.name, row.kind, row.shape.dtype) not in seen.families:
        return "not_calibrated"
    return "fitted" if (meant.name, row.timed) in seen.fitted else "held_out"


def price(results: list[Result], progress: Callable[[int, int], object] | None = None) -> None:
    """Fill in predictions, one call of the engine for all rows of a device and a request."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result["meant"] is not None:
            request = json.dumps(result["shape"].request, sort_keys=True)
            groups.setdefault((result["device"], request), []).append(result)
    total, done = sum(map(len, groups.values())), 0
    for members in groups.values():
        try:
            times = _times(members[0]["meant"], members)
        except ScalewrightError as error:
            for result in members:
                result["reason"] = str(error)
        else:
            for result, time in zip(members, times, strict=True):
                result["predicted_s"] = time
                result["error"] = time / result["measured_s"] - 1.0
        done += len(members)
        if progress is not None:
            progress(done, total)


def _times(meant: ResolvedDevice, members: list[Result]) -> list[float]:
    first = members[0]["shape"]
    shapes = {name: [m["shape"].numbers[name] for m in members] for name in first.numbers}
    return kernel_times(meant.runs(first.request), meant.table, shapes).tolist()


def _figures(rows: list[Result]) -> Result:
    long: list[float] = [row["error"] for row in rows if row["measured_s"] >= LONG_S]
    brief: list[float] = [row["error"] for row in rows if row["measured_s"] < LONG_S]
    sizes = [abs(error) for error in long]
    near = [1.0 / _NEAR <= 1.0 + error <= _NEAR for error in brief]
    return {
        "rows": len(rows),
        "long_rows": len(long),
        "median_abs_error": statistics.median(sizes) if sizes else None,
        "p90_abs_error": _quantile(sizes, 0.9),
        "worst_error": max(long, key=abs) if long else None,
        "median_error": statistics.median(long) if long else None,
        "brief_rows": len(brief),
        "brief_share_within_1_5": sum(near) / len(near) if near else None,
        "brief_median_error": statistics.median(brief) if brief else None,
    }


def _quantile(values: list[float], share: float) -> float | None:
    """Return the value below which this share lies, linear between the two nearest."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
