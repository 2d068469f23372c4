"""Which Megatron-LM arguments give a model its shape?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.export.megatron.layer_pattern import pattern_text, sparse_layers
from scalewright.export.refusal import refusal, refuse_any

if TYPE_CHECKING:
    from collections.abc import Mapping

Arguments = dict[str, object]
"""Value by argument; `True` for a switch."""

POSITIONS = {"learned": "learned_absolute", "rotary": "rope", "none": "none"}
ACTIVATIONS = {"gelu": None, "relu": "squared-relu", "relu2": "squared-relu", "swiglu": "swiglu"}
NORMS = {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}
VOCABULARY_BLOCK = 128
"""Megatron-LM pads the vocabulary to this many rows per tensor rank unless told otherwise."""

_NAME = "Megatron-LM"


def model_arguments(
    model: Mapping[str, Any], training: Mapping[str, Any], tensor: int
) -> Arguments:
    """Return the arguments.

    Raises:
        InvalidError: `pretrain_gpt.py` cannot build this shape.
    """
    _refuse_unknown_parts(model, training)
    arguments: Arguments = {
        "num-layers": model["layers"],
        "hidden-size": model["hidden"],
        "num-attention-heads": model["heads"],
    }
    if model["ffn"]:
        arguments["ffn-hidden-size"] = model["ffn"]
    positions = model.get("max_positions", 0) if model["position"] == "learned" else 0
    arguments |= {
        "seq-length": training["sequence"],
        "max-position-embeddings": positions or training["sequence"],
        "position-embedding-type": POSITIONS[model["position"]],
        "normalization": NORMS[model["norm"]],
    }
    if activation := ACTIVATIONS[model["activation"]]:
        arguments[activation] = True
    if not model.get("tied_embeddings", False):
        arguments["untie-embeddings-and-output-weights"] = True
    return (
        arguments
        | _biases(model)
        | _vocabulary(model, tensor)
        | _attention(model)
        | _window(model)
        | _experts(model)
    )


def _refuse_unknown_parts(model: Mapping[str, Any], training: Mapping[str, Any]) -> None:
    """Refuse what no argument can ask for."""
    family, position, activation = model["family"], model["position"], model["activation"]
    extra = sorted(set(_extra(model)) - {"attention_sinks"})
    rows, sequence = model.get("max_positions", 0), training["sequence"]
    rules = [
        (family != "decoder", "family", family, "decoder (pretrain_gpt.py)"),
        (position not in POSITIONS, "position", position, ", ".join(POSITIONS)),
        (activation not in ACTIVATIONS, "activation", activation, ", ".join(ACTIVATIONS)),
        (bool(extra), "extra_parameters", ", ".join(extra), "attention_sinks"),
        (bool(model.get("lora")), "lora", "adapters", "none (pretrain_gpt.py trains all weights)"),
        (bool(model.get("frozen_layers")), "frozen_layers", model.get("frozen_layers"), "0"),
        (bool(model.get("segments")), "segments", model.get("segments"), "0"),
        (
            bool(model.get("prediction_layers")),
            "prediction_layers",
            model.get("prediction_layers"),
            "0",
        ),
        (not model.get("final_norm", True), "final_norm", False, "true"),
        (
            position == "learned" and rows < sequence,
            "max_positions",
            rows,
            f"the {sequence} positions of a sequence, or more",
        ),
    ]
    absent = ("parallel_block", "post_norms", "embedding_norm", "output_gate")
    rules += [(bool(model.get(field)), field, True, "false") for field in absent]
    hybrid = ("layer_pattern", "state_space")
    rules += [(bool(model.get(f)), f, "a hybrid", "none (pretrain_gpt.py)") for f in hybrid]
    experts: Mapping[str, Any] = model.get("experts") or {}
    latent = experts.get("latent_width")
    rules.append((latent is not None, "experts.latent_width", latent, "none (pretrain_gpt.py)"))
    refuse_any(_NAME, [(broken, f"model.{f}", got, ok) for broken, f, got, ok in rules])


def _extra(model: Mapping[str, Any]) -> dict[str, int]:
    return model.get("extra_parameters") or {}


def _biases(model: Mapping[str, Any]) -> Arguments:
    fields = ("qkv_bias", "output_bias", "ffn_bias")
    found = tuple(bool(model.get(field)) for field in fields)
    if found == (True, True, True):
        return {}
    if found == (False, False, False):
        return {"disable-bias-linear": True}
    if found == (True, False, False):
        return {"disable-bias-linear": True, "add-qkv-bias": True}
    shown = ", ".join(
        f"{name} {str(value).lower()}" for name, value in zip(fields, found, strict=True)
    )
    allowed = "all of them, none, or qkv_bias alone"
    raise refusal(_NAME, "model biases", shown, allowed)


def padded(vocab: int, block: int, tensor: int) -> int:
    """Return the rows of the embedding table after padding to blocks on each tensor rank."""
    rows = block * tensor
    return -(-vocab // rows) * rows


def _vocabulary(model: Mapping[str, Any], tensor: int) -> Arguments:
    """Ask for the padding that gives the priced table; the usual one where none can."""
    vocab = model["vocab"]
    wanted = model.get("padded_vocab") or vocab
    blocks = [VOCABULARY_BLOCK >> shift for shift in range(8)] + [wanted // tensor]
    exact = [block for block in blocks if block and padded(vocab, block, tensor) == wanted]
    arguments: Arguments = {"vocab-size": vocab}
    if exact and exact[0] != VOCABULARY_BLOCK:
        arguments["make-vocab-size-divisible-by"] = exact[0]
    return arguments


def _attention(model: Mapping[str, Any]) -> Arguments:
    heads = model["heads"]
    groups = model.get("kv_heads") or heads
    arguments: Arguments = {}
    if groups != heads:
        arguments |= {"group-query-attention": True, "num-query-groups": groups}
    if (width := model.get("head_dim")) and width * heads != model["hidden"]:
        arguments["kv-channels"] = width
    if model.get("qk_norm"):
        arguments["qk-layernorm"] = True
    if _extra(model).get("attention_sinks"):
        arguments["softmax-type"] = "learnable"
    if latent := model.get("latent"):
        arguments["multi-latent-attention"] = True
        if latent.get("query_rank"):
            arguments["q-lora-rank"] = latent["query_rank"]
        arguments |= {
            "kv-lora-rank": latent["kv_rank"],
            "qk-head-dim": latent["nope_dim"],
            "qk-pos-emb-head-dim": latent["rope_dim"],
            "v-head-dim": latent["value_dim"],
            # without it Megatron-LM leaves the norms of both latents out
            "qk-layernorm": True,
        }
    return arguments


def _window(model: Mapping[str, Any]) -> Arguments:
    kinds: list[str] = model.get("attention_pattern") or []
    if "sliding" not in kinds:
        return {}
    # a window of W positions holds the query's own and W - 1 before it
    arguments: Arguments = {"window-size": f"{model['sliding_window'] - 1},0"}
    if "full" in kinds:
        slides = [int(kinds[i % len(kinds)] == "sliding") for i in range(model["layers"])]
        arguments["window-attn-skip-freq"] = pattern_text(slides)
    return arguments


def _experts(model: Mapping[str, Any]) -> Arguments:
    experts = model.get("experts")
    if not experts:
        return {}
    arguments: Arguments = {
        "num-experts": experts["experts"],
        "moe-router-topk": experts["top_k"],
        "moe-ffn-hidden-size": experts["expert_ffn"],
        "moe-token-dispatcher-type": "alltoall",
    }
    dense, every = experts.get("first_dense_layers", 0), experts.get("every", 1)
    if dense or every > 1:
        arguments["moe-layer-freq"] = pattern_text(sparse_layers(model["layers"], dense, every))
    if experts.get("shared_ffn"):
        arguments["moe-shared-expert-intermediate-size"] = experts["shared_ffn"]
    if experts.get("shared_gate"):
        arguments["moe-shared-expert-gate"] = True
    if experts.get("router_bias"):
        # Megatron-LM takes a trained bias with sigmoid scores only
        arguments["moe-router-enable-expert-bias"] = True
        arguments["moe-router-score-function"] = "sigmoid"
    if (capacity := experts.get("capacity_factor")) is not None:
        arguments["moe-expert-capacity-factor"] = capacity
    return arguments
