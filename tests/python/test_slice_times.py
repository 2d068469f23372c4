"""Are slices of sequences priced as the stages that they are slices of?"""

from typing import Any

import numpy as np
import pytest

import scalewright as sw

SEQUENCE = 2048


def times(slices: list[tuple[int, int]], *, flash: bool = False, **of: Any) -> sw.SliceTimes:
    plan = {"tensor": 4, "micro_batch": 2, **of}
    job = sw.Training(2, SEQUENCE, precision="fp16", flash_attention=flash)
    return sw.slice_times(sw.model("gpt3-1.3b"), sw.system("dgx-1-v100", 4), plan, job, slices)


@pytest.mark.parametrize("flash", [False, True])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_the_whole_sequence_takes_what_the_stage_takes(flash: bool, recompute: str) -> None:
    found = times([(SEQUENCE, 0)], flash=flash, recompute=recompute)
    plan = {"tensor": 4, "micro_batch": 2, "recompute": recompute}
    job = sw.Training(2, SEQUENCE, precision="fp16", flash_attention=flash)
    whole = sw.estimate(sw.model("gpt3-1.3b"), sw.system("dgx-1-v100", 4), plan, job)
    passes = ("forward", "backward", "recompute")
    terms = [t for t in whole.values["time"] if t["term"].endswith(passes)]
    both = found.forward_s[0, 0] + found.backward_s[0, 0]
    assert both == pytest.approx(sum(t["time_s"] for t in terms), rel=1e-9)


@pytest.mark.parametrize("flash", [False, True])
def test_context_costs_attention_alone_and_more_tokens_more(flash: bool) -> None:
    contexts = [(256, context) for context in range(0, SEQUENCE, 256)]
    lengths = [(length, 0) for length in range(256, SEQUENCE + 1, 256)]
    for slices in (contexts, lengths):
        found = times(slices, flash=flash)
        assert (np.diff(found.forward_s[:, 0]) > 0).all()
        assert (np.diff(found.backward_s[:, 0]) > 0).all()
    # a slice behind half the sequence costs less than the half itself on top of it
    alone, behind, half = times([(256, 0), (256, 1024), (1024, 0)], flash=flash).forward_s[:, 0]
    assert behind < alone + half


def test_stages_take_their_share_of_layers() -> None:
    def stages(count: int) -> sw.SliceTimes:
        job = sw.Training(2, SEQUENCE, precision="fp16", flash_attention=False)
        on = sw.system("dgx-1-v100", 4 * count)
        plan = {"tensor": 4, "pipeline": count, "micro_batch": 1}
        return sw.slice_times(sw.model("gpt3-1.3b"), on, plan, job, [(512, 512)])

    few, many = stages(4), stages(8)
    assert few.forward_s[0, 1] == pytest.approx(2.0 * many.forward_s[0, 1], rel=0.01)
    assert few.forward_s.shape == (1, 3)


@pytest.mark.parametrize(
    ("slices", "of", "said"),
    [
        ([(2049, 0)], {}, "slices: got 2049 tokens behind 0; allowed: 1 or more, up to 2048"),
        ([(1024, 1025)], {}, "slices: got 1024 tokens behind 1025"),
        ([(0, 0)], {}, "slices[0]: got 0"),
        ([(1, -1)], {}, "slices[0]: got -1"),
        ([(1, 0)], {"tensor": 2, "context": 2}, "plan.context: got 2; allowed: 1"),
        ([(1, 0)], {"tensor": 3}, "plan: "),
    ],
)
def test_what_is_wrong_is_said(slices: Any, of: dict[str, Any], said: str) -> None:
    with pytest.raises(sw.ScalewrightError) as caught:
        times(slices, **of)
    assert said in str(caught.value)
