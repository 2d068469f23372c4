"""Which constants of a device do timed attention and experts tell, and where does their fit start?

A family is a kernel and the format that its constants belong to: of the queries for prefill, of the
cache for decode, of the rows for experts, of the products for a pass of training. The starts are no
device's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scalewright.reproductions.kernels.kind import Shape

    Path = tuple[str, ...]
    Bounds = tuple[float, float, float]

# start, least, most
_PRODUCTS: dict[str, Bounds] = {
    "forward_efficiency": (0.6, 0.1, 1.0),
    "score_overhead": (20.0, 0.1, 300.0),
    "key_overhead": (64.0, 1.0, 2000.0),
    "tail": (0.5, 0.02, 2.0),
    "wide": (1.0, 0.3, 10.0),
}
_PREFILL: dict[str, Bounds] = {
    "launch": (1e-5, 2e-6, 5e-5),
    "element": (5e-13, 1e-15, 1e-10),
    "head": (1e-9, 1e-12, 1e-7),
    "window": (3e-6, 1e-8, 5e-5),
    "narrow": (5e-7, 1e-8, 1e-5),
}
_CAST: dict[str, Bounds] = {"cast_window": (3e-6, 1e-8, 5e-5), "cast": (1.0, 0.3, 3.0)}
_DECODE: dict[str, Bounds] = {
    "bandwidth_share": (0.9, 0.5, 1.0),
    "unit_bandwidth": (3e10, 5e9, 4e11),
    "tiled_launch": (8e-6, 2e-6, 3e-5),
    "vector_launch": (8e-6, 2e-6, 3e-5),
    "tiled_block": (1e-6, 1e-8, 2e-5),
    "vector_block": (1e-6, 1e-8, 2e-5),
    "tiled_key": (1e-11, 1e-14, 1e-9),
    "tiled_row": (2e-12, 1e-14, 1e-9),
    "vector_key": (5e-11, 1e-13, 1e-9),
    "split": (3e-6, 1e-8, 3e-5),
    "most_splits": (64.0, 1.0, 2000.0),
    "element": (5e-12, 1e-14, 1e-9),
}
_PASS: dict[str, Bounds] = {
    "efficiency": (0.7, 0.1, 1.0),
    "score_overhead": (30.0, 0.1, 300.0),
    "key_overhead": (150.0, 1.0, 2000.0),
    "tail": (0.5, 0.02, 2.0),
    "wide": (1.0, 0.5, 10.0),
    "window": (1e-6, 1e-8, 5e-5),
}
_EXPERTS: dict[str, Bounds] = {
    "launch": (2e-5, 3e-6, 2e-4),
    "efficiency": (0.6, 0.05, 1.0),
    "tile_overhead": (64.0, 1.0, 2000.0),
    "depth_overhead": (200.0, 1.0, 5000.0),
    "bandwidth_share": (0.8, 0.2, 1.0),
    "expert": (1e-7, 1e-9, 5e-6),
    "routing": (1e-12, 1e-15, 1e-8),
    "choice": (1e-9, 1e-12, 1e-6),
    "pass_overhead": (1.5, 0.3, 20.0),
    "tail": (1.0, 0.05, 5.0),
}
# further starts: kernels of unlike libraries lie far apart, and some terms act only beyond a bound
_OTHER_STARTS: dict[str, tuple[dict[str, float], ...]] = {
    "prefill": (
        {"launch": 5e-6, "forward_efficiency": 0.4},
        {"score_overhead": 100.0, "wide": 4.0, "forward_efficiency": 0.7},
    ),
    "decode": (
        {"most_splits": 1.5, "tiled_key": 1e-10},
        {"tiled_block": 5e-6, "vector_block": 2e-6},
    ),
    "experts": ({"tile_overhead": 10.0, "launch": 4e-5}, {"efficiency": 0.3}),
    "training_attention": (
        {"score_overhead": 100.0, "efficiency": 0.95, "window": 3e-6},
        {"score_overhead": 3.0, "efficiency": 0.5, "key_overhead": 400.0},
    ),
}
_NARROW, _WIDE, _WIDE_IN_TRAINING = 64.0, 192.0, 128.0
_NARROWER = ("fp8", "int8", "nvfp4", "mxfp8")


def table(request: Mapping[str, Any]) -> Path:
    """Return the path of the device's table that holds the constants of a request."""
    kernel = str(request["kernel"])
    if kernel == "experts":
        return ("experts", str(request["rows"]))
    if kernel == "training_attention":
        products = "bf16" if request["dtype"] == "fp16" else str(request["dtype"])
        return (kernel, products, "backward" if request["backward"] else "forward")
    stored = str(request["queries" if kernel == "prefill" else "cache"])
    return (kernel, "fp8" if stored in _NARROWER else "bf16")


def constants(path: Path, shapes: Sequence[Shape], device: Mapping[str, Any]) -> dict[Path, Bounds]:
    """List the constants of a table that some shapes tell: start, least and most by path."""
    missing = set[str]()
    if path[0] == "prefill":
        missing = _untold(shapes)
    elif path[0] == "training_attention":
        missing = _untold_of_training(shapes)
        own: Any = device
        for part in path:
            own = own.get(part, {})
        if not own.get("skips_hidden", True):
            # such a kernel computes what a window hides, so that no window has a price
            missing.add("window")
    return {place: bounds for place, bounds in _all(path).items() if place[-1] not in missing}


def _untold(shapes: Sequence[Shape]) -> set[str]:
    """Name the constants of prefill that have no rows, or none without them beside."""
    widths = {shape.numbers["head_dim"] for shape in shapes}
    windows = {
        _cast(shape.request)
        for shape in shapes
        if 0.0 < shape.numbers["window"] < shape.numbers["queries"] + shape.numbers["cached"]
    }
    told = {
        # the exponential's part shows where widths differ
        "score_overhead": len(widths) > 1,
        "wide": min(widths) <= _WIDE < max(widths),
        "narrow": min(widths) <= _NARROW < max(widths),
        "window": False in windows,
        "cast_window": True in windows,
        "cast": len({_cast(shape.request) for shape in shapes}) > 1,
    }
    return {name for name, some in told.items() if not some}


def _untold_of_training(shapes: Sequence[Shape]) -> set[str]:
    """Name the constants of a pass of training that have no rows, or none without them beside."""
    widths = {shape.numbers["head_dim"] for shape in shapes}
    windowed = {0.0 < s.numbers["window"] < s.numbers["positions"] for s in shapes}
    told = {
        "score_overhead": len(widths) > 1,
        "wide": min(widths) <= _WIDE_IN_TRAINING < max(widths),
        "window": len(windowed) > 1,
    }
    return {name for name, some in told.items() if not some}


def _cast(request: Mapping[str, Any]) -> bool:
    """Say whether keys are kept in a narrower format than queries."""
    return request["cache"] in _NARROWER and request["queries"] not in _NARROWER


def _all(path: Path) -> dict[Path, Bounds]:
    kernel, family = path[:2]
    if kernel == "training_attention":
        return {(*path, name): bounds for name, bounds in _PASS.items()}
    if kernel == "prefill":
        # the products of bf16 are those of training
        place = ("attention",) if family == "bf16" else (*path, "attention")
        found = {(*place, name): bounds for name, bounds in _PRODUCTS.items()}
        own = _PREFILL | _CAST if family == "bf16" else _PREFILL
        return found | {(*path, name): bounds for name, bounds in own.items()}
    own = _DECODE if kernel == "decode" else _EXPERTS
    return {(*path, name): bounds for name, bounds in own.items()}


def starts(path: Path, bounds: Mapping[Path, Bounds]) -> list[dict[Path, float]]:
    """List where fits of some constants of a table start."""
    first = {place: start for place, (start, _, _) in bounds.items()}
    return [
        first,
        *(
            {place: other.get(place[-1], start) for place, start in first.items()}
            for other in _OTHER_STARTS[path[0]]
        ),
    ]
