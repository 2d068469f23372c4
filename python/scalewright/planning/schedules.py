"""How long does a step of a pipeline schedule take on given stage times, and what runs when?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from scalewright import _engine
from scalewright.config import json_text, need, need_count
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats
from scalewright.planning.schedule_answer import Schedule, ScheduleRule, read_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    Times = ArrayLike | str | Sequence[str]
    Order = str | Sequence[str | Sequence[str]]


def schedules() -> tuple[ScheduleRule, ...]:
    """Return every schedule that can be run by its name."""
    return tuple(ScheduleRule(**rule) for rule in json.loads(_engine.schedule_rules()))


def schedule(
    name: str | None = None,
    *,
    stages: int | None = None,
    micro_batches: int | None = None,
    forward_s: Times,
    backward_s: Times,
    weight_s: Times | None = 0.0,
    hidden_s: Times = 0.0,
    hop_s: Times = 0.0,
    chunks: int | None = None,
    window: int = 1,
    slices: int = 1,
    sends: str = "asynchronous",
    sizes: ArrayLike | None = None,
    feedback_s: Times = 0.0,
    order: Order | None = None,
    simulate: bool = False,
    cut_stages: bool = False,
    whole_backward: bool = False,
) -> Schedule:
    """Run a step of a pipeline schedule, or of an order of your own, over given stage times.

    Times are numbers in seconds, or texts with a unit as `"12 ms"`: one for all virtual stages, or
    a list with one for each, counted along the model.

    Args:
        name: A schedule of `schedules()`. Beside `order` it may be left out; else gradients come
            from where they come from in that schedule.
        stages: Devices of the pipeline.
        micro_batches: Micro-batches of the step.
        forward_s: Forward pass of one micro-batch.
        backward_s: Its backward pass without the gradients of weights.
        weight_s: The gradients of weights: apart where the schedule splits the backward pass, part
            of it elsewhere.
        hidden_s: What a forward and a backward pass that run together save.
        hop_s: Time of a tensor between neighbouring virtual stages on unlike devices: one for all
            borders, or one for each.
        chunks: Model chunks per device; the schedule's own number where left out.
        window: Stages over which a local loss is carried back.
        slices: Parts that each sequence is cut into, where the schedule cuts them; slice `j` of
            micro-batch `i` then counts as micro-batch `i * slices + j`, with times of its own.
        sends: `asynchronous`, or `blocking`: the sender waits until a tensor has arrived.
        sizes: Length of each micro-batch (or slice of each) against one of length 1: a number each,
            or a pair for its forward and backward pass.
        feedback_s: What direct feedback adds before a stage may use the last stage's error.
        order: A list of operations for each device instead of the schedule's, as `F0@3`: forward
            pass of micro-batch 0 on virtual stage 3. `B` is the whole backward pass, `I` the
            gradients of inputs, `W` those of weights, `L2:0@3` the backward pass of the loss two
            stages on; `F0-3@1` computes four micro-batches at once, `F4@1&B0@1` two operations
            together. Without `@` the stage has the device's number. A text has a line per device.
        simulate: True for the event simulation's makespan beside the recurrence's.
        cut_stages: True where passes are those of whole micro-batches on whole stages, to be cut
            evenly over chunks and slices.
        whole_backward: True where `backward_s` holds the gradients of weights; with None for
            `weight_s` they are half of it.

    Raises:
        ScalewrightError: A name is unknown, a value is wrong, a length does not fit, the schedule
            cannot run on these counts, or an order is incomplete or waits in a circle; says which.
    """
    need("name", name, (str, type(None)), "a name of scalewright.schedules(), or None")
    need("sends", sends, str, "asynchronous or blocking")
    flags = {"simulate": simulate, "cut_stages": cut_stages, "whole_backward": whole_backward}
    for field, flag in flags.items():
        need(field, flag, bool, "true or false")
    lines = None if order is None else _lines(order)
    if name is None and lines is None:
        message = "name: got nothing; allowed: a name of scalewright.schedules(), or an order"
        raise InvalidError(message)
    asked: dict[str, Any] = {
        "stages": _stages(stages, lines),
        "micro_batches": _micro_batches(micro_batches, lines),
        "sends": sends,
    }
    request = {
        **asked,
        **flags,
        "name": name,
        "chunks": None if chunks is None else need_count("chunks", chunks),
        "window": need_count("window", window),
        "slices": need_count("slices", slices),
        "forward_s": _times("forward_s", forward_s),
        "backward_s": _times("backward_s", backward_s),
        "weight_s": None if weight_s is None else _times("weight_s", weight_s),
        "hidden_s": _times("hidden_s", hidden_s),
        "hop_s": _times("hop_s", hop_s),
        "sizes": [] if sizes is None else _sizes(sizes),
        "feedback_s": _one_time("feedback_s", feedback_s),
        "order": lines,
    }
    found = _engine.schedule_run(json_text("", request))
    if lines is not None:
        title = "own order" if name is None else f"own order as {name}"
        return read_answer({"name": title, **asked}, "", found)
    source = next(rule.source for rule in schedules() if rule.name == name)
    return read_answer({"name": name, **asked}, source, found)


def _stages(given: int | None, lines: list[str] | None) -> int:
    if given is None and lines is not None:
        return len(lines)
    if given is None:
        message = "stages: got nothing; allowed: the number of devices of the pipeline"
        raise InvalidError(message)
    return need_count("stages", given)


def _micro_batches(given: int | None, lines: list[str] | None) -> int:
    """Return the number of micro-batches; where an order is brought, as many as it names."""
    if given is None and lines is not None:
        return 1 + max((_last(word) for line in lines for word in line.split()), default=0)
    return need_count("micro_batches", given)


def _last(word: str) -> int:
    """Return the last micro-batch of an operation in short; 0 where the engine will refuse it."""
    runs = (part.partition("@")[0].rpartition(":")[2] for part in word.split("&"))
    ends = [run.rpartition("-")[2].lstrip("FBIW") for run in runs]
    return max(
        int(end) if end.isascii() and end.isdecimal() and len(end) < 10 else 0 for end in ends
    )


def _lines(order: Order) -> list[str]:
    """Return a text for each device.

    Raises:
        InvalidError: It is something else.
    """
    if isinstance(order, str):
        return [line for line in order.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    allowed = "a list for each device of operations as 'F0@3'"
    need("order", order, (list, tuple), allowed)
    lines: list[str] = []
    for device, words in enumerate(order):
        field = f"order of device {device}"
        need(field, words, (str, list, tuple), allowed)
        for word in words:
            need(field, word, str, allowed)
        lines.append(words if isinstance(words, str) else " ".join(words))
    return lines


def _times(field: str, given: Times) -> list[float | str]:
    """Return times as a list; the engine reads texts with their units.

    Raises:
        InvalidError: They are no numbers and no texts, or no list.
    """
    if isinstance(given, str):
        return [given]
    listed = cast("Sequence[object]", given if isinstance(given, (list, tuple)) else ())
    if any(isinstance(time, str) for time in listed):
        for time in listed:
            need(field, time, (str, int, float), "seconds, or texts as '12 ms'")
        return cast("list[float | str]", list(listed))
    numbers = floats(field, cast("ArrayLike", given))
    if numbers.ndim > 1 or not numbers.size:
        message = f"{field}: got shape {numbers.shape}; allowed: a number or a list of them"
        raise InvalidError(message)
    return cast("list[float | str]", numbers.reshape(-1).tolist())


def _one_time(field: str, given: Times) -> float | str:
    times = _times(field, given)
    if len(times) != 1:
        message = f"{field}: got {len(times)} values; allowed: one"
        raise InvalidError(message)
    return times[0]


def _sizes(given: ArrayLike) -> list[list[float]]:
    """Return a pair for each micro-batch.

    Raises:
        InvalidError: There is neither a number nor a pair for each.
    """
    import numpy as np

    sizes = floats("sizes", given)
    if sizes.ndim == 1:
        sizes = np.stack([sizes, sizes], axis=1)
    if sizes.ndim != 2 or sizes.shape[1] != 2 or not len(sizes):
        message = f"sizes: got shape {sizes.shape}; allowed: a number or a pair per micro-batch"
        raise InvalidError(message)
    return sizes.tolist()
