"""How many sequences does a step of a published run take?"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError
from scalewright.reproductions.columns import plain
from scalewright.reproductions.metrics import metric_of, ungrouped
from scalewright.reproductions.runs import is_rate, kind_of

if TYPE_CHECKING:
    from scalewright.reproductions.conventions import Conventions
    from scalewright.reproductions.machine import Machine
    from scalewright.reproductions.reading import Row

_TOKENS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s?([kmb]?)\s?tokens")
_SEQUENCES = re.compile(r"([0-9]{1,7}) ?(?:sequences|seqs|samples|sentences)")
_A_STEP = re.compile(r" ?(?:/ ?|per |a )(?:step|iteration|batch|update)$")
_THOUSANDS = {"": 0, "k": 1, "m": 2, "b": 3}
_ROUNDED = 0.005
"""How far the tokens of a batch that is a power of two may be from it as they are printed."""
_GUESSED_BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Sequences a replica that are tried where neither a row nor its paper says a batch."""
_MOST_TOKENS = 2**24
"""Tokens of the largest batch that is tried beside the two least.

Pre-training takes 4 M tokens a step (LLaMA, arXiv 2302.13971, section 2.3) to 16 M (Llama 3 Herd,
arXiv 2407.21783, section 3.4.1).
"""
_LOCAL_BATCH = re.compile(
    r"(?:bs|b|lbs|batch(?: size)?|local[_ ]batch(?:[_ ]size)?) ?[=: ] ?[0-9]", re.I
)
_LOCAL_BATCHES = {"lbs", "local_batch_size", "local_batch", "bs_gpu", "batch_size_gpu"} | {
    *("batch_size_per_gpu", "batch_per_gpu", "per_device_batch_size", "batch_size_per_device")
}
"""What the sequences of a replica are called, and a column of them."""
_EITHER = re.compile(
    r"(?:\u03bcb|\u00b5b|ub|n_?mb|micro-?batches) ?[=:]? ?([0-9]{1,5})", re.IGNORECASE
)
_COUNT = re.compile(r"is a (?:count|number) of micro-?batches", re.IGNORECASE)
OF_ONE_LAYER = "layer_"
"""How metrics of a layer alone begin."""


def batches_of(
    row: Row, conventions: Conventions, machine: Machine, space: dict[str, list[Any]]
) -> tuple[int, ...]:
    """Return the global batches that a row allows, in sequences; several where it leaves them open.

    Args:
        row: The row.
        conventions: What is known of its paper.
        machine: What it ran on.
        space: Allowed values by plan field.

    Raises:
        InvalidError: Neither the row nor its paper says a batch, and its figure depends on it.
    """
    if (batch := _batch(row)) is not None:
        return (batch,)
    replicas = space.get("data", [machine.devices])[0]
    micro = space.get("micro_batch", [])
    if (steps := row.told("accumulation")) is not None and len(micro) == 1:
        return (replicas * micro[0] * steps,)
    alone = not conventions.accumulates and space.get("pipeline") == [1]
    if micro and (alone or row.text("metric").startswith(OF_ONE_LAYER)):
        return (replicas * micro[0],)
    # a rate hardly depends on the batch, which a short text may leave out
    metric = metric_of(row)
    # nor does what one stage keeps of a micro-batch that the row says
    kept = bool(micro) and kind_of(metric) == "memory" and space.get("pipeline", [1]) == [1]
    loose = is_rate(metric) or (kept and (machine.devices == 1 or "pipeline" in space))
    guessed = _GUESSED_BATCHES if loose and not conventions.known else ()
    tried = conventions.batches_per_device or guessed
    if not tried:
        name = row.named("global_batch")
        message = f"{name}: got nothing; allowed: sequences per step, or as '4M tokens'"
        raise InvalidError(message)
    if guessed:
        least = replicas * (micro[0] if micro else 1)
        most = _MOST_TOKENS // (row.count("sequence") or 1)
        return tuple(least * each for each in guessed if each <= 2 or least * each <= most)
    return tuple(replicas * each for each in (tuple(micro) or tried))


def of_tokens(row: Row) -> Row:
    """Turn a micro-batch of tokens, as `4096 tokens`, into sequences, where it is whole ones."""
    text = ungrouped(row.text("micro_batch").casefold())
    found, length = _TOKENS.fullmatch(text), row.told("sequence")
    if found is None or length is None:
        return row
    number, thousands = float(found[1]), _THOUSANDS[found[2]]
    for base in (1000, 1024):
        sequences = number * base**thousands / length
        if sequences >= 1.0 and sequences.is_integer():
            return replace(row, cells=row.cells | {"micro_batch": str(int(sequences))})
    return row


def of_replica(row: Row, conventions: Conventions, devices: int) -> tuple[Row, tuple[str, ...]]:
    """Cut what a row calls a batch of a replica as the pipeline of its program cuts it.

    `bs=8` and `local_batch_size` are sequences of a replica in one run of the pipeline, not of a
    micro-batch.
    """
    stages, micro = row.told("pipeline") or 1, row.told("micro_batch")
    if conventions.pieces is None or stages == 1:
        return row, ()
    size = conventions.pieces
    if not row.text("micro_batch"):
        return replace(row, cells=row.cells | {"micro_batch": str(size)}), ()
    if micro is None or micro % size or not _of_a_replica(row):
        return row, ()
    ranks = math.prod(row.told(axis) or 1 for axis in ("tensor", "context")) * stages
    replicas = row.told("data") or devices // ranks
    batch = row.text("global_batch") or row.text("batch_tokens") or str(micro * replicas)
    cells = row.cells | {"micro_batch": str(size), "global_batch": batch}
    note = f"{row.named('micro_batch')} {micro} is a replica's: micro-batches of {size} taken"
    return replace(row, cells=cells), (note,)


def _of_a_replica(row: Row) -> bool:
    """Say whether a heading, or a word in the cell, calls a micro-batch the batch of a replica."""
    heading, text = plain(row.named("micro_batch")), row.text("micro_batch")
    return heading in _LOCAL_BATCHES or _LOCAL_BATCH.match(text) is not None


def counted_micro_batches(row: Row) -> Row:
    """Take a number that may be the size of micro-batches or their count as remarks say it."""
    found = _EITHER.fullmatch(row.text("micro_batch").strip())
    if found is None or row.text("accumulation") or not _COUNT.search(row.text("source")):
        return row
    cells = {column: text for column, text in row.cells.items() if column != "micro_batch"}
    return replace(row, cells=cells | {"accumulation": found[1]})


def unlike_steps(
    row: Row, batches: tuple[int, ...], machine: Machine, space: dict[str, list[Any]]
) -> tuple[str, ...]:
    """Say where micro-batch, accumulation and replicas make another batch than the row's own."""
    steps = row.told("accumulation")
    micro = space.get("micro_batch", [])
    if steps is not None and len(micro) != 1 and not row.text("global_batch"):
        return (f"accumulation {steps} passed over: the row says no micro-batch",)
    degrees = [space.get(axis, []) for axis in ("tensor", "pipeline", "context")]
    if steps is None or len(micro) != 1 or len(batches) != 1 or not all(map(_one, degrees)):
        return ()
    data = space.get("data", [])
    ranks = machine.devices // math.prod(degree[0] for degree in degrees)
    replicas = data[0] if _one(data) else ranks
    product = replicas * micro[0] * steps
    if product == batches[0] or batches[0] % (replicas * micro[0]):
        return ()
    told = f"micro-batch {micro[0]} x accumulation {steps} x data {replicas} are {product}"
    return (f"global batch {batches[0]} taken: {told}",)


def _one(values: list[Any]) -> bool:
    return len(values) == 1


def _batch(row: Row) -> int | None:
    """Return the sequences of a step, also where the row says tokens, as `4M tokens`."""
    text = _A_STEP.sub("", row.text("global_batch").casefold())
    if re.fullmatch(r"[0-9,]+ ?tokens", text):
        text = ungrouped(text)
    if (bare := _SEQUENCES.fullmatch(text)) is not None:
        return int(bare[1])
    if re.fullmatch(r"[0-9.]+ ?m", text):
        # nobody's step has millions of sequences
        text += " tokens"
    if not text and (said := row.text("batch_tokens").casefold()):
        text = f"{ungrouped(said).strip('~ ').removesuffix('tokens').removesuffix('tok').strip()}"
        million = "m" in plain(row.named("batch_tokens")).split("_")
        text += (" m" if million and text[-1:].isdigit() else "") + " tokens"
    tokens = _TOKENS.fullmatch(text.replace("million", "m").replace("billion", "b"))
    if tokens is None:
        if row.text("global_batch"):
            return row.count("global_batch")
        if not row.text("batch_tokens"):
            return None
        got = f"{row.named('batch_tokens')}: got '{row.text('batch_tokens'):.40}'"
        message = f"{got}; allowed: tokens of a step, as 4M"
        raise InvalidError(message)
    sequence = row.count("sequence") or 1
    number, thousands = float(tokens[1]), _THOUSANDS[tokens[2]]
    batch, binary = (number * thousand**thousands / sequence for thousand in (1000, 1024))
    if batch.is_integer() and not (thousands and _is_power(binary)):
        return int(batch)
    # 524K tokens are 2^19 rounded, 512K of 1,024 each
    power = 2 ** round(math.log2(max(batch, 1.0)))
    if abs(batch / power - 1.0) <= _ROUNDED:
        return power
    return int(binary) if binary.is_integer() else max(round(batch), 1)


def _is_power(batch: float) -> bool:
    return batch >= 1.0 and batch.is_integer() and int(batch).bit_count() == 1
