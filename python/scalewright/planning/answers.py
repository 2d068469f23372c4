"""What does the engine answer: an estimate, a search, a comparison?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scalewright.config import DTYPE, Plan
from scalewright.errors import NoPlanError
from scalewright.planning.error_band import error_band

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.planning.job import Job


@dataclass(frozen=True)
class Estimate:
    """A priced plan.

    Attributes:
        job: The workload, system and training that were priced.
        values: Every field that the engine gives, as in `to_dict`.
    """

    job: Job
    values: Mapping[str, Any]

    @property
    def plan(self) -> Plan:
        """Return the plan."""
        return Plan(**self.values["plan"])

    @property
    def step_time_s(self) -> float:
        """Return the time of an optimizer step."""
        return self.values["step_time_s"]

    @property
    def peak_memory_bytes(self) -> float:
        """Return the bytes on the fullest rank, with those that a search laid into other tiers."""
        return self.values["peak_memory_bytes"]

    @property
    def fits(self) -> bool:
        """Say whether the plan fits: in device memory, or with what a search laid into other tiers.

        `values["offloaded"]` says what lies there; None where everything is on the device.
        """
        return self.values["fits"]

    @property
    def mfu(self) -> float:
        """Return the model FLOPs utilisation: the model's own arithmetic over the dense peak."""
        return self.values["mfu"]

    @property
    def hfu(self) -> float:
        """Return the hardware FLOPs utilisation: recomputed FLOPs added, frozen weights' left out.

        Frozen weights need no gradients, and nothing runs backwards below the first trained one.
        """
        return self.values["hfu"]

    @property
    def tokens_per_s(self) -> float:
        """Return the tokens per second of the whole job."""
        return self.values["tokens_per_s"]

    @property
    def error_band(self) -> dict[str, Any] | None:
        """Return between which multiples of the step time measured runs like this one lie."""
        return error_band(self.job, searched=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        return {**self.job.stamp(), **self.values, "error_band": self.error_band}


@dataclass(frozen=True)
class Search:
    """The best plans of a space, best first, and why others were turned down.

    Attributes:
        job: The workload, system and training that were searched for; where the space lists
            precision recipes without the training's own, in the first of them.
        values: Every field that the engine gives, as in `to_dict`.
    """

    job: Job
    values: Mapping[str, Any]

    @property
    def best(self) -> tuple[Estimate, ...]:
        """Return the best plans, best first; empty where none fits."""
        return tuple(Estimate(self._job_of(found), found) for found in self.values["best"])

    def _job_of(self, found: Mapping[str, Any]) -> Job:
        """Return the job in the precision recipe of a plan, where the space lists some."""
        if DTYPE not in found:
            return self.job
        return replace(self.job, training=replace(self.job.training, precision=found[DTYPE]))

    @property
    def feasible(self) -> bool:
        """Say whether any plan is legal and fits."""
        return bool(self.values["best"])

    @property
    def proven(self) -> bool:
        """Say whether every legal plan was priced or excluded by a bound."""
        return self.values["proven"]

    @property
    def stopped(self) -> bool:
        """Say whether Ctrl-C ended the search before all of it was done."""
        return self.values["stopped"]

    @property
    def bound_s(self) -> float | None:
        """Return the step time that no plan beats, tried or not; none where it is not known."""
        return self.values["bound"].get("step_time_s")

    @property
    def error_band(self) -> dict[str, Any] | None:
        """Return between which multiples of the best plan's step time measured runs like it lie."""
        best = self.values["best"]
        return error_band(self._job_of(best[0]) if best else self.job, searched=True)

    def __len__(self) -> int:
        """Return how many plans were kept."""
        return len(self.values["best"])

    def __getitem__(self, rank: int) -> Estimate:
        """Return the plan of a rank, 0 for the best.

        Raises:
            NoPlanError: The search found none, or was stopped before it did.
        """
        if not self.values["best"]:
            why = (
                "it was stopped before" if self.stopped else "no plan runs (`infeasible` says why)"
            )
            message = f"rank: got {rank!r:.60}; allowed: none, {why}"
            raise NoPlanError(message)
        return self.best[rank]

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        return {**self.job.stamp(), **self.values, "error_band": self.error_band}


@dataclass(frozen=True)
class Comparison:
    """Two plans for the same job, term by term.

    Attributes:
        first: The plan that comes first.
        second: The plan that it is compared with.
    """

    first: Estimate
    second: Estimate

    def terms(self) -> list[dict[str, Any]]:
        """Return the terms of the step time, the one that differs most first."""
        ours, theirs = _times(self.first), _times(self.second)
        rows = [_term(name, ours.get(name), theirs.get(name)) for name in {**ours, **theirs}]
        return sorted(rows, key=lambda row: -abs(row["difference_s"]))

    def memory(self) -> list[dict[str, Any]]:
        """Return the bytes of the fullest device by class, their total last."""
        ours, theirs = (
            max(one.values["memory"], key=lambda stage: stage["total_bytes"])
            for one in (self.first, self.second)
        )
        return [
            {
                "class": name.removesuffix("_bytes"),
                "first_bytes": first,
                "second_bytes": theirs[name],
                "difference_bytes": theirs[name] - first,
            }
            for name, first in sorted(ours.items(), key=lambda item: item[0] == "total_bytes")
            if name.endswith("_bytes")
        ]

    def plan_differences(self) -> dict[str, tuple[Any, Any]]:
        """Return the fields in which the plans differ, with both values; `dtype` where jobs do."""
        ours, theirs = (
            {**one.values["plan"], DTYPE: one.job.training.precision}
            for one in (self.first, self.second)
        )
        return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        return {
            **self.first.job.stamp(),
            "first": dict(self.first.values),
            "second": dict(self.second.values),
            "plan_differences": self.plan_differences(),
            "terms": self.terms(),
            "memory": self.memory(),
        }


def _times(estimate: Estimate) -> dict[str, dict[str, Any]]:
    return {line["term"]: line for line in estimate.values["time"]}


def _term(
    name: str, ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None
) -> dict[str, Any]:
    present = ours or theirs or {}
    first, second = (line["time_s"] if line else 0.0 for line in (ours, theirs))
    return {
        "term": name,
        "group": present["group"],
        "first_time_s": first,
        "second_time_s": second,
        "difference_s": second - first,
    }
