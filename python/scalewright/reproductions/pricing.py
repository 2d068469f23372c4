"""What does the engine predict for a setting, its open fields chosen by least time alone?"""

from __future__ import annotations

import copy
import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from scalewright._engine import Cluster, Job, Workload, estimate, search
from scalewright.config.plan import schedule_rules
from scalewright.errors import ScalewrightError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scalewright.reproductions.setting import Setting

_ALL_FIELDS = (
    "tensor",
    "context",
    "pipeline",
    "data",
    "expert",
    "micro_batch",
    "interleave",
    "schedule",
    "zero",
    "recompute",
    "sequence_parallel",
)
_AXES = ("tensor", "pipeline", "context", "data")
_AMPLE = "1000 TiB"


@dataclass(frozen=True)
class Priced:
    """A priced row."""

    job: Job
    estimate: str
    """JSON text of the estimate."""
    searched: bool
    """True where the source leaves a field open."""
    notes: tuple[str, ...]
    parameters: int
    batch: int
    """Sequences a step."""

    def fields(self) -> dict[str, Any]:
        """Return the estimate's fields."""
        return json.loads(self.estimate)


@dataclass
class Pricing:
    """Prices settings, each different one once."""

    _seen: dict[str, Priced | ScalewrightError] = field(
        default_factory=dict[str, "Priced | ScalewrightError"]
    )
    _jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    _models: dict[str, Workload] = field(default_factory=dict[str, Workload])

    def price(self, setting: Setting) -> Priced:
        """Price a setting.

        Raises:
            ScalewrightError: The engine refuses it, or no plan is legal.
        """
        key = json.dumps(
            [
                setting.model,
                setting.system,
                setting.device,
                setting.devices,
                setting.training,
                setting.batches,
                setting.rounding,
                setting.space,
                setting.conventions.known,
            ],
            sort_keys=True,
        )
        if key not in self._seen:
            try:
                self._seen[key] = self._priced(setting)
            except ScalewrightError as error:
                self._seen[key] = error
        outcome = self._seen[key]
        if isinstance(outcome, ScalewrightError):
            raise outcome
        return outcome

    def _priced(self, setting: Setting) -> Priced:
        try:
            return self._quicker(setting, self._best(setting))
        except ScalewrightError:
            for amended, note in _amendments(setting):
                try:
                    found = self._best(amended)
                except ScalewrightError:
                    continue
                searched = found.searched or amended.space != setting.space
                return replace(found, searched=searched, notes=(*found.notes, note))
            raise

    def _quicker(self, setting: Setting, found: Priced) -> Priced:
        """Return what a rounded batch leaves where the row's own leaves few, slower replicas."""
        near = nearest_batch(setting) if found.searched else None
        if near is None:
            return found
        try:
            rounded = self._best(replace(setting, batches=(near,)))
        except ScalewrightError:
            return found
        replicas = [each.fields()["plan"]["data"] for each in (found, rounded)]
        if replicas[1] <= replicas[0] or _rank(rounded) <= _rank(found):
            return found
        note = f"global batch of {near} taken: few replicas divide {setting.batches[0]}"
        return replace(rounded, notes=(*rounded.notes, note))

    def _best(self, setting: Setting) -> Priced:
        best: Priced | None = None
        best_batch = 0
        refused: ScalewrightError | None = None
        for batch in setting.batches:
            try:
                found = self._one_batch(setting, batch)
            except ScalewrightError as error:
                refused = refused or error
                continue
            if best is None or _rank(found) > _rank(best):
                best, best_batch = found, batch
        if best is None:
            message = "no global batch of this row can be priced"
            raise refused or ScalewrightError(message)
        if len(setting.batches) == 1:
            return best
        among = "of those that fit" if best.fields()["fits"] else "tried, and none fits"
        note = f"global batch of {best_batch} taken: the fastest {among}"
        return replace(best, searched=True, notes=(*best.notes, note))

    def _one_batch(self, setting: Setting, batch: int) -> Priced:
        job = self._job(setting, batch, ample=False)
        plan = _single(setting.space)
        if plan is not None:
            verdict = json.loads(estimate(job, json.dumps(plan)))
            if "illegal" in verdict:
                told = contradiction(setting.space, setting.devices, batch)
                raise ScalewrightError(told or f"plan: {verdict['illegal']}")
            if verdict["estimate"]["fits"] or not _again(setting):
                return self._noted(setting, batch, verdict["estimate"], searched=False)
        space = json.dumps(setting.space)
        limits = json.dumps({"top": 1, "offload": "never"})
        report = json.loads(search(job, space, limits))
        if report["best"]:
            return self._noted(setting, batch, report["best"][0], searched=True)
        for wider in _wider(setting):
            report = json.loads(search(job, json.dumps(setting.space | wider), limits))
            if report["best"]:
                return self._noted(setting, batch, report["best"][0], searched=True)
        # the run happened, so the plan that comes nearest to fitting stands for it
        roomy = self._job(setting, batch, ample=True)
        space = json.dumps(setting.space | _again(setting))
        limits = json.dumps({"top": 1, "objective": "memory", "offload": "never"})
        report = json.loads(search(roomy, space, limits))
        if not report["best"]:
            told = contradiction(setting.space, setting.devices, batch)
            if told is not None:
                raise ScalewrightError(told)
            reasons = ", ".join(r["reason"] for r in report["rejected"]) or "no plan in the space"
            message = f"plan: no legal plan: {reasons}"
            raise ScalewrightError(message)
        nearest = json.loads(estimate(job, json.dumps(report["best"][0]["plan"])))
        return self._noted(setting, batch, nearest["estimate"], searched=True)

    def _job(self, setting: Setting, batch: int, *, ample: bool) -> Job:
        training = {**setting.training, "global_batch": batch}
        device = setting.device
        if ample:
            device = copy.deepcopy(device)
            device["tiers"][-1]["capacity"] = _AMPLE
        cluster = {"system": setting.system, "device": device, "devices": setting.devices}
        texts = (setting.model, json.dumps(cluster), json.dumps(training))
        key = "\0".join(texts)
        if key not in self._jobs:
            self._jobs[key] = Job(self._model(texts[0]), Cluster(texts[1]), texts[2])
        return self._jobs[key]

    def _model(self, text: str) -> Workload:
        if text not in self._models:
            self._models[text] = Workload(text)
        return self._models[text]

    def _noted(
        self, setting: Setting, batch: int, found: dict[str, Any], *, searched: bool
    ) -> Priced:
        notes: tuple[str, ...] = ()
        if not found["fits"]:
            lacking = found["shortfall"]["missing_bytes"] if found["shortfall"] else 0.0
            notes = (f"does not fit by {lacking / 2**30:.1f} GiB in our memory model",)
        parameters = self._model(setting.model).parameters()["total"]
        job = self._job(setting, batch, ample=False)
        return Priced(job, json.dumps(found), searched, notes, parameters, batch)


def _wider(setting: Setting) -> Iterator[dict[str, list[Any]]]:
    """Yield what a row may leave unsaid where no plan as its program runs it fits a device."""
    again = _again(setting)
    if _may_share(setting):
        # what no device holds whole was shared out
        yield {"zero": [3]}
    if again:
        # or computed again
        yield again
        if _may_share(setting):
            yield {"zero": [3], **again}


def _again(setting: Setting) -> dict[str, list[Any]]:
    """Return that layers run again, where nobody says and their program would not have them to."""
    open_still = setting.silent and "full" not in setting.space.get("recompute", ["full"])
    return {"recompute": ["full"], "recompute_layers": [0]} if open_still else {}


def _may_share(setting: Setting) -> bool:
    """Say whether ZeRO-3, which no pipeline goes with, may be what a row leaves unsaid."""
    whole = all(1 in setting.space.get(axis, (1,)) for axis in ("tensor", "pipeline"))
    open_stage = len(setting.space.get("zero", ())) > 1
    return open_stage and whole and setting.devices > 1 and not setting.conventions.known


def _amendments(setting: Setting) -> Iterator[tuple[Setting, str]]:
    """Yield readings under which a row that no plan fits may be priced, each with its note."""
    if (near := nearest_batch(setting)) is not None:
        note = f"global batch of {near} taken: {setting.batches[0]} does not divide"
        yield replace(setting, batches=(near,)), note
    layers = json.loads(setting.model)["layers"]
    ends = None if setting.conventions.known else uneven(setting.space, layers)
    if ends is not None:
        note = f"{layers} layers do not divide over the stages: fewer are taken at the ends"
        yield replace(setting, space=setting.space | ends), note


def nearest_batch(setting: Setting) -> int | None:
    """Return the batch nearest to a row's that its replicas and micro-batches divide.

    Sources round their batches, or say them in tokens. None where the row's own divides, where
    several are tried, or where the nearest is farther away than `setting.rounding`.
    """
    if len(setting.batches) != 1:
        return None
    (batch,) = setting.batches
    fixed = {name: values[0] for name, values in setting.space.items() if len(values) == 1}
    ranks = math.prod(fixed.get(name, 1) for name in ("tensor", "pipeline", "context"))
    replicas = fixed.get("data", max(setting.devices // ranks, 1))
    least = replicas * fixed.get("micro_batch", 1)
    near = max(round(batch / least), 1) * least
    return near if 0 < abs(near - batch) <= setting.rounding * batch else None


def uneven(space: dict[str, list[Any]], layers: int) -> dict[str, list[Any]] | None:
    """Return what the first and the last virtual stage may hold where all others hold as many.

    None where the row says no pipeline, or how its layers lie, or where they divide.
    """
    stages = {
        pipeline * interleave
        for pipeline in space.get("pipeline", ())
        for interleave in space.get("interleave", (1, 2, 4, 8))
    }
    if "first_layers" in space or "last_layers" in space:
        return None
    firsts: set[int] = set()
    lasts: set[int] = set()
    for count in stages:
        most = -(-layers // count)
        left = layers - most * (count - 2)
        if count > 1 and layers % count and left > 0:
            pairs = [(first, left - first) for first in range(1, most + 1)]
            firsts |= {first for first, last in pairs if 0 <= last <= most}
            lasts |= {last for _, last in pairs if 0 <= last <= most}
    if not firsts:
        return None
    return {
        "first_layers": sorted(firsts),
        "last_layers": sorted(lasts),
        "bare_last": [False, True] if 0 in lasts else [False],
    }


def contradiction(space: dict[str, list[Any]], devices: int, batch: int) -> str | None:
    """Say which of a row's counts contradict one another; none where they agree or are open."""
    fixed = {name: values[0] for name, values in space.items() if len(values) == 1}
    degrees = [(name, fixed[name]) for name in _AXES if name in fixed]
    ranks = math.prod(degree for _, degree in degrees)
    told = " x ".join(f"{name} {degree}" for name, degree in degrees)
    if len(degrees) == len(_AXES) and ranks != devices:
        return f"devices: got {devices}; allowed: {ranks}, which is {told}"
    if devices % ranks:
        return f"devices: got {devices}; allowed: a multiple of {ranks}, which is {told}"
    if "data" in fixed and "micro_batch" in fixed:
        least = fixed["data"] * fixed["micro_batch"]
        if batch % least:
            told = f"data {fixed['data']} x micro-batch {fixed['micro_batch']}"
            return f"global_batch: got {batch}; allowed: a multiple of {least}, which is {told}"
    elif batch % (micro := fixed.get("micro_batch", 1)):
        return f"global_batch: got {batch}; allowed: a multiple of {micro}, the micro-batch"
    return None


def _single(space: dict[str, list[Any]]) -> dict[str, Any] | None:
    """Return the only plan of a space, or none where a field is open."""
    if any(len(space.get(name, ())) != 1 for name in _ALL_FIELDS):
        return None
    if any(len(values) != 1 for values in space.values()):
        return None
    plan = {name: values[0] for name, values in space.items()}
    plan.setdefault("overlap_pipeline", schedule_rules()[plan["schedule"]]["overlaps_sends"])
    return plan


def _rank(priced: Priced) -> tuple[bool, float]:
    found = priced.fields()
    return found["fits"], found["tokens_per_s"]
