"""What does a step come to whose weights, state or activations live beyond the device?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import Plan, completed, json_text, need, plan_fields
from scalewright.errors import InvalidError
from scalewright.planning.job import Job
from scalewright.planning.stamp import Answer
from scalewright.planning.timeline import Row, Span, Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.config import Training
    from scalewright.planning.asking import AnyPlan
    from scalewright.planning.inputs import Model, System

SCHEMES = ("zero-offload", "zero-infinity", "patrickstar", "granular", "weight-streaming")
"""Schemes that `offload` runs; `docs/offload.md` has their fields."""

_ROWS = {
    "compute": "compute",
    "fabric": "fabric",
    "from-host": "from host",
    "to-host": "to host",
    "from-drive": "from drive",
    "to-drive": "to drive",
    "host": "host",
}
_TIERS = ("device", "host", "drive")
_CATEGORIES = {"forward": "forward", "backward": "backward", "update": "other"}
_NAMES = {
    "forward": "forward pass",
    "backward": "backward pass",
    "load": "load",
    "evict": "make room for",
    "store": "store",
    "update": "update",
    "return": "return",
}


@dataclass(frozen=True)
class TierUse:
    """A tier at the fullest moment of a step: one device's part of it.

    Attributes:
        tier: `device`, `host` or `drive`.
        name: Its name in the catalog; empty where there is none.
        weights_bytes: Weights in the compute format, at home.
        gradients_bytes: Gradients, at home.
        optimizer_bytes: Master weights and moments.
        activations_bytes: Activations kept for the backward pass, at home.
        buffers_bytes: What is on its way: gathered weights, gradients that leave, activations that
            pass, state that is staged.
        workspace_bytes: Working set of the running operators.
        fragmentation_bytes: What the device's allocator loses.
        reserve_bytes: Driver context and communicator buffers.
        total_bytes: All that lies in the tier.
        capacity_bytes: Bytes that it holds.
        fits: True where they lie in it.
    """

    tier: str
    name: str
    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    buffers_bytes: float
    workspace_bytes: float
    fragmentation_bytes: float
    reserve_bytes: float
    total_bytes: float
    capacity_bytes: float
    fits: bool

    def by_class(self) -> dict[str, float]:
        """Return the bytes by what they are for: weights, gradients, optimizer, activations, ..."""
        parts = {name.removesuffix("_bytes"): value for name, value in vars(self).items()}
        whole = ("tier", "name", "total", "capacity", "fits")
        return {name: value for name, value in parts.items() if name not in whole}


@dataclass(frozen=True, kw_only=True)
class Offload(Answer):
    """A step of a plan with an offloading scheme.

    Attributes:
        scheme: The scheme, as `zero-offload`.
        step_time_s: Seconds of a step; of one of many where its update runs under the next.
        compute_s: Passes alone.
        exposed_s: The rest of the step by what is waited for: `loads_s`, `stores_s`, `updates_s`.
        busy_s: Seconds of a step for which each engine works.
        lower_bound_s: The busiest of them.
        tiers: Nearest first.
        fits: True where all tiers hold what is in them.
        chosen: What the scheme chose: homes, chunk sizes, layers on the host.
        parameters: Parameters of the model.
        tokens_per_s: Tokens a second of all devices.
        model_flops_per_s_per_device: Model FLOP/s of a device, recomputation left out.
        hardware_flops_per_s_per_device: The same with what is recomputed.
        task_count: Tasks that make up the step.
        tasks: Every task with its engine, what it does, layer, start and end; none unless asked
            for.
    """

    scheme: str
    step_time_s: float
    compute_s: float
    exposed_s: Mapping[str, float]
    busy_s: Mapping[str, float]
    lower_bound_s: float
    tiers: tuple[TierUse, ...]
    fits: bool
    chosen: Mapping[str, str]
    parameters: int
    tokens_per_s: float
    model_flops_per_s_per_device: float
    hardware_flops_per_s_per_device: float
    task_count: int
    tasks: tuple[Mapping[str, Any], ...] = ()

    left_out = ("tasks",)

    def timeline(self) -> Timeline:
        """Return every task on its engine, for a trace or a picture."""
        rows: dict[str, list[Span]] = {name: [] for name in _ROWS}
        for task in self.tasks:
            doing, layer = task["doing"], task["layer"]
            on_fabric = task["engine"] == "fabric"
            category = _CATEGORIES.get(doing, "collective" if on_fabric else "offload")
            span = Span(
                f"{_NAMES[doing]}, block {layer}",
                category,
                task["start_s"],
                task["end_s"],
                str(layer),
            )
            rows[task["engine"]].append(span)
        filled = tuple(
            Row("device 0", _ROWS[name], tuple(sorted(spans, key=lambda s: (s.start_s, s.end_s))))
            for name, spans in rows.items()
            if spans
        )
        return Timeline(self.scheme, filled, note="a device stands for all")


@dataclass(frozen=True)
class FilledTier:
    """What a tier holds: one device's part of it.

    Attributes:
        tier: `device`, `host` or `drive`.
        total_bytes: All that lies in the tier.
        capacity_bytes: Bytes that it holds.
    """

    tier: str
    total_bytes: float
    capacity_bytes: float


@dataclass(frozen=True, kw_only=True)
class LargestModel(Answer):
    """The largest model of a family that a scheme fits.

    Attributes:
        parameters: Parameters of the largest model that fits.
        layers: Its layers.
        hidden: Width of its residual stream.
        tiers: Device, host and drives: bytes of one device, and its part of the rest.
        binding: Tiers that the next larger model overfills; none where 65,536 layers, or 16,384
            heads, still fit: no larger one is tried.
    """

    parameters: int
    layers: int
    hidden: int
    tiers: tuple[FilledTier, ...]
    binding: tuple[str, ...]


def offload(
    scheme: str,
    model: Model,
    system: System,
    training: Training,
    plan: AnyPlan | None = None,
    *,
    memory_margin: float = 0.0,
    tasks: bool = False,
    **fields: object,
) -> Offload:
    """Price a step whose weights, state or activations live beyond the device.

    Blocks are priced as `estimate` prices them; every pass, copy and update is a task on the engine
    that runs it. The plan's pipeline is 1, and the scheme says what its ZeRO stage is.

    Args:
        scheme: One of `SCHEMES`.
        model: What `scalewright.model` returns.
        system: What `scalewright.system` returns; it has a host, and tiers behind it for drives.
        training: Batch, sequence, formats.
        plan: The plan; one micro-batch of one sequence on each device where left out.
        memory_margin: Share of the device memory to be left free.
        tasks: True to get the tasks, which `timeline` shows.
        **fields: Fields of the scheme, as `optimizer="drive"`.

    Raises:
        ScalewrightError: A value is wrong, the scheme has no such field, or the plan breaks a rule.
    """
    job = Job(model, system, training, memory_margin)
    return offload_job(job, scheme, plan, tasks=tasks, fields=fields)


def offload_job(
    job: Job,
    scheme: str,
    plan: AnyPlan | None = None,
    *,
    tasks: bool = False,
    fields: Mapping[str, object] | None = None,
) -> Offload:
    """Price a step with an offloading scheme for a job; see `offload`."""
    need("tasks", tasks, bool, "True or False")
    text = _engine.offload(job.handle, _plan(job, plan), _asked(scheme, fields), tasks=tasks)
    found: dict[str, Any] = json.loads(text)
    exposed: dict[str, float] = found.pop("exposed")
    busy: list[dict[str, Any]] = found.pop("busy")
    tiers: list[dict[str, Any]] = found.pop("tiers")
    chosen: list[tuple[str, str]] = found.pop("chosen")
    uses = tuple(TierUse(**use) for use in tiers)
    return Offload(
        scheme=scheme,
        exposed_s=exposed,
        busy_s={each["engine"]: each["busy_s"] for each in busy},
        tiers=uses,
        chosen=dict(chosen),
        tasks=tuple(found.pop("spans")),
        **found,
        _rests_on=job,
    )


def largest_model(
    scheme: str,
    family: Model,
    system: System,
    training: Training,
    plan: AnyPlan | None = None,
    *,
    grow: str = "layers",
    memory_margin: float = 0.0,
    **fields: object,
) -> LargestModel:
    """Find the largest model that a scheme fits into the machines' tiers.

    Args:
        scheme: One of `SCHEMES`.
        family: The model that grows.
        system: What `scalewright.system` returns.
        training: Batch, sequence, formats.
        plan: The plan; one micro-batch of one sequence on each device where left out.
        grow: `layers`: more of them; `hidden`: more heads, and all widths in step.
        memory_margin: Share of the device memory to be left free.
        **fields: Fields of the scheme.

    Raises:
        ScalewrightError: A value is wrong, or not even the smallest model fits.
    """
    job = Job(family, system, training, memory_margin)
    return largest_job(job, scheme, plan, grow=grow, fields=fields)


def largest_job(
    job: Job,
    scheme: str,
    plan: AnyPlan | None = None,
    *,
    grow: str = "layers",
    fields: Mapping[str, object] | None = None,
) -> LargestModel:
    """Find the largest model of a job's family; see `largest_model`."""
    need("grow", grow, str, "layers or hidden")
    asked, growth = _asked(scheme, fields), json_text("grow", grow)
    found = json.loads(_engine.largest_model(job.handle, _plan(job, plan), asked, growth))
    filled = zip(_TIERS, found.pop("bytes"), found.pop("capacity_bytes"), strict=True)
    tiers = tuple(FilledTier(*of) for of in filled)
    binding = tuple(found.pop("binding"))
    return LargestModel(**found, tiers=tiers, binding=binding, _rests_on=job)


def offload_efficiency(
    intensity_flops_per_byte: float, bandwidth_bytes_per_s: float, peak_flops_per_s: float
) -> float:
    """Return the share of the peak that a device reaches where nothing overlaps.

    The formula of ZeRO-Infinity, section 4: `a B / (a B + P)`.

    Args:
        intensity_flops_per_byte: Operations for each byte that is moved: `sequence * batch` for
            weights and gradients, a quarter of it for optimizer state, `24 * hidden` for
            checkpoints of each layer.
        bandwidth_bytes_per_s: Rate at which they move.
        peak_flops_per_s: What the device reaches without moving any.

    Raises:
        InvalidError: A value is not above 0.
    """
    given = {
        "intensity_flops_per_byte": intensity_flops_per_byte,
        "bandwidth_bytes_per_s": bandwidth_bytes_per_s,
        "peak_flops_per_s": peak_flops_per_s,
    }
    return _engine.offload_efficiency(json_text("", given))


def _plan(job: Job, plan: AnyPlan | None) -> str:
    """Return the plan's text; where it leaves them open, all devices are replicas."""
    fields = plan_fields({} if plan is None else plan)
    whole = {**Plan().to_dict(), **completed(fields, job.system.devices)}
    return json_text("plan", whole)


def _asked(scheme: str, fields: Mapping[str, object] | None) -> str:
    need("scheme", scheme, str, f"one of {', '.join(SCHEMES)}")
    if scheme == "zero-infinity":
        _need_order(fields or {})
    return json_text("", {**(fields or {}), "scheme": scheme})


def _need_order(fields: Mapping[str, object]) -> None:
    """Refuse weights that would lie farther away than the state that updates them.

    Raises:
        InvalidError: They would.
    """
    weights, optimizer = fields.get("weights"), fields.get("optimizer")
    if weights not in _TIERS or optimizer not in _TIERS:
        return  # left open, or for the engine to refuse
    nearer = _TIERS[: _TIERS.index(optimizer) + 1]
    if weights not in nearer:
        farther = _TIERS[_TIERS.index(weights) :]
        message = (
            f"weights: got {weights!r} with optimizer {optimizer!r}, which is nearer; allowed: "
            f"weights {' or '.join(nearer)} with this optimizer, or optimizer "
            f"{' or '.join(farther)} with these weights"
        )
        raise InvalidError(message)
