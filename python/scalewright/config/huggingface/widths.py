"""What do all families share: widths, attention patterns, activations, and leaving defaults out?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalewright.config.fields import Fields

Shape = dict[str, Any]

MOST_LAYERS = 10_000

_GELU = ("gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "quick_gelu")
PLAIN = {**dict.fromkeys(_GELU, "gelu"), "relu": "relu", "relu2": "relu2"}
"""Activations of a feed-forward layer with one input projection."""
GATED = {**dict.fromkeys(_GELU, "geglu"), "silu": "swiglu", "swish": "swiglu"}
"""Activations of a feed-forward layer with two input projections."""

_FULL, _SLIDING = "full", "sliding"
_LAYER_TYPES = {"full_attention": _FULL, "sliding_attention": _SLIDING}
_DEFAULTS: Shape = {"final_norm": True, "relative_buckets": 32}
_REQUIRED = {"ffn"}


@dataclass(frozen=True)
class Spelling:
    """How a family spells its widths; several names mean the same."""

    layers: tuple[str, ...] = ("num_hidden_layers",)
    hidden: tuple[str, ...] = ("hidden_size",)
    heads: tuple[str, ...] = ("num_attention_heads",)


def widths(fields: Fields, spelling: Spelling = Spelling(), *, check: bool = True) -> Shape:
    """Return layers, hidden, heads, head width and vocabulary.

    `check` demands that the heads divide the hidden width where no head width is given.
    """
    shape: Shape = {
        "family": "decoder",
        "layers": fields.count(*spelling.layers, most=MOST_LAYERS),
        "hidden": fields.count(*spelling.hidden),
        "heads": fields.count(*spelling.heads),
        "vocab": fields.count("vocab_size"),
    }
    head_dim = fields.optional_count("head_dim")
    if head_dim is not None:
        shape["head_dim"] = head_dim
    elif check and shape["hidden"] % shape["heads"]:
        held = next((name for name in spelling.heads if fields.has(name)), spelling.heads[0])
        raise fields.wrong(held, f"a divisor of the hidden width {shape['hidden']}, or a head_dim")
    return shape


def key_value_heads(fields: Fields, heads: int, field: str = "num_key_value_heads") -> int:
    """Return the key and value heads, by default as many as query heads."""
    count = fields.count(field, default=heads, most=heads)
    if heads % count:
        raise fields.wrong(field, f"a divisor of the {heads} query heads")
    return count


def all_biases(*, value: bool = True) -> Shape:
    """Return biases on every projection, or on none."""
    return dict.fromkeys(("qkv_bias", "output_bias", "ffn_bias"), value)


def attention_pattern(fields: Fields, kinds: Sequence[str], window: int | None = None) -> Shape:
    """Return the kinds of attention, which `layer_types` decides where it is given.

    Args:
        fields: The config.
        kinds: One kind per layer, as the family's rule gives it.
        window: The family's window where the config is silent.
    """
    listed = fields.items("layer_types")
    if listed is not None:
        kinds = _listed_kinds(fields, listed, len(kinds))
    if _SLIDING not in kinds:
        return {}
    size = fields.count("sliding_window", default=window)
    return {"attention_pattern": list(kinds[: shortest_period(kinds)]), "sliding_window": size}


def every_nth_full(layers: int, period: int) -> list[str]:
    """Return sliding layers of which every `period`-th is full."""
    return [_SLIDING if (index + 1) % period else _FULL for index in range(layers)]


def full_then_sliding(layers: int, full: int) -> list[str]:
    """Return `full` layers of full attention and sliding ones above them."""
    return [_FULL if index < full else _SLIDING for index in range(layers)]


def _listed_kinds(fields: Fields, listed: Sequence[object], layers: int) -> list[str]:
    known = [_LAYER_TYPES.get(kind) if isinstance(kind, str) else None for kind in listed]
    kinds = [kind for kind in known if kind is not None]
    if len(kinds) != layers or len(listed) != layers:
        allowed = f"{layers} times one of {', '.join(_LAYER_TYPES)}, one per layer"
        raise fields.wrong(field="layer_types", allowed=allowed)
    return kinds


def shortest_period(kinds: Sequence[str]) -> int:
    """Return the shortest length whose repetition gives the sequence (Knuth, Morris, Pratt)."""
    border = [0] * len(kinds)
    for index in range(1, len(kinds)):
        length = border[index - 1]
        while length and kinds[index] != kinds[length]:
            length = border[length - 1]
        border[index] = length + (kinds[index] == kinds[length])
    return len(kinds) - border[-1]


def compact(shape: Shape) -> Shape:
    """Leave out what equals the schema's default."""
    defaults = {**_DEFAULTS, "kv_heads": shape["heads"]}
    if shape["hidden"] % shape["heads"] == 0:
        defaults["head_dim"] = shape["hidden"] // shape["heads"]
    return {key: value for key, value in shape.items() if not _is_default(key, value, defaults)}


def _is_default(key: str, value: object, defaults: Shape) -> bool:
    if key in _REQUIRED:
        return False
    if key in defaults:
        return value is None or value == defaults[key]
    return not value
