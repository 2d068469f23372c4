"""Which Megatron-LM arguments run a plan?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.export.layout import (
    partly_recomputed,
    plan_split,
    replicas,
    sharded_ranks,
    unlike_recomputation,
    wide_axes,
)
from scalewright.export.refusal import refuse_any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.export.megatron.model_arguments import Arguments

STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}
"""Sharding strategy of Megatron-FSDP by ZeRO stage."""

ORDERS = {
    "tensor-context-data-pipeline": None,
    "tensor-pipeline-context-data": "use-tp-pp-dp-mapping",
}
"""Switch that asks for an order of axes; with it context ranks lie inside of stages."""

_NAME = "Megatron-LM"


def plan_arguments(
    plan: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> Arguments:
    """Return the arguments.

    Raises:
        InvalidError: Megatron-LM has no argument for a choice of the plan.
    """
    _refuse_unknown_choices(plan, model, training)
    arguments: Arguments = {
        "tensor-model-parallel-size": plan["tensor"],
        "pipeline-model-parallel-size": plan["pipeline"],
        "context-parallel-size": plan["context"],
    }
    if model.get("experts"):
        arguments["expert-model-parallel-size"] = plan["expert"]
        arguments["expert-tensor-parallel-size"] = plan["expert_tensor"] or plan["tensor"]
    if plan["sequence_parallel"]:
        arguments["sequence-parallel"] = True
    switch = _order_switch(plan)
    if switch:
        arguments[switch] = True
    arguments |= _stages(plan, model["layers"]) | _sharding(plan)
    return arguments | _recomputation(plan, model["layers"])


def _recomputation(plan: Mapping[str, Any], layers: int) -> Arguments:
    if plan["recompute"] == "none":
        return {}
    arguments: Arguments = {"recompute-granularity": plan["recompute"]}
    if plan["recompute"] == "full":
        leading = partly_recomputed(plan, layers)
        # `block` counts from the front of each virtual stage, as a plan does
        arguments["recompute-method"] = "block" if leading else "uniform"
        arguments["recompute-num-layers"] = leading or 1
    return arguments


def _refuse_unknown_choices(
    plan: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> None:
    pipeline, zero, context = plan["pipeline"], plan["zero"], plan["context"]
    interleaved = plan["interleave"] > 1
    split = plan_split(plan, model["layers"])
    dealt = plan_split({**plan, "first_layers": 0, "last_layers": 0}, model["layers"])
    expert_ranks = plan["expert"] * (plan["expert_tensor"] or plan["tensor"])
    mapped = _order_switch(plan)
    fp16_experts = training.get("precision") == "fp16" and plan["expert"] > 1
    rules = [
        (
            plan["schedule"] not in {"1f1b", "interleaved"} and pipeline > 1,
            "schedule",
            plan["schedule"],
            "1f1b, interleaved, since Megatron-LM has no other schedule",
        ),
        (
            interleaved and pipeline == 2 and not plan["overlap_pipeline"],
            "overlap_pipeline",
            False,
            "true, since interleaving over 2 stages always overlaps its sends",
        ),
        (
            interleaved and split != dealt,
            "first_layers" if plan["first_layers"] else "last_layers",
            plan["first_layers"] or plan["last_layers"],
            "0 with chunks, since Megatron-LM counts layers of the ends by rank",
        ),
        (
            mapped == "",
            "axis_order",
            plan["axis_order"],
            ", ".join(ORDERS) + " (with one context rank)",
        ),
        (
            bool(mapped) and bool(model.get("experts")) and expert_ranks != plan["tensor"],
            "axis_order",
            plan["axis_order"],
            "an order with pipeline last, unless expert x expert_tensor is tensor",
        ),
        (
            zero > 1 and pipeline > 1,
            "zero",
            zero,
            "0, 1, since Megatron-FSDP is documented for one pipeline stage",
        ),
        (
            zero > 0 and plan["overlap_param_gather"] and not plan["overlap_grad_reduce"],
            "overlap_grad_reduce",
            False,
            "true with overlap_param_gather",
        ),
        (
            plan["tensor"] > 1 and not plan["overlap_tensor"],
            "overlap_tensor",
            False,
            "true, since it cannot be switched off",
        ),
        (
            context > 1 and training["sequence"] % (2 * context) != 0,
            "context",
            context,
            f"a divisor of half the sequence, {training['sequence']} / 2",
        ),
        (
            fp16_experts,
            "expert",
            plan["expert"],
            "1 with fp16",
        ),
        (
            not model.get("experts") and plan["expert"] > 1,
            "expert",
            plan["expert"],
            "1 for a model without experts",
        ),
    ]
    refuse_any(_NAME, [(broken, f"plan.{f}", got, ok) for broken, f, got, ok in rules])
    refuse_any(_NAME, _recomputation_rules(plan, model["layers"]))


def _recomputation_rules(
    plan: Mapping[str, Any], layers: int
) -> list[tuple[bool, str, object, str]]:
    part = plan["recompute"] == "selective" and partly_recomputed(plan, layers) > 0
    why = "0 with selective, since Megatron-LM counts the layers of full recomputation alone"
    one = "Megatron-LM has one granularity of recomputation"
    return [
        *unlike_recomputation(plan, layers, one),
        (part, "plan.recompute_layers", plan["recompute_layers"], why),
    ]


def _order_switch(plan: Mapping[str, Any]) -> str | None:
    """Return the switch for the order of axes: None where it needs none, "" where none exists."""
    wide = wide_axes(plan, plan["axis_order"])
    for order, switch in ORDERS.items():
        if wide == wide_axes(plan, order) and not (switch and plan["context"] > 1):
            return switch
    return ""


def _stages(plan: Mapping[str, Any], layers: int) -> Arguments:
    if plan["pipeline"] == 1:
        return {}
    first, middle, last = plan_split(plan, layers)
    arguments: Arguments = {}
    if plan["interleave"] > 1:
        arguments["num-layers-per-virtual-pipeline-stage"] = middle
        # an end that is counted as one layer more holds one layer less
        if first < middle:
            arguments["account-for-embedding-in-pipeline-split"] = True
        if last < middle:
            arguments["account-for-loss-in-pipeline-split"] = True
        if not plan["overlap_pipeline"]:
            arguments["no-overlap-p2p-communication"] = True
    elif (first, last) != (middle, middle):
        arguments["decoder-first-pipeline-num-layers"] = first
        arguments["decoder-last-pipeline-num-layers"] = last
    return arguments


def _sharding(plan: Mapping[str, Any]) -> Arguments:
    arguments: Arguments = {}
    zero = plan["zero"]
    if zero:
        arguments["use-distributed-optimizer"] = True
    if plan["overlap_grad_reduce"]:
        arguments["overlap-grad-reduce"] = True
    if zero and plan["overlap_param_gather"]:
        arguments["overlap-param-gather"] = True
    if zero and sharded_ranks(plan) != replicas(plan):
        copies = replicas(plan) // sharded_ranks(plan)
        arguments["num-distributed-optimizer-instances"] = copies
    if zero in STRATEGIES:
        arguments |= {
            "use-megatron-fsdp": True,
            "data-parallel-sharding-strategy": STRATEGIES[zero],
            "ckpt-format": "fsdp_dtensor",
        }
    return arguments
