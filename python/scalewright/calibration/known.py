"""Which constants of its kernels does a device have already, as numbers in SI units?

Where the catalog's were measured, a fit begins at them, and what its rows do not tell stays. Where
they are those of a relative, or a guess, it begins at values of no device.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Path = tuple[str, ...]

_AMOUNT = re.compile(
    r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*(s|ms|us|ns|ps|[kMGT]?B/s)\s*", re.IGNORECASE
)
_UNITS = {
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "ps": 1e-12,
    "B/s": 1.0,
    "kB/s": 1e3,
    "MB/s": 1e6,
    "GB/s": 1e9,
    "TB/s": 1e12,
}


def were_measured(device: Mapping[str, Any]) -> bool:
    """Say whether the constants of a device were fitted to timings of it."""
    return device.get("calibration", {}).get("measured", False) is True


def own_value(device: Mapping[str, Any], path: Path) -> object:
    """Return the constant that a device has; None where it leaves it to the default."""
    value: Any = device
    for key in path:
        value = value.get(key, {})
    return None if value == {} else value


def own_numbers(device: Mapping[str, Any], paths: Sequence[Path]) -> dict[Path, float]:
    """Return the constants that a device has, those that are no numbers above 0 left out."""
    found: dict[Path, float] = {}
    for path in paths:
        number = _number(own_value(device, path))
        if number is not None and number > 0.0:
            found[path] = number
    return found


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    amount = _AMOUNT.fullmatch(value) if isinstance(value, str) else None
    return float(amount[1]) * _UNITS[amount[2]] if amount and amount[2] in _UNITS else None
