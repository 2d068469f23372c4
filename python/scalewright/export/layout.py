"""How do layers and devices lie under a plan?"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_NODE = 8
"""Devices of a usual node, where nobody says; the written files let the user change it."""


def layer_split(
    layers: int, pipeline: int, chunks: int, ends: tuple[int, int] = (0, 0)
) -> tuple[int, int, int]:
    """Return the layers of the first, of every middle and of the last virtual stage.

    The rule of the engine: ends that are given (above 0) hold so many, the others share the rest.
    Without any, all get `ceil(layers / stages)`, and the two ends share what is then too much, the
    last one first.
    """
    stages = pipeline * chunks
    if any(ends):
        others = stages - sum(end > 0 for end in ends)
        middle = (layers - sum(ends)) // others if others else max(ends)
        return ends[0] or middle, middle, ends[1] or middle
    middle = -(-layers // stages)
    less = middle * stages - layers
    return middle - less // 2, middle, middle - (less + 1) // 2


def plan_split(plan: Mapping[str, Any], layers: int) -> tuple[int, int, int]:
    """Return how a plan deals layers: those of the first, of every middle and of the last stage."""
    ends = plan["first_layers"], plan["last_layers"]
    return layer_split(layers, plan["pipeline"], plan["interleave"], ends)


def partly_recomputed(plan: Mapping[str, Any], layers: int) -> int:
    """Return how many leading layers of a virtual stage alone follow `recompute`; 0: all layers."""
    leading = plan["recompute_layers"]
    whole = leading >= max(plan_split(plan, layers)) or plan["recompute_rest"] == plan["recompute"]
    return 0 if whole else leading


def unlike_recomputation(
    plan: Mapping[str, Any], layers: int, one: str
) -> list[tuple[bool, str, object, str]]:
    """Return the rules of a framework with one policy for all layers that recompute.

    Args:
        plan: The fields of the plan.
        layers: The layers of the model.
        one: Why the framework knows but one policy, as the end of a sentence.
    """
    part, rest, experts = (
        partly_recomputed(plan, layers),
        plan["recompute_rest"],
        plan["recompute_experts"],
    )
    own = plan["recompute"]
    return [
        (part > 0 and rest != "none", "plan.recompute_rest", rest, f"none, since {one}"),
        (experts not in ("same", own), "plan.recompute_experts", experts, f"same, since {one}"),
    ]


def wide_axes(plan: Mapping[str, Any], order: str) -> list[str]:
    """Return the axes of an order that have several ranks: the others may stand anywhere."""
    return [axis for axis in order.split("-") if plan[axis] > 1]


def devices(plan: Mapping[str, Any]) -> int:
    """Return the devices that a plan uses."""
    return plan["tensor"] * plan["context"] * plan["pipeline"] * plan["data"]


def replicas(plan: Mapping[str, Any]) -> int:
    """Return the ranks over which ZeRO may shard."""
    return plan["data"] * plan["context"]


def node_devices(estimate: Mapping[str, Any]) -> int:
    """Return how many processes a node starts, so that all nodes start as many."""
    return gcd(devices(estimate["plan"]), estimate.get("devices_per_node", _NODE))


def sharded_ranks(plan: Mapping[str, Any]) -> int:
    """Return over how many ranks ZeRO shards."""
    return plan["zero_group"] or replicas(plan)


def unsaid(model: Mapping[str, Any]) -> str:
    """Return one line that says what a run needs beside its shape and plan."""
    rotary = ", base of rotary positions" if model["position"] == "rotary" else ""
    return (
        "Yours to add: data, tokenizer, learning rate, length of the run, checkpoints, "
        f"epsilon of norms{rotary}."
    )


def title(estimate: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """Return one line that says what is written and what was predicted for it."""
    step = estimate.get("step_time_s")
    predicted = f", {step:.4g} s a step predicted" if step else ""
    return f"{model.get('name', 'model')} on {devices(estimate['plan'])} devices{predicted}"
