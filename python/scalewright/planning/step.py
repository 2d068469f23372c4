"""What runs when in a step of a plan, if its tasks are simulated on the resources of its ranks?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scalewright import _engine
from scalewright.config import completed, json_text, need_progress, plan_fields
from scalewright.planning.job import Job
from scalewright.planning.stamp import Answer
from scalewright.planning.timeline import Row, Span, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from scalewright.config import Training
    from scalewright.planning.asking import AnyPlan
    from scalewright.planning.inputs import Model, System

_KINDS = {
    "forward": "forward",
    "backward": "backward",
    "input": "input",
    "weight": "weight",
    "send": "send",
    "replicas": "collective",
    "optimizer": "other",
}


@dataclass(frozen=True)
class SimulatedStep(Answer):
    """A step, task by task, on one representative rank of each pipeline stage.

    Tensor, context, expert and data ranks of a stage do the same at the same time, so one stands
    for all of them. Arrays have an element for each task.

    Attributes:
        simulated_step_time_s: End of the last task.
        estimated_step_time_s: The step time of `estimate`, whose witness this is.
        stands_for: Devices for which each representative rank stands.
        engines: Pipeline stage and name of each resource: compute, fabric levels, directions of
            sends.
        labels: Names of tasks, to which `label` points.
        categories: Kinds of tasks, to which `category` points.
        engine: What runs each task: a row of the timeline.
        label: Index of each task's name in `labels`.
        category: Index of each task's kind in `categories`.
        micro_batch: -1 where a task belongs to none.
        virtual_stage: Stage along the model; -1 where a task belongs to none.
        start_s: Second at which each task begins.
        end_s: Second at which each task ends.
    """

    simulated_step_time_s: float
    estimated_step_time_s: float
    stands_for: int
    engines: tuple[tuple[int, str], ...]
    labels: tuple[str, ...]
    categories: tuple[str, ...]
    engine: NDArray[np.uint32]
    label: NDArray[np.uint16]
    category: NDArray[np.uint8]
    micro_batch: NDArray[np.int32]
    virtual_stage: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]

    @property
    def relative_gap(self) -> float:
        """Return how far the estimate lies from the simulation, over the simulation."""
        return self.estimated_step_time_s / self.simulated_step_time_s - 1.0

    def busy_s(self) -> dict[tuple[int, str], float]:
        """Return the seconds for which each resource is busy."""
        spent = np.bincount(
            self.engine, weights=self.end_s - self.start_s, minlength=len(self.engines)
        )
        return dict(zip(self.engines, spent.tolist(), strict=True))

    def timeline(self) -> Timeline:
        """Return every task on every resource, for a trace."""
        rows: list[Row] = []
        order = np.lexsort((self.end_s, self.start_s, self.engine))
        begins = np.searchsorted(self.engine[order], np.arange(len(self.engines) + 1))
        for number, (stage, name) in enumerate(self.engines):
            own = order[begins[number] : begins[number + 1]].tolist()
            spans = tuple(self._span(task, name) for task in own)
            rows.append(Row(f"stage {stage}", name, spans))
        return Timeline("simulated step", tuple(rows), note=self._note())

    def operations(self) -> Timeline:
        """Return one span for each pass of a micro-batch, for a picture."""
        rows: list[Row] = []
        for number, (stage, name) in enumerate(self.engines):
            if name == "compute":
                tasks = np.flatnonzero(self.engine == number)
                rows.append(Row(f"stage {stage}", "compute", self._passes(tasks)))
        return Timeline("simulated step", tuple(rows), note=self._note())

    def plain(self) -> dict[str, Any]:
        """Return the summary without the tasks, ready for JSON."""
        busy = [
            {"stage": stage, "engine": name, "busy_s": seconds}
            for (stage, name), seconds in self.busy_s().items()
        ]
        return {
            "simulated_step_time_s": self.simulated_step_time_s,
            "estimated_step_time_s": self.estimated_step_time_s,
            "relative_gap": self.relative_gap,
            "task_count": int(self.start_s.size),
            "stands_for": self.stands_for,
            "busy": busy,
        }

    def _note(self) -> str:
        return f"each rank stands for {self.stands_for}"

    def _span(self, task: int, engine: str) -> Span:
        kind = self.categories[int(self.category[task])]
        collective = engine != "compute" and kind != "send"
        micro_batch = int(self.micro_batch[task])
        args: dict[str, object] = {"pass": kind}
        if micro_batch >= 0:
            args |= {"micro_batch": micro_batch, "stage": int(self.virtual_stage[task])}
        return Span(
            self.labels[int(self.label[task])],
            "collective" if collective else _KINDS[kind],
            float(self.start_s[task]),
            float(self.end_s[task]),
            args=args,
        )

    def _passes(self, tasks: NDArray[np.intp]) -> tuple[Span, ...]:
        """Join the kernels of each pass, which one rank runs one after the other."""
        tasks = tasks[np.argsort(self.start_s[tasks], kind="stable")]
        tasks = tasks[self.end_s[tasks] > self.start_s[tasks]]
        if not tasks.size:
            return ()
        keys = np.stack([self.category[tasks], self.micro_batch[tasks], self.virtual_stage[tasks]])
        new = np.any(keys[:, 1:] != keys[:, :-1], axis=0)
        begins = np.concatenate([[0], np.flatnonzero(new) + 1])
        ends = np.concatenate([begins[1:], [tasks.size]]) - 1
        spans: list[Span] = []
        for first, last in zip(tasks[begins].tolist(), tasks[ends].tolist(), strict=True):
            kind = self.categories[int(self.category[first])]
            micro_batch = int(self.micro_batch[first])
            numbered = micro_batch >= 0 and kind != "send"
            name = f"{kind} of micro-batch {micro_batch}" if numbered else kind
            spans.append(
                Span(
                    name,
                    _KINDS[kind],
                    float(self.start_s[first]),
                    float(self.end_s[last]),
                    label=str(micro_batch) if numbered else "",
                )
            )
        return tuple(spans)


def simulate_step(
    model: Model,
    system: System,
    plan: AnyPlan,
    training: Training,
    *,
    memory_margin: float = 0.0,
    progress: Callable[[int, int], object] | None = None,
) -> SimulatedStep:
    """Simulate a step of a plan task by task: the witness of `estimate`'s time.

    Kernels, collectives, sends, gathers and reductions are tasks on the resources of one
    representative rank of each stage; a kernel beside a collective loses the compute units that
    the collective takes.

    Args:
        model: What is trained.
        system: The machines.
        plan: A plan, its fields, or text, as `estimate` takes it.
        training: Batch, sequence, formats, optimizer.
        memory_margin: Share of the device memory that must stay free.
        progress: Called with the tasks done and the tasks in all.

    Raises:
        ScalewrightError: A value is wrong, the plan breaks a rule, or a step has more than 2^24
            tasks.
    """
    return simulate_job(Job(model, system, training, memory_margin), plan, progress)


def simulate_job(
    job: Job, plan: AnyPlan, progress: Callable[[int, int], object] | None = None
) -> SimulatedStep:
    """Simulate a step of a plan for a job; see `simulate_step`."""
    need_progress(progress)
    chosen = completed(plan_fields(plan), job.system.devices)
    text = json_text("plan", chosen)
    found: dict[str, Any] = _engine.simulate_step(job.handle, text, progress=progress)
    for name in ("engines", "labels", "categories"):
        found[name] = tuple(found[name])
    return SimulatedStep(**found, _rests_on=job)
