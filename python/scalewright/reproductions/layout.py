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
    "dp_shard": "shards",
    "dp_replicate": "replicas",
}
"""Columns by the short names that layouts use."""
_WORDS = {
    **{axis: axis for axis in ("tensor", "pipeline", "context", "expert", "data")},
    **{axis: NAMES[axis] for axis in ("tp", "pp", "cp", "ep", "dp")},
}
_LETTERS = {"t": "tensor", "p": "pipeline", "d": "data", "c": "context", "e": "expert"}
_LISTED = ("tensor", "pipeline", "context")
_NAME = "|".join(sorted(NAMES, key=len, reverse=True))
_MARK = r"[ =:_(\"'-]{0,4}"
_DEGREE = re.compile(rf"(?<![a-z0-9])({_NAME}){_MARK}([0-9]{{1,6}})(?![0-9.])")
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
    rf"(?:[- _](?:size|degree))?(?: of)?[ =:(]{{1,3}}([0-9]{{1,5}})(?:[- ]?ways?)?(?![0-9.])"
)
"""`4-way tensor`, `tensor parallel size 4`."""
_LETTERED = re.compile(r"\(?[tpdce][=:]?[0-9]{1,5}(?:[ ,x_-]{0,2}[tpdce][=:]?[0-9]{1,5})+\)?")
_OF_LETTER = re.compile(r"([tpdce])[=:]?([0-9]{1,5})")
_SHARDING = re.compile(r"\b(?:fsdp[0-9]{0,6}|hsdp|zero-?[ ]?[1-3]|ddp)\b")
_DATA_ALONE = re.compile(r"dp|data[- ]parallel(?:ism)?(?: only)?")


def degrees_in(text: str) -> dict[str, str]:
    """Return the degrees that a layout says, by column.

    A layout lists the degrees above one: tensor, pipeline and context degrees that it leaves out
    are 1, also where it says how weights are shared and no more. One that it says twice with
    unlike numbers is open.
    """
    folded = text.casefold().strip()
    found: dict[str, str] = {}
    for column, count in _pairs(folded):
        found[column] = count if found.get(column, count) == count else ""
    told = {column: count for column, count in found.items() if count}
    alone = _SHARDING.fullmatch(folded) or _DATA_ALONE.fullmatch(folded)
    if alone or found.keys() & {"tensor", "pipeline", "data", "shards"}:
        told = {axis: "1" for axis in _LISTED if axis not in found} | told
    if told:
        sharded = _SHARDING.search(folded)
        told |= {"zero": sharded[0]} if sharded is not None else {}
    return told


def heads_degrees(heading: str) -> bool:
    """Say whether a heading names several degrees, whose numbers its cells hold: `TP-PP-DP`.

    Args:
        heading: The heading in lower case with single underscores.
    """
    words = heading.split("_")
    return len(words) > 1 and all(word in NAMES for word in words)


def _pairs(folded: str) -> list[tuple[str, str]]:
    """Return columns and counts in the order in which a text says them."""
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
