"""Between which times do measured runs lie where an answer is like theirs?"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scalewright.planning.job import Job

FILE, UNSEEN_FILE = "residuals.csv", "unseen_residuals.csv"
SHARE = 0.8
"""Share of measured runs that a band is to hold."""
NEAREST, OF_ONE_PAPER = 60, 20
_WIDENED = re.compile(r"widened by (-?[0-9.]+) \(program named\), (-?[0-9.]+) \(not named\)")
# what makes runs unlike, in the distance's own unit
_OTHER_VENDOR, _OTHER_DEVICE, _YEAR, _OTHER_FORMAT, _SEARCHED, _NAMED = 1.0, 1.0, 0.5, 0.5, 0.5, 1.0
_DOUBLING = 0.5


@dataclass(frozen=True)
class Traits:
    """What says how like two runs are."""

    device: str
    vendor: str
    year: int
    dtype: str
    devices: float
    """Base-2 logarithm of the devices."""
    parameters: float
    """Base-2 logarithm of the model's parameters."""
    searched: bool
    """True where fields of the plan were searched."""
    named: bool
    """True where it is known which program ran: a software profile is named, or its source says."""


@dataclass(frozen=True)
class Widening:
    """By how much of the logarithm both ends of a band are moved out."""

    named: float = 0.0
    """Where it is known which program ran."""
    unnamed: float = 0.0

    def of(self, traits: Traits) -> float:
        """Return what runs like these are widened by."""
        return self.named if traits.named else self.unnamed

    def __str__(self) -> str:
        """Return the remark above recorded residuals."""
        return f"widened by {self.named:.4f} (program named), {self.unnamed:.4f} (not named)"


@dataclass(frozen=True)
class Residual:
    """A published run and how its measured time compares with the predicted one."""

    paper: str
    traits: Traits
    log_ratio: float
    """Natural logarithm of measured over predicted time."""


class Runs:
    """Measured runs, laid out by trait so that the nearest ones are found at once."""

    def __init__(self, residuals: Iterable[Residual]) -> None:
        """Lay out some runs, of which no one changes any more."""
        import numpy as np

        self.residuals = tuple(residuals)
        self._columns = {
            of.name: np.array([getattr(run.traits, of.name) for run in self.residuals])
            for of in fields(Traits)
        }

    def by_distance(self, traits: Traits) -> list[Residual]:
        """List the runs from the one most like these traits to the one least like them.

        The distance is 1 for a different vendor; 1 for a different device; 0.5 per year between the
        release years of the devices; 0.5 for a different number format; 0.5 per doubling of the
        number of devices and of parameters; 0.5 where the plan of one of the two alone was
        searched; 1 where the program of one of the two alone is known.
        """
        if not self.residuals:
            return []
        of = self._columns
        distance = (
            _OTHER_VENDOR * (of["vendor"] != traits.vendor)
            + _OTHER_DEVICE * (of["device"] != traits.device)
            + _YEAR * abs(of["year"] - traits.year)
            + _OTHER_FORMAT * (of["dtype"] != traits.dtype)
            + _DOUBLING * abs(of["devices"] - traits.devices)
            + _DOUBLING * abs(of["parameters"] - traits.parameters)
            + _SEARCHED * (of["searched"] != traits.searched)
            + _NAMED * (of["named"] != traits.named)
        )
        return [self.residuals[place] for place in distance.argsort(kind="stable")]


@dataclass(frozen=True)
class Band:
    """Between which times runs like one lie, as logarithms of measured over predicted time."""

    low: float
    middle: float
    """As many runs take longer than take less."""
    high: float
    runs: tuple[Residual, ...]

    def widened(self, by: float) -> Band:
        """Return the band with both ends moved out."""
        return Band(self.low - by, self.middle, self.high + by, self.runs)

    def misses(self, residual: Residual) -> float:
        """Return by how much a run lies outside; below zero where it lies inside."""
        return max(self.low - residual.log_ratio, residual.log_ratio - self.high)


def error_band(job: Job, *, searched: bool) -> dict[str, Any] | None:
    """Return between which multiples of a predicted step time measured runs like it lie.

    Args:
        job: What is asked.
        searched: Whether the plan was searched, as against given.

    Returns:
        `low_factor` and `high_factor` of the predicted time, the `share` of runs between them, the
        `middle_factor` that half of them exceed, on which `runs` and `papers` they rest, how many
        of those are of the `same_device`, whether the answer's program is named
        (`program_named`); none where the catalog holds no residuals, and none of a forward pass
        alone, which no recorded run is.
    """
    if job.training.forward_only:
        return None
    recorded_runs, widened = _recorded()
    if not recorded_runs.residuals:
        return None
    device = job.system.device
    traits = Traits(
        device["name"],
        device.get("vendor", ""),
        device.get("year", 0),
        job.training.precision,
        math.log2(job.system.devices),
        math.log2(max(job.model.parameters()["total"], 1)),
        searched,
        named=bool(job.training.software),
    )
    band = band_of(traits, recorded_runs).widened(widened.of(traits))
    return {
        "share": SHARE,
        "low_factor": math.exp(band.low),
        "middle_factor": math.exp(band.middle),
        "high_factor": math.exp(band.high),
        "runs": len(band.runs),
        "papers": sorted({run.paper for run in band.runs}),
        "same_device": sum(run.traits.device == traits.device for run in band.runs),
        "program_named": traits.named,
    }


def band_of(traits: Traits, runs: Runs, apart: str | None = None) -> Band:
    """Return the middle share of the nearest runs, of which no paper gives more than a third.

    The runs of the paper `apart` do not count.
    """
    chosen: list[Residual] = []
    given: Counter[str] = Counter()
    for run in runs.by_distance(traits):
        if len(chosen) == NEAREST:
            break
        if run.paper != apart and given[run.paper] < OF_ONE_PAPER:
            given[run.paper] += 1
            chosen.append(run)
    ratios = sorted(run.log_ratio for run in chosen)
    left = (1.0 - SHARE) / 2.0
    low, middle, high = (_quantile(ratios, share) for share in (left, 0.5, 1.0 - left))
    return Band(low, middle, high, tuple(chosen))


def recorded() -> tuple[tuple[Residual, ...], Widening]:
    """Return the recorded runs, also of unseen sources, and by how much bands are widened."""
    runs, widened = _read(_text(FILE))
    return runs + unseen(), widened


@cache
def _recorded() -> tuple[Runs, Widening]:
    runs, widened = recorded()
    return Runs(runs), widened


def unseen() -> tuple[Residual, ...]:
    """Return the runs of sources that nobody wrote conventions for."""
    return _read(_text(UNSEEN_FILE))[0]


def _text(name: str) -> str:
    return (built_in_root() / "published" / name).read_text(encoding="utf-8")


@cache
def _read(text: str) -> tuple[tuple[Residual, ...], Widening]:
    remark, _, table = text.partition("\n")
    told = _WIDENED.search(remark)
    widened = Widening() if told is None else Widening(float(told[1]), float(told[2]))
    rows = csv.DictReader(io.StringIO(table, newline=""))
    groups: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        if row["kind"] in {"time", "rate"} and row["use"] == "validate" and row["time_ratio"]:
            groups.setdefault(row["run"], []).append(row)
    return tuple(_residual(group) for group in groups.values()), widened


def _residual(rows: Sequence[Mapping[str, str]]) -> Residual:
    row = rows[0]
    traits = Traits(
        row["device"],
        row["vendor"],
        int(row["year"]),
        row["dtype"],
        math.log2(int(row["devices"])),
        math.log2(int(row["parameters"])),
        row["status"] == "searched",
        named=bool(row["known"]),
    )
    logs = [math.log(float(row["time_ratio"])) for row in rows]
    return Residual(row["paper"], traits, -sum(logs) / len(logs))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of an ordered list, between neighbours by a straight line."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
