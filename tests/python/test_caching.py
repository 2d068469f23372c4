"""Do caches hold their laws from Python, and is what is wrong said?"""

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import scalewright as sw

POLICIES = ("static", "lfu", "lru", "fifo", "random", "lifo")


def references(objects: int, exponent: float, accesses: int) -> np.ndarray:
    weights = np.arange(1, objects + 1) ** -exponent
    chosen = np.random.default_rng(3).choice(objects, accesses, p=weights / weights.sum())
    return chosen.astype(np.uint32)


def test_formulas_and_runs_agree() -> None:
    trace = references(2000, 0.8, 400_000)
    for policy in ("lru", "fifo", "random"):
        said = sw.cache_hits(200, 0.8, objects=2000, policy=policy)
        found = sw.simulate_cache(trace, 200, policy=policy)
        assert found.hit_rate == pytest.approx(float(said.hit_rate), abs=0.005)


def test_capacities_broadcast() -> None:
    rooms = np.array([[1e6, 1e7, 1e8], [1e9, 5e9, 1e10]])
    found = sw.cache_hits(rooms, 1.05, objects=10**10)
    assert found.hit_rate.shape == rooms.shape
    assert np.all(np.diff(found.hit_rate.ravel()) > 0)
    assert found.hit_rate[1, 2] == 1.0
    assert np.isinf(found.characteristic_accesses[1, 2])
    assert np.array_equal(np.asarray(found), found.hit_rate)
    one = sw.cache_hits(1e8, 1.05, objects=10**10)
    assert one.hit_rate.shape == ()
    assert float(one.hit_rate) == found.hit_rate[0, 2]


def test_a_list_of_weights_is_the_law_it_lists() -> None:
    weights = np.arange(1, 5001) ** -1.1
    for policy in POLICIES:
        listed = sw.cache_hits([10, 500], weights, policy=policy)
        law = sw.cache_hits([10, 500], 1.1, objects=5000, policy=policy)
        assert listed.hit_rate == pytest.approx(law.hit_rate, rel=1e-6)


def test_bytes_count_where_sizes_are_given() -> None:
    sizes = np.array([1, 2, 3, 4] * 25)
    weights = np.arange(1, 101) ** -0.7
    found = sw.cache_hits(sizes.sum() / 2, weights, sizes=sizes)
    assert 0.5 < found.hit_rate < 1.0
    assert found.byte_hit_rate != found.hit_rate
    run = sw.simulate_cache([0, 1, 2, 0, 1, 2], 6, sizes=[1, 2, 3])
    assert (run.hits, run.cold_misses, run.hit_bytes, run.miss_bytes) == (3, 3, 6, 6)
    assert sw.simulate_cache([0, 1, 2, 0, 1, 2], 5, sizes=[1, 2, 3]).hits == 0


def test_none_beats_belady() -> None:
    trace = references(500, 0.6, 50_000)
    best = sw.simulate_cache(trace, 50, policy="belady")
    for policy in POLICIES:
        found = sw.simulate_cache(trace, 50, policy=policy)
        assert found.hits < best.hits
        assert found.hits + found.misses == found.accesses == trace.size
        assert found.cold_misses == best.cold_misses == np.unique(trace).size


def test_one_pass_gives_every_capacity() -> None:
    trace = references(300, 0.7, 20_000)
    curve = sw.lru_curve(trace)
    assert curve.size == np.unique(trace).size + 1
    for capacity in (0, 1, 10, 100, curve.size - 1):
        assert curve[capacity] == sw.simulate_cache(trace, capacity).hits
    assert sw.lru_curve([]).tolist() == [0]


def test_an_empty_trace_has_no_hits() -> None:
    assert sw.simulate_cache([], 3).hit_rate == 0.0


def test_the_seed_alone_decides_chance() -> None:
    trace = references(500, 0.5, 20_000)
    runs = [sw.simulate_cache(trace, 50, policy="random", seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.usefixtures("interruptible")
def test_a_run_can_be_interrupted() -> None:
    trace = np.random.default_rng(1).integers(0, 2_000_000, 50_000_000, dtype=np.uint32)

    def interrupt() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            sw.simulate_cache(trace, 500_000, policy="random")
    finally:
        thread.join()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"policy": "lrv"}, "policy: unknown name 'lrv'; nearest: lru"),
        ({"policy": "belady"}, "policy: got belady"),
        ({"capacity": -1.0}, "capacity: got -1"),
        ({"capacity": np.nan}, "capacity: got NaN"),
        ({"popularity": -0.5}, "popularity: got -0.5"),
        ({"popularity": [1.0, -1.0]}, "popularity[1]: got -1"),
        ({"popularity": [0.0, 0.0]}, "the sum of popularity: got 0"),
        ({"popularity": [[1.0]]}, "popularity: got shape (1, 1)"),
        ({"popularity": [1.0, 2.0], "sizes": [1.0]}, "sizes: got 1; allowed: 2"),
        ({"popularity": [1.0, 2.0], "sizes": [1.0, 0.0]}, "sizes[1]: got 0"),
        ({"sizes": [1.0]}, "sizes: got 1; allowed: none where popularity is a Zipf law"),
        ({"objects": None}, "objects: got nothing"),
        ({"objects": 0}, "objects: got 0"),
    ],
)
def test_what_is_wrong_with_hits_is_said(wrong: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"capacity": 1.0, "popularity": 0.8, "objects": 10, **wrong}
    if np.ndim(asked["popularity"]):
        asked["objects"] = None
    with pytest.raises(sw.ScalewrightError) as caught:
        sw.cache_hits(**asked)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"trace": [0.5]}, "trace: got [0.5]"),
        ({"trace": [-1]}, "trace: got [-1]"),
        ({"trace": [2**30]}, "trace: got 1073741824"),
        ({"capacity": 1.5}, "capacity: got 1.5"),
        ({"capacity": True}, "capacity: got True"),
        ({"policy": "mru"}, "policy: unknown name 'mru'"),
        ({"seed": -1}, "seed: got -1"),
        ({"sizes": [1]}, "sizes: got 1; allowed: 3 or more"),
        ({"sizes": [1, 0, 1]}, "sizes[1]: got 0"),
        ({"sizes": [1, 2**61, 1]}, "sizes[1]: got 2305843009213693952"),
    ],
)
def test_what_is_wrong_with_a_run_is_said(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(sw.ScalewrightError) as caught:
        sw.simulate_cache(**{"trace": [0, 1, 2], "capacity": 2, **wrong})
    assert said in str(caught.value)
