"""What does a row of measured matrix products say?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_BF16 = {"a": "bf16", "b": "bf16", "output": "bf16"}
# formats by the spelling of a source; `cast_from`: the timed call quantises its activations itself
_FORMATS: dict[str, dict[str, Any]] = {
    "bfloat16": _BF16,
    "bf16": _BF16,
    "float16": {"a": "fp16", "b": "fp16", "output": "fp16"},
    "fp16": {"a": "fp16", "b": "fp16", "output": "fp16"},
    "float32": {"a": "fp32", "b": "fp32", "output": "fp32"},
    "fp32": {"a": "fp32", "b": "fp32", "output": "fp32"},
    "tf32": {"a": "tf32", "b": "tf32", "output": "fp32"},
    "fp8": {"a": "fp8", "b": "fp8", "output": "bf16", "cast_from": "bf16"},
    "fp8_block": {"a": "mxfp8", "b": "mxfp8", "output": "bf16", "cast_from": "bf16"},
    "mxfp8": {"a": "mxfp8", "b": "mxfp8", "output": "bf16", "cast_from": "bf16"},
    "nvfp4": {"a": "nvfp4", "b": "nvfp4", "output": "bf16", "cast_from": "bf16"},
    "mxfp4": {"a": "mxfp4", "b": "mxfp4", "output": "bf16", "cast_from": "bf16"},
    # weights alone are stored in few bits; a product in 16 bits unpacks them
    "fp8_wo": {"a": "bf16", "b": "fp8", "output": "bf16"},
    "int8_wo": {"a": "bf16", "b": "int8", "output": "bf16"},
    "int4_wo": {"a": "bf16", "b": "int4", "output": "bf16"},
    "w4a16_mxfp4": {"a": "bf16", "b": "mxfp4", "output": "bf16"},
    "w4afp8": {"a": "fp8", "b": "int4", "output": "bf16", "cast_from": "bf16"},
    "w4a8_mxfp4_mxfp8": {"a": "mxfp8", "b": "mxfp4", "output": "bf16", "cast_from": "bf16"},
    # both sides in integers, activations by the kernel before (Xiao et al. 2023, SmoothQuant)
    "sq": {"a": "int8", "b": "int8", "output": "bf16"},
    "int8": {"a": "int8", "b": "int8", "output": "bf16"},
}
_OUTPUTS = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "fp16": "fp16",
    "float32": "fp32",
    "fp32": "fp32",
}


def _shape(cells: Mapping[str, str]) -> Shape:
    # the benchmark of aiconfigurator, whose column this is, casts inside what it times
    cast = bool(cells.get("gemm_dtype"))
    spelt = format_of("gemm_dtype" if cast else "dtype", cells)
    if spelt not in _FORMATS:
        message = f"dtype: got '{short(spelt)}'; allowed: {', '.join(_FORMATS)}"
        raise InvalidError(message)
    numbers = _numbers(cells)
    work = numbers["batch"] * numbers["m"] * numbers["n"] * numbers["k"]
    dtype = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "int8": "sq"}.get(
        spelt, spelt
    )
    formats = _FORMATS[spelt]
    if not flag("cast", cells, usual=cast):
        formats = {key: value for key, value in formats.items() if key != "cast_from"}
    if cells.get("output"):
        formats = {**formats, "output": _output(cells)}
    request = {"kernel": "matmul", **formats}
    if flag(WARM, cells, usual=False):
        request[WARM] = True
    return Shape(
        dtype,
        request,
        numbers,
        work,
        flops=2.0 * work,
        read_bytes=_moved(formats, numbers),
        rated=True,
    )


def _numbers(cells: Mapping[str, str]) -> dict[str, float]:
    """Return sides and number of products of a call.

    Raises:
        InvalidError: A cell cannot be read, or nothing tells what of a mixture or of groups the
            sides are.
    """
    if cells.get("topk"):
        got = f"topk: got '{short(cells['topk'])}' beside m, n and k"
        allowed = "num_tokens, hidden_size, inter_size for a mixture, or m_per_group for a product"
        message = f"{got}; allowed: {allowed}"
        raise InvalidError(message)
    field = next(filter(cells.get, ("groups", "experts", "batch", "batch_size")), "batch")
    numbers = {"batch": count(field, cells, 1.0)}
    if cells.get("m_each"):
        numbers["m"] = count("m_each", cells)
    else:
        numbers["m"] = count("m", cells)
        if field in {"groups", "experts"} and numbers["batch"] > 1.0:
            got = f"m: got '{short(cells['m'])}' beside {numbers['batch']:.0f} {field}"
            message = f"{got}; allowed: m_per_group, as m may be that of all of them"
            raise InvalidError(message)
        if field == "batch_size" and numbers["batch"] == numbers["m"] > 1.0:
            got = f"batch_size: got '{short(cells[field])}', as many as m"
            message = f"{got}; allowed: batch, how many products a call makes"
            raise InvalidError(message)
    return numbers | {name: count(name, cells) for name in ("n", "k")}


def _moved(formats: Mapping[str, Any], numbers: Mapping[str, float]) -> float:
    """Return the bytes of both factors and of the result, each once."""
    m, n, k = (numbers[name] for name in ("m", "n", "k"))
    read = m * k * BYTES[formats["a"]] + k * n * BYTES[formats["b"]]
    return numbers["batch"] * (read + m * n * BYTES[formats["output"]])


def _output(cells: Mapping[str, str]) -> str:
    """Return the format in which a row says that its result is written."""
    spelt = format_of("output", cells)
    if spelt not in _OUTPUTS:
        message = f"output_dtype: got '{short(spelt)}'; allowed: {', '.join(_OUTPUTS)}"
        raise InvalidError(message)
    return _OUTPUTS[spelt]


GEMM = Kind(
    name="gemm",
    spellings={
        "gemm_dtype": ("gemm_dtype",),
        "dtype": ("dtype", "precision", "data_type", "format"),
        "batch": ("batch", "batch_count", "num_batches", "b"),
        "batch_size": ("batch_size",),
        "groups": ("groups", "num_groups", "n_groups", "group_count", "g"),
        "experts": ("experts", "num_experts", "n_experts", "e"),
        "topk": ("topk", "top_k"),
        "m": ("m",),
        "m_each": ("m_per_group", "expected_m_per_group", "m_group", "m_per_expert"),
        "n": ("n",),
        "k": ("k",),
        "cast": ("cast",),
        WARM: (WARM,),
        "output": ("output_dtype", "outdtype", "out_dtype"),
    },
    needed=frozenset({"n", "k"}),
    either=(frozenset({"m", "m_each"}), frozenset({"dtype", "gemm_dtype"})),
    rated=True,
    shape=_shape,
    files=("gemm", "gemm_rocm", "gemm_tpu", "torch_mm", "gemm_others"),
)
"""Matrix products; `a` is what a layer reads, `b` its weights."""
