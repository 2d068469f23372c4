"""Who tells devices what to run, and is that hidden behind what they run?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from scalewright import _engine
from scalewright.config import json_text, named_as, need, need_count
from scalewright.config.kinds import plain
from scalewright.planning.arguments import known_names
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    Time = float | str
    """Seconds, or text with a unit, as `"20 us"`."""
    Program = Sequence[Time] | Mapping[str, object]


_PATHS = {
    r"setting\.": "",
    r"program\.(?:chain|pipeline)\b": "program",
    r"input(?=[\[:]|$)": "input_s",
    r"controllers\b": "names",
}
"""What a caller wrote, by the engine's path."""


@dataclass(frozen=True)
class Controller(Answer):
    """A program's steps under one controller.

    Attributes:
        controller: Who dispatches.
        source: Where that is described.
        step_time_s: Time from one step to the next once all queues are full.
        first_step_time_s: Time from the first message to the end of the first step.
        computation_s: The step with data and dispatch for nothing and input ready.
        exposed_transfer_s: What data between groups of devices adds to it.
        exposed_input_s: What the input pipelines add.
        exposed_dispatch_s: What dispatch adds.
        hidden_dispatch_s: Dispatch of a step that runs beside something else, on its busiest
            resource.
        dispatch_s: Dispatch of a step on its busiest resource.
        first_exposed_dispatch_s: What dispatch adds to the first step.
        utilization: Share of all devices' time in which they compute.
        binds: What a step waits for: `computation`, `transfer`, `input`, `host`, `controller`,
            `scheduler` or `round_trip`.
        hidden_from_s: Mean time of a computation from which dispatch is hidden; None where none is
            long enough.
    """

    controller: str
    source: str
    step_time_s: float
    first_step_time_s: float
    computation_s: float
    exposed_transfer_s: float
    exposed_input_s: float
    exposed_dispatch_s: float
    hidden_dispatch_s: float
    dispatch_s: float
    first_exposed_dispatch_s: float
    utilization: float
    binds: str
    hidden_from_s: float | None


class _Machines(TypedDict, total=False):
    """What may be known of the machines; see `controllers`."""

    devices_per_host: int
    islands: int
    costs: Mapping[str, Time] | None
    transfers: Mapping[str, object] | None
    input_s: Time | Sequence[Time]
    prefetch: int


def controller(
    name: str, program: Program, *, hosts: int, **setting: Unpack[_Machines]
) -> Controller:
    """Return what a program costs under one controller.

    Args:
        name: `multi_controller` (every host launches its own devices' work, as JAX does),
            `single_synchronous` (one controller waits for each computation's end, as TensorFlow 1
            did), `single_sequential` (it waits for each to be enqueued) or `single_parallel` (it
            dispatches a step's computations at once, as Pathways does).
        program: The program; see `controllers`, also for other arguments.
        hosts: Machines that launch work on their own devices.
        setting: What else is known of them.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need("name", name, str, "a controller, as single_parallel")
    known_names("setting", setting, _Machines.__annotations__)
    (only,) = controllers(program, hosts=hosts, names=(name,), **setting)
    return only


def controllers(
    program: Program,
    *,
    hosts: int,
    devices_per_host: int = 1,
    islands: int = 1,
    costs: Mapping[str, Time] | None = None,
    transfers: Mapping[str, object] | None = None,
    input_s: Time | Sequence[Time] = (),
    prefetch: int = 1,
    names: Sequence[str] = (),
) -> tuple[Controller, ...]:
    """Return what a program costs under each controller, or under those named.

    Args:
        program: Seconds of each computation of a step, one after another on all devices; or
            `seconds`, `groups` (of devices that take turns) and `exchange` (seconds of each one's
            gradients between islands); or `schedule`, `stages`, `micro_batches`, `forward` and
            `backward` (seconds of a micro-batch on a stage). Times may be text, as `"5 ms"`.
        hosts: Machines that launch work on their own devices.
        devices_per_host: Devices of each.
        islands: Groups of hosts, each with a fast fabric and a gang scheduler of its own.
        costs: `latency` (one way over the data-centre network), `message` (the controller's CPU
            for one host), `handle` (for one device), `scheduler` (a gang), `prepare` (a host's CPU
            for a launch), `enqueue` (over PCIe); typical figures where left out.
        transfers: `within` and `between` (seconds from one group to the next inside an island, and
            from island to island), `blocking` (true where nothing is computed meanwhile).
        input_s: Seconds of a host's input pipeline for a step: one for all, or one each.
        prefetch: Steps whose input may lie ready; 0: read between steps.
        names: Controllers; see `controller`.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    for field, given in (("costs", costs), ("transfers", transfers)):
        need(field, given, (Mapping, type(None)), "times by name")
    need("names", names, (list, tuple), "a list of controllers")
    input_s = cast("Time | Sequence[Time]", plain(input_s))
    need("input_s", input_s, (int, float, str, list, tuple), "a time, or a list of one each")
    alone = not isinstance(input_s, (list, tuple))
    setting = {
        "program": _program(program),
        "hosts": need_count("hosts", hosts),
        "devices_per_host": need_count("devices_per_host", devices_per_host),
        "islands": need_count("islands", islands),
        "costs": dict(costs or {}),
        "transfers": dict(transfers or {}),
        "input": [input_s] if alone else list(input_s),
        "prefetch": need_count("prefetch", prefetch, 0),
    }
    asked = {"controllers": list(names), "setting": setting}
    paths = {**_PATHS, **({} if isinstance(program, Mapping) else {r"program\.seconds": "program"})}
    with named_as(paths if not alone else {**paths, r"input_s\[0\]": "input_s"}):
        answers = json.loads(_engine.controllers(json_text("", asked)))
    return tuple(Controller(**answer) for answer in answers)


def _program(program: Program) -> dict[str, object]:
    need("program", program, (list, tuple, Mapping), "a list of seconds, or an object with fields")
    if not isinstance(program, Mapping):
        return {"chain": {"seconds": list(program)}}
    return {"chain" if "seconds" in program else "pipeline": dict(program)}
