"""Is a published MFU a share of the peak in bf16, where another row tells how quick the run was?"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from scalewright.errors import ScalewrightError
from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.metrics import metric_of
from scalewright.reproductions.runs import is_rate, kind_of, run_key, time_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scalewright.reproductions.reading import Row
    from scalewright.reproductions.setting import Setting

SHARES = frozenset({"mfu", "hfu", "percent_of_peak"})
"""Metrics that are shares of a peak."""
_WIDE = "bf16"
_BETWEEN = math.sqrt(2.0)
"""What lies between the peak of a narrow format and one half as high."""


def with_peak(
    row: Row, rows: Iterable[Row], setting: Setting, predict: Callable[[Row, float], float]
) -> Setting:
    """Take the peak in bf16 for a share that one of the run's own format would contradict.

    Programs that multiply in narrow formats print shares of either peak. A row on the rate of the
    same run tells which: with what is printed, not with what is predicted.

    Args:
        row: A row whose metric is a share, or any other, which stays as it is.
        rows: All rows of its file.
        setting: What the row says of its run.
        predict: Predicts the figure of a row on this run, given its published one.

    Returns:
        The setting, with a note where the peak is not the run's own.
    """
    peaks = setting.device["matrix"]
    own = peaks.get(setting.training.get("precision"))
    asked = metric_of(row).casefold() in SHARES and not setting.conventions.known
    if not asked or setting.conventions.peak or own is None or own == peaks.get(_WIDE):
        return setting
    told = _rate_of(row, rows)
    if told is None:
        return setting
    try:
        printed, published = row.number("value"), told.number("value")
        slower = time_ratio(kind_of(metric_of(told)), published, predict(told, published))
        # what the printed rate is as a share of the run's own peak
        share = predict(row, printed) * slower
    except ScalewrightError:
        return setting
    if not printed > share * _BETWEEN:
        return setting
    why = f"line {told.line} tells the rate of this run: the share is of the peak in {_WIDE}"
    conventions = replace(setting.conventions, peak=_WIDE)
    return replace(setting, conventions=conventions, notes=(*setting.notes, why))


def _rate_of(row: Row, rows: Iterable[Row]) -> Row | None:
    """Return the only other row on a run that tells how quick it was."""
    key = _key(row)
    found = [
        other
        for other in rows
        if other.line != row.line
        and (is_rate(metric_of(other)) or kind_of(metric_of(other)) == "time")
        and metric_of(other).casefold() not in SHARES
        and _key(other) == key
    ]
    return found[0] if len(found) == 1 else None


def _key(row: Row) -> tuple[object, ...]:
    return run_key(replace(row, cells={**conventions_of(row).columns, **row.cells}))
