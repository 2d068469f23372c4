"""How much sooner does training end whose layers freeze from the front while pipelines shrink?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text, named_as, need, need_count
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats, names, spread
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

_PARTS = ("repack", "replicate", "cache")


_PATHS = {
    r"layers(\[\d+\])\.(\w+)": r"\2\1",
    r"link\.": "",
    r"all_reduce\.bandwidth_bytes": "all_reduce_bytes",
    r"all_reduce\.latency": "all_reduce_latency",
}
"""What a caller wrote, by the engine's path."""


@dataclass(frozen=True)
class FreezingEpoch:
    """An epoch of training with freezing.

    Attributes:
        frozen: Layers frozen.
        cached: Layers whose forward pass is read rather than run.
        pipeline: Devices of a pipeline.
        replicas: Pipelines.
        chunks: Micro-batches of a step.
        cuts: First layer of every stage but the first.
        steps: Steps.
        step_time_s: One step, exchange included.
        all_reduce_s: Of that, the exchange of gradients.
        time_s: The epoch, with the change before it.
    """

    frozen: int
    cached: int
    pipeline: int
    replicas: int
    chunks: int
    cuts: tuple[int, ...]
    steps: int
    step_time_s: float
    all_reduce_s: float
    time_s: float


@dataclass(frozen=True)
class ProgressiveFreezing(Answer):
    """Training with freezing against training without.

    Attributes:
        epochs: Epochs in turn.
        time_s: All of them.
        plain_s: As many epochs without freezing.
        speedup: How many times sooner it ends.
    """

    epochs: tuple[FreezingEpoch, ...]
    time_s: float
    plain_s: float
    speedup: float


def frozen_layers(
    freezable: int, epochs: int, *, alpha: float = 1 / 3, every: int = 1
) -> tuple[int, ...]:
    """Return how many layers are frozen in each epoch where each decision freezes a share.

    Args:
        freezable: Layers that may be frozen.
        epochs: Epochs.
        alpha: Share of the layers still active that a decision freezes.
        every: Epochs from one decision to the next; there is none before the first.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need_count("freezable", freezable, 0)
    need_count("epochs", epochs)
    need_count("every", every)
    share = spread("alpha", alpha, ()).item()
    asked = {"freezable": freezable, "alpha": share, "epochs": epochs, "every": every}
    return tuple(_engine.frozen_layers(json_text("", asked)))


def progressive_freezing(
    forward_s: ArrayLike,
    backward_s: ArrayLike,
    parameter_bytes: ArrayLike,
    frozen: Sequence[int],
    *,
    devices_per_node: int,
    samples: int,
    batch: int,
    nodes: int = 1,
    pipeline: int | None = None,
    chunks: int | None = None,
    overhead_s: ArrayLike = 0.0,
    output_bytes: ArrayLike = 0.0,
    bandwidth_bytes_per_s: float | None = None,
    latency_s: float = 0.0,
    all_reduce_bytes_per_s: float | None = None,
    all_reduce_latency_s: float = 0.0,
    frozen_share: float = 1 / 6,
    cache_s: float = 0.0,
    transition_s: float = 0.0,
    parts: str | Sequence[str] | None = _PARTS,
    schedule: str = "gpipe",
) -> ProgressiveFreezing:
    """Time training in which layers freeze and pipelines shrink (PipeTransformer).

    Active layers are packed into half the devices whenever no device then holds more than the
    fullest did at the beginning; freed devices run more pipelines, which share the samples.

    Args:
        forward_s: Forward pass of each layer for all samples of a pipeline's step: a list.
        backward_s: Backward pass, likewise, or one number for all.
        parameter_bytes: Parameters of each layer, or one number for all: what is exchanged and
            what stages are balanced by.
        frozen: Layers frozen in each epoch, from the front, as `frozen_layers` gives them.
        devices_per_node: Devices of a node; a pipeline stays inside one.
        samples: Samples of an epoch.
        batch: Samples of a pipeline's step.
        nodes: Nodes.
        pipeline: Devices of a pipeline at the beginning; those of a node where left out.
        chunks: Micro-batches of a step; the best from `K` to `6 K` for `K` devices where left out.
        overhead_s: What each pass of each micro-batch takes beyond its share, by layer or for all.
        output_bytes: What each layer sends on for all samples of a step, or one number for all.
        bandwidth_bytes_per_s: Of the link between neighbours of a pipeline; no limit where left
            out.
        latency_s: Its latency.
        all_reduce_bytes_per_s: What the devices of a pipeline together send to the other
            pipelines; no limit where left out.
        all_reduce_latency_s: Latency of a round of that exchange.
        frozen_share: Memory of a frozen layer against that of an active one.
        cache_s: Reading of what frozen layers gave, for a pipeline's step.
        transition_s: What an epoch with other layers frozen than before costs once.
        parts: Which parts of the system are at work: `repack`, `replicate`, `cache`.
        schedule: A schedule of one chunk.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    counted = {"devices_per_node": devices_per_node, "samples": samples, "batch": batch}
    for field, value in {**counted, "nodes": nodes}.items():
        need_count(field, value)
    for field, value in {"pipeline": pipeline, "chunks": chunks}.items():
        if value is not None:
            need_count(field, value)
    need("frozen", frozen, (list, tuple), "a list with an entry per epoch")
    for epoch, layers in enumerate(frozen):
        need_count(f"frozen[{epoch}]", layers, 0)
    need("schedule", schedule, str, "a name, as gpipe")
    times = {"forward_s": forward_s, "backward_s": backward_s, "overhead_s": overhead_s}
    sizes = {"parameter_bytes": parameter_bytes, "output_bytes": output_bytes}
    seconds = {
        "frozen_share": frozen_share,
        "cache_s": cache_s,
        "transition_s": transition_s,
    }
    asked = {
        "layers": _layers({**times, **sizes}),
        "frozen": list(frozen),
        "nodes": nodes,
        **counted,
        "pipeline": devices_per_node if pipeline is None else pipeline,
        "chunks": chunks,
        "link": _link("bandwidth_bytes_per_s", bandwidth_bytes_per_s, latency_s),
        "all_reduce": _link("all_reduce_bytes_per_s", all_reduce_bytes_per_s, all_reduce_latency_s),
        **{field: spread(field, value, ()).item() for field, value in seconds.items()},
        "parts": _parts(parts),
        "schedule": schedule,
    }
    with named_as(_PATHS):
        found: dict[str, Any] = json.loads(_engine.progressive_freezing(json_text("", asked)))
    found["epochs"] = tuple(_epoch(epoch) for epoch in found["epochs"])
    return ProgressiveFreezing(**found)


def _epoch(values: dict[str, Any]) -> FreezingEpoch:
    """Return an epoch as the engine gave it."""
    values["cuts"] = tuple(values["cuts"])
    return FreezingEpoch(**values)


def _layers(fields: dict[str, ArrayLike]) -> list[dict[str, float]]:
    """Return the fields of each layer."""
    shape = floats("forward_s", fields["forward_s"]).shape
    if len(shape) != 1 or shape == (0,):
        message = f"forward_s: got shape {shape}; allowed: a list with an entry per layer"
        raise InvalidError(message)
    columns = {field: spread(field, of, shape).tolist() for field, of in fields.items()}
    return [{field: of[i] for field, of in columns.items()} for i in range(shape[0])]


def _link(field: str, rate: float | None, latency_s: float) -> dict[str, float | None]:
    """Return the fields of a link."""
    return {
        "bandwidth_bytes_per_s": None if rate is None else spread(field, rate, ()).item(),
        "latency_s": spread("latency_s", latency_s, ()).item(),
    }


def _parts(parts: str | Sequence[str] | None) -> dict[str, bool]:
    """Return which parts are at work."""
    listed = names("parts", parts)
    for name in listed:
        if name not in _PARTS:
            message = f"parts: got {name!r}; allowed: {', '.join(_PARTS)}"
            raise InvalidError(message)
    return {name: name in listed for name in _PARTS}
