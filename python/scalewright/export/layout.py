"""How do layers and devices lie under a plan?"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_NODE = 8
"""Devices of a usual node; the written files let the user change it."""


def layer_split(layers: int, pipeline: int, chunks: int) -> tuple[int, int, int]:
    """Return the layers of the first, of every middle and of the last virtual stage.

    The rule of the engine: all get `ceil(layers / stages)`, and the two ends share what is then
    too much, the last one first.
    """
    stages = pipeline * chunks
    middle = -(-layers // stages)
    less = middle * stages - layers
    return middle - less // 2, middle, middle - (less + 1) // 2


def devices(plan: Mapping[str, Any]) -> int:
    """Return the devices that a plan uses."""
    return plan["tensor"] * plan["context"] * plan["pipeline"] * plan["data"]


def replicas(plan: Mapping[str, Any]) -> int:
    """Return the ranks over which ZeRO may shard."""
    return plan["data"] * plan["context"]


def node_devices(plan: Mapping[str, Any]) -> int:
    """Return how many processes a node starts, so that all nodes start as many."""
    return gcd(devices(plan), _NODE)


def sharded_ranks(plan: Mapping[str, Any]) -> int:
    """Return over how many ranks ZeRO shards."""
    return plan["zero_group"] or replicas(plan)


def title(estimate: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """Return one line that says what is written and what was predicted for it."""
    step = estimate.get("step_time_s")
    predicted = f", {step:.4g} s a step predicted" if step else ""
    return f"{model.get('name', 'model')} on {devices(estimate['plan'])} devices{predicted}"
