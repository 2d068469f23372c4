"""Which measured kernels does a CSV file hold, one by line?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.reproductions.columns import plain
from scalewright.reproductions.kernels.agreement import printed, refuse_unlike
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
_COMMON: dict[str, tuple[str, ...]] = {
    "system": ("system", "device", "hardware", "gpu_name", "gpu", "gpu_type", "accelerator"),
    "time_us": ("latency_us", "time_us", "duration_us", "runtime_us"),
    "time_ms": ("latency_ms", "time_ms", "duration_ms", "runtime_ms"),
    "time_s": ("latency_s", "time_s", "duration_s", "runtime_s"),
    "rate": ("tflops", "tflop_s", "tflops_s", "achieved_tflops"),
    "rate_giga": ("gflops", "gflop_s", "gflops_s"),
    "source": ("source",),
}
_WEAKER = frozenset({"gpu", "gpu_type", "accelerator", "precision", "data_type", "format"}) | {
    *("duration_us", "runtime_us", "duration_ms", "runtime_ms", "duration_s", "runtime_s"),
    *("tflop_s", "tflops_s", "achieved_tflops", "outdtype", "out_dtype"),
}
"""Headings that count where no other says the same, and of several the first."""
_PRODUCT = frozenset({"m", "n", "k"})
"""Columns that no table but one of matrix products has together."""
_TIMES = {"time_us": ("us", 1e-6), "time_ms": ("ms", 1e-3), "time_s": ("s", 1.0)}
"""Unit and its seconds, by the column that holds a time; the first that a row has counts."""
_RATES = {"rate": ("TFLOP/s", 1e12), "rate_giga": ("GFLOP/s", 1e9)}
"""Unit and its size, by the column that holds a rate."""
_RATED = "gemm"
"""The kind of which a rate tells the time, too: FLOPs of others are counted in several ways."""
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
    cells = header_in(Path(path), _known)
    return any(_has_columns(kind, cells) for kind in KINDS) or _of_products(cells)


@cache
def shipped() -> tuple[KernelRow | UnreadKernelRow, ...]:
    """Return the rows that come with the package, kind by kind."""
    folder = built_in_root()
    for part in FOLDER:
        folder = folder / part
    files = (name for kind in KINDS for name in kind.files or (kind.name,))
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


def _kind(cells: Sequence[str]) -> Kind | None:
    """Return the kind of kernel whose columns a header has.

    These are many and particular enough, whatever else stands beside them: seconds, rates and a
    `batch` head tables of training steps, too.
    """
    headings = {plain(cell) for cell in cells}
    timed = any(headings & set(_COMMON[time]) for time in _TIMES)
    rated = any(headings & set(_COMMON[rate]) for rate in _RATES)
    kinds = [kind for kind in KINDS if timed or (rated and kind.name == _RATED)]
    return next((kind for kind in kinds if _has_columns(kind, cells)), None)


def _has_columns(kind: Kind, cells: Sequence[str]) -> bool:
    return kind.needed <= set(_columns(kind, cells))


def _known(cells: Sequence[str]) -> int:
    """Count the headings that tables of one kind of kernel have."""
    return max(sum(name is not None for name in _columns(kind, cells)) for kind in KINDS)


def _of_products(cells: Sequence[str]) -> bool:
    """Say whether a header has the sides of products and a figure, whatever else it lacks."""
    headings = {plain(cell) for cell in cells}
    figures = (text for name in (*_TIMES, *_RATES) for text in _COMMON[name])
    return headings >= _PRODUCT and not headings.isdisjoint(figures)


def _columns(kind: Kind, cells: Sequence[str]) -> list[str | None]:
    spelt = {text: name for name, texts in {**_COMMON, **kind.spellings}.items() for text in texts}
    headings = [plain(cell) for cell in cells]
    told = [spelt.get(heading) for heading in headings]
    strong = {name for name, heading in zip(told, headings, strict=True) if heading not in _WEAKER}
    found: list[str | None] = []
    for name, heading in zip(told, headings, strict=True):
        weak = heading in _WEAKER
        found.append(None if weak and (name in strong or name in found) else name)
    return found


def _rows(file: Traversable) -> Iterator[KernelRow | UnreadKernelRow]:
    table = table_in(file, _known)
    listed = [(line, cells) for line, cells in table.lines if not cells[0].startswith("#")]
    headers = listed[0][1] if listed else []
    kind = _kind(headers)
    if kind is None:
        refuse_other_marks(file, headers)
        _refuse_untimed(file, headers)
        allowed = "; or ".join(
            ", ".join(["system", *texts, "latency_us"])
            for texts in (
                [kind.spellings[name][0] for name in sorted(kind.needed)] for kind in KINDS
            )
        )
        message = f"{file}: header: got no columns of timed kernels; allowed: {allowed}"
        raise InvalidError(message)
    columns = _columns(kind, headers)
    for line, cells in listed[1:]:
        found, fault = joined(columns, headers, cells, unsure=table.unsure)
        try:
            if fault:
                raise InvalidError(fault)
            yield _row(file.name, line, kind, found)
        except ScalewrightError as error:
            yield UnreadKernelRow(file.name, line, kind.name, found.get("system", ""), str(error))


def _refuse_untimed(file: Traversable, headers: Sequence[str]) -> None:
    """Refuse a header of kernels that has no time, or one whose unit it does not say.

    Raises:
        InvalidError: It is one.
    """
    kind = next((kind for kind in KINDS if _has_columns(kind, headers)), None)
    if kind is None:
        return
    allowed = [_COMMON[name][0] for name in (*_TIMES, *(_RATES if kind.name == _RATED else ()))]
    got = f"{file}: header: got columns of {kind.name} and no time with its unit"
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
        time_s=_time(shape, cells, rated=kind.name == _RATED),
        source=cells.get("source", ""),
    )


def _time(shape: Shape, cells: dict[str, str], *, rated: bool) -> float:
    """Return the seconds that a row says, or that its rate makes of two FLOPs a product.

    Raises:
        InvalidError: It says none, or figures that contradict one another.
    """
    told = [name for name in _TIMES if cells.get(name, "").casefold() not in BLANK]
    flops = 2.0 * shape.work if rated else None
    if not told and flops is not None and (rate := next(filter(cells.get, _RATES), None)):
        return flops / (number(_COMMON[rate][0], cells[rate]) * _RATES[rate][1])
    first = told[0] if told else "time_us"
    value = number(_COMMON[first][0], cells.get(first, ""))
    _refuse_unlike(first, told[1:], flops, cells)
    return value * _TIMES[first][1]


def _refuse_unlike(
    first: str, others: Sequence[str], flops: float | None, cells: dict[str, str]
) -> None:
    """Refuse a row whose other times, or whose rate of so many FLOPs, contradict the first.

    Cells that hold no number are passed over, as columns are that nobody needs.
    """
    figure = printed(cells[first])
    if figure is None:
        return
    unit, seconds = _TIMES[first]
    beside, time = f"{figure.value:.6g} {unit}", figure.scaled(seconds)
    for name in others:
        if (other := printed(cells[name])) is not None:
            unit, seconds = _TIMES[name]
            refuse_unlike(_COMMON[name][0], (unit, other), time.scaled(1.0 / seconds), beside)
    for name, (unit, size) in _RATES.items():
        rate = printed(cells.get(name, ""))
        if flops is not None and rate is not None:
            refuse_unlike(_COMMON[name][0], (unit, rate), time.under(flops / size), beside)
