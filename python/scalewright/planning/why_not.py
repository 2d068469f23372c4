"""Why is a plan not the best: which rule breaks it, what does it lack, what makes it slower?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import completed, json_text, need_progress, plan_fields
from scalewright.planning.answers import Comparison, Estimate
from scalewright.planning.asking import search_job
from scalewright.planning.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scalewright.config import Training
    from scalewright.planning.answers import Search
    from scalewright.planning.asking import AnyPlan
    from scalewright.planning.inputs import Model, System


@dataclass(frozen=True)
class WhyNot:
    """Where a plan stands among all legal plans that fit, and what makes it lose.

    Attributes:
        job: The workload, system and training of both plans.
        plan: The fields of the plan.
        rule: The rule that it breaks, if it does.
        estimate: Its price; none where it breaks a rule.
        search: The search that it is compared with; its only plan is the winner.
    """

    job: Job
    plan: Mapping[str, Any]
    rule: str | None
    estimate: Estimate | None
    search: Search

    @property
    def verdict(self) -> str:
        """Return `illegal`, `does not fit`, `slower` or `best`: no plan searched is faster."""
        if self.estimate is None:
            return "illegal"
        if not self.estimate.fits:
            return "does not fit"
        return "slower" if self.plans_ahead else "best"

    @property
    def winner(self) -> Estimate | None:
        """Return the best plan of the search; none where no plan fits."""
        return self.search[0] if self.search.feasible else None

    @property
    def plans_ahead(self) -> int | None:
        """Return how many legal plans that fit are faster; none where this one does not fit."""
        return self.search.values.get("plans_ahead")

    @property
    def comparison(self) -> Comparison | None:
        """Return winner and plan side by side; none where there is no winner or no price."""
        if self.winner is None or self.estimate is None:
            return None
        return Comparison(self.winner, self.estimate)

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        both = self.comparison
        return {
            **self.job.stamp(),
            "verdict": self.verdict,
            "plan": dict(self.plan),
            "rule": self.rule,
            "shortfall": None if self.estimate is None else self.estimate.values["shortfall"],
            "plans_ahead": self.plans_ahead,
            "plans_legal": self.search.values.get("plans_legal"),
            "estimate": None if self.estimate is None else dict(self.estimate.values),
            "winner": None if self.winner is None else dict(self.winner.values),
            "plan_differences": None if both is None else both.plan_differences(),
            "terms": None if both is None else both.terms(),
            "memory": None if both is None else both.memory(),
        }


def why_not(
    model: Model,
    system: System,
    plan: AnyPlan,
    training: Training,
    *,
    fix: Mapping[str, object] | None = None,
    memory_margin: float = 0.0,
    progress: Callable[[int, int], object] | None = None,
) -> WhyNot:
    """Say where a plan stands among all legal plans that fit, and what makes it lose.

    Args:
        model: What is trained.
        system: The machines.
        plan: A plan, its fields, or text such as `tensor=8,pipeline=8`; `data` follows from the
            devices where it is left out.
        training: Batch, sequence, formats, optimizer.
        fix: A value or a list of allowed values by plan field, for the plans that it is compared
            with.
        memory_margin: Share of the device memory that must stay free.
        progress: Called with the parts done and the parts in all.

    Raises:
        ScalewrightError: A value is wrong, or a plan field does not exist.
    """
    job = Job(model, system, training, memory_margin)
    return why_not_job(job, plan, {} if fix is None else fix, progress)


def why_not_job(
    job: Job,
    plan: AnyPlan,
    fix: Mapping[str, object],
    progress: Callable[[int, int], object] | None = None,
) -> WhyNot:
    """Say where a plan of a job stands; see `why_not`."""
    need_progress(progress)
    chosen = completed(plan_fields(plan), job.system.devices)
    answer = json.loads(_engine.estimate(job.handle, json_text("plan", chosen)))
    limits: dict[str, object] = {"top": 1, "offload": "never"}
    rule, priced = answer.get("illegal"), None
    if rule is None:
        priced = Estimate(job, answer["estimate"])
        chosen = dict(priced.values["plan"])
        if priced.fits:
            limits["ahead_of_s"] = priced.step_time_s
    return WhyNot(job, chosen, rule, priced, search_job(job, fix, limits, progress))
