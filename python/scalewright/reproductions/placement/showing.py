"""How does a person read the published results of placed data beside the predictions?"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from scalewright.reproductions.placement.papers import PAPERS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Result = dict[str, Any]
_BOUNDS = {"": "", "least": "from ", "most": "up to "}


def show(result: Result, console: Console) -> None:
    """Print what `run` made."""
    from rich.text import Text

    for paper in PAPERS:
        listed = [row for row in result["rows"] if row["table"] == paper.table]
        console.print(Text(paper.title, style="bold"))
        for source, group in groupby(listed, key=lambda row: row["paper"]):
            console.print(Text(source))
            console.print(_rows(list(group)))
        console.print(Text(paper.verdict))
        for row in listed:
            if row["reason"] is not None:
                console.print(Text(f"skipped: {row['what']}: {row['reason']}"))
        console.print()
    console.print("error = predicted / published - 1; the prediction itself where 0 was published")
    console.print()
    summary = result["summary"]
    console.print(_summary([*summary["by_placement"], summary["all"]]))


def _rows(rows: list[Result]) -> Table:
    from rich.text import Text

    table = _plain("place", "what")
    for name in ("published", "predicted", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for row in rows:
        predicted = row["predicted"]
        table.add_row(
            Text(row["place"]),
            Text(row["what"]),
            f"{_BOUNDS[row['bound']]}{row['published']:.4g} {row['unit']}".rstrip(),
            "" if predicted is None else f"{predicted:.4g} {row['unit']}".rstrip(),
            "" if row["error"] is None else f"{row['error']:+.1%}",
            row["source_kind"],
        )
    return table


def _summary(lines: list[Result]) -> Table:
    table = _plain("paper")
    for name in ("rows", "skipped", "median", "with sign", "worst", "beyond 1.3x"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        errors = (line[f"{name}_error"] for name in ("median_abs", "median", "worst"))
        median, signed, worst = ("" if e is None else f"{e:+.1%}" for e in errors)
        table.add_row(
            line["table"],
            str(line["rows"]),
            str(line["skipped"]),
            median.lstrip("+"),
            signed,
            worst,
            str(line["beyond_1_3"]),
        )
    return table


def _plain(*names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table
