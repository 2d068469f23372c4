"""Does a cell's unit say what its row's unit says, and how many of that is the cell's figure?"""

from __future__ import annotations

import re
from dataclasses import dataclass

from scalewright.errors import InvalidError
from scalewright.reproductions.columns import plain
from scalewright.reproductions.metrics import (
    DEVICES,
    OF_ONE,
    OF_SEVERAL,
    SECONDS,
    SEQUENCES,
    SLOWER,
    STEPS,
    TOKENS,
    counts_steps,
    listed_metric,
    metric_meant,
    ungrouped,
)
from scalewright.reproductions.records import short
from scalewright.reproductions.runs import kind_of
from scalewright.reproductions.whole_runs import whole_run

FIGURE = re.compile(
    r"[~≈<>≤≥]?\s{0,2}(?P<value>[0-9][0-9,'\u2019_]{0,15}(?:\.[0-9]{1,9})?(?:[eE][+-]?[0-9]{1,2})?"
    r"|\.[0-9]{1,9})"
    r"\s{0,2}(?P<scale>(?:[kKmMbBgGtTpPeE]|bn|thousand|million|billion)(?![a-zA-Z]))?\+?"
    r"\s{0,2}(?P<unit>[a-zA-Z%µ/][a-zA-Z/%-]{0,30})?"
    r"(?P<more>(?: [a-zA-Z0-9/%]{1,12}){1,3})?\s{0,2}(?:\([^()]{0,40}\))?"
)
"""A number, how many it counts by, its unit, and a remark in parentheses."""
AND_MORE = re.compile(r"[~\u2248]?[0-9][0-9.,]{0,12} ?[kKmM]?\+")
"""A number that is a lower bound, as `40+`."""
_SPREAD = re.compile(
    r"(?P<figure>[~≈]?\s?[0-9][0-9,]{0,15}(?:\.[0-9]{1,9})?(?P<scale>[kKMB]?)"
    r"(?P<unit> ?[a-zA-Z%/]{1,20})?) ?(?:±|\+/[-\u2212]) ?[0-9][0-9.,]{0,12}(?P=scale)"
    r"(?P<behind> ?(?![kKMB]$)[a-zA-Z%/]{1,30})?"
)
"""A figure and how far single runs were from it, as `5.67 s ± 0.03` and `28.25 ± 0.02%`."""
_TIMES: dict[str, float] = (
    dict.fromkeys(("us", "µs", "usec", "microseconds"), 1e-6)
    | {"ms": 1e-3, "msec": 1e-3}
    | dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0)
    | dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0)
    | dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0)
    | dict.fromkeys(("d", "day", "days"), 86400.0)
)
_BYTES: dict[str, float] = (
    {"bytes": 1.0, "byte": 1.0}
    | {f"{letter}ib": 2.0 ** (10 * power) for power, letter in enumerate("kmgt", 1)}
    | {f"{letter}b": 1e3**power for power, letter in enumerate("kmgt", 1)}
)
_FLOPS = re.compile(r"(g|t|p|e|giga|tera|peta|exa)?flops?")
_PREFIXES = {"g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_COUNTED_BY = {
    **dict.fromkeys(("k", "thousand", "ktokens", "ktok"), 1e3),
    **dict.fromkeys(("m", "million", "mtokens", "mtok"), 1e6),
    **dict.fromkeys(("b", "bn", "billion"), 1e9),
}
_BESIDE_TIME = DEVICES | STEPS | {"time", "per", "a", "an", "each", "for"}
_TIME, _RAM, _FLOP, _SHARE, _RATIO, _STEP = "time", "memory", "flops", "share", "ratio", "steps"
_SHARES = frozenset({"mfu", "hfu", "percent_of_peak"})
_PER = "per"
"""What is only said to be of a second or of one device."""
_RATES = ("tokens", "sequences", _FLOP)
_OF_THE_JOB = frozenset({"aggregate", "aggregated", "total", "in total", "overall", "altogether"})
"""Words behind a figure that say no unit, but that it is of all devices."""
_HOUR = 3600.0
_NUMBER = re.compile(r"(?:[0-9][0-9_]*(?:\.[0-9]+)?|\.[0-9]+)(?:e[+-]?[0-9]{1,2})?", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[0-9]{1,9},[0-9]{1,2}")
"""A comma that no group of three digits follows, as in `30,1k`."""


@dataclass(frozen=True)
class Unit:
    """What a unit says."""

    of: str
    """The quantity."""
    size: float
    """In units of its own: seconds, bytes, FLOP/s, shares, tokens a second."""
    counts: float = 1.0
    """By how many it counts: a thousand for `K tokens/s`."""
    of_one: bool = False
    """True where it is of one device."""


def without_spread(text: str) -> str:
    """Return a figure without how far single runs were from it; other text stays."""
    found = _SPREAD.fullmatch(text.strip())
    if found is None or (found["unit"] and (found["behind"] or found["unit"]) != found["unit"]):
        return text
    return found["figure"] + ("" if found["unit"] else found["behind"] or "")


def unit_in(text: str) -> Unit | None:
    """Return what a unit, or a heading that has one, says; none where it says nothing known."""
    # lower case makes the sign of micro a Greek letter
    folded = text.casefold().replace("\u03bc", "\u00b5").strip(" .")
    words = re.findall(r"[a-z0-9µ]+", folded)
    of_one = bool({*words} & DEVICES) and "all" not in words
    counts = next((_COUNTED_BY[word] for word in words if word in _COUNTED_BY), 1.0)
    if counts_steps("", folded):
        return Unit(_STEP, 1.0)
    if (flops := next((f for word in words if (f := _FLOPS.fullmatch(word))), None)) is not None:
        return Unit(_FLOP, _PREFIXES.get((flops[1] or "")[:1], 1.0), of_one=of_one)
    for name, of in (("tokens", TOKENS), ("sequences", SEQUENCES)):
        if (said := _rated(name, words, of)) is not None:
            return Unit(said, counts, counts, of_one)
    if folded.startswith(("/", "per ")) and {*words} <= DEVICES | SECONDS | {_PER, "a"}:
        return Unit(_PER, 1.0, of_one=of_one)
    if "%" in folded or "percent" in words:
        return Unit(_SHARE, 0.01)
    if folded in OF_ONE:
        return Unit(_SHARE, 1.0)
    return _of_amount(words, counts)


def _rated(name: str, words: list[str], of: frozenset[str]) -> str | None:
    """Return the quantity of a rate of tokens or sequences, apart where of a minute or a node."""
    if not {*words} & of:
        return None
    slow = sorted({*words} & (SLOWER | OF_SEVERAL)) if not {*words} & SECONDS else []
    apart = sorted({*words} & OF_SEVERAL)
    return " ".join([name, *(slow or apart)])


def _of_amount(words: list[str], counts: float) -> Unit | None:
    """Return a time, bytes or a ratio."""
    clocked = [word for word in words if word not in _BESIDE_TIME and word not in _COUNTED_BY]
    if len(clocked) == 1 and clocked[0] in _TIMES:
        return Unit(_TIME, _TIMES[clocked[0]] * counts, counts)
    if (stored := next((word for word in words if word in _BYTES), None)) is not None:
        return Unit(_RAM, _BYTES[stored])
    return Unit(_RATIO, 1.0) if words and words[0] in {"x", "times"} else None


def resolved(
    found: re.Match[str], own_text: str, metric: str, field: str = "value"
) -> tuple[str, str]:
    """Return the number and the unit of a cell that says more than a number.

    Args:
        found: What `FIGURE` has of the cell.
        own_text: The unit of the row's own column, into which the figure is turned; may be empty.
        metric: The metric as the table heads it.
        field: What the file calls the column.

    Raises:
        InvalidError: The cell's unit is of another thing than the row's.
    """
    told = f"{found['unit'] or ''}{found['more'] or ''}".strip()
    if told.casefold() in _OF_THE_JOB:
        told = ""
    own, cell = unit_in(own_text), unit_in(told)
    run = whole_run(metric)
    heading = metric if run is None else run.unit
    named = None if own_text else unit_in(heading.replace("_", " "))
    name = plain(metric)
    if named is not None and (listed_metric(name) or metric_meant(name, "")) in _SHARES:
        named = Unit(_SHARE, 0.01)  # `Model FLOPs utilization` has no unit in its name
    row = own or named
    text = _decimal(found["value"])
    if text is None:
        told = f"got '{short(found[0])}'"
        message = f"{field}: {told}; allowed: one number, commas before three digits or as a point"
        raise InvalidError(message)
    counted = row if cell is None or cell.of == _PER else cell
    amount = _amount(found["scale"], counted, metric)
    ratio = cell is not None and cell.of == _RATIO and "speed" in metric.casefold()
    contradicts = bool(told) and row is not None and not (ratio or _alike(row, cell))
    if amount is None or contradicts:
        said = f"{found['scale'] or ''} {told}".strip() if amount is None else told
        raise _unlike(field, found[0], said, own_text or metric)
    if told and row is not None and row.of == _TIME and cell is not None and cell.of == _STEP:
        return _times(text, amount), "it/s"
    if not told:
        own_text = own_text or ("GB" if row is None and found["scale"] and _stored(metric) else "")
        return _times(text, amount / (row.counts if row and found["scale"] else 1.0)), own_text
    if own is None or cell is None:
        return _times(text, amount), own_text or told
    of_one = cell.of_one and not own.of_one and own.of in _RATES
    size = 1.0 if cell.of == _PER else cell.size / own.size
    return _times(text, amount * size), f"{own_text}/GPU" if of_one else own_text


def bytes_of(text: str) -> float | None:
    """Return the bytes of a number with its unit, as `80 GiB`; none where it has another one.

    A number alone counts bytes.
    """
    found = FIGURE.fullmatch(text.strip())
    if found is None or found["scale"] not in {None, "B"}:
        return None
    said = Unit(_RAM, 1.0) if not found["unit"] else unit_in(found["unit"])
    number = _decimal(found["value"])
    return float(number) * said.size if number and said and said.of == _RAM else None


def in_seconds(value: str, unit: str) -> dict[str, str]:
    """Return value and unit of a figure in microseconds, of which no step is told, in seconds.

    Nothing where the unit is another one, or the value no plain number.
    """
    said, figure = unit_in(unit), FIGURE.fullmatch(value.strip())
    if said is None or (said.of, said.size) != (_TIME, _TIMES["us"]):
        return {}
    if figure is None or figure["scale"] or figure["unit"]:
        return {}
    number = _decimal(figure["value"])
    return {} if number is None else {"value": _times(number, said.size), "unit": "s"}


def _alike(row: Unit, cell: Unit | None) -> bool:
    """Say whether a cell's unit may stand under a row's."""
    if cell is None:
        return False
    if cell.of == _PER:
        return row.of in _RATES
    # steps a second tell a step's time
    return row.of == cell.of or (row.of, cell.of) == (_TIME, _STEP)


def _amount(scale: str | None, unit: Unit | None, metric: str) -> float | None:
    """Return what a letter or word behind a number multiplies it by; none where it may be several.

    In a table of memory `G` is the letter of bytes, in one of FLOP/s that of 10^9.
    """
    if scale is None:
        return 1.0
    letter = scale.casefold()
    many = _COUNTED_BY.get(letter)
    if unit is None:
        return _unnamed(letter, metric)
    if unit.of in _RATES[:2]:
        return many
    if unit.of == _FLOP:
        return _PREFIXES[letter] / unit.size if letter in _PREFIXES else None
    if unit.of == _RAM:
        binary = unit.size in {2.0**power for power in (10, 20, 30, 40)}
        size = 1.0 if letter == "b" else _BYTES.get(f"{letter}{'ib' if binary else 'b'}")
        return None if size is None else size / unit.size
    # thousands of hours, but no thousands of seconds a step
    hours = unit.of == _TIME and unit.size / unit.counts == _HOUR and scale != "m"
    return many if hours else None


def _unnamed(letter: str, metric: str) -> float | None:
    """Return what a letter multiplies by where no heading has a unit; memory is in GB then."""
    if _stored(metric):
        return _BYTES[f"{letter}b"] / _BYTES["gb"] if letter in {"m", "g", "t"} else None
    rate = kind_of(metric_meant(metric, "") or metric) == "rate"
    return _COUNTED_BY.get(letter) if rate else None


def _stored(metric: str) -> bool:
    """Say whether a metric is of bytes."""
    return kind_of(metric_meant(metric, "") or metric) == "memory"


def _decimal(text: str) -> str | None:
    """Return a figure with a point before its fraction and no other marks; none where it is none.

    A comma before one or two digits, the last, is a point: groups have three.
    """
    comma = _DECIMAL_COMMA.fullmatch(text) is not None
    plain_ = text.replace(",", ".") if comma else ungrouped(text)
    return plain_ if _NUMBER.fullmatch(plain_) else None


def _times(text: str, factor: float) -> str:
    return text if factor == 1.0 else repr(float(text) * factor)


def _unlike(field: str, cell: str, told: str, own: str) -> InvalidError:
    got = f"{field}: got '{short(cell)}': its unit '{short(told)}' is not the row's '{short(own)}'"
    return InvalidError(f"{got}; allowed: that unit, or another size of it")
