"""Which figure does a printed value stand for: a range, steps a second, a run of so many tokens?"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.durations import steps_in
from scalewright.reproductions.metrics import counts_steps, ungrouped
from scalewright.reproductions.units import AND_MORE, unit_in
from scalewright.reproductions.whole_runs import of_tokens, whole_run
from scalewright.reproductions.wide import as_figure

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row
    from scalewright.reproductions.whole_runs import WholeRun

_NUMBER = r"([0-9][0-9,]{0,15}(?:\.[0-9]{1,9})?)\s?([kmb](?![a-z]))?"
_RANGE = re.compile(
    rf"[~≈]?\s?{_NUMBER}\s?%?\s?(?:[-\u2013\u2014]|to|\.\.\.?)\s?[~≈]?{_NUMBER}\s?([a-z%/].{{0,30}})?",
    re.IGNORECASE,
)
_BEHIND = re.compile(r"\s?[(\uff08][^()\uff08\uff09]{1,40}[)\uff09]\s*$")
"""A remark behind a range, as `85-88 (peak 106)`."""
_MILLION = 1e6
_MILLIONS = re.compile(r"(?:(?<![a-z])m(?:illions?)?[ -]?)?(?:m?tok)(?=[a-z]*)", re.IGNORECASE)
"""Millions before tokens, as in `million tokens/s` and `Mtok/s`."""
_WIDEST = 2.0
"""Ends of a range that are further apart tell no figure."""
_ABOUT = re.compile(
    r"(?:about|around|approx(?:imately|\.)?|circa|ca\.|\u5927?\u7ea6)\s{0,2}(?=[0-9.])",
    re.IGNORECASE,
)
"""What says that a figure is rounded, in Chinese, too."""
_BOUND = re.compile(
    r"(?:over|more than|above|at least|exceed(?:s|ing)?|under|below|less than|at most|up to)"
    r"\s{1,2}(?=[0-9.])",
    re.IGNORECASE,
)
"""Words before a figure that is a bound."""
_TOKENS = re.compile(
    r"(?<![0-9.])([0-9]{1,5}(?:\.[0-9]{1,3})?) ?(b|t|billion|trillion)\+? (?:training )?tokens\b"
)
_COUNTED = re.compile(r"(?<![0-9,])([0-9]{1,3}(?:,[0-9]{3}){3,4}) (?:training )?tokens\b")


def one_figure(row: Row) -> tuple[Row, tuple[str, ...]]:
    """Return a row with one figure, and what was done for it.

    The middle stands for a range, as `130-140k`, and the time of a step for steps a second. A
    whole run has the length that the row's words tell, as `MPT-7B (1T tokens)`. Of `about 406` the
    number is left.
    """
    bound = _bound(row)
    row = _about(row)
    row, middle = _middle(row)
    row = _in_millions(row)
    row, step = _step(row)
    row, whole = _whole(row)
    return row, (*bound, *middle, *step, *whole)


def _bound(row: Row) -> tuple[str, ...]:
    """Say where a bound, as `> 5000`, stands in the place of a figure."""
    text = row.text("value").strip()
    bounded = text[:1] in set("<>≤≥") or AND_MORE.match(text) or _BOUND.match(text)
    return (f"'{text:.20}' is a bound, taken as the figure",) if bounded else ()


def _in_millions(row: Row) -> Row:
    """Count tokens one by one where a row's unit counts them by millions, which no engine does."""
    unit = row.text("unit")
    said = unit_in(unit)
    if said is None or said.of != "tokens" or said.counts != _MILLION:
        return row
    alone = _MILLIONS.sub("tok", unit).strip()
    value = repr(row.number("value") * _MILLION)
    return replace(row, cells=row.cells | {"value": value, "unit": alone})


def _about(row: Row) -> Row:
    text = row.text("value").strip()
    if (found := _ABOUT.match(text) or _BOUND.match(text)) is None:
        return row
    kept = row.cells | {"value": text[found.end() :]}
    read = as_figure(kept, row.named("value"))
    return replace(row, cells=kept | {column: cell for column, cell in read.items() if cell})


def _middle(row: Row) -> tuple[Row, tuple[str, ...]]:
    text = row.text("value")
    if (found := _RANGE.fullmatch(_BEHIND.sub("", text).strip())) is None:
        return row, ()
    if found[2] and found[2] != found[4]:
        return row, ()
    low, high = (float(ungrouped(found[end])) for end in (1, 3))
    if not 0.0 < low < high <= _WIDEST * low:
        return row, ()
    # `130-140k`: both ends are thousands
    middle = f"{(low + high) / 2.0:.9g}{found[4] or ''} {found[5] or ''}".strip()
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


def _whole(row: Row) -> tuple[Row, tuple[str, ...]]:
    if conventions_of(row).known:
        return row, ()
    if (run := whole_run(row.text("metric"))) is None:
        return row, ()
    unit = {"unit": row.text("unit") or run.unit}
    if run.billions is not None:
        return replace(row, cells=row.cells | unit | {"metric": run.metric}), ()
    words = " | ".join(row.text(column) for column in ("model", "table", "source")).casefold()
    told = {float(amount) * (1.0 if of[0] == "b" else 1e3) for amount, of in _TOKENS.findall(words)}
    told |= {float(ungrouped(count)) / 1e9 for count in _COUNTED.findall(words)}
    if not told:
        return _of_steps(row, run, unit["unit"])
    if len(told) != 1:
        return row, ()
    (billions,) = told
    note = f"a run of {billions:g} billion tokens, as the row's words say"
    return replace(row, cells=row.cells | unit | {"metric": of_tokens(run.kind, billions)}), (note,)


def _of_steps(row: Row, run: WholeRun, unit: str) -> tuple[Row, tuple[str, ...]]:
    """Take the time of a step where a row's words say how many steps its whole run has."""
    words = " | ".join(row.text(column) for column in ("table", "source"))
    steps, clock = steps_in(words), unit_in(unit)
    if steps is None or run.kind != "training_time" or clock is None or clock.of != "time":
        return row, ()
    seconds = row.number("value") * clock.size / steps
    told = {"metric": "step_time", "value": repr(seconds), "unit": "s"}
    note = f"{seconds:.4g} s a step taken: a run of {steps:g} steps, as the row's words say"
    return replace(row, cells=row.cells | told), (note,)
