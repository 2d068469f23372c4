"""What does a layout say beside its degrees: batches, lengths, sharding, what is computed again?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright.reproductions.columns import plain
from scalewright.reproductions.layout import (
    LONGEST,
    degrees_in,
    degrees_under,
    heads_degrees,
    left_of_degrees,
    without_denied,
)
from scalewright.reproductions.metrics import ungrouped
from scalewright.reproductions.wording import format_meant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scalewright.reproductions.reading import Row

_KIBI = 1024
_LEAST_LENGTH = 256
"""`context 8` is a degree, `context 8192` a length."""
_COUNT = r"([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,7})"
_END = r"(?![0-9.a-z])(?! ?[/\u2013-] ?[0-9])"
_IS = r"(?: (?:of|is))?[ =:(_-]{0,3}"
_BATCH = r"(?:gbs|gbsz|global[- _]?batch(?:[- _]?size)?|global[- _]?bs)"
_MICRO = r"(?:mbs|micro[- _]?batch(?:[- _]?size)?|local[- _]?batch(?:[- _]?size)?|lbs)"
_STEPS = (
    r"(?:gas|ga|grad(?:ient)?[- _]?acc(?:um(?:ulation)?)?(?:[- _]?steps)?|accum(?:ulation)?"
    r"(?:[- _]?steps)?|(?:num[- _]?)?micro[- _]?batches)"
)
_LENGTH = r"(?:seq(?:uence)?s?\.?(?:[- _]?len(?:gth)?\.?)?|context(?:[- _](?:len(?:gth)?|window))?)"
_CHUNKS = r"(?:interleav(?:e|ed|ing)|virtual[- _](?:pipeline[- _])?stages?|model[- _]?chunks)"
_AGAIN = (
    r"(?:(?:activation|gradient|act\.?)[- _])?"
    r"(?:re-?comput(?:e|ation|ing)|checkpoint(?:ing)?|ckpt(?:ing)?|remat)"
)
_DEGREES = ("tensor", "pipeline", "context", "expert", "data")
_NOT = r"(?:no|not|without|w/o)"
_FORMATS = re.compile(r"\b(?:nvfp4|mxfp8|fp8|float8|bf16|bfloat16|fp16|float16|tf32|fp32)\b")
_OUTSIDE = re.compile(
    r"\b(?:and|with|on|of|x|plus|in|the|for|only|degrees?|sizes?|ways?|parallel(?:ism)?|[2-5]d)\b"
)
"""Words between degrees that say nothing of their own."""
_WORD = re.compile(r"[^\s,;|+]+")


@dataclass(frozen=True)
class ParsedLayout:
    """What a layout says."""

    cells: dict[str, str]
    """Cells by column; degrees among them."""
    left: str
    """Words that were not understood."""


def parse_layout(heading: str, text: str) -> ParsedLayout:
    """Read a layout under a heading, which may name its degrees.

    Args:
        heading: The heading in lower case with single underscores.
        text: The cell.
    """
    if not text:
        return ParsedLayout({}, "")
    bare = re.search("[a-z]{2}", text.casefold()) is None
    if heads_degrees(heading) and bare:
        told = degrees_under(heading, text)
        return ParsedLayout(told, "" if told else text)
    told, rest = _words(" ".join(text.casefold()[:LONGEST].split()))
    degrees = degrees_in(rest)
    return ParsedLayout({**degrees, **told}, _left(rest))


def _words(folded: str) -> tuple[dict[str, str], str]:
    """Return cells that words of a layout fill, and the layout without these words."""
    told: dict[str, str] = {}
    rest = folded
    for pattern, read in _PATTERNS:
        found = list(pattern.finditer(rest))
        cells = [read(match) for match in found]
        # said twice with unlike figures it is open, and what is unclear stays to be named
        if not found or cells.count(cells[0]) != len(cells) or not cells[0]:
            continue
        told = {**cells[0], **told}
        rest = pattern.sub(" , ", rest)
    formats = {format_meant(word) for word in _FORMATS.findall(rest)}
    if len(formats) == 1 and (only := formats.pop()) is not None:
        told["dtype"] = only
        rest = _FORMATS.sub(" , ", rest)
    return told, " ".join(rest.split()).strip(" ,;+")


def _left(rest: str) -> str:
    """Return the words that say neither a degree nor a sharding."""
    words = _WORD.findall(_OUTSIDE.sub(" ", left_of_degrees(without_denied(rest))))
    return " ".join(word.strip("()[]{}") for word in words if re.search("[a-z0-9]", word))


def _counted(column: str) -> Callable[[re.Match[str]], dict[str, str]]:
    """Return what reads a whole number of a column."""

    def read(match: re.Match[str]) -> dict[str, str]:
        return {column: ungrouped(next(filter(None, match.groups())))}

    return read


def _always(**cells: str) -> Callable[[re.Match[str]], dict[str, str]]:
    """Return what fills cells whatever the words were."""
    return lambda _: dict(cells)


def _batch(match: re.Match[str]) -> dict[str, str]:
    """Read `GBS 512` and `gbs 4M tokens`; `1k` sequences may be 1,000 or 1,024."""
    number, scale, of = match[1], match[2] or "", match[3] or ""
    if not scale:
        return {"global_batch": f"{ungrouped(number)}{' tokens' if of[:3] == 'tok' else ''}"}
    tokens = of[:3] == "tok" or (scale[0] in "mb" and not of)
    return {"global_batch": f"{ungrouped(number)}{scale[0]} tokens"} if tokens else {}


def _length(match: re.Match[str]) -> dict[str, str]:
    """Read `seq 8192`, `8k context`."""
    number, thousands = (match[1], match[2]) if match[1] else (match[3], match[4])
    length = int(ungrouped(number)) * (_KIBI if thousands else 1)
    return {"sequence": str(length)} if length >= _LEAST_LENGTH else {}


def _again(match: re.Match[str]) -> dict[str, str]:
    """Read `full recompute`, `recompute=selective`, `activation checkpointing`."""
    said = match["before"] or match["behind"] or ""
    if match["denied"]:
        # who has no full one may have another
        return {} if match["before"] else {"recompute": "none"}
    denied = {"none", "off", "no", "false", "disabled"}
    return {"recompute": "none" if said in denied else said if said in _POLICIES else "full"}


_POLICIES = {"full", "selective"}
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], dict[str, str]]], ...] = (
    (re.compile(rf"\b{_NOT} ac\b"), _always(recompute="none")),
    (re.compile(rf"\b{_NOT} interleav(?:e|ed|ing)\b"), _always(interleave="1")),
    (
        re.compile(rf"\b{_NOT} (?:sp|sequence[- ]parallel(?:ism)?)\b"),
        _always(sequence_parallel="no"),
    ),
    (
        re.compile(
            rf"(?<![a-z0-9]){_BATCH}{_IS}([0-9][0-9,.]{{0,12}}[0-9]|[0-9]) ?"
            r"(k|m|b|million|billion)?(?![a-z0-9.])"
            r"(?: ?(tokens|toks?|sequences|seqs|samples)\b)?"
        ),
        _batch,
    ),
    (re.compile(rf"(?<![a-z0-9]){_STEPS}{_IS}{_COUNT}{_END}"), _counted("accumulation")),
    (re.compile(rf"(?<![a-z0-9.]){_COUNT} ?micro[- ]?batches\b"), _counted("accumulation")),
    (
        re.compile(
            rf"\bbatch(?:[- _]size)?{_IS}{_COUNT} ?(?:per|/|a) ?(?:gpu|device|chip|rank)\b"
            rf"|(?<![a-z0-9]){_MICRO}{_IS}{_COUNT}{_END}"
        ),
        _counted("micro_batch"),
    ),
    (
        re.compile(
            rf"(?<![a-z0-9]){_LENGTH}{_IS}{_COUNT} ?(k)?{_END}"
            rf"|(?<![a-z0-9.]){_COUNT} ?(k)?[- ](?:seq(?:uence)?(?:[- _]?len(?:gth)?)?|context)"
            r"(?![a-z])(?![- ]?(?:parallel|[=:0-9]))"
        ),
        _length,
    ),
    (
        re.compile(
            rf"(?<![a-z0-9]){_CHUNKS}{_IS}{_COUNT}{_END}"
            rf"|(?<![a-z0-9.]){_COUNT} (?:virtual (?:pipeline )?stages?|model chunks)\b"
        ),
        _counted("interleave"),
    ),
    (
        re.compile(
            rf"(?:\b(?P<denied>{_NOT}) )?(?:\b(?P<before>full|selective) )?"
            rf"\b{_AGAIN}\b(?! ?[=:(]? ?[0-9]| every)"
            r"(?:[ =:(]{1,3}"
            r"(?P<behind>full|selective|none|off|on|yes|no|true|false|disabled)\b\)?)?"
            r"|\b(?P<alone>(?:full|selective) ac|sac)\b"
        ),
        lambda match: _short(match) if match["alone"] else _again(match),
    ),
    (re.compile(r"\bdistributed optimi[sz]er\b|\bdist[- _]?opt\b"), _always(zero="1")),
    (
        re.compile(
            r"(?<![a-z0-9])(?:sp(?![a-z0-9])|seq(?:uence)?[- _]parallel(?:ism)?)"
            r"(?:[ =:]{1,3}(?:on|yes|true)\b)?(?![ =:-]{0,2}[0-9])"
        ),
        _always(sequence_parallel="yes"),
    ),
)
"""What words of a layout say, in the order in which they are looked for."""


def _short(match: re.Match[str]) -> dict[str, str]:
    """Read PyTorch's `full AC` and `SAC`."""
    return {"recompute": "full" if match["alone"].startswith("full") else "selective"}


def layout_notes(row: Row) -> tuple[str, ...]:
    """Say where a layout tells another number than a column, and what of it is passed over."""
    layout = row.text("layout")
    if not layout:
        return ()
    said = parse_layout(plain(row.named("layout")), layout)
    unlike = _unlike_columns(said.cells, layout, row.cells)
    if not said.cells and not any(row.text(axis) for axis in _DEGREES):
        return (*unlike, f"layout '{layout:.40}' says no degree that is known: passed over")
    return (*unlike, f"layout: '{said.left:.60}' passed over") if said.left else unlike


def _unlike_columns(
    said: Mapping[str, str], layout: str, cells: Mapping[str, str]
) -> tuple[str, ...]:
    """Say where a layout tells another number than the column of its own."""
    found = [
        f"{column} {cells[column]} taken, its own column: layout '{layout:.40}' says {told}"
        for column, told in said.items()
        if column != "zero" and told.isdecimal()
        if (own := ungrouped(cells.get(column, ""))).isdecimal() and int(told) != int(own)
    ]
    return tuple(found)
