"""How do the engine's predictions compare with published figures, row by row and by paper?"""

from __future__ import annotations

import difflib
import json
import math
import re
import statistics
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scalewright._engine import metric
from scalewright.catalog import names
from scalewright.errors import InvalidError, ScalewrightError, UnknownNameError
from scalewright.reproductions.agreement import contradictions, in_tf32, of_the_job
from scalewright.reproductions.columns import SEEN, USES, plain
from scalewright.reproductions.conventions import conventions_of, skip_reason
from scalewright.reproductions.findings import finding_of
from scalewright.reproductions.layout import without_denied
from scalewright.reproductions.machine import Machines, memory_told
from scalewright.reproductions.metrics import metric_of, refuse_misspelt_metric, unit_meant
from scalewright.reproductions.pricing import Priced, Pricing
from scalewright.reproductions.printed import one_figure
from scalewright.reproductions.ratios import Ratio, ratio_in
from scalewright.reproductions.reading import Row, not_understood, read_rows, shipped_rows
from scalewright.reproductions.runs import counts, kind_of, macro, runs_of, spread
from scalewright.reproductions.runs import time_ratio as ratio_of
from scalewright.reproductions.setting import Setting, setting_of
from scalewright.reproductions.siblings import (
    SHARES,
    Siblings,
    as_printed,
    batch_told,
    devices_told,
    with_recomputation,
)
from scalewright.reproductions.units import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from scalewright.reproductions.machine import Places

Result = dict[str, Any]
_OF_ALL = frozenset({"tokens_per_s", "sequences_per_s", "aggregate_tflops"})
_IDLE = 0.03
"""Share of the peak under which a rate of a job is likely that of one device."""
_FEWEST_BYTES = 1e6
_SPILLED = re.compile(
    r"\bspill(?:s|ed|ing|over)? (?:in)?to (?:the )?(?:system|host|shared|cpu)(?: (?:ram|memory))?",
    re.IGNORECASE,
)
"""What the driver of a desktop moves to the host without a word, so that each use crosses."""
_SPARE = 1.1
"""How many times its memory a device may seem to hold, as GiB are 1.07 GB."""
_FAR = 100.0
"""How many times longer or shorter a time without a unit is likely not in seconds."""
_LESS_STATE = re.compile(r"\b(?:(?:ada)?lomo|sgd|galore|adafactor|badam)\b", re.IGNORECASE)
"""Optimizers that keep less of each weight than two moments."""
_METRICS = "step time, tokens/s, tokens/s/GPU, TFLOP/s/GPU, MFU, HFU, peak memory"
_KINDS = ("time", "rate", "layer", "memory", "speedup")


@dataclass
class RowComparer:
    """Prices rows that may speak of one another."""

    rows: list[Row]
    machines: Machines = field(default_factory=Machines)
    pricing: Pricing = field(default_factory=Pricing)
    _runs: dict[object, int] = field(default_factory=dict[object, int])
    _printed: dict[object, int] = field(default_factory=dict[object, int])

    @cached_property
    def _siblings(self) -> Siblings:
        return Siblings(self.rows)

    def run_number(self, row: Row) -> int:
        """Return the number of the row's run, the same for all rows on it.

        A table that prints the same metric of the same settings twice speaks of two runs.
        """
        key = self._siblings.key_of(row)
        printed = (*key, row.text("table"), row.text("metric"), row.text("unit"))
        before = self._printed.get(printed, 0)
        self._printed[printed] = before + 1
        return self._runs.setdefault((*key, before), len(self._runs) + 1)

    def price(self, row: Row) -> tuple[Setting, Priced]:
        """Price the run that a row is about.

        Raises:
            ScalewrightError: The row lacks what a job needs, or no plan is legal.
        """
        told, notes = with_recomputation(row, self._siblings)
        devices, counted = devices_told(row, self._siblings)
        batch, why = batch_told(row, self._siblings)
        told = replace(told, cells=told.cells | devices | batch)
        notes = (*notes, *counted, *why)
        setting = setting_of(told, self.machines)
        setting = replace(setting, notes=(*setting.notes, *notes))
        priced = self.pricing.price(setting)

        def predict(other: Row, taken: Setting, published: float) -> float:
            return _figure(other, taken, priced, published)

        return as_printed(row, self._siblings, setting, predict), priced

    def predict(
        self, row: Row, setting: Setting, priced: Priced, published: float
    ) -> tuple[float, float]:
        """Return the row's figure as predicted, and its error; a ratio prices its other run.

        Raises:
            ScalewrightError: The engine does not know the metric, or refuses the other run.
        """
        ratio = ratio_in(row, self.rows)
        if ratio is None:
            predicted = _figure(row, setting, priced, published)
            return predicted, predicted / published - 1.0
        figures = [self._part(ratio, part) for part in (ratio.above, ratio.below)]
        predicted = ratio.as_printed(figures[0] / figures[1])
        return predicted, ratio.error(predicted, published)

    def _part(self, ratio: Ratio, row: Row) -> float:
        try:
            setting, priced = self.price(row)
        except ScalewrightError as refused:
            if row.line == ratio.above.line:
                raise
            message = f"against: line {row.line} cannot be priced: {refused}"
            raise InvalidError(message) from refused
        if ratio.of is None:
            return priced.fields()["tokens_per_s"]
        plain_row = replace(row, cells=row.cells | {"metric": ratio.of, "unit": ""})
        return _figure(plain_row, setting, priced, 1.0)


def run(
    pattern: str | None = None,
    rows_path: str | Path | None = None,
    progress: Callable[[int, int], object] | None = None,
    *,
    detail: bool = False,
    overrides: Sequence[str | Path] = (),
) -> Result:
    """Predict published figures and compare.

    Args:
        pattern: Part of a paper's or table's name, or a glob; capitals do not count.
        rows_path: A CSV file of results; absent: the ones that come with the package.
        progress: Called with rows done and rows in all.
        detail: Keep the terms of each row's time.
        overrides: User files or directories that add to the catalog or change it.

    Returns:
        `rows` with a status each (priced, searched or skipped) and `summary`. An error is
        predicted / published - 1, as a share.

    Raises:
        ScalewrightError: The file cannot be read, or the pattern matches no row.
    """
    found = shipped_rows() if rows_path is None else read_rows(rows_path)
    rows = matching(found, pattern)
    book = RowComparer(found, Machines(checked(overrides)))
    results: list[Result] = []
    for done, row in enumerate(rows):
        if progress is not None:
            progress(done, len(rows))
        results.append(compared(row, book, detail=detail))
    if progress is not None:
        progress(len(rows), len(rows))
    for place, reason in contradictions(results).items():
        results[place] = _refused(rows[place], results[place], reason)
    return {"rows": results, "summary": summary(results)}


def checked(overrides: Sequence[str | Path]) -> Places:
    """Return a user's entries of the catalog, once they are known to be readable.

    Raises:
        ScalewrightError: One is not.
    """
    places = tuple(overrides)
    for kind in ("device", "system", "software"):
        names(kind, places)
    return places


def matching(found: list[Row], pattern: str | None) -> list[Row]:
    """Return the rows whose paper or table a pattern means.

    Raises:
        ScalewrightError: There is none.
    """
    rows = [row for row in found if _meant(row, pattern)]
    if pattern and not rows:
        papers = sorted({row.text("paper") for row in found})
        close = _like(pattern, papers)
        near = f"nearest: {'; '.join(close)}" if close else f"`reproduce` lists all {len(papers)}"
        message = f"pattern: '{pattern:.60}' matches no paper or table; {near}"
        raise ScalewrightError(message)
    return rows


def _like(pattern: str, papers: list[str]) -> list[str]:
    """Return a few papers of which a word is spelt much like a pattern."""
    words = {word.casefold(): paper for paper in papers for word in paper.split()}
    close = difflib.get_close_matches(pattern.casefold(), words, n=3, cutoff=0.7)
    return list(dict.fromkeys(words[word] for word in close))


def summary(results: Iterable[Result]) -> Result:
    """Sum up errors over all rows and by paper, by kind of figure, and over runs."""
    rows = list(results)
    by_paper: dict[str, Result] = {}
    for paper in dict.fromkeys(row["paper"] for row in rows):
        own = [row for row in rows if row["paper"] == paper]
        by_paper[paper] = {**_errors(own), "runs": spread(runs_of(own))}
    by_status = {
        status: _errors(r for r in rows if r["status"] == status)
        for status in ("priced", "searched")
    }
    joined = runs_of(rows)
    return {
        "error_definition": "predicted / published - 1, as a share",
        **_errors(rows),
        "by_status": by_status,
        "by_kind": {kind: _errors(r for r in rows if r["kind"] == kind) for kind in _KINDS},
        "runs": {
            **spread(joined),
            "macro": macro(joined),
            "macro_by_status": {
                status: macro([run for run in joined if run["status"] == status])
                for status in ("priced", "searched")
            },
        },
        "by_paper": by_paper,
    }


def _errors(rows: Iterable[Result]) -> Result:
    listed = list(rows)
    numbers = {
        f"rows_{status}": sum(row["status"] == status for row in listed)
        for status in ("priced", "searched", "skipped")
    }
    errors = [row["error"] for row in listed if counts(row)]
    sizes = [abs(error) for error in errors]
    return {
        "mean_abs_error": statistics.fmean(sizes) if sizes else None,
        "median_abs_error": statistics.median(sizes) if sizes else None,
        "worst_abs_error": max(sizes, default=None),
        "mean_error": statistics.fmean(errors) if errors else None,
        **numbers,
    }


def _meant(row: Row, pattern: str | None) -> bool:
    if not pattern:
        return True
    wanted = pattern.casefold()
    texts = [row.text("paper").casefold(), row.text("table").casefold()]
    texts.append(" ".join(texts))
    return any(wanted in text or fnmatchcase(text, wanted) for text in texts)


def compared(row: Row, book: RowComparer, *, detail: bool = False) -> Result:
    """Predict a row's figure; one that cannot be predicted keeps its place and says why."""
    result = _said(row)
    try:
        row.check()
        refuse_misspelt_metric(row.text("metric"))
        row, as_one = one_figure(row)
        result |= _said(row)
        use = conventions_of(row).columns.get("use") or row.word("use", USES)
        result |= {"use": use, "seen": row.word("seen", SEEN)}
        result["published"] = published = row.number("value")
        _check_share(row, published)
        _check_memory(row, published)
        _check_state(row)
        _check_spilled(row)
        result["run"] = book.run_number(row)
        ratio = ratio_in(row, book.rows)
        if ratio is None and (reason := skip_reason(row)):
            return result | {"reason": reason}
        setting, priced = book.price(row if ratio is None else ratio.above)
        _check_capacity(row, published, setting)
        predicted, error = book.predict(row, setting, priced, published)
        share = _share_of_peak(priced, ratio_of(result["kind"], published, predicted))
        if (whole := of_the_job(row, setting.devices, share)) is not None:
            row, as_one = whole, (*as_one, "the rate is taken as the job's: no device is as quick")
            predicted, error = book.predict(row, setting, priced, published)
        elif (quick := in_tf32(setting, share)) is not None:
            setting, priced = quick, book.pricing.price(quick)
            predicted, error = book.predict(row, setting, priced, published)
    except ScalewrightError as refused:
        return result | {"reason": row.explained(str(refused))}
    shown = _shown(setting, priced, detail=detail)
    time_ratio = ratio_of(result["kind"], published, predicted)
    unlikely = (
        *_stands_in(row, setting, priced),
        *(_beyond(row, setting.devices, priced, time_ratio) if result["kind"] != "memory" else ()),
        *_unsaid(row, setting, time_ratio),
    )
    return result | {
        "predicted": predicted,
        "error": error,
        "time_ratio": time_ratio,
        "finding": finding_of(row, error),
        "status": "searched" if priced.searched else "priced",
        "known": bool(row.text("software")) or conventions_of(row).known,
        "note": "; ".join((*as_one, *setting.notes, *priced.notes, *unlikely)) or None,
        **shown,
    }


def _refused(row: Row, result: Result, reason: str) -> Result:
    """Return a result as that of a row that is skipped once others of its run are priced."""
    kept = ("metric", "unit", "kind", "use", "seen", "run", "published")
    return _said(row) | {key: result[key] for key in kept} | {"reason": row.explained(reason)}


def _check_share(row: Row, published: float) -> None:
    """Refuse a share of the peak above one.

    Raises:
        InvalidError: The row's figure is one.
    """
    if metric_of(row).casefold() not in SHARES:
        return
    whole = 1.0 if unit_meant("mfu", "", row.text("unit")) == "share" else 100.0
    if published > whole:
        got = f"{row.named('value')}: got {published:g} {row.text('unit')}".rstrip()
        message = f"{got} of {row.text('metric')}; allowed: up to {whole:g}"
        raise InvalidError(message)


def _check_state(row: Row) -> None:
    """Refuse the memory of a run whose optimizer keeps less than Adam, whose state is counted.

    Raises:
        InvalidError: A row of memory names such an optimizer.
    """
    said = " | ".join(row.text(column) for column in ("table", "model", "program", "framework"))
    if (found := _LESS_STATE.search(said)) is None or kind_of(metric_of(row)) != "memory":
        return
    got = f"{row.named('table')}: got '{found[0]}', which keeps less than Adam"
    message = f"{got}; allowed: state of Adam or AdamW, where the figure is memory"
    raise InvalidError(message)


def _check_memory(row: Row, published: float) -> None:
    """Refuse bytes of a device that are too few to be bytes, where no unit is said.

    Raises:
        InvalidError: The row's figure is so.
    """
    meant = metric_of(row)
    unit = unit_meant(meant, plain(row.text("metric")), row.text("unit"))
    if kind_of(meant) == "memory" and not unit and published < _FEWEST_BYTES:
        got = f"{row.named('unit')}: got nothing beside {published:g} of {row.text('metric')}"
        message = f"{got}; allowed: GiB, GB, MiB, MB, or bytes"
        raise InvalidError(message)


def _check_spilled(row: Row) -> None:
    """Refuse a run that remarks say was larger than its device, whose driver told nobody.

    Raises:
        InvalidError: The row's remarks say so.
    """
    if (found := _SPILLED.search(without_denied(row.text("source")))) is not None:
        got = f"{row.named('source')}: got '{found[0]}'"
        message = f"{got}; allowed: runs within the device's memory, or an offload of the plan"
        raise InvalidError(message)


def _check_capacity(row: Row, published: float, setting: Setting) -> None:
    """Refuse bytes of a device that are more than it has, or the board that the row names.

    Raises:
        InvalidError: The row's figure is so, also where its GB stand for GiB.
    """
    meant = metric_of(row)
    if not meant.startswith("peak_") or kind_of(meant) != "memory":
        return
    capacity = str(setting.device["tiers"][-1]["capacity"])
    own = bytes_of(capacity) or math.inf
    most = max([own, *memory_told(row.text("hardware"), own)])
    told = row.text("unit") or unit_meant(meant, plain(row.text("metric")), "")
    size = bytes_of(f"{published!r} {told}")
    if size is not None and size > _SPARE * most:
        got = f"{row.named('value')}: got {published:g} {told}".rstrip()
        message = f"{got} of {row.text('metric')}; allowed: up to {capacity}, the device's memory"
        raise InvalidError(message)


def _stands_in(row: Row, setting: Setting, priced: Priced) -> tuple[str, ...]:
    """Say where a device multiplies another format than the one that a row names."""
    asked, engine = setting.training.get("precision"), priced.fields().get("engine_format")
    if setting.conventions.known or not row.text("dtype") or engine in {asked, None}:
        return ()
    return (f"the device has no {asked}: its products are priced as {engine}",)


def _beyond(row: Row, devices: int, priced: Priced, time_ratio: float | None) -> tuple[str, ...]:
    """Say where a figure is faster than the device's dense peak, or seems to be of one device."""
    share = _share_of_peak(priced, time_ratio)
    said = f"the published figure would be {share:.1%} of the dense peak for its model FLOPs"
    if share > 1.0:
        return (said,)
    several = metric_of(row) in _OF_ALL and devices > 1
    if several and 0.0 < share < _IDLE and share * devices <= 1.0:
        return (f"{said}: it may be of one device",)
    return ()


def _share_of_peak(priced: Priced, time_ratio: float | None) -> float:
    """Return the share of the dense peak that a published figure makes of its model FLOPs."""
    return (priced.fields().get("mfu") or 0.0) * (time_ratio or 0.0)


def _unsaid(row: Row, setting: Setting, time_ratio: float | None) -> tuple[str, ...]:
    """Name what was passed over, and a time that has no unit and is likely in another one."""
    if setting.conventions.known:
        return ()
    notes = [not_understood(row.unknown).removeprefix("; ")] if row.unknown else []
    bare = kind_of(metric_of(row)) == "time" and not row.text("unit")
    if bare and time_ratio is not None and not 1.0 / _FAR < time_ratio < _FAR:
        notes.append(f"no unit is said: {row.text('value'):.20} was taken as seconds")
    return tuple(notes)


def _said(row: Row) -> Result:
    """Return what a row says, before anything is predicted."""
    name = row.text("metric")
    return {
        "file": row.file,
        "line": row.line,
        "paper": row.text("paper"),
        "table": row.text("table"),
        "hardware": row.text("hardware"),
        "devices": row.text("devices"),
        "model": row.text("model"),
        "metric": name,
        "unit": row.text("unit"),
        "kind": kind_of(metric_of(row)),
        "use": None,
        "seen": None,
        "run": None,
        "published": None,
        "predicted": None,
        "error": None,
        "time_ratio": None,
        "finding": None,
        "status": "skipped",
        "reason": None,
        "note": None,
        "plan": None,
    }


def _figure(row: Row, setting: Setting, priced: Priced, published: float) -> float:
    try:
        return metric(priced.job, priced.estimate, request_of(row, setting, published))
    except UnknownNameError as error:
        if "nearest" in str(error) or not str(error).startswith("metric"):
            raise
        got = f"metric: unknown name '{row.text('metric'):.60}'"
        message = f"{got}; allowed: {_METRICS}, and others"
        raise UnknownNameError(message) from error


def request_of(row: Row, setting: Setting, published: float) -> str:
    """Say what the paper prints: metric, unit, conventions."""
    meant = metric_of(row)
    unit = unit_meant(meant, plain(row.text("metric")), row.text("unit"))
    if meant.casefold() in SHARES and not unit and published <= 1.0:
        unit = "share"
    conventions = setting.conventions
    request = {
        "metric": meant,
        "unit": unit,
        "flops": conventions.flops,
        "recomputed": conventions.recomputed,
    }
    if conventions.peak is not None:
        request["peak"] = setting.device["matrix"].get(conventions.peak, conventions.peak)
    return json.dumps(request)


def _shown(setting: Setting, priced: Priced, *, detail: bool) -> Result:
    fields = priced.fields()
    shown: Result = {
        "plan": fields["plan"],
        "step_time_s": fields["step_time_s"],
        "fits": fields["fits"],
        "calibrated": fields["calibrated"],
        "device": setting.device["name"],
        "system": setting.system["name"],
        "dtype": setting.training.get("precision", "bf16"),
        "device_count": setting.devices,
        "parameters": priced.parameters,
    }
    if detail:
        shown["terms"] = [term for term in fields["time"] if term["time_s"] > 0.0]
        shown["training"] = setting.training
        shown["sources"] = list(setting.conventions.source)
    return shown
