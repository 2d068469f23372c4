"""What does Chimera gain over other pipelines on Piz Daint, beside what its paper prints?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.config import Training
from scalewright.errors import InvalidError
from scalewright.planning import estimate, model, schedule
from scalewright.planning import system as machines
from scalewright.reproductions.claims import compared
from scalewright.reproductions.schedules.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Result = dict[str, Any]
_MODEL, _SYSTEM, _SEQUENCE = "gpt2-64l", "piz-daint", 632
"""Sequences of 632: recalled from section 4 of the paper."""
_ABSENT = "gems"
_CHIMERA = ("chimera", 2048, 32, 1, 2048, "none")


def chimera() -> Iterator[Result]:
    """Predict gains, rates and memory with the depths and micro-batches that the paper prints."""
    return compared("chimera", read("chimera"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    stages = int(row["pipeline"])
    if row["kind"] == "bubble_cut":
        bubbles = [
            schedule(
                name,
                stages=stages,
                micro_batches=int(row["batch"]),
                forward_s=1.0,
                backward_s=1.0,
            ).bubble_s
            for name in ("chimera", row["schedule"])
        ]
        return 100.0 * (1.0 - bubbles[0] / bubbles[1]), {"bubbles": bubbles}
    if row["schedule"] == _ABSENT:
        message = "schedule: GEMS is not among the schedules"
        raise InvalidError(message)
    counts = (int(row["devices"]), stages, int(row["micro_batch"]), int(row["batch"]))
    rate, details = _rate(row["schedule"], *counts, row["recompute"])
    if row["kind"] == "throughput":
        return rate, details
    if row["kind"] == "fits":
        return float(details["fits"]), details
    if row["kind"] == "memory":
        return details["memory_bytes"] / 1e9, details
    if row["kind"] == "gain":
        best, _ = _rate(*_CHIMERA)
        return best / rate, details
    message = f"kind: got '{row['kind']}'; allowed: bubble_cut, fits, gain, memory, throughput"
    raise InvalidError(message)


@cache
def _rate(
    name: str, devices: int, stages: int, micro_batch: int, batch: int, recompute: str
) -> tuple[float, Result]:
    """Return sequences a second, in fp32 as the authors' code runs."""
    plan: dict[str, object] = {
        "pipeline": stages,
        "data": devices // stages,
        "micro_batch": micro_batch,
        "schedule": name,
        "recompute": recompute,
    }
    job = Training(
        batch,
        _SEQUENCE,
        precision="fp32",
        fused_gradients=False,
        flash_attention=False,
        dropout=True,
    )
    found = estimate(model(_MODEL), machines(_SYSTEM, devices), plan, job)
    details = {
        "step_time_s": found.step_time_s,
        "fits": found.fits,
        "memory_bytes": found.peak_memory_bytes,
    }
    return batch / found.step_time_s, details
