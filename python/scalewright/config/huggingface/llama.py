"""What shape do the dense relatives of LLaMA have: RMS norms, rotary positions, gated layers?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.config.huggingface.widths import (
    GATED,
    MOST_LAYERS,
    Shape,
    attention_pattern,
    every_nth_full,
    full_then_sliding,
    key_value_heads,
    widths,
)

if TYPE_CHECKING:
    from scalewright.config.fields import Fields

_GEMMA3_DEFAULTS = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 262_208,
}
"""What the text part of a vision model leaves out (transformers library, Gemma3TextConfig)."""


def llama(fields: Fields) -> Shape:
    """Return the plain form: grouped queries, no biases unless asked for."""
    shape = _gated(fields)
    bias = fields.flag("attention_bias", default=False)
    return shape | {
        "qkv_bias": bias,
        "output_bias": bias,
        "ffn_bias": fields.flag("mlp_bias", default=False),
    }


def mistral(fields: Fields) -> Shape:
    """A window on every layer unless `sliding_window` is null."""
    shape = _gated(fields)
    windowed = fields.has("sliding_window")
    kinds = full_then_sliding(shape["layers"], 0 if windowed else shape["layers"])
    return shape | attention_pattern(fields, kinds)


def qwen2(fields: Fields) -> Shape:
    """Biases on queries, keys and values; a window above `max_window_layers` where it is on."""
    return _gated(fields) | {"qkv_bias": True} | late_window(fields)


def qwen3(fields: Fields) -> Shape:
    """Norms on queries and keys in place of biases."""
    shape = _gated(fields)
    bias = fields.flag("attention_bias", default=False)
    return shape | {"qkv_bias": bias, "output_bias": bias, "qk_norm": True} | late_window(fields)


def gemma(fields: Fields) -> Shape:
    """GeGLU and a tied head; heads of 256 unless told."""
    return _gemma(fields)


def gemma2(fields: Fields) -> Shape:
    """Norms on both sides of each half; sliding and full layers take turns."""
    shape = _gemma(fields)
    pattern = attention_pattern(fields, every_nth_full(shape["layers"], 2), 4096)
    return shape | {"post_norms": True} | pattern


def gemma3(fields: Fields) -> Shape:
    """Norms on queries and keys; one full layer after five sliding ones unless told."""
    shape = _gemma(fields.with_defaults(_GEMMA3_DEFAULTS))
    period = fields.count("sliding_window_pattern", default=6)
    pattern = attention_pattern(fields, every_nth_full(shape["layers"], period), 4096)
    return shape | {"post_norms": True, "qk_norm": True} | pattern


def late_window(fields: Fields) -> Shape:
    """Return Qwen's pattern: a window from layer `max_window_layers` upwards, if it is used."""
    if not fields.flag("use_sliding_window", default=False) or not fields.has("sliding_window"):
        return {}
    layers = fields.count("num_hidden_layers", most=MOST_LAYERS)
    full = fields.count("max_window_layers", default=28, least=0)
    return attention_pattern(fields, full_then_sliding(layers, full))


def _gated(fields: Fields) -> Shape:
    shape = widths(fields)
    return shape | {
        "kv_heads": key_value_heads(fields, shape["heads"]),
        "ffn": fields.count("intermediate_size"),
        "position": "rotary",
        "activation": fields.choice("hidden_act", GATED, "swiglu"),
        "norm": "rmsnorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=False),
    }


def _gemma(fields: Fields) -> Shape:
    bias = fields.flag("attention_bias", default=False)
    return _gated(fields.with_defaults({"head_dim": 256})) | {
        "activation": fields.choice("hidden_activation", GATED, "geglu"),
        "tied_embeddings": fields.flag("tie_word_embeddings", default=True),
        "qkv_bias": bias,
        "output_bias": bias,
    }
