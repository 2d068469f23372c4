"""Which Megatron-LM arguments run a plan? Names as in megatron/training/arguments.py."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

from scalewright.export.refusing import layer_counts, per_replica, refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

Arguments = dict[str, str | None]
"""Values by argument; `None` for a switch."""

_POSITIONS = {"learned": "learned_absolute", "rotary": "rope", "none": "none"}
_ROUTING = "alltoall"
_GPUS_PER_NODE = 8


def settings(
    estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> str:
    """Return a shell snippet that starts `pretrain_gpt.py` with the plan.

    Raises:
        InvalidError: Megatron-LM has no argument for a choice of the plan or the model.
    """
    plan = estimate["plan"]
    devices = plan["tensor"] * plan["pipeline"] * plan["context"] * plan["data"]
    gpus = gcd(devices, _GPUS_PER_NODE)
    groups = {
        "MODEL_ARGS": _model(model, training),
        "PARALLEL_ARGS": _parallel(plan, model),
        "TRAINING_ARGS": _training(plan, training),
    }
    lines = [
        "#!/bin/bash",
        f"# {model['name']}: {devices} GPUs, {estimate['step_time_s']:.4g} s a step predicted",
        "# Data, tokenizer, learning rate and checkpoint arguments are yours to add.",
        f"GPUS_PER_NODE={gpus}",
        f"NNODES={devices // gpus}",
    ]
    for group, arguments in groups.items():
        lines.append(f"{group}=(")
        lines += [f"    --{name}" + (f" {v}" if v else "") for name, v in arguments.items()]
        lines.append(")")
    lines.append(
        'torchrun --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" pretrain_gpt.py \\\n    '
        + " ".join(f'"${{{group}[@]}}"' for group in groups)
    )
    return "\n".join(lines) + "\n"


def _model(model: Mapping[str, Any], training: Mapping[str, Any]) -> Arguments:
    if model["family"] != "decoder":
        refuse("megatron", "model.family", model["family"], "decoder (pretrain_gpt.py)")
    if model["position"] not in _POSITIONS:
        allowed = ", ".join(_POSITIONS)
        refuse("megatron", "model.position", model["position"], allowed)
    heads, hidden = model["heads"], model["hidden"]
    arguments: Arguments = {
        "num-layers": str(model["layers"]),
        "hidden-size": str(hidden),
        "num-attention-heads": str(heads),
        "ffn-hidden-size": str(model["ffn"]),
        "seq-length": str(training["sequence"]),
        "max-position-embeddings": str(max(model.get("max_positions", 0), training["sequence"])),
        "position-embedding-type": _POSITIONS[model["position"]],
        "vocab-size": str(model["vocab"]),
        "normalization": "RMSNorm" if model["norm"] == "rmsnorm" else "LayerNorm",
    }
    if (groups := model.get("kv_heads") or heads) != heads:
        arguments |= {"group-query-attention": None, "num-query-groups": str(groups)}
    if (width := model.get("head_dim")) and width * heads != hidden:
        arguments["kv-channels"] = str(width)
    return arguments | _switches(model) | _latent(model) | _experts(model)


def _switches(model: Mapping[str, Any]) -> Arguments:
    arguments: Arguments = {}
    if model["activation"] == "swiglu":
        arguments["swiglu"] = None
    elif model["activation"] == "relu":
        arguments["squared-relu"] = None
    if not model.get("tied_embeddings"):
        arguments["untie-embeddings-and-output-weights"] = None
    if not model.get("ffn_bias"):
        arguments["disable-bias-linear"] = None
        if model.get("qkv_bias"):
            arguments["add-qkv-bias"] = None
    if model.get("qk_norm"):
        arguments["qk-layernorm"] = None
    return arguments


def _latent(model: Mapping[str, Any]) -> Arguments:
    if not (latent := model.get("latent")):
        return {}
    arguments: Arguments = {
        "multi-latent-attention": None,
        "kv-lora-rank": str(latent["kv_rank"]),
        "qk-head-dim": str(latent["nope_dim"]),
        "qk-pos-emb-head-dim": str(latent["rope_dim"]),
        "v-head-dim": str(latent["value_dim"]),
    }
    if latent.get("query_rank"):
        arguments["q-lora-rank"] = str(latent["query_rank"])
    return arguments


def _experts(model: Mapping[str, Any]) -> Arguments:
    if not (experts := model.get("experts")):
        return {}
    arguments: Arguments = {
        "num-experts": str(experts["experts"]),
        "moe-router-topk": str(experts["top_k"]),
        "moe-ffn-hidden-size": str(experts["expert_ffn"]),
        "moe-token-dispatcher-type": _ROUTING,
        "moe-grouped-gemm": None,
    }
    if experts.get("shared_ffn"):
        arguments["moe-shared-expert-intermediate-size"] = str(experts["shared_ffn"])
    if experts.get("capacity_factor"):
        arguments["moe-expert-capacity-factor"] = str(experts["capacity_factor"])
    dense, every = experts.get("first_dense_layers", 0), experts.get("every", 1)
    if dense or every > 1:
        sparse = model["layers"] - dense
        pattern = [0] * dense + [int((i + 1) % every == 0) for i in range(sparse)]
        arguments["moe-layer-freq"] = f"'([{','.join(map(str, pattern))}])'"
    return arguments


def _parallel(plan: Mapping[str, Any], model: Mapping[str, Any]) -> Arguments:
    arguments: Arguments = {
        "tensor-model-parallel-size": str(plan["tensor"]),
        "pipeline-model-parallel-size": str(plan["pipeline"]),
        "context-parallel-size": str(plan["context"]),
    }
    if model.get("experts"):
        arguments["expert-model-parallel-size"] = str(plan["expert"])
        arguments["expert-tensor-parallel-size"] = str(plan["expert_tensor"] or plan["tensor"])
    if plan["sequence_parallel"]:
        arguments["sequence-parallel"] = None
    return arguments | _pipeline(plan, model["layers"]) | _sharding(plan)


def _pipeline(plan: Mapping[str, Any], layers: int) -> Arguments:
    if plan["schedule"] == "gpipe" and plan["pipeline"] > 1:
        refuse("megatron", "schedule", "gpipe", "1f1b or interleaved: it runs no GPipe")
    if plan["pipeline"] == 1:
        return {}
    first, middle, last = layer_counts(layers, plan["pipeline"], plan["interleave"])
    arguments: Arguments = {}
    if plan["interleave"] > 1:
        arguments["num-layers-per-virtual-pipeline-stage"] = str(middle)
        if last < middle:
            arguments["account-for-loss-in-pipeline-split"] = None
        if first < middle:
            arguments["account-for-embedding-in-pipeline-split"] = None
        if not plan["overlap_pipeline"]:
            arguments["no-overlap-p2p-communication"] = None
    elif (first, last) != (middle, middle):
        arguments["decoder-first-pipeline-num-layers"] = str(first)
        arguments["decoder-last-pipeline-num-layers"] = str(last)
    return arguments


def _sharding(plan: Mapping[str, Any]) -> Arguments:
    arguments: Arguments = {}
    if plan["overlap_grad_reduce"]:
        arguments["overlap-grad-reduce"] = None
    if plan["zero"] >= 1:
        arguments["use-distributed-optimizer"] = None
        if plan["overlap_param_gather"]:
            arguments["overlap-param-gather"] = None
    if plan["zero"] >= 2:
        strategy = {2: "optim_grads", 3: "optim_grads_params"}[plan["zero"]]
        arguments |= {"use-megatron-fsdp": None, "data-parallel-sharding-strategy": strategy}
    if group := plan["zero_group"]:
        copies, rest = divmod(per_replica(plan), group)
        if rest:
            refuse("megatron", "zero_group", group, "a divisor of context x data")
        arguments["num-distributed-optimizer-instances"] = str(copies)
    return arguments


def _training(plan: Mapping[str, Any], training: Mapping[str, Any]) -> Arguments:
    if training.get("forward_only"):
        refuse("megatron", "training.forward_only", "true", "training with a backward pass")
    arguments: Arguments = {
        "micro-batch-size": str(plan["micro_batch"]),
        "global-batch-size": str(training["global_batch"]),
    }
    precision = training.get("precision", "bf16")
    if precision in ("bf16", "fp8", "mxfp8"):
        arguments["bf16"] = None
    elif precision == "fp16":
        arguments["fp16"] = None
    if precision in ("fp8", "mxfp8"):
        arguments["fp8-format"] = "hybrid" if precision == "fp8" else "e4m3"
        arguments["fp8-recipe"] = "delayed" if precision == "fp8" else "mxfp8"
    if plan["recompute"] == "selective":
        arguments["recompute-granularity"] = "selective"
    elif plan["recompute"] == "full":
        arguments |= {
            "recompute-granularity": "full",
            "recompute-method": "uniform",
            "recompute-num-layers": "1",
        }
    optimizer = training.get("optimizer", "adam")
    if optimizer == "adafactor":
        refuse("megatron", "training.optimizer", optimizer, "adam or sgd")
    arguments["optimizer"] = optimizer
    if training.get("flash_attention", True):
        arguments["attention-backend"] = "flash"
    if not training.get("dropout"):
        arguments |= {"attention-dropout": "0.0", "hidden-dropout": "0.0"}
    return arguments
