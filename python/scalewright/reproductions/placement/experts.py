"""What do dynamic gating and buffers of experts gain, beside what their paper prints?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.planning import collective, expert_buffering
from scalewright.planning import system as machines
from scalewright.reproductions.claims import by_kind, compared
from scalewright.reproductions.placement.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scalewright.planning import ExpertBuffering

Result = dict[str, Any]
_SYSTEM, _EXCHANGE_BYTES = "dgx-1-v100-32gb", 256e6
_LANGUAGE: dict[str, Any] = {
    "layers": 12,
    "experts": 512,
    "top_k": 2,
    "hidden": 1024,
    "ffn": 4096,
    "capacity": 0.05,
    "other_parameters": 355e6,
}
"""LM 52B: experts in every second of 24 layers; the dense model of that shape has the others."""
_TRANSLATION: dict[str, Any] = {
    "layers": 6,
    "experts": 128,
    "top_k": 2,
    "hidden": 2048,
    "ffn": 8192,
    "capacity": 1.0,
    "other_parameters": 1.65e9,
}
"""MT 54.5B, encoder: experts in every fourth of 24 layers; half of the dense model of 3.3B."""
_COPY_BYTES_PER_S = 12e9
"""Measured over PCIe 3, a GPU (the paper)."""
_TOKENS, _SENTENCES, _FEW = 8 * 1024, 1024, 64


def experts() -> Iterator[Result]:
    """Predict each figure."""
    return compared("experts", read("experts"), _predicted)


@cache
def _language(
    tokens: int = _TOKENS, policy: str = "lifo", exponent: float = 0.0
) -> ExpertBuffering:
    return _run(_LANGUAGE, 32, tokens=tokens, buffered=10, policy=policy, exponent=exponent)


@cache
def _translation() -> ExpertBuffering:
    return _run(_TRANSLATION, 16, tokens=_SENTENCES)


def _run(shape: Mapping[str, Any], devices: int, **asked: Any) -> ExpertBuffering:  # noqa: ANN401
    on = machines(_SYSTEM, devices)
    exchange = collective("all_to_all", _EXCHANGE_BYTES, on)
    return expert_buffering(
        on,
        **shape,
        **asked,
        all_to_all_bytes_per_s=float(exchange.algorithm_bandwidth_bytes_per_s),
        machine={"copy_bytes_per_s": devices * _COPY_BYTES_PER_S},
    )


def _lm_speedup() -> tuple[float, Result]:
    found = _language()
    return found.speedup, {"fixed": vars(found.fixed), "dynamic": vars(found.dynamic)}


def _mt_speedup() -> tuple[float, Result]:
    found = _translation()
    return found.speedup, {"fixed": vars(found.fixed), "dynamic": vars(found.dynamic)}


def _lm_activations() -> tuple[float, Result]:
    found = _language()
    fixed, dynamic = found.fixed.activation_bytes, found.dynamic.activation_bytes
    return (fixed - dynamic) / 1e9, {"fixed_bytes": fixed, "dynamic_bytes": dynamic}


def _lm_buffers() -> tuple[float, Result]:
    found = _language()
    return found.saved, {
        "static_bytes": found.static_bytes,
        "buffered_bytes": found.buffered_bytes,
        "hit_rate": found.hit_rate,
        "copy_s": found.copy_s,
    }


def _lm_order() -> tuple[float, Result]:
    copies = {policy: _language(_FEW, policy, 1.0).copy_s for policy in ("lifo", "lru")}
    least = _language(_FEW, "lru", 1.0).least_copy_s
    return float(copies["lifo"] < copies["lru"]), {**copies, "belady": least}


_predicted = by_kind(
    {
        "lm_speedup": _lm_speedup,
        "mt_speedup": _mt_speedup,
        "lm_activations": _lm_activations,
        "lm_buffers": _lm_buffers,
        "lm_order": _lm_order,
    }
)
