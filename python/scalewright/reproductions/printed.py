"""Which one figure does a printed value stand for, where it is a range or counts steps a second?"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from scalewright.reproductions.metrics import counts_steps, ungrouped
from scalewright.reproductions.wide import as_figure

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

_NUMBER = r"([0-9][0-9,]{0,15}(?:\.[0-9]{1,9})?)\s?([kmb](?![a-z]))?"
_RANGE = re.compile(
    rf"[~≈]?\s?{_NUMBER}\s?%?\s?(?:[-\u2013\u2014]|to|\.\.\.?)\s?[~≈]?{_NUMBER}\s?([a-z%/].{{0,30}})?",
    re.IGNORECASE,
)
_WIDEST = 2.0
"""Ends of a range that are further apart tell no figure."""


def one_figure(row: Row) -> tuple[Row, tuple[str, ...]]:
    """Return a row with one figure, and what was done for it.

    The middle stands for a range, as `130-140k`, and the time of a step for steps a second.
    """
    row, middle = _middle(row)
    row, step = _step(row)
    return row, (*middle, *step)


def _middle(row: Row) -> tuple[Row, tuple[str, ...]]:
    text = row.text("value")
    if (found := _RANGE.fullmatch(text.strip())) is None:
        return row, ()
    if found[2] and found[2] != found[4]:
        return row, ()
    low, high = (float(ungrouped(found[end])) for end in (1, 3))
    if not 0.0 < low < high <= _WIDEST * low:
        return row, ()
    # `130-140k`: both ends are thousands
    middle = f"{(low + high) / 2.0!r}{found[4] or ''} {found[5] or ''}".strip()
    kept = row.cells | {"value": middle}
    read = as_figure(kept, row.named("value"))
    kept |= {column: cell for column, cell in read.items() if cell}
    return replace(row, cells=kept), (f"the middle of '{text:.30}' taken",)


def _step(row: Row) -> tuple[Row, tuple[str, ...]]:
    if not counts_steps(row.text("metric"), row.text("unit")):
        return row, ()
    rate = row.number("value")
    told = {"metric": "step_time", "value": repr(1.0 / rate), "unit": "s"}
    note = f"{1.0 / rate:.4g} s a step taken, of {rate:g} steps a second"
    return replace(row, cells=row.cells | told), (note,)
