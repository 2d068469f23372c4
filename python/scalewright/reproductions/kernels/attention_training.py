"""What does a row of measured attention of a training step say, as cuDNN's benchmark writes it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.errors import InvalidError
from scalewright.reproductions.kernels.kind import (
    WARM,
    Kind,
    Shape,
    count,
    flag,
    format_of,
    short,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

FORWARD = "attention_forward"
BACKWARD = "attention_backward"
_FORMATS = {
    "bfloat16": ("bfloat16", "bf16"),
    "bf16": ("bfloat16", "bf16"),
    "float16": ("bfloat16", "fp16"),
    "fp16": ("bfloat16", "fp16"),
    "fp8": ("fp8", "fp8"),
    "mxfp8": ("mxfp8", "mxfp8"),
}
_PASSES = {"fwd": False, "forward": False, "bwd": True, "backward": True}
# a query sees keys up to its own place from the first corner on, or all of them
_MASKS = {"top_left": True, "causal": True, "bottom_right": True, "no_mask": False, "none": False}
_PRODUCTS = {False: 2.0, True: 5.0}


def shape(cells: Mapping[str, str]) -> Shape:
    """Return what a row timed: a pass over whole sequences.

    Raises:
        InvalidError: A cell cannot be read.
    """
    _refuse_warm(cells)
    spelt = {"data_type": format_of("data_type", cells)}
    family, dtype = _FORMATS[_one_of("data_type", spelt, _FORMATS)]
    backward = _PASSES[_one_of("profile_pass", cells, _PASSES)]
    causal = _MASKS[_one_of("attn_mask", cells, _MASKS)]
    if cells.get("deterministic_bwd", "").casefold() == "true":
        message = (
            "deterministic_bwd: got 'True'; allowed: False, another kernel than training takes"
        )
        raise InvalidError(message)
    width = count("head_dim_qk", cells)
    numbers = {
        "batch": count("batch_size", cells),
        "positions": count("q_seqlen", cells),
        "heads": count("num_q_heads", cells),
        "kv_heads": count("num_kv_heads", cells),
        "head_dim": width,
        "value_dim": count("head_dim_vo", cells, width),
        "window": whole("sliding_window_size", cells),
    }
    if count("kv_seqlen", cells, numbers["positions"]) != numbers["positions"]:
        message = "kv_seqlen: got another length than q_seqlen; allowed: the same"
        raise InvalidError(message)
    if numbers["heads"] % numbers["kv_heads"]:
        message = f"num_kv_heads: got {numbers['kv_heads']:.0f}; allowed: divisors of num_q_heads"
        raise InvalidError(message)
    seen = min(numbers["positions"] * (0.5 if causal else 1.0), numbers["window"] or 1e12)
    pairs = numbers["batch"] * numbers["heads"] * numbers["positions"] * seen
    work = pairs * (numbers["head_dim"] + numbers["value_dim"]) * _PRODUCTS[backward]
    request = {
        "kernel": "training_attention",
        "dtype": dtype,
        "backward": backward,
        "causal": causal,
    }
    # of masks and backward passes FLOPs are counted in several ways
    rated = not (backward or causal or numbers["window"])
    shown = BACKWARD if backward else FORWARD
    return Shape(family, request, numbers, work, shown, flops=work, rated=rated)


def _one_of(field: str, cells: Mapping[str, str], allowed: Mapping[str, object]) -> str:
    spelt = cells.get(field, "").casefold()
    if spelt not in allowed:
        message = f"{field}: got '{short(spelt)}'; allowed: {', '.join(allowed)}"
        raise InvalidError(message)
    return spelt


ATTENTION_TRAINING = Kind(
    name="attention_training",
    spellings={
        "data_type": ("data_type", "dtype"),
        "profile_pass": ("profile_pass", "pass"),
        "attn_mask": ("attn_mask", "mask"),
        "deterministic_bwd": ("deterministic_bwd",),
        "batch_size": ("batch_size", "batch"),
        "q_seqlen": ("q_seqlen", "positions", "seq"),
        "kv_seqlen": ("kv_seqlen",),
        "num_q_heads": ("num_q_heads", "heads"),
        "num_kv_heads": ("num_kv_heads", "kv_heads"),
        "head_dim_qk": ("head_dim_qk", "head_dim"),
        "head_dim_vo": ("head_dim_vo", "value_dim"),
        "sliding_window_size": ("sliding_window_size", "window_size", "window"),
        WARM: (WARM,),
    },
    needed=frozenset(
        {
            "data_type",
            "profile_pass",
            "attn_mask",
            "batch_size",
            "q_seqlen",
            "num_q_heads",
            "num_kv_heads",
            "head_dim_qk",
        }
    ),
    shape=shape,
    files=("attention_training", "attention_others"),
)
"""One pass of fused attention over whole sequences, timed alone."""


def _refuse_warm(cells: Mapping[str, str]) -> None:
    """Refuse a pass that was timed with warm operands: it is priced with cold ones.

    Raises:
        InvalidError: The row says so, or something else than yes or no.
    """
    if flag(WARM, cells, usual=False):
        got = f"{WARM}: got '{short(cells[WARM])}'"
        message = f"{got}; allowed: no, as operands are priced as they come from memory"
        raise InvalidError(message)
