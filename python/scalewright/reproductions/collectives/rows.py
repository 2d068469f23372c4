"""Which measured collectives does a CSV file hold, one by line?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.reproductions.collectives.cells import (
    FIGURES,
    SIZES,
    bytes_in,
    columns_of,
    known_in,
    nodes_in,
    ranks_in,
    refuse_unlike_rates,
    time_in,
)
from scalewright.reproductions.collectives.names import collective_named
from scalewright.reproductions.records import (
    header_in,
    joined,
    refuse_other_marks,
    some,
    table_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

_FOLDER = ("published", "collectives")


@dataclass(frozen=True)
class CollectiveRow:
    """One measured run of a collective."""

    file: str
    line: int
    system: str
    """The machines, as the source spells them; empty where the file does not say."""
    collective: str
    """The engine's name of it; as the source spells it where that is unknown."""
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
class UnreadCollectiveRow:
    """A line that holds no usable figure, and why."""

    file: str
    line: int
    system: str
    reason: str


def holds_collectives(path: str | Path) -> bool:
    """Say whether a CSV file has the columns of measured collectives, not of training runs.

    Also where their time lacks, or its unit, which is told when the file is read.
    """
    cells = header_in(Path(path), known_in)
    return _is_header(cells) or _lacks_time(cells)


@cache
def shipped() -> tuple[CollectiveRow | UnreadCollectiveRow, ...]:
    """Return the rows that come with the package, file by file."""
    folder = built_in_root()
    for part in _FOLDER:
        folder = folder / part
    others = ("systems.csv", "claims.csv")
    files = [f for f in folder.iterdir() if f.name.endswith(".csv") and f.name not in others]
    return tuple(row for file in sorted(files, key=lambda f: f.name) for row in _rows(file))


def read(path: str | Path) -> list[CollectiveRow | UnreadCollectiveRow]:
    """Return the rows of a user's file.

    Raises:
        InvalidError: The file cannot be read, has no rows, or lacks the columns that every row
            needs.
    """
    return some(path, list(_rows(Path(path))))


def _is_header(cells: Sequence[str]) -> bool:
    names = set(columns_of(cells))
    # one option may tell the system of all rows, whose columns then tell them from training runs
    timed = "time" in names or ("collective" in names and not names.isdisjoint(FIGURES))
    sized = not names.isdisjoint(SIZES) and not names.isdisjoint({"system", "collective"})
    return timed and sized and "ranks" in names


def _lacks_time(cells: Sequence[str]) -> bool:
    names = set(columns_of(cells))
    sized = {"collective", "ranks"} <= names and not names.isdisjoint(SIZES)
    trained = {"metric", "value", "model"} & {cell.strip().casefold() for cell in cells}
    return sized and not trained and names.isdisjoint(FIGURES)


def _rows(file: Traversable) -> Iterator[CollectiveRow | UnreadCollectiveRow]:
    table = table_in(file, known_in)
    listed = [(line, cells) for line, cells in table.lines if not cells[0].startswith("#")]
    headers = listed[0][1] if listed else []
    if not _is_header(headers):
        refuse_other_marks(file, headers)
        if _lacks_time(headers):
            got = f"{file}: header: got columns of collectives and no time with its unit"
            message = f"{got}; allowed: time_us, time_ms, time_s, algbw_GBps, busbw_GBps"
            raise InvalidError(message)
        message = (
            f"{file}: header: got no column of a system, ranks, bytes and a time; allowed: system, "
            "collective, ranks, nodes, bytes, time_us, or system, op_name, nccl_dtype, num_gpus, "
            "message_elements, latency_us"
        )
        raise InvalidError(message)
    columns = columns_of(headers)
    for line, cells in listed[1:]:
        found, fault = joined(columns, headers, cells, unsure=table.unsure)
        try:
            if fault:
                raise InvalidError(fault)
            yield _row(file.name, line, found)
        except ScalewrightError as error:
            yield UnreadCollectiveRow(file.name, line, found.get("system", ""), str(error))


def _row(file: str, line: int, cells: dict[str, str]) -> CollectiveRow:
    # a file of one collective, as that of a custom all-reduce, has no column for it
    told = cells.get("collective") or "all_reduce"
    known = collective_named(told)
    cells = {**cells, "collective": told}
    ranks, size, time = ranks_in(cells), bytes_in(cells), time_in(cells)
    refuse_unlike_rates(known, ranks, size, cells)
    return CollectiveRow(
        file=file,
        line=line,
        system=cells.get("system", ""),
        collective=known or told.casefold().replace("-", "_").removesuffix("_perf"),
        algorithm=cells.get("algorithm", ""),
        dtype=cells.get("dtype", ""),
        ranks=ranks,
        nodes=nodes_in(cells),
        bytes=size,
        time_s=time,
        source=cells.get("source", ""),
    )
