"""Which measured collectives does a CSV file hold, one by line?"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.reproductions.columns import plain
from scalewright.reproductions.records import joined, records, refuse_other_marks, short, some

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

_FOLDER = ("published", "collectives")
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "system": ("system", "hardware", "cluster"),
    "collective": ("collective", "op_name", "op"),
    "algorithm": ("algorithm_if_known", "algorithm", "kernel_source"),
    "dtype": ("nccl_dtype", "allreduce_dtype", "dtype"),
    "ranks": ("ranks", "num_gpus", "gpus"),
    "nodes": ("nodes", "num_nodes"),
    "bytes": ("bytes", "size_bytes", "buffer_bytes"),
    "elements": ("message_elements", "message_size", "count"),
    "time": ("time_us", "latency_us"),
    "algbw": ("algbw_gbps",),
    "source": ("source",),
}
_BY_SPELLING = {text: name for name, texts in _SPELLINGS.items() for text in texts}
_ELEMENT_BYTES = {
    "half": 2,
    "float16": 2,
    "fp16": 2,
    "bfloat16": 2,
    "bf16": 2,
    "float": 4,
    "float32": 4,
    "fp32": 4,
    "int32": 4,
    "double": 8,
    "int8": 1,
    "uint8": 1,
    "fp8": 1,
    "float8": 1,
}
_MOST = 1e18


@dataclass(frozen=True)
class CollectiveRow:
    """One measured run of a collective."""

    file: str
    line: int
    system: str
    """The machines, as the source spells them."""
    collective: str
    algorithm: str
    """What the source says of it; empty or `auto` where the library chose."""
    dtype: str
    ranks: int
    nodes: int | None
    bytes: float
    """Full buffer as nccl-tests counts it."""
    time_s: float
    source: str


@dataclass(frozen=True)
class Unread:
    """A line that holds no usable figure, and why."""

    file: str
    line: int
    system: str
    reason: str


def holds_collectives(path: str | Path) -> bool:
    """Say whether a CSV file has the columns of measured collectives, not of training runs."""
    try:
        with Path(path).open(encoding="utf-8-sig", errors="replace", newline="") as file:
            for cells in csv.reader(line for line in file if not line.startswith("#")):
                return _is_header(cells)
    except (OSError, csv.Error):
        return False
    return False


def shipped() -> list[CollectiveRow | Unread]:
    """Return the rows that come with the package, file by file."""
    folder = built_in_root()
    for part in _FOLDER:
        folder = folder / part
    others = ("systems.csv", "claims.csv")
    files = [f for f in folder.iterdir() if f.name.endswith(".csv") and f.name not in others]
    return [row for file in sorted(files, key=lambda f: f.name) for row in _rows(file)]


def read(path: str | Path) -> list[CollectiveRow | Unread]:
    """Return the rows of a user's file.

    Raises:
        InvalidError: The file cannot be read, has no rows, or lacks the columns that every row
            needs.
    """
    return some(path, list(_rows(Path(path))))


def _is_header(cells: Sequence[str]) -> bool:
    names = {_BY_SPELLING.get(plain(cell)) for cell in cells}
    measured = {"system", "ranks", "time"} <= names
    return measured and bool(names & {"bytes", "elements"})


def _rows(file: Traversable) -> Iterator[CollectiveRow | Unread]:
    listed = [(line, cells) for line, cells in records(file) if not cells[0].startswith("#")]
    headers = listed[0][1] if listed else []
    if not _is_header(headers):
        refuse_other_marks(file, headers)
        message = (
            f"{file}: header: got no column of a system, ranks, bytes and a time; allowed: system, "
            "collective, ranks, nodes, bytes, time_us, or system, op_name, nccl_dtype, num_gpus, "
            "message_elements, latency_us"
        )
        raise InvalidError(message)
    columns = [_BY_SPELLING.get(plain(cell)) for cell in headers]
    for line, cells in listed[1:]:
        found, fault = joined(columns, headers, cells)
        try:
            if fault:
                raise InvalidError(fault)
            yield _row(file.name, line, found)
        except ScalewrightError as error:
            yield Unread(file.name, line, found.get("system", ""), str(error))


def _row(file: str, line: int, cells: dict[str, str]) -> CollectiveRow:
    if not cells.get("system"):
        message = "system: got nothing; allowed: the name of a system"
        raise InvalidError(message)
    nodes = cells.get("nodes", "")
    # a file of one collective, as that of a custom all-reduce, has no column for it
    collective = cells.get("collective") or "all_reduce"
    return CollectiveRow(
        file=file,
        line=line,
        system=cells["system"],
        collective=collective.casefold().replace("-", "_").removesuffix("_perf"),
        algorithm=cells.get("algorithm", ""),
        dtype=cells.get("dtype", ""),
        ranks=_count("ranks", cells.get("ranks", ""), least=2),
        nodes=_count("nodes", nodes) if nodes else None,
        bytes=_bytes(cells),
        time_s=_number("time_us", cells.get("time", "")) * 1e-6,
        source=cells.get("source", ""),
    )


def _bytes(cells: dict[str, str]) -> float:
    if cells.get("bytes"):
        return _number("bytes", cells["bytes"])
    dtype = cells.get("dtype", "").casefold()
    if dtype not in _ELEMENT_BYTES:
        known = ", ".join(_ELEMENT_BYTES)
        message = f"dtype: got '{short(dtype)}'; allowed: {known}"
        raise InvalidError(message)
    return _number("message_elements", cells.get("elements", "")) * _ELEMENT_BYTES[dtype]


def _count(field: str, text: str, least: int = 1) -> int:
    if re.fullmatch(r"[0-9]{1,7}(\.0*)?", text) and float(text) >= least:
        return int(float(text))
    message = f"{field}: got '{short(text)}'; allowed: one whole number from {least} to 9999999"
    raise InvalidError(message)


def _number(field: str, text: str) -> float:
    if re.fullmatch(r"[0-9]+\.?[0-9]*(e[+-]?[0-9]{1,2})?", text, re.IGNORECASE):
        value = float(text)
        if 0.0 < value < _MOST:
            return value
    message = f"{field}: got '{short(text)}'; allowed: one number above 0, below 1e18"
    raise InvalidError(message)
