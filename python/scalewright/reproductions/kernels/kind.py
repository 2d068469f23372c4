"""What does the book need to know of a kind of kernel to read and price its rows?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError
from scalewright.reproductions.metrics import ungrouped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST = 40
_FLAGS = {"": False, "1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_MOST = 1e12
_FP8 = (
    *("static", "e4m3", "e5m2", "e4m3fn", "w8a8", "row_wise", "rowwise", "tensorwise"),
    *("tensor_wise", "per_token", "per_tensor", "per_channel", "row_scaled", "tensor_scaled"),
)
_ALIKE = {
    **dict.fromkeys((f"fp8_{kind}" for kind in _FP8), "fp8"),
    **dict.fromkeys(("e4m3", "e5m2", "float8", "w8a8_fp8", "fp_8"), "fp8"),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_rowwise"), "fp8"),
    **dict.fromkeys(("fp8_blockwise", "fp8_block_wise", "fp8_block_scaled"), "fp8_block"),
    **dict.fromkeys(("block_fp8", "fp8_blockscale", "fp8_block_scale"), "fp8_block"),
    **dict.fromkeys(("w4a16", "int4", "awq", "gptq", "int4_w4a16"), "int4_wo"),
    **dict.fromkeys((f"{bits}_weight_only" for bits in ("int4", "4bit")), "int4_wo"),
    **dict.fromkeys(("w8a16", "int8_w8a16", "int8_weight_only"), "int8_wo"),
    **dict.fromkeys(("fp8_weight_only", "fp8_w8a16", "w8a16_fp8"), "fp8_wo"),
    **dict.fromkeys(("w8a8", "w8a8_int8", "int8_w8a8", "int8_sq"), "sq"),
    **dict.fromkeys(("i8", "s8"), "int8"),
    **dict.fromkeys(("f32", "float", "single", "float_32", "fp_32"), "float32"),
    **dict.fromkeys(("f16", "half", "float_16"), "float16"),
    **dict.fromkeys(("torch_bf16", "bf_16", "bfloat_16"), "bf16"),
    "tfloat32": "tf32",
    "fp_16": "fp16",
    "w4a8_fp8": "w4afp8",
}
"""Further names of number formats, by those that the kinds know."""
WARM = "warm"
"""The column that says whether what a timed kernel reads stayed in the cache from call to call."""
BYTES = {
    **dict.fromkeys(("fp32", "tf32"), 4.0),
    **dict.fromkeys(("bf16", "fp16"), 2.0),
    **dict.fromkeys(("fp8", "mxfp8", "int8"), 1.0),
    **dict.fromkeys(("nvfp4", "mxfp4", "int4"), 0.5),
}
"""Least bytes of a number by its format, without scales of blocks."""


@dataclass(frozen=True)
class Shape:
    """What one row timed, as the engine takes it."""

    dtype: str
    """Family of formats, as the book shows it: one set of constants each."""
    request: Mapping[str, Any]
    """Kind and formats; rows of one request are priced in one call."""
    numbers: Mapping[str, float]
    """The shape."""
    work: float
    """What orders rows by size before every third is held out."""
    kind: str | None = None
    """As the book shows it, where one header holds rows of several kinds."""
    flops: float = 0.0
    """FLOPs that it cannot do without; 0 where these are not counted."""
    read_bytes: float = 0.0
    """Bytes that it has to read or write; 0 where these are not counted."""
    rated: bool = False
    """Whether everyone counts its FLOPs alike, so that a rate tells its time."""


@dataclass(frozen=True)
class Kind:
    """A kind of kernel."""

    name: str
    """As the book shows it, and the name of its file of rows."""
    spellings: Mapping[str, tuple[str, ...]]
    """How headers spell the columns."""
    needed: frozenset[str]
    """A header with all of these columns and a time holds rows of the kind."""
    shape: Callable[[Mapping[str, str]], Shape]
    """Reads a row's cells by column; raises InvalidError where one cannot be."""
    files: tuple[str, ...] = ()
    """Names of its files of rows in the package."""
    rated: bool = False
    """Whether rows may have a rate instead of a time."""
    either: tuple[frozenset[str], ...] = ()
    """A header of the kind has one column of each of these, too."""
    free: bool = False
    """Whether its columns are spelt as anyone would, and so as tables of training steps are."""


def format_of(field: str, cells: Mapping[str, str]) -> str:
    """Return a cell's number format, in the spelling of the kinds where it has another."""
    spelt = cells.get(field, "").casefold().removeprefix("torch.")
    spelt = re.sub(r"[\s_()-]+", "_", spelt).strip("_")
    return _ALIKE.get(spelt, spelt)


def count(field: str, cells: Mapping[str, str], usual: float | None = None) -> float:
    """Return a cell as a whole number above zero; `usual` stands for an empty one.

    Raises:
        InvalidError: It is something else.
    """
    text = ungrouped(cells.get(field, ""))
    if not text and usual is not None:
        return usual
    if re.fullmatch(r"[0-9]{1,12}(\.0*)?", text) and float(text) >= 1.0:
        return float(text)
    message = f"{field}: got '{short(text)}'; allowed: one whole number from 1"
    raise InvalidError(message)


def whole(field: str, cells: Mapping[str, str]) -> float:
    """Return a cell as a whole number, where 0, -1 and nothing mean none.

    Raises:
        InvalidError: It is something else.
    """
    return 0.0 if re.fullmatch(r"(0*|-1)(\.0*)?", cells.get(field, "")) else count(field, cells)


def flag(field: str, cells: Mapping[str, str], *, usual: bool) -> bool:
    """Return a cell as yes or no; `usual` stands for an empty one.

    Raises:
        InvalidError: It is something else.
    """
    text = cells.get(field, "").casefold()
    if text in _FLAGS:
        return usual if text == "" else _FLAGS[text]
    message = f"{field}: got '{short(text)}'; allowed: yes, no, or nothing"
    raise InvalidError(message)


def number(field: str, text: str) -> float:
    """Return text as a number above zero.

    Raises:
        InvalidError: It is something else.
    """
    plain = ungrouped(text)
    if re.fullmatch(r"[0-9]*\.?[0-9]+\.?(e[+-]?[0-9]{1,2})?", plain, re.IGNORECASE):
        value = float(plain)
        if 0.0 < value < _MOST:
            return value
    message = f"{field}: got '{short(text)}'; allowed: one number above 0, below 1e12"
    raise InvalidError(message)


def short(text: str) -> str:
    """Return text, its end left out where it is long."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
