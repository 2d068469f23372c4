"""What runs when, drawn in letters: a line for each engine, columns of time?"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

from scalewright.planning import CATEGORIES
from scalewright.report.screen import heading
from scalewright.report.timeline import CATEGORY_NAMES, COLOURS, INK, is_bright, shaded
from scalewright.report.timeline_page import note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Row, Span, Timeline

_MOST_ROWS = 16
_FINE = {
    "forward": "░",
    "backward": "▓",
    "input": "▒",
    "weight": "▞",
    "local": "▚",
    "compute": "░",
    "collective": "▓",
    "send": "▒",
    "offload": "▞",
    "other": "█",
}
_COARSE = {
    "forward": "-",
    "backward": "=",
    "input": "+",
    "weight": "~",
    "local": "%",
    "compute": "-",
    "collective": "=",
    "send": "+",
    "offload": "~",
    "other": "#",
}
_IDLE = "·", "."
_NARROWEST = 0.7


@dataclass(frozen=True)
class _TextStyle:
    """What lines are drawn with."""

    scale: float
    """Columns per second."""
    letters: Mapping[str, str]
    """What fills a box, by category."""
    idle: str
    coloured: bool
    numbered: frozenset[str]
    """Categories whose boxes all have room for a digit."""


def show_timelines(timelines: Sequence[Timeline], screen: Console) -> None:
    """Print drawings on one scale of time; say so where they would be too fine."""
    fine = (sys.stdout.encoding or "").casefold().startswith("utf")
    letters, idle = (_FINE, _IDLE[0]) if fine else (_COARSE, _IDLE[1])
    rows = [row for timeline in timelines for row in timeline.rows]
    margin = max((len(row.device) for row in rows), default=0) + 2
    scale = min(_columns_per_second(timeline, screen.width - margin) for timeline in timelines)
    if not scale:
        screen.print()
        screen.print("too fine to be drawn in letters: --picture FILE.svg draws it", style="dim")
        return
    coloured = screen.color_system is not None
    pen = _TextStyle(scale, letters, idle, coloured, _numbered(rows, scale, coloured=coloured))
    for timeline in timelines:
        heading(screen, f"{timeline.title}, {note(timeline)}")
        last = round(timeline.end_s * scale)
        for row in timeline.rows:
            line = Text(f"{row.device:<{margin}}")
            for text, span in _pieces(row, last, pen):
                line.append(text, _style(span, len(timeline.shades)) if span else Style(dim=True))
            screen.print(line, overflow="crop", no_wrap=True)
    present = {span.category for row in rows for span in row.spans}
    legend = Text()
    for category in (known for known in CATEGORIES if known in present):
        if coloured:
            legend.append("  ", Style(bgcolor=COLOURS[category]))
        else:
            legend.append(letters[category])
        legend.append(f" {CATEGORY_NAMES.get(category, category)}  ")
    legend.append(f"{idle} idle")
    legend.append("; numbers: micro-batches" if pen.numbered else "")
    shades = dict.fromkeys(name for timeline in timelines for name in timeline.shades[1:])
    legend.append(f"; lighter: {', '.join(shades)}" if coloured and shades else "")
    screen.print(legend)


def _style(span: Span, shades: int) -> Style:
    red, green, blue = shaded(span.category, span.shade, shades)
    ink = INK if is_bright((red, green, blue)) else "white"
    fill = f"rgb({red * 255:.0f},{green * 255:.0f},{blue * 255:.0f})"
    return Style(color=ink, bgcolor=fill)


def _columns_per_second(timeline: Timeline, columns: int) -> float:
    """Return the scale; 0 where there are too many rows or the boxes are too narrow for it.

    The shortest span gets a whole number of columns where there is room, so that like spans look
    alike.
    """
    lengths = sorted(
        span.end_s - span.start_s
        for row in timeline.rows
        for span in row.spans
        if span.end_s > span.start_s
    )
    if not lengths or len(timeline.rows) > _MOST_ROWS or columns < 1:
        return 0.0
    most = columns / timeline.end_s
    if most * lengths[0] >= 1:
        return int(most * lengths[0]) / lengths[0]
    # the narrowest tenth rules, not a single short one
    return most if most * lengths[len(lengths) // 10] >= _NARROWEST else 0.0


def _numbered(rows: Sequence[Row], scale: float, *, coloured: bool) -> frozenset[str]:
    """Return the categories of which every box has room for a label of one letter."""
    labelled: set[str] = set()
    narrow: set[str] = set()
    for row in rows:
        for group in row.groups():
            columns = int((group[0].end_s - group[0].start_s) * scale / len(group) + 1e-9)
            for span in group:
                # without colour the filling tells what the number belongs to
                if columns < 2 - coloured:
                    narrow.add(span.category)
                if span.label:
                    labelled.add(span.category)
    return frozenset(labelled - narrow)


def _pieces(row: Row, last: int, pen: _TextStyle) -> Iterator[tuple[str, Span | None]]:
    """Return the texts of a line with the spans that they stand for; none for idle time."""
    at = 0
    for left, right, span in _places(row, pen.scale):
        left, right = max(left, at), max(right, at)
        yield pen.idle * (left - at), None
        filling = " " if pen.coloured else pen.letters[span.category]
        wide, label = right - left, span.label
        if span.category not in pen.numbered or len(label) + (not pen.coloured) > wide:
            label = ""
        yield label.ljust(wide, filling), span
        at = right
    yield pen.idle * (last - at), None


def _places(row: Row, scale: float) -> Iterator[tuple[int, int, Span]]:
    """Return columns of each span; those that run together share theirs."""
    for group in row.groups():
        left, right = round(group[0].start_s * scale), round(group[0].end_s * scale)
        each = (right - left) / len(group)
        for place, span in enumerate(group):
            yield left + round(place * each), left + round((place + 1) * each), span
