"""Which two runs does a printed ratio compare, and what does the engine make of it?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scalewright.errors import InvalidError
from scalewright.reproductions.conventions import matches, printed_ratios
from scalewright.reproductions.runs import run_key

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

_TIMES = {"", "x", "times"}
_HUNDRED = 100.0


@dataclass(frozen=True)
class Ratio:
    """A figure of one run over that of another."""

    of: str | None
    """The metric that is compared; none: the unit-free rate of tokens that a speed-up means."""
    above: Row
    below: Row
    printed: str = "times"
    """`times`; `percent` of the other; `gain`: percent above the other."""

    def as_printed(self, times: float) -> float:
        """Return a ratio as the paper prints it."""
        if self.printed == "gain":
            return (times - 1.0) * _HUNDRED
        return times * _HUNDRED if self.printed == "percent" else times

    def error(self, predicted: float, published: float) -> float:
        """Return predicted over published ratio, less one; a gain of 30% is a ratio of 1.3."""
        if self.printed == "gain":
            return (_HUNDRED + predicted) / (_HUNDRED + published) - 1.0
        return predicted / published - 1.0


def ratio_in(row: Row, rows: list[Row]) -> Ratio | None:
    """Return the two runs that a row compares; none where it tells of one run.

    Raises:
        InvalidError: The row names another that its file lacks, or an unknown unit.
    """
    metric = row.text("metric").casefold()
    if metric in {"speed-up", "speed up", "speed_up"}:
        metric = "speedup"
    if metric == "speedup" and not row.text("against") and "label" in row.headers:
        message = f"{row.named('against')}: got nothing; allowed: the label of another row"
        raise InvalidError(message)
    if metric == "speedup" and row.text("against"):
        return Ratio(None, row, _labelled(row, rows), _speedup_unit(row))
    for entry in printed_ratios():
        where: dict[str, str] = entry.get("where", {})
        if (
            metric == entry["metric"]
            and matches(row.text("paper"), entry["match"])
            and all(matches(row.text(cell), [text]) for cell, text in where.items())
        ):
            above = replace(row, cells=row.cells | entry.get("row", {}))
            below = replace(above, cells=above.cells | entry["base"])
            return Ratio(entry["of"], above, below, entry["printed"])
    return None


def _labelled(row: Row, rows: list[Row]) -> Row:
    wanted = row.text("against")
    same = (other for other in rows if other.file == row.file)
    labels: dict[str, Row] = {}
    twice: set[str] = set()
    for other in same:
        if label := other.text("label"):
            if label in labels and run_key(other) != run_key(labels[label]):
                twice.add(label)
            labels.setdefault(label, other)
    if wanted == row.text("label"):
        message = f"against: got '{wanted:.40}', the row itself; allowed: the label of another row"
        raise InvalidError(message)
    if wanted in twice:
        message = f"against: got '{wanted:.40}', the label of several runs; allowed: that of one"
        raise InvalidError(message)
    if wanted in labels:
        return labels[wanted]
    message = f"against: got '{wanted:.40}'; allowed: the label of another row: "
    raise InvalidError(message + (", ".join(list(labels)[:6]) or "there is none"))


def _speedup_unit(row: Row) -> str:
    unit = row.text("unit").casefold()
    if unit in _TIMES:
        return "times"
    message = f"unit: unknown name '{unit:.40}'; known: x, times"
    raise InvalidError(message)
