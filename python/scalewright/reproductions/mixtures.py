"""Which experts does a row say that its model has?"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scalewright.reproductions.metrics import ungrouped

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

_NO_MORE = r"(?! ?(?:/|per\b|each\b|active|activated|chosen|out of|of\b))"
_COUNT = re.compile(rf"(?<![\w.,/-])(\d{{1,5}}) ?(?:routed(?: experts)?|experts|e)\b{_NO_MORE}")
_TOP = re.compile(r"\b(?:top[- ]?k?[- =]?|k ?= ?)(\d{1,4})\b")
_ACTIVE = re.compile(
    r"(?<![\w.,])(\d{1,4}) ?(?:experts )?(?:active\b|activated\b|chosen\b|(?:experts )?per token\b)"
    r"(?! ?param)"
)
_OF_ALL = re.compile(
    r"(?<![\w.,])(\d{1,4}) (?:routed |active )?(?:experts )?(?:active )?(?:out )?of (\d{1,5})"
    r"(?= (?:routed )?experts\b|$|[,;+])"
)
"""`6 of 64 experts`, `8 experts of 256`."""
_SHARED = re.compile(r"(?<![\w.,])(\d{1,2}) shared\b|\b(a|one|two) shared expert")
_NO_SHARED = re.compile(r"\b(?:no|without|w/o|zero) shared experts?\b")
_SHARED_WIDTH = re.compile(r"shared (?:experts? of (\d{3,6})\b|\((\d{3,6})\))")
_EVERY = re.compile(
    r"(?:every\s+|moe_layer_freq(?:uency)? ?[=:]? ?)(?:(other|second)|([0-9]{1,3})(?:nd|rd|th)?)\b"
)
_DENSE = re.compile(r"\bfirst (?:([0-9]{1,2}|one|two|three) )?layers? (?:is |are |being )?dense\b")
"""`first layer dense`, `first 3 layers dense`."""
_LAYERS = re.compile(
    r"([1-9][0-9]{0,3})(?: ?(?:decoder |transformer |hidden )?(?:layers?|blocks?)|(?= ?\([0-9]))"
    r"(?: ?\((?:([0-9]{1,3}) dense ?(?:\+|and|,) ?([0-9]{1,4}) moe(?: layers)?"
    r"|(?:vs\.?|of|instead of|was) [0-9]{1,4})\))?"
    r"(?P<mtp> ?(?:\+|and|with) ?(?:1 |one )?mtp(?: layer| module)?)?"
)
"""Layers in words: `61 layers (3 dense + 58 MoE)`, `4 layers + MTP`, `40 layers (vs 126)`."""
_LATENT = re.compile(r"\blatent(?: ?moe)?(?: (?:size|width|dim(?:ension)?))?[ =:]{1,3}(\d{2,5})\b")
"""The width to which tokens are pressed before they are sent to experts."""
_WIDTH = re.compile(
    r"(?<![a-z_])(?:(?:moe_mlp|base_moe_mlp_dim|expert_ffn|moe_ffn(?:_hidden_size)?"
    r"|moe_intermediate_size)|(?:expert )(?:ffn|mlp|width|intermediate size))[ =:]{1,3}(\d{2,5})\b"
)
"""The width of one expert, as a program's flag or words have it: `moe_ffn_hidden_size=2048`."""
_ABSENT = frozenset({"no", "n", "none", "false", "dense", "0"})
_WORDS = {"a": 1, "one": 1, "two": 2, "three": 3}
_LONGEST = 200


@dataclass(frozen=True)
class Mixture:
    """What a row says of experts; none where it says nothing."""

    experts: int | None
    """Routed experts of a layer."""
    top_k: int | None
    """Experts that a token goes to."""
    shared: int | None
    """Shared experts as wide as the others, zero where the row denies them."""
    shared_ffn: int | None
    """Width of all shared experts together."""
    every: int | None
    """One of how many layers has experts."""
    dense: int | None
    """Layers without experts in front of all others."""
    latent: int | None
    """Width of what is sent to experts, where it is less than the stream's."""


def says_mixture(row: Row) -> bool:
    """Say whether a row's model routes tokens to experts.

    Raises:
        InvalidError: A column counts experts and holds no count.
    """
    text = row.text("experts").casefold()
    return (bool(text) and text not in _ABSENT) or (_column(row, "expert_count") or 1) > 1


def mixture_said(row: Row) -> Mixture:
    """Read text as `64 routed + 2 shared, top-6`, and columns for the counts beside it.

    Raises:
        InvalidError: A column counts experts and holds no count.
    """
    text = " ".join(ungrouped(row.text("experts").casefold()[:_LONGEST]).split())
    count, top, active, among, shared, wide, every, dense, latent = (
        pattern.search(text)
        for pattern in (
            *(_COUNT, _TOP, _ACTIVE, _OF_ALL, _SHARED, _SHARED_WIDTH, _EVERY, _DENSE, _LATENT),
        )
    )
    experts = int(count[1]) if count is not None else int(among[2]) if among is not None else None
    if experts is None and re.fullmatch(r"\d{2,5}|[2-9]", text):
        experts = int(text)
    chosen = next((int(found[1]) for found in (top, active, among) if found is not None), None)
    beside = None
    if shared is not None:
        beside = int(shared[1]) if shared[1] else _WORDS[shared[2]]
    elif _NO_SHARED.search(text):
        beside = 0
    return Mixture(
        experts=experts or _column(row, "expert_count"),
        top_k=chosen or _column(row, "top_k"),
        shared=beside,
        shared_ffn=int(wide[1] or wide[2]) * (beside or 1) if wide is not None else None,
        every=int(every[2] or 2) if every is not None else None,
        dense=_counted(dense[1] or "one") if dense is not None else None,
        latent=int(latent[1]) if latent is not None else None,
    )


def with_expert_width(row: Row) -> Row:
    """Tell the width of one expert from the words on experts, where no column has it."""
    found = _WIDTH.search(ungrouped(row.text("experts").casefold()[:_LONGEST]))
    if found is None or row.text("expert_ffn"):
        return row
    return replace(row, cells=row.cells | {"expert_ffn": found[1]})


def with_layers(row: Row) -> Row:
    """Tell a count of layers from what stands beside it in its cell; other text stays."""
    if (found := _LAYERS.fullmatch(row.text("layers").casefold())) is None:
        return row
    told = {"layers": found[1]}
    if found[2] and int(found[2]) + int(found[3]) == int(found[1]):
        told["dense_layers"] = found[2]
    if found["mtp"]:
        told["prediction_layers"] = "1"
    return replace(row, cells={**told, **row.cells, "layers": found[1]})


def _counted(word: str) -> int:
    return int(word) if word.isdecimal() else _WORDS[word]


def with_mixture(model: dict[str, Any], row: Row) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Give a named mixture as many experts as its row says, and say so where they differ.

    Counts that include its shared experts are its own.

    Raises:
        InvalidError: A column counts experts and holds no count.
    """
    experts: dict[str, Any] | None = model.get("experts")
    if experts is None:
        count = _column(row, "expert_count") or mixture_said(row).experts or 1
        return model, (f"{count} experts of the row passed over: its model is dense",) * (count > 1)
    notes: tuple[str, ...] = ()
    if row.text("experts").casefold() in _ABSENT - {"0"}:
        notes = (f"'{row.text('experts')}' of the row passed over: its model is a mixture",)
    if (width := row.count("expert_ffn")) is not None:
        experts = {**experts, "expert_ffn": width}
    said = mixture_said(row)
    shared = round(experts.get("shared_ffn", 0) / experts["expert_ffn"])
    told: dict[str, Any] = {}
    for key, value in (("experts", said.experts), ("top_k", said.top_k)):
        own = experts[key]
        if value is not None and value not in {own, own + shared}:
            told[key] = value
    changed = {**experts, **told}
    model = {**model, "experts": experts}
    own = f"{experts['experts']} and {experts['top_k']}"
    if changed["top_k"] > changed["experts"]:
        return model, (f"{changed['top_k']} of {changed['experts']} experts: {own} taken",)
    if said.shared == 0 and shared:
        changed["shared_ffn"] = 0
        notes = (*notes, "no shared expert, as the row says")
    if said.every == 1 and experts.get("first_dense_layers"):
        changed["first_dense_layers"] = 0
        notes = (*notes, "experts in every layer, as the row says")
    if not told:
        return {**model, "experts": changed}, notes
    counts = f"{changed['experts']} experts, of which a token goes to {changed['top_k']}"
    note = f"{counts}, as the row says; the model has {own}"
    return {**model, "experts": changed}, (note, *notes)


def _column(row: Row, column: str) -> int | None:
    return None if row.text(column).casefold() in _ABSENT else row.count(column)
