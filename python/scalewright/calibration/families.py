"""Which constants of a device do timed matrix products in one family of formats tell?

Rows of formats that the catalog lists as no family share the constants of `matmul` itself, and tell
what a launch takes. Some stay as they are: `throttle_time`, which no table tells apart from
`throttle`, `cache_share`, `overlap`, `most_splits`, `least_wave` and what a library's source says
of its kernels for few rows. Where the device gives such kernels to a family whose own formats they
multiply, what they reach is fitted in place of `depth_time` and `store_cost`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright.calibration.constants import Constant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Table = dict[str, Any]
FINE_TILES = "fine_tiles"
"""The constant that says whether a library has tiles in steps of 16."""
_PLAIN = ("bf16", "fp16")
_NARROW, _WIDE = 16.0, 64.0
# TensorRT-LLM gives products of up to four rows to a matrix-vector kernel in smoothQuantGemm
# (int8_sq_launcher); weightOnlyQuantMatmul (checkTactic) times one beside its tiles below 16 rows
_THIN_ROWS, _TIMED_ROWS = 4.0, 15.0
_THIN_DEPTH_TIME = (5e-10, 1e-12, 1e-7)
_THIN_EFFICIENCY = (0.3, 0.01, 1.0)
_THIN_MEMORY = (0.8, 0.3, 1.0)
# what the kernels for few rows of a family tell instead
_INSTEAD = ("depth_time", "store_cost")
# start, least, most; the start is no device's, so that a fit depends on its rows alone
_COMMON: dict[str, tuple[float, float, float]] = {
    "tile_overhead": (8.0, 0.1, 400.0),
    "depth_overhead": (200.0, 1.0, 4000.0),
    "depth_time": (1e-9, 1e-12, 1e-8),
    "split_overhead": (3e-6, 1e-7, 1e-3),
    "throttle": (0.1, 1e-4, 2.0),
    "memory_efficiency": (0.85, 0.3, 1.0),
    "store_cost": (1.2, 1.0, 5.0),
    "cache_efficiency": (0.4, 0.05, 1.0),
}
_WHOLE = {"split_overhead": 5e-5, "depth_time": 1.5e-9}
_SECONDS = {
    "depth_time",
    "split_overhead",
    "thin_depth_time",
    "overhead",
    "cast_overhead",
    "launch_overhead",
}
_EFFICIENCY = (0.8, 0.05, 1.0)
_LAUNCH = (3e-6, 5e-7, 3e-5)
_OVERHEAD = (2e-6, 1e-9, 5e-5)
_CAST = (0.4, 0.02, 1.0)


@dataclass(frozen=True)
class Family:
    """Formats whose products share one set of constants."""

    name: str
    """The table of the device that holds them, as `matmul.families.fp8`."""
    constants: tuple[Constant, ...]
    starts: tuple[tuple[float, ...], ...]
    fixed: tuple[tuple[Constant, tuple[float, ...]], ...]
    """Constants that are no numbers to descend on, with the values to be tried."""


def family(requests: Sequence[Mapping[str, Any]], device: Mapping[str, Any]) -> Family:
    """Return the family of some requests of products, all of one `table`, on a device."""
    first = requests[0]
    cast = any(request.get("cast_from") for request in requests)
    path = table(first)
    formats = sorted({str(request["a"]) for request in requests})
    thin = _few_rows(path, device)
    found = [
        _constant((*path, name), start, least, most)
        for name, (start, least, most) in _COMMON.items()
        if not (thin and name in _INSTEAD)
    ]
    if path == ("matmul",):
        shares = [_constant(("matmul", "efficiency", name), *_EFFICIENCY) for name in formats]
        extra = [_constant(("launch_overhead",), *_LAUNCH)]
        if thin:
            extra.append(_constant((*path, "thin_memory_efficiency"), *_THIN_MEMORY))
        fixed: list[tuple[Constant, tuple[float, ...]]] = []
    else:
        own = path if path[1] == "weight_only" else None
        place = (*own, "efficiency") if own else ("matmul", "efficiency", str(first["a"]))
        shares = [_constant(place, *_EFFICIENCY)]
        if cast:
            extra = [
                _constant((*path, "cast_efficiency"), *_CAST),
                _constant((*path, "cast_overhead"), *_OVERHEAD),
            ]
        else:
            extra = [_constant((*path, "overhead"), *_OVERHEAD)]
        fixed = []
        if thin:
            extra.append(_constant((*path, "thin_efficiency"), *_THIN_EFFICIENCY))
        else:
            rows = Constant((*path, "least_rows"), _NARROW, _WIDE)
            fixed.append((rows, (_WIDE, _NARROW)))
        # both rules are TensorRT-LLM's
        if (own or first["a"] == "int8") and device.get("vendor", "NVIDIA") == "NVIDIA":
            most = _TIMED_ROWS if own else _THIN_ROWS
            fixed.append((Constant((*path, "thin_rows"), most, most), (most,)))
            if own:
                fixed.append((Constant((*path, "thin_timed"), least=0.0, most=1.0), (True,)))
            extra.append(_constant((*path, "thin_depth_time"), *_THIN_DEPTH_TIME))
    # a cast has a constant more; hipBLASLt and aiter have such tiles
    if device.get("vendor") == "AMD" and not cast:
        fixed.append((Constant((*path, FINE_TILES), least=0.0, most=1.0), (False, True)))
    every = [*shares, *found, *extra]
    constants = tuple(constant for constant, _ in every)
    usual = tuple(start for _, start in every)
    # a library that splits no depth looks unlike one that does so at a small cost
    whole = tuple(_WHOLE.get(c.path[-1], start) for c, start in every)
    return Family(".".join(path), constants, (usual, whole), tuple(fixed))


def table(request: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the path of the device's table that holds the constants of a request."""
    left, right = str(request["a"]), str(request["b"])
    if left != right:
        return ("matmul", "weight_only", right)
    return ("matmul",) if left in _PLAIN else ("matmul", "families", left)


def _few_rows(path: tuple[str, ...], device: Mapping[str, Any]) -> bool:
    """Say whether a device gives kernels for few rows to a family of operands alike."""
    inner: Any = device
    for key in path:
        inner = inner.get(key, {})
    return "weight_only" not in path and path[-1] != "int8" and float(inner.get("thin_rows", 0)) > 0


def with_values(device: Table, values: Mapping[tuple[str, ...], float]) -> Table:
    """Return the fields of a device with other values of some constants."""
    result = dict(device)
    for path, value in values.items():
        inner = result
        for key in path[:-1]:
            inner[key] = dict(inner.get(key, {}))
            inner = inner[key]
        inner[path[-1]] = value
    return result


def _constant(
    path: tuple[str, ...], start: float, least: float, most: float
) -> tuple[Constant, float]:
    return Constant(path, least, most, seconds=path[-1] in _SECONDS), start
