"""How much sooner does training with freezing layers end, beside what PipeTransformer prints?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.planning import frozen_layers, progressive_freezing
from scalewright.reproductions.claims import compared
from scalewright.reproductions.schedules.layers import layer_s
from scalewright.reproductions.schedules.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Result = dict[str, Any]
_VISION = {
    "name": "vit-b-16",
    "family": "encoder",
    "hidden": 768,
    "heads": 12,
    "ffn": 3072,
    "vocab": 1000,
    "position": "learned",
    "activation": "gelu",
    "norm": "layernorm",
    "tied_embeddings": True,
    "qkv_bias": True,
    "output_bias": True,
    "ffn_bias": True,
}
"""ViT-B/16 (Dosovitskiy et al. 2021): patches of 16 in images of 224, and a class token."""
_LAYERS, _TOKENS, _BATCH, _IMAGES = 12, 197, 400, 1_281_167
_EPOCHS, _NODES, _DEVICES = 10, 2, 8
_LINK, _NETWORK = 15.754e9, 5e9
"""Bytes a second inside a machine and between the two: the authors' PyTorch blog."""
_PARAMETERS = 7_087_872
_SMALL = 8


def freezing() -> Iterator[Result]:
    """Predict each gain of the whole system over the same training without freezing."""
    return compared("pipetransformer", read("pipetransformer"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    part, _, whole = row["alpha"].partition("/")
    frozen = frozen_layers(_LAYERS, _EPOCHS, alpha=int(part) / int(whole))
    forward, backward, overhead = _half()
    halves = 2 * _LAYERS
    activations = _BATCH * _TOKENS * 768 * 4.0
    found = progressive_freezing(
        [forward] * halves,
        backward,
        _PARAMETERS / 2 * 4.0,
        [2 * layers for layers in frozen],
        devices_per_node=_DEVICES,
        nodes=_NODES,
        samples=_IMAGES,
        batch=_BATCH,
        overhead_s=overhead,
        output_bytes=activations,
        bandwidth_bytes_per_s=_LINK,
        latency_s=10e-6,
        all_reduce_bytes_per_s=_NETWORK,
        all_reduce_latency_s=50e-6,
        cache_s=activations / _LINK,
    )
    pipelines = [epoch.replicas for epoch in found.epochs]
    details = {"plain_s": found.plain_s, "frozen": frozen, "pipelines": pipelines}
    return found.speedup, details


@cache
def _half() -> tuple[float, float, float]:
    """Return passes of half a layer for a pipeline's batch in fp32, and what a micro-batch adds.

    Stages are cut inside layers, as in the paper.
    """
    whole = layer_s(_VISION, "rtx-5000-pair", _TOKENS, micro_batch=_BATCH, precision="fp32")
    small = layer_s(
        _VISION, "rtx-5000-pair", _TOKENS, micro_batch=_BATCH // _SMALL, precision="fp32"
    )
    more = max(sum(small) * _SMALL - sum(whole), 0.0) / (_SMALL - 1)
    return whole[0] / 2.0, whole[1] / 2.0, more / 4.0
