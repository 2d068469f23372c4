"""How does a plan read in a line, and how do several stand in a table?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report import quantities as q
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Estimate

_AXES = ("tensor", "pipeline", "data", "context", "expert")
_OVERLAPS = {
    "overlap_grad_reduce": True,
    "overlap_param_gather": True,
    "overlap_tensor": True,
}


def plan_line(plan: Mapping[str, Any]) -> str:
    """Return a plan as the fields that differ from the plainest plan."""
    parts = [f"{axis} {plan[axis]}" for axis in _AXES if plan[axis] > 1]
    parts.append(f"micro-batch {plan['micro_batch']}")
    schedule = plan["schedule"]
    if plan["pipeline"] > 1:
        chunks = f" x {plan['interleave']}" if plan["interleave"] > 1 else ""
        parts.append(f"{schedule}{chunks}")
    parts.append(f"ZeRO {plan['zero']}")
    parts.append(f"recompute {plan['recompute']}")
    if plan["sequence_parallel"]:
        parts.append("sequence parallel")
    parts += [f"no {name.replace('_', ' ')}" for name, on in _OVERLAPS.items() if plan[name] != on]
    return ", ".join(parts)


def show_plans(best: Sequence[Estimate], screen: Console) -> None:
    """Print the best plans as a table; axes that all leave at 1 have no column."""
    heading(screen, "Best plans")
    plans: list[Mapping[str, Any]] = [found.values["plan"] for found in best]
    axes = [axis for axis in _AXES if any(plan[axis] > 1 for plan in plans)] or ["data"]
    pipelined = any(plan["pipeline"] > 1 for plan in plans)
    schedule = ("schedule", "chunks") if pipelined else ()
    rows = table(
        "rank", "step", "tokens/s", "MFU", "memory GiB", *axes, "micro-batch", *schedule,
        "ZeRO", "recompute", "sequence parallel",
    )  # fmt: skip
    for rank, (found, plan) in enumerate(zip(best, plans, strict=True), start=1):
        values = found.values
        chunks = (plan["schedule"], str(plan["interleave"])) if pipelined else ()
        rows.add_row(
            str(rank),
            q.time(values["step_time_s"]),
            f"{values['tokens_per_s']:,.0f}",
            q.share(values["mfu"]),
            q.gib(values["peak_memory_bytes"]),
            *(str(plan[axis]) for axis in axes),
            str(plan["micro_batch"]),
            *chunks,
            str(plan["zero"]),
            plan["recompute"],
            "yes" if plan["sequence_parallel"] else "no",
        )
    screen.print(rows)
