"""Where should each byte of a step live, and is that proven best?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from scalewright import _engine
from scalewright.catalog.technologies import with_technologies
from scalewright.config import (
    completed,
    json_text,
    named_as,
    need,
    need_count,
    need_listed,
    need_progress,
    need_tables,
    plan_fields,
)
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.planning.inputs import System
from scalewright.planning.job import Job
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scalewright.config import Training
    from scalewright.planning.asking import AnyPlan
    from scalewright.planning.inputs import Model

OBJECTIVES: Mapping[str, Mapping[str, float]] = {
    "time": {"per_s": 1.0},
    "energy": {"per_s": 0.0, "per_j": 1.0},
    "dollars": {"per_s": 0.0, "per_usd": 1.0},
}
"""What each named objective weighs; seconds, joules and dollars of a step."""


@dataclass(frozen=True)
class Placement(Answer):
    """Where the tensors of one rank best lie, with the proof; or what is missing.

    Attributes:
        values: Every field that the engine gives, as in `to_dict`.
    """

    values: Mapping[str, Any]

    @property
    def feasible(self) -> bool:
        """Say whether everything has a place."""
        return self.values["status"] == "placed"

    @property
    def placed(self) -> Mapping[str, Any]:
        """Return the placement: objective, bound, tensors, tiers, lanes.

        Raises:
            InvalidError: Something has no place; says what is lacking at least.
        """
        if not self.feasible:
            raise InvalidError(self.lacks())
        return self.values["placed"]

    @property
    def missing(self) -> Sequence[Mapping[str, Any]]:
        """Return `what` is missing, at which `instant`, `missing_bytes`; empty where it fits."""
        return self.values["missing"]

    @property
    def step_time_s(self) -> float:
        """Return the length of a step."""
        return self.placed["step_time_s"]

    @property
    def objective(self) -> float:
        """Return what was minimised."""
        return self.placed["objective_value"]

    @property
    def bound(self) -> float:
        """Return what no placement of the kinds considered can beat."""
        return self.placed["objective_bound"]

    @property
    def relative_gap(self) -> float:
        """Return how far the objective may lie above the best, over the objective."""
        return self.placed["relative_gap"]

    @property
    def tiers(self) -> tuple[str, ...]:
        """Return the names of the tiers, nearest first."""
        return tuple(self.values["tiers"])

    def bytes_by_class(self) -> dict[str, dict[str, float]]:
        """Return the bytes of each class in each tier while they are not in use."""
        found: dict[str, dict[str, float]] = {}
        tensors: list[dict[str, Any]] = self.placed["tensors"]
        for tensor in tensors:
            line = found.setdefault(tensor["class"], dict.fromkeys(self.tiers, 0.0))
            for tier, share in zip(self.tiers, tensor["shares"], strict=True):
                line[tier] += share * tensor["bytes"]
        return found

    def memory(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        """Return bytes over the instants of the step, by tier and class."""
        import numpy as np

        found: dict[str, dict[str, NDArray[np.float64]]] = {}
        lines: list[dict[str, Any]] = self.placed["memory"]
        for held in lines:
            line = np.asarray(held["bytes_by_instant"], dtype=float)
            found.setdefault(held["tier"], {})[held["class"]] = line
        return found

    def lacks(self) -> str:
        """Say what is missing at least; once it is there, other instants may lack more."""
        return f"no placement fits; it lacks at least: {'; '.join(map(_lack, self.missing))}"

    def plain(self) -> dict[str, Any]:
        """Return the answer alone, ready for JSON."""
        return dict(self.values)


def place(
    model: Model,
    system: System,
    plan: AnyPlan,
    training: Training,
    *,
    objective: str | Mapping[str, float] = "time",
    stage: int | None = None,
    whole: bool = False,
    years: float | None = None,
    instants: int = 256,
    relative_gap: float | None = None,
    nodes: int = 10_000,
    tiers: Sequence[str] = (),
    memory_margin: float = 0.0,
    progress: Callable[[int, int], object] | None = None,
) -> Placement:
    """Place the tensors of one rank of a plan over all memory that its device reaches.

    Weights, gradients, optimizer state and kept activations may lie in any tier, whole or in part;
    in tiers behind the main one they stream in for each use, stay between uses that are near, or
    are updated there by the host. Transfers run beside the compute of the pass that needs them.
    The answer is the optimum of that model up to `relative_gap`, with the bound that proves it.

    Args:
        model: Model.
        system: Devices, whose `tiers`, `host` and `paths` say what they reach.
        plan: Plan without offload: placement decides what leaves the device.
        training: Training.
        objective: "time", "energy" or "dollars", or weights `per_s`, `per_j` and `per_usd` of
            seconds, joules of moving and keeping bytes, and dollars of filled memory.
        stage: Pipeline stage of the rank; the fullest where left out.
        whole: Tensors may not be split over tiers.
        years: No tier may wear out within so many years of steps.
        instants: Instants that the step is cut into, if its operations leave the choice.
        relative_gap: Where the proof may stop, over the objective; 1e-6, and 0.01 with `whole`,
            where left out.
        nodes: Relaxed programs after which the best placement found is returned with its bound.
        tiers: Tiers in which tensors may lie; where empty, the main one and all behind it (caches
            in front of it are part of the price of kernels already).
        memory_margin: Share of the device's memory to leave free.
        progress: Is called with units done and in all.

    Raises:
        ScalewrightError: A value is wrong or the plan breaks a rule.
    """
    need("whole", whole, bool, "True or False")
    job = Job(model, system, training, memory_margin)
    wish = {
        "objective": _weights(objective),
        "stage": stage,
        "whole": whole,
        "years": years,
        "instants": instants,
        "relative_gap": _relative_gap(relative_gap, whole=whole),
        "nodes": nodes,
        "tiers": _names(tiers),
    }
    return place_job(job, plan, wish, progress)


def place_job(
    job: Job,
    plan: AnyPlan,
    wish: Mapping[str, object],
    progress: Callable[[int, int], object] | None = None,
) -> Placement:
    """Place the tensors of one rank of a plan for a job; see `place`."""
    need_progress(progress)
    known = memories(job.system)
    names = [place["tier"]["name"] for place in known["places"]]
    for name in _names(wish.get("tiers", ())):
        if name not in names:
            message = f"tiers: unknown name '{name}'; known: {', '.join(names)}"
            raise UnknownNameError(message)
    chosen = json_text("plan", completed(plan_fields(plan), job.system.devices))
    text = json_text("", dict(wish))
    return Placement(
        json.loads(_engine.place_plan(job.handle, chosen, text, progress=progress)), _rests_on=job
    )


def place_tensors(
    tensors: Sequence[Mapping[str, object]],
    windows: Sequence[Mapping[str, object]],
    *,
    system: System | None = None,
    tiers: Sequence[Mapping[str, object]] = (),
    paths: Sequence[Mapping[str, object]] = (),
    main: str | None = None,
    host: str | None = None,
    node_devices: int = 1,
    fixed: Sequence[Mapping[str, object]] = (),
    objective: str | Mapping[str, float] = "time",
    years: float | None = None,
    rest_s: float = 0.0,
    activation_factor: float = 1.0,
    relative_gap: float = 1e-6,
    nodes: int = 100_000,
    progress: Callable[[int, int], object] | None = None,
) -> Placement:
    """Place any tensors over any tiers, proven best up to `relative_gap`.

    Args:
        tensors: Tables with `name`, `class` (as "weights", "kv_cache", "other"), `bytes`, lifetime
            `from` and `to` (instants; left out: the whole step and beyond), `uses` (`at`,
            `read_bytes`, `written_bytes`), `whole`, `tiers` (where it may lie), `update`.
        windows: Stretches of the step within which transfers run beside compute: `compute_s`,
            `instants` (1), `repeats` (1), `name`.
        system: Devices whose tiers are taken where `tiers` is empty.
        tiers: Tiers, nearest first, with the fields of a catalog's tiers.
        paths: Links that tiers lie behind, with the fields of a catalog's paths.
        main: The tier that compute works in; the first where left out.
        host: The tier whose processors can update what lies there.
        node_devices: Devices that a `shared_by` of 0 stands for.
        fixed: Bytes that never leave the main tier: `class`, and `bytes` for each instant.
        objective: As in `place`.
        years: As in `place`.
        rest_s: Seconds of a step beside its windows.
        activation_factor: Bytes that an activation takes in the main tier over its size.
        relative_gap: Where the proof may stop.
        nodes: Relaxed programs after which the best placement found is returned with its bound.
        progress: Is called with units done and in all.

    Raises:
        ScalewrightError: A field is wrong; says which tensor, tier or path.
    """
    need_progress(progress)
    need("system", system, (System, type(None)), "what scalewright.system(...) returns")
    tables = need_tables("tiers", tiers, "a list of tables with the fields of a tier")
    if (system is None) == (not tables):
        message = "system, tiers: got both or neither; allowed: one of them"
        raise InvalidError(message)
    request = {
        "problem": {
            "windows": need_tables("windows", windows, "a list of tables with compute_s"),
            "tensors": _tensors(tensors),
            "fixed": need_tables("fixed", fixed, "a list of tables with class and bytes"),
            "activation_factor": activation_factor,
            "rest_s": rest_s,
            "objective_weights": _weights(objective),
            "years": years,
        },
        "tiers": with_technologies(tables),
        "paths": need_tables("paths", paths, "a list of tables with the fields of a path"),
        "main": main,
        "host": host,
        "node_devices": need_count("node_devices", node_devices),
        "relative_gap": relative_gap,
        "nodes": nodes,
    }
    cluster = None if system is None else system.cluster
    with named_as({r"problem\.": "", "objective_weights": "objective"}):
        text = json_text("", request)
        found = json.loads(_engine.place_tensors(text, cluster, progress=progress))
    return Placement(found, _rests_on=system)


def memories(system: System) -> dict[str, Any]:
    """Return the memory that a device of a system reaches.

    `places` are tiers, nearest first, with one device's part of each (`capacity`, bytes) and what
    their bytes cross (`lane`, seconds a byte `read` and `write`); `lanes` are those by number.

    Args:
        system: The machines.

    Raises:
        ScalewrightError: The argument is no system, or its tiers cannot be.
    """
    need("system", system, System, "what scalewright.system(...) returns")
    return json.loads(_engine.memories(system.cluster))


def _relative_gap(relative_gap: float | None, *, whole: bool) -> float:
    return (0.01 if whole else 1e-6) if relative_gap is None else relative_gap


@dataclass(frozen=True)
class Retained(Answer):
    """What follows for cells that keep data for a chosen time.

    Attributes:
        stability: Energy barrier over thermal energy.
        write_j_per_byte: Energy of a write.
        refreshes_per_year: Writes that only keep the data.
        refresh_w_per_byte: Power of keeping a byte by writing it again.
    """

    stability: float
    write_j_per_byte: float
    refreshes_per_year: float
    refresh_w_per_byte: float


def retained(
    retention_s: float,
    *,
    write_j_per_byte: float = 0.0,
    stated_retention_s: float = 10 * 31_557_600.0,
    attempt_s: float = 1e-9,
) -> Retained:
    """Return what managed retention comes to: cells keep data for `attempt_s * exp(stability)`.

    Args:
        retention_s: How long a cell is to keep data.
        write_j_per_byte: Energy of a write at the retention for which it is stated; taken as
            proportional to the barrier.
        stated_retention_s: That retention; ten years where left out.
        attempt_s: Time between attempts of a cell to flip by itself.

    Raises:
        ScalewrightError: A value is out of its range.
    """
    cell = {
        "retention_s": retention_s,
        "write_j_per_byte": write_j_per_byte,
        "stated_retention_s": stated_retention_s,
        "attempt_s": attempt_s,
    }
    return Retained(**json.loads(_engine.retained(json_text("", cell))))


def _lack(lack: Mapping[str, Any]) -> str:
    what, size = lack["what"], f"{lack['missing_bytes'] / 2**30:,.2f} GiB"
    if what.startswith("endurance of "):
        return f"{what.partition(',')[0]}: {size} a step too many are written"
    return f"{what}: {size} at instant {lack['instant']}"


def _names(value: object) -> list[str]:
    allowed = "a list of names, as ['hbm', 'ddr']"
    listed = need_listed("tiers", value, allowed)
    for name in listed:
        need("tiers", name, str, allowed)
    return cast("list[str]", listed)


def _tensors(tensors: object) -> list[dict[str, object]]:
    """Return the tensors as plain tables, each with a name of its own."""
    tables = need_tables("tensors", tensors, "a list of tables with name, class, bytes and uses")
    seen: set[object] = set()
    for place, table in enumerate(tables):
        name = table.get("name")
        if isinstance(name, str) and name in seen:
            message = f"tensors[{place}].name: got '{name:.60}' twice; allowed: each name once"
            raise InvalidError(message)
        seen.add(name if isinstance(name, str) else None)
    return tables


def _weights(objective: str | Mapping[str, float]) -> Mapping[str, float]:
    if isinstance(objective, Mapping):
        return {"per_s": 0.0, **objective}
    need("objective", objective, str, "a name, or weights as {'per_s': 1.0}")
    if objective not in OBJECTIVES:
        message = f"objective: unknown name '{objective}'; known: {', '.join(OBJECTIVES)}"
        raise UnknownNameError(message)
    return OBJECTIVES[objective]
