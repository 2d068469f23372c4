"""Which shape has as many parameters as a row says, where the rest of the row leaves it open?"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from scalewright._engine import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIKE = 0.1
"""How far a size may be from a row's before another shape is looked for; sizes are rounded."""
_FEW_HEADS = 12
_NEAR = 0.05
"""How near another shape has to come to be taken."""
_GROUPS = (8, 4)
"""Heads of keys of models with fewer of them than of queries (Llama 3, Qwen 3, Mistral, Gemma)."""
_VOCABULARIES = (32000, 50304, 100352, 128256, 151936, 256000)
"""Tokens of the usual vocabularies: Llama 2, GPT-NeoX, OLMo 2, Llama 3, Qwen 2.5 and BLOOM."""
_SMALLEST = 64
"""Tokens of the smallest vocabulary, of letters; others are its multiples."""
_NO_TABLES = re.compile(r"\bnon[ _-]?embed(?:ding)?s?\b", re.IGNORECASE)
"""What says of parameters that they leave tables of tokens out."""
NARROWEST = 64
"""Width of the narrowest expert; widths are its multiples."""


def billions(model: dict[str, Any]) -> float:
    """Return a model's parameters in billions.

    Raises:
        ScalewrightError: The fields are no model.
    """
    return float(Workload(json.dumps(model)).parameters()["total"]) / 1e9


def is_without_tables(model: dict[str, Any], said: float, remarks: str) -> bool:
    """Say whether a size leaves out a model's tables of tokens, as remarks say that some do.

    Raises:
        ScalewrightError: The fields are no model.
    """
    if _NO_TABLES.search(remarks) is None:
        return False
    tables = (1 if model.get("tied_embeddings") else 2) * model["vocab"] * model["hidden"] / 1e9
    left = (billions(model) - tables, billions(model) - tables / 2.0)
    return any(abs(each / said - 1.0) <= _NEAR for each in left)


def of_size(
    model: dict[str, Any],
    gated: dict[str, Any],
    said: float,
    *,
    vocab_said: bool,
    kinds_open: bool = True,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a model, or one that differs in what a row leaves out and has its size.

    Open are whether feed-forward parts are gated, whether the head shares the embedding's table
    and, where the row does not say it, the vocabulary.

    Args:
        model: The model's fields.
        gated: The same of a model with gated parts.
        said: The row's parameters in billions.
        vocab_said: Whether the row says the vocabulary.
        kinds_open: Whether the row leaves open if feed-forward parts are gated.

    Raises:
        ScalewrightError: The fields are no model.
    """
    held = billions(model)
    if abs(held / said - 1.0) <= _LIKE:
        return model, ()
    kinds = [kind for kind in _kinds(model, gated) if kinds_open or kind["activation"] != "gelu"]
    found = _nearest(kinds, said)
    if found is None and not kinds_open and model.get("kv_heads") is None:
        # what has gates mostly has fewer keys than queries, too
        found = _nearest([*_grouped(kinds)], said)
    if found is None and not vocab_said:
        sized = [{**kind, "vocab": vocab} for kind in kinds for vocab in _VOCABULARIES]
        found = _nearest(sized, said) or _rest(kinds, said)
    if found is None:
        return model, ()
    told = [found["activation"], "one table" if found.get("tied_embeddings") else "two tables"]
    if found.get("kv_heads") != model.get("kv_heads"):
        told.append(f"{found['kv_heads']} heads of keys")
    if found["vocab"] != model["vocab"]:
        told.append(f"{found['vocab']:,} tokens")
    return found, (f"{', '.join(told)} taken, which make its {said:g}B parameters",)


def of_like_size(
    gated: dict[str, Any], plain: dict[str, Any], said: float
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a mixture with gates, or the one without where that alone makes a row's parameters.

    Args:
        gated: The mixture, of experts with gates.
        plain: The same of experts without.
        said: The row's parameters in billions, of all experts.

    Raises:
        ScalewrightError: The fields are no model.
    """
    if abs(billions(gated) / said - 1.0) <= _LIKE:
        return gated, ()
    kinds = [{**plain, "tied_embeddings": tied} for tied in (True, False)]
    if (found := _nearest(kinds, said)) is None:
        return gated, ()
    return found, (f"experts without gates taken, which make its {said:g}B parameters",)


def usual_heads(hidden: int) -> int:
    """Return heads of 128 columns, or of 64 where that makes no whole number or few of them."""
    if hidden % 128 == 0 and hidden >= _FEW_HEADS * 128:
        return hidden // 128
    return hidden // 64 if hidden % 64 == 0 else 1


def as_wide(model: dict[str, Any], said: float) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Take feed-forward parts of four times the stream where they alone make a row's parameters."""
    wide = {**model, "ffn": 4 * model["hidden"]}
    off, off_wide = (abs(billions(each) / said - 1.0) for each in (model, wide))
    if off <= _LIKE or off_wide > _NEAR:
        return model, ()
    note = f"feed-forward parts {wide['ffn']:,} wide taken, which make its {said:g}B parameters"
    return wide, (note,)


def expert_width(narrow: dict[str, Any], said: float) -> int | None:
    """Return the width of experts with which a mixture has a row's parameters, if one does.

    Args:
        narrow: The mixture with experts of the narrowest width.
        said: The row's parameters in billions, of all experts.

    Raises:
        ScalewrightError: The fields are no model.
    """
    experts = narrow["experts"]
    wide = {**experts, "expert_ffn": 2 * NARROWEST}
    if experts.get("shared_ffn"):
        wide["shared_ffn"] = 2 * experts["shared_ffn"]
    least = billions(narrow)
    each = billions({**narrow, "experts": wide}) - least
    steps = 1 + round((said - least) / each) if each > 0.0 else 0
    return steps * NARROWEST if steps > 0 else None


def _kinds(model: dict[str, Any], gated: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for kind in (gated, {**model, "activation": "gelu"}):
        for tied in (True, False):
            yield {**kind, "tied_embeddings": tied}


def _grouped(kinds: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield gated models with as few heads of keys as such models have."""
    for kind in kinds:
        for groups in _GROUPS:
            if (
                kind["activation"] != "gelu"
                and kind["heads"] % groups == 0 < kind["heads"] - groups
            ):
                yield {**kind, "kv_heads": groups}


def _rest(kinds: list[dict[str, Any]], said: float) -> dict[str, Any] | None:
    """Return the first kind whose table holds a small vocabulary in what the size leaves for it."""
    for kind in kinds:
        least, more = (billions({**kind, "vocab": vocab}) for vocab in (_SMALLEST, 2 * _SMALLEST))
        vocab = _SMALLEST * (1 + round((said - least) / (more - least)))
        if _SMALLEST <= vocab < _VOCABULARIES[0]:
            return {**kind, "vocab": vocab}
    return None


def _nearest(kinds: list[dict[str, Any]], said: float) -> dict[str, Any] | None:
    far = [abs(billions(kind) / said - 1.0) for kind in kinds]
    least = min(far)
    return kinds[far.index(least)] if least <= _NEAR else None
