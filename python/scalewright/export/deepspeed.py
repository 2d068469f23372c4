"""Which DeepSpeed configuration, with which Megatron-DeepSpeed arguments, runs a plan?

Keys as in DeepSpeed's configuration reference. The answer is that JSON object below lines that
start with `#` and hold the launch arguments, since JSON holds no comments: drop those lines
(`grep -v '^#'`) before DeepSpeed reads the file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scalewright.export.layout import (
    devices,
    node_devices,
    partly_recomputed,
    replicas,
    sharded_ranks,
    title,
    unlike_recomputation,
    unsaid,
    wide_axes,
)
from scalewright.export.refusal import refuse_any

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRECISIONS = ("fp32", "fp16", "bf16")
_POSITIONS = ("learned", "rotary")
_ACTIVATIONS = ("gelu", "swiglu")
_NAME = "DeepSpeed"
_ORDER = "tensor-context-data-pipeline"


def configuration(
    estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> str:
    """Return the launch arguments as comment lines, and the JSON object below.

    Raises:
        InvalidError: DeepSpeed has no setting for something that plan or model need.
    """
    plan = estimate["plan"]
    _refuse(plan, model, training)
    step = plan["data"] * plan["micro_batch"]
    values: dict[str, object] = {
        "train_batch_size": training["global_batch"],
        "train_micro_batch_size_per_gpu": plan["micro_batch"],
        "gradient_accumulation_steps": training["global_batch"] // step,
        "zero_optimization": _zero(plan),
        "data_types": {"grad_accum_dtype": training.get("gradient", "fp32")},
    }
    precision = training.get("precision", "bf16")
    if precision != "fp32":
        values[precision] = {"enabled": True}
    if plan["recompute"] == "full":
        values["activation_checkpointing"] = {
            "partition_activations": False,
            "cpu_checkpointing": False,
        }
    head = [title(estimate, model), *_launch(estimate, model, training)]
    return "\n".join([*[f"# {line}" for line in head], json.dumps(values, indent=2)]) + "\n"


def _refuse(plan: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]) -> None:
    pipeline, zero = plan["pipeline"], plan["zero"]
    precision, optimizer = training.get("precision", "bf16"), training.get("optimizer", "adam")
    state = training.get("state", "fp32")
    position, activation = model["position"], model["activation"]
    unlike = ("experts", "latent", "lora", "layer_pattern", "state_space", "output_gate")
    special = [name for name in unlike if model.get(name)]
    windows = "sliding" in (model.get("attention_pattern") or [])
    special += ["attention_pattern"] if windows else []
    partial = zero > 0 and sharded_ranks(plan) != replicas(plan)
    rules = [
        (
            wide_axes(plan, plan["axis_order"]) != wide_axes(plan, _ORDER),
            "plan.axis_order",
            plan["axis_order"],
            f"{_ORDER}, which is DeepSpeed's own",
        ),
        *(
            (plan[end] != 0, f"plan.{end}", plan[end], "0, since DeepSpeed deals layers itself")
            for end in ("first_layers", "last_layers")
        ),
        (model["family"] != "decoder", "model.family", model["family"], "decoder"),
        (bool(special), "model", ", ".join(special), "dense layers of plain, full attention"),
        (position not in _POSITIONS, "model.position", position, ", ".join(_POSITIONS)),
        (activation not in _ACTIVATIONS, "model.activation", activation, ", ".join(_ACTIVATIONS)),
        (bool(training.get("forward_only")), "training.forward_only", True, "false"),
        (state != "fp32", "training.state", state, "fp32"),
        (precision not in _PRECISIONS, "training.precision", precision, ", ".join(_PRECISIONS)),
        (optimizer not in ("adam", "sgd"), "training.optimizer", optimizer, "adam, sgd"),
        (
            pipeline > 1 and plan["schedule"] != "1f1b",
            "plan.schedule",
            plan["schedule"],
            "1f1b",
        ),
        (
            pipeline > 1 and zero > 1,
            "plan.zero",
            zero,
            "0, 1 with pipeline stages",
        ),
        (
            partial and zero != 3,
            "plan.zero_group",
            plan["zero_group"],
            "0, or zero = 3, since MiCS shards weights too",
        ),
        (
            plan["context"] > 1 and pipeline > 1,
            "plan.context",
            plan["context"],
            "1 with pipeline stages",
        ),
        (
            plan["context"] > 1 and model["heads"] % (plan["context"] * plan["tensor"]) != 0,
            "plan.context",
            plan["context"],
            "a divisor of the heads of a tensor rank, since Ulysses splits heads",
        ),
    ]
    refuse_any(_NAME, [*rules, *_recomputation_rules(plan, model["layers"])])


def _recomputation_rules(
    plan: Mapping[str, Any], layers: int
) -> list[tuple[bool, str, object, str]]:
    part = plan["recompute"] != "none" and partly_recomputed(plan, layers) > 0
    one = "Megatron-DeepSpeed checkpoints all layers alike"
    return [
        *unlike_recomputation(plan, layers, one),
        (part, "plan.recompute_layers", plan["recompute_layers"], f"0, since {one}"),
    ]


def _zero(plan: Mapping[str, Any]) -> dict[str, object]:
    values: dict[str, object] = {
        "stage": plan["zero"],
        "overlap_comm": plan["overlap_grad_reduce"],
    }
    if plan["zero"] == 3:
        if not plan["overlap_param_gather"]:
            values["stage3_prefetch_bucket_size"] = 0
        if sharded_ranks(plan) != replicas(plan):
            # shards all states within groups that replicate one another; hpZ
            # (zero_hpz_partition_size) would keep gradients and optimizer state over all ranks
            values["mics_shard_size"] = sharded_ranks(plan)
    return values


def _launch(
    estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> list[str]:
    """Return the arguments of Megatron-DeepSpeed's `pretrain_gpt.py`, a few to a line."""
    plan, each = estimate["plan"], node_devices(estimate)
    sizes: dict[str, object] = {
        "num-layers": model["layers"],
        "hidden-size": model["hidden"],
        "ffn-hidden-size": model["ffn"],
        "num-attention-heads": model["heads"],
        "num-key-value-heads": model.get("kv_heads") or model["heads"],
        "seq-length": training["sequence"],
        "max-position-embeddings": max(model.get("max_positions", 0), training["sequence"]),
        "micro-batch-size": plan["micro_batch"],
        "global-batch-size": training["global_batch"],
        "tensor-model-parallel-size": plan["tensor"],
        "pipeline-model-parallel-size": plan["pipeline"],
        "zero-stage": plan["zero"],
    }
    words = [f"--{name} {value}" for name, value in sizes.items()]
    words += [f"--{name}" for name in _switches(plan, model, training)]
    rows = [" ".join(words[start : start + 4]) for start in range(0, len(words), 4)]
    launcher = f"deepspeed --num_nodes {devices(plan) // each} --num_gpus {each} pretrain_gpt.py"
    notes = [unsaid(model)]
    if plan["context"] > 1:
        notes.append("context: DeepSpeed exchanges heads (Ulysses); keys and values were priced.")
    lines = [launcher, "--deepspeed --deepspeed_config FILE", *rows]
    return [*notes, *[f"{line} \\" for line in lines[:-1]], lines[-1]]


def _switches(
    plan: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> list[str]:
    wanted = {
        "no-pipeline-parallel": plan["pipeline"] == 1,
        "sequence-parallel": plan["sequence_parallel"],
        f"ds-sequence-parallel-size {plan['context']}": plan["context"] > 1,
        "recompute-granularity selective": plan["recompute"] == "selective",
        "checkpoint-activations": plan["recompute"] == "full",
        "deepspeed-activation-checkpointing": plan["recompute"] == "full",
        training.get("precision", "bf16"): training.get("precision", "bf16") != "fp32",
        "swiglu": model["activation"] == "swiglu",
        "normalization rmsnorm": model["norm"] == "rmsnorm",
        "use-rotary-position-embeddings": model["position"] == "rotary",
        "untie-embeddings-and-output-weights": not model.get("tied_embeddings", False),
        "disable-bias-linear": not model.get("ffn_bias", False),
        "use-flash-attn-v2": training.get("flash_attention", True),
    }
    return [name for name, given in wanted.items() if given]
