"""How does a person read published claims beside the predictions?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Result = dict[str, Any]
_BOUNDS = {"": "", "least": "from ", "most": "up to "}


def show_table(title: str, rows: list[Result], console: Console) -> None:
    """Print the rows of a table, paper by paper, and why some are not predicted."""
    from itertools import groupby

    from rich.text import Text

    console.print(Text(title, style="bold"))
    for paper, group in groupby(rows, key=lambda row: row["paper"]):
        console.print(Text(paper))
        console.print(rows_table(list(group)))
    for row in rows:
        if row["reason"] is not None:
            console.print(Text(f"skipped: {row['what']}: {row['reason']}"))


def show_summary(lines: list[Result], first: str, console: Console) -> None:
    """Print what an error is, and a line of counts and errors for each group of rows."""
    console.print("error = predicted / published - 1; the prediction itself where 0 was published")
    console.print()
    console.print(summary_table(lines, first))


def rows_table(rows: list[Result]) -> Table:
    """Return published beside predicted, row by row."""
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


def summary_table(lines: list[Result], first: str) -> Table:
    """Return counts and errors, a line for each group of rows."""
    table = _plain(first)
    for name in ("rows", "skipped", "median", "with sign", "worst", "beyond 1.3x"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        errors = (line[f"{name}_error"] for name in ("median_abs", "median", "worst"))
        median, signed, worst = ("" if e is None else f"{e:+.1%}" for e in errors)
        table.add_row(
            line["table"],
            str(line["rows"]),
            str(line["rows_skipped"]),
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
