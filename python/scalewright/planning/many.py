"""What do many plans cost, as arrays?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright import _engine
from scalewright.config import FIELDS, need_progress, need_table, schedule_rules
from scalewright.errors import InvalidError
from scalewright.planning.job import Job
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from scalewright.config import Training
    from scalewright.planning.inputs import Model, System


@dataclass(frozen=True, eq=False)
class Prices(Answer):
    """Prices of many plans, one element for each.

    Attributes:
        step_time_s: Time of an optimizer step; infinite where the plan breaks a rule.
        peak_memory_bytes: Bytes on the fullest rank; infinite where the plan breaks a rule.
        fits: True where the plan is legal and fits.
        legal: True where the plan breaks no rule.
    """

    step_time_s: NDArray[np.float64]
    peak_memory_bytes: NDArray[np.float64]
    fits: NDArray[np.bool_]
    legal: NDArray[np.bool_]


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
        columns: Whole numbers by plan field, lists of one length; a single number, or a list of
            one, stands for all. Choices are counted in the order of their listing
            (`recompute` and `recompute_rest`: none 0, selective 1, full 2; `recompute_experts`:
            same 0, none 1, selective 2, full 3). Fields without a column have their default, but
            `data` follows from the devices, the schedule from the chunks or the chunks from it, and
            `overlap_pipeline` from the schedule, as in `estimate`.
        training: Batch, sequence, formats, optimizer.
        memory_margin: Share of the device memory that must stay free.
        progress: Called with the plans done and the plans in all.

    Raises:
        ScalewrightError: The columns differ in length, a value is wrong, or a column is no field.
    """
    import numpy as np

    need_progress(progress)
    need_table("columns", columns, "whole numbers by plan field")
    job = Job(model, system, training, memory_margin)
    given = {name: _column(name, column) for name, column in columns.items()}
    lengths = {name: column.size for name, column in given.items() if column.size != 1}
    if not given or len(set(lengths.values())) > 1:
        got = ", ".join(f"{name} with {length}" for name, length in lengths.items()) or "none"
        message = f"columns: got {got:.200}; allowed: one or more columns of one length, or of one"
        raise InvalidError(message)
    given |= _chunked(given)
    if "data" not in given:
        given["data"] = _replicas(given, job.system.devices)
    rows = np.stack(np.broadcast_arrays(*given.values()), axis=-1)
    time, memory, status = _engine.estimate_many(job.handle, list(given), rows, progress=progress)
    return Prices(time, memory, status == 0, status < 2, _rests_on=job)


def _column(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return a column as a list of whole numbers; truth values stand in those of flags alone.

    Raises:
        InvalidError: It holds something else.
    """
    import numpy as np

    field = f"columns.{name}"
    flag = FIELDS.get(name) == "bool"
    allowed = "true or false, or 0 or 1" if flag else "whole numbers"
    message = f"{field}: got {values!r:.60}; allowed: {allowed}"
    try:
        column = np.atleast_1d(np.asarray(values))
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidError(message) from error
    if column.ndim != 1:
        message = f"{field}: got shape {column.shape}; allowed: a number or a list of them"
        raise InvalidError(message)
    if column.dtype.kind not in ("biu" if flag else "iu") or not np.can_cast(
        column.dtype, np.int64
    ):
        raise InvalidError(message)
    return column.astype(np.int64)


def _chunked(columns: Mapping[str, NDArray[np.int64]]) -> dict[str, NDArray[np.int64]]:
    """Return the schedules that run so many chunks, or the chunks that schedules need."""
    import numpy as np

    rules = schedule_rules()
    names = list(rules)
    if "interleave" in columns and "schedule" not in columns:
        plain, chunked = (names.index(name) for name in ("1f1b", "interleaved"))
        return {"schedule": np.where(columns["interleave"] == 1, plain, chunked)}
    if "schedule" in columns and "interleave" not in columns:
        needed = [rule["chunks"] if rule["overlaps_sends"] else 1 for rule in rules.values()]
        needed[names.index("interleaved")] = 1
        # what is no schedule is refused by the engine
        listed = np.clip(columns["schedule"], 0, len(needed) - 1)
        return {"interleave": np.array(needed, np.int64)[listed]}
    return {}


def _replicas(columns: Mapping[str, NDArray[np.int64]], devices: int) -> NDArray[np.int64]:
    """Return the replicas that use all devices."""
    import numpy as np

    each: NDArray[np.int64] = np.ones(1, np.int64)
    for axis in ("tensor", "context", "pipeline"):
        # more ranks than devices leave one replica; so many never overflow
        each = np.minimum(each * np.clip(columns.get(axis, each * 0 + 1), 1, devices), devices + 1)
    return np.maximum(devices // each, 1)
