"""Do swarms of unreliable peers hold their laws from Python?"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw

few = settings(max_examples=30, deadline=None)
speeds = st.lists(st.floats(0.2, 3), min_size=1, max_size=4)


@few
@given(st.lists(speeds, min_size=1, max_size=4), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_no_swarm_beats_its_bound(stages: list[list[float]], in_flight: int, seed: int) -> None:
    found = sw.swarm(
        stages,
        in_flight,
        200,
        trainers=2,
        delay_s=0.1,
        failures_per_s=0.01,
        joins_per_s=0.02,
        join_speeds=[1.0, 2.0],
        rebalance_s=20,
        move_s=1,
        runs=2,
        seed=seed,
    )
    assert found.throughput_per_s <= found.bound_per_s * (1 + 1e-9)
    assert all(0 <= stage.utilization <= 1 + 1e-9 for stage in found.stages)


def test_the_closed_form_is_the_mean_of_runs_by_chance() -> None:
    found = sw.swarm(
        [[1, 3], [2], [0.5, 0.5, 2]],
        6,
        5_000,
        delay_s=0.2,
        forward_share=0.5,
        service="exponential",
        routing="random",
    )
    assert found.standard_error_per_s is not None
    off = abs(found.throughput_per_s - found.expected_per_s)
    assert off < 4 * found.standard_error_per_s


def test_the_same_seed_gives_the_same_swarm_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []

    def ask(seed: int) -> sw.Swarm:
        return sw.swarm(
            [[1.0, 2.0], [3.0]],
            4,
            500,
            service="exponential",
            seed=seed,
            progress=lambda done, total: told.append((done, total)),
        )

    assert ask(3) == ask(3) != ask(4)
    assert told[-1] == (8, 8)


def test_wide_layers_need_less_of_a_network() -> None:
    # compute grows with the square of the width, bytes with the width
    shares = [
        sw.swarm_utilization(1e-3 * n * n, 1e6 * n, 500e6 / 8, latency_s=0.01) for n in (1, 4, 16)
    ]
    assert shares == sorted(shares)
    assert sw.swarm_utilization(1.0, 1e9) == 1
    quarter = sw.swarm_utilization(1.0, 500e6 / 8, 500e6 / 8, latency_s=0.5)
    assert quarter == pytest.approx(1 / 4)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"stages": 3}, "stages: got 3"),
        ({"stages": [1.0]}, "stages[0]: got shape ()"),
        ({"stages": [[]]}, "stages[0]: got 0"),
        ({"stages": [[-1.0]]}, "stages[0][0]: got -1"),
        ({"routing": "best"}, "unknown name 'best'"),
        ({"service": "exponental"}, "nearest: exponential"),
        ({"joins_per_s": 1.0}, "join_speeds: got none"),
        ({"duration_s": 0}, "duration_s: got 0"),
        ({"duration_s": 1e12}, "duration_s: got 1000000000000; allowed: above 0, up to 2.500e7"),
        ({"rebalance_s": 1e-12}, "duration_s: got 1; allowed: above 0, up to 5.000e-5"),
        ({"runs": 0}, "runs: got 0"),
        ({"seed": -1}, "seed: got -1"),
    ],
)
def test_what_is_wrong_is_said(wrong: dict[str, Any], said: str) -> None:
    right: dict[str, Any] = {"stages": [[1.0]], "in_flight": 1, "duration_s": 1.0}
    with pytest.raises(sw.ScalewrightError) as caught:
        sw.swarm(**{**right, **wrong})
    assert said in str(caught.value)


def test_a_device_that_computes_nothing_has_no_share() -> None:
    with pytest.raises(sw.InvalidError, match="compute_s: got 0"):
        sw.swarm_utilization(0, 1)
