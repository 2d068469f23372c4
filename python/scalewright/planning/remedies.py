"""Why does no plan run, and what is the cheapest change that makes one run?"""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from scalewright import _engine
from scalewright.config import DTYPE, completed, json_text
from scalewright.errors import ScalewrightError
from scalewright.planning.conflicts import conflict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scalewright.planning.job import Job

Change: TypeAlias = "tuple[str, Job, Mapping[str, list[Any]]]"
"""How to say it, the changed job, and the plan fields that stay pinned."""

_AXES = ("data", "tensor", "pipeline", "context")
_DOUBLINGS = 10
_FEWER = 64


def why_nothing_runs(
    job: Job, allowed: Mapping[str, list[Any]], found: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the verdict on a space without a plan that is legal and fits."""
    nearest = found.get("nearest")
    cause = conflict(job, allowed, legal=nearest is None)
    if nearest is None:
        verdict: dict[str, Any] = {
            "verdict": "no plan is legal",
            "broken_rule": _rule(job, allowed if cause is None else cause["fields"]),
        }
    else:
        verdict = {"verdict": "no plan fits", "shortfall": nearest["shortfall"]}
    verdict["conflict"] = cause
    fewer = _fewer_devices(job, allowed) if nearest is None else ()
    return {**verdict, "remedy": _remedy([*_changes(job, allowed), *fewer, *_more_devices(job)])}


# a remedy is what makes a plan fit in device memory
_LIMITS = '{"top": 1, "offload": "never"}'


def _rule(job: Job, allowed: Mapping[str, list[Any]]) -> str | None:
    """Return the rule that the first values allowed break, as an example.

    An axis that is left open takes the devices that remain, so that they break no rule themselves
    where they can be used up.
    """
    first = {name: values[0] for name, values in allowed.items() if name != DTYPE}
    plan = completed(first, job.system.devices)
    found = ((axis, plan.get(axis, 1)) for axis in _AXES)
    ranks = {axis: count for axis, count in found if isinstance(count, int)}
    used = prod(ranks.values())
    left, rest = divmod(job.system.devices, used) if used else (1, 0)
    free = [axis for axis in _AXES if axis not in first]
    if free and not rest and left > 1:
        plan[free[0]] = ranks[free[0]] * left
    answer = json.loads(_engine.estimate(job.handle, json_text("plan", plan)))
    return answer.get("illegal")


def _remedy(changes: Iterable[Change]) -> dict[str, Any] | None:
    """Return the first change, cheapest first, under which some plan fits."""
    for change, changed, pins in changes:
        try:
            answer = _engine.search(changed.handle, json_text("space", pins), _LIMITS)
        except ScalewrightError:
            continue  # the system has no more devices, or lacks the format
        best = json.loads(answer)["best"]
        if best:
            time, memory = best[0]["step_time_s"], best[0]["peak_memory_bytes"]
            return {"change": change, "step_time_s": time, "peak_memory_bytes": memory}
    return None


def _changes(job: Job, allowed: Mapping[str, list[Any]]) -> Iterator[Change]:
    """Name changes that need no other machines."""
    for name in allowed:
        rest = {key: value for key, value in allowed.items() if key != name}
        yield f"leave {name} open", job, rest
    if len(allowed) > 1:
        yield "leave all plan fields open", job, {}
    if job.memory_margin > 0:
        yield "memory margin 0", replace(job, memory_margin=0.0), allowed
    if not job.training.flash_attention:
        training = replace(job.training, flash_attention=True)
        yield "flash attention", replace(job, training=training), allowed
    if job.training.optimizer == "adam":
        training = replace(job.training, optimizer="adafactor")
        yield "optimizer adafactor", replace(job, training=training), allowed


def _fewer_devices(job: Job, allowed: Mapping[str, list[Any]]) -> Iterator[Change]:
    """Name the device counts below, for a count that no plan divides.

    Far below, only multiples of powers of two and of three times those: batches, heads and layers
    have few other divisors, so that plans of many devices want such counts.
    """
    most = job.system.devices
    near = max(most - _FEWER, 0)
    steps = [odd << power for odd in (1, 3) for power in range(most.bit_length())]
    round_counts = {most - most % step for step in steps if step <= most}
    far = sorted((count for count in round_counts if 0 < count <= near), reverse=True)
    for devices in [*range(most - 1, near, -1), *far]:
        yield f"{devices} devices", _on(job, devices), allowed


def _more_devices(job: Job) -> Iterator[Change]:
    for doubling in range(1, _DOUBLINGS + 1):
        devices = job.system.devices << doubling
        yield f"{devices} devices", _on(job, devices), {}


def _on(job: Job, devices: int) -> Job:
    return replace(job, system=replace(job.system, devices=devices))
