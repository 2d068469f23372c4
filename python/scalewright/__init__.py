"""Scalewright plans AI training clusters: time, memory, energy and price, and the best plan."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalewright._engine import Cluster, Workload, collective_times, version
    from scalewright.errors import CancelledError, InvalidError, ScalewrightError, UnknownNameError

__all__ = [
    "CancelledError",
    "Cluster",
    "InvalidError",
    "ScalewrightError",
    "UnknownNameError",
    "Workload",
    "collective_times",
    "version",
]

# name -> the module that defines it; loaded at first use, so that `import scalewright` stays quick
_HOME = {
    "CancelledError": "scalewright.errors",
    "Cluster": "scalewright._engine",
    "InvalidError": "scalewright.errors",
    "ScalewrightError": "scalewright.errors",
    "UnknownNameError": "scalewright.errors",
    "Workload": "scalewright._engine",
    "collective_times": "scalewright._engine",
    "version": "scalewright._engine",
}


def __getattr__(name: str) -> object:
    """Load a public name at first use."""
    if name not in _HOME:
        message = f"module 'scalewright' has no attribute '{name}'"
        raise AttributeError(message)
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)
