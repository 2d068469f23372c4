"""How does a person read the comparison of kernels: by device, format and kind?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.reproductions.records import places_named, skipped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Result = dict[str, Any]
_TITLES = {
    "held_out": "Held out: constants fitted to other rows",
    "not_calibrated": "Not calibrated: constants fitted to none of these rows",
    "unknown": "Unknown: constants of your own files; whether they saw these rows is not known",
    "fitted": "Fitted: these rows may have set the constants, so they prove nothing",
}
_FIGURES = ("rows", "median", "90th", "worst", "with sign", "brief", "within 1.5x")


def show(result: Result, console: Console) -> None:
    """Print a comparison made by `run`."""
    from rich.text import Text

    summary = result["summary"]
    for part, title in _TITLES.items():
        lines = [line for line in summary["by_kernel"] if line["part"] == part]
        if not lines:
            continue
        console.print(Text(title, style="bold"))
        table = _table()
        for line in lines:
            names = (Text(line[name]) for name in ("kind", "device", "dtype"))
            table.add_row(*names, *_cells(line))
        table.add_row(Text("all"), "", "", *_cells(summary["by_part"][part]))
        console.print(table)
        console.print()
    console.print(
        "error = predicted time / measured time - 1; rows, median, 90th, worst, with sign (median "
        "with its sign): kernels of 20 us and more; brief, within 1.5x: the others"
    )
    console.print(f"split: {summary['split']}")
    for note, places in summary["noted"].items():
        console.print(Text(f"noted {places_named(places)}: {note}"))
    for reason, places in summary["skipped"].items():
        console.print(Text(skipped(reason, places)))


def _table() -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("kind", "device", "dtype"):
        table.add_column(name, overflow="fold")
    for figure in _FIGURES:
        table.add_column(figure, justify="right", no_wrap=True)
    return table


def _cells(figures: Result) -> list[str]:
    def share(key: str, form: str = ".1%") -> str:
        return "" if figures[key] is None else format(figures[key], form)

    return [
        str(figures["long_rows"] or ""),
        share("median_abs_error"),
        share("p90_abs_error"),
        share("worst_error", "+.0%"),
        share("median_error", "+.1%"),
        str(figures["brief_rows"] or ""),
        share("brief_share_within_1_5"),
    ]


def markdown(result: Result) -> str:
    """Return the errors on rows that need not fit any constant as Markdown tables by part."""
    return "\n\n".join(
        f"{_TITLES[part]}.\n\n{_markdown(result['summary'], part)}"
        for part in ("held_out", "not_calibrated", "unknown")
        if result["summary"]["by_part"][part]["rows"]
    )


def _markdown(summary: Result, part: str) -> str:
    lines = [
        f"| {' | '.join(('kind', 'device', 'format', *_FIGURES))} |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    members = [line for line in summary["by_kernel"] if line["part"] == part]
    every = {"kind": "all", "device": "", "dtype": "", **summary["by_part"][part]}
    for line in [*members, every]:
        names = (line["kind"], line["device"], line["dtype"])
        lines.append(f"| {' | '.join([*names, *_cells(line)])} |")
    return "\n".join(lines)
