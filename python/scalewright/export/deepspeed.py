"""Which DeepSpeed configuration, with which Megatron-DeepSpeed arguments, runs a plan?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scalewright.export.refusing import per_replica, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping


def settings(
    estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> str:
    """Return the JSON of `ds_config`, below launch arguments as lines that start with `//`.

    DeepSpeed strips such comment lines when it reads the file (it is HJSON).

    Raises:
        InvalidError: DeepSpeed has no setting for a choice of the plan.
    """
    plan = estimate["plan"]
    _check(plan, training)
    replicas = plan["data"]
    steps = training["global_batch"] // (replicas * plan["micro_batch"])
    config: dict[str, Any] = {
        "train_batch_size": training["global_batch"],
        "train_micro_batch_size_per_gpu": plan["micro_batch"],
        "gradient_accumulation_steps": steps,
        "zero_optimization": _zero(plan),
        "gradient_clipping": 1.0,
    }
    precision = training.get("precision", "bf16")
    if precision in ("bf16", "fp16"):
        config[precision] = {"enabled": True}
    if plan["recompute"] == "full":
        config["activation_checkpointing"] = {"partition_activations": False}
    head = [f"// {line}" for line in _launch(estimate, model, training)]
    return "\n".join([*head, json.dumps(config, indent=2)]) + "\n"


def _check(plan: Mapping[str, Any], training: Mapping[str, Any]) -> None:
    if training.get("forward_only"):
        refuse("deepspeed", "training.forward_only", "true", "training")
    if training.get("precision") in ("fp8", "mxfp8"):
        refuse("deepspeed", "training.precision", training["precision"], "fp32, fp16, bf16")
    if plan["schedule"] != "1f1b" and plan["pipeline"] > 1:
        refuse("deepspeed", "schedule", plan["schedule"], "1f1b")
    if plan["pipeline"] > 1 and plan["zero"] > 1:
        allowed = "0 or 1 with pipeline stages"
        refuse("deepspeed", "zero", plan["zero"], allowed)
    if plan["recompute"] == "selective":
        refuse("deepspeed", "recompute", "selective", "none or full")


def _zero(plan: Mapping[str, Any]) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": plan["zero"], "overlap_comm": plan["overlap_grad_reduce"]}
    if group := plan["zero_group"]:
        if plan["zero"] == 3:
            zero["zero_hpz_partition_size"] = group
        elif group != per_replica(plan):
            refuse("deepspeed", "zero_group", group, "0, or zero = 3 (hpZ)")
    return zero


def _launch(
    estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> list[str]:
    """Return the Megatron-DeepSpeed arguments that lie outside the configuration."""
    plan = estimate["plan"]
    ranks = plan["tensor"] * plan["pipeline"] * per_replica(plan)
    arguments = {
        "--num-layers": model["layers"],
        "--hidden-size": model["hidden"],
        "--num-attention-heads": model["heads"],
        "--seq-length": training["sequence"],
        "--tensor-model-parallel-size": plan["tensor"],
        "--pipeline-model-parallel-size": plan["pipeline"],
    }
    if plan["context"] > 1:
        arguments["--ds-sequence-parallel-size"] = plan["context"]
    if plan["expert"] > 1:
        arguments["--moe-expert-parallel-size"] = plan["expert"]
    flags = ["--checkpoint-activations"] if plan["recompute"] == "full" else []
    flags += ["--sequence-parallel"] if plan["sequence_parallel"] else []
    if plan["pipeline"] == 1:
        flags.append("--no-pipeline-parallel")
    return [
        f"{model['name']}: {ranks} GPUs, {estimate['step_time_s']:.4g} s a step predicted",
        "Megatron-DeepSpeed arguments: " + " ".join(f"{k} {v}" for k, v in arguments.items()),
        *([" ".join(flags)] if flags else []),
    ]
