"""Which constants did timed attention or experts give, and how far off are predictions?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

_LINES_NAMED = 5
_PARTS = {"held_out": "held out", "cross_validation": "cross-validated", "fitted": "fitted"}


def show_serving_calibration(
    found: Mapping[str, Any], wrong: Sequence[str], screen: Console
) -> None:
    """Print the constants before and after, and the errors of each family.

    Args:
        found: What was found, as `ServingCalibration.to_dict` gives it.
        wrong: Lines that were left out, with the reason.
        screen: Where to print.
    """
    from rich.text import Text

    screen.print(Text(f"{found['device']}: {', '.join(found['files'])}", style="bold"))
    screen.print(f"{found['split']}; {found['folds']} folds")
    for line in wrong[:_LINES_NAMED]:
        screen.print(Text(f"left out: {line}"))
    if len(wrong) > _LINES_NAMED:
        screen.print(f"and {len(wrong) - _LINES_NAMED} lines more")
    for family in found["families"]:
        heading(screen, f"{family['table']} ({', '.join(family['dtypes'])})")
        constants = table("constant", "catalog", "fitted")
        for line in family["constants"]:
            constants.add_row(line["name"], _value(line["before"]), _value(line["after"]))
        screen.print(constants)
        errors = table("rows", "count", "median", "90th", "with sign")
        for part, title in _PARTS.items():
            errors.add_row(title, *_errors(family["errors"][part]))
        screen.print(errors)


def _errors(figures: Mapping[str, Any]) -> list[str]:
    shown = [("median_abs_error", ".1%"), ("p90_abs_error", ".1%"), ("median_error", "+.1%")]
    return [
        str(figures["rows"]),
        *("" if figures[key] is None else format(figures[key], form) for key, form in shown),
    ]


def _value(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
