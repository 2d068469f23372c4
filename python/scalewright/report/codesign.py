"""Which machines suit a job best, and what is there between cheap and fast?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report import quantities as q
from scalewright.report.job import show_job, show_stamp
from scalewright.report.plans import plan_line
from scalewright.report.prices import price_basis
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Codesign

_MOST_FRONT = 12
"""Points of a front that are shown."""


def show_codesign(found: Codesign, screen: Console) -> None:
    """Print the best variants of a grid, the front over them, and what became of all."""
    show_job(found.job, screen)
    _show_grid(found, screen)
    if found.best:
        heading(screen, "Best variants")
        _show_variants(found, found.best, screen)
        winner = found.best[0]
        screen.print()
        screen.print(f"plan of the best: {plan_line(winner['plan'])}")
    else:
        heading(screen, "No variant within the budget has a plan that fits in device memory")
    _show_front(found, screen)
    for system in found.systems:
        screen.print(f"dollars of {system.name}: {price_basis(system)}")
    if any("." in name for name, _ in found.axes):
        screen.print(
            "What another value of a constant costs in dollars, watts or silicon is not known: "
            "it stays as in the catalog, but for what was given with the value."
        )
    show_stamp(found.job, screen)


def _show_grid(found: Codesign, screen: Console) -> None:
    values = found.values
    for name, labels in found.labels():
        if len(labels) > 1 or "." in name:
            screen.print(f"{name}: {', '.join(labels)}")
    over = [f"{count:,} by {name}" for name, count in values["over_budget"].items() if count]
    beyond = f" ({', '.join(over)})" if over else ""
    screen.print(
        f"{q.number(values['variants'], 'variant')}: {values['variants_with_plan']:,} have a plan "
        f"that fits, {values['variants_without_plan']:,} have none, "
        f"{values['variants_over_budget']:,} are over the budget{beyond}, "
        f"{values['variants_excluded_by_bound']:,} are excluded by a bound"
    )
    screen.print(
        f"{values['plans_legal']:,} legal plans of them: {values['plans_priced']:,} priced, "
        f"{values['plans_excluded_by_bound']:,} excluded by a bound, "
        f"{values['plans_not_fitting']:,} do not fit"
    )


def _show_variants(found: Codesign, variants: Sequence[Mapping[str, Any]], screen: Console) -> None:
    varied = [name for name, labels in found.labels() if len(labels) > 1]
    measures = ("step", "tokens/s", "GiB", "kWh", "USD", "capital, MUSD", "kW", "mm2")
    rows = table(*(_short(name) for name in varied), *measures, left=0)
    for variant in variants:
        cells = [_value(found, variant, name) for name in varied]
        rows.add_row(
            *cells,
            q.time(variant["step_time_s"]),
            q.whole(variant["tokens_per_s"]),
            q.gib(variant["peak_memory_bytes"]),
            q.figures(variant["energy_j_per_step"] / 3.6e6, 3),
            _known(variant["cost_usd_per_step"], lambda price: q.figures(price, 3)),
            _known(variant["capital_usd"], lambda price: f"{price / 1e6:,.3f}"),
            f"{variant['peak_power_w'] / 1e3:,.1f}",
            _known(variant["silicon_mm2"], q.whole),
        )
    screen.print(rows)


def _short(name: str) -> str:
    """Return the last two parts of a constant's name, which tell it from others."""
    return " ".join(name.split(".")[-2:])


def _value(found: Codesign, variant: Mapping[str, Any], name: str) -> str:
    """Return what a variant has on an axis."""
    index: int = variant["index"]
    for axis, labels in reversed(found.labels()):
        if axis == name:
            return labels[index % len(labels)]
        index //= len(labels)
    return ""


def _known(value: float | None, shown: Callable[[float], str]) -> str:
    return "?" if value is None else shown(value)


def _show_front(found: Codesign, screen: Console) -> None:
    """Print the front, thinned to a few points."""
    points = found.front
    if not points:
        return
    of = q.number(len(points), "variant")
    heading(screen, f"Front ({of} that no other beats in all that it trades)")
    last = max(_MOST_FRONT - 1, 1)
    chosen = sorted({round(i * (len(points) - 1) / last) for i in range(_MOST_FRONT)})
    _show_variants(found, [points[index] for index in chosen], screen)
