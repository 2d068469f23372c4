"""How long does a stage take for a slice of each sequence, behind a context of earlier slices?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright import _engine
from scalewright.config import completed, json_text, need_count, need_listed, plan_fields
from scalewright.errors import InvalidError
from scalewright.planning.job import Job
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scalewright.config import Training
    from scalewright.planning.asking import AnyPlan
    from scalewright.planning.inputs import Model, System


@dataclass(frozen=True, eq=False)
class SliceTimes(Answer):
    """Seconds of slices: a row for each, a column for the first, an inner, the last virtual stage.

    Sends between stages are left out.

    Attributes:
        forward_s: Seconds of the forward pass of each slice.
        backward_s: Seconds of the backward pass of each slice.
    """

    forward_s: NDArray[np.float64]
    backward_s: NDArray[np.float64]


def slice_times(
    model: Model,
    system: System,
    plan: AnyPlan,
    training: Training,
    slices: Sequence[tuple[int, int]],
) -> SliceTimes:
    """Price slices of a micro-batch's sequences as a plan runs them.

    Times of `token_slices` follow from them: attention of a slice reads the keys of the slices in
    front too.

    Args:
        model: What `scalewright.model` returns.
        system: What `scalewright.system` returns.
        plan: The plan; its `context` is 1.
        training: Batch, whole sequences, formats.
        slices: Tokens of each slice and tokens in front of it.

    Raises:
        ScalewrightError: A value is wrong, a slice leaves the sequence, or the plan breaks a rule.
    """
    cut = _pairs(slices)
    job = Job(model, system, training)
    text = json_text("plan", completed(plan_fields(plan), system.devices))
    forward, backward = _engine.slice_times(job.handle, text, cut)
    return SliceTimes(forward.reshape(-1, 3), backward.reshape(-1, 3), _rests_on=job)


def _pairs(slices: object) -> list[tuple[int, int]]:
    """Return tokens of each slice and tokens in front of it.

    Raises:
        InvalidError: A slice is no such pair.
    """
    allowed = "a list of pairs: tokens of a slice and tokens in front of it"
    cut: list[tuple[int, int]] = []
    for place, given in enumerate(need_listed("slices", slices, allowed)):
        pair = need_listed(f"slices[{place}]", given, allowed)
        if len(pair) != 2:
            message = f"slices[{place}]: got {given!r:.60}; allowed: {allowed}"
            raise InvalidError(message)
        tokens = need_count(f"slices[{place}]", pair[0])
        cut.append((tokens, need_count(f"slices[{place}]", pair[1], least=0)))
    return cut
