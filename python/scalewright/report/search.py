"""What did a search find, and why did the others lose?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.planning import Comparison
from scalewright.report import quantities as q
from scalewright.report.breakdown import (
    show_memory,
    show_offload,
    show_price,
    show_speed,
    show_time,
)
from scalewright.report.comparison import show_differences
from scalewright.report.job import show_job, show_stamp
from scalewright.report.plans import plan_line, show_plans
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from scalewright.planning import Search


def show_search(found: Search, screen: Console, stages: str = "ends") -> None:
    """Print the best plans, the winner's breakdown, and why others lose."""
    show_job(found.job, screen)
    _show_counts(found.values, screen)
    if found.stopped:
        _show_stop(found, screen)
    if "plans_written" in found.values:
        _show_file(found.values["plans_written"], screen)
    if found.feasible:
        _show_found(found, screen, stages)
    elif not found.stopped:
        show_verdict(found.values, screen)
    _show_rejected(found.values, screen)
    show_stamp(found.job, screen)


def _show_counts(values: Mapping[str, Any], screen: Console) -> None:
    elapsed = values["elapsed_s"]
    rate = values["plans_legal"] / elapsed / 1e6 if elapsed else 0.0
    unfit = sum(row["count"] for row in values["rejected"] if "least_missing_bytes" in row)
    screen.print(
        f"{values['plans_legal']:,} legal plans in {q.time(elapsed)} ({rate:.3g} million a second): "
        f"{values['plans_priced']:,} priced, {values['plans_excluded_by_bound']:,} excluded by a "
        f"bound, {unfit:,} do not fit"
    )
    placed, fit = values["plans_placed"], values["plans_that_fit_with_offload"]
    if placed:
        screen.print(
            f"{placed:,} plans that do not fit in device memory were tried with tensors in other "
            f"tiers: {fit:,} fit with offload; {_untried(values)}"
        )


def _show_stop(found: Search, screen: Console) -> None:
    """Print how far a search was when Ctrl-C came, and what is known of the rest."""
    values = found.values
    walked, units = values["units_walked"], values["units"]
    best = "" if found.feasible else "; nothing that fits was found until then"
    bound = found.bound_s
    rest = "" if bound is None else f"; no plan of the space is faster than {q.time(bound)}"
    screen.print(f"Stopped after {walked:,} of {units:,} parts of the space{best}{rest}")


def _show_file(plans: int | None, screen: Console) -> None:
    """Print what became of the file of all plans."""
    screen.print(
        "The file was not written" if plans is None else f"{plans:,} plans are in the file"
    )


def _untried(values: Mapping[str, Any]) -> str:
    """Say what is known of plans that were not tried with offload."""
    bound = values["untried_with_offload_bound_s"]
    if bound is None:
        return "no other can be among the best"
    return f"others were left untried, none of them faster than {q.time(bound)} (--offload always)"


def _show_found(found: Search, screen: Console, stages: str) -> None:
    best = found.best
    if not best:
        return
    show_plans(best, screen)
    winner = best[0]
    screen.print()
    screen.print(f"The winner: {plan_line(winner.values['plan'])}", style="bold")
    show_speed(winner, screen)
    show_time(winner, screen)
    show_memory(winner, screen, stages)
    show_offload(winner, screen)
    show_price(winner, screen)
    if len(best) > 1:
        heading(screen, "Why the runner-up loses")
        show_differences(Comparison(winner, best[1]), screen, ("winner", "runner-up"), most=6)
    _show_front(found.values, screen)


def _show_front(values: Mapping[str, Any], screen: Console) -> None:
    """Print the front of time against memory, thinned to a few points."""
    points: list[dict[str, Any]] = values["pareto"]
    if len(points) < 2:
        return
    heading(screen, f"Less memory for more time ({len(points)} plans that no other beats in both)")
    rows = table("step", "memory GiB", "plan", left=0)
    rows.columns[2].justify = "left"
    rows.columns[2].no_wrap = False
    most = 6
    chosen = sorted({round(i * (len(points) - 1) / (most - 1)) for i in range(most)})
    for point in (points[index] for index in chosen):
        rows.add_row(
            q.time(point["step_time_s"]),
            q.gib(point["peak_memory_bytes"]),
            plan_line(point["plan"]),
        )
    screen.print(rows)


def _show_rejected(values: Mapping[str, Any], screen: Console) -> None:
    if not values["rejected"]:
        return
    heading(screen, "Rejected")
    rows = table("combinations", "reason", left=0)
    rows.columns[1].justify = "left"
    rows.columns[1].no_wrap = False
    for row in values["rejected"]:
        missing = row.get("least_missing_bytes")
        nearest = f" (the nearest lacks {q.size(missing)})" if missing is not None else ""
        rows.add_row(f"{row['count']:,}", f"{row['reason']}{nearest}")
    screen.print(rows)


def show_verdict(values: Mapping[str, Any], screen: Console) -> None:
    """Print why nothing runs and what would make something run."""
    verdict = values["infeasible"]
    heading(screen, f"Infeasible: {verdict['verdict']}")
    if (nearest := values["nearest"]) is not None:
        screen.print(f"nearest plan: {plan_line(nearest['plan'])}")
        show_missing(nearest["shortfall"], nearest["plan"]["pipeline"], screen)
    elif verdict["broken_rule"]:
        screen.print(f"for instance: {verdict['broken_rule']}")
    remedy = verdict["remedy"]
    if remedy is None:
        screen.print("remedy: none found among free fields, memory settings and more devices")
    else:
        step, memory = q.time(remedy["step_time_s"]), q.size(remedy["peak_memory_bytes"])
        screen.print(f"remedy: {remedy['change']} (then {step} a step, {memory} a device)")


def show_missing(shortfall: Mapping[str, Any], stages: int, screen: Console) -> None:
    """Print how many bytes are missing where."""
    screen.print(
        f"{q.size(shortfall['missing_bytes'])} are missing in {shortfall['tier']} of stage "
        f"{shortfall['stage'] + 1} of {stages}: {q.size(shortfall['needed_bytes'])} needed, "
        f"{q.size(shortfall['available_bytes'])} usable"
    )
