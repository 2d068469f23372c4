"""Is a timed kernel faster than its device can multiply or read?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.reproductions.kernels.kind import Shape

_QUANTITY = re.compile(r"([0-9.]+(?:e[+-]?[0-9]+)?) ?([kMGTPE]?)(i?)(?:FLOP/s|B/s|B)")
_POWERS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_WIDE = {"fp32": ("tf32", "fp32"), "bf16": ("bf16", "fp16"), "mxfp8": ("mxfp8", "fp8")}
"""Formats that stand for one another where a device lists one of them."""
_MULTIPLIED = ("a", "rows", "queries", "dtype")
"""Fields of a request that name the format of products."""
_BEYOND = "faster than the dense peak of the device allows, counted nevertheless"
_OVER_PEAK = 2.0
"""Times the dense peak beyond which no clock and no narrower sum explains a kernel.

Of the rows of the package, boards clocked beyond their rating and consumer boards that sum in 16
bits come out at up to 1.7 times the peak in fp32 sums that the catalog has.
"""
_OVER_MEMORY = 1.05
"""Times the memory's bandwidth beyond which a kernel cannot have read what it needs."""


def too_quick(
    shape: Shape, request: Mapping[str, Any], device: Mapping[str, Any], time_s: float
) -> tuple[str, str]:
    """Return why a time is refused and what is noted of it; empty where nothing is.

    Args:
        shape: The kernel.
        request: What runs on the device, which may have no products in the row's own format.
        device: The device's fields.
        time_s: Measured.
    """
    got = f"time: got {time_s * 1e6:.4g} us"
    peak = _peak(request, device)
    share = shape.flops / time_s / peak if peak else 0.0
    if share > _OVER_PEAK:
        least = shape.flops / peak * 1e6
        why = f"which is {share:.4g} times the dense peak of {peak / 1e12:.5g} TFLOP/s"
        return f"{got}, {why}; allowed: from about {least:.4g} us", ""
    tiers = [tier for tier in device["tiers"] if _size(tier.get("bandwidth")) > 0.0]
    if shape.read_bytes and tiers:
        # what the caches hold between calls need not come from memory
        held = sum(_size(tier.get("capacity")) for tier in tiers[:-1])
        rate = _size(tiers[-1]["bandwidth"])
        least = (shape.read_bytes - held) / rate
        if least > _OVER_MEMORY * time_s:
            why = f"to move {shape.read_bytes / 1e9:.4g} GB at {rate / 1e9:.5g} GB/s"
            return f"{got}; allowed: from about {least * 1e6:.4g} us, {why}", ""
    return "", _BEYOND if share > 1.0 else ""


def _peak(request: Mapping[str, Any], device: Mapping[str, Any]) -> float:
    """Return the FLOP/s of a request's format; 0 where the device does not say."""
    spelt = next((str(request[field]) for field in _MULTIPLIED if field in request), "")
    names = _WIDE.get(spelt, (spelt,))
    matrix = device["matrix"]
    peaks = [_size(matrix[name]) for name in names if name in matrix]
    if spelt == "fp32":
        peaks.append(_size(device.get("vector")))
    return max(peaks, default=0.0)


def _size(text: object) -> float:
    """Return a quantity as the catalog writes it, in SI units; 0 where it is written otherwise."""
    found = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return 0.0
    return float(found[1]) * (1024.0 if found[3] else 1e3) ** _POWERS[found[2]]
