"""Which records does a CSV file of figures hold, and which column does each cell fill?"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from scalewright.errors import InvalidError
from scalewright.reproductions.marks import (
    COMMA,
    SEMICOLON,
    decimals_of,
    is_unsure,
    mark_of,
    told_mark,
    with_points,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.resources.abc import Traversable
    from pathlib import Path

Row = TypeVar("Row")
_UNSAID = ("stated", "said", "given", "printed", "reported", "specified", "mentioned", "disclosed")
BLANK = {"", "-", "\u2013", "\u2014", "n/a", "na", "?", "unknown", "nan"} | {
    f"{denial}{word}" for denial in ("none ", "not ", "un") for word in _UNSAID
}
"""Cells that say nothing."""
_LONGEST, _LINES_NAMED = 40, 5
_OTHER_MARKS = ";\t|"
_MOST_OF_A_HEADER = 65536
_OPEN_QUOTE = "a quote opens here and never closes"


@dataclass(frozen=True)
class Table:
    """The filled records of a file."""

    lines: list[tuple[int, list[str]]]
    """Cells by the number of the line on which a record begins; decimals behind a point."""
    unsure: bool = False
    """True where nothing tells whether `1,024` is a thousand or has three decimals."""


def table_in(file: Traversable, known: Callable[[Sequence[str]], int]) -> Table:
    """Return the records of a file whose columns a comma, a semicolon or a tab parts.

    Args:
        file: The file.
        known: Counts the known headings of a record; the mark by which a header has most counts.

    Raises:
        InvalidError: The file cannot be read, is no UTF-8, or has quotes that do not close.
    """
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else None
        message = f"{file}: cannot be read: {told or error}"
        raise InvalidError(message) from error
    try:
        text = content.decode("utf-8-sig").replace("\0", "")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        got = f"line {line}: got the byte 0x{content[error.start]:02x}"
        message = f"{file}: {got}; allowed: text in UTF-8"
        raise InvalidError(message) from error
    said, rest = told_mark(text)
    mark = said or mark_of(rest, known)
    lines = _lines(file, rest, mark, 0 if said is None else 1)
    if mark == COMMA:
        return Table(lines)
    decimals = decimals_of(cells for _, cells in lines)
    plain = [(line, [with_points(cell, decimals) for cell in cells]) for line, cells in lines]
    return Table(plain, len(decimals) > 1 or (not decimals and mark == SEMICOLON))


def _lines(file: Traversable, text: str, mark: str, before: int) -> list[tuple[int, list[str]]]:
    """Return the filled records of a text in front of which so many lines are left out."""
    found: list[tuple[int, list[str]]] = []
    last = before
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
        for cells in reader:
            first, last = last + 1, reader.line_num + before
            if any(c.strip() for c in cells):
                found.append((first, cells))
    except csv.Error as error:
        told = _OPEN_QUOTE if "unexpected end" in str(error) else str(error)
        message = f"{file}: line {last + 1}: cannot be read as CSV: {told}"
        raise InvalidError(message) from error
    return found


def header_in(path: Path, known: Callable[[Sequence[str]], int]) -> list[str]:
    """Return the first record that is no remark; none where the file cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            said, rest = told_mark(file.read(_MOST_OF_A_HEADER))
        kept = (line for line in rest.splitlines() if not line.startswith("#"))
        reader = csv.reader(kept, delimiter=said or mark_of(rest, known))
        first = [cells for cells, _ in zip(reader, range(1), strict=False)]
    except (OSError, csv.Error):
        return []
    return first[0] if first else []


def joined(
    columns: Sequence[str | None],
    headers: Sequence[str],
    cells: Sequence[str],
    *,
    unsure: bool = False,
) -> tuple[dict[str, str], str]:
    """Return the cells of a line by column, and what is wrong with the line.

    Wrong are more or fewer cells than the header has, two columns of one meaning with unlike
    values, and where a table is `unsure`, numbers that may be either of two.
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
        if unsure and is_unsure(text):
            fault = fault or unlike_marks(column, text)
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


def unlike_marks(column: str, text: str) -> str:
    """Say that a number may have three decimals or groups of three digits."""
    why = "without the mark between thousands, as nothing tells which mark decimals have"
    return f"{column}: got '{short(text)}'; allowed: a number {why}"


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
    """Refuse a header whose columns something else than a comma, a semicolon or a tab parts.

    Raises:
        InvalidError: It is one.
    """
    allowed = "columns with commas, semicolons or tabs between them"
    if headers and headers[0].lstrip().startswith("|"):
        message = f"{file}: header: got a table of Markdown; allowed: {allowed}"
        raise InvalidError(message)
    if len(headers) == 1 and any(mark in headers[0] for mark in _OTHER_MARKS):
        got = f"got one column, '{short(headers[0])}'"
        message = f"{file}: header: {got}; allowed: {allowed}"
        raise InvalidError(message)


def skipped(reason: str, places: Sequence[str]) -> str:
    """Say why lines are left out, and which."""
    return f"skipped {places_named(places)}: {reason}"


def places_named(places: Sequence[str]) -> str:
    """Return how many lines there are, and the first of them."""
    named = ", ".join(places[:_LINES_NAMED])
    more = f" and {len(places) - _LINES_NAMED} more" if len(places) > _LINES_NAMED else ""
    return f"{len(places)} ({named}{more})"


def short(text: str) -> str:
    """Return a text cut for a message."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
