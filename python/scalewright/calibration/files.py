"""Which measured rows do a user's files hold?"""

from __future__ import annotations

import codecs
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from scalewright.calibration.left_out import none_left
from scalewright.calibration.logs import read_log
from scalewright.calibration.measured import Measured, SkippedLine
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
from scalewright.reproductions.collectives.names import (
    COLLECTIVES,
    collective_in,
    collective_named,
)
from scalewright.reproductions.records import joined, table_in

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAYOUTS = (
    "collective, ranks, bytes, time_us, or op_name, nccl_dtype, num_gpus, message_elements, "
    "latency_us"
)
_LINES_NAMED = 5
# the longer mark first: it begins as the shorter one does
_OTHER_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def read_files(
    paths: Sequence[str],
    *,
    ranks: int | None = None,
    collective: str | None = None,
    only: str | None = None,
) -> list[Measured | SkippedLine]:
    """Return the rows of logs and CSV files, and the lines that cannot be used.

    Args:
        paths: Logs as nccl-tests or rccl-tests print them, or CSV files with the columns
            `collective`, `ranks`, `bytes`, `time_us` and perhaps `nodes` and `system`, under any
            spelling that measured collectives of the package have.
        ranks: Ranks of logs that do not list them.
        collective: The collective of files that do not name it.
        only: Take only the CSV rows whose `system` contains this.

    Raises:
        InvalidError: A file cannot be read, or holds no line that can be used.
    """
    spoken = None
    if collective is not None:
        spoken = collective_named(collective)
        if spoken is None:
            message = f"collective: got {collective!r:.60}; allowed: {', '.join(COLLECTIVES)}"
            raise InvalidError(message)
    texts = {path: _text(path) for path in paths}
    tables = {path for path, text in texts.items() if _is_table(path, text)}
    if only is not None and not tables:
        message = f"--only: got '{only:.60}'; allowed: beside a CSV file, whose rows say a system"
        raise InvalidError(message)
    found: list[Measured | SkippedLine] = []
    for path, text in texts.items():
        if path in tables:
            rows = _read_table(path, spoken, only)
        else:
            rows = read_log(path, text, ranks, spoken)
        if not any(isinstance(row, Measured) for row in rows):
            named = "; ".join(str(row) for row in rows[:_LINES_NAMED])
            got = f"got no row that can be used: {named}" if rows else "got no measured row"
            message = f"{path}: {got}; allowed: what nccl-tests prints, or CSV with {_LAYOUTS}"
            raise InvalidError(message)
        found.extend(rows)
    return found


def _text(path: str) -> str:
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"{path}: cannot be read: {reason}"
        raise InvalidError(message) from error
    for mark, name in _OTHER_ENCODINGS.items():
        if content.startswith(mark):
            message = f"{path}: encoding: got {name}; allowed: UTF-8"
            raise InvalidError(message)
    return content.decode("utf-8-sig", "replace")


def _is_table(path: str, text: str) -> bool:
    if path.casefold().endswith(".csv"):
        return True
    names = set(columns_of(text.split("\n", 1)[0].split(",")))
    return "ranks" in names and not names.isdisjoint(FIGURES) and not names.isdisjoint(SIZES)


def _missing(columns: Sequence[str | None], usual: str | None) -> list[str]:
    """List the columns that a table lacks."""
    missing = [] if "ranks" in columns else ["ranks"]
    if set(FIGURES).isdisjoint(columns):
        missing.append("time_us")
    if set(SIZES).isdisjoint(columns):
        missing.append("bytes")
    if "collective" not in columns and usual is None:
        missing.insert(0, "collective")
    return missing


def _read_table(
    path: str, collective: str | None, only: str | None
) -> list[Measured | SkippedLine]:
    table = table_in(Path(path), known_in)
    listed = [(line, cells) for line, cells in table.lines if not cells[0].startswith("#")]
    headers = listed[0][1] if listed else []
    columns = columns_of(headers)
    # a file of one collective, as that of a custom all-reduce, has no column for it
    usual = collective_in(PurePath(path).name) or collective
    missing = _missing(columns, usual)
    if missing:
        message = f"{path}, line 1: got no column {missing[0]}; allowed: {_LAYOUTS}"
        raise InvalidError(message)
    found: list[Measured | SkippedLine] = []
    systems: set[str] = set()
    spelt: dict[str, None] = {}
    for line, cells in listed[1:]:
        row, fault = joined(columns, headers, cells, unsure=table.unsure)
        system = row.get("system", "")
        spelt[system] = None
        if only is not None and only.casefold() not in system.casefold():
            continue
        systems.add(system)
        place = f"{path}, line {line}"
        try:
            if fault:
                raise InvalidError(fault)
            found.append(_measured(row, usual, place))
        except ScalewrightError as error:
            found.append(SkippedLine(place, str(error)))
    if only is not None and not found and spelt:
        message = f"{path}: {none_left(only, spelt)}"
        raise InvalidError(message)
    if len(systems) > 1:
        message = (
            f"{path}: system: got rows of {len(systems)} systems; "
            f"allowed: rows of one; --only TEXT takes those whose system contains it"
        )
        raise InvalidError(message)
    return found


def _measured(row: dict[str, str], usual: str | None, place: str) -> Measured:
    name = row.get("collective", "")
    known = collective_named(name) if name or usual is None else usual
    if known is None:
        message = f"collective: got {name!r:.60}; allowed: {', '.join(COLLECTIVES)}"
        raise InvalidError(message)
    ranks, size, time = ranks_in(row), bytes_in(row), time_in(row)
    if size < 1:
        message = f"bytes: got {size:g}; allowed: 1 or more"
        raise InvalidError(message)
    refuse_unlike_rates(known, ranks, size, row)
    return Measured(
        collective=known,
        ranks=ranks,
        nodes=nodes_in(row),
        buffer_bytes=int(size),
        time_s=time,
        in_place_time_s=None,
        place=place,
    )
