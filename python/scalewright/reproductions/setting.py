"""Which job and which plans does a row describe, once its paper's conventions fill the gaps?"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from scalewright._engine import Workload
from scalewright.catalog import with_software
from scalewright.errors import InvalidError
from scalewright.reproductions.conventions import Conventions, conventions_of, spelt
from scalewright.reproductions.machine import Machine, machine_of
from scalewright.reproductions.programs import with_program
from scalewright.reproductions.runs import is_rate
from scalewright.reproductions.shape import model_of
from scalewright.reproductions.wording import (
    format_meant,
    metric_of,
    recomputation_meant,
    sharding_meant,
    without_offload,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scalewright.reproductions.machine import Machines
    from scalewright.reproductions.reading import Row

_TOKENS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s?([kmb]?)\s?tokens")
_THOUSANDS = {"": 0, "k": 1, "m": 2, "b": 3}
_GUESSED_BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Sequences a replica that are tried where neither a row nor its paper says a batch."""
_GUESSED_SEQUENCE = 4096
"""Tokens a sequence that are taken for a rate where neither a row nor its paper says them."""
_GUESSED_RANK = 16
"""Rank of adapters where a row of an unknown paper says LoRA and no more."""
_OF_ONE_DEVICE = re.compile(
    r"^(?!.*(?:memory|layer))(?:[mh]fu|.*(?:per_(?:gpu|device|chip)|of_peak|gpu_hours_per))"
)
"""Metrics that hardly depend on how many devices run."""
_ROUNDED, _ROUNDED_RATE = 0.005, 0.0625
_AXES = ("tensor", "pipeline", "context", "expert", "data")
_YES, _NO = {"yes", "true", "1", "on", "y"}, {"no", "false", "0", "off", "n"}
_LEAST_GROUP = 4
_LONG = 65536
"""Tokens of a sequence beyond which an unsaid context degree is open."""
_STAGE_UNSAID = {"zero", "deepspeed zero", "zero optimizer", "sharded"}
"""Texts that say that states are sharded, but not how many of them: stages are searched."""
_OF_ONE_LAYER = "layer_"


@dataclass(frozen=True)
class Setting:
    """What is to be priced for a row."""

    model: str
    """JSON text of the model."""
    system: dict[str, Any]
    device: dict[str, Any]
    devices: int
    training: dict[str, Any]
    batches: tuple[int, ...]
    """Global batches; more than one where the source does not say it."""
    rounding: float
    """Share of a batch by which its source may have rounded it; rates hardly depend on it."""
    space: dict[str, list[Any]]
    """Allowed values by plan field; an absent field is open."""
    conventions: Conventions
    notes: tuple[str, ...]


def setting_of(row: Row, machines: Machines) -> Setting:
    """Understand a row.

    Args:
        row: The row.
        machines: Where systems are found.

    Raises:
        ScalewrightError: The row lacks or contradicts what a job needs.
    """
    row.check()
    conventions = conventions_of(row)
    row = replace(row, cells={**conventions.columns, **row.cells})
    if row.text("metric").startswith(_OF_ONE_LAYER) and row.text("model"):
        # alone, a layer would carry the collectives of embedding and head
        cells = {column: text for column, text in row.cells.items() if column != "layers"}
        row = replace(row, cells=cells)
    guesses: tuple[str, ...] = ()
    usual: Callable[[int], int] | None = None
    if not conventions.known:
        row, guesses = _adapted(row)
    model, notes = model_of(row)
    if not conventions.known:
        row, length = _of_usual_length(row, model)
        guesses += length
        if _OF_ONE_DEVICE.match(metric_of(row)):
            usual = partial(_usual_count, row, model)
    machine = machine_of(row, machines, usual)
    notes = (*notes, *guesses)
    device = machine.device
    conventions, why = with_program(row, conventions, str(device["name"]), model)
    training = _training(row, conventions)
    ran = filter(None, (conventions.software, conventions.library))
    software = row.text("software") or "+".join(ran)
    if software:
        training, device = with_software(software, training, device, machines.overrides)
    space = _space(row, conventions, machine)
    if model.get("experts") is None:
        space["expert"] = [1]
    batches = _batches(row, conventions, machine, space)
    notes = (*machine.notes, *notes)
    if not conventions.known:
        said = row.text("software") or why
        left = "model FLOPs" if said else "model FLOPs, default software"
        notes = (*notes, f"no conventions of this paper are known: {left}", *why)
    return Setting(
        json.dumps(model),
        machine.system,
        device,
        machine.devices,
        training,
        batches,
        _ROUNDED_RATE if is_rate(metric_of(row)) else _ROUNDED,
        space,
        conventions,
        notes,
    )


def _usual_count(row: Row, model: dict[str, Any], per_node: int) -> int:
    """Return how many devices stand for an unsaid count: of a rate per device it says little.

    Whole nodes whose number is a power of two, of 32 GiB for the weights and state that a device
    keeps of mixed precision (18 bytes a parameter) and for the degrees that the row says.
    """
    held = 18.0 * float(Workload(json.dumps(model)).parameters()["total"]) / 2.0**35
    ranks = math.prod(row.count(axis) or 1 for axis in ("tensor", "pipeline", "context"))
    nodes = max(held, ranks, 1.0) / per_node
    return per_node * 2 ** max(math.ceil(math.log2(nodes)), 0)


def _adapted(row: Row) -> tuple[Row, tuple[str, ...]]:
    """Add adapters where a row says LoRA and not how many."""
    said = " ".join(row.text(column) for column in ("paper", "table", "model")).casefold()
    if row.text("lora") or not re.search(r"(?<![a-z])lora(?![a-z])", said):
        return row, ()
    note = f"the row says LoRA: adapters of rank {_GUESSED_RANK} on all products taken"
    return replace(row, cells={**row.cells, "lora": str(_GUESSED_RANK)}), (note,)


def _of_usual_length(row: Row, model: dict[str, Any]) -> tuple[Row, tuple[str, ...]]:
    """Add the length of sequences where a row lacks it: a rate of tokens depends little on it."""
    metric = metric_of(row)
    if row.text("sequence") or not is_rate(metric) or metric.startswith("sequences"):
        return row, ()
    # a shape without a length got one position
    most = positions if (positions := model.get("max_positions", 0)) > 1 else _GUESSED_SEQUENCE
    length = min(_GUESSED_SEQUENCE, most)
    note = f"sequences of {length:,} tokens taken: the row says none"
    return replace(row, cells={**row.cells, "sequence": str(length)}), (note,)


def _training(row: Row, conventions: Conventions) -> dict[str, Any]:
    sequence = row.count("sequence")
    if sequence is None:
        message = f"{row.named('sequence')}: got nothing; allowed: tokens per sequence"
        raise InvalidError(message)
    training: dict[str, Any] = {**conventions.training, "sequence": sequence}
    if text := row.text("dtype"):
        precision = spelt("dtypes", text) or format_meant(text)
        if precision is None:
            got = f"{row.named('dtype')}: got '{text:.40}'"
            message = f"{got}; allowed: fp32, fp16, bf16, fp8, mxfp8, nvfp4"
            raise InvalidError(message)
        training["precision"] = precision
    return training


def _space(row: Row, conventions: Conventions, machine: Machine) -> dict[str, list[Any]]:
    """Join the row's own plan, what the software had, and what follows from both."""
    space = dict(conventions.space)
    for column in (*_AXES, "micro_batch", "interleave"):
        if (value := row.count(column)) is not None:
            space[column] = [value]
    if "data" not in space and all(len(space.get(a, ())) == 1 for a in _AXES[:3]):
        ranks = 1
        for axis in _AXES[:3]:
            ranks *= space[axis][0]
        if machine.devices % ranks == 0:
            space["data"] = [machine.devices // ranks]
    if text := row.text("token_slices"):
        space["token_slices"] = [text]
    if not conventions.known and (row.count("sequence") or 0) > _LONG and not row.text("context"):
        # ranks may have shared what one alone would take long for
        space["context"] = [1, 2, 4, 8, 16, 32]
    text, offloaded = without_offload(row.text("zero"))
    if text:
        stages, group = _zero(text, row, machine)
        space |= {"zero": stages, **({"zero_group": [group]} if group else {})}
    space |= _offload(row, offloaded)
    space |= _recomputation(row, conventions) | _sequence_parallel(row)
    return _narrowed(space)


def _offload(row: Row, offloaded: bool) -> dict[str, list[Any]]:
    """Read what lies in host memory between passes or steps."""
    space: dict[str, list[Any]] = {"offload_optimizer": [True]} if offloaded else {}
    if (told := _flag(row, "offload_optimizer")) is not None:
        space["offload_optimizer"] = [told]
    if text := row.text("offload_activations"):
        percent = text.removesuffix("%").strip()
        if not re.fullmatch(r"[0-9]{1,3}", percent) or int(percent) > 100:
            got = f"{row.named('offload_activations')}: got '{text:.40}'"
            message = f"{got}; allowed: 0 to 100, percent of the layers"
            raise InvalidError(message)
        space["offload_activations"] = [int(percent)]
    return space


def _recomputation(row: Row, conventions: Conventions) -> dict[str, list[Any]]:
    # where an entry says which layers recompute, it spells out what the row's word stands for
    text = row.text("recompute")
    if not text or conventions.space.get("recompute_layers", [0]) != [0]:
        return {}
    policies = spelt("recompute", text)
    if policies is None:
        if (meant := recomputation_meant(text)) is None:
            got = f"{row.named('recompute')}: got '{text:.40}'"
            message = f"{got}; allowed: none, selective, full, or of some layers, block 4"
            raise InvalidError(message)
        return {"recompute": [meant[0]], "recompute_layers": [meant[1]]}
    # where a source says `full` it means every layer
    return {"recompute": policies, "recompute_layers": [0]}


def _sequence_parallel(row: Row) -> dict[str, list[Any]]:
    told = _flag(row, "sequence_parallel")
    return {} if told is None else {"sequence_parallel": [told]}


def _flag(row: Row, column: str) -> bool | None:
    text = row.text(column).casefold()
    if not text:
        return None
    if text not in _YES | _NO:
        message = f"{row.named(column)}: got '{text:.40}'; allowed: yes, no"
        raise InvalidError(message)
    return text in _YES


def _narrowed(space: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Fix what the fixed fields leave no choice in."""
    # published runs cut each matrix along one dim
    space = {"tensor_rows": [1], **space}
    if space.get("pipeline") == [1]:
        space |= {"interleave": [1], "overlap_pipeline": [False]}
        schedules = [s for s in space.get("schedule", ["1f1b"]) if s != "interleaved"]
        space["schedule"] = schedules[:1] or ["1f1b"]
    elif len(space.get("interleave", ())) == 1 and "gpipe" not in space.get("schedule", ()):
        space["schedule"] = ["1f1b" if space["interleave"] == [1] else "interleaved"]
    if space.get("tensor") == [1]:
        space |= {"sequence_parallel": [False], "overlap_tensor": [True]}
    elif len(space.get("tensor", ())) != 1 and space.get("sequence_parallel") == [True]:
        # one rank, which an open degree may be, has nobody to share sequences with
        space["sequence_parallel"] = [False, True]
    return space


def _zero(text: str, row: Row, machine: Machine) -> tuple[list[int], int | None]:
    """Read the ZeRO stages that a text allows and, where said, the ranks that share weights."""
    folded = text.casefold()
    if (meant := sharding_meant(text)) is not None:
        return [meant[0]], meant[1] or None
    if "hsdp" in folded or "hybrid_shard" in folded or folded.startswith("mics"):
        # PyTorch's hybrid sharding, and MiCS (Zhang et al., arXiv 2205.00119): within a node
        return [3], machine.system["devices_per_node"]
    if "not resharded" in folded:
        # weights stay gathered and gradients are summed over micro-batches before they are reduced
        return [1], None
    if "within slice" in folded:
        slices = re.match(r"(\d{1,4})x ", row.text("hardware"))
        count = int(slices[1]) if slices else 1
        ranks = machine.devices // count // (row.count("tensor") or 1)
        return [3], ranks if count > 1 else None
    if folded == "fsdp2" and (row.count("pipeline") or 1) > 1:
        # under PyTorch's schedules weights stay gathered and gradients are reduced once a step
        return [1], None
    if group := re.match(r"fsdp\s*(\d{1,6})(?![\w.])", folded):
        ranks = int(group[1])
        data = row.count("data")
        # FSDP2 is a release, FSDP64 a group of 64 ranks
        return [3], ranks if data is not None and ranks < data and ranks > _LEAST_GROUP else None
    if "fsdp" in folded or "full_shard" in folded:
        return [3], None
    if folded in _STAGE_UNSAID:
        return [1, 2, 3], None
    got = f"{row.named('zero')}: got '{text:.40}'"
    message = f"{got}; allowed: 0, 1, 2, 3, ZeRO, FSDP, HSDP or, of a group, zero1=8"
    raise InvalidError(message)


def _batches(
    row: Row, conventions: Conventions, machine: Machine, space: dict[str, list[Any]]
) -> tuple[int, ...]:
    if (batch := _batch(row)) is not None:
        return (batch,)
    replicas = space.get("data", [machine.devices])[0]
    micro = space.get("micro_batch", [])
    if micro and row.text("metric").startswith(_OF_ONE_LAYER):
        return (replicas * micro[0],)
    # a rate hardly depends on the batch, which a short text may leave out
    guessed = () if conventions.known or not is_rate(metric_of(row)) else _GUESSED_BATCHES
    tried = conventions.batches_per_device or guessed
    if not tried:
        name = row.named("global_batch")
        message = f"{name}: got nothing; allowed: sequences per step, or as '4M tokens'"
        raise InvalidError(message)
    if guessed and micro:
        return tuple(replicas * micro[0] * each for each in guessed)
    return tuple(replicas * each for each in (tuple(micro) or tried))


def _batch(row: Row) -> int | None:
    """Return the sequences of a step, also where the row says tokens, as `4M tokens`."""
    tokens = _TOKENS.fullmatch(row.text("global_batch").casefold())
    if tokens is None:
        return row.count("global_batch")
    sequence = row.count("sequence") or 1
    number, thousands = float(tokens[1]), _THOUSANDS[tokens[2]]
    for thousand in (1000, 1024):
        batch = number * thousand**thousands / sequence
        if batch.is_integer():
            return int(batch)
    return max(round(number * 1000**thousands / sequence), 1)
