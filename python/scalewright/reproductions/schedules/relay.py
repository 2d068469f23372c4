"""What do layers that come from the host save and gain, beside what L2L prints?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.config import Plan, Training
from scalewright.errors import UnknownNameError
from scalewright.planning import estimate, layer_relay, model
from scalewright.planning import system as machines
from scalewright.reproductions.claims import compared
from scalewright.reproductions.schedules.layers import layer_s
from scalewright.reproductions.schedules.rows import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scalewright.planning import Estimate, LayerRelay

Result = dict[str, Any]
_SYSTEM, _MODEL, _SEQUENCE, _MICRO_BATCH = "v100-host-512gb", "bert-large", 128, 4
_HOST_BYTES, _DEVICE_BYTES = 512e9, 16 * 2.0**30
_LINK_BYTES_PER_S = 0.8 * 15.75e9
"""PCIe 3.0 x16 after headers, as in the catalog."""
_MEMORY_BYTES_PER_S = 153.6e9
"""The host's memory, as in the catalog."""
_STATE_BYTES = 12
"""Weights and the two moments of Adam in fp32, which the host holds."""
_UPDATE_BYTES = 7 * 4
"""Weights and moments read and written, gradients read, in fp32."""


def relay() -> Iterator[Result]:
    """Predict each figure."""
    return compared("l2l", read("l2l"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    kind = row["kind"]
    if kind not in _KINDS:
        message = f"kind: got '{kind}'; allowed: {', '.join(_KINDS)}"
        raise UnknownNameError(message)
    return _KINDS[kind]()


def _largest() -> tuple[float, Result]:
    return _HOST_BYTES / _STATE_BYTES / 1e9, {"bytes_per_parameter": _STATE_BYTES}


def _fits() -> tuple[float, Result]:
    """Return whether 64 layers of width 8,064 fit: 50 billion parameters."""
    hidden, layers = 8064, 64
    size = 12.0 * hidden**2 * 2
    found = layer_relay(
        [1.0] * layers,
        3.0,
        8,
        weight_bytes=size,
        gradient_bytes=size,
        input_bytes=float(_MICRO_BATCH * _SEQUENCE * hidden * 2),
        working_bytes=_working(hidden, 63),
    )
    return float(found.device_bytes <= _DEVICE_BYTES), {"device_bytes": found.device_bytes}


def _memory() -> tuple[float, Result]:
    base = _baseline(32, 32)
    found = _relayed(32)
    saved = 1.0 - found.device_bytes / base.peak_memory_bytes
    details = {"device_bytes": found.device_bytes, "baseline_bytes": base.peak_memory_bytes}
    return 100.0 * saved, details


def _throughput() -> tuple[float, Result]:
    fitting = [size for size in (2**power for power in range(9)) if _baseline(size, size).fits]
    base = _baseline(fitting[-1], fitting[-1])
    found = _relayed(256)
    gain = (256 / found.step_time_s) / (fitting[-1] / base.step_time_s)
    return gain, {"baseline_batch": fitting[-1], "exposed_s": found.exposed_s}


_KINDS: dict[str, Callable[[], tuple[float, Result]]] = {
    "largest": _largest,
    "fits": _fits,
    "memory": _memory,
    "throughput": _throughput,
}


def _baseline(batch: int, micro_batch: int) -> Estimate:
    job = Training(batch, _SEQUENCE, precision="fp16", flash_attention=False, dropout=True)
    on = machines(_SYSTEM, 1)
    return estimate(model(_MODEL), on, Plan(micro_batch=micro_batch), job)


def _relayed(batch: int) -> LayerRelay:
    table: Any = model(_MODEL).table
    hidden = table["hidden"]
    forward, backward = layer_s(
        table, _SYSTEM, _SEQUENCE, micro_batch=_MICRO_BATCH, recompute="full"
    )
    parameters = 12.0 * hidden**2
    return layer_relay(
        [forward] * table["layers"],
        backward,
        batch // _MICRO_BATCH,
        load_s=2.0 * parameters / _LINK_BYTES_PER_S,
        store_s=2.0 * parameters / _LINK_BYTES_PER_S,
        optimizer_s=_UPDATE_BYTES * parameters / _MEMORY_BYTES_PER_S,
        weight_bytes=2.0 * parameters,
        gradient_bytes=2.0 * parameters,
        input_bytes=float(_MICRO_BATCH * _SEQUENCE * hidden * 2),
        working_bytes=_working(hidden, table["heads"]),
    )


def _working(hidden: int, heads: int) -> float:
    """Return what a layer keeps in a pass: `s b h (34 + 5 a s / h)` (Korthikanti et al. 2022)."""
    tokens = _MICRO_BATCH * _SEQUENCE
    return float(tokens * hidden * (34 + 5 * heads * _SEQUENCE / hidden))
