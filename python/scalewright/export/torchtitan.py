"""Which torchtitan job file runs a plan?

Sections and keys as in torchtitan's `job_config.py` (TOML job files, releases 0.1 and 0.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from scalewright.export.layout import (
    devices,
    partly_recomputed,
    plan_split,
    replicas,
    sharded_ranks,
    title,
    unlike_recomputation,
    wide_axes,
)
from scalewright.export.refusal import refuse_any

if TYPE_CHECKING:
    from collections.abc import Mapping

    Section = dict[str, object]

_SCHEDULES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "zb-v": "ZBVZeroBubble",
}
_PARAMETERS = {"fp32": "float32", "bf16": "bfloat16", "fp8": "bfloat16", "mxfp8": "bfloat16"}
_QUANTIZED = {"fp8": "quantize.linear.float8", "mxfp8": "quantize.linear.mx"}
_OPTIMIZERS = {"adam": "AdamW"}
_NAME = "torchtitan"
_ORDER = "tensor-context-data-pipeline"


def job_file(
    estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> str:
    """Return the job file.

    Raises:
        InvalidError: torchtitan has no setting for something that the plan needs.
    """
    plan = estimate["plan"]
    _refuse(plan, model, training)
    precision = training.get("precision", "bf16")
    quantized = _QUANTIZED.get(precision)
    sections: dict[str, Section] = {
        "training": _training(plan, training),
        "parallelism": _parallelism(plan, model),
        "activation_checkpoint": _checkpoint(plan),
        "optimizer": {"name": _OPTIMIZERS[training.get("optimizer", "adam")]},
    }
    if quantized:
        sections = {"model": {"converters": (quantized,)}, **sections}
        sections[quantized] = {"filter_fqns": ("output",)}
    if precision == "mxfp8":
        sections[_QUANTIZED["mxfp8"]]["recipe_name"] = "mxfp8_cublas"
    lines = [f"# {title(estimate, model)}", *[f"# {note}" for note in _notes(plan, model)]]
    for name, values in sections.items():
        lines += ["", f"[{name}]", *[f"{key} = {_toml(value)}" for key, value in values.items()]]
    return "\n".join(lines) + "\n"


def _refuse(plan: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]) -> None:
    zero, wide = plan["zero"], devices(plan) > plan["data"]
    group, context = sharded_ranks(plan), plan["context"]
    expert_room = group * (plan["tensor"] if plan["expert_tensor"] == 1 else 1)
    gradient, optimizer = training.get("gradient", "fp32"), training.get("optimizer", "adam")
    state = training.get("state", "fp32")
    precision = training.get("precision", "bf16")
    replicated = zero == 0 and replicas(plan) > 1
    first, middle, last = plan_split(plan, model["layers"])
    more = plan["pipeline"] > 1 and max(first, last) > middle
    rules = [
        (
            wide_axes(plan, plan["axis_order"]) != wide_axes(plan, _ORDER),
            "plan.axis_order",
            plan["axis_order"],
            f"{_ORDER}, which is torchtitan's own",
        ),
        (
            more,
            "plan.first_layers" if first > middle else "plan.last_layers",
            max(first, last),
            f"up to {middle}, since ends may hold fewer layers than other stages but not more",
        ),
        (model["family"] != "decoder", "model.family", model["family"], "decoder"),
        *(
            (bool(model.get(field)), f"model.{field}", "a hybrid", "none: it has no such layers")
            for field in ("layer_pattern", "state_space")
        ),
        (bool(model.get("output_gate")), "model.output_gate", True, "false"),
        (bool(training.get("forward_only")), "training.forward_only", True, "false"),
        (state != "fp32", "training.state", state, "fp32"),
        (precision not in _PARAMETERS, "training.precision", precision, ", ".join(_PARAMETERS)),
        (gradient != "fp32", "training.gradient", gradient, "fp32"),
        (optimizer not in _OPTIMIZERS, "training.optimizer", optimizer, ", ".join(_OPTIMIZERS)),
        (
            plan["tensor"] > 1 and not plan["sequence_parallel"],
            "plan.sequence_parallel",
            False,
            "true, since tensor ranks always split the norms",
        ),
        (
            plan["pipeline"] > 1 and plan["schedule"] not in _SCHEDULES,
            "plan.schedule",
            plan["schedule"],
            ", ".join(_SCHEDULES),
        ),
        (
            replicated and wide,
            "plan.zero",
            0,
            "1, 2, 3, since replicas without sharding go with no other axis",
        ),
        (
            zero > 0 and group % context != 0,
            "plan.zero_group",
            plan["zero_group"],
            f"a multiple of context = {context}, whose ranks always shard",
        ),
        (
            plan["expert"] > 1 and (replicated or expert_room % plan["expert"] != 0),
            "plan.expert",
            plan["expert"],
            f"a divisor of the {expert_room} ranks that shard",
        ),
    ]
    refuse_any(_NAME, [*rules, *_recomputation_rules(plan, model["layers"])])


def _recomputation_rules(
    plan: Mapping[str, Any], layers: int
) -> list[tuple[bool, str, object, str]]:
    part = plan["recompute"] != "none" and partly_recomputed(plan, layers) > 0
    one = "torchtitan's activation checkpointing has one mode for all layers"
    return [
        *unlike_recomputation(plan, layers, one),
        (part, "plan.recompute_layers", plan["recompute_layers"], f"0, since {one}"),
    ]


def _training(plan: Mapping[str, Any], training: Mapping[str, Any]) -> Section:
    # with stages, one pass of the schedule takes the whole local batch
    staged = plan["pipeline"] > 1
    per_replica = training["global_batch"] // plan["data"]
    return {
        "local_batch_size": per_replica if staged else plan["micro_batch"],
        "global_batch_size": training["global_batch"],
        "seq_len": training["sequence"],
        "mixed_precision_param": _PARAMETERS[training.get("precision", "bf16")],
        "mixed_precision_reduce": "float32",
    }


def _parallelism(plan: Mapping[str, Any], model: Mapping[str, Any]) -> Section:
    sharded = sharded_ranks(plan) // plan["context"] if plan["zero"] else 1
    values: Section = {
        "data_parallel_replicate_degree": plan["data"] // sharded,
        "data_parallel_shard_degree": sharded,
        "fsdp_reshard_after_forward": "always" if plan["zero"] == 3 else "never",
        "tensor_parallel_degree": plan["tensor"],
        "context_parallel_degree": plan["context"],
        "pipeline_parallel_degree": plan["pipeline"],
    }
    if model.get("experts"):
        values["expert_parallel_degree"] = plan["expert"]
        if plan["expert"] > 1:
            values["expert_tensor_parallel_degree"] = plan["expert_tensor"] or plan["tensor"]
    if plan["pipeline"] > 1:
        first, middle, last = plan_split(plan, model["layers"])
        values |= {
            "pipeline_parallel_schedule": _SCHEDULES[plan["schedule"]],
            "pipeline_parallel_microbatch_size": plan["micro_batch"],
            "pipeline_parallel_layers_per_stage": middle,
            "pipeline_parallel_first_stage_less_layers": middle - first,
            "pipeline_parallel_last_stage_less_layers": middle - last,
        }
    return values


def _checkpoint(plan: Mapping[str, Any]) -> Section:
    if plan["recompute"] == "selective":
        return {"mode": "selective", "selective_ac_option": "op"}
    return {"mode": plan["recompute"]}


def _notes(plan: Mapping[str, Any], model: Mapping[str, Any]) -> list[str]:
    """Return what the reader should know: what is left to do and what differs from the plan."""
    shape = f"{model['layers']} layers of width {model['hidden']}"
    notes = [f"Yours to add: data, learning rate, steps, [model] name and flavor with {shape}."]
    if plan["zero"] == 0 and plan["data"] > 1:
        notes.append("zero = 0: weights, gradients and optimizer state are replicated (DDP).")
    if plan["zero"] in (1, 2):
        notes += [
            f"zero = {plan['zero']}: torchtitan has FSDP only. Weights that stay gathered after",
            "the forward pass come nearest to ZeRO-2; between steps they are sharded as well.",
        ]
    if plan["recompute"] == "selective":
        notes += [
            "recompute = selective: torchtitan chooses by operator what it computes again,",
            "more than the attention core that was priced.",
        ]
    return notes


def _toml(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in cast("tuple[object, ...]", value)) + "]"
    return str(value)
