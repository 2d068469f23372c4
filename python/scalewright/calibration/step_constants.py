"""Which constants of a device, its links and its software can whole training steps tell?

Kernels timed alone do not know them: rates that last at the power limit, the spread of speed among
devices that wait for one another, the units that collectives take from kernels beside them, the
share of its rate that a link sustains in a job, and the time in which a host issues a kernel.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text
from scalewright.errors import InvalidError, ScalewrightError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scalewright.calibration.step_rows import StepRun

Path = tuple[str, ...]
DEFAULT_SOFTWARE = "measured-steps"
"""The name of a new software profile, for rows that say none."""
_NARROW = ("fp8", "mxfp8", "nvfp4")
_EDGE = 8192.0
"""Edge of the square product by which short and lasting rates are compared (docs/software.md)."""
_LEAST_RATE = 0.05
_PACE = (1e-8, 1e-3, 2e-5)
_SPREAD = (1e-4, 0.2, 0.02)
_SHARE = (0.05, 1.0, 0.8)
_UNITS = (0.05, 128.0)
_UNIT_BY_FIELD = {"sustained": "FLOP/s", "host_time": "s", "communication_units": "units"}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class StepConstant:
    """A constant that steps may tell, in SI units."""

    entry: tuple[str, str]
    """Kind and name of the catalog's entry that holds it."""
    path: Path
    """Keys from the entry down; the second one is a level's name where the first is `levels`."""
    before: float | None
    """Its value now; none where the entry leaves it out."""
    least: float
    most: float
    usual: float
    """A second start, where the first one is at an end of what is allowed."""
    known: bool = True
    """False where the catalog has no entry of that name yet."""

    @property
    def name(self) -> str:
        """What it is called in reports, as `device.sustained.bf16`."""
        kind, entry = self.entry
        if kind == "system":
            return f"fabric.{self.path[1]}.{self.path[2]} of {entry}"
        if kind == "software":
            return f"{'.'.join(self.path)} of {entry}"
        return ".".join((kind, *self.path))

    @property
    def unit(self) -> str:
        """The unit of its values."""
        return _UNIT_BY_FIELD.get(self.path[0] if len(self.path) == 2 else self.path[-1], "share")

    @property
    def start(self) -> float:
        """Where a fit begins: its value now, inside the bounds."""
        return min(max(self.before or 0.0, self.least), self.most)


Values = dict[StepConstant, float]


def step_constants(runs: Sequence[StepRun]) -> list[StepConstant]:
    """List what may be fitted to some runs on one kind of device."""
    device = runs[0].device
    found = [*_rates(runs), *_spread(runs)]
    units = float(device.get("communication_units", 0.0))
    if units > 0.0:
        found.append(_of_device(device, "communication_units", units, (*_UNITS, units)))
    systems = {str(run.system["name"]): run for run in runs}
    for name, run in systems.items():
        for level in levels(run):
            path = ("levels", str(level["name"]), "efficiency")
            now = float(level["efficiency"])
            found.append(StepConstant(("system", name), path, now, *_SHARE))
    return [*found, *_paces(runs)]


def _paces(runs: Sequence[StepRun]) -> Iterable[StepConstant]:
    """List the paces of the hosts, one for each software profile."""
    profiles = {run.software or DEFAULT_SOFTWARE: run for run in runs}
    for name, run in profiles.items():
        pace = run.training.get("software", {}).get("host", {}).get("host_time")
        now = None if pace is None else _seconds(pace)
        path = ("software", "host", "host_time")
        known = run.software is not None
        yield StepConstant(("software", name), path, now, *_PACE, known=known)


def levels(run: StepRun) -> list[dict[str, Any]]:
    """Return the levels of a run's system in full, innermost first."""
    return json.loads(_cluster(run.system, run.device, run.devices).levels())


def _cluster(system: Mapping[str, Any], device: Mapping[str, Any], devices: int) -> _engine.Cluster:
    parts = {"system": system, "device": device, "devices": devices}
    return _engine.Cluster(json_text("system", parts))


def _of_device(
    device: Mapping[str, Any],
    field: str,
    before: float | None,
    bounds: tuple[float, float, float],
) -> StepConstant:
    return StepConstant(("device", str(device["name"])), (field,), before, *bounds)


def _spread(runs: Sequence[StepRun]) -> Iterable[StepConstant]:
    """Several devices wait for the slowest of them; one alone does not."""
    if any(run.devices > 1 for run in runs):
        device = runs[0].device
        yield _of_device(device, "speed_spread", device.get("speed_spread"), _SPREAD)


def _rates(runs: Sequence[StepRun]) -> Iterable[StepConstant]:
    """List the rates that last of the formats in which the runs multiply."""
    first = runs[0]
    formats: dict[str, None] = {}
    for run in runs:
        precision = str(run.training.get("precision", "bf16"))
        formats |= dict.fromkeys([precision, *(["bf16"] if precision in _NARROW else [])])
    known = json.loads(_engine.constants(_cluster(first.system, first.device, first.devices)))
    named = {line["name"]: float(line["value"]) for line in known}
    for dtype in formats:
        tested = _tested(first.device, dtype)
        if tested is None:
            continue
        share = named.get(f"device.sustained.{dtype}")
        peak = named.get(f"device.matrix_peak.{dtype}")
        now = None if share is None or peak is None else share * peak
        path = ("sustained", dtype)
        bounds = (_LEAST_RATE * tested, tested, 0.8 * tested)
        before = tested if now is None else now
        constant = StepConstant(("device", str(first.device["name"])), path, before, *bounds)
        yield constant


def _tested(device: Mapping[str, Any], dtype: str) -> float | None:
    """Return the rate of a large product in a short test, where the device has the format."""
    import numpy as np

    request = {"kernel": "matmul", "a": dtype, "b": dtype, "output": "bf16"}
    edge = np.array([_EDGE])
    columns = {"m": edge, "n": edge, "k": edge}
    try:
        text, asked = json_text("device", dict(device)), json_text("kernel", request)
        time = _engine.kernel_times(text, asked, columns)
    except ScalewrightError:
        return None
    return float(2.0 * _EDGE**3 / np.asarray(time)[0])


def _seconds(value: object) -> float:
    """Read a time of the catalog, text with a unit or a number of seconds."""
    found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(s|ms|us|ns)?\s*", str(value))
    try:
        if found is not None:
            return float(found[1]) * _SECONDS[found[2] or "s"]
    except ValueError:
        pass
    message = f"software.host.host_time: got {value!r:.60}; allowed: a time, as '15 us'"
    raise InvalidError(message)


class StepBench:
    """Runs whose steps the engine prices again and again while constants change."""

    def __init__(self, runs: Sequence[StepRun]) -> None:
        """Read the models; sort the runs by the machines that they share."""
        self.runs = list(runs)
        models = {run.model: _engine.Workload(run.model) for run in runs}
        self._models = [models[run.model] for run in runs]
        self._levels = {str(run.system["name"]): levels(run) for run in runs}
        self._machines: dict[str, list[int]] = {}
        for place, run in enumerate(runs):
            key = json.dumps([run.system["name"], run.devices, run.device.get("attention")])
            self._machines.setdefault(key, []).append(place)

    def times(self, values: Mapping[StepConstant, float]) -> list[float]:
        """Return the step time of each run in seconds; constants that are not given stay."""
        found = [0.0] * len(self.runs)
        for places in self._machines.values():
            first = self.runs[places[0]]
            system, device = self._changed(first, values)
            cluster = _cluster(system, device, first.devices)
            for place in places:
                found[place] = self._time(place, cluster, values)
        return found

    def _time(
        self, place: int, cluster: _engine.Cluster, values: Mapping[StepConstant, float]
    ) -> float:
        run = self.runs[place]
        training: dict[str, Any] = run.training
        for constant, value in values.items():
            if constant.entry == ("software", run.software or DEFAULT_SOFTWARE):
                own: dict[str, Any] = training.get("software", {})
                software: dict[str, Any] = {"name": constant.entry[1], **own}
                host = {**software.get("host", {}), "host_time": value}
                training = {**training, "software": {**software, "host": host}}
        job = _engine.Job(self._models[place], cluster, json_text("training", training))
        return float(json.loads(_engine.estimate(job, run.plan))["estimate"]["step_time_s"])

    def _changed(
        self, run: StepRun, values: Mapping[StepConstant, float]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a run's system and device with other values of some constants."""
        name = str(run.system["name"])
        device = {key: value for key, value in run.device.items() if key != "sources"}
        system = {key: value for key, value in run.system.items() if key != "sources"}
        changed = [dict(level) for level in self._levels[name]]
        fabric = False
        for constant, value in values.items():
            if constant.entry == ("system", name):
                fabric = True
                _, wanted, field = constant.path
                for level in changed:
                    if level["name"] == wanted:
                        level[field] = value
            elif constant.entry[0] == "device":
                device = _with(device, constant.path, value)
        return ({**system, "levels": changed} if fabric else system), device


def _with(table: dict[str, Any], path: Path, value: float) -> dict[str, Any]:
    """Return a table with one value changed."""
    if len(path) == 1:
        return {**table, path[0]: value}
    return {**table, path[0]: _with(table.get(path[0], {}), path[1:], value)}
