"""Which figures does a table hold whose headings are metrics, as papers print it?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright.reproductions.columns import plain
from scalewright.reproductions.conventions import spelt
from scalewright.reproductions.records import BLANK
from scalewright.reproductions.wording import metric_meant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FIGURE = re.compile(
    r"[~≈<>]?\s{0,2}(?P<value>[0-9][0-9,]{0,15}(?:\.[0-9]{1,9})?|\.[0-9]{1,9})"
    r"\s{0,2}(?P<thousands>[kK](?![a-zA-Z]))?\s{0,2}(?P<unit>[a-zA-Z%µ][a-zA-Z/%]{0,15})?"
    r"\s{0,2}(?:\([^()]{0,40}\))?"
)
_COUNTED = re.compile(
    r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,7})(?:\s{0,2}[x\u00d7*]\s{0,2}|\s{1,2})(\D.*)"
)
_DEVICES = re.compile(
    r"(?<![0-9.,])([0-9]{1,6}) ?(?:gpus?|chips|devices|accelerators)\b(?! ?(?:per|/|a|each)\b|/)"
)
_ALONE = re.compile(r"(?:one|single|1)[ -](.+)", re.IGNORECASE)
_SIZE = re.compile(r"[0-9][bBmM](?![a-zA-Z])")
_MANY = re.compile(r"[0-9]+[km]?")
_BARE_STEPS = {"step", "iteration", "iter"}
_OF_TIME = {"s", "sec", "secs", "second", "seconds", "ms", "msec", "min", "mins", "minutes"}


@dataclass(frozen=True)
class FigureColumn:
    """A column whose heading says a metric."""

    place: int
    heading: str
    bare: bool
    """True where the heading is a step's name alone, and a cell has to have a unit of time."""


def figure_columns(
    headers: Sequence[str], columns: Sequence[str | None]
) -> tuple[FigureColumn, ...]:
    """Return the columns of a header that hold published figures.

    Args:
        headers: The headings.
        columns: What each means for the run; none where it says nothing of it.
    """
    found: list[FigureColumn] = []
    for place, (heading, column) in enumerate(zip(headers, columns, strict=True)):
        name = plain(heading)
        bare = name in _BARE_STEPS
        # `time of 1k iterations` is no time of a step
        many = any(_MANY.fullmatch(word) and word != "1" for word in name.split("_"))
        known = spelt("metrics", name) is not None or metric_meant(name, "") is not None
        if column is None and not many and (bare or known):
            found.append(FigureColumn(place, heading.strip(), bare))
    return tuple(found)


def figures(columns: Sequence[FigureColumn], cells: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield metric, value and unit of each figure of a line; of the first column where none is."""
    filled = [
        (column, cells[column.place].strip())
        for column in columns
        if column.place < len(cells) and cells[column.place].strip().casefold() not in BLANK
    ]
    told = [figure for column, cell in filled if (figure := _figure(column, cell)) is not None]
    if told:
        yield from told
        return
    named = next((column for column in columns if not column.bare), columns[0])
    value = cells[named.place].strip() if named.place < len(cells) else ""
    yield {"metric": named.heading, "unit": "", "value": value}


def _figure(column: FigureColumn, cell: str) -> dict[str, str] | None:
    """Read `1.94 s`, `14,796`, `42.0%`, `90k` and `49.2 GB (61%)`; leave what is unlike."""
    found = _FIGURE.fullmatch(cell)
    unit = (found["unit"] or "") if found is not None else ""
    if column.bare and unit.casefold() not in _OF_TIME:
        return None
    name = "step_time" if column.bare else column.heading
    if found is None:
        return {"metric": name, "unit": "", "value": cell}
    value = found["value"].replace(",", "")
    if found["thousands"]:
        value = repr(float(value) * 1000.0)
    return {"metric": name, "unit": unit, "value": value}


def sized(row: Mapping[str, str]) -> dict[str, str]:
    """Return the model where a column of sizes tells a part of its name, as `LLaMA` and `13B`."""
    size, model = row.get("size", ""), row.get("model", "")
    if not size or _SIZE.search(model):
        return {}
    return {"model": f"{model} {size}".strip()}


def counted(row: Mapping[str, str]) -> dict[str, str]:
    """Return devices and hardware where one cell of a row says both, as `16x H100 (two nodes)`."""
    said = row.get("devices", "")
    hardware = row.get("hardware", "")
    if not said and hardware.isdecimal():
        return {"devices": hardware, "hardware": ""}
    if (found := _COUNTED.fullmatch(said)) is not None:
        kind = {} if hardware else {"hardware": found[2].strip()}
        return {"devices": found[1], **kind}
    if not said and len(told := _DEVICES.findall(hardware.casefold())) == 1:
        return {"devices": told[0]}
    if not said and (alone := _ALONE.fullmatch(hardware)) is not None:
        return {"devices": "1", "hardware": alone[1]}
    found = _COUNTED.fullmatch(hardware)
    # `4x v5p-256` are slices of devices
    if (
        not said
        and found is not None
        and not re.match(r"(?:tpu )?v[2-9](?![0-9])", found[2].casefold())
    ):
        return {"devices": found[1], "hardware": found[2].strip()}
    return {}
