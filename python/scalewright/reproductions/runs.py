"""Which rows speak of one run, and does its prediction err to the quick or to the slow side?"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from scalewright.reproductions.columns import BESIDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

    from scalewright.reproductions.reading import Row

Result = dict[str, Any]
_TIMES = ("time", "latency")
_RUN_TIMES = ("days_for_", "training_time_for_", "gpu_hours_", "device_hours_")
_MEMORIES = ("memory", "allocated", "reserved")


def kind_of(metric: str) -> str:
    """Say what a metric measures: `time` or `rate` of a step, `layer`, `memory` or `speedup`."""
    if metric.startswith("layer_"):
        return "layer"
    if any(word in metric for word in _MEMORIES):
        return "memory"
    if metric == "speedup" or metric.endswith("_increase") or "efficiency" in metric:
        return "speedup"
    if metric.startswith(_RUN_TIMES) or any(word in metric for word in _TIMES):
        return "time"
    return "rate"


def is_rate(metric: str) -> bool:
    """Say whether a metric is a rate, or the time of so many tokens, its inverse."""
    return kind_of(metric) == "rate" or metric.startswith(_RUN_TIMES)


def run_key(row: Row) -> tuple[object, ...]:
    """Return what tells a row's run from others: its cells but those on what was printed."""
    said = tuple(sorted((c, t) for c, t in row.cells.items() if c not in BESIDE))
    return row.file, *said


def time_ratio(kind: str, published: float, predicted: float) -> float:
    """Return predicted over published time; the inverse of the ratio where the figure is a rate."""
    return predicted / published if kind in {"time", "layer"} else published / predicted


def runs_of(rows: Iterable[Result]) -> list[Result]:
    """Join the validating rows on the speed of a step into runs.

    A run's `size` is the mean size of its rows' errors, each in its own metric; `time_error` is
    the mean of predicted over published time on a logarithmic scale, less one: below zero where
    the prediction is too quick.
    """
    groups: dict[int, list[Result]] = {}
    for row in rows:
        if counts(row) and row["kind"] in {"time", "rate"}:
            groups.setdefault(row["run"], []).append(row)
    return [_joined(group) for group in groups.values()]


def counts(row: Result) -> bool:
    """Say whether a row's error counts: it has one and no constant was fitted to it."""
    return row["error"] is not None and row["use"] == "validate"


def spread(runs: list[Result]) -> Result:
    """Sum up runs: how many, on what, how far off, to which side."""
    sizes = sorted(run["size"] for run in runs)
    signed = [run["time_error"] for run in runs]
    quick = sum(error < 0.0 for error in signed)
    return {
        "runs": len(runs),
        "devices": sorted({run["device"] for run in runs}),
        "mean_abs_error": statistics.fmean(sizes) if sizes else None,
        "median_abs_error": quantile(sizes, 0.5) if sizes else None,
        "p90_abs_error": quantile(sizes, 0.9) if sizes else None,
        "median_time_error": statistics.median(signed) if signed else None,
        "too_quick": quick,
        "too_slow": len(runs) - quick,
        "sign_test_p": sign_test(quick, len(runs)),
    }


def kinds(devices: Sized) -> str:
    """Say on how many kinds of devices runs were."""
    count = len(devices)
    return "one kind of device" if count == 1 else f"{count:,} kinds of devices"


def macro(runs: list[Result]) -> Result:
    """Average the papers' median and 90th percentile, so that each paper counts once."""
    papers: dict[str, list[float]] = {}
    for run in runs:
        papers.setdefault(run["paper"], []).append(run["size"])
    listed = [sorted(sizes) for sizes in papers.values()]
    return {
        "papers": len(listed),
        "median_abs_error": _mean(quantile(sizes, 0.5) for sizes in listed),
        "p90_abs_error": _mean(quantile(sizes, 0.9) for sizes in listed),
    }


def sign_test(ups: int, total: int) -> float | None:
    """Return the two-sided binomial p of so many of a kind where both are as likely."""
    if total == 0:
        return None
    least = min(ups, total - ups)
    tail = sum(math.comb(total, count) for count in range(least + 1))
    return min(2 * tail / 2**total, 1.0)


def quantile(ordered: list[float], share: float) -> float:
    """Return a quantile of an ordered list, between neighbours by a straight line."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _joined(rows: list[Result]) -> Result:
    first = rows[0]
    logs = [math.log(row["time_ratio"]) for row in rows]
    return {
        "run": first["run"],
        "paper": first["paper"],
        "file": first["file"],
        "lines": [row["line"] for row in rows],
        "device": first["device"],
        "status": first["status"],
        "size": statistics.fmean(abs(row["error"]) for row in rows),
        "time_error": math.exp(statistics.fmean(logs)) - 1.0,
    }


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return statistics.fmean(listed) if listed else None
