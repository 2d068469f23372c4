"""Which choices turn a model and a cluster into a running job?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from scalewright import _engine
from scalewright.config.choices import field_name, one_value
from scalewright.config.kinds import need, plain
from scalewright.errors import InvalidError

Slices: TypeAlias = int | str | Sequence[int]
"""A count, `776+640+632` or `[776, 640, 632]`."""


@dataclass(frozen=True)
class Plan:
    """Every choice of a plan; the engine checks the values.

    Attributes:
        tensor: Ranks that split each layer's matrices.
        tensor_rows: Rows of a grid of the tensor ranks, which split the residual stream's width; 1:
            no grid.
        context: Ranks that split each sequence.
        pipeline: Pipeline stages.
        data: Replicas that split the batch.
        expert: Ranks that split the experts, out of the data and context ranks.
        expert_tensor: Ranks that split each expert: 1, or the tensor ranks (0).
        micro_batch: Sequences per micro-batch and replica.
        interleave: Model chunks per stage.
        schedule: A name of `scalewright.schedules()`.
        token_slices: Slices of each sequence along its tokens: a count, lengths or a sum of them;
            1: none.
        zero: ZeRO stage: shards nothing (0), optimizer state (1), gradients too (2), weights too
            (3).
        zero_group: Ranks over which ZeRO shards; 0: all replicas.
        recompute: `none`, `selective` or `full`.
        recompute_layers: Layers of each virtual stage, from its front, that follow `recompute`; 0:
            all.
        recompute_rest: What the layers behind those compute again: `none` or `selective`.
        recompute_experts: What layers with routed experts compute again where `recompute` would
            apply.
        sequence_parallel: Norms and dropouts split along the sequence over the tensor ranks.
        overlap_grad_reduce: Gradient reduction under the last backward pass.
        overlap_param_gather: ZeRO weight gathers under compute.
        overlap_tensor: Tensor collectives of the backward pass under weight-gradient products.
        overlap_pipeline: Sends between stages under compute; None: where the schedule can (not
            `gpipe` and `1f1b`).
        tensor_chunks: Chunks of a forward product that alternate with its tensor collective; 1: not
            cut.
        overlap_expert: All-to-alls of expert parallelism under the kernels of shared experts.
        offload_optimizer: Optimizer state and master weights in host memory, updated there.
        offload_activations: Percent of the layers' kept activations in host memory between the
            passes.
        axis_order: Axes from the innermost on the fabric out; context and data stay next to one
            another.
        first_layers: Layers of the first virtual stage; 0: as many as the others.
        last_layers: Layers of the last virtual stage; 0: as many as the others.
        bare_last: The last virtual stage holds no layer: the head alone.
        collectives: Algorithm of all-reduces between replicas: `auto`, or a name such as `ring`.
    """

    tensor: int = 1
    tensor_rows: int = 1
    context: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    expert_tensor: int = 0
    micro_batch: int = 1
    interleave: int = 1
    schedule: str = "1f1b"
    token_slices: Slices = 1
    zero: int = 0
    zero_group: int = 0
    recompute: str = "none"
    recompute_layers: int = 0
    recompute_rest: str = "none"
    recompute_experts: str = "same"
    sequence_parallel: bool = False
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True
    overlap_tensor: bool = True
    overlap_pipeline: bool | None = None
    tensor_chunks: int = 1
    overlap_expert: bool = False
    offload_optimizer: bool = False
    offload_activations: int = 0
    axis_order: str = "tensor-context-data-pipeline"
    first_layers: int = 0
    last_layers: int = 0
    bare_last: bool = False
    collectives: str = "auto"

    def __post_init__(self) -> None:
        """Take numbers of NumPy for Python's own."""
        for field in fields(self):
            object.__setattr__(self, field.name, plain(getattr(self, field.name)))

    def to_dict(self) -> dict[str, object]:
        """Return the fields, as the engine reads them, without those that are left open."""
        return {name: value for name, value in asdict(self).items() if value is not None}


FIELDS: dict[str, str] = {
    field.name: str(field.type).removesuffix(" | None") for field in fields(Plan)
}
"""Type of each field by its name."""


def plan_fields(source: str | Path | Mapping[str, object] | Plan) -> dict[str, object]:
    """Return the fields that a plan sets.

    Args:
        source: A plan, its fields, the path of a JSON file that holds them (or an answer with one
            under `plan`), or text such as `tensor=8,pipeline=8,recompute=full`.

    Raises:
        InvalidError: It is none of them.
        UnknownNameError: A field does not exist.
    """
    if isinstance(source, Plan):
        return source.to_dict()
    if isinstance(source, (str, Path)):
        text = str(source)
        if not text.strip():
            message = "plan: got nothing; allowed: a JSON file, or field=value,field=value"
            raise InvalidError(message)
        return _assigned(text) if "=" in text else _named(_object(Path(text)), text)
    need("plan", source, Mapping, "a Plan, its fields, a path, or field=value,field=value")
    return _named(source, "plan")


def _named(values: Mapping[str, object], where: str) -> dict[str, object]:
    found: object = values.get("plan", values)
    if not isinstance(found, dict):
        message = f"{where}: plan: got {found!r:.60}; allowed: an object"
        raise InvalidError(message)
    given = cast("dict[str, object]", found)
    named = {field_name(key, FIELDS): plain(value) for key, value in given.items()}
    # as in a `Plan` that leaves the field open
    return {name: v for name, v in named.items() if v is not None or name != "overlap_pipeline"}


def _assigned(text: str) -> dict[str, object]:
    """Read `field=value,field=value`."""
    found: dict[str, object] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            message = f"plan: got '{part}' in '{text}'; allowed: field=value, separated by commas"
            raise InvalidError(message)
        field = field_name(name.strip(), FIELDS)
        if field in found:
            message = f"plan: {field}: given twice in '{text}'"
            raise InvalidError(message)
        found[field] = one_value(field, FIELDS[field], value.strip())
    return found


def _object(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        value = json.loads(text, object_pairs_hook=partial(_once, path))
    except OSError as error:
        message = (
            f"plan: '{path}' cannot be read ({error.strerror}); "
            "allowed: a JSON file, or field=value,field=value"
        )
        raise InvalidError(message) from error
    except (ValueError, RecursionError) as error:
        message = f"plan: '{path}' holds no JSON: {error}"
        raise InvalidError(message) from error
    if not isinstance(value, dict):
        message = f"plan: '{path}' holds {type(value).__name__}; allowed: an object"
        raise InvalidError(message)
    return cast("dict[str, object]", value)


def _once(path: Path, pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON; refuse a field that stands in it twice."""
    found: dict[str, object] = {}
    for field, value in pairs:
        if field in found:
            message = f"plan: '{path}' gives {field} twice; allowed: each field once"
            raise InvalidError(message)
        found[field] = value
    return found


def completed(fields: Mapping[str, object], devices: int) -> dict[str, object]:
    """Return the fields of a plan with those that follow from others, where left out.

    `data` uses all devices, several chunks a stage mean the interleaved schedule, a schedule runs
    the chunks that it needs, and all but `gpipe` and `1f1b` overlap their sends, as in a search.
    """
    found = dict(fields)
    if found.get("interleave", 1) != 1:
        found.setdefault("schedule", "interleaved")
    schedule = str(found.get("schedule", "1f1b"))
    if (rule := schedule_rules().get(schedule)) is None:
        found.setdefault("overlap_pipeline", True)
    elif rule["overlaps_sends"]:
        found.setdefault("overlap_pipeline", True)
        if schedule != "interleaved":
            found.setdefault("interleave", rule["chunks"])
    found.setdefault("data", _replicas(found, devices))
    return found


@cache
def schedule_rules() -> dict[str, dict[str, Any]]:
    """Return what the engine's schedules say of themselves, by name."""
    return {rule["name"]: rule for rule in json.loads(_engine.schedule_rules())}


def _replicas(fields: Mapping[str, object], devices: int) -> int:
    each = 1
    for axis in ("tensor", "context", "pipeline"):
        ranks = fields.get(axis, 1)
        each *= ranks if isinstance(ranks, int) and ranks > 0 else 1
    return max(devices // each, 1)
