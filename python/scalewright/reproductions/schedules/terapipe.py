"""How near do predicted steps of pipelines over tokens come to the tables of TeraPipe?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.config import Plan, Training
from scalewright.planning import Model, collective, model, schedule, slice_times, token_slices
from scalewright.planning import system as machines
from scalewright.reproductions.claims import compared
from scalewright.reproductions.schedules.rows import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from scalewright.planning import System

Result = dict[str, Any]
_SYSTEM = "p3-16xlarge"
_NODE = 8
_NETWORK_BYTES_PER_S = 25e9 / 8
"""A node's 25 Gb/s (AWS), which the one rank that sends has to itself."""
_UNITS = 256
"""Units of a sequence that slices are a multiple of: 8 tokens of 2,048, as in the paper."""
_ELEMENT_BYTES = 2


@dataclass(frozen=True)
class _Setting:
    """A row's model and plan."""

    model: str
    devices: int
    sequence: int
    batch: int
    data: int
    pipeline: int
    tensor: int

    @property
    def micro_batches(self) -> int:
        """Sequences of a replica: one a micro-batch, as the paper's slicings have them."""
        return self.batch // self.data


def terapipe() -> Iterator[Result]:
    """Predict the latency of each setting, with and without slices."""
    return compared("terapipe", read("terapipe"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    numbers = ("devices", "sequence", "batch", "data", "pipeline", "tensor")
    setting = _Setting(row["model"], *(int(row[name]) for name in numbers))
    if row["quantity"] == "speedup":
        without, _ = _step(setting, _even(setting.sequence, 1))
        best, lengths = _best(setting)
        return without / best, {"slices": lengths}
    if row["slices"] == "best":
        best, lengths = _best(setting)
        return best, {"slices": lengths}
    return _step(setting, _even(setting.sequence, int(row["slices"])))


def _even(tokens: int, slices: int) -> tuple[int, ...]:
    return (tokens // slices,) * slices


@cache
def _best(setting: _Setting) -> tuple[float, tuple[int, ...]]:
    """Return the exact step of the slicing that the dynamic program finds, and its lengths.

    It minimises what the paper does: the sum of `t(l, c)` and the slowest again for each further
    stage, with a send each way in `t`.
    """
    import numpy as np

    unit = setting.sequence // _UNITS
    pairs = [
        (length * unit, context * unit)
        for length in range(1, _UNITS + 1)
        for context in range(_UNITS - length + 1)
    ]
    forward, backward = _passes(setting, pairs)
    sends = 2.0 * _hops(setting, [length for length, _ in pairs])(setting.tensor == _NODE)
    table = np.full((_UNITS, _UNITS), np.inf)
    places = np.array(pairs) // unit
    table[places[:, 0] - 1, places[:, 1]] = forward + backward + sends
    found = token_slices(table, setting.pipeline, sequences=setting.micro_batches, granularity=unit)
    assert found is not None  # every slice is allowed
    lengths = found.parts[0].lengths
    return _step(setting, lengths)[0], lengths


@cache
def _step(setting: _Setting, lengths: tuple[int, ...]) -> tuple[float, Result]:
    """Return a step of given slices: the exact recurrence, then the sum of gradients.

    Senders wait, as in the authors' code (zhuohan123/terapipe: sends and compute share a stream).
    """
    starts = [sum(lengths[:place]) for place in range(len(lengths))]
    forward, backward = _passes(setting, list(zip(lengths, starts, strict=True)))
    # the last slice goes back first; nothing else depends on which backward pass comes when
    sizes = [
        (float(f), float(b)) for f, b in zip(forward, backward[::-1], strict=True)
    ] * setting.micro_batches
    hop = _hops(setting, [setting.sequence / len(lengths)])
    inside, across = float(hop(False)[0]), float(hop(True)[0])
    borders = [
        across if (border + 1) * setting.tensor % _NODE == 0 else inside
        for border in range(setting.pipeline - 1)
    ]
    found = schedule(
        "terapipe",
        stages=setting.pipeline,
        micro_batches=len(sizes),
        forward_s=1.0,
        backward_s=1.0,
        hop_s=borders,
        sends="blocking",
        sizes=sizes,
    )
    reduction = _reduction(setting)
    details = {
        "pipeline_s": found.makespan_s,
        "gradients_s": reduction,
        "send_s": across,
        "slice_s": float(forward.mean() + backward.mean()),
    }
    return found.makespan_s + reduction, details


def _passes(
    setting: _Setting, pairs: list[tuple[int, int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return forward and backward seconds on a stage of layers alone, as the authors run them."""
    plan = Plan(
        tensor=setting.tensor,
        pipeline=setting.pipeline,
        data=setting.data,
        schedule="terapipe",
        overlap_tensor=False,
    )
    job = Training(
        setting.batch,
        setting.sequence,
        precision="fp16",
        fused_gradients=False,
        flash_attention=False,
    )
    found = slice_times(_model(setting), _machines(setting), plan, job, pairs)
    return found.forward_s[:, 1], found.backward_s[:, 1]


def _model(setting: _Setting) -> Model:
    given = model(setting.model)
    return Model(given.name, {**given.table, "max_positions": setting.sequence})


def _machines(setting: _Setting) -> System:
    return machines(_SYSTEM, setting.devices)


def _hops(
    setting: _Setting, tokens: list[int] | list[float]
) -> Callable[[bool], NDArray[np.float64]]:
    """Return the time of a tensor to the next stage, by whether that is on another node.

    One of the tensor ranks sends, and the next stage's one that receives broadcasts.
    """
    import numpy as np

    width: Any = _model(setting).table["hidden"]
    sizes, places = np.unique(np.array(tokens, dtype=np.float64), return_inverse=True)
    buffers = sizes * float(width) * _ELEMENT_BYTES
    on = _machines(setting)
    fan = 0.0
    if setting.tensor > 1:
        fan = collective("broadcast", buffers, on, setting.tensor).time_s

    def hop(across: bool) -> NDArray[np.float64]:
        if across:
            rate = _NETWORK_BYTES_PER_S
            sent = collective(
                "send_receive", buffers, on, 2, stride=_NODE, bandwidth_bytes_per_s=rate
            )
        else:
            sent = collective("send_receive", buffers, on, 2, stride=setting.tensor)
        return np.asarray(sent.time_s + fan)[places]

    return hop


def _reduction(setting: _Setting) -> float:
    """Return the all-reduce of a stage's gradients over replicas, which lie on other nodes."""
    if setting.data == 1:
        return 0.0
    table: Any = _model(setting).table
    layers = table["layers"] // setting.pipeline
    weights = layers * 12 * table["hidden"] ** 2 / setting.tensor
    stride = setting.pipeline * setting.tensor
    on = _machines(setting)
    size = weights * _ELEMENT_BYTES
    return float(collective("all_reduce", size, on, setting.data, stride=stride).time_s)
