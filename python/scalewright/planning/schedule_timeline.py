"""Which spans does a schedule have, what shades have they, and what goes from one to another?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.planning.timeline import Flow, Row, Span, Timeline

if TYPE_CHECKING:
    from scalewright.planning.schedule_answer import Schedule

_NAMES = {
    "forward": "forward",
    "backward": "backward",
    "input": "input gradient",
    "weight": "weight gradient",
    "local": "backward of a local loss",
}


class OperationLists:
    """The operations of an answer as plain lists, from which spans and flows are made."""

    def __init__(self, answer: Schedule) -> None:
        """Read the operations."""
        done = answer.operations
        self.answer = answer
        self.device: list[int] = done.device.tolist()
        self.work: list[str] = done.work.tolist()
        self.offset: list[int] = done.loss_offset.tolist()
        self.stage: list[int] = done.stage.tolist()
        self.first: list[int] = done.micro_batch.tolist()
        self.count: list[int] = done.span.tolist()
        self.start: list[float] = done.start_s.tolist()
        self.end: list[float] = done.end_s.tolist()

    def timeline(self, *, flows: bool) -> Timeline:
        """Return a row for each device."""
        answer = self.answer
        shades, meanings = self._shades()
        rows: list[list[Span]] = [[] for _ in range(answer.stages)]
        for at, device in enumerate(self.device):
            rows[device].append(self._span(at, shades[at]))
        return Timeline(
            f"{answer.name}, {answer.stages} stages, {answer.micro_batches} micro-batches",
            tuple(
                Row(f"device {number}", "compute", tuple(spans))
                for number, spans in enumerate(rows)
            ),
            tuple(self._flows()) if flows else (),
            meanings,
            self._note(),
        )

    def _note(self) -> str:
        answer = self.answer
        bubble = f"bubble {answer.bubble_over_ideal:.1%} of ideal"
        interval = answer.interval_s
        if interval is None or interval == answer.makespan_s:
            return bubble
        return f"a step every {interval:.4g} s, {bubble}"

    def _span(self, at: int, shade: int) -> Span:
        work, stage, first, count = self.work[at], self.stage[at], self.first[at], self.count[at]
        run = f"{first}" if count == 1 else f"{first}-{first + count - 1}"
        batches = "micro-batch" if count == 1 else "micro-batches"
        args: dict[str, object] = {"stage": stage, "micro_batch": first}
        if count > 1:
            args["micro_batches"] = count
        if work == "local":
            args["loss_stage"] = stage + self.offset[at]
        name = f"{_NAMES[work]}, {batches} {run}, stage {stage}"
        return Span(name, work, self.start[at], self.end[at], run, shade, args)

    def _micro_batches(self, at: int) -> range:
        return range(self.first[at], self.first[at] + self.count[at])

    def _shades(self) -> tuple[list[int], tuple[str, ...]]:
        """Return a shade for each operation, and what the shades mean.

        Where several devices run one stage, micro-batches take several ways through the devices,
        and each way has its shade; else each chunk of a device has.
        """
        forwards = [at for at, work in enumerate(self.work) if work == "forward"]
        ways: dict[int, dict[int, int]] = {}
        for at in forwards:
            for micro_batch in self._micro_batches(at):
                ways.setdefault(micro_batch, {})[self.stage[at]] = self.device[at]
        seen: dict[tuple[tuple[int, int], ...], int] = {}
        way_of: dict[int, int] = {}
        for micro_batch in sorted(ways):
            way = tuple(sorted(ways[micro_batch].items()))
            way_of[micro_batch] = seen.setdefault(way, len(seen))
        if len(seen) > 1:
            named = (
                ("down", "up") if len(seen) == 2 else tuple(f"way {n}" for n in range(len(seen)))
            )
            return [way_of[first] for first in self.first], named
        own: dict[int, set[int]] = {}
        for device, stage in zip(self.device, self.stage, strict=True):
            own.setdefault(device, set()).add(stage)
        chunk = {
            (device, stage): number
            for device, stages in own.items()
            for number, stage in enumerate(sorted(stages))
        }
        shades = [chunk[place] for place in zip(self.device, self.stage, strict=True)]
        most = max(shades, default=0)
        return shades, tuple(f"chunk {n}" for n in range(most + 1)) if most else ()

    def _flows(self) -> list[Flow]:
        """Return what goes between devices: activations down, gradients up."""
        place: list[tuple[int, int]] = []
        lengths = [0] * self.answer.stages
        made: dict[tuple[str, int, int], int] = {}
        for at, device in enumerate(self.device):
            place.append((device, lengths[device]))
            lengths[device] += 1
            for micro_batch in self._micro_batches(at):
                made[self._kind(at), self.stage[at], micro_batch] = at
        found: list[Flow] = []
        for at in range(len(self.device)):
            for micro_batch in self._micro_batches(at):
                key = self._wanted(at, micro_batch)
                before = None if key is None else made.get(key)
                if before is not None and self.device[before] != self.device[at]:
                    name = "activations" if self.work[at] == "forward" else "gradients"
                    found.append(Flow(name, place[before], place[at]))
        return found

    def _kind(self, at: int) -> str:
        """Return the kind of a result; whole and split backward passes give one kind."""
        work = self.work[at]
        if work == "local":
            return f"local {self.offset[at]}"
        return "backward" if work == "input" else work

    def _wanted(self, at: int, micro_batch: int) -> tuple[str, int, int] | None:
        """Return the result of another stage that an operation waits for, if any."""
        work, stage = self.work[at], self.stage[at]
        if work == "forward":
            return work, stage - 1, micro_batch
        if work == "local":
            return f"local {self.offset[at] - 1}", stage + 1, micro_batch
        if work == "weight" or self.answer.gradient == "direct":
            return None
        return "backward", stage + 1, micro_batch
