"""How much of a device do slow networks leave to a swarm, beside what SWARM prints?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.planning import model, swarm_utilization
from scalewright.reproductions.claims import compared
from scalewright.reproductions.schedules.layers import layer_s
from scalewright.reproductions.schedules.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Result = dict[str, Any]
_BANDWIDTH_BYTES_PER_S = 500e6 / 8
_SEQUENCE = 512


def swarm() -> Iterator[Result]:
    """Predict each share, and how much of it added latency takes.

    A device is taken to pass one sequence at a time; how many were under way is not printed. The
    second figure does not depend on that as long as the device has time to spare.
    """
    return compared("swarm", read("swarm"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    hidden = int(row["hidden"])
    compute = _compute(hidden, int(row["heads"]))
    size = float(_SEQUENCE * hidden * int(row["element_bytes"]))

    def share(round_trip_s: float) -> float:
        return swarm_utilization(
            compute, size, _BANDWIDTH_BYTES_PER_S, latency_s=round_trip_s / 2.0
        )

    found = share(float(row["round_trip_ms"]) * 1e-3)
    details = {"compute_s": compute}
    return (share(0.0) / found if row["kind"] == "loss" else 100.0 * found), details


@cache
def _compute(hidden: int, heads: int) -> float:
    shape = {"hidden": hidden, "heads": heads, "ffn": 4 * hidden}
    return sum(layer_s({**model("gpt3-175b").table, **shape}, "dgx-1-v100", _SEQUENCE))
