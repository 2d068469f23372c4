"""What is one measured row, and which of the rows are fitted?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HELD_OUT = "every third size of each collective and group, in order of size, is held out"
"""The split in words, as answers and files quote it."""

# names of the nccl-tests programs, and of the engine
COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_receive",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}


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


def collective_named(name: str) -> str | None:
    """Return the engine's name of a collective in any usual spelling, none where it is unknown."""
    plain = _plain(name)
    for program, engine in COLLECTIVES.items():
        if plain in (_plain(program), _plain(engine)):
            return engine
    return None


def collective_in(text: str) -> str | None:
    """Return the collective that a file name speaks of, none where it speaks of none."""
    plain = _plain(text)
    # `all_reduce` holds `reduce`: the longest name that fits is meant
    spelt = [(_plain(name), engine) for pair in COLLECTIVES.items() for name, engine in _both(pair)]
    for name, engine in sorted(spelt, key=lambda pair: -len(pair[0])):
        if name in plain:
            return engine
    return None


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


def _both(pair: tuple[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
    program, engine = pair
    return (program, engine), (engine, engine)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
