"""Which measured kernels does a CSV file hold, one by line?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.reproductions.kernels.agreement import printed, refuse_unlike
from scalewright.reproductions.kernels.headings import (
    COMMON,
    RATES,
    TIMES,
    columns,
    has_columns,
    kind_of,
    known,
    of_products,
    spread,
    spread_header,
    unsure,
)
from scalewright.reproductions.kernels.kind import Shape, number
from scalewright.reproductions.kernels.kinds import KINDS
from scalewright.reproductions.records import (
    BLANK,
    header_in,
    joined,
    refuse_other_marks,
    some,
    table_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.resources.abc import Traversable

    from scalewright.reproductions.kernels.kind import Kind

FOLDER = ("published", "kernels")
"""Where the rows of the package lie in the catalog."""
_HELD_OUT_EVERY = 3
_HELD_OUT = 1
SPLIT = (
    "of the shapes of a device and format, ordered by work, every third from the second is held out"
)
"""How rows are parted into those that may fit constants and those that judge them."""


@dataclass(frozen=True)
class KernelRow:
    """One timed kernel."""

    file: str
    line: int
    kind: str
    system: str
    """The device, as the source spells it; empty where the file does not say."""
    shape: Shape
    time_s: float
    source: str

    @property
    def key(self) -> tuple[object, ...]:
        """Tell rows of one spelling, kind, family and shape from others."""
        return (self.system.casefold(), *self.timed)

    @property
    def timed(self) -> tuple[object, ...]:
        """Tell rows of one kind, family and shape from others, whatever the device."""
        numbers = tuple(sorted(self.shape.numbers.items()))
        request = tuple(sorted((k, str(v)) for k, v in self.shape.request.items()))
        return (self.kind, request, numbers)


@dataclass(frozen=True)
class UnreadKernelRow:
    """A line that holds no usable figure, and why."""

    file: str
    line: int
    kind: str
    system: str
    reason: str


def holds_kernels(path: str | Path) -> bool:
    """Say whether the header of a file is that of timed kernels; False where it cannot be read.

    Also where their time lacks or its unit, which is told when the file is read.
    """
    cells = spread_header(header_in(Path(path), known))
    return any(has_columns(kind, cells) for kind in KINDS) or of_products(cells)


@cache
def shipped() -> tuple[KernelRow | UnreadKernelRow, ...]:
    """Return the rows that come with the package, kind by kind."""
    folder = built_in_root()
    for part in FOLDER:
        folder = folder / part
    files = (name for kind in KINDS for name in kind.files)
    return tuple(row for name in files for row in _rows(folder / f"{name}.csv"))


def read(path: str | Path) -> list[KernelRow | UnreadKernelRow]:
    """Return the rows of a user's file.

    Raises:
        InvalidError: The file cannot be read, has no rows, or lacks the columns that every row
            needs.
    """
    return some(path, list(_rows(Path(path))))


def held_out(rows: Iterable[KernelRow]) -> set[tuple[str, int]]:
    """Return file and line of the rows that fit no constant: see `SPLIT`.

    Of a shape that was timed more than once, none may fit constants where another is held out.
    """
    groups: dict[tuple[str, ...], list[KernelRow]] = {}
    every = list(rows)
    for row in every:
        key = (row.file, row.kind, row.system.casefold(), row.shape.dtype)
        groups.setdefault(key, []).append(row)
    apart: set[tuple[object, ...]] = set()
    for members in groups.values():
        ordered = sorted(members, key=lambda r: (r.shape.work, r.line))
        apart.update(list(dict.fromkeys(r.key for r in ordered))[_HELD_OUT::_HELD_OUT_EVERY])
    return {(row.file, row.line) for row in every if row.key in apart}


def _rows(file: Traversable) -> Iterator[KernelRow | UnreadKernelRow]:
    table = table_in(file, known)
    listed = [(line, cells) for line, cells in table.lines if not cells[0].startswith("#")]
    printed_headers = listed[0][1] if listed else []
    headers = spread_header(printed_headers)
    kind = kind_of(headers)
    if kind is None:
        refuse_other_marks(file, headers)
        _refuse_untimed(file, headers)
        allowed = "; or ".join(", ".join(["system", *_wanted(kind)]) for kind in KINDS)
        message = f"{file}: header: got no columns of timed kernels; allowed: {allowed}"
        raise InvalidError(message)
    meant = columns(kind, headers)
    for line, printed_cells in listed[1:]:
        found: dict[str, str] = {}
        try:
            cells = spread(printed_headers, printed_cells)
            found, fault = joined(meant, headers, cells, unsure=table.unsure)
            if fault:
                raise InvalidError(fault)
            yield _row(file.name, line, kind, found)
        except ScalewrightError as error:
            yield UnreadKernelRow(file.name, line, kind.name, found.get("system", ""), str(error))


def _wanted(kind: Kind) -> list[str]:
    """Return the headings that a table of a kind needs, each as it is first spelt."""
    needed = [kind.spellings[name][0] for name in sorted(kind.needed)]
    choices = (
        " or ".join(kind.spellings[name][0] for name in sorted(choice)) for choice in kind.either
    )
    return [*needed, *choices, "latency_us"]


def _refuse_untimed(file: Traversable, headers: Sequence[str]) -> None:
    """Refuse a header of kernels that has no time, or one whose unit it does not say.

    Raises:
        InvalidError: It is one.
    """
    kind = next((kind for kind in KINDS if has_columns(kind, headers)), None)
    if kind is None:
        return
    allowed = [COMMON[name][0] for name in (*TIMES, *(RATES if kind.rated else ()))]
    got = f"{file}: header: got columns of {kind.name} and no time with its unit"
    figures, several = unsure(kind, headers)
    if several:
        named = " and ".join(f"'{heading:.40}'" for heading in several)
        got = f"{file}: header: got columns of {kind.name} and {figures} {named}"
    message = f"{got}; allowed: {', '.join(allowed)}"
    raise InvalidError(message)


def _row(file: str, line: int, kind: Kind, cells: dict[str, str]) -> KernelRow:
    shape = kind.shape(cells)
    return KernelRow(
        file=file,
        line=line,
        kind=shape.kind or kind.name,
        system=cells.get("system", ""),
        shape=shape,
        time_s=_time(shape, cells),
        source=cells.get("source", ""),
    )


def _time(shape: Shape, cells: dict[str, str]) -> float:
    """Return the seconds that a row says, or that its rate makes of what it computes.

    Raises:
        InvalidError: It says none, or figures that contradict one another.
    """
    told = [name for name in TIMES if cells.get(name, "").casefold() not in BLANK]
    flops = shape.flops if shape.rated else None
    if not told and flops is not None and (rate := next(filter(cells.get, RATES), None)):
        return flops / (number(COMMON[rate][0], cells[rate]) * RATES[rate][1])
    first = told[0] if told else "time_us"
    value = number(COMMON[first][0], cells.get(first, ""))
    _refuse_unlike(first, told[1:], flops, cells)
    return value * TIMES[first][1]


def _refuse_unlike(
    first: str, others: Sequence[str], flops: float | None, cells: dict[str, str]
) -> None:
    """Refuse a row whose other times, or whose rate of so many FLOPs, contradict the first.

    Cells that hold no number are passed over, as columns are that nobody needs.
    """
    figure = printed(cells[first])
    if figure is None:
        return
    unit, seconds = TIMES[first]
    beside, time = f"{figure.value:.6g} {unit}", figure.scaled(seconds)
    for name in others:
        if (other := printed(cells[name])) is not None:
            unit, seconds = TIMES[name]
            refuse_unlike(COMMON[name][0], (unit, other), time.scaled(1.0 / seconds), beside)
    for name, (unit, size) in RATES.items():
        rate = printed(cells.get(name, ""))
        if flops is not None and rate is not None:
            refuse_unlike(COMMON[name][0], (unit, rate), time.under(flops / size), beside)
