"""What did nccl-tests or rccl-tests print?

    #       size         count      type   redop    root     time   algbw   busbw #wrong   time ...
        33554432       8388608     float     sum      -1   290.65  115.45  202.03      0 288.11 ...

Versions differ in the columns between `type` and the first `time`, and in what follows `busbw`; the
line of headings says which there are. Launchers put a prefix before each line; it is passed over.
Lines that are broken, whose results were wrong or whose figures contradict each other are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath

from scalewright.calibration.measured import Measured, SkippedLine
from scalewright.errors import InvalidError
from scalewright.reproductions.collectives.cells import refuse_unlike_rates
from scalewright.reproductions.collectives.names import (
    COLLECTIVES,
    collective_in,
    collective_named,
)

_TYPES = (
    "int8|char|uint8|int32|int|uint32|int64|uint64|half|float|double|float16|float32|float64"
    "|bfloat16|f8e4m3|f8e5m2|fp8_e4m3|fp8_e5m2"
)
_ROW = re.compile(rf"(?:^|[\s:|>\]])([0-9]{{1,18}})\s+([0-9]{{1,18}})\s+(?:{_TYPES})\s+(\S.*)$")
_TYPE_WORD = re.compile(rf"\s(?:{_TYPES})(?:\s|$)")
_HEADINGS = re.compile(r"#\s+(?:size|bytes)\s+(?:count|N)\s+type\s+(.*)$")
_RANK = re.compile(
    r"#\s+Rank\s+([0-9]{1,9})\s+(?:Group\s+([0-9]{1,9})\s+)?Pid\s+[0-9]+\s+on\s+(\S+)\s+device"
)
_THREADS = re.compile(r"#\s+nThread:?\s+([0-9]{1,9})\s+nGpus:?\s+([0-9]{1,9})\s")
_PROGRAM = re.compile(r"([A-Za-z_]+)_perf(?![A-Za-z0-9])")
_END = re.compile(r"#\s+(?:Out of bounds values|Avg bus bandwidth)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ABSENT = "N/A"
_USUAL = ("time", "algbw", "busbw", "#wrong")
_TIMES = ("time", "cputime")
"""Headings of times; the rates beside the latter are those of the device."""
_WRONG = "#wrong"
_MICROSECONDS = 1e6
_Side = dict[str, str]


@dataclass
class _Run:
    """What the lines so far say of the run whose table follows."""

    collective: str | None = None
    before_time: int = 2
    """Columns between `type` and the first time."""
    tail: tuple[str, ...] = ()
    """Columns from the first time on; empty before any headings."""
    ranks: dict[int, tuple[int, str]] = field(default_factory=dict[int, tuple[int, str]])
    """Group and host by rank."""
    threads: int | None = None
    """Ranks of one process."""
    in_table: bool = False

    def group(self) -> list[str]:
        """Return the hosts of the ranks that communicate with rank 0."""
        if not self.ranks:
            return []
        first = self.ranks[min(self.ranks)][0]
        return [host for group, host in self.ranks.values() if group == first]


def read_log(
    name: str, text: str, ranks: int | None, collective: str | None
) -> list[Measured | SkippedLine]:
    """Return the rows of a log in their order, and the lines that cannot be used.

    Args:
        name: The file's name, for errors; it may also name the collective.
        text: What the file holds.
        ranks: Ranks where the log does not list them.
        collective: The collective where neither log nor file name says it.

    Raises:
        InvalidError: Nothing says the collective of a row or its ranks.
    """
    run = _Run()
    found: list[Measured | SkippedLine] = []
    spare = collective_in(PurePath(name).name) or collective
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COLOUR.sub("", raw)
        _note(line, run)
        place = f"{name}, line {number}"
        cells = _ROW.search(line)
        try:
            sides = _sides(cells[3].split(), run) if cells else _torn(line, run)
        except InvalidError as error:
            found.append(SkippedLine(place, str(error)))
            continue
        if cells is not None and sides and int(cells[1]):
            group = (_known(run.collective or spare, place), *_members(run, ranks, place))
            found += _rows(group, int(cells[1]), sides, place)
    return found


def _rows(
    group: tuple[str, int, int | None], size: int, sides: list[_Side], place: str
) -> list[Measured | SkippedLine]:
    """Return the row of a line whose times can be used, and what is wrong with either of them.

    A time in place that cannot be used leaves the one out of place as it is.
    """
    collective, ranks, nodes = group
    found: list[Measured | SkippedLine] = []
    times: list[float | None] = []
    for side, words in zip(sides, ("", ", in place"), strict=False):
        try:
            times.append(_time(side, collective, ranks, size))
        except InvalidError as error:
            found.append(SkippedLine(f"{place}{words}", str(error)))
            times.append(None)
    if times[0] is not None:
        inside = times[1] if len(times) > 1 else None
        found.insert(0, Measured(collective, ranks, nodes, size, times[0], inside, place))
    return found


def _note(line: str, run: _Run) -> None:
    """Take what a comment or a command line says of the run."""
    if (program := _PROGRAM.search(line)) and (known := collective_named(program[1])):
        run.collective = known
    if threads := _THREADS.search(line):
        # a new run begins; what the last one listed does not hold for it
        run.ranks = {}
        run.threads = int(threads[1]) * int(threads[2])
    if rank := _RANK.search(line):
        run.ranks[int(rank[1])] = int(rank[2] or 0), rank[3]
    if headings := _HEADINGS.search(line):
        _take_headings(headings[1].split(), run)
    elif _END.search(line):
        run.in_table = False


def _take_headings(words: list[str], run: _Run) -> None:
    starts = [place for place, word in enumerate(words) if word in _TIMES]
    if starts:
        run.before_time = starts[0]
        run.tail = tuple(words[starts[0] :])
        run.in_table = True


def _torn(line: str, run: _Run) -> list[_Side]:
    """Refuse a line of the table whose size cannot be read; notes between the rows may stand."""
    if run.in_table and "#" not in line and "NCCL" not in line and _TYPE_WORD.search(line):
        message = f"got {line.strip()!r:.60}; allowed: size, count, type and times"
        raise InvalidError(message)
    return []


def _sides(cells: list[str], run: _Run) -> list[_Side]:
    """Return the cells by heading, of the run out of place and of the one in place."""
    tail = run.tail or (_USUAL * 2 if len(cells) >= 2 * len(_USUAL) else _USUAL)
    # a time of day is two words under one heading
    width = len(tail) + (tail[-1] == "timestamp")
    spare = len(cells) - width
    if not 0 <= spare <= max(run.before_time, 2 if not run.tail else 0):
        message = (
            f"got {len(cells)} columns after the type; "
            f"allowed: {width} to {width + run.before_time}, as the headings say"
        )
        raise InvalidError(message)
    sides: list[_Side] = []
    for word, cell in zip(tail, cells[spare:], strict=False):
        if word in _TIMES:
            sides.append({})
        sides[-1].setdefault(word, cell)
    return sides


def _time(side: _Side, collective: str, ranks: int, size: int) -> float | None:
    """Return the seconds of one of the two runs; none where the log has no time of it.

    Raises:
        InvalidError: A figure is none, the result was wrong, or the rates contradict the time.
    """
    word = next(iter(side))
    value = _number(side[word], "time")
    if value is not None and not 0 < value < 1e12:
        message = f"time: got {side[word]:.60}; allowed: microseconds above 0"
        raise InvalidError(message)
    for rate in ("algbw", "busbw"):
        _number(side.get(rate, _ABSENT), rate)
    wrong = side.get(_WRONG, _ABSENT)
    if _NUMBER.fullmatch(wrong) and float(wrong) > 0:
        message = f"{_WRONG}: got {wrong:.60} wrong elements; allowed: 0 or {_ABSENT}"
        raise InvalidError(message)
    if value is None:
        return None
    if word == _TIMES[0]:
        refuse_unlike_rates(collective, ranks, size, side)
    return value / _MICROSECONDS


def _number(cell: str, word: str) -> float | None:
    if cell == _ABSENT:
        return None
    if not _NUMBER.fullmatch(cell):
        message = f"{word}: got {cell!r:.60}; allowed: a number or {_ABSENT}"
        raise InvalidError(message)
    return float(cell)


def _members(run: _Run, ranks: int | None, place: str) -> tuple[int, int | None]:
    """Return how many ranks and nodes took part."""
    hosts = run.group()
    if len(hosts) > 1:
        return len(hosts), len(set(hosts))
    members = ranks or run.threads
    if members is None or members < 2:
        listed = "one rank (built without MPI=1?)" if hosts or members else "no list of ranks"
        message = f"{place}: ranks: got {listed}; allowed: 2 or more; --ranks says how many"
        raise InvalidError(message)
    return members, None


def _known(collective: str | None, place: str) -> str:
    if collective is None:
        message = (
            f"{place}: collective: got no name in the log or the file's name; "
            f"allowed: {', '.join(COLLECTIVES)}; --collective says which"
        )
        raise InvalidError(message)
    return collective
