"""How does a person read the comparison: a table of rows, a table of papers?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.reproductions.ablation import sides
from scalewright.reproductions.runs import kinds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Result = dict[str, Any]
_TAKEN = ("hardware '", "model '")
"""How notes begin that say for what a name was taken."""
_MOST_TAKEN = 12
_PLAN_LETTERS = (
    ("tensor", "t"),
    ("pipeline", "p"),
    ("data", "d"),
    ("context", "c"),
    ("expert", "e"),
    ("micro_batch", "b"),
    ("interleave", "v"),
    ("zero", "z"),
)


def show(result: Result, console: Console, *, skipped: bool = False) -> None:
    """Print a comparison made by `run`.

    Args:
        result: What `run` returned.
        console: Where to print.
        skipped: List the skipped rows too; else only their number by reason.
    """
    _show_rows(result["rows"], console)
    _show_papers(result["summary"], console)
    _show_runs(result["summary"], console)
    _show_memory(result["rows"], console)
    _show_findings(result["rows"], console)
    _show_taken(result["rows"], console)
    unused = [row for row in result["rows"] if row["status"] == "skipped"]
    _show_skipped(unused, console, listed=skipped)


def show_ablation(found: Result, console: Console) -> None:
    """Print what `ablation` found: each term's worth over papers, then by paper."""
    from rich.text import Text

    base = found["base"]
    headers = ("runs with it", "mean", "change", "median", "papers better", "worse")
    table = _grid("without", *headers, right=headers)
    plain = (f"{base['mean_abs_error']:.1%}", "", f"{base['median_abs_error']:.1%}")
    table.add_row("(nothing)", str(found["runs"]), *plain, "", "")
    for term in sorted(found["terms"], key=lambda term: -term["mean_abs_error"]):
        if not term["runs"]:
            continue
        better, worse = sides(base, term)
        cells = (
            str(term["runs"]),
            f"{term['mean_abs_error']:.1%}",
            f"{term['mean_abs_error'] - base['mean_abs_error']:+.1%}",
            f"{term['median_abs_error']:.1%}",
            str(better),
            str(worse),
        )
        table.add_row(Text(term["term"]), *cells)
    console.print(table)
    console.print(
        Text(
            f"{found['runs']} runs, at most twelve of a paper, each paper counted once; errors by "
            "paper: --json"
        )
    )


def plan_in_short(plan: Result | None) -> str:
    """Write a plan as `t8 p4 d2 b1`: its degrees above one, and its recomputation."""
    if plan is None:
        return ""
    parts = [f"{letter}{plan[name]}" for name, letter in _PLAN_LETTERS if plan[name] > 1]
    if plan["recompute"] != "none":
        parts.append(plan["recompute"])
    return " ".join(parts)


def _grid(*headers: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table in plain letters; the first columns give way where space is short."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        if header in right:
            table.add_column(header, justify="right", no_wrap=True)
        else:
            table.add_column(header, overflow="fold")
    return table


def _show_rows(rows: list[Result], console: Console) -> None:
    """Print one table a paper, below its name."""
    from rich.text import Text

    papers: dict[str, list[Result]] = {}
    for row in rows:
        if row["error"] is not None:
            papers.setdefault(row["paper"], []).append(row)
    for paper, priced in papers.items():
        console.print(Text(paper, style="bold"))
        headers = ("line", "table", "model", "devices", "plan", "metric")
        numbers = ("published", "predicted", "error")
        table = _grid(*headers, *numbers, "status", right=("line", "devices", *numbers))
        for row in priced:
            table.add_row(*(Text(cell) for cell in _cells(row)))
        console.print(table)
        console.print()
    if papers:
        console.print("error = predicted / published - 1")
        console.print()


def _cells(row: Result) -> list[str]:
    unit, metric = row["unit"], row["metric"].replace("_", " ")
    status = row["status"] if row["fits"] else f"{row['status']}, does not fit"
    return [
        str(row["line"]),
        row["table"],
        row["model"],
        row["devices"],
        plan_in_short(row["plan"]),
        f"{metric}, {unit}" if unit else metric,
        f"{row['published']:.4g}",
        f"{row['predicted']:.4g}",
        f"{row['error']:+.1%}",
        status,
    ]


def _show_papers(summary: Result, console: Console) -> None:
    from rich.text import Text

    headers = ("mean of sizes", "median", "worst", "signed mean", "priced", "searched", "skipped")
    table = _grid("errors by paper", *headers, right=headers)
    lines = [(name, errors) for name, errors in summary["by_paper"].items() if _counted(errors)]
    lines += [(f"all {name}", errors) for name, errors in summary["by_status"].items()]
    lines.append(("all", summary))
    for place, (name, errors) in enumerate(lines):
        if place == len(lines) - 3:
            table.add_row()
        table.add_row(Text(name), *_error_cells(errors))
    console.print(table)


def _show_runs(summary: Result, console: Console) -> None:
    """Print what counts runs: MFU, TFLOP/s and tokens/s of one run are one."""
    from rich.text import Text

    runs = summary["runs"]
    if not runs["runs"]:
        return
    headers = ("runs", "median", "90th pct", "signed median", "too quick", "too slow", "p")
    table = _grid("speed of a step, by run", *headers, right=headers)
    for name, errors in summary["by_paper"].items():
        if errors["runs"]["runs"]:
            table.add_row(Text(name), *_run_cells(errors["runs"]))
    table.add_row()
    table.add_row(Text("all"), *_run_cells(runs))
    for name, mean in _macros(runs):
        sizes = (f"{mean[key]:.1%}" for key in ("median_abs_error", "p90_abs_error"))
        table.add_row(Text(f"{name}: mean of {mean['papers']} papers"), "", *sizes)
    console.print()
    console.print(table)
    told = (
        f"{_number(runs['runs'])} on {kinds(runs['devices'])}; signed: of the time of "
        "a step, below zero where the prediction is too quick; p: two-sided sign test"
    )
    console.print(Text(told))


def _number(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs:,} runs"


def _macros(runs: Result) -> list[tuple[str, Result]]:
    means = [("each paper once", runs["macro"])]
    means += [(f"{name} alone", mean) for name, mean in runs["macro_by_status"].items()]
    return [(name, mean) for name, mean in means if mean["papers"]]


def _run_cells(runs: Result) -> list[str]:
    return [
        str(runs["runs"]),
        f"{runs['median_abs_error']:.1%}",
        f"{runs['p90_abs_error']:.1%}",
        f"{runs['median_time_error']:+.1%}",
        str(runs["too_quick"]),
        str(runs["too_slow"]),
        f"{runs['sign_test_p']:.2g}",
    ]


def _show_memory(rows: list[Result], console: Console) -> None:
    from rich.text import Text

    papers: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] == "memory" and row["error"] is not None:
            papers.setdefault(f"{row['paper']}: {row['metric']}", []).append(abs(row["error"]))
    if not papers:
        return
    headers = ("rows", "mean", "worst")
    table = _grid("memory", *headers, right=headers)
    for name, sizes in papers.items():
        mean = sum(sizes) / len(sizes)
        cells = (str(len(sizes)), f"{mean:.1%}", f"{max(sizes):.1%}")
        table.add_row(Text(name.replace("_", " ")), *cells)
    console.print()
    console.print(table)


def _show_findings(rows: list[Result], console: Console) -> None:
    from rich.text import Text

    lines: dict[str, list[Result]] = {}
    for row in rows:
        if row["finding"] is not None:
            lines.setdefault(row["finding"], []).append(row)
    if not lines:
        return
    table = _grid("rows", "off by more than 15%, because", right=("rows",))
    for finding, found in sorted(lines.items(), key=lambda item: -len(item[1])):
        table.add_row(Text(str(len(found))), Text(finding))
    console.print()
    console.print(table)


def _error_cells(errors: Result) -> list[str]:
    keys = ("mean_abs_error", "median_abs_error", "worst_abs_error")
    cells = ["" if errors[key] is None else f"{errors[key]:.1%}" for key in keys]
    signed = errors["mean_error"]
    cells.append("" if signed is None else f"{signed:+.1%}")
    return cells + [str(errors[f"rows_{s}"]) for s in ("priced", "searched", "skipped")]


def _counted(errors: Result) -> bool:
    return errors["mean_abs_error"] is not None


def _show_taken(rows: list[Result], console: Console) -> None:
    """Print which names were taken for others, where they are few."""
    from rich.text import Text

    lines: dict[str, list[str]] = {}
    for row in rows:
        for part in (row["note"] or "").split("; "):
            if part.startswith(_TAKEN) and "taken" in part:
                lines.setdefault(part, []).append(str(row["line"]))
    if not 0 < len(lines) <= _MOST_TAKEN:
        return
    table = _grid("line", "a name taken for another")
    for note, named in lines.items():
        table.add_row(Text(", ".join(dict.fromkeys(named))), Text(note))
    console.print()
    console.print(table)


def _show_skipped(rows: list[Result], console: Console, *, listed: bool) -> None:
    from rich.text import Text

    if not rows:
        return
    counted = "line" if listed else "rows"
    table = _grid(counted, "skipped because", right=() if listed else (counted,))
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reasons.setdefault(row["reason"], []).append(str(row["line"]))
    for reason, lines in sorted(reasons.items(), key=lambda item: -len(item[1])):
        named = ", ".join(dict.fromkeys(lines)) if listed else str(len(lines))
        table.add_row(Text(named), Text(reason))
    console.print()
    console.print(table)
