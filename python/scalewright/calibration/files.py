"""Which measured rows do a user's files hold?"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.calibration.logs import read_log
from scalewright.calibration.measured import COLLECTIVES, Measured, collective_named
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NEEDED = ("collective", "ranks", "bytes", "time_us")
_MOST_RANKS = 2**32 - 1
_MOST_BYTES = 1e30
_MICROSECONDS = 1e6


def read_files(
    paths: Sequence[str],
    *,
    ranks: int | None = None,
    collective: str | None = None,
    only: str | None = None,
) -> list[Measured]:
    """Return the rows of logs and CSV files.

    Args:
        paths: Logs as nccl-tests or rccl-tests print them, or CSV files with the columns
            `collective`, `ranks`, `bytes`, `time_us` and perhaps `nodes` and `system`.
        ranks: Ranks of logs that do not list them.
        collective: The collective of logs that do not name it.
        only: Take only the CSV rows whose `system` contains this.

    Raises:
        InvalidError: A file cannot be read; says which line is wrong.
    """
    spoken = None
    if collective is not None:
        spoken = collective_named(collective)
        if spoken is None:
            message = f"collective: got {collective!r:.60}; allowed: {', '.join(COLLECTIVES)}"
            raise InvalidError(message)
    found: list[Measured] = []
    for path in paths:
        text = _text(path)
        if _is_table(path, text):
            rows = _read_table(path, text, only)
        else:
            rows = read_log(path, text, ranks, spoken)
        if not rows:
            message = (
                f"{path}: got no measured row; allowed: what nccl-tests prints, "
                f"or CSV with {', '.join(_NEEDED)}"
            )
            raise InvalidError(message)
        found.extend(rows)
    return found


def _text(path: str) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8-sig", "replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"{path}: cannot be read: {reason}"
        raise InvalidError(message) from error


def _is_table(path: str, text: str) -> bool:
    first = text.split("\n", 1)[0]
    return path.endswith(".csv") or all(name in first.split(",") for name in _NEEDED)


def _read_table(path: str, text: str, only: str | None) -> list[Measured]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    found: list[Measured] = []
    systems: set[str] = set()
    try:
        missing = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
        if missing:
            message = f"{path}, line 1: got no column {missing[0]}; allowed: {', '.join(_NEEDED)}"
            raise InvalidError(message)
        for row in reader:
            system = row.get("system") or ""
            if only is None or only.casefold() in system.casefold():
                systems.add(system)
                found.append(_measured(row, f"{path}, line {reader.line_num}"))
    except csv.Error as error:
        message = f"{path}, line {reader.line_num}: got a broken line ({error}); allowed: CSV"
        raise InvalidError(message) from error
    if len(systems) > 1:
        message = (
            f"{path}: system: got rows of {len(systems)} systems; "
            f"allowed: rows of one; --only TEXT takes those whose system contains it"
        )
        raise InvalidError(message)
    return found


def _measured(row: dict[str, str | None], place: str) -> Measured:
    name = row["collective"] or ""
    known = collective_named(name)
    if known is None:
        message = f"{place}: collective: got {name!r:.60}; allowed: {', '.join(COLLECTIVES)}"
        raise InvalidError(message)
    nodes = row.get("nodes")
    size = _amount(row, "bytes", place)
    if size < 1:
        message = f"{place}: bytes: got {size:g}; allowed: 1 or more"
        raise InvalidError(message)
    return Measured(
        collective=known,
        ranks=_count(row, "ranks", place, least=2),
        nodes=_count(row, "nodes", place, least=1) if nodes else None,
        buffer_bytes=int(size),
        time_s=_amount(row, "time_us", place) / _MICROSECONDS,
        in_place_time_s=None,
        place=place,
    )


def _count(row: dict[str, str | None], column: str, place: str, least: int) -> int:
    value = _amount(row, column, place)
    if not (least <= value <= _MOST_RANKS and value == int(value)):
        message = f"{place}: {column}: got {value:g}; allowed: a whole number from {least}"
        raise InvalidError(message)
    return int(value)


def _amount(row: dict[str, str | None], column: str, place: str) -> float:
    cell = row[column]
    try:
        value = float(cell or "")
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST_BYTES:
        message = f"{place}: {column}: got {cell!r:.60}; allowed: a number above 0"
        raise InvalidError(message)
    return value
