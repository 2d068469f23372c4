"""Which published results does a CSV file hold, one by line?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError
from scalewright.reproductions.cells import bare, unclear
from scalewright.reproductions.columns import column_of, meanings, plain, time_column
from scalewright.reproductions.layout_words import parse_layout
from scalewright.reproductions.marks import is_unsure
from scalewright.reproductions.metrics import ungrouped
from scalewright.reproductions.naming import vocabulary_of
from scalewright.reproductions.records import (
    BLANK,
    joined,
    refuse_other_marks,
    short,
    some,
    table_in,
    unlike_marks,
)
from scalewright.reproductions.units import in_seconds
from scalewright.reproductions.wide import (
    FigureColumn,
    as_figure,
    counted,
    figure_columns,
    figures,
    of_row,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

_FOLDER = "published"
UNSEEN = "unseen.csv"
"""Rows of sources that nobody wrote conventions for."""
_BESIDE_RESULTS = {"findings.csv", "residuals.csv", "unseen_residuals.csv", UNSEEN}
_KIBI = 1024
_MOST_COUNT = 2**32
_MOST_BILLIONS = 1e6
_LONGEST_RING = 512
_FEWEST_COLUMNS = 4
_MOST_NAMED = 12
_MOST_REMARKS = 10
"""Lines in which a header is looked for, behind a title and remarks."""
_DEGREES = frozenset({"tensor", "pipeline", "context", "expert", "data", "interleave"}) | {
    *("shards", "replicas", "accumulation"),
}
_NAMED_DEGREE = re.compile(
    r"(?:tp|pp|cp|ep|dp|vpp|vp)(?:[ =]?([0-9]+)|\(([0-9]+)\))", re.IGNORECASE
)
"""`TP8` and `TP(8)`."""
_SET = re.compile(r"([a-z][a-z_ -]{0,30}?) ?[=: ] ?([~≈]?[0-9].*)", re.IGNORECASE)
"""The name of a setting before what it is set to, as `n_layer = 6` and `batch 1`."""
_THOUSANDS = re.compile(r"[~≈]?([0-9]{1,4}(?:\.[0-9]{1,2})?) ?k", re.IGNORECASE)
_LENGTH = re.compile(r"([0-9]{1,10}) ?(k|m(?:illion)?)?(?: ?tokens)?")
_RESTATED = re.compile(
    r"([0-9][0-9,_]{0,12}) ?\([~≈]?([0-9]{1,4}(?:\.[0-9]{1,3})?) ?([kmx\u00d7])\)", re.I
)
"""A number, and the same in thousands or how many times another it is: `1048576 (1M)`."""
_ROUNDED = 0.03
"""How far a number in thousands may be from the one that it restates."""
_ABSENT = {"none", "no", "off", "false", "disabled"}
"""A degree that a run does without is one."""
_BILLIONS = {"m": 1e-3, "b": 1.0, "t": 1e3}
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
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
    unknown: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Headings of the file that mean nothing here."""

    def check(self) -> None:
        """Refuse a line that is no row.

        Raises:
            InvalidError: Its cells do not match the header, or two of them contradict each other.
        """
        if self.fault:
            raise InvalidError(self.fault)

    def explained(self, reason: str) -> str:
        """Return why a row is refused, with headings not understood where a column is missing."""
        lacking, told, _ = reason.partition(": got nothing")
        lacks = bool(told) and lacking not in {*self.headers, *self.headers.values(), "value"}
        return reason + not_understood(self.unknown) if lacks else reason

    def named(self, column: str) -> str:
        """Return what the file calls a column."""
        return self.headers.get(column, column)

    def text(self, column: str) -> str:
        """Return a cell, empty where it is blank."""
        return self.cells.get(column, "")

    def count(self, column: str) -> int | None:
        """Return a whole number above zero, or none where the cell is blank.

        A degree of `none` or 0 is one, as a run does without it; a sequence of `8K` has 8,192
        tokens.

        Raises:
            InvalidError: The cell holds something else.
        """
        text = self.text(column)
        if not text:
            return None
        if column in _DEGREES:
            if text.casefold() in _ABSENT | {"0"}:
                return 1
            named = _NAMED_DEGREE.fullmatch(text)
            text = text if named is None else named[1] or named[2]
        if (found := _SET.fullmatch(text)) is not None and column_of(found[1]) == column:
            text = found[2]
        if column == "vocab" and (thousands := _THOUSANDS.fullmatch(text)) is not None:
            return round(float(thousands[1]) * 1000)
        if column == "vocab" and (known := vocabulary_of(text)) is not None:
            return known
        plain = ungrouped(_once(bare(column, text))).replace("_", "")
        if column == "sequence" and (long := _LENGTH.fullmatch(plain.casefold())):
            return int(long[1]) * {"": 1, "k": _KIBI, "m": _KIBI * _KIBI}[(long[2] or "")[:1]]
        plain = plain.strip("~≈*†‡ ")
        if re.fullmatch(r"[0-9]{1,10}(\.0*)?", plain) and 0 < float(plain) <= _MOST_COUNT:
            return int(float(plain))
        got = f"{self.named(column)}: got '{short(text)}'{unclear(column, text)}"
        message = f"{got}; allowed: one whole number from 1 to 2^32"
        raise InvalidError(message)

    def told(self, column: str) -> int | None:
        """Return a whole number as `count` does; none where the cell holds something else, too."""
        try:
            return self.count(column)
        except InvalidError:
            return None

    def billions(self) -> float | None:
        """Return the parameters in billions; none where the row says none that can be read."""
        try:
            return self.number("parameters")
        except InvalidError:
            return None

    def word(self, column: str, allowed: tuple[str, ...]) -> str:
        """Return one of the allowed words, the first where the cell is blank.

        Raises:
            InvalidError: The cell holds something else.
        """
        text = self.text(column).casefold() or allowed[0]
        if text in allowed:
            return text
        got = f"{self.named(column)}: got '{short(text)}'"
        message = f"{got}; allowed: {', '.join(allowed)}"
        raise InvalidError(message)

    def number(self, column: str) -> float:
        """Return a number above zero.

        Raises:
            InvalidError: The cell is blank or holds something else.
        """
        text = self.text(column)
        plain = ungrouped(text).strip("~≈<>≤≥%*†‡+ ")
        if column == "parameters" and plain[-1:].casefold() in _BILLIONS:
            scale = _BILLIONS[plain[-1].casefold()]
            bare = plain[:-1].rstrip()
            plain = repr(float(bare) * scale) if _DECIMAL.fullmatch(bare) else plain
        if re.fullmatch(r"[0-9]*\.?[0-9]+(e[+-]?[0-9]{1,2})?|[0-9]+\.", plain, re.IGNORECASE):
            value = float(plain)
            if column == "parameters" and value > _MOST_BILLIONS:
                value *= 1e-9  # a count
            if 1e-30 < value < 1e30:
                return value
        got = f"'{short(text)}'" if text else "nothing"
        message = f"{self.named(column)}: got {got}; allowed: one number from 1e-30 to 1e30"
        raise InvalidError(message)


def shipped_rows() -> list[Row]:
    """Return the rows that come with the package, file by file."""
    folder = built_in_root() / _FOLDER
    tables = (f for f in folder.iterdir() if f.name.endswith(".csv"))
    files = sorted((f for f in tables if f.name not in _BESIDE_RESULTS), key=lambda f: f.name)
    return [row for file in files for row in _rows(file)]


def unseen_path() -> Path:
    """Return the file of rows whose sources nobody wrote conventions for."""
    return Path(str(built_in_root() / _FOLDER / UNSEEN))


def _once(text: str) -> str:
    """Return a number without what restates it behind it; whatever says another stays."""
    if (found := _RESTATED.fullmatch(text)) is None:
        return text
    scale = found[3].casefold()
    if scale in {"k", "m"}:
        number, many = int(ungrouped(found[1]).replace("_", "")), float(found[2])
        sizes = [base ** ("km".index(scale) + 1) * many for base in (1000, _KIBI)]
        if all(abs(size / number - 1.0) > _ROUNDED for size in sizes):
            return text
    return found[1]


def read_rows(path: str | Path) -> list[Row]:
    """Return the rows of a user's file; see `shipped_rows`.

    Raises:
        InvalidError: The file cannot be read, has no rows, or lacks the columns that every row
            needs.
    """
    return some(path, _rows(Path(path)))


@dataclass(frozen=True)
class _Heading:
    """What the header of a file says."""

    headers: list[str]
    columns: list[str | None]
    wide: tuple[FigureColumn, ...]
    """Columns that each hold the figures of a metric, where no column is headed `value`."""
    times: tuple[int, str] | None
    """Place and unit of vTrain's column of times."""
    said: dict[str, str]
    """What holds of each row that does not say otherwise."""

    @cached_property
    def named(self) -> dict[str, str]:
        """Return the file's own name of each column."""
        named: dict[str, str] = {}
        for column, header in zip(self.columns, self.headers, strict=True):
            if column is not None:
                named.setdefault(column, header.strip())
        return named

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """Return the headings that mean nothing here."""
        figures = {column.place for column in self.wide}
        figures |= {self.times[0]} if self.times is not None else set()
        return tuple(
            header.strip()
            for place, (header, column) in enumerate(zip(self.headers, self.columns, strict=True))
            if column is None and place not in figures and header.strip()
        )


def _rows(file: Traversable) -> list[Row]:
    table = table_in(file, _known)
    # a remark above the header says where the data come from
    start = _header(table.lines)
    if start is None:
        message = f"{file}: got no header; allowed: columns as paper, model, devices, metric, value"
        raise InvalidError(message)
    heading = _heading(file, table.lines[start][1])
    found: list[Row] = []
    for line, cells in table.lines[start + 1 :]:
        joint, fault = joined(heading.columns, heading.headers, cells, unsure=table.unsure)
        for each, own in _of_line(heading, joint, cells):
            if table.unsure and heading.wide and is_unsure(each.get("value", "")):
                own = own or unlike_marks(each.get("metric", "value"), each["value"])
            kept = {c: t for c, t in each.items() if t.casefold() not in BLANK or _is_nan(c, t)}
            kept |= in_seconds(kept.get("value", ""), kept.get("unit", ""))
            kept = _lengthened(_laid_out(kept, heading.named) | kept)
            named, unknown = heading.named, heading.unknown
            found.append(Row(file.name, line, kept, named, fault or own, unknown))
    return found


def _is_nan(column: str, text: str) -> bool:
    """Say whether a cell is a figure that is no number, which is refused as such."""
    return column == "value" and text.casefold() == "nan"


def _heading(file: Traversable, headers: list[str]) -> _Heading:
    """Understand a header.

    Raises:
        InvalidError: It has no column of figures, or its columns cannot be told apart.
    """
    columns = meanings(headers)
    # vTrain's files say no machine: theirs is one
    refuse_other_marks(file, headers)
    vtrain = not {"hardware", "model"} & set(columns)
    times = time_column(headers) if vtrain else None
    wide = () if "value" in columns or times is not None else figure_columns(headers, columns)
    stem = file.name.rpartition(".")[0] or file.name
    own = times is None or "value" in columns
    said = {"table": stem, "paper": stem if own else f"{_VTRAIN}, {stem}"}
    heading = _Heading(headers, columns, wide, None if own else times, said)
    if "value" not in columns and times is None and not wide:
        allowed = "value, iteration time (ms), or a metric, as tokens/s/GPU, MFU, TFLOP/s"
        got = f"{file}: header: got no column of figures"
        message = f"{got}; allowed: {allowed}{not_understood(heading.unknown)}"
        raise InvalidError(message)
    return heading


def _of_line(
    heading: _Heading, row: dict[str, str], cells: list[str]
) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the cells of each figure of a line, and what is wrong with it."""
    said = heading.said
    if heading.wide:
        told = said | row | counted(row)
        own = of_row(heading.wide, told.get("hardware", ""))
        for figure in figures(own, cells):
            yield told | figure, ""
        return
    if heading.times is not None:
        place, unit = heading.times
        value = cells[place].strip() if place < len(cells) else ""
        row = row | {"metric": "iteration_time", "unit": unit, "value": value}
    told = {} if row.get("devices", "").casefold() in BLANK else counted(row)
    try:
        figure, fault = as_figure(row, heading.named.get("value", "value")), ""
    except InvalidError as refused:
        figure, fault = dict[str, str](), str(refused)
    yield said | row | told | figure, fault


def _known(cells: Sequence[str]) -> int:
    """Count the headings of a record that say something."""
    columns = meanings(cells)
    return sum(column is not None for column in columns) + len(figure_columns(cells, columns))


def not_understood(headers: Sequence[str]) -> str:
    """Name headings that mean nothing; empty where there are none."""
    if not headers:
        return ""
    named = ", ".join(f"'{short(header)}'" for header in headers[:_MOST_NAMED])
    more = f" and {len(headers) - _MOST_NAMED} more" if len(headers) > _MOST_NAMED else ""
    return f"; headings not understood: {named}{more}"


def _laid_out(kept: dict[str, str], named: dict[str, str]) -> dict[str, str]:
    """Return the cells that a row's layout says, whose heading may name its degrees."""
    return parse_layout(plain(named.get("layout", "")), kept.get("layout", "")).cells


def _lengthened(kept: dict[str, str]) -> dict[str, str]:
    """Read `Context` as the length of sequences where it is no degree and nothing else says it."""
    context = kept.get("context", "")
    if not context.isdecimal() or int(context) < _LONGEST_RING or "sequence" in kept:
        return kept
    return {"sequence": context} | {c: text for c, text in kept.items() if c != "context"}


def _header(listed: list[tuple[int, list[str]]]) -> int | None:
    """Return the place of the header: of the first lines the one that says several columns."""
    for place, (_, cells) in enumerate(listed[:_MOST_REMARKS]):
        if sum(meaning is not None for meaning in meanings(cells)) >= _FEWEST_COLUMNS:
            return place
    return next((i for i, (_, cells) in enumerate(listed) if not cells[0].startswith("#")), None)
