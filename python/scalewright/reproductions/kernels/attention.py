"""What does a row of measured attention say: a prompt (prefill) or one new token (decode)?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scalewright.errors import InvalidError
from scalewright.reproductions.kernels.kind import (
    BYTES,
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

_FORMATS = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "fp16": "fp16",
    "fp8": "fp8",
}
_CACHED = {**_FORMATS, "int8": "int8", "mxfp8": "mxfp8", "nvfp4": "nvfp4"}
_FAMILIES = {"bf16": "bfloat16", "fp16": "bfloat16"}
PREFILL = "attention_prefill"
DECODE = "attention_decode"
# release 1.0.0 of the collector decodes from a cache of keys alone, values being read from the same
# pages: its fastest rows would read more than memory can give; rows of 1.3 do not
_ONE_COPY = re.compile(r"attention[-/](trtllm/)?1\.0\.0[-/]generation")


def shape(cells: Mapping[str, str]) -> Shape:
    """Return what a row timed: new positions over a cache.

    Raises:
        InvalidError: A cell cannot be read.
    """
    queries = _format("attn_dtype", cells, _FORMATS)
    warm = flag(WARM, cells, usual=True)
    own = cells.get("kv_cache_dtype", "").casefold() in {"auto", "same"}
    cache = queries if own else _format("kv_cache_dtype", cells, _CACHED)
    new = count("isl", cells)
    held = whole("step", cells)
    numbers = {
        "batch": count("batch_size", cells),
        "heads": count("num_heads", cells),
        "kv_heads": count("num_key_value_heads", cells),
        "head_dim": count("head_dim", cells),
        "window": whole("window_size", cells),
    }
    if numbers["heads"] % numbers["kv_heads"]:
        message = f"num_key_value_heads: got {numbers['kv_heads']:.0f}; allowed: divisors of heads"
        raise InvalidError(message)
    seen = min(new + held, numbers["window"] or new + held)
    latent = _latent(cells, numbers)
    if latent and held > 0.0:
        # all queries of a sequence read the one latent key of a position, so as many heads would
        numbers["heads"] *= new
    rows = numbers["batch"] * numbers["heads"] * numbers["head_dim"]
    if held > 0.0 and (latent or new == 1.0):
        shared = latent or _ONE_COPY.search(cells.get("source", "")) is not None
        request = {"kernel": "decode", "cache": cache, "shared_values": shared, "warm": warm}
        numbers["keys"] = new + held
        kept = numbers["batch"] * numbers["kv_heads"] * numbers["head_dim"] * seen
        read = kept * BYTES[cache] * (1.0 if shared else 2.0)
        family = _FAMILIES.get(cache, cache)
        return Shape(family, request, numbers, rows * seen, DECODE, read_bytes=read)
    request = {"kernel": "prefill", "queries": queries, "cache": cache, "warm": warm}
    numbers |= {"queries": new, "cached": held}
    # a query sees what came before it; of windows no less is counted
    flops = 0.0 if numbers["window"] else 4.0 * rows * new * (held + new / 2.0)
    family = _FAMILIES.get(queries, queries)
    return Shape(family, request, numbers, rows * new * seen, PREFILL, flops=flops)


def _latent(cells: Mapping[str, str], numbers: Mapping[str, float]) -> bool:
    """Return whether a cache holds latent keys, the first numbers of which are the values, too.

    So DeepSeek-V2 (2024, section 2.1.2) decodes: all heads share the one key of a position.

    Raises:
        InvalidError: Values have another width than keys that are not shared.
    """
    values = count("value_dim", cells, numbers["head_dim"])
    if values == numbers["head_dim"]:
        return False
    if values < numbers["head_dim"] and numbers["kv_heads"] == 1.0:
        return True
    got = f"value_dim: got {values:.0f} beside keys {numbers['head_dim']:.0f} wide"
    message = f"{got}; allowed: as wide as keys, or less where all heads share one (latent cache)"
    raise InvalidError(message)


def _format(field: str, cells: Mapping[str, str], allowed: Mapping[str, str]) -> str:
    spelt = format_of(field, cells)
    if spelt not in allowed:
        message = f"{field}: got '{short(spelt)}'; allowed: {', '.join(allowed)}"
        raise InvalidError(message)
    return allowed[spelt]


ATTENTION = Kind(
    name="attention",
    spellings={
        "attn_dtype": ("attn_dtype",),
        "kv_cache_dtype": ("kv_cache_dtype",),
        "batch_size": ("batch_size", "batch"),
        "isl": ("isl", "queries"),
        "step": ("step", "cached"),
        "num_heads": ("num_heads", "heads"),
        "num_key_value_heads": ("num_key_value_heads", "kv_heads"),
        "head_dim": ("head_dim",),
        "value_dim": ("value_dim", "head_dim_vo", "dv"),
        "window_size": ("window_size", "window"),
        WARM: (WARM,),
    },
    needed=frozenset(
        {
            "attn_dtype",
            "kv_cache_dtype",
            "batch_size",
            "isl",
            "num_heads",
            "num_key_value_heads",
            "head_dim",
        }
    ),
    shape=shape,
    files=(PREFILL, DECODE, f"{DECODE}_others"),
)
"""Attention over a cache: `isl` new positions of a sequence after `step` that the cache holds."""
