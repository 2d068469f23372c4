"""Which records does a CSV file of figures hold, and which column does each cell fill?"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, TypeVar

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable
    from pathlib import Path

Row = TypeVar("Row")
BLANK = {"", "-", "\u2013", "\u2014", "n/a", "na", "none given", "?", "unknown", "nan"}
"""Cells that say nothing."""
_LONGEST, _LINES_NAMED = 40, 5
_OTHER_MARKS = ";\t|"
_OPEN_QUOTE = "a quote opens here and never closes"


def records(file: Traversable) -> list[tuple[int, list[str]]]:
    """Return the filled records with the number of the line on which each ends.

    Raises:
        InvalidError: The file cannot be read, is no UTF-8, or has quotes that do not close.
    """
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else None
        message = f"{file}: cannot be read: {told or error}"
        raise InvalidError(message) from error
    found: list[tuple[int, list[str]]] = []
    last = 0
    try:
        text = content.decode("utf-8-sig").replace("\0", "")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        for cells in reader:
            last = reader.line_num
            if any(c.strip() for c in cells):
                found.append((last, cells))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        got = f"line {line}: got the byte 0x{content[error.start]:02x}"
        message = f"{file}: {got}; allowed: text in UTF-8"
        raise InvalidError(message) from error
    except csv.Error as error:
        told = _OPEN_QUOTE if "unexpected end" in str(error) else str(error)
        message = f"{file}: line {last + 1}: cannot be read as CSV: {told}"
        raise InvalidError(message) from error
    return found


def joined(
    columns: Sequence[str | None], headers: Sequence[str], cells: Sequence[str]
) -> tuple[dict[str, str], str]:
    """Return the cells of a line by column, and what is wrong with the line.

    Wrong are more or fewer cells than the header has, and two columns of one meaning with unlike
    values.
    """
    fault = ""
    if len(cells) < len(headers) or any(c.strip() for c in cells[len(headers) :]):
        fault = (
            f"cells: got {len(cells)}; allowed: {len(headers)}, one for each column of the header "
            "(a text with a comma needs quotes)"
        )
    row: dict[str, str] = {}
    for column, cell in zip(columns, cells, strict=False):
        text = cell.strip()
        if column is None or (text.casefold() in BLANK and column in row):
            continue
        before = row.get(column, "")
        if before.casefold() not in BLANK and before != text:
            named = " and ".join(
                f"'{short(header)}'"
                for header, meant in zip(headers, columns, strict=True)
                if meant == column
            )
            got = f"got '{short(before)}' and '{short(text)}'"
            fault = fault or f"{column}: {got}; allowed: one value in columns {named}"
        row[column] = text
    return row, fault


def some(path: str | Path, rows: list[Row]) -> list[Row]:
    """Return the rows of a user's file.

    Raises:
        InvalidError: There is none.
    """
    if not rows:
        message = f"{path}: got no row below the header; allowed: one at least"
        raise InvalidError(message)
    return rows


def refuse_other_marks(file: Traversable, headers: Sequence[str]) -> None:
    """Refuse a header whose columns something else than a comma parts.

    Raises:
        InvalidError: It is one.
    """
    if len(headers) == 1 and any(mark in headers[0] for mark in _OTHER_MARKS):
        got = f"got one column, '{short(headers[0])}'"
        message = f"{file}: header: {got}; allowed: columns with commas between them"
        raise InvalidError(message)


def skipped(reason: str, places: Sequence[str]) -> str:
    """Say why lines are left out, and which."""
    named = ", ".join(places[:_LINES_NAMED])
    more = f" and {len(places) - _LINES_NAMED} more" if len(places) > _LINES_NAMED else ""
    return f"skipped {len(places)} ({named}{more}): {reason}"


def short(text: str) -> str:
    """Return a text cut for a message."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
