"""How far off is each published result, as a file, and how wide must bands of error be?"""

from __future__ import annotations

import csv
import io
import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright.catalog import load_device
from scalewright.planning.error_band import (
    SHARE,
    Band,
    Residual,
    Runs,
    Traits,
    Widening,
    band_of,
)
from scalewright.reproductions.columns import SEEN
from scalewright.reproductions.findings import finding_of
from scalewright.reproductions.parity import short
from scalewright.reproductions.reading import Row, read_rows, shipped_rows, unseen_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Result = dict[str, Any]
_TRAITS = ("device", "vendor", "year", "dtype", "devices", "parameters")
_NAMES = ("file", "line", "paper", "run", "kind", "use", "status", "known", *_TRAITS)
_NUMBERS = ("published", "predicted", "error", "time_ratio")
_COLUMNS: tuple[str, ...] = (*_NAMES, *_NUMBERS, "reason")
_DIGITS = 6


def residual_table(results: Iterable[Result]) -> str:
    """Return the rows of a comparison as a CSV text, without the remark above it."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_recorded(row) for row in results)
    return text.getvalue()


def read_results(table: str) -> list[Result]:
    """Return the rows of a residual file, with what the published files say of them."""
    known = (*shipped_rows(), *read_rows(unseen_path()))
    rows = {(row.file, row.line): row for row in known}
    records = csv.DictReader(io.StringIO(table, newline=""))
    return [_result(record, rows[record["file"], int(record["line"])]) for record in records]


def widening(residuals: Sequence[Residual]) -> Widening:
    """Return by how much bands are widened so that they hold their share of runs of other papers.

    Runs whose program is known and those of which it is not are widened apart, so that bands hold
    their share of each (Mondrian conformal prediction, Vovk et al. 2005).

    Each run is set against the band of the runs of all other papers; what bands miss is a
    conformity score, of which the share's quantile is taken (conformalised quantile regression,
    Romano et al. 2019). Half of the weight is shared by the runs, half by the papers.
    """
    return _widening(_misses(residuals))


def coverage(residuals: Sequence[Residual]) -> Result:
    """Return what share of the runs of a paper lies in bands that rest on other papers alone.

    The widening, too, is found without the paper.
    """
    misses = _misses(residuals)
    inside: dict[str, list[bool]] = {}
    for paper in dict.fromkeys(miss.run.paper for miss in misses):
        others = _widening([miss for miss in misses if miss.run.paper != paper])
        own = [miss for miss in misses if miss.run.paper == paper]
        inside[paper] = [miss.by <= others.of(miss.run.traits) for miss in own]
    listed = [held for own in inside.values() for held in own]
    widened = _widening(misses)
    largest = max(inside, key=lambda paper: len(inside[paper]))
    rest = [held for paper, own in inside.items() if paper != largest for held in own]
    return {
        "runs": len(listed),
        "papers": len(inside),
        "of_runs": statistics.fmean(listed),
        "of_papers": statistics.fmean(statistics.fmean(own) for own in inside.values()),
        "largest": {
            "paper": largest,
            "runs": len(inside[largest]),
            "of_runs": statistics.fmean(inside[largest]),
            "of_other_runs": statistics.fmean(rest) if rest else None,
        },
        "longer_than_middle": statistics.fmean(
            statistics.fmean(miss.longer for miss in misses if miss.run.paper == paper)
            for paper in inside
        ),
        "median_width": statistics.median(
            miss.width + 2.0 * widened.of(miss.run.traits) for miss in misses
        ),
    }


@dataclass(frozen=True)
class _OutsideBand:
    """By how much a run lies outside the band of the runs of other papers."""

    run: Residual
    by: float
    width: float
    """Of the band."""
    longer: bool
    """Than the middle of the band."""


def _misses(residuals: Sequence[Residual]) -> list[_OutsideBand]:
    every = Runs(residuals)
    bands: dict[tuple[str, Traits], Band] = {}
    found: list[_OutsideBand] = []
    for run in residuals:
        key = (run.paper, run.traits)
        if key not in bands:
            bands[key] = band_of(run.traits, every, apart=run.paper)
        band = bands[key]
        longer = run.log_ratio > band.middle
        found.append(_OutsideBand(run, band.misses(run), band.high - band.low, longer))
    return found


def _widening(misses: Sequence[_OutsideBand]) -> Widening:
    apart = [[miss for miss in misses if miss.run.traits.named is named] for named in (True, False)]
    return Widening(*(_quantile(own) if own else 0.0 for own in apart))


def _quantile(misses: Sequence[_OutsideBand]) -> float:
    """Return the share's quantile; half of the weight is the runs', half the papers'."""
    rows = Counter(miss.run.paper for miss in misses)
    weights = {paper: 0.5 / len(misses) + 0.5 / (len(rows) * n) for paper, n in rows.items()}
    weighed = sorted((miss.by, weights[miss.run.paper]) for miss in misses)
    reached = 0.0
    for miss, weight in weighed:
        reached += weight
        if reached >= SHARE:
            return miss
    return weighed[-1][0]


def _recorded(row: Result) -> dict[str, object]:
    record: dict[str, object] = {name: row.get(name) or "" for name in (*_NAMES, "reason")}
    record["paper"] = short(row["paper"])
    if row["error"] is None:
        return {**record, **dict.fromkeys((*_TRAITS, *_NUMBERS), "")}
    device = load_device(row["device"])
    return {
        **record,
        "vendor": device["vendor"],
        "year": device["year"],
        "devices": row["device_count"],
        **{name: f"{row[name]:.{_DIGITS}g}" for name in _NUMBERS},
    }


def _result(record: dict[str, str], row: Row) -> Result:
    numbers = {name: float(record[name]) if record[name] else None for name in _NUMBERS}
    error = numbers["error"]
    return {
        **record,
        **numbers,
        "line": row.line,
        "run": int(record["run"]) if record["run"] else None,
        "paper": row.text("paper"),
        "table": row.text("table"),
        "metric": row.text("metric"),
        "seen": row.text("seen").casefold() or SEEN[0],
        "finding": None if error is None else finding_of(row, error),
        "reason": record["reason"] or None,
    }
