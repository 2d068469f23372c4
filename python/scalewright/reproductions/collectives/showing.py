"""How does a person read the comparison of collectives: by system and collective, then in all?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.reproductions.records import places_named, skipped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Result = dict[str, Any]
_TITLES = {
    "held_out": "Held out: constants fitted to other rows",
    "not_calibrated": "Not calibrated: constants of the system's family, none of these rows fitted",
    "unknown": "Unknown: constants of your own files; whether they saw these rows is not known",
    "fitted": "Fitted: these rows may have set the constants, so they prove nothing",
}
_MOST_NOTED = 12
"""Names taken for others that are listed; more are in the JSON alone."""
_FIGURES = ("rows", "median", "90th", "within 2x", "small", "within 1.5x")


def show(result: Result, console: Console) -> None:
    """Print a comparison made by `run`."""
    from rich.text import Text

    summary = result["summary"]
    for part, title in _TITLES.items():
        lines = [line for line in summary["by_system"] if line["part"] == part]
        if not lines:
            continue
        console.print(Text(title, style="bold"))
        table = _table("system", "collective")
        for line in lines:
            names = (Text(line["system"]), Text(line["collective"].replace("_", "-")))
            table.add_row(*names, *_cells(line))
        table.add_row("", "", *[""] * len(_FIGURES))
        table.add_row(Text("all"), "", *_cells(summary["by_part"][part]))
        console.print(table)
        console.print()
        console.print(_by_size([line for line in summary["by_size"] if line["part"] == part]))
        console.print()
    console.print(
        "error = predicted time / measured time - 1; rows, median, 90th, within 2x: messages of "
        "1 MB and more; small, within 1.5x: the others"
    )
    if summary["noted"] or summary["skipped"]:
        console.print()
        if len(summary["noted"]) <= _MOST_NOTED:
            for note, places in summary["noted"].items():
                console.print(Text(f"noted {places_named(places)}: {note}"))
        for reason, places in summary["skipped"].items():
            console.print(Text(skipped(reason, places)))
    if result.get("claims"):
        console.print()
        console.print(Text("Claims of papers that print no times", style="bold"))
        console.print(_claims(result["claims"]))


def _claims(found: list[Result]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from scalewright.reproductions.collectives.claims import most

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("paper", "what", "model", "system"):
        table.add_column(name, overflow="fold")
    for name in ("published", "predicted", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("source")
    for claim in found:
        upto = "up to " if claim["bound"] == "most" else ""
        table.add_row(
            *(Text(str(claim[name])) for name in ("paper", "what", "model", "system")),
            f"{upto}{claim['published']:g} {claim['unit']}",
            _figure(claim),
            "" if claim["error"] is None else f"{claim['error']:+.0%}",
            Text(claim["source_kind"]),
        )
    for best in most(found):
        table.add_row(
            Text(best["paper"]),
            Text(f"{best['what'].rpartition(',')[0]}, the most of {best['settings']} settings"),
            *(Text(str(best[name])) for name in ("model", "system")),
            f"{best['published']:g} {best['unit']}",
            _figure(best),
            f"{best['error']:+.0%}",
            Text(best["source_kind"]),
        )
    return table


def _figure(claim: Result) -> str:
    return "" if claim["predicted"] is None else f"{claim['predicted']:.3g} {claim['unit']}"


def _by_size(lines: list[Result]) -> Table:
    table = _grid("size", "rows", "median", "90th", "median with sign")
    for line in lines:
        table.add_row(
            line["size"],
            str(line["rows"]),
            f"{line['median_abs_error']:.1%}",
            f"{line['p90_abs_error']:.1%}",
            f"{line['median_error']:+.1%}",
        )
    return table


def _grid(*headers: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _table(*names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    for figure in _FIGURES:
        table.add_column(figure, justify="right", no_wrap=True)
    return table


def _cells(figures: Result) -> list[str]:
    def share(key: str) -> str:
        return "" if figures[key] is None else f"{figures[key]:.1%}"

    return [
        str(figures["large_rows"] or ""),
        share("large_median_abs_error"),
        share("large_p90_abs_error"),
        share("large_share_within_2"),
        str(figures["small_rows"] or ""),
        share("small_share_within_1_5"),
    ]
