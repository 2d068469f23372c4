"""Which constants did timed kernels give, and how far off are predictions with them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12, "GB/s": 1e9, "TB/s": 1e12}
_LINES_NAMED = 5
_PARTS = {
    "held_out": "held out",
    "held_out_before": "  catalog's constants",
    "cross_validation": "cross-validated",
    "fitted_before": "  catalog's constants",
    "fitted": "fitted",
}
"""Errors by title; those of the catalog's own constants stand below those on the same rows."""
_BESIDE = {"held_out": "held_out_before", "cross_validation": "fitted_before"}


def show_kernel_calibration(
    found: Mapping[str, Any], wrong: Sequence[str], screen: Console
) -> None:
    """Print the constants before and after, and the errors of each family.

    Args:
        found: What was found, as `KernelCalibration.to_dict` gives it.
        wrong: Lines that were left out, with the reason.
        screen: Where to print.
    """
    from rich.text import Text

    screen.print(Text(f"{found['device']}: {', '.join(found['files'])}", style="bold"))
    screen.print(f"{found['split']}; {found['folds']} folds")
    for line in found["refused"]:
        screen.print(Text(f"not fitted: {line}"))
    for line in wrong[:_LINES_NAMED]:
        screen.print(Text(f"left out: {line}"))
    if len(wrong) > _LINES_NAMED:
        screen.print(f"and {len(wrong) - _LINES_NAMED} lines more")
    for family in found["families"]:
        heading(screen, f"{family['table']} ({', '.join(family['dtypes'])})")
        constants = table("constant", "catalog", "fitted")
        for line in family["constants"]:
            after = _value(_as_before(line["after"], line["before"]))
            constants.add_row(line["name"], _value(line["before"]), after)
        screen.print(constants)
        errors = table("rows", "20 us and more", "median", "90th", "with sign", "brief", "in 1.5x")
        for part, title in _PARTS.items():
            errors.add_row(title, *_errors(family["errors"][part]))
        screen.print(errors)
        for part in family["worse"]:
            screen.print(Text(_worse(family["errors"], part), style="bold"))


def _worse(errors: Mapping[str, Mapping[str, Any]], part: str) -> str:
    """Say by how much a fit is worse than the constants of the catalog."""
    after, before = errors[part], errors[_BESIDE[part]]
    key, what, form = ("median_abs_error", "median error", ".1%")
    if not after["long_rows"]:
        key, what, form = ("brief_share_within_1_5", "share within 1.5x", ".0%")
    return (
        f"worse than the catalog's constants on rows {_PARTS[part]}: {what} "
        f"{after[key]:{form}} instead of {before[key]:{form}}"
    )


def _errors(figures: Mapping[str, Any]) -> list[str]:
    def share(key: str, form: str = ".1%") -> str:
        return "" if figures[key] is None else format(figures[key], form)

    return [
        str(figures["long_rows"]),
        share("median_abs_error"),
        share("p90_abs_error"),
        share("median_error", "+.1%"),
        str(figures["brief_rows"]),
        share("brief_share_within_1_5", ".0%"),
    ]


def _as_before(value: float, before: object) -> object:
    """Return a value in the unit in which the catalog states it."""
    unit = before.partition(" ")[2] if isinstance(before, str) else ""
    return f"{value / _UNITS[unit]:.4g} {unit}" if unit in _UNITS else value


def _value(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
