"""Where do two plans differ, term by term?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.breakdown import CLASSES
from scalewright.report.job import show_job, show_stamp
from scalewright.report.plans import plan_line
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from rich.console import Console

    from scalewright.planning import Comparison


def show_comparison(both: Comparison, screen: Console) -> None:
    """Print two plans side by side: fields, totals, time and memory by term."""
    show_job(both.first.job, screen)
    for name, one in (("A", both.first), ("B", both.second)):
        fits = "" if one.fits else " (does not fit)"
        screen.print(f"{name}: {plan_line(one.values['plan'])}{fits}")
    heading(screen, "Totals")
    rows = table("", "A", "B")
    first, second = both.first.values, both.second.values
    for label, field, shown in (
        ("tokens/s", "tokens_per_s", q.whole),
        ("MFU", "mfu", q.share),
        ("HFU", "hfu", q.share),
        ("energy a step", "energy_j_per_step", q.energy),
        ("price a step", "cost_usd_per_step", q.dollars),
    ):
        rows.add_row(label, shown(first[field]), shown(second[field]))
    screen.print(rows)
    heading(screen, "Time")
    show_differences(both, screen, ("A", "B"))
    heading(screen, "Memory of the fullest device, GiB")
    show_memory_difference(both, screen, ("A", "B"))
    show_stamp(both.first.job, screen)


def show_differences(
    both: Comparison, screen: Console, names: tuple[str, str], most: int | None = None
) -> None:
    """Print the differing fields and the terms that differ most."""
    changed = [
        f"{field} {ours} -> {theirs}" for field, (ours, theirs) in both.plan_differences().items()
    ]
    screen.print(f"{names[0]} -> {names[1]}: {', '.join(changed) if changed else 'the same plan'}")
    unit, unit_s = q.time_unit(max(both.first.step_time_s, both.second.step_time_s))
    rows = table(f"term, {unit}", *names, "difference")
    terms = both.terms()
    differing = sum(row["difference_s"] != 0 for row in terms)
    shown = terms if most is None else terms[: min(most, differing)]
    for row in shown:
        label = row["term"].replace("_", " ").replace(".", ", ")
        rows.add_row(label, *_three(row["first_time_s"], row["second_time_s"], unit_s))
    rest = terms[len(shown) :]
    if rest:
        first, second = (sum(r[f"{which}_time_s"] for r in rest) for which in ("first", "second"))
        label = f"{len(rest)} other terms" if shown else "all terms"
        rows.add_row(label, *_three(first, second, unit_s))
    first, second = both.first.step_time_s, both.second.step_time_s
    rows.add_row("step time", *_three(first, second, unit_s), style="bold")
    screen.print(rows)
    a, b = both.first.values, both.second.values
    screen.print(
        f"memory {q.gib(a['peak_memory_bytes'])} -> {q.gib(b['peak_memory_bytes'])} GiB, "
        f"energy {q.energy(a['energy_j_per_step'])} -> {q.energy(b['energy_j_per_step'])} a step"
    )


def _three(first: float, second: float, unit_s: float) -> tuple[str, str, str]:
    difference = f"{(second - first) / unit_s:+,.3f}"
    shown = difference if difference.strip("+-0.,") else "0"
    return f"{first / unit_s:,.3f}", f"{second / unit_s:,.3f}", shown


def show_memory_difference(both: Comparison, screen: Console, names: tuple[str, str]) -> None:
    """Print the memory of both plans' fullest devices by class, in GiB."""
    rows = table("class", *names)
    lines = {line["class"]: line for line in both.memory()}
    # host memory is none of the device's
    for name in CLASSES:
        first, second = (lines[name][f"{which}_bytes"] for which in ("first", "second"))
        rows.add_row(name, q.gib(first), q.gib(second))
    screen.print(rows)
