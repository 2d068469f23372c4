"""What do other figures of the same run tell of a row: its peak, its FLOPs, its recomputation?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from scalewright.errors import ScalewrightError
from scalewright.reproductions.columns import plain
from scalewright.reproductions.conventions import Conventions, conventions_of
from scalewright.reproductions.machine import chips_of_slice
from scalewright.reproductions.metrics import metric_of, unit_meant
from scalewright.reproductions.printed import one_figure
from scalewright.reproductions.runs import is_rate, kind_of, run_key, time_ratio
from scalewright.reproductions.units import unit_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scalewright.reproductions.reading import Row
    from scalewright.reproductions.setting import Setting

SHARES = frozenset({"mfu", "hfu", "percent_of_peak"})
"""Metrics that are shares of a peak."""
_WIDE = "bf16"
_COUNTS = {
    "model": "attention counted over all positions",
    "model_causal": "attention counted to half under its mask",
    "hardware": "FLOPs of recomputed layers count",
    "hardware_causal": "FLOPs of recomputed layers count, attention to half under its mask",
    "parameters": "six FLOPs a parameter counted, attention left out",
}
"""Ways to count FLOPs that a printed figure may have been made in, as the engine calls them."""
_AGREE = math.log(1.06)
"""How near to each other rates of one run are, and a way of counting comes to what is printed."""
_AWAY = math.log(1.12)
"""How far from what is printed the usual way is before another is looked for."""
_BETWEEN = math.log(2.0) / 2.0
"""How much nearer a way is that is taken though it does not agree: half of a factor of two."""
_STEPS = frozenset({"step_time", "iteration_time"})
_WHOLE = 0.03
"""How far from whole sequences the product of two rounded figures may be."""
_NEAR = 0.002
"""How far from whole devices the quotient of two rounded rates may be."""
_MOST = 16
"""Figures that one run may have."""
_SELECTIVE, _FULL = 1.02, 1.15
"""HFU over MFU: a layer run forward twice makes 4/3 of its FLOPs, its scores a few percent."""


@dataclass
class Siblings:
    """The rows of a file by the runs that they are of."""

    rows: list[Row]
    _by_run: dict[object, list[Row]] = field(default_factory=dict[object, "list[Row]"])

    def of(self, row: Row) -> list[Row]:
        """Return the other rows on a row's run; none where they are so many that they tell nothing.

        Rows that differ in their figure alone are of as many runs, which no cell tells apart.
        """
        if not self._by_run:
            for other in self.rows:
                self._by_run.setdefault(self.key_of(other), []).append(other)
        found = self._by_run.get(self.key_of(row), [])
        if len(found) > _MOST:
            return []
        return [other for other in found if not _same(other, row)]

    def key_of(self, row: Row) -> tuple[object, ...]:
        """Return what tells a row's run from others: its cells, remarks only where they have to.

        Rows of an unknown paper that agree in all cells may say in remarks alone which variant
        ran. They are of runs of their own where each remark has each metric once, and some have
        several of its figures.
        """
        key = _key(row)
        return (*key, row.text("source")) if key in self._told_by_remarks else key

    @cached_property
    def _told_by_remarks(self) -> set[object]:
        remarks: dict[object, dict[str, list[object]]] = {}
        for row in self.rows:
            if not conventions_of(row).known:
                figure = tuple(row.text(column) for column in ("table", "metric", "unit"))
                own = remarks.setdefault(_key(row), {})
                own.setdefault(row.text("source"), []).append(figure)
        return {key for key, own in remarks.items() if _parted(list(own.values()))}


def _parted(variants: list[list[object]]) -> bool:
    """Say whether figures by remark are of several variants that remarks tell apart."""
    every = [figure for figures in variants for figure in figures]
    once = all(len(set(figures)) == len(figures) for figures in variants)
    several = any(len(figures) > 1 for figures in variants)
    return once and several and len(set(every)) < len(every)


def with_recomputation(row: Row, siblings: Siblings) -> tuple[Row, tuple[str, ...]]:
    """Fill in the recomputation that MFU beside HFU of one run tells; what is said stays.

    HFU counts the FLOPs that are run, MFU those of the model (Chowdhery et al. 2022, appendix B).

    Returns:
        The row, and what was taken and why, in words.
    """
    if row.text("recompute") or conventions_of(row).known:
        return row, ()
    shares: dict[str, set[float]] = {}
    lines: set[int] = set()
    for each in (row, *siblings.of(row)):
        name = metric_of(each).casefold()
        if name in {"mfu", "hfu"} and (share := _share(each)) is not None:
            shares.setdefault(name, set()).add(share)
            lines.add(each.line)
    if len(shares) != 2 or any(len(told) != 1 for told in shares.values()):
        return row, ()
    above = shares["hfu"].pop() / shares["mfu"].pop()
    if above < 1.0:
        return row, ()
    word = "none" if above < _SELECTIVE else "selective" if above < _FULL else "full"
    where = " and ".join(f"line {line}" for line in sorted(lines))
    note = f"recomputation taken as {word}: HFU is {above:.2f} times MFU ({where})"
    return replace(row, cells=row.cells | {"recompute": word}), (note,)


def batch_told(row: Row, siblings: Siblings) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the sequences of a step that its time and the rate of the same run make.

    Nothing where the row says a batch, or where they make no whole number of sequences. Figures
    stand beside each other in one table; a table that is named otherwise may be of another run.

    Returns:
        A cell, and what was taken and why, in words.
    """
    if conventions_of(row).known or row.text("global_batch") or row.text("batch_tokens"):
        return {}, ()
    beside = [other for other in siblings.of(row) if other.text("table") == row.text("table")]
    told = [each for each in map(_speed, (row, *beside)) if each is not None]
    times, rates = ([v for v, of_time in told if of_time == wanted] for wanted in (True, False))
    if not times or not rates:
        return {}, ()
    if any(math.log(max(each) / min(each)) > _AGREE for each in (times, rates)):
        return {}, ()
    sequences = times[0] * rates[0]
    micro, devices = row.told("micro_batch") or 1, row.told("devices") or 1
    for of in dict.fromkeys((micro * devices, devices, micro, 1)):
        whole = max(round(sequences / of), 1) * of
        if abs(sequences / whole - 1.0) <= _WHOLE:
            note = f"global batch of {whole} taken: the rate and the step of this run make it"
            return {"global_batch": str(whole)}, (note,)
    return {}, ()


def devices_told(row: Row, siblings: Siblings) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the devices that the rate of a run makes beside the rate of one device of it.

    Also where a row counts a slice of TPUs by its cores and the rates count the slice's chips.

    Returns:
        A cell, and what was taken and why, in words.
    """
    if conventions_of(row).known or row.told("nodes"):
        return {}, ()
    told = row.told("devices")
    beside = [other for other in siblings.of(row) if other.text("table") == row.text("table")]
    found: dict[tuple[str, bool], set[float]] = {}
    for each in map(_of_whom, (row, *beside)):
        if each is not None:
            found.setdefault(each[:2], set()).add(each[2])
    counts = {
        round(max(found[of, False]) / max(found[of, True]))
        for of, of_one in found
        if of_one
        and len(found[of, True]) == 1 == len(found.get((of, False), ()))
        and _whole(max(found[of, False]) / max(found[of, True]))
    }
    if len(counts) != 1 or (count := counts.pop()) == told:
        return {}, ()
    if told is not None and not (
        told == 2 * count == 2 * (chips_of_slice(row.text("hardware")) or 0)
    ):
        return {}, ()
    note = f"{count} devices taken: the rates of this run and of one device make them"
    return {"devices": str(count)}, (note,)


def _of_whom(row: Row) -> tuple[str, bool, float] | None:
    """Return what a row's rate counts, whether of one device, and the rate in units of its own."""
    try:
        row, _ = one_figure(row)
        name, value = metric_of(row).casefold(), row.number("value")
        unit = unit_in(unit_meant(name, plain(row.text("metric")), row.text("unit")))
    except ScalewrightError:
        return None
    of = next((each for each in ("tokens_per_s", "sequences_per_s") if name.startswith(each)), None)
    if of is None:
        return None
    return of, name.endswith("per_gpu"), value * (unit.counts if unit is not None else 1.0)


def _whole(quotient: float) -> bool:
    """Say whether two rounded rates make a whole number of devices."""
    return quotient >= 2.0 and abs(quotient - round(quotient)) <= _NEAR * quotient


def _speed(row: Row) -> tuple[float, bool] | None:
    """Return a row's sequences a second, or its seconds a step, and whether it is a time."""
    try:
        row, _ = one_figure(row)
        name, value = metric_of(row).casefold(), row.number("value")
        unit = unit_in(unit_meant(name, plain(row.text("metric")), row.text("unit")))
        length = row.count("sequence")
        devices = (row.count("devices") or 0) if name.endswith("per_gpu") else 1
    except ScalewrightError:
        return None
    if name in _STEPS:
        return (value * unit.size, True) if unit is not None else None
    rate = value * devices * (unit.counts if unit is not None else 1.0)
    if name.startswith("tokens_per_s"):
        rate = rate / length if length else 0.0
    elif not name.startswith("sequences_per_s"):
        return None
    return (rate, False) if rate > 0.0 else None


def as_printed(
    row: Row, siblings: Siblings, setting: Setting, predict: Callable[[Row, Setting, float], float]
) -> Setting:
    """Take the peak and the count of FLOPs in which a figure agrees with the rate of its own run.

    Programs that multiply in narrow formats print shares of either peak, and FLOP/s count masked
    and recomputed products or not. A row on the rate of the same run tells which: with what is
    printed, not with what is predicted.

    Args:
        row: A row whose metric is a share or FLOP/s, or any other, which stays as it is.
        siblings: The rows of its file.
        setting: What the row says of its run.
        predict: Predicts the figure of a row on this run under a setting, given its published one.

    Returns:
        The setting, with a note where the conventions are not the usual ones.
    """
    usual = setting.conventions
    name = metric_of(row).casefold()
    if usual.known or not (name in SHARES or "flop" in name):
        return setting
    told = _rates_of(row, siblings)
    counts = any("flop" not in metric_of(other).casefold() for other in told)
    told = [other for other in told if ("flop" not in metric_of(other).casefold()) == counts]
    if not told or (not counts and name not in SHARES):
        return setting
    try:
        printed = row.number("value")
        slower = [_slower(other, setting, predict) for other in told]
        if max(slower) - min(slower) > _AGREE:
            return setting
        # what the printed rate is as a figure of each kind, and how far that is from this one
        found: list[tuple[float, Conventions]] = []
        for way in _ways(setting, name, counts=counts):
            figure = predict(row, replace(setting, conventions=way), printed)
            found.append((abs(math.log(figure / printed) + slower[0]), way))
    except ScalewrightError:
        return setting
    (off, _), (away, best) = found[0], min(found, key=lambda way: way[0])
    if best is usual or off < _AWAY or (away > _AGREE and off - away < _BETWEEN):
        return setting
    of = f"the peak in {best.peak}" if best.peak else "the device's own peak"
    taken = [f"the share is of {of}"] if best.peak != usual.peak else []
    taken += [_COUNTS[best.flops]] if best.flops != usual.flops else []
    why = f"line {told[0].line} tells the rate of this run: {', '.join(taken)}"
    return replace(setting, conventions=best, notes=(*setting.notes, why))


def _ways(setting: Setting, name: str, *, counts: bool) -> Iterator[Conventions]:
    """Yield the usual way to count, then the others."""
    usual = setting.conventions
    peaks = setting.device["matrix"]
    own = peaks.get(setting.training.get("precision"))
    # the format of fp32 runs has no products of its own
    open_peak = name in SHARES and not usual.peak and own != peaks.get(_WIDE)
    other_peaks: tuple[str | None, ...] = (_WIDE,) if open_peak else ()
    if name in SHARES and usual.peak and usual.peak[:1].isdigit():
        # a program that names another device's peak may have been given the run's own
        other_peaks = (None,)
    others = [count for count in _COUNTS if count != usual.flops] if counts else []
    if name == "mfu":
        # of what the model needs, whatever is computed again
        others = [count for count in others if not count.startswith("hardware")]
    for peak, count in product((usual.peak, *other_peaks), (usual.flops, *others)):
        alike = peak == usual.peak and count == usual.flops
        yield usual if alike else replace(usual, peak=peak, flops=count)


def _rates_of(row: Row, siblings: Siblings) -> list[Row]:
    """Return the other rows on a run that tell how quick it was; of its own table if any are."""
    told = [other for other in siblings.of(row) if _is_rate(metric_of(other).casefold())]
    # two measurements of one plan have a table each
    beside = [other for other in told if other.text("table") == row.text("table")]
    return beside or told


def _is_rate(name: str) -> bool:
    return (is_rate(name) or kind_of(name) == "time") and name not in SHARES


def _slower(row: Row, setting: Setting, predict: Callable[[Row, Setting, float], float]) -> float:
    """Return the logarithm of the predicted time over the one that a row's printed rate makes."""
    row, _ = one_figure(row)
    published = row.number("value")
    ratio = time_ratio(kind_of(metric_of(row)), published, predict(row, setting, published))
    return math.log(ratio)


def _share(row: Row) -> float | None:
    """Return a row's share of a peak in percent, or none where it is no number."""
    try:
        value = row.number("value")
    except ScalewrightError:
        return None
    unit = unit_meant("mfu", "", row.text("unit"))
    return value * 100.0 if unit == "share" or (not unit and value <= 1.0) else value


def _same(row: Row, other: Row) -> bool:
    """Say whether two rows are one figure; those of a wide table share a line."""
    return row.line == other.line and row.text("metric") == other.text("metric")


def _key(row: Row) -> tuple[object, ...]:
    return run_key(replace(row, cells={**conventions_of(row).columns, **row.cells}))
