"""How would nccl-tests print these times?

Columns, widths and rounding are those of nccl-tests 2.18 (src/util.cu), so that a prediction can be
set beside a run line by line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scalewright.planning import Collective, System

_GIGA = 1e9
_MICROSECONDS = 1e6
_WORD = 4
_ALIGNED = 16
# by collective: program, operation, root, and whether sizes are cut into a part for each rank
_PROGRAMS = {
    "all_reduce": ("all_reduce_perf", "sum", -1, False),
    "all_gather": ("all_gather_perf", "none", -1, True),
    "reduce_scatter": ("reduce_scatter_perf", "sum", -1, True),
    "all_to_all": ("alltoall_perf", "none", -1, True),
    "send_receive": ("sendrecv_perf", "sum", -1, False),
    "broadcast": ("broadcast_perf", "none", 0, False),
    "reduce": ("reduce_perf", "sum", 0, False),
    "gather": ("gather_perf", "none", 0, True),
    "scatter": ("scatter_perf", "none", 0, True),
}
_WIDTHS = (10, 12, 8, 6, 6, *(7, 6, 6, 6) * 2)


@dataclass(frozen=True)
class Run:
    """What is printed of a run beside its times."""

    collective: str
    system: System
    ranks: int
    stride: int
    sizes: Sequence[int]
    note: Sequence[str]
    """Lines that say that nothing was measured."""


def program_sizes(collective: str, ranks: int, sizes: Sequence[int]) -> list[int]:
    """Return the sizes that nccl-tests would run: whole 4-byte words, even parts for the ranks.

    Raises:
        InvalidError: nccl-tests has no program for the collective, or all sizes are too small.
    """
    if collective not in _PROGRAMS:
        message = f"like: got nccl-tests for {collective}; allowed: {', '.join(_PROGRAMS)}"
        raise InvalidError(message)
    parts = ranks if _PROGRAMS[collective][3] else 1
    least = _ALIGNED // _WORD if parts > 1 else 1
    words = [size // _WORD // parts // least * least * parts for size in sizes]
    kept = [count * _WORD for count in dict.fromkeys(words) if count]
    if not kept:
        message = f"sizes: got {max(sizes)} bytes at most; allowed: {_ALIGNED * parts} or more"
        raise InvalidError(message)
    return kept


def show_like_nccl_tests(
    run: Run, times: tuple[Collective, Collective], write: Callable[[str], object]
) -> None:
    """Print times out of place and in place as nccl-tests would."""
    program, operation, root, cut = _PROGRAMS[run.collective]
    for line in _head(run, program):
        write(line)
    for at, size in enumerate(run.sizes):
        count = size // _WORD // (run.ranks if cut else 1)
        lead = f"{size:12d}  {count:12d}  {'float':>8}  {operation:>6}  {root:6d}"
        write(lead + "".join(_body(one, at) for one in times))
    mean = sum(float(one.bus_bandwidth_bytes_per_s.mean()) for one in times) / 2
    write(f"# {'Out of bounds values':<20} : 0 OK")
    write(f"# {'Avg bus bandwidth':<20} : {mean / _GIGA:g} ")
    write("#")
    write(f"# Collective test concluded: {program}")


def _head(run: Run, program: str) -> Iterator[str]:
    yield from (f"# {line}" for line in run.note)
    yield f"# Collective test starting: {program}"
    first, last = run.sizes[0], run.sizes[-1]
    factor = run.sizes[1] // first if len(run.sizes) > 1 else 2
    yield (
        f"# nThread 1 nGpus 1 minBytes {first} maxBytes {last} step: {factor}(factor) "
        "warmup iters: 0 iters: 0 agg iters: 1 validation: 0 graph: 0 unalign: 0"
    )
    yield "#"
    yield "# Using devices"
    per_node = int(run.system.table["devices_per_node"])
    title = run.system.device.get("title", run.system.device["name"])
    for rank in range(run.ranks):
        node, device = divmod(rank * run.stride, per_node)
        yield (
            f"#  Rank {rank:2d} Group {0:2d} Pid {0:6d} on {f'node-{node}':>10} "
            f"device {device:2d} [0000:{device:02x}:00] {title}"
        )
    yield "#"
    blank = "  ".join(" " * width for width in _WIDTHS[:5])
    yield f"# {blank}           {'out-of-place':<35}{'in-place':<18}"
    names = ("time", "algbw", "busbw", "#wrong") * 2
    units = ("(us)", "(GB/s)", "(GB/s)", "") * 2
    yield _columns(("size", "count", "type", "redop", "root", *names))
    yield _columns(("(B)", "(elements)", "", "", "", *units))


def _columns(cells: Sequence[str]) -> str:
    shown = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))
    return f"# {shown} "


def _body(answer: Collective, at: int) -> str:
    time = _number(float(answer.time_s[at]) * _MICROSECONDS, 7)
    algbw = _number(float(answer.algorithm_bandwidth_bytes_per_s[at]) / _GIGA, 6)
    busbw = _number(float(answer.bus_bandwidth_bytes_per_s[at]) / _GIGA, 6)
    return f"  {time}  {algbw}  {busbw}    N/A"


def _number(value: float, width: int) -> str:
    """Return a number with as many decimals, two at most, as the width leaves room for."""
    digits = len(str(int(value))) if value >= 1 else 0
    for decimals, room in ((2, width - 2), (1, width - 1), (0, width + 1)):
        if digits < room:
            return f"{value:{width}.{decimals}f}"
    return f"{value:{width}.1e}" if width >= 7 else f"{value:{width}.0e}"
