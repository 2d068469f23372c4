"""What do the constants of the machines do to a plan, and which plan is good whatever they are?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from scalewright import _engine
from scalewright.catalog.toml_file import read_table
from scalewright.config import (
    completed,
    json_text,
    named_as,
    need,
    need_progress,
    plan_fields,
    space,
)
from scalewright.errors import CancelledError, InvalidError
from scalewright.planning.asking import search_job
from scalewright.planning.inputs import System
from scalewright.planning.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from scalewright.config import Training
    from scalewright.planning.asking import AnyPlan
    from scalewright.planning.inputs import Model

Uncertainty: TypeAlias = "Mapping[str, float] | str | Path"
"""Shares by the name of a constant, or a TOML file with such a table."""


@dataclass(frozen=True)
class Sensitivity:
    """What each constant does to a plan, and to the best plan.

    Attributes:
        job: The workload, system and training whose constants were varied.
        values: Every field that the engine gives, as in `to_dict`.
    """

    job: Job
    values: Mapping[str, Any]

    @property
    def step_time_s(self) -> float:
        """Return the time of the plan's step with the constants as they are."""
        return self.values["step_time_s"]

    @property
    def effects(self) -> list[dict[str, Any]]:
        """Return name, value, elasticity and both changes of each constant, the largest first."""
        return self.values["effects"]

    def elasticity(self) -> dict[str, float]:
        """Return `d ln(step time) / d ln(constant)` of the plan by constant."""
        return {effect["name"]: effect["elasticity"] for effect in self.effects}

    def changes(self) -> list[tuple[str, float, dict[str, Any]]]:
        """Return where another plan is best: the constant, its factor and that plan."""
        return [
            (effect["name"], swing["factor"], swing["best"]["plan"])
            for effect in self.effects
            for swing in (effect["up"], effect["down"])
            if swing["best"] is not None and swing["best"]["changed"]
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        return {**self.job.stamp(), **self.values}


@dataclass(frozen=True)
class Robust:
    """How the best plans fare where constants are known within intervals.

    Attributes:
        job: The workload, system and training that were searched for.
        values: Every field that the engine gives, as in `to_dict`.
    """

    job: Job
    values: Mapping[str, Any]

    @property
    def plans(self) -> list[dict[str, Any]]:
        """Return the pool with the figures of each plan, the nominally fastest first."""
        return self.values["plans"]

    @property
    def least_worst_regret(self) -> dict[str, Any] | None:
        """Return the plan whose worst regret is least; none where each fails to fit once."""
        return self.values["least_worst_regret"]

    @property
    def least_p95_regret(self) -> dict[str, Any] | None:
        """Return the plan whose regret in 95% of the draws is least."""
        return self.values["least_p95_regret"]

    @property
    def always_near(self) -> list[dict[str, Any]]:
        """Return the plans that are within the tolerance of the best in every draw."""
        return [plan for plan in self.plans if plan["always_near"]]

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        return {**self.job.stamp(), **self.values}


def constants(system: System) -> list[dict[str, Any]]:
    """Return every number of a system that pricing reads: name, value, unit and kind.

    Two that act as their product alone are one: a bandwidth stands for bandwidth times efficiency.

    Args:
        system: The machines.

    Raises:
        ScalewrightError: The argument is no system.
    """
    need("system", system, System, "what scalewright.system(...) returns")
    return json.loads(_engine.constants(system.cluster))


def sensitivity(
    model: Model,
    system: System,
    training: Training,
    plan: AnyPlan | None = None,
    *,
    change: float = 0.1,
    search: bool = False,
    fix: Mapping[str, object] | None = None,
    memory_margin: float = 0.0,
    progress: Callable[[int, int], object] | None = None,
) -> Sensitivity:
    """Price a plan with each constant of the machines made larger, then smaller.

    Args:
        model: What is trained.
        system: The machines.
        training: Batch, sequence, formats, optimizer.
        plan: The plan; none for the best one.
        change: Share by which each constant is made larger, then smaller.
        search: Whether the best plan is searched anew under each change: where it becomes another.
        fix: A value or a list of allowed values by plan field, for the searches.
        memory_margin: Share of the device memory that must stay free.
        progress: Called with the changes done and the changes in all.

    Raises:
        ScalewrightError: A value is wrong, the plan breaks a rule, or no plan fits in device
            memory.
    """
    asked: dict[str, object] = {"change": change, "search": search}
    job = Job(model, system, training, memory_margin)
    return sensitivity_job(job, plan, asked, {} if fix is None else fix, progress)


def sensitivity_job(
    job: Job,
    plan: AnyPlan | None,
    asked: Mapping[str, object],
    fix: Mapping[str, object],
    progress: Callable[[int, int], object] | None = None,
) -> Sensitivity:
    """Price a plan of a job under changes; see `sensitivity`."""
    need_progress(progress)
    if plan is None:
        found = search_job(job, fix, {"top": 1, "offload": "never"}, progress)
        if found.stopped and not found.feasible:
            message = "search for a plan: stopped before one was found"
            raise CancelledError(message)
        if not found.feasible:
            message = "plan: got none, and no plan fits in device memory; allowed: a legal plan"
            raise InvalidError(message)
        chosen = dict(found.best[0].values["plan"])
    else:
        chosen = completed(plan_fields(plan), job.system.devices)
    texts = (
        json_text("plan", chosen),
        json_text("fix", space(fix)),
        json_text("", dict(asked)),
    )
    with named_as({r"space\.": "fix."}):
        answer = json.loads(_engine.sensitivity(job.handle, *texts, progress=progress))
    return Sensitivity(job, answer)


def robust(
    model: Model,
    system: System,
    training: Training,
    *,
    uncertainty: Uncertainty | None = None,
    samples: int = 256,
    seed: int = 0,
    pool: int = 200,
    tolerance: float = 0.02,
    fix: Mapping[str, object] | None = None,
    memory_margin: float = 0.0,
    progress: Callable[[int, int], object] | None = None,
) -> Robust:
    """Price the best plans under draws of the constants and say how each fares.

    The plans are the `pool` best ones of a search and its front of time against memory. What is
    known of other plans is the step time that none of them beats as the constants are.

    Args:
        model: What is trained.
        system: The machines.
        training: Batch, sequence, formats, optimizer.
        uncertainty: How far constants may be off, by name, as a share `u`: the true value lies
            between `value / (1 + u)` and `value * (1 + u)`. A name stands for all that it
            begins, `*` for any part: `fabric`, `fabric.*.latency`. Others keep the defaults of
            `docs/robustness.md`. Or a TOML file with a table `uncertainty`.
        samples: Draws of the constants.
        seed: Which draws.
        pool: Plans of the search that are compared.
        tolerance: Regret up to which a plan counts as near the best.
        fix: A value or a list of allowed values by plan field.
        memory_margin: Share of the device memory that must stay free.
        progress: Called with the parts done and the parts in all.

    Raises:
        ScalewrightError: A value is wrong, a name means no constant, or no plan fits in device
            memory.
    """
    asked: dict[str, object] = {
        "uncertainty": uncertainty_of(uncertainty),
        "samples": samples,
        "seed": seed,
        "pool": pool,
        "tolerance": tolerance,
    }
    job = Job(model, system, training, memory_margin)
    return robust_job(job, asked, {} if fix is None else fix, progress)


def robust_job(
    job: Job,
    asked: Mapping[str, object],
    fix: Mapping[str, object],
    progress: Callable[[int, int], object] | None = None,
) -> Robust:
    """Price the best plans of a job under draws; see `robust`."""
    need_progress(progress)
    texts = json_text("fix", space(fix)), json_text("", dict(asked))
    with named_as({r"top\b": "pool", r"space\.": "fix."}):
        found = json.loads(_engine.robust(job.handle, *texts, progress=progress))
    return Robust(job, _with_plans(found))


def _with_plans(found: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with plans where the engine gives their places in the pool."""
    plans: list[dict[str, Any]] = found["plans"]
    near = set(found.pop("always_near"))
    found["plans"] = [{**plan, "always_near": at in near} for at, plan in enumerate(plans)]
    for field in ("least_worst_regret", "least_p95_regret"):
        if found[field] is not None:
            found[field] = found["plans"][found[field]]
    return found


def uncertainty_of(source: Uncertainty | None) -> dict[str, object]:
    """Return shares by the name of a constant.

    Raises:
        InvalidError: It is no table of shares, nor a TOML file with one.
    """
    if source is None:
        return {}
    if isinstance(source, (str, Path)):
        table: object = read_table(Path(source)).get("uncertainty")
        if not isinstance(table, Mapping):
            message = f"{source}: uncertainty: got {table!r:.60}; allowed: a table of shares"
            raise InvalidError(message)
        return _flat(cast("Mapping[str, object]", table))
    need("uncertainty", source, Mapping, "shares by the name of a constant, or a TOML file")
    return _flat(cast("Mapping[str, object]", source))


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return a table by dotted names: TOML reads `fabric.nvswitch.latency = 0.2` as tables."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flat(cast("Mapping[str, object]", value), f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
