"""How are groups of unlike devices used best, stage by stage?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report import quantities as q
from scalewright.report.job import show_overridden
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import UnlikeSearch

_TERMS = {
    "pipeline_s": "pipeline",
    "expert_unpaired_s": "expert all-to-alls without an opposite pass",
    "gradient_exposed_s": "gradient reduction",
    "gather_exposed_s": "weight gather",
    "embedding_sync_s": "tied embeddings",
    "optimizer_s": "optimizer",
}

UNTRIED = (
    "not tried: replicas or other ranks that span groups, context ranks, interleaved chunks and "
    "offload"
)
"""What the search leaves out, and its proof with it."""


def show_unlike(found: UnlikeSearch, screen: Console) -> None:
    """Print the best plans, the stages of the first, and how far that is proven."""
    _show_counts(found.values, screen)
    if found.feasible:
        _show_best(found, screen)
    else:
        _show_rejected(found.values, screen)
    show_overridden(screen, found)


def _show_best(found: UnlikeSearch, screen: Console) -> None:
    screen.print(_plans(found))
    winner = found[0]
    screen.print()
    terms = (f"{name} {q.time(winner[key])}" for key, name in _TERMS.items() if winner[key] > 0)
    screen.print(f"The winner: {q.time(winner['step_time_s'])} a step: {', '.join(terms)}")
    screen.print(_stages(winner))


def _show_counts(values: Mapping[str, Any], screen: Console) -> None:
    screen.print(
        f"{values['combinations']:,} combinations: {values['combinations_priced']:,} priced "
        f"({values['dealings_priced']:,} dealings of layers), "
        f"{values['combinations_excluded_by_bound']:,} excluded by a bound, "
        f"{values['combinations_that_do_not_fit']:,} do not fit, in {q.time(values['elapsed_s'])}"
    )
    if values["proven"]:
        what = "is faster than the best one" if values["best"] else "is legal and fits"
        screen.print(f"proven: no plan with whole pipeline stages in one group {what}; {UNTRIED}")


def _show_rejected(values: Mapping[str, Any], screen: Console) -> None:
    heading(screen, "Infeasible: no plan is legal and fits")
    for row in values["rejected"]:
        screen.print(f"{row['count']:,} choices of a group: {row['reason']}")


def _plans(found: UnlikeSearch):  # noqa: ANN202 - a table
    systems = [job.system for job in found.jobs]
    names = [f"{system.devices} x {system.name}" for system in systems]
    rows = table("rank", "step", "tokens/s", "data", "micro-batch", "schedule", "ZeRO", *names)
    for column in rows.columns[-len(names) :]:
        column.justify = "left"
        column.no_wrap = False
    for rank, plan in enumerate(found.best, start=1):
        rows.add_row(
            str(rank),
            q.time(plan["step_time_s"]),
            f"{plan['tokens_per_s']:,.0f}",
            str(plan["data"]),
            f"{plan['micro_batches']} x {plan['micro_batch']}",
            plan["schedule"],
            str(plan["zero"]),
            *(_use(use) for use in plan["groups"]),
        )
    return rows


def _use(use: Mapping[str, Any]) -> str:
    """Return how a group is used in a few words."""
    if use["stages"] == 0:
        return "left out"
    parts = [
        f"{use['stages']} {'stage' if use['stages'] == 1 else 'stages'} of tensor {use['tensor']}"
    ]
    if use["expert"] > 1:
        parts.append(f"expert {use['expert']} x {use['expert_tensor']}")
    if use["sequence_parallel"]:
        parts.append("sequence parallel")
    parts.append(f"recompute {use['recompute']}")
    if use["devices_unused"]:
        parts.append(f"{use['devices_unused']} unused")
    return ", ".join(parts)


def _stages(plan: Mapping[str, Any]):  # noqa: ANN202 - a table
    rows = table("stages", "system", "layers each", "forward", "backward", "memory, GiB", "of")
    for first, last, stage in _alike(plan["stages"]):
        name = str(first) if first == last else f"{first}-{last}"
        start, end = stage["layers"]
        rows.add_row(
            name,
            plan["groups"][stage["group"]]["system"],
            str(end - start),
            q.time(stage["forward_s"]),
            q.time(stage["backward_s"]),
            q.gib(stage["peak_memory_bytes"]),
            q.gib(stage["memory_capacity_bytes"]),
        )
    return rows


def _alike(stages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Yield first and last number of stages in a row that take the same, and the fullest."""
    begin = 0
    for place, stage in enumerate(stages):
        after = stages[place + 1] if place + 1 < len(stages) else None
        if after is None or _look(after) != _look(stage):
            fullest = max(stages[begin : place + 1], key=lambda of: of["peak_memory_bytes"])
            yield begin + 1, place + 1, fullest
            begin = place + 1


def _look(stage: Mapping[str, Any]) -> tuple[object, ...]:
    start, end = stage["layers"]
    times = (q.time(stage["forward_s"]), q.time(stage["backward_s"]))
    return stage["group"], end - start, *times
