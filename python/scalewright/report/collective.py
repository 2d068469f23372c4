"""How long does a collective take at each size, by which algorithm, and what limits it?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.chart import show_chart
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from scalewright.planning import Collective

_GIGA = 1e9
_WIDE = 118
_ONLY_WIDE = ("algbw", "runner-up")
_COLUMNS = ("size", "time", "algbw", "busbw", "algorithm", "runner-up", "slower", "x bound")
_NAMES = ("algorithm", "runner-up", "binds")
_OF_BYTES = ("size", "algbw", "busbw")
# as NCCL names them
PROTOCOLS = {"low_latency": "LL", "low_latency_128": "LL128", "simple": "Simple"}


def show_collective(
    answer: Collective, curve: Collective, title: Sequence[str], screen: Console
) -> None:
    """Print a table by size, the sizes at which the winner changes, and a drawing of busbw.

    Args:
        answer: The sizes of the table, on one group.
        curve: Many sizes between the least and the greatest, for the drawing.
        title: What was asked, a line each; the first is the heading.
        screen: Where to print.
    """
    screen.print(title[0], style="bold")
    for line in title[1:]:
        screen.print(line)
    screen.print()
    if not answer.algorithm.any():
        screen.print("nothing is sent: a group of one has nobody to talk with")
        return
    if not answer.bus_bandwidth_bytes_per_s.any():
        _show_barrier(answer, screen)
        return
    _show_sizes(answer, screen)
    _show_crossovers(answer, screen)
    if len(curve.buffer_bytes) > 1:
        show_chart(curve, screen)


def _show_barrier(answer: Collective, screen: Console) -> None:
    """Print the one time of what moves no bytes, whatever sizes were asked for."""
    cells = zip(_COLUMNS, _cells(answer, 0), strict=True)
    shown = {name: cell for name, cell in cells if name not in _OF_BYTES}
    rows = table(*shown, "binds", left=0)
    for column in rows.columns:
        if column.header in _NAMES:
            column.justify = "left"
    rows.add_row(*shown.values(), f"{answer.binding[0]}, {answer.binding_level[0]}")
    screen.print(rows)
    screen.print("no bytes are moved: one time for all sizes, and no bandwidth")


def spelt(algorithm: str, protocol: str) -> str:
    """Return an algorithm with its protocol as a person reads them; nothing where there is none."""
    if not algorithm:
        return ""
    return f"{algorithm.replace('_', ' ')}, {PROTOCOLS.get(protocol, protocol)}"


def line_name(name: str) -> str:
    """Return `ring / low_latency` as a person reads it."""
    algorithm, _, protocol = name.partition(" / ")
    return spelt(algorithm, protocol)


def _show_sizes(answer: Collective, screen: Console) -> None:
    """Print a line for each size; a narrow screen does without names that JSON has."""
    wide = screen.width >= _WIDE
    rows = table(*(name for name in _COLUMNS if wide or name not in _ONLY_WIDE), "binds", left=0)
    for column in rows.columns:
        if column.header in _NAMES:
            column.justify = "left"
    for at in range(len(answer.buffer_bytes)):
        cells = zip(_COLUMNS, _cells(answer, at), strict=True)
        binding, level = str(answer.binding[at]), str(answer.binding_level[at])
        rows.add_row(
            *(cell for name, cell in cells if wide or name not in _ONLY_WIDE),
            f"{binding}, {level}" if wide and level else binding,
        )
    screen.print(rows)
    screen.print(
        "bandwidths in GB/s (1e9 bytes/s) as nccl-tests counts them; slower: the runner-up's time "
        "over the winner's; x bound: the winner's time over what no algorithm can beat"
    )


def _cells(answer: Collective, at: int) -> tuple[str, ...]:
    time = float(answer.time_s[at])
    return (
        q.size(float(answer.buffer_bytes[at])),
        q.time(time),
        f"{float(answer.algorithm_bandwidth_bytes_per_s[at]) / _GIGA:,.2f}",
        f"{float(answer.bus_bandwidth_bytes_per_s[at]) / _GIGA:,.2f}",
        spelt(answer.algorithm[at], answer.protocol[at]),
        spelt(answer.runner_up[at], answer.runner_up_protocol[at]),
        _multiple(float(answer.runner_up_time_s[at]) / time) if time else "",
        _multiple(1 + float(answer.relative_gap[at])),
    )


def _multiple(ratio: float) -> str:
    if not math.isfinite(ratio):
        return ""
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:,.0f}x"


def _show_crossovers(answer: Collective, screen: Console) -> None:
    heading(screen, "Where the winner changes")
    found = answer.crossovers()
    if not found:
        screen.print("nowhere: one algorithm wins at all sizes")
        return
    rows = table("size", "below", "above", left=0)
    rows.columns[1].justify = rows.columns[2].justify = "left"
    for crossover in found:
        rows.add_row(
            q.size(crossover.bytes), line_name(crossover.before), line_name(crossover.after)
        )
    screen.print(rows)
