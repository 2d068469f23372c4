"""Is a word or a name that nothing explains a letter or two away from one that is known?"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from scalewright.catalog import model_spellings, spellings, spelt_names, usual_words
from scalewright.catalog.resolving import normalised
from scalewright.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    Places = tuple[str | Path, ...]

_PARTS = re.compile(r"[^a-z0-9.]+")
_A_COUNT = re.compile(r"x?[0-9]{1,6}|[0-9]{1,6}(?:x|g|gb|gib|gig|w)")
"""How many, of how much memory or power: none of it is a word."""
_NO_DIGITS = re.compile(r"[^0-9.]+")
_LEADING_COUNT = re.compile(r"^[0-9]+x?(?=[a-z])")
_LONG = 10
"""From so many letters on, two may be wrong."""
_SHORTEST = 3
_LONGEST = 60


def refuse_misspelt_hardware(text: str, overrides: Places = (), field: str = "hardware") -> None:
    """Refuse hardware that is spelt nearly as a system or device, and is none.

    Raises:
        UnknownNameError: Says which name comes nearest.
    """
    known = {
        **{normalised(spelling): spelling for spelling in spellings()},
        **spelt_names("device", overrides),
        **spelt_names("system", overrides),
    }
    _refuse(field, text, known, _words_of_hardware(overrides))


def refuse_misspelt_model(text: str) -> None:
    """Refuse a model's name without spaces that is spelt nearly as one of the catalog, and is none.

    Raises:
        UnknownNameError: Says which name comes nearest.
    """
    if " " not in text.strip():
        _refuse("model", text, _models(), _words_of_models())


def near_word(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a word is one letter away from, if there is one."""
    others = (other for other in known if min(len(word), len(other)) >= _SHORTEST)
    return next((other for other in others if _near(word, other, 1)), None)


def _refuse(field: str, text: str, known: dict[str, str], words: frozenset[str]) -> None:
    folded = _LEADING_COUNT.sub("", text.casefold().strip())
    strange = [
        word
        for word in _PARTS.split(folded)
        if word and _A_COUNT.fullmatch(word) is None and not {word, word.removesuffix("s")} & words
    ]
    form = normalised(folded)
    if not strange or form in known or not _SHORTEST <= len(form) <= _LONGEST:
        return
    most = 2 if len(form) >= _LONG else 1
    for wrong in range(1, most + 1):
        # what only leaves the end out is short for it, as MI355 for MI355X
        near = [
            name
            for spelt, name in known.items()
            if not spelt.startswith(form) and _near(form, spelt, wrong)
        ]
        if near:
            listed = ", ".join(dict.fromkeys(near[:3]))
            message = f"{field}: unknown name '{text:.60}'; nearest: {listed}"
            raise UnknownNameError(message)


def _near(one: str, other: str, most: int) -> bool:
    """Say whether so many letters put in, left out, changed or swapped make one text of another.

    Other digits make another thing: an H200 is no misspelt H100.
    """
    left = iter(_NO_DIGITS.sub("", other))
    if abs(len(one) - len(other)) > most or not all(c in left for c in _NO_DIGITS.sub("", one)):
        return False
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        line = [row]
        for column, wanted in enumerate(other, 1):
            cost = min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != wanted))
            swapped = row > 1 and column > 1 and letter == other[column - 2]
            if swapped and one[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        if min(line) > most:
            return False
        before, last = last, line
    return last[-1] <= most


@cache
def _words_of_hardware(overrides: Places) -> frozenset[str]:
    names = [*spelt_names("device", overrides).values(), *spelt_names("system", overrides).values()]
    return _words([*names, *spellings(), *usual_words()])


@cache
def _models() -> dict[str, str]:
    said = {normalised(text): text for text, of in model_spellings().items() if of.model}
    return {**said, **spelt_names("model")}


@cache
def _words_of_models() -> frozenset[str]:
    return _words(_models().values())


def _words(names: Iterable[str]) -> frozenset[str]:
    return frozenset(word for name in names for word in _PARTS.split(name.casefold()) if word)
