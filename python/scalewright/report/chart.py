"""How does bus bandwidth grow with size, drawn in letters?"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.screen import heading

if TYPE_CHECKING:
    from rich.console import Console

    from scalewright.planning import Collective

_GIGA = 1e9
_HEIGHT = 12
_MOST_WIDTH = 110
_MARGIN = 9
_MOST_ABOVE = 1.6
_LABEL_WIDTH = 11


@dataclass(frozen=True)
class _ChartSymbols:
    """What is drawn with."""

    blocks: str
    """A cell from empty to full."""
    bound: str
    edge: str
    axis: str
    tick: str
    change: str
    """Where the winner changes."""


_FINE = _ChartSymbols(" ▁▂▃▄▅▆▇█", "·", "│", "─", "┬", "▲")
_COARSE = _ChartSymbols("    #####", ".", "|", "-", "+", "^")


def chart_columns(width: int) -> int:
    """Return how many sizes a drawing on a screen of this width takes."""
    # the last label stands to the right of its tick
    return max(min(width, _MOST_WIDTH) - _MARGIN - _LABEL_WIDTH + 3, 20)


def show_chart(curve: Collective, screen: Console) -> None:
    """Draw busbw against size: a column for each size of `curve`, the lower bound as dots."""
    letters = _FINE if (sys.stdout.encoding or "").casefold().startswith("utf") else _COARSE
    busbw = [float(rate) / _GIGA for rate in curve.bus_bandwidth_bytes_per_s]
    # the bound's bandwidth: the same bytes in the least time that there can be
    bounds = [rate * (1 + float(gap)) for rate, gap in zip(busbw, curve.relative_gap, strict=True)]
    top = _round_up(max(max(busbw), min(max(bounds), _MOST_ABOVE * max(busbw))))
    legend = f"{letters.bound} what no algorithm can beat, {letters.change} the winner changes"
    heading(screen, f"Bus bandwidth by size, GB/s ({legend})")
    for row in range(_HEIGHT, 0, -1):
        shown = f"{top * row / _HEIGHT:,.4g}" if row % 3 == 0 else ""
        cells = "".join(
            _cell(rate * _HEIGHT / top - (row - 1), bound * _HEIGHT / top - (row - 1), letters)
            for rate, bound in zip(busbw, bounds, strict=True)
        )
        screen.print(f"{shown:>{_MARGIN - 2}} {letters.edge}{cells}".rstrip(), overflow="crop")
    for line in _axis(curve, letters):
        screen.print((" " * _MARGIN + line).rstrip(), overflow="crop", no_wrap=True)


def _axis(curve: Collective, letters: _ChartSymbols) -> tuple[str, str]:
    """Return the line below the drawing with its ticks, and the sizes below that."""
    first, last = float(curve.buffer_bytes[0]), float(curve.buffer_bytes[-1])
    columns = len(curve.buffer_bytes)
    each = (columns - 1) / math.log2(last / first)
    ticks = range(math.ceil(math.log2(first)), math.floor(math.log2(last)) + 1)
    ticks = ticks[:: math.ceil(_LABEL_WIDTH / each)]
    line = [letters.axis] * columns
    labels = [" "] * (columns + _LABEL_WIDTH)
    for power in ticks:
        at = round((power - math.log2(first)) * each)
        line[at] = letters.tick
        label = q.size(2.0**power).replace(".00", "")
        labels[at : at + len(label)] = label
    for crossover in curve.crossovers():
        if first < crossover.bytes < last:
            line[round(math.log2(crossover.bytes / first) * each)] = letters.change
    return "".join(line), "".join(labels)


def _cell(height: float, bound: float, letters: _ChartSymbols) -> str:
    """Return the letter of a cell that the bar fills up to `height`, the cell being one high."""
    if height >= 1:
        return letters.blocks[-1]
    block = letters.blocks[max(round(height * (len(letters.blocks) - 1)), 0)]
    return letters.bound if block == " " and 0 <= bound < 1 else block


def _round_up(rate: float) -> float:
    """Return the next round number, so that the axis has round labels."""
    power = 1.0
    while power < rate:
        power *= 10
    while power / 10 >= rate:
        power /= 10
    return next(
        power * part for part in (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0) if power * part >= rate
    )
