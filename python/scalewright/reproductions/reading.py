"""Which published results does a CSV file hold, one by line?"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
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
_ABSENT = {"none", "no", "off", "false", "disabled"}
"""A degree that a run does without is one."""
_BLANK = {"", "-", "n/a", "na", "none given", "?", "unknown", "nan"}
_VTRAIN = "Bang et al. 2023 (vTrain, arXiv 2312.12391)"


@dataclass(frozen=True)
class Row:
    """One published figure and what its source says about the run."""

    file: str
    line: int
    cells: dict[str, str]
    """Text by column, blanks left out."""

    def text(self, column: str) -> str:
        """Return a cell, empty where it is blank."""
        return self.cells.get(column, "")

    def count(self, column: str) -> int | None:
        """Return a whole number above zero, or none where the cell is blank.

        `none` and its like are one, as a degree that a run does without.

        Raises:
            InvalidError: The cell holds something else.
        """
        text = self.text(column)
        if not text:
            return None
        if text.casefold() in _ABSENT:
            return 1
        plain = text.replace(",", "").replace("_", "")
        if re.fullmatch(r"[0-9]{1,10}(\.0*)?", plain) and 0 < float(plain) <= _MOST_COUNT:
            return int(float(plain))
        message = f"{column}: got '{_short(text)}'; allowed: one whole number from 1 to 2^32"
        raise InvalidError(message)

    def word(self, column: str, allowed: tuple[str, ...]) -> str:
        """Return one of the allowed words, the first where the cell is blank.

        Raises:
            InvalidError: The cell holds something else.
        """
        text = self.text(column).casefold() or allowed[0]
        if text in allowed:
            return text
        message = f"{column}: got '{_short(text)}'; allowed: {', '.join(allowed)}"
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
        message = f"{column}: got {got}; allowed: one number from 1e-30 to 1e30"
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
        InvalidError: The file cannot be read, or lacks the columns that every row needs.
    """
    return _rows(Path(path))


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
        message = f"{file}: header: got no column of figures; allowed: value, iteration time (ms)"
        raise InvalidError(message)
    stem = file.name.rpartition(".")[0] or file.name
    said = {"table": stem, "paper": stem if "hardware" in columns else f"{_VTRAIN}, {stem}"}
    found: list[Row] = []
    for line, cells in records[start + 1 :]:
        row = {c: t.strip() for c, t in zip(columns, cells, strict=False) if c is not None}
        if times is not None and "value" not in columns:
            place, unit = times
            value = cells[place].strip() if place < len(cells) else ""
            row |= {"metric": "iteration_time", "unit": unit, "value": value}
            row = said | row
        kept = {c: t for c, t in row.items() if t.casefold() not in _BLANK}
        found.append(Row(file.name, line, kept))
    return found


def _records(file: Traversable) -> list[tuple[int, list[str]]]:
    """Return the filled records with the number of the line on which each ends."""
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\0", "")
        reader = csv.reader(io.StringIO(text, newline=""))
        return [(reader.line_num, cells) for cells in reader if any(c.strip() for c in cells)]
    except (OSError, ValueError, csv.Error) as error:
        message = f"{file}: cannot be read as CSV: {error}"
        raise InvalidError(message) from error


def _is_header(cells: list[str]) -> bool:
    known = sum(meaning is not None for meaning in meanings(cells))
    return known >= _FEWEST_COLUMNS or not cells[0].startswith("#")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
