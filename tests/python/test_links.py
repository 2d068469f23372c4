"""Do collectives over links given pair by pair hold their laws from Python?"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw

NAMES = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce"]
few = settings(max_examples=50, deadline=None)


@st.composite
def worlds(draw: st.DrawFn, most: int = 6) -> tuple[Any, Any]:
    ranks = draw(st.integers(2, most))
    seeds = np.random.default_rng(draw(st.integers(0, 2**32)))
    rates = 10 ** seeds.uniform(6, 10, (ranks, ranks))
    return rates, 10 ** seeds.uniform(-6, -1, (ranks, ranks))


@few
@given(worlds(), st.floats(1, 1e10))
def test_the_ring_is_the_best_of_all_orders(world: tuple[Any, Any], size: float) -> None:
    rates, latencies = world
    ranks = len(rates)
    found = sw.collective_on_links("all_gather", size, rates, latencies, algorithm="ring")
    hop = latencies + size / ranks / rates
    best = min(
        max(hop[order[i - 1], order[i]] for i in range(ranks))
        for order in itertools.permutations(range(ranks))
    )
    assert found.time_s == pytest.approx((ranks - 1) * best)
    assert hop[found.slowest_link] == pytest.approx(best)
    assert sorted(found.order) == list(range(ranks))
    assert found.is_exact


@few
@given(worlds(), st.floats(0, 1e10), st.sampled_from(NAMES), st.booleans())
def test_answers_are_finite_and_above_their_bound(
    world: tuple[Any, Any], size: float, name: str, has_ports: bool
) -> None:
    ports = {"port_out_bytes_per_s": 1e8, "port_in_bytes_per_s": [1e8] * len(world[0])}
    found = sw.collective_on_links(name, size, *world, **(ports if has_ports else {}))
    assert 0 < found.lower_bound_s <= found.time_s * (1 + 1e-9)
    assert math.isfinite(found.time_s)
    assert found.relative_gap == pytest.approx(found.time_s / found.lower_bound_s - 1, abs=1e-9)
    alone = sw.collective_on_links(name, size, *world, algorithm=found.algorithm)
    assert alone.time_s <= found.time_s * (1 + 1e-9) or has_ports


def test_one_number_stands_for_all() -> None:
    even = sw.collective_on_links("all_reduce", 1e9, np.full((8, 8), 1e9), 1e-3, algorithm="ring")
    assert even.time_s == pytest.approx(14 * (1e-3 + 1e9 / 8 / 1e9))
    assert even.ranks == 8
    limited = sw.collective_on_links(
        "all_to_all", 8e9, np.full((8, 8), 1e9), 0.0, port_in_bytes_per_s=2e9
    )
    assert limited.time_s == pytest.approx(7e9 / 2e9)
    assert limited.relative_gap == pytest.approx(0)


def test_a_star_is_a_tree() -> None:
    rates = np.zeros((4, 4))
    rates[2, :] = rates[:, 2] = 1e9
    found = sw.collective_on_links("all_reduce", 1e9, rates, 0.01)
    assert found.algorithm == "tree"
    assert found.time_s == pytest.approx(2 * (1 + 0.01))
    assert found.edges == ((0, 2), (1, 2), (3, 2), (2, 0), (2, 1), (2, 3))
    # a port of the hub is shared by three
    shared = sw.collective_on_links("broadcast", 1e9, rates, 0.01, root=2, port_out_bytes_per_s=1e9)
    assert shared.time_s == pytest.approx(3 + 0.01)


def test_a_chain_is_given_by_its_ranks() -> None:
    rates = np.full((3, 3), 1e9)
    rates[1, 2] = 1e8
    assert sw.collective_on_links("send_receive", 1e9, rates).slowest_link == (1, 2)
    other = sw.collective_on_links("send_receive", 1e9, rates, chain=[2, 1, 0])
    assert other.time_s == pytest.approx(1)
    assert other.order == (2, 1, 0)
    latencies = [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    empty = sw.collective_on_links("send_receive", 0, rates, latencies, chain=[0, 1])
    assert (empty.time_s, empty.lower_bound_s, empty.relative_gap) == (1, 0, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bandwidth_bytes_per_s": [[1, 2, 3], [4, 5, 6]]}, "got shape"),
        ({"bandwidth_bytes_per_s": [[0, -1], [1, 0]]}, r"bandwidth_bytes_per_s\[0\]\[1\]: got -1"),
        ({"bandwidth_bytes_per_s": [[0, math.nan], [1, 0]]}, "got NaN"),
        ({"bandwidth_bytes_per_s": [[1]]}, "ranks: got 1; allowed: 2 to 512"),
        ({"bandwidth_bytes_per_s": np.ones((513, 513))}, "ranks: got 513"),
        ({"bandwidth_bytes_per_s": [[0, 1], [0, 0]]}, "rank 1 is not cut off"),
        ({"bandwidth_bytes_per_s": "fast"}, "allowed: numbers"),
        ({"latency_s": [[0, -1], [0, 0]]}, r"latency_s\[0\]\[1\]: got -1"),
        ({"latency_s": [0, 0, 0]}, "latency_s: got shape"),
        ({"port_out_bytes_per_s": 0}, r"port_out_bytes_per_s\[0\]: got 0"),
        ({"port_in_bytes_per_s": [1, 1, 1]}, "port_in_bytes_per_s: got shape"),
        ({"buffer_bytes": -1}, "buffer_bytes: got -1"),
        ({"buffer_bytes": math.nan}, "buffer_bytes: got nan"),
        ({"buffer_bytes": [1, 2]}, "buffer_bytes: got shape"),
        ({"name": "all_reduc"}, "nearest: all_reduce"),
        ({"name": "gather"}, "collective: got gather"),
        ({"name": 3}, "name: got 3"),
        ({"algorithm": "rin"}, "nearest: ring"),
        ({"algorithm": "bruck"}, "allowed: ring, tree, direct"),
        ({"root": 2}, "root: got 2"),
        ({"root": -1}, "root: got -1"),
        ({"chain": "01"}, "chain: got '01'"),
        ({"chain": [0, 0]}, r"chain\[1\]: got 0"),
        ({"chain": [0, 0.5]}, r"chain\[1\]: got 0.5"),
    ],
)
def test_wrong_input_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {
        "name": "all_reduce",
        "buffer_bytes": 1e6,
        "bandwidth_bytes_per_s": [[0, 1e9], [1e9, 0]],
    }
    with pytest.raises(sw.ScalewrightError, match=message):
        sw.collective_on_links(**{**plain, **change})
