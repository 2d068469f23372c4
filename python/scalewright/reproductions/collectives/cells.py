"""What do the cells of a measured collective say, and do its figures agree?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scalewright.config import buffer_sizes
from scalewright.errors import InvalidError
from scalewright.reproductions.collectives.names import COLLECTIVES, collective_named
from scalewright.reproductions.columns import plain
from scalewright.reproductions.kernels.agreement import printed, refuse_unlike
from scalewright.reproductions.metrics import ungrouped
from scalewright.reproductions.records import short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPELLINGS: dict[str, tuple[str, ...]] = {
    "system": ("system", "hardware", "cluster"),
    "collective": ("collective", "op_name", "op"),
    "algorithm": ("algorithm_if_known", "algorithm", "kernel_source"),
    "dtype": ("nccl_dtype", "allreduce_dtype", "dtype", "type"),
    "ranks": ("ranks", "num_gpus", "gpus"),
    "nodes": ("nodes", "num_nodes"),
    "bytes": ("bytes", "size_bytes", "buffer_bytes", "size_b", "message_bytes"),
    "elements": ("message_elements",),
    "count": ("count",),
    "message": ("message_size",),
    "time": ("time_us", "latency_us"),
    "time_ms": ("time_ms", "latency_ms"),
    "time_s": ("time_s", "latency_s"),
    "algbw": ("algbw_gbps", "algbw", "algbw_gb_s"),
    "busbw": ("busbw_gbps", "busbw", "busbw_gb_s"),
    "source": ("source",),
}
_BY_SPELLING = {text: name for name, texts in _SPELLINGS.items() for text in texts}
_SIZE, _TYPE, _CLOCK = "size", "type", "time"
SIZES = ("bytes", "elements", "count", "message")
"""Columns of which one tells the buffer."""
_RATES = ("algbw", "busbw")
FIGURES = ("time", "time_ms", "time_s", *_RATES)
"""Columns of which one tells the time, the first that a row has."""
_IN_ELEMENTS = frozenset({"nccl_dtype", "allreduce_dtype"})
"""Headings of aiconfigurator's tables, whose `message_size` counts elements."""
_ELEMENT_BYTES = {
    **dict.fromkeys(("half", "float16", "fp16", "bfloat16", "bf16"), 2),
    **dict.fromkeys(("float", "float32", "fp32", "int32", "uint32", "int"), 4),
    **dict.fromkeys(("double", "float64", "fp64", "int64", "uint64"), 8),
    **dict.fromkeys(("int8", "uint8", "char", "fp8", "float8"), 1),
    **dict.fromkeys(("f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
}
# of p ranks a device sends this over its buffer (nccl-tests, doc/PERFORMANCE.md); 1 where absent
_SHARED = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_TWICE = "all_reduce"
_MOST = 1e18
_SECONDS = {"time": ("time_us", 1e-6), "time_ms": ("time_ms", 1e-3), "time_s": ("time_s", 1.0)}


def columns_of(headers: Sequence[str]) -> list[str | None]:
    """Return the column that each header means; none for what no row needs.

    Beside a collective `size` is that of the buffer in bytes, where nothing else says these:
    elsewhere it may be a model's. `time` is in microseconds beside nccl-tests' rates, as there.
    """
    plainly = [plain(header) for header in headers]
    found = [_BY_SPELLING.get(name) for name in plainly]
    if not _IN_ELEMENTS.isdisjoint(plainly):
        found = ["elements" if name == "message" else name for name in found]
    if found.count("dtype") > 1:
        pairs = zip(found, plainly, strict=True)
        found = [None if name == _TYPE else column for column, name in pairs]
    if "collective" not in found:
        return found
    further = {} if "bytes" in found else {_SIZE: "bytes"}
    if "time" not in found and not set(_RATES).isdisjoint(found):
        further[_CLOCK] = "time"
    pairs = zip(found, plainly, strict=True)
    return [further.get(name, column) for column, name in pairs]


def known_in(headers: Sequence[str]) -> int:
    """Count the headings that say something of a measured collective."""
    return sum(column is not None for column in columns_of(headers))


def ranks_in(cells: Mapping[str, str]) -> int:
    """Return how many ranks took part.

    Raises:
        InvalidError: The cell holds no such count.
    """
    return _count("ranks", cells, least=2)


def nodes_in(cells: Mapping[str, str]) -> int | None:
    """Return how many nodes took part, none where the row does not say.

    Raises:
        InvalidError: The cell holds no such count.
    """
    return _count("nodes", cells) if cells.get("nodes") else None


def bytes_in(cells: Mapping[str, str]) -> float:
    """Return the buffer in bytes as nccl-tests counts it, which elements of a type may tell.

    A `count` is that of nccl-tests: of one rank where ranks hold parts of the buffer.

    Raises:
        InvalidError: No cell holds a size, or the type is not known.
    """
    size = _buffer(cells)
    if size % 1.0:
        message = f"bytes: got {size:.10g}; allowed: a whole number, 1 or more"
        raise InvalidError(message)
    return size


def _buffer(cells: Mapping[str, str]) -> float:
    if cells.get("bytes"):
        return _size(cells["bytes"])
    if cells.get("message"):
        got = f"message_size: got '{short(cells['message'])}', bytes or elements"
        message = f"{got}; allowed: a column bytes, or message_elements"
        raise InvalidError(message)
    return _elements(cells) * _element_bytes(cells)


def _elements(cells: Mapping[str, str]) -> float:
    """Return the elements of the whole buffer."""
    if cells.get("elements") or not cells.get("count"):
        return _number("message_elements", cells.get("elements", ""))
    collective = collective_named(cells.get("collective", ""))
    if collective is None:
        got = (
            f"count: got '{short(cells['count'])}' and no collective, which tells of how many ranks"
        )
        message = f"{got} it is; allowed: bytes, or a collective: {', '.join(COLLECTIVES)}"
        raise InvalidError(message)
    parts = ranks_in(cells) if collective in _SHARED else 1
    return _number("count", cells["count"]) * parts


def _element_bytes(cells: Mapping[str, str]) -> int:
    dtype = cells.get("dtype", "").casefold().removeprefix("torch.")
    if dtype not in _ELEMENT_BYTES:
        known = ", ".join(_ELEMENT_BYTES)
        message = f"dtype: got '{short(dtype)}'; allowed: {known}"
        raise InvalidError(message)
    return _ELEMENT_BYTES[dtype]


def time_in(cells: Mapping[str, str]) -> float:
    """Return the seconds that a row says, or that a rate makes of its bytes.

    Raises:
        InvalidError: No cell holds either.
    """
    told = next((name for name in FIGURES if cells.get(name)), "time")
    if told in _SECONDS:
        field, seconds = _SECONDS[told]
        return _number(field, cells.get(told, "")) * seconds
    share = 1.0
    if told == _RATES[1]:
        collective = collective_named(cells.get("collective", ""))
        if collective is None:
            got = f"busbw_GBps: got '{short(cells[told])}' beside no collective that is known"
            message = f"{got}; allowed: a time, or {', '.join(COLLECTIVES)}"
            raise InvalidError(message)
        share = bus_factor(collective, ranks_in(cells))
    return bytes_in(cells) * share / (_number(f"{told}_GBps", cells[told]) * 1e9)


def refuse_unlike_rates(
    collective: str | None, ranks: int, size: float, cells: Mapping[str, str]
) -> None:
    """Refuse a row whose rates contradict its bytes and its time.

    Args:
        collective: The engine's name; none where it is unknown, and so what `busbw` is.
        ranks: How many took part.
        size: The buffer in bytes.
        cells: Figures as printed: times under the names of `FIGURES`, `algbw` and `busbw` in GB/s;
            what is absent, or no number, is passed over.

    Raises:
        InvalidError: A rate is off by more than a tenth, rounding aside.
    """
    clock = next((name for name in _SECONDS if cells.get(name)), "time")
    time = printed(cells.get(clock, ""))
    if time is None:
        return
    field, seconds = _SECONDS[clock]
    rate = time.under(size / 1e9 / seconds)
    beside = f"{size:.10g} bytes in {time.value:.6g} {field.removeprefix('time_')}"
    factor = bus_factor(collective, ranks) if collective else None
    for name, share in zip(_RATES, (1.0, factor), strict=True):
        told = printed(cells.get(name, ""))
        if told is not None and share is not None:
            words = beside if name == "algbw" else f"{beside} on {ranks} ranks"
            refuse_unlike(name, ("GB/s", told), rate.scaled(share), words)


def bus_factor(collective: str, ranks: int) -> float:
    """Return what nccl-tests multiplies bytes over time by to get `busbw`."""
    if collective == _TWICE:
        return 2.0 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in _SHARED else 1.0


def _count(field: str, cells: Mapping[str, str], least: int = 1) -> int:
    text = cells.get(field, "")
    plain_ = ungrouped(text)
    if re.fullmatch(r"[0-9]{1,7}(\.0*)?", plain_) and float(plain_) >= least:
        return int(float(plain_))
    message = f"{field}: got '{short(text)}'; allowed: one whole number from {least} to 9999999"
    raise InvalidError(message)


def _size(text: str) -> float:
    """Return bytes, which letters may count: K, M, G and T by 1,024, as nccl-tests takes them."""
    plain_ = ungrouped(text)
    if re.fullmatch(r"[0-9.]{1,20} ?[a-zA-Z]{1,3}", plain_) is None:
        return _number("bytes", text)
    try:
        (size,) = buffer_sizes(plain_)
    except InvalidError as error:
        message = f"bytes: got '{short(text)}'; allowed: one number above 0, below 1e18, or as 1G"
        raise InvalidError(message) from error
    return float(size)


def _number(field: str, text: str) -> float:
    plain_ = ungrouped(text)
    if re.fullmatch(r"[0-9]+\.?[0-9]*(e[+-]?[0-9]{1,2})?", plain_, re.IGNORECASE):
        value = float(plain_)
        if 0.0 < value < _MOST:
            return value
    message = f"{field}: got '{short(text)}'; allowed: one number above 0, below 1e18"
    raise InvalidError(message)
