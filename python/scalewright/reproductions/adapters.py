"""Which weights of a row's model learn beside others that stay as they are?"""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from scalewright.errors import InvalidError
from scalewright.reproductions.layout import without_denied
from scalewright.reproductions.metrics import metric_of
from scalewright.reproductions.runs import kind_of

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

_GUESSED_RANK = 16
"""Rank of adapters where a row of an unknown paper says LoRA and no more."""
_ADAPTERS = re.compile(
    r"(?<![a-z])(?P<narrow>q[- ]?)?lora(?![a-z])"
    r"(?:[ ,(]{0,3}(?:rank|r)(?:/alpha)?[ =:]?(?P<rank>[0-9]{1,4})\b)?"
)
_ON_ATTENTION = re.compile(
    r"lora(?![a-z])[^;.|]{0,20} (?:on|in|of|for) (?:the )?(?:attention(?: (?:projections|layers))?"
    r" only|only (?:the )?attention|attention alone)(?![a-z])"
)
"""Adapters beside the products of attention alone."""
_ON_MODULES = re.compile(
    r"lora(?![a-z])[^;.|]{0,20} (?:on|in|of|for|targets) "
    r"(?P<modules>[qkvo]_proj"
    r"(?:(?:, ?(?:and )?| and |/)(?:[qkvo]|up|gate|down)_proj){0,6})(?![a-z_])"
)
"""Adapters beside products by the names of their modules, as `LoRA r=8 on q_proj and v_proj`."""
_OTHER_ADAPTERS = re.compile(
    r"(?<![a-z])(?:\(?(?:llama-)?adapter(?: v2)?\)?$"
    r"|(?:prefix|prompt|p)[- ]tuning|ia3|\(ia\)3)(?![a-z])"
)
"""Small parts that learn beside weights that do not, and are no LoRA."""
_FOUR_BITS = re.compile(r"\bnf4\b|\bbnb\b|\b4[- ]?bits?\b")
"""Weights as bitsandbytes holds them under adapters."""
_PARTS = {
    "qkv": ("query", "key", "value"),
    "linear_qkv": ("query", "key", "value"),
    "q_proj": ("query",),
    "k_proj": ("key",),
    "v_proj": ("value",),
    "o_proj": ("output",),
    "up_proj": ("up",),
    "gate_proj": ("gate",),
    "down_proj": ("down",),
    "linear_proj": ("output",),
    "linear_fc1": ("up", "gate"),
    "linear_fc2": ("down",),
    "all": ("query", "key", "value", "output", "up", "gate", "down"),
}
"""Products of a layer by the names of the modules that make them."""


def adapted(row: Row) -> tuple[Row, tuple[str, ...]]:
    """Add adapters where a row says LoRA in words.

    Raises:
        InvalidError: The row is of the memory of QLoRA, whose weights of 4 bits no plan has, or of
            adapters that are not priced.
    """
    said = " ".join(row.text(column) for column in ("model", "table", "paper")).casefold()
    remarks = without_denied(row.text("source")).casefold()
    told = {each["rank"] for each in _ADAPTERS.finditer(remarks) if each["rank"]}
    # remarks may tell of other runs, but for those that say of one how wide its adapters are
    ranked = next((f for f in _ADAPTERS.finditer(remarks) if f["rank"]), None)
    if (found := _ADAPTERS.search(said) or (ranked if len(told) == 1 else None)) is None:
        if _OTHER_ADAPTERS.search(row.text("model").casefold()):
            allowed = "LoRA and QLoRA, or training of all weights"
            got = f"{row.named('model')}: got '{row.text('model'):.60}', adapters of another kind"
            message = f"{got}; allowed: {allowed}"
            raise InvalidError(message)
        return row, ()
    notes: tuple[str, ...] = ()
    if found["narrow"] or _FOUR_BITS.search(row.text("dtype").casefold()):
        if kind_of(metric_of(row)) == "memory":
            allowed = "weights of 8 bits or more, where the figure is memory"
            message = f"{row.named('model')}: got QLoRA, weights of 4 bits; allowed: {allowed}"
            raise InvalidError(message)
        taken = "weights of 4 bits taken as of 16, what unpacks them is not priced"
        notes = (f"the row says QLoRA: {taken}",)
    if row.text("lora"):
        return row, notes
    rank = found["rank"] or (told.pop() if len(told) == 1 else str(_GUESSED_RANK))
    cells = {**row.cells, "lora": rank}
    beside = "all products"
    if not row.text("lora_targets"):
        if _ON_ATTENTION.search(remarks) is not None:
            cells["lora_targets"], beside = "linear_qkv, linear_proj", "those of attention"
        elif len(said := {each["modules"] for each in _ON_MODULES.finditer(remarks)}) == 1:
            beside = said.pop()
            cells["lora_targets"] = beside.replace(" and ", ", ")
    note = f"the row says LoRA: adapters of rank {rank} on {beside} taken"
    return replace(row, cells=cells), (*notes, note)


def adapted_parts(row: Row) -> list[str]:
    """Read beside which products adapters lie: all of a layer where the row does not say."""
    text = row.text("lora_targets") or "all"
    found: list[str] = []
    for word in re.split(r"[\s,+/]+", text.casefold().strip(" ,+/")):
        parts = _PARTS.get(word, (word,) if word in _PARTS["all"] else None)
        if parts is None:
            names = [*_PARTS, *_PARTS["all"]]
            close = difflib.get_close_matches(word, names, n=2, cutoff=0.5)
            hint = f"; nearest: {', '.join(close)}" if close else ""
            got = f"{row.named('lora_targets')}: got '{word:.40}'"
            message = f"{got}; allowed: {', '.join(names)}{hint}"
            raise InvalidError(message)
        found += [part for part in parts if part not in found]
    return found
