"""Which measured training steps do a user's files hold, and which plan did each of them run?"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scalewright.calibration import own_system
from scalewright.calibration.left_out import grouped, none_left
from scalewright.errors import InvalidError
from scalewright.reproductions.comparing import RowComparer, compared
from scalewright.reproductions.machine import Machines
from scalewright.reproductions.reading import Row, read_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINES_NAMED = 5
_KINDS = {"time", "rate"}


@dataclass(frozen=True)
class StepRun:
    """One training run whose steps were measured, and what is needed to price it again."""

    places: tuple[str, ...]
    """The lines that speak of it, as `steps.csv, line 3`."""
    model: str
    """JSON text of the model."""
    system: dict[str, Any]
    device: dict[str, Any]
    devices: int
    training: dict[str, Any]
    plan: str
    """JSON text of the plan."""
    software: str | None
    """The software profile that ran, where the row says it."""
    searched: bool
    """True where the row leaves fields of the plan open: the quickest plan stands for it."""
    measured_s: float
    """The step time that the figures mean, the geometric mean where there are several."""
    notes: tuple[str, ...] = ()
    """What was taken for what its lines leave open, and what seems wrong with them, by line."""

    @property
    def place(self) -> str:
        """The first line that speaks of the run."""
        return self.places[0]


class _PredictedRun(NamedTuple):
    """A figure of a run, predicted over measured, and what `reproduce` notes beside it."""

    row: Row
    time_ratio: float
    note: str


def timed_steps(
    paths: Sequence[str],
    system: str | None = None,
    *,
    only: str | None = None,
    software: str | None = None,
    overrides: Sequence[str | Path] = (),
) -> tuple[list[StepRun], list[str]]:
    """Return the runs, all on one kind of device, and what is wrong with lines left out.

    Args:
        paths: CSV files with the columns of `docs/evidence-format.md`.
        system: The system, or device, of all rows; may be left out where they say it.
        only: Take only the rows whose system contains this.
        software: The software profile of rows that say none.
        overrides: User files or directories that add to the catalog or change it.

    Raises:
        ScalewrightError: A file cannot be read, no row can be used, or rows are of several devices.
    """
    runs: list[StepRun] = []
    wrong: list[str] = []
    spelt: dict[str, None] = {}
    system, overrides = own_system.meant(system, overrides)
    for path in paths:
        rows = read_rows(path)
        spelt |= dict.fromkeys(row.text("hardware") for row in rows)
        if only is not None:
            rows = [row for row in rows if only.casefold() in row.text("hardware").casefold()]
        rows = [_said(row, system, software) for row in rows]
        _read(path, RowComparer(rows, Machines(overrides)), runs, wrong)
    if only is not None and not runs and not wrong:
        raise InvalidError(none_left(only, spelt))
    if not runs:
        first = "; ".join(grouped(wrong)[:_LINES_NAMED])
        message = f"{', '.join(paths)}: got no row that can be used; {first or 'no row at all'}"
        raise InvalidError(message)
    names = dict.fromkeys(str(run.device["name"]) for run in runs)
    if len(names) > 1:
        message = f"rows: got devices {', '.join(names)}; allowed: one (--only TEXT takes one)"
        raise InvalidError(message)
    return runs, wrong


def _said(row: Row, system: str | None, software: str | None) -> Row:
    """Return the row with what the call says of all rows."""
    cells = dict(row.cells)
    if system is not None:
        cells["hardware"] = system
    if software is not None:
        cells.setdefault("software", software)
    return replace(row, cells=cells)


def _read(path: str, book: RowComparer, runs: list[StepRun], wrong: list[str]) -> None:
    """Add the runs of a file, and the lines that speak of none."""
    figures: dict[int, list[_PredictedRun]] = {}
    for row in book.rows:
        result = compared(row, book)
        reason = result["reason"]
        if reason is None and result["kind"] not in _KINDS:
            reason = f"metric: got '{row.text('metric'):.40}'; allowed: time or rate of a step"
        if reason is not None:
            wrong.append(f"{path}, line {row.line}: {reason}")
            continue
        note = result["note"] or ""
        figures.setdefault(result["run"], []).append(_PredictedRun(row, result["time_ratio"], note))
    runs += [_run(path, book, said) for said in figures.values()]


def _run(path: str, book: RowComparer, said: list[_PredictedRun]) -> StepRun:
    """Join the figures of one run."""
    first = said[0].row
    setting, priced = book.price(first)
    found = priced.fields()
    logs = [math.log(figure.time_ratio) for figure in said]
    return StepRun(
        places=tuple(f"{Path(path).name}, line {figure.row.line}" for figure in said),
        model=setting.model,
        system=setting.system,
        device=setting.device,
        devices=setting.devices,
        training={**setting.training, "global_batch": priced.batch},
        plan=json.dumps(found["plan"]),
        software=first.text("software") or setting.conventions.software,
        searched=priced.searched,
        measured_s=found["step_time_s"] * math.exp(-math.fsum(logs) / len(logs)),
        notes=tuple(
            f"{path}, line {figure.row.line}: {note}"
            for figure in said
            for note in figure.note.split("; ")
            if note
        ),
    )
