"""Why is a prediction far off a published figure, as far as anybody has found out?"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from scalewright.catalog.layers import built_in_root

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

FAR = 0.15
"""An error above this wants a finding."""
UNEXPLAINED = "not explained"
_FILE = "findings.csv"


@dataclass(frozen=True)
class Finding:
    """What was found out about the rows of a paper that a condition holds of."""

    paper: str
    where: tuple[tuple[str, str], ...]
    """Patterns by column, `|` between those of which one holds; all columns hold of a row."""
    side: str
    """`high` or `low` where only predictions above or below the figure are meant."""
    finding: str

    def means(self, row: Row, error: float) -> bool:
        """Say whether the finding is about a row."""
        if self.side and (self.side == "high") != (error > 0.0):
            return False
        cells = (("paper", self.paper), *self.where)
        return all(_like(row.text(column), patterns) for column, patterns in cells)


def finding_of(row: Row, error: float) -> str | None:
    """Return why a row is far off; none where it is not."""
    if abs(error) <= FAR:
        return None
    return next((f.finding for f in findings() if f.means(row, error)), UNEXPLAINED)


@cache
def findings() -> tuple[Finding, ...]:
    """Return all findings, in the order in which they are tried."""
    text = (built_in_root() / "published" / _FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return tuple(
        Finding(row["paper"], _conditions(row["where"]), row["side"], row["finding"])
        for row in rows
    )


def _conditions(text: str) -> tuple[tuple[str, str], ...]:
    parts = (part.partition("=") for part in text.split(";") if part.strip())
    return tuple((column.strip(), pattern.strip()) for column, _, pattern in parts)


def _like(text: str, patterns: str) -> bool:
    folded = text.casefold()
    return any(fnmatchcase(folded, one.strip().casefold()) for one in patterns.split("|"))
