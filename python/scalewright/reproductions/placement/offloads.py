"""What do steps come to that use memory beyond the device, beside what papers print?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from scalewright.config import Training
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.planning import (
    Offload,
    estimate,
    largest_model,
    model,
    offload,
    offload_efficiency,
)
from scalewright.planning import system as machines
from scalewright.reproductions.claims import compared
from scalewright.reproductions.placement.rows import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scalewright.planning import Model

Result = dict[str, Any]
_MICRO_BATCHES = tuple(range(1, 129))
"""Tried: those that divide a replica's batch, or powers of two where a paper prints none. The
fastest that fits is taken."""
_PATRICKSTAR_FLOPS = 8
"""Operations that it counts for a parameter and a token (Tencent/PatrickStar
`examples/pretrain_demo.py`)."""
_PATRICKSTAR_BATCHES = (4, 8, 16, 32)
"""Of its scripts in `examples/benchmark`."""
_GPT = {
    "family": "decoder",
    "vocab": 50_304,
    "max_positions": 1024,
    "position": "learned",
    "activation": "gelu",
    "norm": "layernorm",
    "tied_embeddings": True,
    "qkv_bias": True,
    "output_bias": True,
    "ffn_bias": True,
}
_M6: dict[str, Any] = {
    **_GPT,
    "layers": 48,
    "hidden": 1024,
    "heads": 16,
    "ffn": 9984,
    "experts": {"experts": 10_240, "top_k": 1, "expert_ffn": 9984},
}
"""Recalled; comes to 10 trillion parameters."""


def offloads(table: str) -> Iterator[Result]:
    """Predict each figure of a table."""
    return compared(table, read(table), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    kind = row["kind"]
    if kind not in _KINDS:
        message = f"kind: got '{kind}'; allowed: {', '.join(_KINDS)}"
        raise UnknownNameError(message)
    return _KINDS[kind](row)


def _throughput(row: Mapping[str, str], *, each: bool = False) -> tuple[float, Result]:
    found, sequences = _fastest(row)
    devices = 1 if each else int(row["devices"])
    details = {
        "micro_batch": sequences,
        "step_time_s": found.step_time_s,
        **found.chosen,
        **found.exposed_s,
    }
    if row["paper"].startswith("Fang"):
        each_token = _PATRICKSTAR_FLOPS * found.parameters
        rate = each_token * found.tokens_per_s / int(row["devices"])
    else:
        rate = found.hardware_flops_per_s_per_device
    return rate * devices / 1e12, details


def _largest(row: Mapping[str, str]) -> tuple[float, Result]:
    family = _model(row["model"])
    replicas = _replicas(row)
    each = int(_plan(row).get("micro_batch", "1"))
    found = largest_model(
        row["scheme"],
        family,
        machines(row["system"], int(row["devices"])),
        _training(row, replicas * each),
        _plan_of(row, each),
        **_fields(row["fields"]),
    )
    details = {"layers": found.layers, "hidden": found.hidden, "binding": found.binding}
    return found.parameters / 1e9, details


def _fits(row: Mapping[str, str]) -> tuple[float, Result]:
    each = int(_plan(row)["micro_batch"])
    found = _step(row, int(row["batch"]), each)
    return float(found.fits), {use.tier: use.total_bytes for use in found.tiers}


def _plain(row: Mapping[str, str]) -> tuple[float, Result]:
    on = machines(row["system"], int(row["devices"]))
    found = estimate(_model(row["model"]), on, {"recompute": "none"}, _training(row, 1))
    return float(found.fits), {"peak_memory_bytes": found.peak_memory_bytes}


def _formula(row: Mapping[str, str]) -> tuple[float, Result]:
    given = _fields(row["fields"])
    share = offload_efficiency(given["intensity"], given["bandwidth"], given["peak"])
    return 100.0 * share, {}


def _stream(row: Mapping[str, str]) -> tuple[float, Result]:
    found = _step(row, int(row["batch"]), 1)
    # forward and backward pass; the last block's weights come once
    seconds = found.busy_s["from-host"] / 2.0
    return seconds / 60.0, {"parameters": found.parameters, "step_time_s": found.step_time_s}


def _duration(row: Mapping[str, str]) -> tuple[float, Result]:
    message = f"{row['what']}: the number of steps is not printed"
    raise InvalidError(message)


_KINDS: dict[str, Callable[[Mapping[str, str]], tuple[float, Result]]] = {
    "throughput": _throughput,
    "throughput_each": partial(_throughput, each=True),
    "largest": _largest,
    "fits": _fits,
    "plain": _plain,
    "formula": _formula,
    "stream": _stream,
    "duration": _duration,
}


def _fastest(row: Mapping[str, str]) -> tuple[Offload, int]:
    """Return the step of the fastest micro-batch that fits, and its sequences.

    Raises:
        InvalidError: None fits.
    """
    replicas = _replicas(row)
    best: tuple[Offload, int] | None = None
    for each in _PATRICKSTAR_BATCHES if row["paper"].startswith("Fang") else _MICRO_BATCHES:
        batch = int(row["batch"] or replicas * each)
        if batch % (replicas * each) or (not row["batch"] and each.bit_count() > 1):
            continue
        found = _step(row, batch, each)
        if best is not None and not found.fits:
            break
        if best is None or not best[0].fits or found.tokens_per_s > best[0].tokens_per_s:
            best = (found, each)
    if best is None:
        message = f"batch: got {row['batch']}; allowed: a multiple of {replicas} replicas"
        raise InvalidError(message)
    if not best[0].fits:
        full = ", ".join(use.tier for use in best[0].tiers if not use.fits)
        message = f"{row['what']}: does not fit: {full}"
        raise InvalidError(message)
    return best


def _step(row: Mapping[str, str], batch: int, each: int) -> Offload:
    return offload(
        row["scheme"],
        _model(row["model"]),
        machines(row["system"], int(row["devices"])),
        _training(row, batch),
        _plan_of(row, each),
        **_fields(row["fields"]),
    )


def _model(text: str) -> Model:
    """Return a model of the catalog, M6-10T, or a GPT of `layers hidden heads`."""
    if text == "m6-10t":
        return model({"name": text, **_M6})
    shape = text.split()
    if len(shape) == 1:
        return model(text)
    layers, hidden, heads = map(int, shape)
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "ffn": 4 * hidden}
    return model({"name": f"gpt {text}", **_GPT, **sizes})


def _training(row: Mapping[str, str], batch: int) -> Training:
    return Training(
        batch,
        int(row["sequence"]),
        precision="fp16",
        gradient="fp16",
        optimizer="adafactor" if row["model"] == "m6-10t" else "adam",
        flash_attention=False,
        dropout=True,
    )


def _plan(row: Mapping[str, str]) -> dict[str, str]:
    return dict(part.split("=", 1) for part in row["plan"].split(",") if part)


def _plan_of(row: Mapping[str, str], each: int) -> dict[str, object]:
    given = {name: int(value) for name, value in _plan(row).items()}
    return {"recompute": "full", **given, "micro_batch": each}


def _replicas(row: Mapping[str, str]) -> int:
    return int(row["devices"]) // int(_plan(row).get("tensor", "1"))


def _fields(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in text.split():
        name, value = part.split("=", 1)
        try:
            found[name] = float(value) if "e" in value else int(value)
        except ValueError:
            found[name] = value
    return found
