"""Are sequences sliced as well as can be, from Python?"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw

few = settings(max_examples=60, deadline=None)


def found(*args: Any, **of: Any) -> sw.TokenSlices:
    answer = sw.token_slices(*args, **of)
    assert answer is not None
    return answer


def sliced(units: int) -> list[list[int]]:
    """List all ways to cut so many units."""
    if units == 0:
        return [[]]
    return [[first, *rest] for first in range(1, units + 1) for rest in sliced(units - first)]


@few
@given(st.integers(1, 7), st.integers(1, 9), st.integers(0, 2**32))
def test_no_other_slices_end_sooner(units: int, stages: int, seed: int) -> None:
    times = np.random.default_rng(seed).uniform(0, 3, (units, units))
    best = math.inf
    for lengths in sliced(units):
        starts = np.cumsum([0, *lengths[:-1]])
        each = [times[n - 1, start] for n, start in zip(lengths, starts, strict=True)]
        best = min(best, sum(each) + (stages - 1) * max(each))
    answer = found(times, stages)
    assert answer.time_s == pytest.approx(best)
    assert sum(answer.parts[0].lengths) == units


def transformer(tokens: int, context: int) -> float:
    return 50e-6 + 1e-6 * tokens + 1e-9 * tokens * (context + tokens / 2)


def test_a_function_is_read_in_tokens() -> None:
    answer = found(transformer, 48, tokens=2048, granularity=8)
    lengths = answer.parts[0].lengths
    assert sum(lengths) == 2048
    assert all(length % 8 == 0 for length in lengths)
    assert lengths[0] > lengths[-1]
    assert answer.speedup is not None
    assert answer.speedup > 3
    rounded = found(transformer, 48, tokens=2048, granularity=8, epsilon_s=1e-5)
    assert 0 <= rounded.time_s - answer.time_s <= rounded.error_s == 47 * 1e-5


def test_a_batch_is_shared_out_together() -> None:
    def times(sequences: int) -> Any:
        return lambda tokens, context: 1.0 + 0.1 * sequences * (tokens + 0.01 * tokens * context)

    answer = found({n: times(n) for n in (1, 2, 4)}, 8, sequences=4, tokens=32)
    assert sum(part.sequences for part in answer.parts) == 4
    one_by_one = found({1: times(1)}, 8, sequences=4, tokens=32)
    at_once = found({4: times(4)}, 8, sequences=4, tokens=32)
    assert answer.time_s <= min(one_by_one.time_s, at_once.time_s)


def test_slices_that_are_not_allowed_are_not_taken() -> None:
    times = np.ones((4, 4))
    times[2:, :] = math.inf
    assert max(found(times, 1).parts[0].lengths) == 2
    assert found(times, 1).whole_s is None
    times[:] = math.inf
    assert sw.token_slices(times, 1) is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"times": [[1, 2]]}, "times[1]: got shape"),
        ({"times": [[-1]]}, "times[0]: got -1"),
        ({"times": [["a"]]}, "times[1]: got"),
        ({"times": {0: [[1]]}}, "times: a number of sequences: got 0"),
        ({"times": {2: [[1]]}}, "sequences: got 2"),
        ({"times": transformer}, "tokens: got nothing"),
        ({"times": transformer, "tokens": 9, "granularity": 2}, "multiple of granularity"),
        ({"times": transformer, "tokens": 10**9}, "tokens: got 1000000000; allowed: up to 2048 ti"),
        (
            {"times": np.ones((2049, 2049))},
            "times: got 2049; allowed: a whole number from 1 to 2048",
        ),
        ({"stages": 0}, "stages: got 0"),
        ({"epsilon_s": -1.0}, "epsilon_s: got -1"),
    ],
)
def test_what_is_wrong_is_said(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(sw.ScalewrightError) as caught:
        sw.token_slices(**{"times": [[1.0]], "stages": 2, **wrong})
    assert said in str(caught.value)
