"""How many seconds does a cell say in several units or in words, and in how many steps?"""

from __future__ import annotations

import re

from scalewright.reproductions.metrics import ungrouped

_PART = r"(?:([0-9]{{1,5}}) ?{0}[ ,:]{{0,2}}(?:and )?)?"
_SEVERAL = re.compile(
    "".join(
        _PART.format(unit)
        for unit in (
            r"d(?:ays?)?",
            r"h(?:(?:ou)?rs?)?",
            r"m(?:in(?:ute)?s?)?",
            r"s(?:ec(?:ond)?s?)?",
        )
    )
)
"""`6h 04m 57s`, `1 day 4 hours`, `2m15s`."""
_SIZES = (86400, 3600, 60, 1)
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_WORDS = {"a": 1, "an": 1} | {word: number for number, word in enumerate(_NUMBERS, 1)}
_IN_WORDS = re.compile(rf"({'|'.join(_WORDS)}) (days?|hours?|minutes?|weeks?)")
_OF_WORD = {"d": 86400, "h": 3600, "m": 60, "w": 604800}
_STEPS = re.compile(
    r"(?<![0-9.,a-z])([0-9]{1,3}(?:,[0-9]{3}){1,3}|[0-9]{1,8}|[0-9]{1,4}(?:\.[0-9])?(?= ?[km] ))"
    r" ?(k|m)? (?:(?:training|optimi[sz]er|gradient|update|pre-?training) )?(?:steps|updates)\b"
    r"(?! (?:per|a|each)\b|/)"
)
"""`15550 training steps`, `500K steps`."""
_OF_SOME = re.compile(r"\b(?:warm|skip|first|last|averag|mean|median|every)")
"""What makes steps those of a part of a run."""
_THOUSANDS = {None: 1.0, "k": 1e3, "m": 1e6}


def duration(text: str) -> int | None:
    """Return the seconds of a time in several units, or whose number is a word; else none."""
    folded = " ".join(text.casefold().split()).strip("~\u2248 ")
    if (word := _IN_WORDS.fullmatch(folded)) is not None:
        return _WORDS[word[1]] * _OF_WORD[word[2][0]]
    if not folded or (found := _SEVERAL.fullmatch(folded)) is None:
        return None
    told = [(int(count), size) for count, size in zip(found.groups(), _SIZES, strict=True) if count]
    # a number with one unit is a figure like any other
    return sum(count * size for count, size in told) if len(told) > 1 else None


def steps_in(words: str) -> float | None:
    """Return the steps that words say a run has; none where they say several counts or none."""
    if _OF_SOME.search(folded := words.casefold()) is not None:
        return None
    found = _STEPS.findall(folded)
    told = {float(ungrouped(count)) * _THOUSANDS[scale or None] for count, scale in found}
    return told.pop() if len(told) == 1 else None
