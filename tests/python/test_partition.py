"""Are layers cut as well as can be, from Python?"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw

few = settings(max_examples=60, deadline=None)


def found(*args: Any, **of: Any) -> sw.Partition:
    answer = sw.partition(*args, **of)
    assert isinstance(answer, sw.Partition), answer
    return answer


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    layers, devices = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    seeds = np.random.default_rng(draw(st.integers(0, 2**32)))
    return {
        "forward_s": seeds.uniform(0, 2, layers),
        "backward_s": seeds.uniform(0, 4, layers),
        "micro_batches": draw(st.integers(1, 12)),
        "speeds": seeds.uniform(0.5, 2, devices),
        "output_bytes": seeds.uniform(0, 3, layers),
        "bandwidth_bytes_per_s": seeds.uniform(1, 9, (devices, devices)),
        "permute": draw(st.booleans()),
    }


def weighed(world: dict[str, Any], order: tuple[int, ...], cuts: tuple[int, ...]) -> float:
    ends = [0, *cuts, len(world["forward_s"])]
    both = world["forward_s"] + world["backward_s"]
    times = [
        both[ends[i] : ends[i + 1]].sum() / world["speeds"][order[i]] for i in range(len(order))
    ]
    rates = world["bandwidth_bytes_per_s"]
    hops = [
        world["output_bytes"][cut - 1] / rates[pair]
        for i, cut in enumerate(cuts)
        for pair in ((order[i], order[i + 1]), (order[i + 1], order[i]))
    ]
    return sum(times) + sum(hops) + (world["micro_batches"] - 1) * max(times)


@few
@given(worlds())
def test_no_other_cut_or_order_is_better(world: dict[str, Any]) -> None:
    layers, devices = len(world["forward_s"]), len(world["speeds"])
    answer = sw.partition(**world)
    if layers < devices:
        assert isinstance(answer, sw.NoPartition)
        assert answer.reason == "layers"
        return
    assert isinstance(answer, sw.Partition)
    orders = itertools.permutations(range(devices)) if world["permute"] else [(*range(devices),)]
    cuts = list(itertools.combinations(range(1, layers), devices - 1))
    best = min(weighed(world, order, cut) for order in orders for cut in cuts)
    assert answer.is_exact
    assert answer.objective_s == pytest.approx(best)
    assert 0 <= answer.relative_gap < math.inf
    assert [i for stage in answer.stages for i in stage.layers] == list(range(layers))


def test_alike_layers_are_cut_evenly() -> None:
    answer = found([1] * 8, [2] * 8, 16, devices=4)
    assert answer.cuts == (2, 4, 6)
    assert answer.step_time_s == answer.objective_s == answer.lower_bound_s == (16 + 3) * 6
    assert [stage.in_flight for stage in answer.stages] == [4, 3, 2, 1]


def test_a_gradient_goes_back_over_the_way_back() -> None:
    for rates in ([[1, 10], [1, 1]], [[1, 1], [10, 1]]):
        cut = sw.partition(
            [1, 1], [1, 1], 1, devices=2, output_bytes=10, bandwidth_bytes_per_s=rates
        )
        # both layers there and back, 10 bytes at 10 a second one way and at 1 the other
        assert cut.step_time_s == cut.objective_s == 4 + 1 + 10


def test_kinds_have_times_of_their_own() -> None:
    # the second kind is slow at the last layers
    forward = [[1, 1]] * 4 + [[1, 5]] * 4
    answer = found(forward, np.zeros((8, 2)), 64, kinds=[1, 0])
    assert answer.cuts == (4,)
    swapped = found(forward, np.zeros((8, 2)), 64, kinds=[0, 1], permute=True)
    assert [stage.device for stage in swapped.stages] == [1, 0]


def test_gradients_of_weights_may_stand_apart() -> None:
    together = found([1] * 6, [2] * 6, 8, devices=3)
    apart = found([1] * 6, [1] * 6, 8, devices=3, weight_s=1)
    assert apart.objective_s == together.objective_s
    assert apart.step_time_s == together.step_time_s


def test_what_finds_no_room_is_named() -> None:
    answer = sw.partition([1] * 8, [2] * 8, 16, devices=4, capacity_bytes=1, state_bytes=1)
    assert isinstance(answer, sw.NoPartition)
    assert (answer.reason, answer.layer, answer.needs_bytes) == ("memory", 4, 1)
    answer = sw.partition([1, 1], [1, 1], 2, devices=1, capacity_bytes=9, state_bytes=[1, 10])
    assert isinstance(answer, sw.NoPartition)
    assert (answer.reason, answer.layer) == ("layer", 1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"devices": 0}, "devices: got 0"),
        ({"devices": 2, "speeds": [1, 2, 3]}, "speeds: got shape"),
        ({"devices": None}, "devices: got nothing"),
        ({"kinds": [0, 1]}, "kinds[1]: got 1"),
        ({"backward_s": [1, 2]}, "backward_s: got shape"),
        ({"forward_s": [math.nan] * 4}, "forward_s"),
        ({"forward_s": []}, "forward_s: got shape"),
        ({"micro_batches": 0}, "micro_batches: got 0"),
        ({"latency_s": -1}, "latency_s[0]: got -1"),
        ({"bandwidth_bytes_per_s": 0}, "bandwidth_bytes_per_s[0]: got 0"),
        ({"permute": "yes"}, "permute: got 'yes'"),
    ],
)
def test_what_is_wrong_is_said(wrong: dict[str, Any], said: str) -> None:
    right: dict[str, Any] = {
        "forward_s": [1.0] * 4,
        "backward_s": [1.0] * 4,
        "micro_batches": 4,
        "devices": 2,
    }
    with pytest.raises(sw.ScalewrightError) as caught:
        sw.partition(**{**right, **wrong})
    assert said in str(caught.value)
