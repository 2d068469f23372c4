"""Why is a plan not the best?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.comparison import show_differences, show_memory_difference
from scalewright.report.estimate import show_shortfall
from scalewright.report.job import show_job, show_stamp
from scalewright.report.plans import plan_line
from scalewright.report.screen import heading
from scalewright.report.search import show_verdict

if TYPE_CHECKING:
    from rich.console import Console

    from scalewright.planning import WhyNot


def show_why_not(found: WhyNot, screen: Console) -> None:
    """Print where a plan stands and what makes it lose against the winner."""
    show_job(found.job, screen)
    if found.estimate is not None:
        screen.print(f"plan: {plan_line(found.plan)}")
    heading(screen, _verdict(found))
    if found.estimate is not None and found.estimate.values["shortfall"] is not None:
        shortfall = found.estimate.values["shortfall"]
        show_shortfall(shortfall, found.plan["pipeline"], screen)
    winner, both = found.winner, found.comparison
    if winner is None and found.search.stopped:
        screen.print("the search for a better one was stopped before it found any that fits")
    elif winner is None:
        show_verdict(found.search.values, screen)
    else:
        line = plan_line(winner.values["plan"])
        screen.print(f"the best plan that fits takes {q.time(winner.step_time_s)}: {line}")
    if both is not None and both.plan_differences():
        heading(screen, "What makes the difference")
        show_differences(both, screen, ("winner", "plan"), most=12)
        heading(screen, "Memory of the fullest device, GiB")
        show_memory_difference(both, screen, ("winner", "plan"))
    show_stamp(found.job, screen)


def _verdict(found: WhyNot) -> str:
    """Say in a line why the plan is not the best, or that it is."""
    if found.rule is not None:
        return f"It is not legal: {found.rule}"
    if found.verdict == "does not fit":
        return "It does not fit"
    winner, estimate = found.winner, found.estimate
    legal = found.search.values["plans_legal"]
    if winner is None and found.search.stopped:
        return "Not known: the search was stopped"
    if winner is None or estimate is None:
        return "No plan of the space that was searched fits"
    ahead = found.plans_ahead or 0
    if ahead == 0:
        outside = estimate.step_time_s < winner.step_time_s * (1 - 1e-12)
        among = f"none of {legal:,} legal plans fits and is faster"
        return f"It is the best: {among}{' (it lies outside their space)' if outside else ''}"
    slower = estimate.step_time_s / winner.step_time_s - 1
    verbs = "fits and is" if ahead == 1 else "fit and are"
    among = f"{ahead:,} of {legal:,} legal plans {verbs} faster"
    return f"{among}; it takes {slower:.2%} longer than the best"
