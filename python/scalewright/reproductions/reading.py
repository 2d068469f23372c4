"""Which published results does a CSV file hold, one by line?"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError
from scalewright.reproductions.columns import meanings, time_column

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_FOLDER = "published"
_BESIDE_RESULTS = {"findings.csv", "residuals.csv"}
_MOST_COUNT = 2**32
_FEWEST_COLUMNS = 4
_LONGEST = 40
_OTHER_MARKS = ";\t|"
_OPEN_QUOTE = "a quote opens here and never closes"
_BLANK = {"", "-", "n/a", "na", "none given", "?", "unknown", "nan"}
_VTRAIN = "Bang et al. 2023 (vTrain, arXiv 2312.12391)"


@dataclass(frozen=True)
class Row:
    """One published figure and what its source says about the run."""

    file: str
    line: int
    cells: dict[str, str]
    """Text by column, blanks left out."""
    headers: dict[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)
    """The file's own name of a column."""
    fault: str = ""
    """Why the line cannot be read as a row; empty where it can."""

    def check(self) -> None:
        """Refuse a line that is no row.

        Raises:
            InvalidError: Its cells do not match the header, or two of them contradict each other.
        """
        if self.fault:
            raise InvalidError(self.fault)

    def named(self, column: str) -> str:
        """Return what the file calls a column."""
        return self.headers.get(column, column)

    def text(self, column: str) -> str:
        """Return a cell, empty where it is blank."""
        return self.cells.get(column, "")

    def count(self, column: str) -> int | None:
        """Return a whole number above zero, or none where the cell is blank.

        Raises:
            InvalidError: The cell holds something else.
        """
        text = self.text(column)
        if not text:
            return None
        plain = text.replace(",", "").replace("_", "")
        if re.fullmatch(r"[0-9]{1,10}(\.0*)?", plain) and 0 < float(plain) <= _MOST_COUNT:
            return int(float(plain))
        got = f"{self.named(column)}: got '{_short(text)}'"
        message = f"{got}; allowed: one whole number from 1 to 2^32"
        raise InvalidError(message)

    def word(self, column: str, allowed: tuple[str, ...]) -> str:
        """Return one of the allowed words, the first where the cell is blank.

        Raises:
            InvalidError: The cell holds something else.
        """
        text = self.text(column).casefold() or allowed[0]
        if text in allowed:
            return text
        got = f"{self.named(column)}: got '{_short(text)}'"
        message = f"{got}; allowed: {', '.join(allowed)}"
        raise InvalidError(message)

    def number(self, column: str) -> float:
        """Return a number above zero.

        Raises:
            InvalidError: The cell is blank or holds something else.
        """
        text = self.text(column)
        plain = text.replace(",", "").strip("~≈<>% ")
        if re.fullmatch(r"[0-9]*\.?[0-9]+(e[+-]?[0-9]{1,2})?|[0-9]+\.", plain, re.IGNORECASE):
            value = float(plain)
            if 1e-30 < value < 1e30:
                return value
        got = f"'{_short(text)}'" if text else "nothing"
        message = f"{self.named(column)}: got {got}; allowed: one number from 1e-30 to 1e30"
        raise InvalidError(message)


def shipped_rows() -> list[Row]:
    """Return the rows that come with the package, file by file."""
    folder = built_in_root() / _FOLDER
    tables = (f for f in folder.iterdir() if f.name.endswith(".csv"))
    files = sorted((f for f in tables if f.name not in _BESIDE_RESULTS), key=lambda f: f.name)
    return [row for file in files for row in _rows(file)]


def read_rows(path: str | Path) -> list[Row]:
    """Return the rows of a user's file; see `shipped_rows`.

    Raises:
        InvalidError: The file cannot be read, has no rows, or lacks the columns that every row
            needs.
    """
    rows = _rows(Path(path))
    if not rows:
        message = f"{path}: got no row below the header; allowed: one at least"
        raise InvalidError(message)
    return rows


def _rows(file: Traversable) -> list[Row]:
    records = _records(file)
    # a remark above the header says where the data come from
    start = next((i for i, (_, cells) in enumerate(records) if _is_header(cells)), None)
    if start is None:
        message = f"{file}: got no header; allowed: columns as paper, model, devices, metric, value"
        raise InvalidError(message)
    headers = records[start][1]
    columns = meanings(headers)
    times = time_column(headers)
    if "value" not in columns and times is None:
        if len(headers) == 1 and any(mark in headers[0] for mark in _OTHER_MARKS):
            got = f"got one column, '{_short(headers[0])}'"
            message = f"{file}: header: {got}; allowed: columns with commas between them"
            raise InvalidError(message)
        message = f"{file}: header: got no column of figures; allowed: value, iteration time (ms)"
        raise InvalidError(message)
    stem = file.name.rpartition(".")[0] or file.name
    said = {"table": stem, "paper": stem if "hardware" in columns else f"{_VTRAIN}, {stem}"}
    named: dict[str, str] = {}
    for column, header in zip(columns, headers, strict=True):
        if column is not None:
            named.setdefault(column, header.strip())
    found: list[Row] = []
    for line, cells in records[start + 1 :]:
        row, fault = _read(columns, headers, cells)
        if times is not None and "value" not in columns:
            place, unit = times
            value = cells[place].strip() if place < len(cells) else ""
            row |= {"metric": "iteration_time", "unit": unit, "value": value}
            row = said | row
        kept = {c: t for c, t in row.items() if t.casefold() not in _BLANK}
        found.append(Row(file.name, line, kept, named, fault))
    return found


def _read(
    columns: list[str | None], headers: list[str], cells: list[str]
) -> tuple[dict[str, str], str]:
    """Return the cells of a line by column, and what is wrong with the line."""
    fault = ""
    if len(cells) < len(headers) or any(c.strip() for c in cells[len(headers) :]):
        fault = (
            f"cells: got {len(cells)}; allowed: {len(headers)}, one for each column of the header "
            "(a text with a comma needs quotes)"
        )
    row: dict[str, str] = {}
    for column, cell in zip(columns, cells, strict=False):
        text = cell.strip()
        if column is None or (text.casefold() in _BLANK and column in row):
            continue
        before = row.get(column, "")
        if before.casefold() not in _BLANK and before != text:
            named = " and ".join(
                f"'{_short(header)}'"
                for header, meant in zip(headers, columns, strict=True)
                if meant == column
            )
            got = f"got '{_short(before)}' and '{_short(text)}'"
            fault = fault or f"{column}: {got}; allowed: one value in columns {named}"
        row[column] = text
    return row, fault


def _records(file: Traversable) -> list[tuple[int, list[str]]]:
    """Return the filled records with the number of the line on which each ends."""
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else None
        message = f"{file}: cannot be read: {told or error}"
        raise InvalidError(message) from error
    records: list[tuple[int, list[str]]] = []
    last = 0
    try:
        text = content.decode("utf-8-sig").replace("\0", "")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        for cells in reader:
            last = reader.line_num
            if any(c.strip() for c in cells):
                records.append((last, cells))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        got = f"line {line}: got the byte 0x{content[error.start]:02x}"
        message = f"{file}: {got}; allowed: text in UTF-8"
        raise InvalidError(message) from error
    except csv.Error as error:
        told = _OPEN_QUOTE if "unexpected end" in str(error) else str(error)
        message = f"{file}: line {last + 1}: cannot be read as CSV: {told}"
        raise InvalidError(message) from error
    return records


def _is_header(cells: list[str]) -> bool:
    known = sum(meaning is not None for meaning in meanings(cells))
    return known >= _FEWEST_COLUMNS or not cells[0].startswith("#")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
