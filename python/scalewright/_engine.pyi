"""The compiled engine: opaque inputs, and few calls that do much."""

from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cluster", "Workload", "collective_times", "version"]

@final
class Workload:
    """A model, read from the JSON text of its config."""

    def __new__(cls, json: str) -> Workload: ...
    def parameters(self) -> dict[str, int]:
        """Parameter counts by name; all but `padded_total` use the unpadded vocabulary."""

@final
class Cluster:
    """A number of devices of one system, read from JSON text."""

    def __new__(cls, json: str) -> Cluster: ...

def collective_times(
    cluster: Cluster,
    collective: str,
    stride: int,
    size: int,
    buffer_bytes: NDArray[np.float64],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> NDArray[np.float64]:
    """Times in seconds of a collective for an array of buffer sizes."""

def version() -> str:
    """Return the engine's version."""
