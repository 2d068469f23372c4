"""What shape do models have that mix positions by state-space scans, with or without attention?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.config.huggingface.widths import (
    GATED,
    MOST_LAYERS,
    PLAIN,
    Shape,
    key_value_heads,
    shortest_period,
    widths,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.config.fields import Fields

_LETTERS = "M*-E"
_SCAN, _FULL = "state_space", "full"


def nemotron_h(fields: Fields) -> Shape:
    """Layers of one part each, told by letters; no positions; experts of a narrower stream."""
    shape = widths(fields, check=False)
    pattern = _letters(fields, "hybrid_override_pattern", shape["layers"])
    bias = fields.flag("mlp_bias", default=False)
    shape |= {
        "layer_pattern": pattern,
        "kv_heads": key_value_heads(fields, shape["heads"]),
        "ffn": fields.count("intermediate_size", "ffn_hidden_size"),
        "position": "none",
        "activation": fields.choice("mlp_hidden_act", PLAIN, "relu2"),
        "norm": "rmsnorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=False),
        "qkv_bias": fields.flag("attention_bias", default=False),
        "output_bias": fields.flag("attention_bias", default=False),
        "ffn_bias": bias,
    }
    fields.must_be("mamba_proj_bias", value=False, why="projections of mixers have none")
    shape.setdefault("head_dim", fields.optional_count("attention_head_dim"))
    if "M" in pattern:
        names = {"heads": "mamba_num_heads", "head_dim": "mamba_head_dim"}
        shape["state_space"] = _scan(fields, _NEMOTRON | names)
    if "E" in pattern:
        shape["experts"] = _latent_experts(fields)
    return shape


def mamba2(fields: Fields) -> Shape:
    """Scans alone, no feed-forward layers: the one head of attention is a formality."""
    layers = fields.count("num_hidden_layers", "n_layer", most=MOST_LAYERS)
    names = {"heads": "num_heads", "head_dim": "head_dim", "state": "state_size"}
    return {
        "family": "decoder",
        "layers": layers,
        "layer_pattern": "M" * layers,
        "hidden": fields.count("hidden_size", "d_model"),
        "heads": 1,
        "vocab": fields.count("vocab_size"),
        "ffn": 0,
        "position": "none",
        "activation": "swiglu",
        "norm": "rmsnorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=False),
        "state_space": _scan(fields, _NEMOTRON | names),
    }


def granite_hybrid(fields: Fields) -> Shape:
    """Scans or attention by `layer_types`, then a dense half, or experts beside a shared one."""
    shape = widths(fields)
    listed = fields.items("layer_types") or []
    known: Mapping[str, str] = {"mamba": _SCAN, "attention": _FULL}
    kinds = [known[kind] for kind in listed if isinstance(kind, str) and kind in known]
    if len(kinds) != shape["layers"] or len(listed) != shape["layers"]:
        allowed = f"{shape['layers']} times one of {', '.join(known)}, one per layer"
        raise fields.wrong(field="layer_types", allowed=allowed)
    positions = {"rope": "rotary", "nope": "none"}
    shape |= {
        "kv_heads": key_value_heads(fields, shape["heads"]),
        "position": fields.choice("position_embedding_type", positions, "none"),
        "activation": fields.choice("hidden_act", GATED, "swiglu"),
        "norm": "rmsnorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=True),
        "qkv_bias": fields.flag("attention_bias", default=False),
        "output_bias": fields.flag("attention_bias", default=False),
    }
    if _SCAN in kinds:
        pattern = kinds[: shortest_period(kinds)]
        shape |= {"attention_pattern": pattern, "state_space": _scan(fields, _GRANITE)}
    shared = fields.count("shared_intermediate_size")
    if fields.count("num_local_experts", default=0, least=0) == 0:
        return shape | {"ffn": shared}
    inner = fields.count("intermediate_size")
    experts = {
        "experts": fields.count("num_local_experts"),
        "top_k": fields.count("num_experts_per_tok", most=fields.count("num_local_experts")),
        "expert_ffn": inner,
        "shared_ffn": shared,
    }
    return shape | {"ffn": inner, "experts": experts}


_NEMOTRON = {
    "heads": "mamba_num_heads",
    "head_dim": "mamba_head_dim",
    "state": "ssm_state_size",
    "groups": "n_groups",
    "convolution": "conv_kernel",
    "chunk": "chunk_size",
    "bias": "use_conv_bias",
}
_GRANITE = {
    "heads": "mamba_n_heads",
    "head_dim": "mamba_d_head",
    "state": "mamba_d_state",
    "groups": "mamba_n_groups",
    "convolution": "mamba_d_conv",
    "chunk": "mamba_chunk_size",
    "bias": "mamba_conv_bias",
}


def _scan(fields: Fields, names: Mapping[str, str]) -> Shape:
    """Return a mixer's widths, which a family spells as `names` says; defaults are left out."""
    scan: Shape = {
        "heads": fields.count(names["heads"]),
        "head_dim": fields.count(names["head_dim"]),
        "state": fields.count(names["state"]),
        "groups": fields.count(names["groups"], default=1),
        "convolution": fields.count(names["convolution"], default=4),
        "chunk": fields.count(names["chunk"], default=256),
        "convolution_bias": fields.flag(names["bias"], default=True),
    }
    if scan["heads"] % scan["groups"]:
        raise fields.wrong(names["groups"], f"a divisor of the {scan['heads']} heads")
    defaults = {"groups": 1, "convolution": 4, "chunk": 128, "convolution_bias": True}
    return {key: value for key, value in scan.items() if defaults.get(key) != value}


def _letters(fields: Fields, field: str, layers: int) -> str:
    text = fields.text(field)
    if len(text) != layers or set(text) - set(_LETTERS):
        raise fields.wrong(field, f"{layers} letters, each one of {', '.join(_LETTERS)}")
    return text


def _latent_experts(fields: Fields) -> Shape:
    count = fields.count("n_routed_experts")
    inner = fields.count("moe_intermediate_size")
    experts: Shape = {
        "experts": count,
        "top_k": fields.count("num_experts_per_tok", most=count),
        "expert_ffn": inner,
        "router_bias": True,
    }
    if latent := fields.optional_count("moe_latent_size"):
        experts["latent_width"] = latent
    if fields.count("n_shared_experts", default=1, least=0):
        experts["shared_ffn"] = fields.count("moe_shared_expert_intermediate_size", default=inner)
    return experts
