"""What shape do mixtures of experts have, and which of their layers are sparse?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.config.huggingface.llama import llama, mistral, qwen2, qwen3
from scalewright.config.huggingface.widths import (
    GATED,
    MOST_LAYERS,
    Shape,
    attention_pattern,
    every_nth_full,
    key_value_heads,
    widths,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalewright.config.fields import Fields


def mixtral(fields: Fields) -> Shape:
    """Experts of the full inner width in every layer."""
    shape = mistral(fields)
    experts = _routed(fields, "num_local_experts", ("num_experts_per_tok",), "intermediate_size")
    return shape | {"experts": experts}


def qwen2_moe(fields: Fields) -> Shape:
    """Narrow experts beside a gated shared one."""
    return qwen2(fields) | {"experts": qwen_experts(fields, gated_shared(fields))}


def qwen3_moe(fields: Fields) -> Shape:
    """Narrow experts alone."""
    return qwen3(fields) | {"experts": qwen_experts(fields, {})}


def deepseek(fields: Fields) -> Shape:
    """Narrow and shared experts over plain attention (DeepSeekMoE)."""
    return llama(fields) | {"experts": _deepseek_experts(fields)}


def deepseek_v2(fields: Fields) -> Shape:
    """Multi-head latent attention."""
    return _latent(fields) | {"experts": _deepseek_experts(fields)}


def deepseek_v3(fields: Fields) -> Shape:
    """As V2, with a trained bias per expert."""
    methods = {"noaux_tc": True, "greedy": False, "group_limited_greedy": False}
    experts = _deepseek_experts(fields)
    if experts:
        experts["router_bias"] = fields.choice("topk_method", methods, default=True)
    return _latent(fields) | {"experts": _without_defaults(experts)}


def gpt_oss(fields: Fields) -> Shape:
    """Alternating windows, biases also in experts and router, a trained sink per head."""
    fields = fields.with_defaults({"head_dim": 64})
    shape = widths(fields)
    bias = fields.flag("attention_bias", default=True)
    names = ("num_experts_per_tok", "experts_per_token")
    experts = _routed(fields, "num_local_experts", names, "intermediate_size")
    pattern = attention_pattern(fields, every_nth_full(shape["layers"], 2), 128)
    return (
        shape
        | pattern
        | {
            "kv_heads": key_value_heads(fields, shape["heads"]),
            "ffn": fields.count("intermediate_size"),
            "position": "rotary",
            "activation": fields.choice("hidden_act", GATED, "swiglu"),
            "norm": "rmsnorm",
            "tied_embeddings": fields.flag("tie_word_embeddings", default=False),
            "qkv_bias": bias,
            "output_bias": bias,
            "ffn_bias": True,
            "experts": experts | {"router_bias": True},
            "extra_parameters": {"attention_sinks": shape["layers"] * shape["heads"]},
        }
    )


def _routed(fields: Fields, experts: str, top_k: Sequence[str], expert_ffn: str) -> Shape:
    count = fields.count(experts)
    chosen = fields.count(*top_k)
    if chosen > count:
        raise fields.wrong(top_k[0], f"at most the {count} of {experts}")
    return {"experts": count, "top_k": chosen, "expert_ffn": fields.count(expert_ffn)}


def gated_shared(fields: Fields) -> Shape:
    """Return a shared expert whose output a trained gate scales."""
    width = fields.count("shared_expert_intermediate_size")
    return {"shared_ffn": width, "shared_gate": True}


def qwen_experts(fields: Fields, shared: Shape) -> Shape:
    """Return narrow experts beside a shared part and which layers are dense; {} where all are."""
    layers = fields.count("num_hidden_layers", most=MOST_LAYERS)
    step = fields.count("decoder_sparse_step", default=1)
    dense = fields.items("mlp_only_layers") or ()
    if not all(type(layer) is int and 0 <= layer < layers for layer in dense):
        raise fields.wrong(field="mlp_only_layers", allowed=f"layers from 0 to {layers - 1}")
    skipped = set(dense)
    sparse = [index not in skipped and (index + 1) % step == 0 for index in range(layers)]
    routed = _routed(fields, "num_experts", ("num_experts_per_tok",), "moe_intermediate_size")
    layout = _layout(fields, "mlp_only_layers", sparse)
    return {} if layout is None else _without_defaults(routed | shared | layout)


def _deepseek_experts(fields: Fields) -> Shape:
    if not fields.has("n_routed_experts"):
        return {}
    layers = fields.count("num_hidden_layers", most=MOST_LAYERS)
    first = fields.count("first_k_dense_replace", default=0, least=0)
    step = fields.count("moe_layer_freq", default=1)
    sparse = [index >= first and index % step == 0 for index in range(layers)]
    routed = _routed(fields, "n_routed_experts", ("num_experts_per_tok",), "moe_intermediate_size")
    shared = fields.count("n_shared_experts", default=0, least=0) * routed["expert_ffn"]
    layout = _layout(fields, "moe_layer_freq", sparse)
    return {} if layout is None else _without_defaults(routed | {"shared_ffn": shared} | layout)


def _layout(fields: Fields, field: str, sparse: Sequence[bool]) -> Shape | None:
    """Return how many first layers are dense and every how many-th of the others is sparse.

    None where no layer is sparse; a rhythm that these two numbers cannot say is refused.
    """
    where = [index for index, is_sparse in enumerate(sparse) if is_sparse]
    if not where:
        return None
    every = where[1] - where[0] if len(where) > 1 else len(sparse) - where[0]
    first = where[0] - every + 1
    expected = range(where[0], len(sparse), every)
    if first < 0 or list(expected) != where:
        raise fields.wrong(field, "sparse layers at even distances after the first dense ones")
    return {"first_dense_layers": first, "every": every}


def _without_defaults(experts: Shape) -> Shape:
    defaults = {"every": 1, "first_dense_layers": 0, "shared_ffn": 0, "router_bias": False}
    return {key: value for key, value in experts.items() if defaults.get(key) != value}


def _latent(fields: Fields) -> Shape:
    fields.must_be("attention_bias", value=False, why="latent projections have none")
    shape = widths(fields.without("head_dim"), check=False)
    latent = {
        "query_rank": fields.optional_count("q_lora_rank"),
        "kv_rank": fields.count("kv_lora_rank"),
        "nope_dim": fields.count("qk_nope_head_dim"),
        "rope_dim": fields.count("qk_rope_head_dim"),
        "value_dim": fields.count("v_head_dim"),
    }
    return shape | {
        "ffn": fields.count("intermediate_size"),
        "position": "rotary",
        "activation": fields.choice("hidden_act", GATED, "swiglu"),
        "norm": "rmsnorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=False),
        "ffn_bias": fields.flag("mlp_bias", default=False),
        "latent": {key: value for key, value in latent.items() if value is not None},
    }
