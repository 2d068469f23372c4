"""What do all published results of placed data come to, and how far out is each paper?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.reproductions.claims import summed
from scalewright.reproductions.placement.papers import PAPERS

if TYPE_CHECKING:
    from collections.abc import Callable

Result = dict[str, Any]


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
        lines.append(summed(paper.table, rows) | {"verdict": paper.verdict})
        found += rows
    if progress is not None:
        progress(len(PAPERS), len(PAPERS))
    return {"rows": found, "summary": {"by_placement": lines, "all": summed("all", found)}}
