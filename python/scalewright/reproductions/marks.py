"""Which mark parts the columns of a table, and which one do its numbers have before decimals?"""

from __future__ import annotations

import csv
import re
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

COMMA = ","
SEMICOLON = ";"
"""What Excel puts between columns where its decimals have commas."""
_MARKS = (COMMA, SEMICOLON, "\t")
_HEADS = 10
"""Lines in which a header is looked for, behind a title and remarks."""
_TOLD = re.compile(r'"?sep=([^"\r\n])"?\r?\n', re.IGNORECASE)
_CELL = re.compile(
    r"(?P<before>[~\u2248<>\u2264\u2265+-]{0,2}\s?)(?P<number>[0-9][0-9.,]{0,30})(?P<behind>.{0,60})"
)
_GROUPED = r"[1-9][0-9]{0,2}"
_UNSURE = re.compile(rf"{_GROUPED}[.,][0-9]{{3}}")
"""`1,024` may have three decimals."""
_WITH_COMMA = re.compile(rf"[0-9]+,[0-9]+|{_GROUPED}(?:\.[0-9]{{3}})+,[0-9]+")
_WITH_POINT = re.compile(rf"[0-9]+\.[0-9]+|{_GROUPED}(?:,[0-9]{{3}})+\.[0-9]+")
_BY_POINTS = re.compile(rf"{_GROUPED}(?:\.[0-9]{{3}}){{2,}}")
_BY_COMMAS = re.compile(rf"{_GROUPED}(?:,[0-9]{{3}}){{2,}}")


def told_mark(text: str) -> tuple[str | None, str]:
    """Return the mark that a first line as `sep=;` says, if one does, and the text behind it."""
    found = _TOLD.match(text)
    return (None, text) if found is None else (found[1], text[found.end() :])


def mark_of(text: str, known: Callable[[Sequence[str]], int]) -> str:
    """Return the mark by which a header has the most known columns; of several the comma.

    Args:
        text: The table.
        known: Counts the known headings of a record.
    """
    heads = [line for line in text.split("\n", _HEADS)[:_HEADS] if not line.startswith("#")]

    def most(mark: str) -> int:
        found = 0
        with suppress(csv.Error):
            for cells in csv.reader(heads, delimiter=mark):
                found = max(found, known(cells))
        return found

    return max(_MARKS, key=most)


def decimals_of(records: Iterable[Sequence[str]]) -> frozenset[str]:
    """Return the marks that numbers of a table have before decimals, as far as they prove it.

    `1,024` and `1.024` prove nothing; `12,5` and `1.300,0` prove commas.
    """
    found: set[str] = set()
    for cells in records:
        for cell in cells:
            if (said := _CELL.fullmatch(cell.strip())) is not None:
                found |= _proven(said["number"])
    return frozenset(found)


def _proven(number: str) -> set[str]:
    if _UNSURE.fullmatch(number):
        return set()
    if _WITH_COMMA.fullmatch(number) or _BY_POINTS.fullmatch(number):
        return {COMMA}
    return {"."} if _WITH_POINT.fullmatch(number) or _BY_COMMAS.fullmatch(number) else set()


def with_points(cell: str, decimals: frozenset[str]) -> str:
    """Return a cell whose number has a decimal comma with a point in its place.

    Args:
        cell: The cell.
        decimals: What `decimals_of` says of its table.
    """
    said = _CELL.fullmatch(cell.strip())
    if said is None:
        return cell
    own = _proven(said["number"]) or (decimals if _UNSURE.fullmatch(said["number"]) else set[str]())
    if own != {COMMA}:
        return cell
    number = said["number"].replace(".", "").replace(COMMA, ".")
    return f"{said['before']}{number}{said['behind']}"


def is_unsure(cell: str) -> bool:
    """Say whether a cell's number may be grouped in thousands or have three decimals."""
    said = _CELL.fullmatch(cell.strip())
    return said is not None and _UNSURE.fullmatch(said["number"]) is not None
