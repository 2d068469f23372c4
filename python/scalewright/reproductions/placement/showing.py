"""How does a person read the published results of placed data beside the predictions?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.reproductions.claim_tables import show_summary, show_table
from scalewright.reproductions.placement.papers import PAPERS

if TYPE_CHECKING:
    from rich.console import Console

Result = dict[str, Any]


def show(result: Result, console: Console) -> None:
    """Print what `run` made."""
    from rich.text import Text

    for paper in PAPERS:
        rows = [row for row in result["rows"] if row["table"] == paper.table]
        show_table(paper.title, rows, console)
        console.print(Text(paper.verdict))
        console.print()
    summary = result["summary"]
    show_summary([*summary["by_placement"], summary["all"]], "paper", console)
