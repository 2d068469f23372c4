"""What shape do models have most of whose layers mix positions by a gated delta rule?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.config.huggingface.mixtures import gated_shared, qwen_experts
from scalewright.config.huggingface.widths import (
    GATED,
    Shape,
    key_value_heads,
    shortest_period,
    widths,
)

if TYPE_CHECKING:
    from scalewright.config.fields import Fields

_RULE, _FULL = "state_space", "full"
_KINDS = {"linear_attention": _RULE, "full_attention": _FULL}
_KEY_HEADS = "linear_num_key_heads"
_INTERVAL = 4
_TAPS = 4


def qwen3_next(fields: Fields) -> Shape:
    """A gated delta rule, and every few layers attention with a gate; experts beside a shared one.

    Modules that predict a token further are left out.
    """
    return _mixture(fields, 512)


def qwen3_5(fields: Fields) -> Shape:
    """The same without experts; vision is left out."""
    return _mixed(fields) | {"ffn": fields.count("intermediate_size")}


def qwen3_5_moe(fields: Fields) -> Shape:
    """As Qwen3-Next, with half as many experts unless told; vision is left out."""
    return _mixture(fields, 256)


def _mixture(fields: Fields, experts: int) -> Shape:
    shape = _mixed(fields)
    if fields.count("num_experts", default=experts, least=0) == 0:
        return shape | {"ffn": fields.count("intermediate_size")}
    told = fields.with_defaults({"num_experts": experts})
    routed = qwen_experts(told, gated_shared(fields))
    some_dense = not routed or routed.get("first_dense_layers") or routed.get("every", 1) > 1
    inner = "intermediate_size"
    ffn = fields.count(inner) if some_dense else fields.optional_count(inner, least=0) or 0
    return shape | {"ffn": ffn, "experts": routed}


def _mixed(fields: Fields) -> Shape:
    """Return what mixes positions, and all that experts leave alone."""
    fields = fields.with_defaults({"head_dim": 256})
    shape = widths(fields)
    kinds = _kinds(fields, shape["layers"])
    bias = fields.flag("attention_bias", default=False)
    shape |= {
        "kv_heads": key_value_heads(fields, shape["heads"]),
        "position": "rotary",
        "activation": fields.choice("hidden_act", GATED, "swiglu"),
        "norm": "rmsnorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=False),
        "qkv_bias": bias,
        "output_bias": bias,
        "qk_norm": True,
        "output_gate": fields.flag("attn_output_gate", default=True),
    }
    if _RULE in kinds:
        pattern = kinds[: shortest_period(kinds)]
        shape |= {"attention_pattern": pattern, "state_space": _rule(fields)}
    return shape


def _kinds(fields: Fields, layers: int) -> list[str]:
    """Return the kind of each layer: `layer_types` where it is given, else every few are full."""
    listed = fields.items("layer_types")
    if listed is None:
        every = fields.count("full_attention_interval", default=_INTERVAL)
        return [_RULE if (index + 1) % every else _FULL for index in range(layers)]
    kinds = [_KINDS[kind] for kind in listed if isinstance(kind, str) and kind in _KINDS]
    if len(kinds) != layers or len(listed) != layers:
        allowed = f"{layers} times one of {', '.join(_KINDS)}, one per layer"
        raise fields.wrong(field="layer_types", allowed=allowed)
    return kinds


def _rule(fields: Fields) -> Shape:
    heads = fields.count("linear_num_value_heads")
    groups = fields.count(_KEY_HEADS, most=heads)
    if heads % groups:
        raise fields.wrong(_KEY_HEADS, f"a divisor of the {heads} value heads")
    taps = fields.count("linear_conv_kernel_dim", default=_TAPS)
    return {
        "rule": "gated_delta",
        "heads": heads,
        "head_dim": fields.count("linear_value_head_dim"),
        "state": fields.count("linear_key_head_dim"),
        "groups": groups,
        **({"convolution": taps} if taps != _TAPS else {}),
    }
