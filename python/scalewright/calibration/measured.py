"""What is one measured row, and which of the rows are fitted?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright.reproductions.collectives.names import collective_named

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HELD_OUT", "Measured", "SkippedLine", "collective_named", "held_out"]

HELD_OUT = "every third size of each collective and group, in order of size, is held out"
"""The split in words, as answers and files quote it."""


@dataclass(frozen=True)
class Measured:
    """One size of one run."""

    collective: str
    """The engine's name of it."""
    ranks: int
    nodes: int | None
    """Nodes that the ranks lie on; none where the file does not say."""
    buffer_bytes: int
    """The buffer as nccl-tests counts it."""
    time_s: float
    """Time of the run out of place."""
    in_place_time_s: float | None
    """Time of the run in place; none where the file has none."""
    place: str
    """File and line."""


@dataclass(frozen=True)
class SkippedLine:
    """A line whose figures cannot be used, and why."""

    place: str
    """File and line."""
    reason: str

    def __str__(self) -> str:
        """Return both in a line."""
        return f"{self.place}: {self.reason}"


def held_out(rows: Sequence[Measured]) -> list[bool]:
    """Say of each row whether it is held out from the fit.

    Every third size of each collective and group, in order of size; rows of one size go together,
    so that no held-out point is fitted through its twin of another run.
    """
    sizes: dict[tuple[str, int, int | None], set[int]] = {}
    for row in rows:
        sizes.setdefault(_group(row), set()).add(row.buffer_bytes)
    kept_apart = {key: set(sorted(found)[2::3]) for key, found in sizes.items()}
    return [row.buffer_bytes in kept_apart[_group(row)] for row in rows]


def _group(row: Measured) -> tuple[str, int, int | None]:
    return row.collective, row.ranks, row.nodes
