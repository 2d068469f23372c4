"""Do schedules count as the formulas of their papers do: bubbles, activations, versions, delays?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.errors import UnknownNameError
from scalewright.planning import schedule
from scalewright.reproductions.claims import compared
from scalewright.reproductions.schedules.rows import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scalewright.planning import Schedule

Result = dict[str, Any]


def formulas() -> Iterator[Result]:
    """Run each schedule operation by operation beside its formula's value."""
    return compared("formulas", read("formulas"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    quantity = row["quantity"]
    if quantity not in _QUANTITIES:
        message = f"quantity: got '{quantity}'; allowed: {', '.join(_QUANTITIES)}"
        raise UnknownNameError(message)
    chunks = int(row["chunks"])
    found = schedule(
        row["schedule"],
        stages=int(row["stages"]),
        micro_batches=int(row["micro_batches"]),
        chunks=chunks if chunks > 1 else None,
        forward_s=float(row["forward"]),
        backward_s=float(row["backward"]),
        weight_s=float(row["weight"]),
    )
    return float(_QUANTITIES[quantity](found)), {"formula": row["formula"]}


def _gaps(found: Schedule) -> float:
    """Return how long the busiest device idles between its first and its last operation."""
    operations = found.operations
    lasts: list[float] = []
    for device in range(found.stages):
        own = operations.device == device
        lasts.append(float(operations.end_s[own].max() - operations.start_s[own].min()))
    return max(lasts) - float(found.work_s.max())


def _period_over_work(found: Schedule) -> float:
    work = float(found.work_s.max()) / found.executed_micro_batches
    return float("nan") if found.period_s is None else found.period_s / work


_QUANTITIES: dict[str, Callable[[Schedule], float]] = {
    "bubble": lambda s: s.bubble_s,
    "bubble_over_ideal": lambda s: s.bubble_over_ideal,
    "bubble_share": lambda s: s.bubble_s / s.makespan_s,
    "gaps": _gaps,
    "step": lambda s: s.makespan_s,
    "step_over_work": lambda s: s.makespan_s / float(s.work_s.max()),
    "period_over_work": _period_over_work,
    "copies": lambda s: s.copies,
    "in_flight_first": lambda s: float(s.in_flight[0]),
    "in_flight_least": lambda s: float(s.in_flight.min()),
    "in_flight_most": lambda s: float(s.in_flight.max()),
    "activations_first": lambda s: float(s.activations[0]),
    "activations_most": lambda s: float(s.activations.max()),
    "versions_first": lambda s: float(s.versions[0]),
    "versions_last": lambda s: float(s.versions[-1]),
    "staleness_first": lambda s: float(s.staleness[0]),
    "staleness_last": lambda s: float(s.staleness[-1]),
}
