"""Which torchtitan job file runs a plan? Sections as in torchtitan's job_config.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.export.refusing import per_replica, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B"}


def settings(
    estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> str:
    """Return a torchtitan TOML file with the plan.

    Raises:
        InvalidError: torchtitan has no setting for a choice of the plan.
    """
    plan = estimate["plan"]
    if training.get("forward_only"):
        refuse("torchtitan", "training.forward_only", "true", "training")
    if plan["tensor"] > 1 and not plan["sequence_parallel"]:
        allowed = "true: torchtitan's tensor parallelism always splits the sequence"
        refuse("torchtitan", "sequence_parallel", "false", allowed)
    sections = {
        "training": _training(plan, training),
        "parallelism": _parallelism(plan),
        "activation_checkpoint": {"mode": plan["recompute"]}
        | ({"selective_ac_option": "op"} if plan["recompute"] == "selective" else {}),
    }
    if training.get("precision") in ("fp8", "mxfp8"):
        kind = "float8" if training["precision"] == "fp8" else "mx"
        sections[f"quantize.linear.{kind}"] = {"filter_fqns": ["output"]}
    ranks = plan["tensor"] * plan["pipeline"] * per_replica(plan)
    lines = [
        f"# {model['name']}: {ranks} GPUs, {estimate['step_time_s']:.4g} s a step predicted.",
        "# Choose [model] name and flavor with this shape; data and optimizer are yours to add.",
        *_notes(plan),
    ]
    for section, values in sections.items():
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {_toml(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _notes(plan: Mapping[str, Any]) -> list[str]:
    if plan["zero"] in (1, 2):
        return [
            f"# torchtitan has no ZeRO-{plan['zero']} alone: FSDP that keeps weights after the",
            "# forward pass is the nearest; it shards weights between steps too.",
        ]
    return []


def _training(plan: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, object]:
    values: dict[str, object] = {
        "global_batch_size": training["global_batch"],
        "local_batch_size": plan["micro_batch"],
        "seq_len": training["sequence"],
    }
    if plan["pipeline"] > 1:
        # with a pipeline the local batch is what one pass of the schedule takes
        values["local_batch_size"] = training["global_batch"] // plan["data"]
    fp32 = training.get("precision") == "fp32"
    values["mixed_precision_param"] = "float32" if fp32 else "bfloat16"
    values["mixed_precision_reduce"] = "float32"
    return values


def _parallelism(plan: Mapping[str, Any]) -> dict[str, object]:
    sharded = plan["zero"] > 0
    shard = (plan["zero_group"] or per_replica(plan)) // plan["context"] if sharded else 1
    if sharded and shard * plan["context"] * plan["data"] // shard != per_replica(plan):
        refuse("torchtitan", "zero_group", plan["zero_group"], "a multiple of context")
    values: dict[str, object] = {
        "data_parallel_replicate_degree": plan["data"] // max(shard, 1),
        "data_parallel_shard_degree": max(shard, 1),
        "tensor_parallel_degree": plan["tensor"],
        "context_parallel_degree": plan["context"],
        "pipeline_parallel_degree": plan["pipeline"],
        "expert_parallel_degree": plan["expert"],
    }
    if sharded:
        after = {1: "never", 2: "never", 3: "always"}[plan["zero"]]
        values["fsdp_reshard_after_forward"] = after
    if plan["expert"] > 1:
        values["expert_tensor_parallel_degree"] = plan["expert_tensor"] or plan["tensor"]
    if plan["pipeline"] > 1:
        values["pipeline_parallel_schedule"] = _SCHEDULES[plan["schedule"]]
        values["pipeline_parallel_microbatch_size"] = plan["micro_batch"]
    return values


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(f'"{v}"' for v in value) + "]"  # pyright: ignore[reportUnknownVariableType]
    return f'"{value}"' if isinstance(value, str) else str(value)
