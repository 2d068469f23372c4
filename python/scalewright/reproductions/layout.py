"""Which degrees of parallelism does a layout say, as `TP2 x PP4 x DP8` or `2-way tensor`?"""

from __future__ import annotations

import re

NAMES = {
    "tp": "tensor",
    "mp": "tensor",
    "pp": "pipeline",
    "cp": "context",
    "ep": "expert",
    "dp": "data",
    "vp": "interleave",
    "vpp": "interleave",
    "gbs": "global_batch",
    "mbs": "micro_batch",
    "gas": "accumulation",
    "ga": "accumulation",
    "dp_shard": "shards",
    "dp_replicate": "replicas",
}
"""Columns by the short names that layouts use."""
_WORDS = {
    **{axis: axis for axis in ("tensor", "pipeline", "context", "expert", "data")},
    **{axis: NAMES[axis] for axis in ("tp", "pp", "cp", "ep", "dp")},
    "model": "tensor",
}
_LETTERS = {"t": "tensor", "p": "pipeline", "d": "data", "c": "context", "e": "expert"}
_LISTED = ("tensor", "pipeline", "context")
_MODEL = frozenset({"tensor", "pipeline"})
_NAME = "|".join(sorted(NAMES, key=len, reverse=True))
_MARK = r"[ =:_(\"'-]{0,4}"
# no range, as `TP 2/4` or `TP1-8`, and no choice
_ONE = r"(?![0-9.])(?! ?[kmb](?![a-z]))(?! ?(?:[/\u2013\u2192-]|->|or|to) ?[0-9])"
_DEGREE = re.compile(rf"(?<![a-z0-9])({_NAME}){_MARK}([0-9]{{1,6}}){_ONE}")
_OPEN = re.compile(
    rf"(?<![a-z0-9])({_NAME}){_MARK}[0-9]{{1,6}} ?(?:[/\u2013\u2192-]|->|or|to) ?[0-9]"
)
_BACKWARDS = re.compile(
    rf"[0-9]{{1,5}}[- ]?(?:{_NAME})(?:[ +,x*/\u00d7-]{{1,3}}[0-9]{{1,5}}[- ]?(?:{_NAME}))*"
)
"""`2TP 4PP 8DP`."""
_JOINED = re.compile(rf"(?<=[0-9])[x*]?(?=(?:{_NAME}){_MARK}[0-9])")
_BETWEEN = r"[ x*/,;|\u00d7-]{1,3}"
_TABLE = re.compile(
    rf"(?<![a-z0-9])((?:{_NAME})(?:{_BETWEEN}(?:{_NAME}))+)\)?[ =:(\[]{{1,4}}"
    rf"([0-9]{{1,6}}(?:{_BETWEEN}[0-9]{{1,6}})+)(?![0-9])"
)
"""Names and then as many numbers, as `TP/PP/DP = 8/4/2`."""
_WAYS = re.compile(
    rf"(?<![0-9.])([0-9]{{1,5}})[- ]?ways?[- ]({'|'.join(_WORDS)})(?![a-z])"
    rf"|(?<![a-z])({'|'.join(_WORDS)})(?:[- _]?(?:model[- _])?parallel(?:ism)?)?"
    rf"(?:[- _](?:size|degree))?(?: of)?[ =:(]{{1,3}}([0-9]{{1,5}})(?:[- ]?ways?)?{_ONE}"
)
"""`4-way tensor`, `tensor parallel size 4`."""
_LETTERED = re.compile(r"\(?[tpdce][=:]?[0-9]{1,5}(?:[ ,x_-]{0,2}[tpdce][=:]?[0-9]{1,5})+\)?")
_OF_LETTER = re.compile(r"([tpdce])[=:]?([0-9]{1,5})")
_SHARDING = re.compile(
    r"\b(?:fsdp[0-9]{0,6}|hsdp|zero[- ]?(?:stage[- ]?)?[1-3]|ddp|fully sharded data parallel)\b"
)
_SHARDED_BESIDE = re.compile(
    r"\b(?:deepspeed|pytorch|torch|native|full|shard|full_shard|only|stage|ddp|data parallel|dp)\b"
    r"|[+&,()-]"
)
"""Words that may stand beside a sharding without naming a degree."""
_DATA_ALONE = re.compile(r"dp|data[- ]parallel(?:ism)?(?: only)?")
_DENIED = re.compile(
    r"\((?:no|not|without|w/o|vs\.?)\b[^()]*\)|\([^()]*\b(?:off|disabled)\)"
    r"|\b(?:no|not|without|w/o|vs\.?|versus)\s+[\w.+-]+|\b[\w.+-]+\s+\(?(?:off|disabled)\b\)?"
)
LONGEST = 300
"""Letters of a layout that are read."""


def without_denied(text: str) -> str:
    """Return a text in lower case without what it says it does not have, as `(not FSDP)`."""
    return " ".join(_DENIED.sub(" ", text.casefold()[:LONGEST]).split())


def left_of_degrees(folded: str) -> str:
    """Return a layout in lower case without the words of its degrees and of its sharding."""
    rest = folded
    if _BACKWARDS.fullmatch(rest) or _LETTERED.fullmatch(rest):
        return ""
    tabled = _TABLE.sub(" ", rest)
    rest = tabled if tabled != rest else _WAYS.sub(" ", _DEGREE.sub(" ", _JOINED.sub(" ", rest)))
    shared = _SHARDING.sub(" ", rest)
    if shared != rest:
        shared = _SHARDED_BESIDE.sub(" ", shared)
    return _DATA_ALONE.sub(" ", shared.strip()) if _DATA_ALONE.fullmatch(shared.strip()) else shared


def degrees_in(text: str) -> dict[str, str]:
    """Return the degrees that a layout says, by column.

    A layout lists the degrees above one: tensor, pipeline and context degrees that it leaves out
    are 1, also where it says how weights are shared and no more. One that it says twice with
    unlike numbers is open.
    """
    folded = without_denied(text)
    ranges = [] if _TABLE.search(folded) else _OPEN.findall(folded)
    found: dict[str, str] = dict.fromkeys((NAMES[name] for name in ranges), "")
    for column, count in _pairs(folded):
        found[column] = count if found.get(column, count) == count else ""
    told = {column: count for column, count in found.items() if count}
    # beside ZeRO or FSDP, DDP says that replicas share nothing else
    spoken = sorted(_SHARDING.findall(folded), key=lambda words: words == "ddp")
    rest = folded.replace(spoken[0], " ", 1) if spoken else folded
    alone = bool(spoken) and not _SHARDED_BESIDE.sub(" ", rest).strip()
    if alone or _DATA_ALONE.fullmatch(folded) or found.keys() & {*_MODEL, "data", "shards"}:
        told = {axis: "1" for axis in _LISTED if axis not in found} | told
    if spoken:
        told["zero"] = spoken[0].replace("fully sharded data parallel", "fsdp")
    return told


def degrees_under(heading: str, text: str) -> dict[str, str]:
    """Return the degrees of a cell whose heading names them in order, as `TP/PP/DP`.

    Args:
        heading: The heading in lower case with single underscores.
        text: The cell; numbers with any marks between them, or a layout in words.
    """
    names, numbers = heading.split("_"), re.findall("[0-9]+", text[:LONGEST])
    if re.search("[a-z]{2}", text.casefold()):
        return degrees_in(text)
    if len(names) != len(numbers):
        return {}
    told = {NAMES[name]: number for name, number in zip(names, numbers, strict=True)}
    return dict.fromkeys(_LISTED, "1") | told if told.keys() & {*_MODEL, "data"} else told


def heads_degrees(heading: str) -> bool:
    """Say whether a heading names several degrees, whose numbers its cells hold: `TP-PP-DP`.

    Args:
        heading: The heading in lower case with single underscores.
    """
    words = heading.split("_")
    return len(words) > 1 and all(word in NAMES for word in words)


def _pairs(folded: str) -> list[tuple[str, str]]:
    """Return columns and counts in the order in which a text says them."""
    if _BACKWARDS.fullmatch(folded):
        backwards = re.findall(rf"([0-9]{{1,5}})[- ]?({_NAME})", folded)
        return [(NAMES[name], count) for count, name in backwards]
    if _LETTERED.fullmatch(folded):
        return [(_LETTERS[letter], count) for letter, count in _OF_LETTER.findall(folded)]
    found: list[tuple[str, str]] = []
    tables = _TABLE.findall(folded)
    for names, counts in tables:
        heads, numbers = re.findall(_NAME, names), re.findall("[0-9]+", counts)
        if len(heads) == len(numbers):
            found += zip((NAMES[head] for head in heads), numbers, strict=True)
    if tables:
        return found
    found = [(NAMES[name], count) for name, count in _DEGREE.findall(_JOINED.sub(" ", folded))]
    for count, name, named, counted in _WAYS.findall(folded):
        pair = (_WORDS[name or named], count or counted)
        if pair not in found:
            found.append(pair)
    return found
