"""What do many plans cost, as arrays?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright import _engine
from scalewright.config import need
from scalewright.errors import InvalidError
from scalewright.planning.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from scalewright.config import Training
    from scalewright.planning.inputs import Model, System


@dataclass(frozen=True, eq=False)
class Prices:
    """Prices of many plans, one element for each."""

    step_time_s: NDArray[np.float64]
    """Time of an optimizer step; infinite where the plan breaks a rule."""
    peak_memory_bytes: NDArray[np.float64]
    """Bytes on the fullest rank; infinite where the plan breaks a rule."""
    fits: NDArray[np.bool_]
    """True where the plan is legal and fits."""
    legal: NDArray[np.bool_]
    """True where the plan breaks no rule."""


def estimate_many(
    model: Model,
    system: System,
    columns: Mapping[str, ArrayLike],
    training: Training,
    *,
    memory_margin: float = 0.0,
    progress: Callable[[int, int], object] | None = None,
) -> Prices:
    """Price many plans, each an element of the columns.

    Args:
        model: What is trained.
        system: The machines.
        columns: Whole numbers by plan field; choices are counted in the order of their listing
            (`recompute` and `recompute_rest`: none 0, selective 1, full 2; `recompute_experts`:
            same 0, none 1, selective 2, full 3). Fields without a column have their default.
        training: Batch, sequence, formats, optimizer.
        memory_margin: Share of the device memory that must stay free.
        progress: Called with the plans done and the plans in all.

    Raises:
        ScalewrightError: The columns differ in length, a value is wrong, or a column is no field.
    """
    import numpy as np

    need("columns", columns, Mapping, "whole numbers by plan field")
    for name in columns:
        need("columns", name, str, "names of plan fields")
    try:
        arrays = np.broadcast_arrays(*(np.atleast_1d(column) for column in columns.values()))
        rows = np.stack(arrays, axis=-1).astype(np.int64, casting="safe")
    except (ValueError, TypeError) as error:
        message = f"columns: {error}; allowed: whole numbers, one or more columns of one length"
        raise InvalidError(message) from error
    handle = Job(model, system, training, memory_margin).handle
    time, memory, status = _engine.estimate_many(handle, list(columns), rows, progress=progress)
    return Prices(time, memory, status == 0, status < 2)
