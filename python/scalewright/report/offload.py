"""How does a person read a step that offloads, or the largest model that fits?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.job import show_job_and_plan, show_overridden
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from scalewright.planning import Job, LargestModel, Offload

_WAITS = {
    "loads_s": "waiting for loads",
    "stores_s": "gradients on their way",
    "updates_s": "update and what comes back",
}
_SCHEMES_OWN = ("zero",)
"""What the scheme says and not the plan."""


def show_offload(found: Offload, job: Job, plan: Mapping[str, object], screen: Console) -> None:
    """Print where the time of a step goes and what lies where."""
    show_job_and_plan(job, plan, screen, _SCHEMES_OWN)
    heading(screen, f"{found.scheme}: {'fits' if found.fits else 'does not fit'}")
    rate = q.rate(found.model_flops_per_s_per_device)
    hard = q.rate(found.hardware_flops_per_s_per_device)
    screen.print(f"step {q.time(found.step_time_s)}, {q.whole(found.tokens_per_s)} tokens/s")
    screen.print(f"{rate} a device, {hard} with what is recomputed")
    if found.chosen:
        screen.print(", ".join(f"{name} {value}" for name, value in found.chosen.items()))
    heading(screen, "Where the time goes")
    rows = table("part", "time", "share")
    parts = {"passes": found.compute_s}
    parts |= {name: found.exposed_s[key] for key, name in _WAITS.items()}
    for name, seconds in parts.items():
        rows.add_row(name, q.time(seconds), q.share(seconds / found.step_time_s))
    screen.print(rows)
    heading(screen, "Who works how long")
    rows = table("engine", "busy", "share")
    for name, seconds in found.busy_s.items():
        if seconds > 0.0:
            rows.add_row(name, q.time(seconds), q.share(seconds / found.step_time_s))
    screen.print(rows)
    heading(screen, "Memory of a device, and its part of the rest")
    rows = table("tier", "for", "bytes", "of", left=2)
    for use in found.tiers:
        if not use.capacity_bytes and not use.total_bytes:
            continue
        capacity = q.size(use.capacity_bytes)
        rows.add_row(
            use.name or use.tier, "" if use.fits else "FULL", q.size(use.total_bytes), capacity
        )
        for name, size in use.by_class().items():
            if size > 0.0:
                rows.add_row("", name, q.size(size), "")
    screen.print(rows)
    show_overridden(screen, job.model, job.system)


def show_largest(
    found: LargestModel, job: Job, plan: Mapping[str, object], screen: Console
) -> None:
    """Print the largest model and what stops the next larger one."""
    show_job_and_plan(job, plan, screen, _SCHEMES_OWN)
    size = q.count(found.parameters)
    heading(screen, f"{size} parameters: {found.layers} layers, {found.hidden} wide")
    rows = table("tier", "bytes", "of")
    for of in found.tiers:
        rows.add_row(of.tier, q.size(of.total_bytes), q.size(of.capacity_bytes))
    screen.print(rows)
    if found.binding:
        screen.print(f"a larger one overfills: {', '.join(found.binding)}")
    else:
        screen.print("nothing is full: no model of more layers, or of more heads, is tried")
    show_overridden(screen, job.model, job.system)
