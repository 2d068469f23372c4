"""What is taken for what a row of an unknown paper leaves out?"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scalewright.reproductions.by_size import billions, is_without_tables
from scalewright.reproductions.layout import without_denied
from scalewright.reproductions.metrics import metric_of
from scalewright.reproductions.programs import usual_sequence, year_of
from scalewright.reproductions.runs import is_rate, kind_of

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

_GUESSED_SEQUENCE = 4096
"""Tokens a sequence that are taken for a rate where neither a row nor its paper says them."""
_EARLY, _EARLY_SEQUENCE = 2022, 2048
"""Until when models were trained on sequences as GPT-3's (Brown et al. 2020, table 2.1)."""
_SEQ2SEQ_SEQUENCE = 512
"""What T5 was trained on (Raffel et al. 2020, section 3.1.2) and most with its two stacks since."""
_SHARDED = re.compile(
    r"(?<![a-z0-9/._-])(?:fsdp2?|fully[- ]sharded|zero[- ]?(?:stage[- ]?)?([1-3]))(?![a-z0-9/_-])"
)
_CLAUSE = re.compile(r"[;,|:()]|\. ")
_OF_ACTIVATIONS = r"(?:gradient|activation|gradients|activations)[- ]"
_AGAIN = rf"(?:{_OF_ACTIVATIONS})?(?:checkpointing|recomputation|recompute|remat(?:erialization)?)"
_EVERYWHERE = (
    r"(?: on| enabled| used| everywhere| (?:of|in|on|for) (?:each|every|all)(?: the)? layers?)"
)
_REMARKED = (
    ("none", re.compile(rf"(?:with )?(?:no|without) {_AGAIN}(?: of activations)?|{_AGAIN} off")),
    ("selective", re.compile(rf"(?:with )?selective {_AGAIN}{_EVERYWHERE}?")),
    (
        "full",
        re.compile(
            rf"(?:with )?full {_AGAIN}{_EVERYWHERE}?"
            rf"|(?:with )?(?:full )?{_OF_ACTIVATIONS}(?:checkpointing|recomputation){_EVERYWHERE}?"
        ),
    ),
)
"""What a whole clause of remarks says of recomputation."""
_ACCUMULATED = re.compile(
    r"(?<![a-z])(?:grad(?:ient)?[- _]acc(?:um(?:ulation)?)?|accum(?:ulation)?)(?:[- _]steps?)?"
    r"(?: of| is)?[ =:]{1,3}([0-9]{1,4})(?![0-9]|[.,][0-9]|[a-z])"
)
"""`gradient accumulation 16` and `accum 2` in remarks."""
_UNACCUMULATED = re.compile(r"(?<![a-z])(?:no|without) (?:gradient[- ])?accumulation(?![a-z])")
"""`no gradient accumulation` in remarks."""
_SIZE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) ?b", re.IGNORECASE)
_UNLIKE = 0.15
"""How far the parameters of a row may be from its model's without a word."""


def usual_count(row: Row, model: dict[str, Any], per_node: int) -> int:
    """Return how many devices stand for an unsaid count: of a rate per device it says little.

    Whole nodes whose number is a power of two, of 32 GiB for the weights and state that a device
    keeps of mixed precision (18 bytes a parameter) and for the degrees that the row says.
    """
    held = 18e9 * billions(model) / 2.0**35
    ranks = math.prod(row.count(axis) or 1 for axis in ("tensor", "pipeline", "context"))
    nodes = max(held, ranks, 1.0) / per_node
    return per_node * 2 ** max(math.ceil(math.log2(nodes)), 0)


def sharded(row: Row) -> tuple[Row, tuple[str, ...]]:
    """Take the sharding that a row's remarks name where its own column is blank.

    Remarks that name several compare them, and stages of a pipeline mostly share otherwise.
    """
    if row.text("zero") or row.text("shards") or (row.count("pipeline") or 1) > 1:
        return row, ()
    remarks = [row.text(column) for column in ("table", "program", "framework", "source")]
    found = list(_SHARDED.finditer(without_denied(" | ".join(filter(None, remarks)))))
    if len({match[1] or "3" for match in found}) != 1:
        return row, ()
    stage = f"zero-{found[0][1]}" if found[0][1] else "fsdp"
    note = f"remarks of the row say '{found[0][0]}', which is taken"
    return replace(row, cells={**row.cells, "zero": stage}), (note,)


def recomputed(row: Row) -> tuple[Row, tuple[str, ...]]:
    """Take the recomputation that a clause of a row's remarks says where its own column is blank.

    Remarks that say several compare them.
    """
    if row.text("recompute"):
        return row, ()
    remarks = " ; ".join(row.text(column) for column in ("table", "source"))
    clauses = [clause.strip() for clause in _CLAUSE.split(remarks.casefold())]
    found = [(word, c) for c in clauses for word, said in _REMARKED if said.fullmatch(c)]
    if len({word for word, _ in found}) != 1:
        return row, ()
    word, clause = found[0]
    note = f"remarks of the row say '{clause}': recomputation taken as {word}"
    return replace(row, cells={**row.cells, "recompute": word}), (note,)


def accumulated(row: Row) -> tuple[Row, tuple[str, ...]]:
    """Take the accumulation that remarks count where nothing else says a row's batch.

    Where they deny it, a step has one micro-batch. Remarks that count several speak of several
    runs. A time needs the batch itself: how many sequences remarks mean by a step of one is open.
    Rates and memory hardly depend on it.
    """
    told = any(row.text(each) for each in ("accumulation", "global_batch", "batch_tokens"))
    metric = metric_of(row)
    if told or not (is_rate(metric) or kind_of(metric) == "memory"):
        return row, ()
    remarks = " ; ".join(row.text(column) for column in ("table", "source"))
    found = [(match[0], match[1]) for match in _ACCUMULATED.finditer(remarks.casefold())]
    found += [(match[0], "1") for match in _UNACCUMULATED.finditer(remarks.casefold())]
    if len({steps for _, steps in found}) != 1:
        return row, ()
    words, steps = found[0]
    note = f"remarks of the row say '{words}', which is taken"
    return replace(row, cells={**row.cells, "accumulation": steps}), (note,)


def of_usual_length(row: Row, model: dict[str, Any]) -> tuple[Row, tuple[str, ...]]:
    """Add the length of sequences where a row lacks it: a rate of tokens depends little on it."""
    metric = metric_of(row)
    if row.text("sequence") or not is_rate(metric) or metric.startswith("sequences"):
        return row, ()
    early = (year := year_of(row)) is not None and year <= _EARLY
    usual = _EARLY_SEQUENCE if early else _GUESSED_SEQUENCE
    if model.get("family") == "encoder_decoder":
        usual = _SEQ2SEQ_SEQUENCE
    length = usual_sequence(row, str(model.get("name", ""))) or usual
    # a shape without a length got one position
    if (positions := model.get("max_positions", 0)) > 1:
        length = min(length, positions)
    note = f"sequences of {length:,} tokens taken: the row says none"
    return replace(row, cells={**row.cells, "sequence": str(length)}), (note,)


def unlike_size(row: Row, model: dict[str, Any]) -> tuple[str, ...]:
    """Say where a row's parameters are not those of its model."""
    said = row.billions()
    size = _SIZE.fullmatch(row.text("size").strip()) if said is None else None
    if size is not None:
        said = float(size[1])
    if not said:
        return ()
    held = billions(model)
    remarks = f"{row.text('table')} | {row.text('source')}"
    if abs(held / said - 1.0) <= _UNLIKE or is_without_tables(model, said, remarks):
        return ()
    return (f"the row says {said:g}B parameters, the model has {held:.4g}B",)
