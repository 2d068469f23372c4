"""What does a row of measured experts of a mixture say?"""

from __future__ import annotations

import csv
import io
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError
from scalewright.reproductions.kernels.kind import (
    WARM,
    Kind,
    Shape,
    count,
    flag,
    format_of,
    number,
    short,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILE = ("published", "kernels", "moe_models.csv")
_SKEWED = "power_law_"
_MOST_SKEW = 4.0
_MOST_EXPERTS = 4096
# format of the rows that the products read and bytes of a weight, block scales included: 4 bits
# with 8 of scale for 32 (OCP MX 1.0) or 16 (NVFP4), 16 for 128 (AWQ)
_FORMATS: dict[str, dict[str, Any]] = {
    "bfloat16": {"rows": "bf16", "weight_bytes": 2.0},
    "bf16": {"rows": "bf16", "weight_bytes": 2.0},
    "float16": {"rows": "fp16", "weight_bytes": 2.0},
    "fp8": {"rows": "fp8", "weight_bytes": 1.0},
    "fp8_block": {"rows": "fp8", "weight_bytes": 1.0},
    "mxfp8": {"rows": "mxfp8", "weight_bytes": 1.03125},
    "nvfp4": {"rows": "nvfp4", "weight_bytes": 0.5625},
    "int8": {"rows": "int8", "weight_bytes": 1.0},
    "mxfp4": {"rows": "mxfp4", "weight_bytes": 0.53125},
    "fp8_wo": {"rows": "bf16", "weight_bytes": 1.0},
    "int8_wo": {"rows": "bf16", "weight_bytes": 1.0},
    "int4_wo": {"rows": "bf16", "weight_bytes": 0.515625},
    "w4afp8": {"rows": "fp8", "weight_bytes": 0.515625},
    "w4a16_mxfp4": {"rows": "bf16", "weight_bytes": 0.53125},
    "w4a8_mxfp4_mxfp8": {"rows": "mxfp8", "weight_bytes": 0.53125},
}
_ALSO = {"sq": "int8", "fp16": "float16"}
_COUNTS = {
    "tokens": "num_tokens",
    "hidden": "hidden_size",
    "intermediate": "inter_size",
    "topk": "topk",
    "experts": "num_experts",
}
_PARALLEL = {"tensor_parallel": "moe_tp_size", "expert_parallel": "moe_ep_size"}


def shape(cells: Mapping[str, str]) -> Shape:
    """Return what a row timed: the experts of a mixture.

    Raises:
        InvalidError: A cell cannot be read.
    """
    spelt = format_of("moe_dtype", cells)
    spelt = _ALSO.get(spelt, spelt)
    if spelt not in _FORMATS:
        message = f"moe_dtype: got '{short(spelt)}'; allowed: {', '.join(_FORMATS)}"
        raise InvalidError(message)
    numbers = {name: count(field, cells) for name, field in _COUNTS.items()}
    numbers |= {name: count(field, cells, 1.0) for name, field in _PARALLEL.items()}
    _check(numbers)
    numbers |= _distribution(cells.get("distribution", ""))
    request = {
        "kernel": "experts",
        **_FORMATS[spelt],
        "gated": _gated(cells, numbers),
        "warm": flag(WARM, cells, usual=True),
    }
    work = numbers["tokens"] * numbers["topk"] * numbers["hidden"] * numbers["intermediate"]
    work /= numbers["tensor_parallel"] * numbers["expert_parallel"]
    # a rank whose experts are chosen less has fewer
    even = not (numbers["skew"] or numbers["random"])
    flops = (6.0 if request["gated"] else 4.0) * work if even else 0.0
    return Shape(spelt, request, numbers, work, flops=flops)


def _check(numbers: Mapping[str, float]) -> None:
    """Refuse what the engine would, so that other rows still run."""
    experts = numbers["experts"]
    for name, field, allowed, fits in (
        ("experts", "num_experts", f"up to {_MOST_EXPERTS}", experts <= _MOST_EXPERTS),
        ("topk", "topk", "at most num_experts", numbers["topk"] <= experts),
        (
            "expert_parallel",
            "moe_ep_size",
            "a divisor of num_experts",
            experts % numbers["expert_parallel"] == 0.0,
        ),
    ):
        if not fits:
            message = f"{field}: got {numbers[name]:.0f}; allowed: {allowed}"
            raise InvalidError(message)


def _distribution(text: str) -> dict[str, float]:
    """Return the exponent of the load's power law, 0 for none, or that choices are by chance.

    aiconfigurator reads `uniform` as `balanced`.
    """
    spelt = text.casefold()
    if spelt in ("", "balanced", "uniform", "power_law_0", "power_law_0.0"):
        return {"skew": 0.0, "random": 0.0}
    if spelt == "random":
        return {"skew": 0.0, "random": 1.0}
    if spelt.startswith(_SKEWED):
        skew = number("distribution", spelt.removeprefix(_SKEWED))
        if skew <= _MOST_SKEW:
            return {"skew": skew, "random": 0.0}
    allowed = "balanced or uniform, random, power_law_X, X from 0 to 4"
    message = f"distribution: got '{short(text)}'; allowed: {allowed}"
    raise InvalidError(message)


def _gated(cells: Mapping[str, str], numbers: Mapping[str, float]) -> bool:
    """Return whether experts have a gate: as the row says, or the model of this shape, or yes."""
    shape = tuple(numbers[name] for name in _COUNTS if name != "tokens")
    return flag("gated", cells, usual=_models().get(shape, True))


@cache
def _models() -> dict[tuple[float, ...], bool]:
    place = built_in_root()
    for part in _FILE:
        place = place / part
    rows = csv.DictReader(io.StringIO(place.read_text(encoding="utf-8"), newline=""))
    fields = [field for name, field in _COUNTS.items() if name != "tokens"]
    return {tuple(float(row[field]) for field in fields): row["gated"] == "yes" for row in rows}


MOE = Kind(
    name="moe",
    spellings={
        "moe_dtype": ("moe_dtype",),
        **{field: (field,) for field in (*_COUNTS.values(), *_PARALLEL.values())},
        "distribution": ("distribution",),
        "gated": ("gated",),
        WARM: (WARM,),
    },
    needed=frozenset({"moe_dtype", *_COUNTS.values()}),
    shape=shape,
    files=("moe", "moe_rocm", "moe_others"),
)
"""The experts of a mixture as one call: routing, two grouped products, activation, weighted sum."""
