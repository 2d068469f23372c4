"""Which experts does a row say that its model has?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

_COUNT = re.compile(r"(\d{1,5})\s*(?:routed|experts?\b|e\b)")
_CHOSEN = re.compile(r"top[- ]?(\d{1,4})|(\d{1,4})\s*(?:active|activated|chosen)\b")
_OF_ALL = re.compile(r"(\d{1,4})\s*(?:out )?of\s*(\d{1,5})")
"""`6 of 64 experts`."""
_SHARED = re.compile(r"(\d{1,4}|one|a|two)\s*shared")
_SHARED_WIDTH = re.compile(r"shared experts? of (\d{1,6})")
_EVERY = re.compile(r"every\s+(?:(other|second)|([0-9]{1,3})(?:nd|rd|th)?)\b")
_NONE = frozenset({"no", "n", "none", "false", "dense", "0", "1"})
_WORDS = {"a": 1, "one": 1, "two": 2}


@dataclass(frozen=True)
class Mixture:
    """What a row says of experts; none where it says nothing."""

    experts: int | None
    """Routed experts of a layer."""
    top_k: int | None
    """Experts that a token goes to."""
    shared: int | None
    """Shared experts as wide as the others."""
    shared_ffn: int | None
    """Width of all shared experts together."""
    every: int | None
    """One of how many layers has experts."""


def says_mixture(row: Row) -> bool:
    """Say whether a row's model routes tokens to experts."""
    text = row.text("experts").casefold()
    return (bool(text) and text not in _NONE) or (row.told("expert_count") or 1) > 1


def mixture_said(row: Row) -> Mixture:
    """Read text as `64 routed + 2 shared, top-6`, and columns for the counts beside it."""
    text = row.text("experts").casefold()
    count, chosen, shared, wide, every = (
        pattern.search(text) for pattern in (_COUNT, _CHOSEN, _SHARED, _SHARED_WIDTH, _EVERY)
    )
    among = _OF_ALL.search(text)
    told = None if chosen is None else chosen[1] or chosen[2]
    of_all = (None, None) if among is None else (among[2], among[1])
    number = text if text.isdecimal() and text not in _NONE else count and count[1]
    return Mixture(
        experts=_number(of_all[0] or number) or row.told("expert_count"),
        top_k=_number(of_all[1] or told) or row.told("top_k"),
        shared=_number(shared[1]) if shared is not None else None,
        shared_ffn=_number(wide[1]) if wide is not None else None,
        every=int(every[2] or 2) if every is not None else None,
    )


def with_mixture(model: dict[str, Any], row: Row) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Give a named mixture as many experts as its row says, and say so where they differ.

    Counts that include its shared experts are its own.
    """
    experts: dict[str, Any] | None = model.get("experts")
    if experts is None:
        return model, ()
    said = mixture_said(row)
    shared = round(experts.get("shared_ffn", 0) / experts["expert_ffn"])
    told: dict[str, Any] = {}
    for key, value in (("experts", said.experts), ("top_k", said.top_k)):
        own = experts[key]
        if value is not None and value not in {own, own + shared}:
            told[key] = value
    changed = {**experts, **told}
    if not told or changed["top_k"] > changed["experts"]:
        return model, ()
    counts = f"{changed['experts']} experts, of which a token goes to {changed['top_k']}"
    own = f"{experts['experts']} and {experts['top_k']}"
    return {**model, "experts": changed}, (f"{counts}, as the row says; the model has {own}",)


def _number(text: str | None) -> int | None:
    if not text:
        return None
    return _WORDS.get(text) or int(text)
