"""Which plan is best where groups of devices are unlike: a heterogeneous cluster?"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.catalog import load_entry
from scalewright.config import json_text, named_as, need, need_progress, space
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.planning.inputs import Model, System
from scalewright.planning.inputs import system as read_system
from scalewright.planning.job import Job
from scalewright.planning.stamp import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from scalewright.config import Training

    Group = System | str
    Between = Mapping[str, object] | str

_LINK = "25 GB/s, 10 us (rate per device and direction, latency), a catalog system or SYSTEM:LEVEL"

_DIGITS = 10


@dataclass(frozen=True)
class UnlikeSearch:
    """The best plans on groups of unlike devices, best first, and how that is proven.

    Attributes:
        jobs: One per group.
        values: Every field that the engine gives, as in `to_dict`.
        changed_link: Dotted paths of the constants of `between` that user files changed.
    """

    jobs: tuple[Job, ...]
    values: Mapping[str, Any]
    changed_link: tuple[str, ...] = ()

    @property
    def overridden(self) -> tuple[str, ...]:
        """Return the dotted paths of all constants that user files changed."""
        parts = [part for job in self.jobs for part in (job.model, job.system)]
        changed = (path for part in parts for path in part.overridden)
        return tuple(dict.fromkeys([*changed, *self.changed_link]))

    @property
    def best(self) -> tuple[Mapping[str, Any], ...]:
        """Return the best plans, best first; empty where none fits.

        Each has `step_time_s` and its terms, the fields that all stages share, `groups` (how each
        is used) and `stages` (group, layers, seconds and bytes of each, along the pipeline).
        """
        return tuple(self.values["best"])

    @property
    def feasible(self) -> bool:
        """Say whether any plan is legal and fits."""
        return bool(self.values["best"])

    def __len__(self) -> int:
        """Return how many plans were kept."""
        return len(self.values["best"])

    def __getitem__(self, rank: int) -> Mapping[str, Any]:
        """Return the plan of a rank, 0 for the best."""
        return self.best[rank]

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        stamps = [job.stamp() for job in self.jobs]
        files = [
            file for job in self.jobs for file in (*job.system.overrides, *job.model.overrides)
        ]
        common = stamp(tuple(dict.fromkeys(files)))
        own = [{key: of[key] for key in of if key not in common} for of in stamps]
        changed = {"overridden_constants": list(self.overridden)}
        return {**common, **changed, "group_jobs": own, **self.values}


def search_unlike(
    model: Model,
    groups: Sequence[Group],
    training: Training,
    *,
    between: Between | None = None,
    top: int = 10,
    fix: Mapping[str, object] | None = None,
    memory_margin: float = 0.0,
    software: str | None = None,
    overrides: Sequence[str | Path] = (),
    progress: Callable[[int, int], object] | None = None,
) -> UnlikeSearch:
    """Find the fastest plans with whole stages in each of some groups of unlike devices.

    Pipeline stages are dealt to the groups. Those of a group share tensor ranks, sequence
    parallelism and recomputation; all stages share replicas, micro-batch, schedule (`1f1b` or
    `gpipe`) and ZeRO stage. The order of the groups, how many of them and of their devices are
    used, and the layers of each stage are found; the answer counts what was priced and what a
    bound excluded. The proof is of these plans alone: replicas or other ranks that span groups,
    context ranks, interleaved chunks and offload are not tried, and may be faster.

    Args:
        model: What is trained.
        groups: Up to four: what `scalewright.system` returns, or text as `dgx-h100:32`.
        training: Batch, sequence, formats, optimizer.
        between: What joins any two groups: text as `25 GB/s, 10 us` (rate per device and
            direction, latency), the name of a system, whose outermost level it is, or
            `SYSTEM:LEVEL`; or the fields of a level. One group needs none.
        top: How many plans to return.
        fix: A value or a list of allowed values by plan field; `tensor`, `sequence_parallel` and
            `recompute` hold for each group, `pipeline` counts the stages of all.
        memory_margin: Share of each device's memory that must stay free.
        software: A software profile of the catalog, as `torchtitan-eager`, which runs on every
            group (`docs/software.md`).
        overrides: User files or directories that add to the catalog or change it, for what is
            named in text.
        progress: Called with the parts done and the parts in all.

    Raises:
        ScalewrightError: A value is wrong, or a plan field does not exist.
    """
    need_progress(progress)
    need("groups", groups, (list, tuple), "a list of systems, or of text as dgx-h100:32")
    machines = [_machines(place, group, overrides) for place, group in enumerate(groups)]
    jobs = tuple(Job(model, system, training, memory_margin) for system in machines)
    if software is not None:
        jobs = tuple(job.with_software(software, overrides=overrides) for job in jobs)
    level, changed = (None, ()) if between is None else _level(between, overrides)
    joined = None if level is None else json_text("between", level)
    texts = (
        json_text("fix", space({} if fix is None else fix)),
        json_text("", {"top": top}),
    )
    handles = [job.handle for job in jobs]
    start = perf_counter()
    with named_as({r"space\.": "fix.", r"system between groups\.levels\.[^.]+": "between"}):
        found = json.loads(_engine.search_unlike(handles, joined, *texts, progress=progress))
    found["elapsed_s"] = perf_counter() - start
    return UnlikeSearch(jobs, found, changed)


def _machines(place: int, group: object, overrides: Sequence[str | Path]) -> System:
    """Return the machines of a group."""
    allowed = "what scalewright.system(...) returns, or text as dgx-h100:32"
    need(f"groups[{place}]", group, (System, str), allowed)
    if isinstance(group, System):
        return group
    name, colon, devices = str(group).rpartition(":")
    if not colon or not devices.isdecimal() or len(devices) > _DIGITS:
        message = f"groups[{place}]: got {group!r:.60}; allowed: {allowed}"
        raise InvalidError(message)
    return read_system(name, int(devices), overrides=overrides)


def _level(
    between: object, overrides: Sequence[str | Path]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of the level that joins groups, and the paths of those that files changed.

    Raises:
        ScalewrightError: It is no rate with a latency, and there is no such system or level.
    """
    need("between", between, (str, Mapping), _LINK)
    if isinstance(between, Mapping):
        return {"name": "between", "kind": "fat-tree", **between}, ()
    text = str(between)
    if "/s" in text:
        rate, comma, latency = text.partition(",")
        if not comma:
            message = f"between: got {text!r:.60}; allowed: {_LINK}"
            raise InvalidError(message)
        figures = {"bandwidth": rate.strip(), "latency": latency.strip()}
        return {"name": "between", "kind": "fat-tree", **figures}, ()
    name, _, wanted = text.partition(":")
    entry = load_entry("system", name, overrides)
    levels: list[dict[str, Any]] = entry.table["levels"]
    known = [str(level["name"]) for level in levels]
    wanted = wanted or known[-1]
    if wanted in known:
        own = [path for path in entry.overridden if path.startswith(f"levels.{wanted}.")]
        return dict(levels[known.index(wanted)]), tuple(f"system.{path}" for path in own)
    near = difflib.get_close_matches(wanted, known, n=1, cutoff=0.0)
    message = (
        f"between: unknown name '{wanted}'; allowed: a level of {name}: {', '.join(known)}; "
        f"nearest: {', '.join(near)}"
    )
    raise UnknownNameError(message)
