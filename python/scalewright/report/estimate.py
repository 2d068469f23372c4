"""What does one plan cost, and why?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report import quantities as q
from scalewright.report.breakdown import show_band, show_memory, show_price, show_speed, show_time
from scalewright.report.job import show_job, show_stamp
from scalewright.report.plans import plan_line
from scalewright.report.screen import heading
from scalewright.report.search import show_missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Estimate


def show_estimate(priced: Estimate, screen: Console, stages: str = "ends") -> None:
    """Print a priced plan with its breakdowns."""
    values = priced.values
    show_job(priced.job, screen)
    rounds = q.number(values["micro_batches"], "micro-batch")
    screen.print(f"plan: {plan_line(values['plan'])}; {rounds}")
    if values["shortfall"] is not None:
        heading(screen, "Infeasible: the plan does not fit")
        show_shortfall(values["shortfall"], values["plan"]["pipeline"], screen)
    show_speed(priced, screen)
    show_band(priced.error_band, screen)
    show_time(priced, screen)
    show_memory(priced, screen, stages)
    show_price(priced, screen)
    show_stamp(priced.job, screen)


def show_shortfall(shortfall: Mapping[str, Any], stages: int, screen: Console) -> None:
    """Print what a plan lacks and the cheapest change that fits."""
    show_missing(shortfall, stages, screen)
    if shortfall["remedy"] is None:
        screen.print("no change of one field makes it fit; `scalewright plan` searches them all")
        return
    time = q.time(shortfall["remedy_step_time_s"])
    screen.print(f"cheapest change that fits: {shortfall['remedy']} (then {time} a step)")


def show_explanation(terms: Sequence[dict[str, Any]], screen: Console) -> None:
    """Print formula, inputs and source of each term."""
    heading(screen, "Where each term comes from")
    for term in terms:
        screen.print(term["term"], style="bold")
        screen.print(f"  formula: {term['formula']}")
        for line in term.get("inputs", []):
            screen.print(f"    {line}")
        screen.print(f"  source: {term['source']}")
