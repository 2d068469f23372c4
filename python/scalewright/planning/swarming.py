"""What does a pipeline of unreliable, unlike peers get done?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text, named_as, need, need_count, need_progress
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats, spread
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class SwarmStage:
    """A stage of a swarm, in the mean over time.

    Attributes:
        peers: Peers that work there.
        speed_per_s: Their speeds together, micro-batches a second.
        utilization: Share of that speed which is at work.
        queue: Passes that wait or run.
    """

    peers: float
    speed_per_s: float
    utilization: float
    queue: float


@dataclass(frozen=True)
class Swarm(Answer):
    """What a swarm gets done; means over all runs.

    Attributes:
        throughput_per_s: Micro-batches a second, from the empty swarm on.
        standard_error_per_s: Standard error of that mean; None for a single run.
        bound_per_s: What no routing can beat: speeds of the slowest stage, in the mean over time.
        static_bound_per_s: The same of the peers that are there at the beginning.
        expected_per_s: Expected of those in closed form: exact for random routing and exponential
            passes, forward as long as backward.
        stages: Stages.
        failures: Peers that failed, in a run.
        joins: Peers that joined.
        moves: Peers that moved to another stage.
    """

    throughput_per_s: float
    standard_error_per_s: float | None
    bound_per_s: float
    static_bound_per_s: float
    expected_per_s: float
    stages: tuple[SwarmStage, ...]
    failures: float
    joins: float
    moves: float


def swarm(
    stages: Sequence[ArrayLike],
    in_flight: int,
    duration_s: float,
    *,
    trainers: int = 1,
    forward_share: float = 1 / 3,
    delay_s: float = 0.0,
    service: str = "constant",
    routing: str = "round_robin",
    failures_per_s: float = 0.0,
    joins_per_s: float = 0.0,
    join_speeds: ArrayLike = (),
    rebalance_s: float | None = None,
    move_s: float = 0.0,
    runs: int = 8,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> Swarm:
    """Simulate a swarm (SWARM parallelism): every micro-batch takes its own way through the peers.

    Args:
        stages: Speeds of each stage's peers: micro-batches a second, forward and backward together.
        in_flight: Micro-batches that a trainer keeps under way.
        duration_s: Seconds simulated, from an empty swarm.
        trainers: Processes that send micro-batches, each with a routing of its own.
        forward_share: Share of the forward pass in a peer's work.
        delay_s: Seconds of a message between peers, or between a peer and a trainer.
        service: `constant`: a pass takes what the peer's speed says; `exponential`: about that.
        routing: `round_robin`: to the peer that was sent least work; `random`: by speed.
        failures_per_s: How often a peer fails, for good.
        joins_per_s: How often a peer joins the swarm.
        join_speeds: Speeds of which those that join have one.
        rebalance_s: Seconds between moves of a peer to the busiest stage; None: peers stay.
        move_s: Seconds that a peer loads weights when it moves or joins.
        runs: Runs with random numbers of their own.
        seed: The same seed gives the same answer.
        progress: Called with the runs done and the runs in all.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need_progress(progress)
    need("stages", stages, (list, tuple), "a list of speeds for each stage")
    counts = {"in_flight": in_flight, "trainers": trainers, "runs": runs}
    for field, value in counts.items():
        need_count(field, value)
    need_count("seed", seed, 0)
    need("service", service, str, "constant or exponential")
    need("routing", routing, str, "round_robin or random")
    numbers: dict[str, ArrayLike] = {
        "duration_s": duration_s,
        "forward_share": forward_share,
        "delay_s": delay_s,
        "failures_per_s": failures_per_s,
        "joins_per_s": joins_per_s,
        "move_s": move_s,
    }
    if rebalance_s is not None:
        numbers["rebalance_s"] = rebalance_s
    asked = {
        "stages": [_speeds(f"stages[{place}]", peers) for place, peers in enumerate(stages)],
        "join_speeds": _speeds("join_speeds", join_speeds),
        "service": service,
        "routing": routing,
        "seed": seed,
        **counts,
        **{field: spread(field, value, ()).item() for field, value in numbers.items()},
    }
    found: dict[str, Any] = json.loads(
        _engine.swarm(json_text("", asked), progress=progress),
    )
    found["stages"] = tuple(SwarmStage(**stage) for stage in found["stages"])
    return Swarm(**found)


def swarm_utilization(
    compute_s: float,
    transfer_bytes: float,
    bandwidth_bytes_per_s: float | None = None,
    *,
    latency_s: float = 0.0,
    messages: int = 2,
) -> float:
    """Return the share of the time in which a device computes that waits for its transfers.

    Args:
        compute_s: Forward and backward pass of a micro-batch.
        transfer_bytes: Activations of a micro-batch as they travel, compressed or not.
        bandwidth_bytes_per_s: Of the network; no limit where left out.
        latency_s: Seconds that any message takes.
        messages: Messages of a micro-batch that the device waits for: activations and gradients.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need_count("messages", messages, 0)
    asked: dict[str, Any] = {
        "compute_s": spread("compute_s", compute_s, ()).item(),
        "bytes": spread("transfer_bytes", transfer_bytes, ()).item(),
        "latency_s": spread("latency_s", latency_s, ()).item(),
        "messages": messages,
    }
    if bandwidth_bytes_per_s is not None:
        rate = spread("bandwidth_bytes_per_s", bandwidth_bytes_per_s, ()).item()
        asked["bandwidth_bytes_per_s"] = rate
    with named_as({r"bytes\b": "transfer_bytes"}):
        return _engine.swarm_utilization(json_text("", asked))


def _speeds(field: str, values: ArrayLike) -> list[float]:
    """Return the speeds of some peers."""
    given = floats(field, values)
    if given.ndim != 1:
        message = f"{field}: got shape {given.shape}; allowed: a list of speeds"
        raise InvalidError(message)
    return given.tolist()
