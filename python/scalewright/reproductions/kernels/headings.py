"""Which column of timed kernels does each heading mean?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scalewright.errors import InvalidError
from scalewright.reproductions.columns import plain
from scalewright.reproductions.kernels.kind import short
from scalewright.reproductions.kernels.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalewright.reproductions.kernels.kind import Kind

COMMON: dict[str, tuple[str, ...]] = {
    "system": (
        *("system", "device", "hardware", "gpu_name", "gpu", "gpu_type", "accelerator"),
        *("processor", "device_name"),
    ),
    "time_us": ("latency_us", "time_us", "duration_us", "runtime_us", "us", "usec"),
    "time_ms": ("latency_ms", "time_ms", "duration_ms", "runtime_ms", "ms", "msec"),
    "time_s": ("latency_s", "time_s", "duration_s", "runtime_s", "time_sec"),
    "rate": ("tflops", "tflop_s", "tflops_s", "achieved_tflops", "teraflops", "tf_s", "tops"),
    "rate_giga": ("gflops", "gflop_s", "gflops_s"),
    "source": ("source",),
}
_WEAKER = frozenset({"gpu", "gpu_type", "accelerator", "precision", "data_type", "format"}) | {
    *("duration_us", "runtime_us", "duration_ms", "runtime_ms", "duration_s", "runtime_s"),
    *("tflop_s", "tflops_s", "achieved_tflops", "teraflops", "tf_s", "tops"),
    *("us", "usec", "ms", "msec", "time_sec", "processor", "device_name"),
    *("outdtype", "out_dtype", "b", "n"),
}
"""Headings that count where no other says the same, and of several the first."""
_PRODUCT = frozenset({"m", "n", "k"})
"""Columns that no table but one of matrix products has together."""
TIMES = {"time_us": ("us", 1e-6), "time_ms": ("ms", 1e-3), "time_s": ("s", 1.0)}
"""Unit and its seconds, by the column that holds a time; the first that a row has counts."""
RATES = {"rate": ("TFLOP/s", 1e12), "rate_giga": ("GFLOP/s", 1e9)}
"""Unit and its size, by the column that holds a rate."""
_UNITS = {"us": "time_us", "usec": "time_us", "ms": "time_ms", "msec": "time_ms"}
"""How headings end that name what was timed before the unit: `tuned (us)`."""
_RATED = {"tflops": "rate", "tflop_s": "rate", "gflops": "rate_giga", "gflop_s": "rate_giga"}
"""How headings end that name whose rate it is before the unit: `cuBLAS TFLOPS`."""
_LIMITS = {"peak", "roofline", "theoretical", "rated", "limit", "sol", "diff", "gain"}
"""Words of headings of rates that no kernel reached."""
_OF_STEPS = re.compile(
    r"(num_|n_)?(gpus|devices|nodes|layers)|world_size|global_batch(_size)?|micro_batch(_size)?|"
    r"mfu|vocab(_size)?|(step|iteration|iter)_time.*|.*(optimizer|token_s|tokens_per_s).*"
)
"""Headings of training steps, which tables of one kernel do not have."""
_ORDER = re.compile(r"([mnk])_?x?_?([mnk])_?x?_?([mnk])")
_SIDES = frozenset({"shape", "gemm_shape", "matrix_size", "matrix_shape", "problem_size"})
"""Headings of all sides of a product in one cell, which do not say the order."""
_BETWEEN = re.compile(r"\s*[x\u00d7*,;/]\s*|\s+", re.IGNORECASE)


def columns(kind: Kind, cells: Sequence[str]) -> list[str | None]:
    """Return the column that each cell of a header means for a kind; none where it means none."""
    spelt = {text: name for name, texts in {**COMMON, **kind.spellings}.items() for text in texts}
    headings = [plain(cell) for cell in cells]
    told = [spelt.get(heading) for heading in headings]
    strong = {name for name, heading in zip(told, headings, strict=True) if heading not in _WEAKER}
    found: list[str | None] = []
    for name, heading in zip(told, headings, strict=True):
        weak = heading in _WEAKER
        found.append(None if weak and (name in strong or name in found) else name)
    if not any(name in TIMES for name in found):
        places = _timed(headings, found)
        if len(places) == 1:
            found[places[0]] = _UNITS[headings[places[0]].rpartition("_")[2]]
    if kind.rated and not set(found) & {*TIMES, *RATES}:
        rates = _reached(headings, found)
        if len(rates) == 1:
            found[rates[0]] = _unit_of_rate(headings[rates[0]])
    return found


def _unit_of_rate(heading: str) -> str | None:
    """Return the column that a heading ending in a unit of rates means; none where it does not."""
    ends = (name for unit, name in _RATED.items() if heading.endswith(f"_{unit}"))
    return next(ends, None) if _LIMITS.isdisjoint(heading.split("_")) else None


def _reached(headings: Sequence[str], found: Sequence[str | None]) -> list[int]:
    """Return the places of headings that no column has and that end in a unit of rates."""
    named = enumerate(headings)
    return [at for at, text in named if found[at] is None and _unit_of_rate(text) is not None]


def _timed(headings: Sequence[str], found: Sequence[str | None]) -> list[int]:
    """Return the places of headings that no column has and that end in a unit of time."""
    return [
        place
        for place, heading in enumerate(headings)
        if found[place] is None
        and heading.rpartition("_")[2] in _UNITS
        and _OF_STEPS.fullmatch(heading) is None
    ]


def unsure(kind: Kind, cells: Sequence[str]) -> tuple[str, list[str]]:
    """Return headings of times, or else of rates, of which none is known to be the kernel's."""
    found = columns(kind, cells)
    if any(name in TIMES for name in found):
        return "times", []
    headings = [plain(cell) for cell in cells]
    timed = _timed(headings, found)
    places = timed or (_reached(headings, found) if kind.rated else [])
    return "times" if timed else "rates", [cells[place].strip() for place in places]


def has_columns(kind: Kind, cells: Sequence[str]) -> bool:
    """Say whether a header has the columns that every row of a kind needs.

    One of a kind in free spelling has a time or a rate too, and nothing of training steps.
    """
    found = set(columns(kind, cells))
    if not kind.needed <= found or not all(found & choice for choice in kind.either):
        return False
    if not kind.free:
        return True
    steps = any(_OF_STEPS.fullmatch(plain(cell)) for cell in cells)
    return not steps and _has_figure(kind, cells)


def _has_figure(kind: Kind, cells: Sequence[str]) -> bool:
    found = set(columns(kind, cells))
    return bool(found & set(TIMES) or (kind.rated and found & set(RATES)))


def kind_of(cells: Sequence[str]) -> Kind | None:
    """Return the kind of kernel whose columns a header has.

    These are many and particular enough, whatever else stands beside them: seconds, rates and a
    `batch` head tables of training steps, too.
    """
    kinds = (kind for kind in KINDS if _has_figure(kind, cells))
    return next((kind for kind in kinds if has_columns(kind, cells)), None)


def known(cells: Sequence[str]) -> int:
    """Count the headings that tables of one kind of kernel have."""
    spread_out = spread_header(cells)
    return max(sum(name is not None for name in columns(kind, spread_out)) for kind in KINDS)


def of_products(cells: Sequence[str]) -> bool:
    """Say whether a header has the sides of products and a figure, whatever else it lacks."""
    headings = {plain(cell) for cell in cells}
    figures = (text for name in (*TIMES, *RATES) for text in COMMON[name])
    return headings >= _PRODUCT and not headings.isdisjoint(figures)


def spread_header(cells: Sequence[str]) -> list[str]:
    """Return a header in which a column of all three sides of a product is three: `MxNxK`."""
    place = _joint(cells)
    if place is None:
        return list(cells)
    return [*cells[:place], *_order(plain(cells[place])), *cells[place + 1 :]]


def spread(headers: Sequence[str], cells: Sequence[str]) -> list[str]:
    """Return the cells of a line below such a header, where one holds all three sides.

    One number is the side of cubes of work; several that are unlike need a heading with an order.

    Raises:
        InvalidError: The cell holds something else.
    """
    place = _joint(headers)
    if place is None or place >= len(cells):
        return list(cells)
    sides = _BETWEEN.split(cells[place].strip().strip("()[]").strip())
    sides = sides * len(_PRODUCT) if len(sides) == 1 else sides
    ordered = plain(headers[place]) not in _SIDES
    if len(sides) != len(_PRODUCT) or not (ordered or len(set(sides)) == 1):
        got = f"{plain(headers[place])}: got '{short(cells[place])}'"
        message = f"{got}; allowed: three numbers, unlike ones below their order as MxNxK"
        raise InvalidError(message)
    return [*cells[:place], *sides, *cells[place + 1 :]]


def _joint(cells: Sequence[str]) -> int | None:
    """Return the place of a column that holds all sides, where no other holds one."""
    headings = [plain(cell) for cell in cells]
    if not _PRODUCT.isdisjoint(headings):
        return None
    places = [at for at, text in enumerate(headings) if text in _SIDES or _order(text)]
    return places[0] if len(places) == 1 else None


def _order(heading: str) -> list[str]:
    """Return the sides of a product in the order of a heading; that of others is no matter."""
    if heading in _SIDES:
        return ["m", "n", "k"]
    found = _ORDER.fullmatch(heading)
    return list(found.groups()) if found and len(set(found.groups())) == len(_PRODUCT) else []
