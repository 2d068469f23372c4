"""Which figures does a table hold whose headings are metrics, as papers print it?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from scalewright.catalog import load_device
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.reproductions.columns import plain
from scalewright.reproductions.durations import duration
from scalewright.reproductions.metrics import counts_steps, listed_metric, metric_meant
from scalewright.reproductions.records import BLANK
from scalewright.reproductions.runs import kind_of
from scalewright.reproductions.units import AND_MORE, FIGURE, resolved, without_spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_OF_CAPACITY = re.compile(
    r"(?P<used>[0-9]{1,4}(?:\.[0-9]{1,3})?) ?/ ?(?P<whole>[0-9]{1,4}(?:\.[0-9]{1,3})?)"
    r"(?P<unit> ?[gm]i?b)?",
    re.IGNORECASE,
)
"""Memory in use and all that a device has, as `62/80`."""
_OF_PEAK = re.compile(
    r"(?:% )?of (?:a peak of )?([0-9]{1,5}(?:\.[0-9]{1,2})?) ?([tp])flops?(?:/s)?", re.IGNORECASE
)
"""A unit that is a share of FLOP/s that it tells, as `of 1 PFLOP/s`."""
_COUNTED = re.compile(
    r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,7})(?:\s{0,2}[xX\u00d7*]\s{0,2}|\s{1,2})(\D.*)"
)
_PRODUCT = re.compile(
    r"([0-9]{1,5}) ?[xX\u00d7*] ?"
    r"(?:([0-9]{1,5})|([0-9]{1,2}) (?!g\b|gi?b\b|nodes?\b)([a-z].*))",
    re.IGNORECASE,
)
"""`2 x 8`, and `1x8 MI355X`, but not `2x 40 GB A100`."""
_DEVICES = re.compile(
    r"(?<![0-9a-z.,])([0-9]{1,6}) ?(?:gpus?|chips|devices|accelerators)\b(?! ?(?:per|/|a|each)\b|/)"
)
_NODES = re.compile(
    r"([0-9]{1,5}) ?nodes?(?: ?[x\u00d7*,] ?([0-9]{1,3}))?(?: of)? ?(\D.*)?", re.IGNORECASE
)
_NODES_OF = re.compile(
    r"(?<![0-9a-z.,])([0-9]{1,5}) ?nodes? ?(?:[x\u00d7*]|of) ?([0-9]{1,2}) ?"
    r"(?:gpus?|chips|devices|accelerators|npus|p)\b"
)
"""`16 nodes x 4 GPUs` behind a machine, `1node*8p` in tables of Huawei's."""
_BEHIND = re.compile(r"([A-Za-z][A-Za-z0-9 -]{0,30}?) ?(?<!\b[Mm]a)[x\u00d7] ?([0-9]{1,6})")
"""`H100 x 64`, but not `Max 1100`."""
_BOTH = re.compile(r"[0-9]{1,5} nodes?,")
_TOTAL = re.compile(r", ?([0-9]{2,6}) (?:gpus|chips|devices|accelerators)$")
"""`8 nodes, 64 GPUs`."""
_MACHINES = re.compile(
    r"(?!.*\bgpus?\b)(?:ml\.)?(?:dgx|hgx|p[3-6][a-z]{0,3}(?:-[a-z0-9]{2,6})?\.|p[5-6][a-z]{0,3}-[a-z]{1,2}[0-9]{3}(?![a-z0-9])|a[34]-(?:high|mega|ultra)gpu|nd[a-z0-9]*_?v[45])"
)
"""Names of machines with several devices: `8x DGX H100`, `8x p5.48xlarge`."""
_OF_A_PART = re.compile(r"\b(?:per|each|a node)\b|/ ?(?:node|host|server)", re.IGNORECASE)
"""`8x H100 per node` are not the devices of a run."""
_BESIDE_ALL = re.compile(
    r"(?<=[0-9a-z]), [0-9]{1,2} (?:[a-z0-9]{1,10} )?(?:gpus?|chips|devices|accelerators)"
    r" (?:per|a|each) node(?=[),;]|$)",
    re.IGNORECASE,
)
"""What a node has, behind another count: `8 DGX-2 nodes, 16 GPU per node`."""
_NUMBERED = re.compile(r"([0-9]{1,5}) ?[x\u00d7*] ?([0-9]{4}.*)")
"""`1x 4090`."""
_NODE = re.compile(r"\b(?:node|server|machine|host)\b", re.IGNORECASE)
_ONE_NODE = re.compile(r"(?:one|a|single)[ -](?:node|server|machine|host)", re.IGNORECASE)
_ALONE = re.compile(r"(?:one|single) (.+)", re.IGNORECASE)
_SEVERAL = re.compile(r"node|server|machine|host|rack|pod|slice|dgx|hgx|[0-9]-gpu")
_MANY = re.compile(r"[0-9]+[km]?")
_TWO_COUNTS = re.compile(
    r"[0-9] ?(?:\*\*|->|\u2192|\b(?:or|and|to|vs\.?)(?= )) ?[0-9]", re.IGNORECASE
)
"""`64 or 128`, of which it is not said which ran."""
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
        known = listed_metric(name) is not None or metric_meant(name, "") is not None
        rate = counts_steps(heading, "")
        share = "%" in heading and metric_meant(name, "") not in {"mfu", "hfu"}
        share = share and listed_metric(name) is None
        if column is None and not (many or rate or share) and (bare or known):
            found.append(FigureColumn(place, heading.strip(), bare))
    return tuple(found)


def of_row(columns: Sequence[FigureColumn], hardware: str) -> tuple[FigureColumn, ...]:
    """Leave out columns whose heading names another device than the row's hardware.

    `H100 tokens/s` beside `A100 tokens/s` are figures of two runs, of which a row has one.
    """
    own = _device(hardware)
    kept = [c for c in columns if (named := _headed(c.heading)) is None or own in {None, named}]
    return tuple(kept or columns)


@cache
def _headed(heading: str) -> str | None:
    """Return the device that a word of a heading names, if one does."""
    words = [word for word in re.split(r"[\s,()/]+", heading) if any(c.isdigit() for c in word)]
    return next((found for word in words if (found := _device(word)) is not None), None)


@cache
def _device(text: str) -> str | None:
    """Return the first part of a device's name in the catalog, as `h100`; none of other words."""
    try:
        device = load_device(text.strip())
    except ScalewrightError:
        return None
    return str(device["name"]).split("-")[0]


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
    cell = without_spread(cell)
    found = FIGURE.fullmatch(cell)
    unit = (found["unit"] or "") if found is not None else ""
    if column.bare and unit.casefold() not in _OF_TIME:
        return None
    name = "step_time" if column.bare else column.heading
    try:
        value, unit = (cell, "") if found is None else resolved(found, "", name)
    except InvalidError:
        # the text is refused as a number, with its column
        value, unit = cell, ""
    return {"metric": name, "unit": unit, "value": value}


def as_figure(row: Mapping[str, str], field: str = "value") -> dict[str, str]:
    """Return value and unit of a cell of the column `value` that says more than a number.

    `2749.40 ms`, `221k`, `1.6 million`, `47.3% bf16 MFU`, `73.32GiB(92.70%)`; a row's own unit
    counts where it has one, and the cell is turned into it where it is of another size, as
    milliseconds of seconds. `13k tokens/s/GPU` makes a rate one of a device. Of a mean and a
    spread, as `1444.4 ± 6.4`, the mean counts.

    Args:
        row: The cells by column.
        field: What the file calls the column.

    Raises:
        InvalidError: The cell's unit is of another thing than the row's, as `it/s` of `%`.
    """
    text = row.get("value", "").strip()
    if not row.get("unit") and (seconds := duration(text)) is not None:
        return {"value": str(seconds), "unit": "s"}
    alone = without_spread(text)
    if (full := _OF_CAPACITY.fullmatch(alone)) is not None and _is_used(row, full):
        alone = f"{full['used']}{full['unit'] or ''}"
    if (peak := _OF_PEAK.fullmatch(row.get("unit", "").strip())) is not None:
        tera = float(peak[1]) * (1e3 if peak[2].casefold() == "p" else 1.0)
        return {"value": alone.rstrip("% "), "unit": f"% of {tera:g}"}
    found = FIGURE.fullmatch(alone)
    if found is None or not (found["unit"] or found["scale"]):
        return {} if alone == text else {"value": alone}
    value, unit = resolved(found, row.get("unit", ""), row.get("metric", ""), field)
    # a bound stays one without its unit
    below, above = (text[:1] if text[:1] in "<>\u2264\u2265" else ""), AND_MORE.match(text)
    return {"value": f"{below}{value}{'+' if above is not None else ''}", "unit": unit}


def _is_used(row: Mapping[str, str], found: re.Match[str]) -> bool:
    """Say whether a figure before a stroke is the part that is used of the memory behind it."""
    name = plain(row.get("metric", ""))
    meant = listed_metric(name) or metric_meant(name, row.get("unit", "")) or ""
    return kind_of(meant) == "memory" and float(found["used"]) <= float(found["whole"])


def counted(row: Mapping[str, str]) -> dict[str, str]:
    """Return devices, nodes and hardware where one cell says several, as `16x H100 (two racks)`."""
    said, hardware = row.get("devices", ""), row.get("hardware", "")
    if said:
        if _ONE_NODE.fullmatch(said) and "devices" in (own := _counts(hardware)):
            return own
        told = _counts(said)
        if "nodes" in told:
            told["devices"] = ""
        return {k: v for k, v in told.items() if k != "hardware" or not hardware}
    if hardware.isdecimal():
        return {"devices": hardware, "hardware": ""}
    return _counts(hardware)


def counted_in(hardware: str) -> dict[str, str]:
    """Return the devices or nodes that words of hardware count, as `8x H800`; of a part none."""
    hardware = _BESIDE_ALL.sub("", hardware)
    if _OF_A_PART.search(hardware):
        return {}
    if (named := _NUMBERED.fullmatch(hardware)) is not None:
        return {"devices": named[1], "hardware": named[2]}
    return _counts(hardware)


def _counts(text: str) -> dict[str, str]:
    """Read a count beside a kind of machine; nothing where the text is no such pair."""
    return {} if _TWO_COUNTS.search(text) else _single_count(text)


def _among_words(text: str) -> dict[str, str] | None:
    """Return the devices that words count, a product with nodes first; none where they do not."""
    folded = text.casefold()
    if (nodes := _NODES_OF.search(folded)) is not None:
        return {"devices": str(int(nodes[1]) * int(nodes[2])), "hardware": text}
    if len(told := _DEVICES.findall(folded)) != 1:
        return None
    rest = _DEVICES.sub("", folded).strip(" ,/()")
    return {"devices": told[0]} | ({"hardware": text} if rest else {})


def _single_count(text: str) -> dict[str, str]:
    if (product := _PRODUCT.fullmatch(text)) is not None:
        count = int(product[1]) * int(product[2] or product[3])
        return {"devices": str(count)} | ({"hardware": product[4]} if product[4] else {})
    if (behind := _BEHIND.fullmatch(text)) is not None:
        return {"devices": behind[2], "hardware": behind[1]}
    if (total := _TOTAL.search(text.casefold())) is not None and _BOTH.match(text.casefold()):
        return {"devices": total[1]}
    if _ONE_NODE.fullmatch(text):
        return {"nodes": "1"}
    if (found := _NODES.fullmatch(text)) is not None:
        nodes, own, kind = found.groups()
        count = {"nodes": nodes} if own is None else {"devices": str(int(nodes) * int(own))}
        return count | ({"hardware": kind.strip()} if kind else {})
    if (told := _among_words(text)) is not None:
        return told
    if (found := _COUNTED.fullmatch(text)) is not None:
        if found[1] == "1" and _NODE.search(found[2]):
            return {"nodes": "1", "hardware": _NODE.sub("", found[2]).strip()}
        # `4x v5p-256` are slices of devices
        slices = re.match(r"(?:tpu )?v[2-9](?![0-9])", found[2].casefold())
        count = "nodes" if _MACHINES.match(found[2].casefold()) else "devices"
        return {} if slices else {count: found[1], "hardware": found[2].strip()}
    if (alone := _ALONE.fullmatch(text)) is not None and not _SEVERAL.search(text.casefold()):
        return {"devices": "1", "hardware": alone[1]}
    return {}
