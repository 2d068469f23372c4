"""Which plan is best, what does one plan cost, and how do two compare?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from scalewright import _engine
from scalewright.catalog.toml_file import read_table
from scalewright.config import (
    DTYPE,
    Plan,
    completed,
    json_text,
    named_as,
    need,
    need_listed,
    need_progress,
    plan_fields,
)
from scalewright.config import space as plan_space
from scalewright.errors import InvalidError
from scalewright.planning.answers import Comparison, Estimate, Search
from scalewright.planning.job import Job
from scalewright.planning.remedies import why_nothing_runs
from scalewright.searching import SearchExecution, find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scalewright.config import Training
    from scalewright.planning.inputs import Model, System

    AnyPlan = Plan | Mapping[str, object] | str | Path

    AnySpace: TypeAlias = Mapping[str, object] | str | Path

FRONT = ("time", "memory")
"""What the front of a search trades where nothing else is asked for."""
OTHER_THAN_TIME = ("memory", "energy", "dollars")
"""Objectives by which the quickest plan need not be the best."""
_ASKED: Mapping[str, object] = {"front": FRONT, "objective": "time", "offload": "auto"}
"""What a search answers where nothing else is asked for; it stands in the answer."""


def estimate(
    model: Model,
    system: System,
    plan: AnyPlan,
    training: Training,
    *,
    memory_margin: float = 0.0,
) -> Estimate:
    """Price one plan; whether it fits in memory stands in the answer.

    Args:
        model: What is trained.
        system: The machines.
        plan: A plan, its fields, or text such as `tensor=8,pipeline=8`; `data` follows from the
            devices where it is left out.
        training: Batch, sequence, formats, optimizer.
        memory_margin: Share of the device memory that must stay free.

    Raises:
        ScalewrightError: A value is wrong, or the plan breaks a rule; says which.
    """
    return estimate_job(Job(model, system, training, memory_margin), plan)


def estimate_job(job: Job, plan: AnyPlan) -> Estimate:
    """Price one plan for a job; see `estimate`."""
    chosen = completed(plan_fields(plan), job.system.devices)
    answer = json.loads(_engine.estimate(job.handle, json_text("plan", chosen)))
    if "illegal" in answer:
        message = f"plan: {answer['illegal']}"
        raise InvalidError(message)
    return Estimate(job, answer["estimate"])


def search(
    model: Model,
    system: System,
    training: Training,
    *,
    objective: str = "time",
    top: int = 10,
    distinct: str | None = None,
    front: Sequence[str] = FRONT,
    method: str = "bounds",
    fix: Mapping[str, object] | None = None,
    space: AnySpace | None = None,
    offload: str = "auto",
    memory_margin: float = 0.0,
    progress: Callable[[int, int], object] | None = None,
    checkpoint: str | Path | None = None,
    rows: str | Path | None = None,
    cluster: str | None = None,
    ray_address: str | None = None,
) -> Search:
    """Find the best plans among all legal ones.

    Ctrl-C ends the search with what it has: the answer's `stopped` is true, and nothing that was
    left out beats its `bound_s`.

    Args:
        model: What is trained.
        system: The machines.
        training: Batch, sequence, formats, optimizer.
        objective: `time`, `memory`, `energy`, `dollars` (of a step) or `devices`: as all plans use
            the same, the quickest.
        top: How many plans to return.
        distinct: A plan field in which the returned plans are to differ: of all plans with one
            value only the best is returned.
        front: What the front trades, of the same measures; the plans in `pareto` are those that no
            other beats in all of them. Empty for no front.
        method: `bounds` prices what no bound excludes; `exhaustive` weighs every legal plan and
            prices every one that fits. Both give the same answer.
        fix: A value or a list of allowed values by plan field; `dtype` lists precision recipes, of
            which the job of each plan in the answer has its own.
        space: The same, or a TOML file with it (`tensor = [4, 8]`); `fix` narrows its lists.
        offload: Whether plans that do not fit in device memory are tried with tensors in other
            tiers, where `place` puts them: `auto` where no plan fits without, or the best one keeps
            something on the host by its own fields, 512 of them at most; `always` wherever the plan
            could still be among the best; `never`. Searches for the least time alone do, or for
            the fewest devices, and `always` is refused for others.
        memory_margin: Share of the device memory that must stay free.
        progress: Called with the parts done and the parts in all.
        checkpoint: File that says about once a second how far the search is. Where it exists, the
            search goes on from there, to the same answer.
        rows: File, `.parquet` or `.arrow`, for every plan that is legal and fits.
        cluster: A Ray cluster to work on, as `ray://host:port`.
        ray_address: The same, as `host:port` of its head, `auto`, or `local` for one of this
            machine's cores.

    Raises:
        ScalewrightError: A value is wrong, a plan field does not exist, a file is not of this
            search or cannot be used, or no cluster answers.
    """
    limits: dict[str, object] = {
        "objective": objective,
        "top": top,
        "distinct": distinct,
        "front": need_listed("front", front, "a list of measures, as ['time', 'memory']"),
        "method": method,
        "offload": offload,
    }
    job = Job(model, system, training, memory_margin)
    means = SearchExecution(checkpoint, rows, cluster, ray_address)
    with named_as({r"space\.": "fix."} if space is None else {}):
        return search_job(job, allowed_values(fix, space), limits, progress, means)


def search_job(
    job: Job,
    fix: Mapping[str, object],
    limits: Mapping[str, object],
    progress: Callable[[int, int], object] | None = None,
    means: SearchExecution | None = None,
) -> Search:
    """Find the best plans for a job; see `search`."""
    need_progress(progress)
    _need_offload_for_time(limits)
    allowed = plan_space(fix)
    question = job.question(json_text("space", allowed), json_text("", dict(limits)))
    found = find(question, SearchExecution() if means is None else means, progress)
    if not found["best"] and not found["stopped"]:
        found["infeasible"] = why_nothing_runs(job, allowed, found)
    recipes = allowed.get(DTYPE)
    asked = {name: limits.get(name, usual) for name, usual in _ASKED.items()}
    return Search(_in_recipe(job, recipes), {**found, **asked, "dtypes": recipes})


def _need_offload_for_time(limits: Mapping[str, object]) -> None:
    """Refuse to promise plans in other tiers to a search that tries none.

    Raises:
        InvalidError: They are asked for, and the objective is not the time.
    """
    objective = limits.get("objective", "time")
    if limits.get("offload") == "always" and objective in OTHER_THAN_TIME:
        message = (
            f"offload: got always with objective = {objective}; allowed: auto or never: plans are "
            "tried with tensors in other tiers for the least time alone"
        )
        raise InvalidError(message)


def _in_recipe(job: Job, recipes: Sequence[str] | None) -> Job:
    """Return the job in a recipe that was searched: its own, or else the first that was listed."""
    if not recipes or job.training.precision in recipes:
        return job
    return replace(job, training=replace(job.training, precision=recipes[0]))


def allowed_values(
    fix: Mapping[str, object] | None, space: AnySpace | None
) -> dict[str, list[Any]]:
    """Return the values that a search may choose from, by plan field; see `search`.

    Raises:
        ScalewrightError: A field does not exist or is fixed to what the space does not hold, or
            the file cannot be read.
    """
    pins: Mapping[str, object] = {} if fix is None else fix
    if not isinstance(space, (str, Path)):
        return plan_space(pins, space)
    return plan_space(pins, read_table(Path(space)))


def compare(
    model: Model,
    system: System,
    plans: tuple[AnyPlan, AnyPlan],
    training: Training,
    *,
    memory_margin: float = 0.0,
) -> Comparison:
    """Price two plans for one job and set them side by side.

    Args:
        model: What is trained.
        system: The machines.
        plans: Two plans, each as `estimate` takes it.
        training: Batch, sequence, formats, optimizer.
        memory_margin: Share of the device memory that must stay free.

    Raises:
        ScalewrightError: There are not two plans, a value is wrong, or a plan breaks a rule.
    """
    job = Job(model, system, training, memory_margin)
    if not isinstance(plans, (list, tuple)) or len(plans) != 2:  # pyright: ignore[reportUnnecessaryComparison, reportUnnecessaryIsInstance]
        message = f"plans: got {plans!r:.60}; allowed: two plans"
        raise InvalidError(message)
    first, second = plans
    return Comparison(estimate_job(job, first), estimate_job(job, second))


def explain(estimate: Estimate) -> list[dict[str, Any]]:
    """Return formula, inputs and source of each term of an estimate's time.

    Args:
        estimate: What `estimate` returned, or a plan of a search.

    Raises:
        ScalewrightError: The argument is something else.
    """
    need("estimate", estimate, Estimate, "what scalewright.estimate(...) returns")
    plan = json_text("plan", dict(estimate.values["plan"]))
    return json.loads(_engine.explain(estimate.job.handle, plan))
