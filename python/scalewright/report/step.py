"""How far does a simulated step bear out its estimate, and which resources are busy?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.screen import table

if TYPE_CHECKING:
    from rich.console import Console

    from scalewright.planning import SimulatedStep


def show_simulated_step(step: SimulatedStep, screen: Console) -> None:
    """Print the simulated time beside the estimated one, and how busy each kind of resource is."""
    screen.print()
    screen.print("simulated step", style="bold")
    screen.print(
        f"{q.time(step.simulated_step_time_s)} by {step.start_s.size:,} tasks; "
        f"the estimate says {q.time(step.estimated_step_time_s)} ({step.relative_gap:+.2%}); "
        f"one rank of each stage stands for {step.stands_for:,}"
    )
    shares: dict[str, list[float]] = {}
    for (_, name), busy in step.busy_s().items():
        shares.setdefault(name, []).append(busy / step.simulated_step_time_s)
    rows = table("resource", "busy on the average stage", "on the busiest")
    for name, found in shares.items():
        rows.add_row(name, f"{sum(found) / len(found):.1%}", f"{max(found):.1%}")
    screen.print(rows)
