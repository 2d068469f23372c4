"""What did a search find, and why did the others lose?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.planning import Comparison
from scalewright.planning.asking import OTHER_THAN_TIME
from scalewright.report import quantities as q
from scalewright.report.breakdown import (
    show_band,
    show_memory,
    show_offload,
    show_price,
    show_speed,
    show_time,
)
from scalewright.report.comparison import show_differences
from scalewright.report.job import show_job, show_stamp
from scalewright.report.plans import found_line, show_plans
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Estimate, Search

_MEASURES: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "time": ("step", lambda point: q.time(point["step_time_s"])),
    "memory": ("memory GiB", lambda point: q.gib(point["peak_memory_bytes"])),
    "energy": ("energy, kJ", lambda point: q.figures(point["energy_j_per_step"] / 1e3, 4)),
    "dollars": ("price, USD", lambda point: q.figures(point["cost_usd_per_step"], 4)),
    "devices": ("devices", lambda point: f"{point['devices']:,}"),
}
"""Head and cell of a column of the front, by what it measures."""
_CLAIMS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "step_time_s": ("is faster than", lambda bound: f"{q.time(bound)} a step"),
    "peak_memory_bytes": ("needs less than", lambda bound: f"{q.size(bound)} a device"),
    "energy_j_per_step": (
        "takes less than",
        lambda bound: f"{q.figures(bound / 1e3, 4)} kJ a step",
    ),
    "cost_usd_per_step": ("costs less than", lambda bound: f"{q.figures(bound, 4)} USD a step"),
}
"""What is said of the bound of a search, by the field of an estimate that it bounds."""


def show_search(
    found: Search, screen: Console, stages: str = "ends", kept: str | None = None
) -> None:
    """Print the best plans, the winner's breakdown, and why others lose.

    `kept` names the file from which a search that was stopped goes on.
    """
    show_job(found.job, screen, found.values["dtypes"])
    if found.values.get("units_walked") != 0:
        _show_counts(found.values, screen)
    if found.stopped:
        _show_stop(found, screen, kept)
    else:
        _show_proof(found, screen)
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
    unfit = values["plans_not_fitting"]
    placed, fit = values["plans_placed"], values["plans_that_fit_with_offload"]
    # some of them may fit elsewhere, as the line below then says
    where = " in device memory" if placed else ""
    screen.print(
        f"{values['plans_legal']:,} legal plans in {q.time(elapsed)} "
        f"({rate:.3g} million a second): {values['plans_priced']:,} priced, "
        f"{values['plans_excluded_by_bound']:,} excluded by a bound, {unfit:,} do not fit{where}"
    )
    for row in values["excluded"]:
        screen.print(f"  {row['count']:,} excluded by: {row['bound']}")
    if placed:
        screen.print(
            f"{placed:,} plans that do not fit in device memory were tried with tensors in other "
            f"tiers: {fit:,} fit and were the best by then; {_untried(values)}"
        )


def _show_stop(found: Search, screen: Console, kept: str | None) -> None:
    """Print how far a search was when Ctrl-C came, and what is known of the rest."""
    values = found.values
    walked, units = values["units_walked"], values["units"]
    nothing = "nothing that fits was found" if walked else "nothing was priced"
    bound = found.bound_s
    told = [
        f"Stopped after {walked:,} of {units:,} parts of the space",
        "" if found.feasible else f"{nothing} until then",
        "" if bound is None else f"no plan of the space is faster than {q.time(bound)}",
        "" if kept is None else goes_on(kept),
    ]
    screen.print("; ".join(part for part in told if part))


def goes_on(kept: str) -> str:
    """Say how a search goes on that a file holds."""
    return f"{kept!r} holds how far the search is, the same command goes on from there"


def _show_proof(found: Search, screen: Console) -> None:
    """Print what is known of every legal plan of the space, tried or not."""
    values = found.values
    where = "" if values["plans_placed"] else " in device memory"
    if not found.feasible:
        if found.proven:
            kind = f"fits{where}" if values["plans_legal"] else "is legal"
            screen.print(f"proven: no plan of the space {kind}")
        if values["objective"] in OTHER_THAN_TIME and _has_host(found):
            screen.print(
                "plans with tensors on the host were not tried: a search for the least time does"
            )
        return
    subject = f"no legal plan of the space that fits{where}"
    for name, bound in values["bound"].items():
        verb, shown = _CLAIMS[name]
        if found.proven:
            screen.print(f"proven: {subject} {verb} the best one, {shown(bound)}")
        else:
            screen.print(
                f"not proven, since some were left untried: {subject} {verb} {shown(bound)}"
            )
    if values["objective"] == "devices":
        screen.print(f"every plan of the space uses {q.number(found.job.system.devices, 'device')}")
    if _may_try(found):
        screen.print(
            "plans that fit with tensors on the host were not tried, since others fit: "
            "`--offload always` tries them"
        )


def _may_try(found: Search) -> bool:
    """Say whether plans with tensors on the host could have been tried, and were not."""
    values = found.values
    timed = values["objective"] in {"time", "devices"} and values["offload"] == "auto"
    others = timed and not values["plans_placed"] and bool(values["plans_not_fitting"])
    return others and _has_host(found)


def _has_host(found: Search) -> bool:
    return "host" in found.job.system.table


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


def _measured(objective: str, best: Sequence[Estimate]) -> dict[str, list[str]]:
    """Return the column of what was asked for least of, where no other one of plans holds it."""
    if objective not in ("energy", "dollars"):
        return {}
    head, cell = _MEASURES[objective]
    return {head: [cell(found.values) for found in best]}


def _show_found(found: Search, screen: Console, stages: str) -> None:
    best = found.best
    if not best:
        return
    show_plans(best, _measured(found.values["objective"], best), screen)
    winner = best[0]
    screen.print()
    screen.print(f"The winner: {found_line(winner.values)}", style="bold")
    show_speed(winner, screen)
    show_band(found.error_band, screen)
    show_time(winner, screen)
    show_memory(winner, screen, stages)
    show_offload(winner, screen)
    show_price(winner, screen)
    if len(best) > 1:
        heading(screen, "Why the runner-up loses")
        show_differences(Comparison(winner, best[1]), screen, ("winner", "runner-up"), most=6)
    _show_front(found.values, screen)


def _show_front(values: Mapping[str, Any], screen: Console) -> None:
    """Print the front, thinned to a few points."""
    points: list[dict[str, Any]] = values["pareto"]
    if len(points) < 2:
        return
    traded: list[str] = list(values["front"])
    # plans with tensors elsewhere are none of the front's
    plans = f"{len(points)} plans{' in device memory' if values['plans_placed'] else ''}"
    if traded == ["time", "memory"]:
        title = f"Less memory for more time ({plans} that no other beats in both)"
    else:
        title = f"{plans} that no other beats in {_listing(traded, 'and')} at once"
    heading(screen, title)
    columns = [name for name in _MEASURES if name in {"time", "memory", *traded}]
    rows = table(*(_MEASURES[name][0] for name in columns), "plan", left=0)
    rows.columns[-1].justify = "left"
    rows.columns[-1].no_wrap = False
    most = 6
    chosen = sorted({round(i * (len(points) - 1) / (most - 1)) for i in range(most)})
    for point in (points[index] for index in chosen):
        measured = (_MEASURES[name][1](point) for name in columns)
        rows.add_row(*measured, found_line(point))
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
        screen.print(f"nearest plan: {found_line(nearest)}")
        show_missing(nearest["shortfall"], nearest["plan"]["pipeline"], screen)
    elif verdict["broken_rule"]:
        screen.print(f"for instance: {verdict['broken_rule']}")
    show_conflict(verdict["conflict"], verdict["verdict"], screen)
    remedy = verdict["remedy"]
    if remedy is None:
        tried = "free fields, memory settings, fewer and more devices"
        screen.print(f"remedy: none found among {tried}")
    else:
        step, memory = q.time(remedy["step_time_s"]), q.size(remedy["peak_memory_bytes"])
        screen.print(f"remedy: {remedy['change']} (then {step} a step, {memory} a device)")


def show_conflict(found: Mapping[str, Any] | None, verdict: str, screen: Console) -> None:
    """Print which fixed fields leave no plan together; nothing where they are not to blame."""
    if found is None:
        return
    fields = [f"{name}={','.join(map(_word, held))}" for name, held in found["fields"].items()]
    least = "" if found["smallest"] else " (a smaller set may, too)"
    subject = f"{_listing(fields, 'and')} {'leaves' if len(fields) == 1 else 'together leave'}"
    kind = "legal plan" if verdict == "no plan is legal" else "plan that fits"
    screen.print(f"conflict: {subject} no {kind}{least}")
    doors = found["leave_open"]
    if doors:
        screen.print(f"  leaving {_listing(doors, 'or')} open leaves some")
    else:
        screen.print("  leaving one field open is not enough: other fixed fields conflict as well")


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listing(words: Sequence[str], last: str) -> str:
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def show_missing(shortfall: Mapping[str, Any], stages: int, screen: Console) -> None:
    """Print how many bytes are missing where."""
    screen.print(
        f"{q.size(shortfall['missing_bytes'])} are missing in {shortfall['tier']} of stage "
        f"{shortfall['stage'] + 1} of {stages}: {q.size(shortfall['needed_bytes'])} needed, "
        f"{q.size(shortfall['available_bytes'])} usable"
    )
