"""Which constants did measured collectives give, and how far off are predictions with them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report import quantities as q
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

# a fit that is no better has no meaning
_POOR = 0.2
_LINES_NAMED = 5
_NOTES = {
    "fitted": "",
    "confirmed": "kept: these rows give no reason to change it",
    "untold": "kept: these rows do not tell it",
}


def show_calibration(found: Mapping[str, Any], screen: Console) -> None:
    """Print the constants before and after, and the errors on held-out and on fitted rows."""
    from rich.text import Text

    rows: Mapping[str, int] = found["rows"]
    screen.print(f"{found['system']}, level {found['level']}", style="bold")
    where = "in" if found["in_place"] else "out of"
    screen.print(f"{rows['read']} rows of {', '.join(found['files'])}, timed {where} place")
    screen.print(
        f"{rows['fitted']} fitted, {rows['held_out']} held out ({found['split']})"
        f"{_left_out(rows['left_out'])}"
    )
    wrong: Sequence[str] = found["left_out"]
    if wrong:
        screen.print(f"left out, since their figures cannot be used: {len(wrong)}")
    for line in wrong[:_LINES_NAMED]:
        screen.print(Text(f"left out: {line}"))
    if len(wrong) > _LINES_NAMED:
        screen.print(f"and {len(wrong) - _LINES_NAMED} lines more")
    heading(screen, "Constants of the level")
    constants = table("constant", "catalog", "fitted", "")
    constants.columns[3].justify = "left"
    for line in found["constants"]:
        name, before = line["name"], _shown(line["name"], line["before"])
        constants.add_row(name, before, _shown(name, line["after"]), _NOTES[line["status"]])
    screen.print(constants)
    errors: Mapping[str, Sequence[Mapping[str, Any]]] = found["errors"]
    heading(screen, "Errors of predicted times on held-out rows, which no constant was fitted to")
    if errors["held_out"]:
        _show_errors(errors["held_out"], screen, errors["held_out_before"])
    else:
        screen.print("none: there are fewer than three sizes")
    heading(screen, "Errors on the fitted rows")
    _show_errors(errors["fitted"], screen)
    if errors["fitted"][0]["median_abs_error"] > _POOR:
        screen.print()
        screen.print(
            f"No constants of this level describe these rows: is {found['system']} what was "
            "measured, its bandwidth and its nodes?"
        )


def _left_out(count: int) -> str:
    return f", {count} left out: their groups end at another level" if count else ""


def _shown(name: str, value: float) -> str:
    if name == "latency" or name.endswith(".base"):
        return f"{value * 1e6:.4g} us"
    return f"{value:.4g}"


def _show_errors(
    lines: Sequence[Mapping[str, Any]],
    screen: Console,
    before: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    columns = ["rows", "median", "90th", "worst", "worst at"]
    rows = table(
        "collective", "sizes", *columns, *(["median with the catalog's"] if before else []), left=2
    )
    for place, line in enumerate(lines):
        rows.add_row(
            line["collective"].replace("_", "-"),
            line["sizes"],
            str(line["rows"]),
            q.share(line["median_abs_error"]),
            q.share(line["error_90th_percentile"]),
            f"{line['worst_error']:+.1%}",
            f"{q.size(line['worst_bytes'])}, {line['worst_ranks']} ranks",
            *([q.share(before[place]["median_abs_error"])] if before else []),
        )
    screen.print(rows)
