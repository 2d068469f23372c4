"""How do predicted collectives compare with measured ones, row by row, by system and in all?"""

from __future__ import annotations

import statistics
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.errors import ScalewrightError
from scalewright.planning import collective
from scalewright.reproductions.collectives.claims import claims
from scalewright.reproductions.collectives.machines import Machines, Run
from scalewright.reproductions.collectives.rows import (
    CollectiveRow,
    UnreadCollectiveRow,
    read,
    shipped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

Result = dict[str, Any]
LARGE_BYTES = 1e6
"""Messages from here on are judged by their error, smaller ones by their factor."""
_SIZES = (
    ("below 64 KiB", 0.0, 2.0**16),
    ("64 KiB to 1 MiB", 2.0**16, 2.0**20),
    ("1 to 64 MiB", 2.0**20, 2.0**26),
    ("64 MiB to 1 GiB", 2.0**26, 2.0**30),
    ("1 GiB and more", 2.0**30, 1e19),
)
_HELD_OUT_EVERY = 3
_HELD_OUT = 1
_NEAR = 1.5
_FAR = 2.0
_MOST_BEYOND = 2.0
"""How many times faster than its links allow a row may be and still count, as for kernels."""
_PARTS = ("held_out", "not_calibrated", "unknown", "fitted")


def run(
    rows_path: str | Path | None = None,
    only_system: str | None = None,
    *,
    overrides: Sequence[str | Path] = (),
    progress: Callable[[int, int], object] | None = None,
) -> Result:
    """Predict measured collectives and compare.

    A row is `fitted` where the constants of its system may have been fitted to it, `held_out` where
    they were fitted to others, `not_calibrated` where to none: of the package's rows of one system,
    collective, type, algorithm and number of ranks in order of their bytes, every third, from the
    second on, is held out, and so are rows of a user's file that are none of the package's. Where a
    user's own files give constants, which may have been fitted to any row, it is `unknown`.

    Args:
        rows_path: A CSV file of results; absent: the ones that come with the package.
        only_system: Catalog name of the system on which all rows ran; absent: as each row says.
        overrides: User files or directories that add to the catalog or change it.
        progress: Called with rows done and rows in all.

    Returns:
        `rows` with a status each (priced or skipped), `summary`, and where the rows are the ones of
        the package `claims`: what papers say of collectives whose times they do not print. An
        error is predicted over measured time, less one.

    Raises:
        ScalewrightError: The file cannot be read.
    """
    found = shipped() if rows_path is None else read(rows_path)
    machines = Machines(only_system, overrides)
    own = [row for row in found if isinstance(row, CollectiveRow)]
    held_out = _held_out(own) if rows_path is None else _not_ours(own)
    results: list[Result] = []
    for done, row in enumerate(found):
        if progress is not None:
            progress(done, len(found))
        results.append(_compared(row, machines, held_out))
    if progress is not None:
        progress(len(found), len(found))
    told = claims(overrides) if rows_path is None and only_system is None else []
    return {"rows": results, "summary": summary(results), "claims": told}


def summary(results: Iterable[Result]) -> Result:
    """Sum up errors by part, and by system and collective within it."""
    listed = list(results)
    rows = [row for row in listed if row["error"] is not None]
    skipped: dict[str, list[str]] = {}
    for row in listed:
        if row["error"] is None:
            skipped.setdefault(row["reason"], []).append(f"{row['file']}:{row['line']}")
    noted: dict[str, list[str]] = {}
    for row in rows:
        if row["note"]:
            noted.setdefault(row["note"], []).append(f"{row['file']}:{row['line']}")
    by_part = {part: _figures(row for row in rows if row["part"] == part) for part in _PARTS}
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for row in rows:
        key = (row["part"], row["system"], row["collective"])
        groups.setdefault(key, []).append(row)
    by_system = [
        {"part": part, "system": name, "collective": what, **_figures(members)}
        for (part, name, what), members in sorted(groups.items())
    ]
    by_size = [
        {"part": part, "size": name, "from_bytes": least, **_spread(members)}
        for part in _PARTS
        for name, least, below in _SIZES
        if (members := [r for r in rows if r["part"] == part and least <= r["bytes"] < below])
    ]
    return {
        "error_definition": "predicted time / measured time - 1, as a share",
        "large_from_bytes": LARGE_BYTES,
        "by_part": by_part,
        "by_system": by_system,
        "by_size": by_size,
        "noted": noted,
        "skipped": skipped,
    }


def _figures(rows: Iterable[Result]) -> Result:
    listed = list(rows)
    large: list[float] = [row["error"] for row in listed if row["bytes"] >= LARGE_BYTES]
    small: list[float] = [row["error"] for row in listed if row["bytes"] < LARGE_BYTES]
    return {
        "large_rows": len(large),
        "large_median_abs_error": statistics.median([abs(e) for e in large]) if large else None,
        "large_p90_abs_error": _quantile([abs(e) for e in large], 0.9),
        "large_share_within_2": _share_within(large, _FAR),
        "small_rows": len(small),
        "small_median_abs_error": statistics.median([abs(e) for e in small]) if small else None,
        "small_share_within_1_5": _share_within(small, _NEAR),
    }


def _spread(rows: list[Result]) -> Result:
    """Return how far the errors of some rows of like size lie from zero, and on which side."""
    errors: list[float] = [row["error"] for row in rows]
    return {
        "rows": len(errors),
        "median_error": statistics.median(errors),
        "median_abs_error": statistics.median([abs(e) for e in errors]),
        "p90_abs_error": _quantile([abs(e) for e in errors], 0.9),
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


def _share_within(errors: list[float], factor: float) -> float | None:
    if not errors:
        return None
    return sum(1.0 / factor <= 1.0 + error <= factor for error in errors) / len(errors)


def _held_out(rows: Iterable[CollectiveRow]) -> set[tuple[str, int]]:
    groups: dict[tuple[object, ...], list[CollectiveRow]] = {}
    for row in rows:
        key = (row.file, row.system, row.collective, row.dtype, row.algorithm, row.ranks)
        groups.setdefault(key, []).append(row)
    return {
        (row.file, row.line)
        for members in groups.values()
        for place, row in enumerate(sorted(members, key=lambda r: (r.bytes, r.line)))
        if place % _HELD_OUT_EVERY == _HELD_OUT
    }


def _not_ours(rows: Iterable[CollectiveRow]) -> set[tuple[str, int]]:
    """Return the rows of a user's file to which the package has fitted nothing."""
    used = _seen()
    return {(row.file, row.line) for row in rows if _timed(row) not in used}


@cache
def _seen() -> frozenset[tuple[object, ...]]:
    """Return the timings of the package that may have fitted constants."""
    ours = [row for row in shipped() if isinstance(row, CollectiveRow)]
    apart = _held_out(ours)
    return frozenset(_timed(row) for row in ours if (row.file, row.line) not in apart)


def _timed(row: CollectiveRow) -> tuple[object, ...]:
    """Tell a timing from others, however a file spells its system."""
    return row.collective, row.ranks, row.bytes, f"{row.time_s:.4g}"


def _compared(
    row: CollectiveRow | UnreadCollectiveRow, machines: Machines, held_out: set[tuple[str, int]]
) -> Result:
    result: Result = {
        "file": row.file,
        "line": row.line,
        "system": row.system,
        "catalog_system": None,
        "collective": None,
        "ranks": None,
        "bytes": None,
        "measured_s": None,
        "predicted_s": None,
        "lower_bound_s": None,
        "algorithm": None,
        "protocol": None,
        "error": None,
        "part": None,
        "reason": None,
        "note": None,
    }
    if isinstance(row, UnreadCollectiveRow):
        return result | {"reason": row.reason}
    result |= {
        "collective": row.collective,
        "ranks": row.ranks,
        "bytes": row.bytes,
        "measured_s": row.time_s,
    }
    try:
        meant = machines.run_of(row)
        answer = collective(
            meant.collective,
            row.bytes,
            meant.system,
            meant.ranks,
            stride=meant.stride,
            algorithms=meant.algorithms or None,
        )
    except ScalewrightError as error:
        return result | {"reason": str(error)}
    predicted, least = float(answer.time_s), float(answer.lower_bound_s)
    if row.time_s * _MOST_BEYOND < least:
        beyond = f"{least / row.time_s:.4g} times as fast as the links of {meant.system.name} allow"
        got = f"time: got {row.time_s * 1e6:.4g} us for {row.bytes:.4g} bytes, {beyond}"
        return result | {"reason": f"{got}; allowed: up to {_MOST_BEYOND:g} times"}
    return result | {
        "catalog_system": meant.system.name,
        "predicted_s": predicted,
        "lower_bound_s": least,
        "algorithm": str(answer.algorithm),
        "protocol": str(answer.protocol),
        "error": predicted / row.time_s - 1.0,
        "part": _part(row, meant, held_out),
        "note": meant.note or None,
    }


def _part(row: CollectiveRow, meant: Run, held_out: set[tuple[str, int]]) -> str:
    if not meant.ours:
        return "unknown"
    if not meant.calibrated:
        return "not_calibrated"
    return "held_out" if (row.file, row.line) in held_out else "fitted"
