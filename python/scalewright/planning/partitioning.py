"""Which layers should each stage of a pipeline hold, also on unlike devices?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text, named_as, need, need_count
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats, spread
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


_PATHS = {
    r"layers(\[\d+\])\.(\w+)(?:\[\d+\])?": r"\2\1",
    r"links(\[\d+\])\.(\w+)": r"\2\1",
    r"devices(\[\d+\])\.(speed|kind)\b": r"\2s\1",
    r"devices(\[\d+\])\.(\w+)": r"\2\1",
}
"""What a caller wrote, by the engine's path."""


@dataclass(frozen=True)
class PartitionStage:
    """Layers on one device.

    Attributes:
        device: Index of the device.
        layers: Its layers.
        work_s: Forward and backward pass of one micro-batch.
        hop_s: Send of one micro-batch into it.
        held_bytes: States, and activations of the micro-batches in flight.
        in_flight: Micro-batches in flight.
    """

    device: int
    layers: range
    work_s: float
    hop_s: float
    held_bytes: float
    in_flight: int


@dataclass(frozen=True)
class Partition(Answer):
    """The best way found to cut layers into stages.

    Attributes:
        stages: Along the pipeline.
        cuts: First layer of every stage but the first.
        objective_s: What was made least: all stages and sends once, and the slowest stage again and
            again.
        slowest_s: Forward and backward pass of the slowest stage.
        step_time_s: One 1F1B step of this partition, run through.
        lower_bound_s: What no partition's 1F1B step can beat.
        is_exact: True where no partition, in no allowed order of devices, has a smaller objective.
        proof: What that rests on.
    """

    stages: tuple[PartitionStage, ...]
    cuts: tuple[int, ...]
    objective_s: float
    slowest_s: float
    step_time_s: float
    lower_bound_s: float
    is_exact: bool
    proof: str

    @property
    def relative_gap(self) -> float:
        """Return how much longer the step takes than the bound, as a share of the bound."""
        return self.step_time_s / self.lower_bound_s - 1.0 if self.lower_bound_s > 0.0 else 0.0


@dataclass(frozen=True)
class NoPartition(Answer):
    """Why layers cannot be cut so that every stage fits.

    Attributes:
        reason: `layers` (fewer than devices), `layer` (one that fits no device) or `memory`.
        layer: The first layer that finds no room.
        stage: The stage that would have to take it.
        needs_bytes: What it needs there alone.
        is_exact: False where only some orders of the devices were tried.
        message: The same in words.
    """

    reason: str
    layer: int | None
    stage: int | None
    needs_bytes: float | None
    is_exact: bool
    message: str


def partition(
    forward_s: ArrayLike,
    backward_s: ArrayLike,
    micro_batches: int,
    *,
    devices: int | None = None,
    weight_s: ArrayLike = 0.0,
    speeds: ArrayLike = 1.0,
    kinds: Sequence[int] | None = None,
    capacity_bytes: ArrayLike | None = None,
    state_bytes: ArrayLike = 0.0,
    activation_bytes: ArrayLike = 0.0,
    output_bytes: ArrayLike = 0.0,
    bandwidth_bytes_per_s: ArrayLike | None = None,
    latency_s: ArrayLike = 0.0,
    permute: bool = False,
) -> Partition | NoPartition:
    """Cut layers into contiguous pipeline stages of one layer or more, one per device.

    Least is made the sum of all stages and of the sends there and back, and `micro_batches - 1`
    times the slowest stage; every cut is weighed, so the answer is proven. The step of 1F1B is run
    through beside it, with a bound that no cut can beat.

    Args:
        forward_s: Forward pass of one micro-batch on each layer: a list, or a row per layer with a
            column per kind of device.
        backward_s: Backward pass, likewise; gradients of weights are counted with it or apart.
        micro_batches: Micro-batches of a step.
        devices: Stages; follows from `speeds` or `kinds` where they are lists.
        weight_s: Gradients of weights, likewise, or one number for all.
        speeds: What times are divided by on each device, or one number for all.
        kinds: Column of each device.
        capacity_bytes: Memory of each device, or one number for all; no limit where left out.
        state_bytes: Weights, gradients and optimizer states of each layer, or one number for all.
        activation_bytes: Activations of each layer for one micro-batch, likewise; stage `s` of `p`
            holds them `min(p - s, micro_batches)` times.
        output_bytes: What each layer sends on for one micro-batch, likewise.
        bandwidth_bytes_per_s: Of links: one number for all, a list with one per border, or a square
            matrix from the row's device to the column's; no limit where left out.
        latency_s: Seconds of any message, likewise.
        permute: Devices may stand in any order; proven up to 10 unlike ones (more where many are
            alike), else found by swaps.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need("permute", permute, bool, "True or False")
    need_count("micro_batches", micro_batches)
    forward = _by_kind("forward_s", forward_s)
    count = _devices(devices, speeds, kinds)
    asked = {
        "layers": _layers(
            {"forward_s": forward_s, "backward_s": backward_s, "weight_s": weight_s},
            {
                "state_bytes": state_bytes,
                "activation_bytes": activation_bytes,
                "output_bytes": output_bytes,
            },
            forward.shape,
        ),
        "devices": _each_device(speeds, kinds, capacity_bytes, count),
        "links": _links(bandwidth_bytes_per_s, latency_s, count),
        "micro_batches": micro_batches,
        "permute": permute,
    }
    with named_as(_PATHS):
        answer = json.loads(_engine.partition_layers(json_text("", asked)))
    if "infeasible" in answer:
        return NoPartition(**answer["infeasible"])
    found: dict[str, Any] = answer["partition"]
    found["stages"] = tuple(_stage(stage) for stage in found["stages"])
    found["cuts"] = tuple(found["cuts"])
    return Partition(**found)


def _stage(values: dict[str, Any]) -> PartitionStage:
    """Return a stage as the engine gave it."""
    values["layers"] = range(values["layers"]["start"], values["layers"]["end"])
    return PartitionStage(**values)


def _by_kind(field: str, values: ArrayLike) -> Floats:
    """Return a row per layer with a column per kind of device."""
    given = floats(field, values)
    if given.ndim not in (1, 2) or given.size == 0:
        message = f"{field}: got shape {given.shape}; allowed: layers, or layers x kinds"
        raise InvalidError(message)
    return given.reshape(given.shape[0], -1)


def _devices(devices: int | None, speeds: ArrayLike, kinds: Sequence[int] | None) -> int:
    """Return how many devices there are."""
    if kinds is not None:
        need("kinds", kinds, (list, tuple), "a list of columns, one per device")
    if devices is not None:
        return need_count("devices", devices)
    if kinds is not None:
        return need_count("devices", len(kinds))
    given = floats("speeds", speeds)
    if given.ndim != 1:
        message = "devices: got nothing; allowed: a count where neither speeds nor kinds is a list"
        raise InvalidError(message)
    return need_count("devices", len(given))


def _layers(
    times: dict[str, ArrayLike], sizes: dict[str, ArrayLike], shape: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Return the fields of each layer."""
    layers, kinds = shape
    columns: dict[str, list[Any]] = {}
    for field, values in times.items():
        given = floats(field, values)
        if given.ndim == 1 and kinds == 1:
            given = given.reshape(-1, 1)
        columns[field] = spread(field, given, (layers, kinds)).tolist()
    for field, values in sizes.items():
        columns[field] = spread(field, values, (layers,)).tolist()
    return [{field: column[i] for field, column in columns.items()} for i in range(layers)]


def _each_device(
    speeds: ArrayLike, kinds: Sequence[int] | None, capacity_bytes: ArrayLike | None, count: int
) -> list[dict[str, Any]]:
    """Return the fields of each device."""
    columns = [0] * count if kinds is None else list(kinds)
    if len(columns) != count:
        message = f"kinds: got {len(columns)}; allowed: one per device, {count} in all"
        raise InvalidError(message)
    for place, kind in enumerate(columns):
        need_count(f"kinds[{place}]", kind, 0)
    rates = spread("speeds", speeds, (count,)).tolist()
    limits: list[float | None] = [None] * count
    if capacity_bytes is not None:
        limits = spread("capacity_bytes", capacity_bytes, (count,)).tolist()
    return [
        {"kind": kind, "speed": rate, "capacity_bytes": limit}
        for kind, rate, limit in zip(columns, rates, limits, strict=True)
    ]


def _links(
    bandwidth_bytes_per_s: ArrayLike | None, latency_s: ArrayLike, count: int
) -> list[dict[str, Any]]:
    """Return the fields of each link: one per border, or one per pair of devices."""
    given = [("latency_s", floats("latency_s", latency_s))]
    if bandwidth_bytes_per_s is not None:
        rates = floats("bandwidth_bytes_per_s", bandwidth_bytes_per_s)
        given.append(("bandwidth_bytes_per_s", rates))
    by_pair = any(values.ndim == 2 for _, values in given)
    shape = (count, count) if by_pair else (count - 1,)
    columns: dict[str, list[float | None]] = {
        field: [*spread(field, values, shape).ravel().tolist()] for field, values in given
    }
    if by_pair and "bandwidth_bytes_per_s" in columns:
        # what stands on the diagonal is not read
        for device in range(count):
            columns["bandwidth_bytes_per_s"][device * (count + 1)] = None
            columns["latency_s"][device * (count + 1)] = 0.0
    links = range(len(columns["latency_s"]))
    return [{field: column[i] for field, column in columns.items()} for i in links]
