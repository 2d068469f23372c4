"""How do the engine's predictions compare with published figures, row by row and by paper?"""

from __future__ import annotations

import json
import statistics
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from scalewright._engine import metric
from scalewright.errors import ScalewrightError
from scalewright.reproductions.columns import plain
from scalewright.reproductions.conventions import skip_reason, spelt
from scalewright.reproductions.pricing import Priced, Pricing
from scalewright.reproductions.reading import Row, read_rows, shipped_rows
from scalewright.reproductions.setting import Setting, setting_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Result = dict[str, Any]


def run(
    pattern: str | None = None,
    rows_path: str | Path | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Result:
    """Predict published figures and compare.

    Args:
        pattern: Part of a paper's or table's name, or a glob; capitals do not count.
        rows_path: A CSV file of results; absent: the ones that come with the package.
        progress: Called with rows done and rows in all.

    Returns:
        `rows` with a status each (priced, searched or skipped) and `summary`. An error is
        predicted / published - 1, as a share.

    Raises:
        ScalewrightError: The file cannot be read, or the pattern matches no row.
    """
    found = shipped_rows() if rows_path is None else read_rows(rows_path)
    rows = [row for row in found if _meant(row, pattern)]
    if pattern and not rows:
        papers = sorted({row.text("paper") for row in found})
        message = f"pattern: '{pattern}' matches no paper or table; papers: {'; '.join(papers)}"
        raise ScalewrightError(message)
    pricing = Pricing()
    results: list[Result] = []
    for done, row in enumerate(rows):
        if progress is not None:
            progress(done, len(rows))
        results.append(_compared(row, pricing))
    if progress is not None:
        progress(len(rows), len(rows))
    return {"rows": results, "summary": summary(results)}


def summary(results: Iterable[Result]) -> Result:
    """Sum up errors over all rows and by paper, priced and searched rows also apart."""
    rows = list(results)
    papers = dict.fromkeys(row["paper"] for row in rows)
    by_paper = {paper: _errors(r for r in rows if r["paper"] == paper) for paper in papers}
    by_status = {
        status: _errors(r for r in rows if r["status"] == status)
        for status in ("priced", "searched")
    }
    return {
        "error_definition": "predicted / published - 1, as a share",
        **_errors(rows),
        "by_status": by_status,
        "by_paper": by_paper,
    }


def _errors(rows: Iterable[Result]) -> Result:
    listed = list(rows)
    counts = {
        f"rows_{status}": sum(row["status"] == status for row in listed)
        for status in ("priced", "searched", "skipped")
    }
    errors = [row["error"] for row in listed if row["error"] is not None]
    sizes = [abs(error) for error in errors]
    return {
        "mean_abs_error": statistics.fmean(sizes) if sizes else None,
        "median_abs_error": statistics.median(sizes) if sizes else None,
        "worst_abs_error": max(sizes, default=None),
        "mean_error": statistics.fmean(errors) if errors else None,
        **counts,
    }


def _meant(row: Row, pattern: str | None) -> bool:
    if not pattern:
        return True
    wanted = pattern.casefold()
    texts = [row.text("paper").casefold(), row.text("table").casefold()]
    texts.append(" ".join(texts))
    return any(wanted in text or fnmatchcase(text, wanted) for text in texts)


def _compared(row: Row, pricing: Pricing) -> Result:
    result: Result = {
        "file": row.file,
        "line": row.line,
        "paper": row.text("paper"),
        "table": row.text("table"),
        "hardware": row.text("hardware"),
        "devices": row.text("devices"),
        "model": row.text("model"),
        "metric": row.text("metric"),
        "unit": row.text("unit"),
        "published": None,
        "predicted": None,
        "error": None,
        "status": "skipped",
        "reason": None,
        "note": None,
        "plan": None,
    }
    try:
        result["published"] = published = row.number("value")
        if reason := skip_reason(row):
            return result | {"reason": reason}
        setting = setting_of(row)
        priced = pricing.price(setting)
        predicted = metric(priced.job, priced.estimate, _request(row, setting, published))
    except ScalewrightError as error:
        return result | {"reason": str(error)}
    return result | {
        "predicted": predicted,
        "error": predicted / published - 1.0,
        "status": "searched" if priced.searched else "priced",
        "note": "; ".join((*setting.notes, *priced.notes)) or None,
        **_shown(priced),
    }


def _request(row: Row, setting: Setting, published: float) -> str:
    """Say what the paper prints: metric, unit, conventions."""
    name, unit = row.text("metric"), row.text("unit")
    meant = spelt("metrics", plain(name)) or name
    if meant.casefold() in {"mfu", "hfu", "percent_of_peak"} and not unit and published <= 1.0:
        unit = "share"
    conventions = setting.conventions
    request = {
        "metric": meant,
        "unit": unit,
        "flops": conventions.flops,
        "recomputed": conventions.recomputed,
    }
    return json.dumps(request)


def _shown(priced: Priced) -> Result:
    fields = priced.fields()
    return {
        "plan": fields["plan"],
        "step_time_s": fields["step_time_s"],
        "fits": fields["fits"],
        "calibrated": fields["calibrated"],
    }
