"""Which job and which plans does a row describe, once its paper's conventions fill the gaps?"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from scalewright.catalog import with_software
from scalewright.errors import InvalidError
from scalewright.reproductions.adapters import adapted
from scalewright.reproductions.batches import (
    OF_ONE_LAYER,
    batches_of,
    counted_micro_batches,
    of_replica,
    of_tokens,
    unlike_steps,
)
from scalewright.reproductions.columns import plain
from scalewright.reproductions.conventions import Conventions, conventions_of, spelt
from scalewright.reproductions.guesses import (
    accumulated,
    of_usual_length,
    recomputed,
    sharded,
    unlike_size,
    usual_count,
)
from scalewright.reproductions.layout_words import layout_notes
from scalewright.reproductions.machine import Machine, machine_of
from scalewright.reproductions.metrics import metric_of
from scalewright.reproductions.programs import with_program
from scalewright.reproductions.runs import is_rate
from scalewright.reproductions.shape import model_of
from scalewright.reproductions.wording import (
    budgeted,
    denied,
    format_meant,
    is_custom,
    is_pure,
    mixes_any,
    recomputation_meant,
    remarks_offload,
    remarks_pure_state,
    sharding_meant,
    without_offload,
    without_stored,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scalewright.reproductions.machine import Machines
    from scalewright.reproductions.reading import Row

_TWO = re.compile(r"\bvs\b|\bversus\b|ddp ?/|/ ?(?:fsdp|ddp|zero)")
_SECOND = re.compile("zero-?_?2")
_HYBRID = re.compile("hsdp|hybrid")
_OF_ONE_DEVICE = re.compile(
    r"^(?!.*(?:memory|layer))(?:[mh]fu|.*(?:per_(?:gpu|device|chip)|of_peak|gpu_hours_(?:per|for)))"
)
"""Metrics that hardly depend on how many devices run."""
_ROUNDED, _ROUNDED_RATE = 0.005, 0.0625
_AXES = ("tensor", "pipeline", "context", "expert", "data")
_YES, _NO = {"yes", "true", "1", "on", "y"}, {"no", "false", "0", "off", "n"}
_OWN_NAMES = {"sequence_parallel": {"sp", "sequence parallel", "seq parallel"}}
"""What stands in a column for yes: what the column is of."""
_PASSED_OVER = ("nodes", "per_node", "accumulation", "shards", "replicas")
"""Columns without which a row can be priced."""
_PRINTED = frozenset({"value", "use", "seen", "label", "against"})
"""Columns that tell nothing of a run, so that rows that differ there alone have one setting."""
_HALF = ("bf16", "fp16")
_OF_TWO_CORES = {"tpu-v2", "tpu-v3", "tpu7x"}
"""Chips whose two cores are devices of their own to programs."""
_CORES = 2
_LEAST_GROUP = 4
_LONG = 65536
"""Tokens of a sequence beyond which an unsaid context degree is open."""
_SCHEDULES = {
    "gpipe": "gpipe",
    "1f1b": "1f1b",
    "onef1b": "1f1b",
    "nointerleaving": "1f1b",
    **dict.fromkeys(("interleaved", "interleaved1f1b", "1f1binterleaved"), "interleaved"),
    "zbh1": "zb-h1",
    "zbh2": "zb-h2",
    "zbv": "zb-v",
    "zbvzerobubble": "zb-v",
    "dualpipe": "dualpipe",
    "breadthfirst": "breadth-first",
    "chimera": "chimera",
}
"""Schedules of pipelines by their letters and digits."""
_DATA_ALONE = re.compile(r"d?dp\b(?! ?[+,/&])(?! and)")
"""PyTorch's DDP, beside which nothing else is said."""
_STAGE_3 = re.compile(
    r"(?:deepspeed )?(?:zero[- _]?(?:stage[- _]?)?|stage[- _]?)3(?: \([^()]{1,30}\))?$"
)
"""DeepSpeed's third stage, which its pipelines refuse (deepspeed/runtime/pipe/engine.py)."""
_OVER_ALL = re.compile(
    r"(?!.*(?:\+|\band\b|within))fsdp2? (?:over|across) (?:([0-9]{1,6})|all)"
    r" (?:gpus?|chips|devices|accelerators|ranks|dies|npus)\b"
)
"""`FSDP over 8 chips`, `FSDP across all GPUs`, beside which nothing else is said."""
_FLAGS = {"dp_shard": "shards", "dp_replicate": "replicas"}
_FLAG = re.compile(r"\b(dp_shard|dp_replicate) ?= ?([0-9]{1,6})\b")
"""Flags of torchtitan, as `FSDP, dp_replicate=2, dp_shard=8`."""
_SHORT = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
_AXIS_TOO = re.compile(r" ?[+&,] ?(tp|pp|cp|ep)$", re.IGNORECASE)
"""A degree beside a sharding, as `ZeRO-3 + TP`."""
_STAGE_UNSAID = {"zero", "deepspeed", "deepspeed zero", "zero optimizer", "sharded"}
"""Texts that say that states are sharded, but not how many of them: stages are searched."""


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
    silent: bool = False
    """True where neither the row nor its paper's conventions say whether layers run again: what its
    program does unasked gives way where no plan fits so."""


def setting_of(row: Row, machines: Machines) -> Setting:
    """Understand a row.

    Args:
        row: The row.
        machines: Where systems are found.

    Raises:
        ScalewrightError: The row lacks or contradicts what a job needs.
    """
    row.check()
    said = tuple(sorted(cell for cell in row.cells.items() if cell[0] not in _PRINTED))
    key = (row.file, said, tuple(row.headers.items()))
    if key not in machines.settings:
        machines.settings[key] = _understood(row, machines)
    return machines.settings[key]


def _understood(row: Row, machines: Machines) -> Setting:
    """Understand a row that was not met before."""
    conventions = conventions_of(row)
    row = _plainly(replace(row, cells={**conventions.columns, **row.cells}))
    if row.text("metric").startswith(OF_ONE_LAYER) and row.text("model"):
        # alone, a layer would carry the collectives of embedding and head
        cells = {column: text for column, text in row.cells.items() if column != "layers"}
        row = replace(row, cells=cells)
    usual: Callable[[int], int] | None = None
    row, guesses = adapted(row)
    model, notes = model_of(row)
    if not conventions.known:
        row, length = of_usual_length(row, model)
        row, shards = sharded(row)
        row, again = recomputed(row)
        row, steps = accumulated(row)
        guesses += (*length, *shards, *again, *steps)
        if _OF_ONE_DEVICE.match(metric_of(row)):
            usual = partial(usual_count, row, model)
    machine = machine_of(row, machines, usual)
    row, halved = _of_chips(row, machine)
    row, apart = _beside_experts(row, machine.devices)
    notes = (*notes, *guesses, *halved, *apart)
    device = machine.device
    conventions, why = with_program(row, conventions, str(device["name"]), model)
    row, pieces = of_replica(row, conventions, machine.devices)
    training = _training(row, conventions, device)
    ran = filter(None, (conventions.software, conventions.library))
    software = row.text("software") or "+".join(ran)
    if software:
        training, device = with_software(software, training, device, machines.overrides)
    space = _space(row, conventions, machine)
    if model.get("experts") is None:
        space["expert"] = [1]
    batches = batches_of(row, conventions, machine, space)
    notes = (*machine.notes, *notes, *unlike_steps(row, batches, machine, space), *_unread(row))
    notes += layout_notes(row)
    if not conventions.known:
        notes += unlike_size(row, model)
        said = row.text("software") or why
        left = "model FLOPs" if said else "model FLOPs, default software"
        notes = (*notes, f"no conventions of this paper are known: {left}", *why, *pieces)
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
        silent=not conventions.known and not row.text("recompute"),
    )


def _of_chips(row: Row, machine: Machine) -> tuple[Row, tuple[str, ...]]:
    """Count the ranks of cores by chips where a row's degrees make two a chip.

    JAX shows each core of these chips as a device; those of one are neighbours in its innermost
    axis, which is mostly that of tensors.
    """
    if machine.device["name"] not in _OF_TWO_CORES:
        return row, ()
    cells: dict[str, str] = {}
    told = {axis: row.told(axis) or 1 for axis in _AXES if axis != "expert"}
    if math.prod(told.values()) == _CORES * machine.devices:
        halved = next((axis for axis, degree in told.items() if degree % _CORES == 0), None)
        cells |= {halved: str(told[halved] // _CORES)} if halved else {}
    meant = sharding_meant(row.text("zero"))
    if meant is not None and meant[1] == _CORES * machine.devices:
        cells["zero"] = f"zero-{meant[0]}"
    if not cells:
        return row, ()
    note = f"ranks are cores, {_CORES} a chip: {', '.join(f'{c} {t}' for c, t in cells.items())}"
    return replace(row, cells=row.cells | cells), (note,)


def _beside_experts(row: Row, devices: int) -> tuple[Row, tuple[str, ...]]:
    """Count the ranks of experts among those of data where a row counts them apart.

    Expert ranks are data ranks in Megatron-LM's terms; other programs lay out a mesh of both.
    """
    degrees = [row.count(axis) for axis in ("tensor", "pipeline", "context")]
    data, expert = row.count("data"), row.count("expert")
    if data is None or expert is None:
        return row, ()
    ranks = math.prod(degree or 1 for degree in degrees) * data
    if ranks == devices or ranks * expert != devices:
        return row, ()
    note = f"{data * expert} data ranks taken: {data} beside {expert} of experts make the devices"
    return replace(row, cells=row.cells | {"data": str(data * expert)}), (note,)


def _unread(row: Row) -> tuple[str, ...]:
    """Say which cells that a job does not need hold no number and count for nothing."""
    cells = [c for c in _PASSED_OVER if row.text(c) and row.told(c) is None]
    if row.text("parameters") and row.billions() is None:
        cells.append("parameters")
    return tuple(f"{row.named(c)} '{row.text(c):.20}' is no number: passed over" for c in cells)


def _plainly(row: Row) -> Row:
    """Say in one degree and one sharding what columns of shards, replicas and denials say."""
    cells = dict(row.cells)
    if denied(row.text("zero")):
        cells["zero"] = "0"
    if denied(row.text("lora")) or row.text("lora").casefold() in _NO | {"none", "0"}:
        del cells["lora"]
    if cells.get("shards") == "-1":
        # torchtitan's word for all ranks that are left
        cells.pop("shards")
        cells.setdefault("zero", "fsdp")
    cells |= _flagged(cells)
    row = counted_micro_batches(of_tokens(replace(row, cells=cells)))
    cells = dict(row.cells)
    shards, replicas = row.told("shards"), row.told("replicas")
    if shards is None and replicas is None:
        return row
    ranks = row.count("data") or (shards or 1) * (replicas or 1)
    told = {"data": str(ranks)}
    if shards is not None and shards > 1:
        told["zero"] = f"fsdp={shards}" if shards < ranks else "fsdp"
        if _HYBRID.search(text := cells.get("zero", "").casefold()) and not _SECOND.search(text):
            # a group that is told need not be a node
            cells["zero"] = told["zero"]
    return replace(row, cells={**told, **cells})


def _flagged(cells: dict[str, str]) -> dict[str, str]:
    """Take ranks that share weights, or hold copies, out of a text on sharding that has them."""
    text = cells.get("zero", "")
    told = {_FLAGS[name]: count for name, count in _FLAG.findall(text)}
    left = _FLAG.sub("", text).strip(" ,;")
    return {**told, **cells, "zero": left} if told and left else {}


def _training(row: Row, conventions: Conventions, device: dict[str, Any]) -> dict[str, Any]:
    sequence = row.count("sequence")
    if sequence is None:
        message = f"{row.named('sequence')}: got nothing; allowed: tokens per sequence"
        raise InvalidError(message)
    training: dict[str, Any] = {**conventions.training, "sequence": sequence}
    text = row.text("dtype")
    if plain(row.named("dtype")) == "mixed_precision" and text.casefold() in _YES | _NO:
        # which format is mixed in remains unsaid
        text = "" if text.casefold() in _YES else "fp32"
    if text:
        precision = spelt("dtypes", text) or format_meant(text)
        if mixes_any(text):
            precision = "bf16" if "bf16" in device["matrix"] else "fp16"
        if precision is None:
            got = f"{row.named('dtype')}: got '{text:.40}'"
            message = f"{got}; allowed: fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4"
            raise InvalidError(message)
        training["precision"] = precision
        remarks = f"{row.text('table')} | {row.text('source')}"
        pure = is_pure(text) or (not conventions.known and remarks_pure_state(remarks))
        if precision in _HALF and pure:
            training |= {"state": precision, "gradient": precision}
    return training


def _space(row: Row, conventions: Conventions, machine: Machine) -> dict[str, list[Any]]:
    """Join the row's own plan, what the software had, and what follows from both."""
    space = _degrees(row, conventions, machine)
    space |= _of_steps(row, space)
    if text := row.text("token_slices"):
        space["token_slices"] = [text]
    if not conventions.known and (row.count("sequence") or 0) > _LONG and not row.text("context"):
        # ranks may have shared what one alone would take long for
        space["context"] = [1, 2, 4, 8, 16, 32]
    text, offloaded = without_offload(_without_axes(row))
    if text:
        stages, group = _zero(text, row, machine)
        space |= {"zero": stages, **({"zero_group": [group]} if group else {})}
    remarks = row.text("source") if not conventions.known else ""
    space |= _offload(row, offloaded or remarks_offload(remarks))
    space |= _recomputation(row, conventions) | _sequence_parallel(row)
    return _scheduled(row, _narrowed(space))


def _degrees(row: Row, conventions: Conventions, machine: Machine) -> dict[str, list[Any]]:
    """Return the degrees and the micro-batch that a row and its software leave."""
    space = dict(conventions.space)
    for column in (*_AXES, "micro_batch", "interleave"):
        if (value := row.count(column)) is not None:
            space[column] = [value]
    if (
        row.told("accumulation")
        and not row.text("global_batch")
        and not set(_AXES[:3]) & set(space)
    ):
        # who counts micro-batches of a device, and no degree, shares nothing but data
        space |= {axis: [1] for axis in _AXES[:3]}
    if machine.devices == 1 or (not conventions.known and _shares_data_alone(row, machine.devices)):
        space = {axis: [1] for axis in _AXES[:3]} | space
    if "data" not in space and all(len(space.get(a, ())) == 1 for a in _AXES[:3]):
        ranks = 1
        for axis in _AXES[:3]:
            ranks *= space[axis][0]
        if machine.devices % ranks == 0:
            space["data"] = [machine.devices // ranks]
    return space


def _shares_data_alone(row: Row, devices: int) -> bool:
    """Say whether a text on sharding leaves nothing but ranks of data to share: DDP, or FSDP."""
    folded = row.text("zero").casefold()
    over = _OVER_ALL.match(folded)
    every = over is not None and over[1] in {None, str(devices)}
    return every or any(said.match(folded) for said in (_DATA_ALONE, _STAGE_3))


def _of_steps(row: Row, space: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the micro-batch that a batch, its micro-batches and its replicas leave, if whole."""
    batch, steps = row.told("global_batch"), row.told("accumulation")
    replicas = space.get("data", ())
    if "micro_batch" in space or batch is None or steps is None or len(replicas) != 1:
        return {}
    size, left = divmod(batch, steps * replicas[0])
    return {"micro_batch": [size]} if size and not left else {}


def _scheduled(row: Row, space: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Take the schedule of a pipeline that a row names.

    Raises:
        InvalidError: It names none that is known.
    """
    text = "".join(c for c in row.text("schedule").casefold() if c.isalnum())
    if not text or space.get("pipeline") == [1]:
        return space
    name = _SCHEDULES.get(text)
    if name is None:
        got = f"{row.named('schedule')}: got '{row.text('schedule'):.40}'"
        message = f"{got}; allowed: {', '.join(dict.fromkeys(_SCHEDULES.values()))}"
        raise InvalidError(message)
    chunks = space.get("interleave", [1])
    if name == "1f1b" and chunks != [1]:
        name = "interleaved"
    return {**space, "schedule": [name]}


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
    elif without_stored(row.text("recompute"))[1]:
        space["offload_activations"] = [100]
    return space


def _recomputation(row: Row, conventions: Conventions) -> dict[str, list[Any]]:
    # where an entry says which layers recompute, it spells out what the row's word stands for
    text, _ = without_stored(row.text("recompute"))
    if not text or conventions.space.get("recompute_layers", [0]) != [0]:
        return {}
    # so it does of a policy whose tensors the row names beside it
    if is_custom(text) and len(conventions.space.get("recompute", ())) == 1:
        return {}
    policies: list[str] | None = spelt("recompute", text) or budgeted(text)
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
    if re.sub(r"[-_]", " ", text) in _OWN_NAMES.get(column, ()):
        return True
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
    if space.get("data") == space.get("context") == [1]:
        # one replica has nobody to share with, nor traffic to put under compute; ranks along
        # sequences have replicas of the weights, too
        alone = {"overlap_grad_reduce": [True], "overlap_param_gather": [True], "zero": [0]}
        space = {**alone, **space}
        if set(space["zero"]) == {0, 1}:
            space["zero"] = [0]
    if space.get("tensor") == [1]:
        space |= {"sequence_parallel": [False], "overlap_tensor": [True]}
    elif len(space.get("tensor", ())) != 1 and space.get("sequence_parallel") == [True]:
        # one rank, which an open degree may be, has nobody to share sequences with
        space["sequence_parallel"] = [False, True]
    return space


def _without_axes(row: Row) -> str:
    """Return a text on sharding without names of degrees that have columns of their own."""
    text = row.text("zero")
    while (found := _AXIS_TOO.search(text)) is not None and row.told(_SHORT[found[1].casefold()]):
        text = text[: found.start()].rstrip()
    return text


def _one_sharding(row: Row, text: str) -> str:
    """Return a text on sharding in lower case.

    Raises:
        InvalidError: The text names two.
    """
    folded = text.casefold()
    if _TWO.search(folded):
        got = f"{row.named('zero')}: got '{text:.40}'"
        message = f"{got}; allowed: one sharding"
        raise InvalidError(message)
    return folded


def _zero(text: str, row: Row, machine: Machine) -> tuple[list[int], int | None]:
    """Read the ZeRO stages that a text allows and, where said, the ranks that share weights."""
    folded = _one_sharding(row, text)
    if (meant := sharding_meant(text)) is not None:
        return [meant[0]], meant[1] or None
    if _HYBRID.search(folded) or folded.startswith("mics"):
        # PyTorch's hybrid sharding, and MiCS (Zhang et al., arXiv 2205.00119): within a node
        return [2 if _SECOND.search(folded) else 3], machine.system["devices_per_node"]
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
        least = machine.devices if data is None else data
        return [3], ranks if _LEAST_GROUP < ranks < least else None
    if plain(row.named("zero")).endswith("distributed_optimizer") and folded in _YES:
        return [1], None
    said = plain(row.named("zero")) == "fsdp" and folded in _YES | {"full"}
    if said or "fsdp" in folded or "full_shard" in folded:
        return [2 if _SECOND.search(folded) else 3], None
    if folded in _STAGE_UNSAID:
        return [1, 2, 3], None
    got = f"{row.named('zero')}: got '{text:.40}'"
    message = f"{got}; allowed: 0, 1, 2, 3, ZeRO, FSDP, HSDP or, of a group, zero1=8"
    raise InvalidError(message)
