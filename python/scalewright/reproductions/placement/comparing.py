"""What do all published results of placed data come to, and how far out is each paper?"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from scalewright.reproductions.placement.papers import PAPERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Result = dict[str, Any]
FAR = 1.3
"""A prediction that is out by more than this factor is counted on its own."""


def run(progress: Callable[[int, int], object] | None = None) -> Result:
    """Predict every row.

    Returns:
        `rows`, each with its prediction or the reason for none, and a `summary` by paper.

    Args:
        progress: Called with papers done and papers in all.
    """
    found: list[Result] = []
    lines: list[Result] = []
    for done, paper in enumerate(PAPERS):
        if progress is not None:
            progress(done, len(PAPERS))
        rows = list(paper.predict())
        lines.append(_line(paper.table, rows) | {"verdict": paper.verdict})
        found += rows
    if progress is not None:
        progress(len(PAPERS), len(PAPERS))
    return {"rows": found, "summary": {"by_placement": lines, "all": _line("all", found)}}


def is_far(row: Result) -> bool:
    """Say whether a prediction is out by more than the factor `FAR`."""
    error = row["error"]
    return error is not None and (error > FAR - 1.0 or error < 1.0 / FAR - 1.0)


def _line(table: str, rows: Sequence[Result]) -> Result:
    errors = [row["error"] for row in rows if row["error"] is not None]
    sizes = [abs(error) for error in errors]
    return {
        "table": table,
        "rows": len(rows),
        "predicted": len(errors),
        "skipped": len(rows) - len(errors),
        "median_abs_error": statistics.median(sizes) if sizes else None,
        "median_error": statistics.median(errors) if errors else None,
        "worst_error": max(errors, key=abs) if errors else None,
        "beyond_1_3": sum(is_far(row) for row in rows),
    }
