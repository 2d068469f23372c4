"""Which constants did measured training steps give, and how far off are predictions with them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report import quantities as q
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

_LINES_NAMED = 5
_NOTES = {
    "fitted": "",
    "confirmed": "kept: these runs give no reason to change it",
    "untold": "kept: these runs do not tell it",
    "unfelt": "kept: no run changes with it",
}
_PARTS = {
    "before": "before",
    "after": "fitted to all",
    "held_out": "held out",
}


def show_step_calibration(found: Mapping[str, Any], wrong: Sequence[str], screen: Console) -> None:
    """Print the constants before and after, what tells them, and the errors.

    Args:
        found: What was found, as `StepCalibration.to_dict` gives it.
        wrong: Lines that were left out, with the reason.
        screen: Where to print.
    """
    from rich.text import Text

    runs: Sequence[Mapping[str, Any]] = found["runs"]
    screen.print(Text(f"{found['device']}: steps of {len(runs)} runs", style="bold"))
    searched = sum(run["searched"] for run in runs)
    if searched:
        screen.print(f"{searched} leave the plan open: the quickest one stands for what ran")
    for line in wrong[:_LINES_NAMED]:
        screen.print(Text(f"left out: {line}"))
    if len(wrong) > _LINES_NAMED:
        screen.print(f"and {len(wrong) - _LINES_NAMED} lines more")
    _show_constants(found, screen)
    heading(screen, f"Errors of predicted steps; {found['folds']} folds, each held out once")
    errors = table("constants", "median", "mean", "worst", "median with sign")
    for part, title in _PARTS.items():
        line = found["errors"][part]
        shown = [q.share(line[f"{name}_abs_error"]) for name in ("median", "mean", "worst")]
        errors.add_row(title, *shown, f"{line['median_error']:+.1%}")
    screen.print(errors)


def _show_constants(found: Mapping[str, Any], screen: Console) -> None:
    heading(screen, "Constants; between which values they lie where a fold is left out")
    rows = table("constant", "before", "fitted", "between folds", "runs that tell it", "")
    for column in rows.columns[4:]:
        column.justify = "left"
        column.no_wrap = False
    for line in found["constants"]:
        between = line["interval"]
        told = line["told_by"]
        most = f": {'; '.join(told['most'])}" if told["most"] else ""
        rows.add_row(
            line["name"],
            _amount(line["before"], line["unit"]),
            _amount(line["after"], line["unit"]) if line["status"] == "fitted" else "",
            " to ".join(_amount(end, line["unit"]) for end in between) if between else "",
            f"{told['runs']}{most}",
            _NOTES[line["status"]],
        )
    screen.print(rows)


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    if unit == "FLOP/s":
        return f"{value / 1e12:.4g} TFLOP/s"
    return q.time(value) if unit == "s" else f"{value:.4g}"
