"""Scalewright plans AI training clusters: time, memory, energy and price, and the best plan."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalewright._engine import (
        Cluster,
        Job,
        Workload,
        collective_times,
        estimate,
        estimate_many,
        explain,
        search,
        version,
    )
    from scalewright.errors import CancelledError, InvalidError, ScalewrightError, UnknownNameError

__all__ = [
    "CancelledError",
    "Cluster",
    "InvalidError",
    "Job",
    "ScalewrightError",
    "UnknownNameError",
    "Workload",
    "collective_times",
    "estimate",
    "estimate_many",
    "explain",
    "search",
    "version",
]

# loaded at first use, so that `import scalewright` stays quick
_ERRORS = {"CancelledError", "InvalidError", "ScalewrightError", "UnknownNameError"}


def __getattr__(name: str) -> object:
    """Load a public name at first use."""
    if name not in __all__:
        message = f"module 'scalewright' has no attribute '{name}'"
        raise AttributeError(message)
    home = "scalewright.errors" if name in _ERRORS else "scalewright._engine"
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)
