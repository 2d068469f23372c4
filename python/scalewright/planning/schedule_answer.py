"""What does a pipeline schedule come to: its step, what each device does, every operation?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from scalewright import _engine
from scalewright.config import need
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from scalewright.planning.timeline import Timeline

    Counts = NDArray[np.uint32]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScheduleRule:
    """A schedule that can be run by its name.

    Attributes:
        name: Name of the schedule, as `1f1b`.
        source: The paper that describes it.
        chunks: Model chunks per device where none are given.
        flushes: True where the pipeline is empty between steps.
        bypasses: True where a device goes on to its next step without waiting for the others'
            optimizer.
        splits: True where gradients of weights may run apart from those of inputs.
        pairs: True where passes of unlike micro-batches run together.
        overlaps_sends: True where sends of a plan run under compute unless it says otherwise.
    """

    name: str
    source: str
    chunks: int
    flushes: bool
    bypasses: bool
    splits: bool
    pairs: bool
    overlaps_sends: bool


@dataclass(frozen=True, eq=False)
class Operations:
    """Every operation of a step, device after device, each in the order of its device.

    Attributes:
        device: Device of each operation.
        work: `forward`, `backward`, `input`, `weight` (gradients of either), `local` (of a local
            loss).
        loss_offset: How many stages further on the local loss stands; 0 for other work.
        stage: Virtual stages, counted along the model.
        micro_batch: The first of those that it computes at once.
        span: How many it computes at once.
        paired: True where it runs together with the operation after it, both ending at the same
            time.
        start_s: Second at which each begins.
        end_s: Second at which each ends.
    """

    device: Counts
    work: NDArray[np.str_]
    loss_offset: Counts
    stage: Counts
    micro_batch: Counts
    span: Counts
    paired: NDArray[np.bool_]
    start_s: Floats
    end_s: Floats

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.device)


@dataclass(frozen=True, eq=False)
class Schedule(Answer):
    """A step of a pipeline schedule; arrays have an element for each device.

    Attributes:
        name: Name of the schedule; nothing where the order was brought.
        source: The paper; empty for an order that was brought.
        stages: Devices.
        chunks: Model chunks per device.
        virtual_stages: Stages along the model.
        micro_batches: Micro-batches of a step.
        executed_micro_batches: More than were asked for where the schedule runs in whole rounds;
            slices where it cuts micro-batches.
        slices: Parts that each micro-batch is cut into along the sequence.
        sends: `asynchronous` or `blocking`.
        gradient: `chain` (backpropagation), `window` (local losses) or `direct` (the last stage's
            error).
        copies: Copies of each stage's weights in the pipeline.
        makespan_s: From the first forward pass's start to the end of the last operation.
        interval_s: From one step to the next: less than the makespan where steps run into one
            another. None where it follows from `period_s` and that is None, or micro-batches are of
            unlike lengths.
        lower_bound_s: What no timing can beat, from the first operation to the last.
        bound_is_exact: True where the bound is known to be the makespan.
        period_s: What a micro-batch adds once the pipeline is full; None for an order that was
            brought, and for more than 512 virtual stages.
        simulated_s: The makespan by event simulation, where it was asked for.
        bubble_s: Time from one step to the next in which the device with most work does not work.
        bubble_over_ideal: The same over that device's work: `(stages - 1) / micro_batches` for 1F1B
            on like stages.
        work_s: Time of computing.
        busy_s: Time that a device is taken: computing, and sends that hold their sender.
        in_flight: Most activations held at a time, in micro-batches of one virtual stage.
        activations: The same in micro-batches of a whole stage (the model over the stages), so that
            schedules with unlike chunks compare.
        versions: Versions of its weights that a device holds.
        staleness: Updates of its weights between a micro-batch's forward pass and the use of its
            gradient.
        operations: All operations with their times.
        order: The operations of each device in short, as `F0@3 B0@3`; `schedule(order=...)` takes
            them.
    """

    name: str
    source: str
    stages: int
    chunks: int
    virtual_stages: int
    micro_batches: int
    executed_micro_batches: int
    slices: int
    sends: str
    gradient: str
    copies: int
    makespan_s: float
    interval_s: float | None
    lower_bound_s: float
    bound_is_exact: bool
    period_s: float | None
    simulated_s: float | None
    bubble_s: float
    bubble_over_ideal: float
    work_s: Floats
    busy_s: Floats
    in_flight: Counts
    activations: Floats
    versions: Counts
    staleness: Counts
    operations: Operations
    order: tuple[str, ...]

    def mitigation_copies(self, mitigation: str) -> Counts:
        """Return the tensors of the weights' size that each device holds against stale weights.

        Beside weights, gradient and velocity; `staleness` is what they make up for (Kosson et al.
        2021).

        Args:
            mitigation: `none`, `spike-compensation`, `weight-prediction`, `both` or
                `weight-stashing`.

        Raises:
            UnknownNameError: No such mitigation; says which comes nearest.
        """
        need("mitigation", mitigation, str, "a name, as weight-prediction")
        found = _engine.mitigation_copies(mitigation, self.staleness.tolist())
        return np.array(found, dtype=self.staleness.dtype)

    @property
    def relative_gap(self) -> float:
        """Return makespan over lower bound, less one; 0 where both are 0."""
        bound = self.lower_bound_s
        return max(self.makespan_s / bound - 1.0, 0.0) if bound > 0.0 else 0.0

    @property
    def idle_s(self) -> Floats:
        """Return the time within the makespan in which each device does nothing."""
        return self.makespan_s - self.busy_s

    def lines(self) -> list[str]:
        """Return a report as plain text, in seconds, a line each."""
        source = f" ({self.source})" if self.source else ""
        exact = "exact" if self.bound_is_exact else f"makespan {self.relative_gap:.2%} longer"
        period = f"; a micro-batch more: {_seconds(self.period_s)}"
        chunks = "1 chunk" if self.chunks == 1 else f"{self.chunks} chunks"
        rounds = self.executed_micro_batches
        filled = "" if rounds == self.micro_batches else f" (run as {rounds})"
        seen = "" if self.simulated_s is None else f"; event simulation {self.simulated_s:.6g} s"
        head = ("device", "work", "idle", "in flight", "activations", "versions", "staleness")
        numbers = zip(
            *(self.work_s, self.idle_s, self.in_flight),
            *(self.activations, self.versions, self.staleness),
            strict=True,
        )
        return [
            f"{self.name}{source}",
            f"{self.stages} stages with {chunks} each, {self.micro_batches} micro-batches{filled}, "
            f"{self.sends} sends",
            f"makespan {self.makespan_s:.6g} s{seen}; step to step {_seconds(self.interval_s)}; "
            f"bound {self.lower_bound_s:.6g} s ({exact}){period}",
            f"bubble {self.bubble_s:.6g} s, {self.bubble_over_ideal:.1%} of the ideal step",
            "".join(f"{name:>12}" for name in head),
            *(
                "".join(f"{value:>12.6g}" for value in (device, *row))
                for device, row in enumerate(numbers)
            ),
        ]

    def to_dict(self, *, operations: bool = False) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON; see `plain`."""
        return {**self.stamp(), **self.plain(operations=operations)}

    def plain(self, *, operations: bool = False) -> dict[str, Any]:
        """Return the answer alone; on demand with a list for each field of operations."""
        hidden = {"operations", "work_s", "busy_s", "in_flight", "activations", "versions"}
        hidden.add("_rests_on")
        plain = {key: value for key, value in vars(self).items() if key not in hidden}
        devices = {
            "work_s": self.work_s,
            "busy_s": self.busy_s,
            "idle_s": self.idle_s,
            "in_flight": self.in_flight,
            "activations": self.activations,
            "versions": self.versions,
            "staleness": self.staleness,
        }
        columns = {key: values.tolist() for key, values in devices.items()}
        answer = {**plain, "relative_gap": self.relative_gap, **columns, "order": list(self.order)}
        if operations:
            answer["operations"] = {
                key: values.tolist() for key, values in vars(self.operations).items()
            }
        return answer

    def timeline(self, *, flows: bool = False) -> Timeline:
        """Return what runs when, for `scalewright.export` and `scalewright.report`.

        Args:
            flows: Also tell which operation's result goes to which one on another device.
        """
        from scalewright.planning.schedule_timeline import OperationLists

        return OperationLists(self).timeline(flows=flows)


def _seconds(time: float | None) -> str:
    return "unknown" if time is None else f"{time:.6g} s"


def read_answer(asked: Mapping[str, Any], source: str, found: dict[str, Any]) -> Schedule:
    """Return the answer to a request from what the engine gives."""
    import numpy as np

    operations = found.pop("operations")
    works = np.array(found.pop("works"))
    operations["work"] = works[operations["work"]]
    order = tuple(found.pop("order"))
    return Schedule(
        **asked,
        source=source,
        **found.pop("devices"),
        operations=Operations(**operations),
        order=order,
        **found,
    )
