"""Do the times of collectives broadcast, explain themselves and keep the laws?"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw
from scalewright.catalog import load_system
from scalewright.catalog import names as names_of

if TYPE_CHECKING:
    from pathlib import Path

H100 = sw.system("dgx-h100", 256)
TORUS = sw.system("tpu-v4", 64)
NAMES = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]
sizes = st.floats(1.0, 1e11)
names = st.sampled_from(NAMES)
counts = st.sampled_from([2, 4, 8, 16, 64, 256])


@given(name=names, few=st.lists(sizes, min_size=1, max_size=5), ranks=counts)
def test_an_array_is_its_elements(name: str, few: list[float], ranks: int) -> None:
    together = sw.collective(name, few, H100, ranks).time_s
    alone = [float(sw.collective(name, size, H100, ranks).time_s) for size in few]
    assert together.tolist() == alone


@given(
    name=names,
    few=st.lists(sizes, min_size=1, max_size=4),
    ranks=st.lists(counts, min_size=1, max_size=4),
    rates=st.lists(st.floats(1e9, 1e12), min_size=1, max_size=4),
)
def test_bytes_ranks_and_rates_broadcast(
    name: str, few: list[float], ranks: list[int], rates: list[float]
) -> None:
    column, layer = np.array(few)[:, None, None], np.array(ranks)[:, None]
    answer = sw.collective(name, column, H100, layer, bandwidth_bytes_per_s=rates)
    assert answer.time_s.shape == (len(few), len(ranks), len(rates))
    for i, size in enumerate(few):
        for j, members in enumerate(ranks):
            for k, rate in enumerate(rates):
                one = sw.collective(name, size, H100, members, bandwidth_bytes_per_s=rate)
                assert answer.time_s[i, j, k] == one.time_s


@given(name=names, size=sizes, ranks=counts, rate=st.floats(1e9, 1e12))
def test_a_faster_link_never_makes_a_collective_slower(
    name: str, size: float, ranks: int, rate: float
) -> None:
    rates = rate * np.array([1.0, 1.5, 4.0])
    times = sw.collective(name, size, H100, ranks, bandwidth_bytes_per_s=rates).time_s
    assert np.all(np.diff(times) <= times[0] * 1e-12)


@given(name=names, size=sizes, ranks=counts, system=st.sampled_from([H100, TORUS]))
def test_winner_runner_up_and_bound_stand_in_order(
    name: str, size: float, ranks: int, system: sw.System
) -> None:
    answer = sw.collective(name, size, system, min(ranks, system.devices))
    assert answer.lower_bound_s <= answer.time_s * (1 + 1e-12)
    assert answer.time_s <= answer.runner_up_time_s
    assert answer.relative_gap >= -1e-12
    assert str(answer.binding) in {"latency", "injection", "bisection", "memory"}
    assert answer.bus_bandwidth_bytes_per_s > 0


@given(name=names, ranks=counts)
def test_the_winner_changes_only_at_a_crossover(name: str, ranks: int) -> None:
    whole = sw.collective(name, 1e6, H100, ranks)
    edges = [1.0, *(found.bytes for found in whole.crossovers()), 1e12]
    assert edges == sorted(edges)
    for below, above in itertools.pairwise(edges):
        inside = np.geomspace(below * 1.0001, above * 0.9999, 5)
        answer = sw.collective(name, inside, H100, ranks)
        spelt = set(zip(answer.algorithm.tolist(), answer.protocol.tolist(), strict=True))
        assert len(spelt) == 1


@given(name=names, size=sizes, ranks=counts)
def test_the_best_is_the_least_of_its_lines(name: str, size: float, ranks: int) -> None:
    answer = sw.collective(name, size, H100, ranks)
    lines = [line.fixed_s + size * line.seconds_per_byte for line in answer.lines()]
    assert float(answer.time_s) == pytest.approx(min(lines), rel=1e-12)


@given(name=names, size=sizes, ranks=counts, protocol=st.sampled_from(["LL", "LL128", "Simple"]))
def test_a_forced_protocol_is_never_faster_than_the_choice(
    name: str, size: float, ranks: int, protocol: str
) -> None:
    forced = sw.collective(name, size, H100, ranks, protocol=protocol)
    assert forced.time_s >= sw.collective(name, size, H100, ranks).time_s


@given(size=st.floats(1e6, 1e11), ranks=counts)
def test_in_place_is_never_slower(size: float, ranks: int) -> None:
    outside = sw.collective("all_gather", size, H100, ranks)
    assert sw.collective("all_gather", size, H100, ranks, in_place=True).time_s <= outside.time_s


def test_forbidding_the_winner_leaves_the_next() -> None:
    best = sw.collective("all_reduce", 1e9, H100, 8)
    winner = str(best.algorithm)
    other = sw.collective("all_reduce", 1e9, H100, 8, forbid=winner)
    assert str(other.algorithm) != winner
    assert other.time_s > best.time_s


@settings(max_examples=30)
@given(size=st.floats(1e3, 1e10), ranks=st.sampled_from([2, 4, 8, 16]))
def test_equal_parts_cost_what_an_even_all_to_all_costs(size: float, ranks: int) -> None:
    parts = np.full((ranks, ranks), size / ranks)
    even = float(sw.collective("all_to_all", size, H100, ranks).time_s)
    assert sw.uneven_all_to_all(parts, H100).time_s == pytest.approx(even, rel=1e-9)


def test_a_busy_expert_is_named() -> None:
    parts = np.ones((8, 8)) * 1e6
    parts[:, 3] = 5e6
    answer = sw.uneven_all_to_all(parts, H100)
    assert answer.busiest_rank == 3
    assert answer.time_s > sw.uneven_all_to_all(np.ones((8, 8)) * 1e6, H100).time_s


def test_a_parameter_server_takes_its_number_of_servers() -> None:
    one, four = (
        sw.collective("all_reduce", 1e9, H100, 8, algorithms=f"parameter_server:{servers}").time_s
        for servers in (1, 4)
    )
    assert four < one


def test_numpy_takes_the_answer_for_its_times() -> None:
    answer = sw.collective("all_reduce", [1e6, 1e9], H100, 8)
    assert np.array_equal(np.asarray(answer), answer.time_s)


def test_a_name_stands_for_a_system_of_the_size_needed() -> None:
    named = sw.collective("all_reduce", 1e9, "dgx-h100", [8, 16]).time_s
    assert named.shape == (2,)
    assert named[0] == sw.collective("all_reduce", 1e9, H100, 8).time_s


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ranks": 0}, "ranks"),
        ({"ranks": 2.5}, "ranks"),
        ({"ranks": [8, 512]}, "below 256 devices"),
        ({"bandwidth_bytes_per_s": 0.0}, "bandwidth_bytes_per_s"),
        ({"bandwidth_bytes_per_s": -1.0}, "bandwidth_bytes_per_s"),
        ({"bandwidth_bytes_per_s": float("nan")}, "bandwidth_bytes_per_s"),
        ({"buffer_bytes": [1.0, 2.0], "ranks": [2, 4, 8]}, "shapes"),
        ({"algorithms": "rinng"}, "ring"),
        ({"algorithms": "parameter_server:none"}, "whole number"),
        ({"algorithms": "ring:3"}, "count after"),
        ({"algorithms": "recursive_doubling", "name": "all_gather", "ranks": 6}, "power of two"),
        ({"protocol": "LL129"}, "known: low_latency"),
        ({"level": "nvswich"}, "nearest: nvswitch"),
        ({"forbid": ["ring", "tree", "in_network"]}, "forbid"),
        ({"name": "allreduce"}, "all_reduce"),
        ({"protocol": "LL", "algorithms": "in_network"}, "protocol"),
        ({"forbid": "rinng"}, "forbid: unknown name 'rinng'; nearest: ring"),
        ({"forbid": "ring:3"}, "forbid: got ring:3"),
        (
            {"protocol": "LL", "algorithms": ["ring", "in_network"], "forbid": "ring"},
            "protocol: got low_latency; allowed: a protocol of the algorithms that are left",
        ),
        ({"name": "all\ud800"}, r"collective: got 'all\\ud800'; allowed: text"),
        ({"algorithms": ["ring", "\ud800"]}, r"algorithms\[1\]: got '\\ud800'"),
        ({"stride": np.True_}, "stride"),
        ({"stride": np.float64(1.0)}, "stride"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(changed: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"name": "all_reduce", "buffer_bytes": 1e6, "system": H100, "ranks": 8}
    with pytest.raises(sw.ScalewrightError, match=said):
        sw.collective(**(asked | changed))


def test_whole_numbers_of_numpy_count_as_whole_numbers() -> None:
    plain = sw.collective("all_reduce", 1e6, H100, 8, stride=8).time_s
    assert sw.collective("all_reduce", 1e6, H100, np.int64(8), stride=np.uint8(8)).time_s == plain  # pyright: ignore[reportArgumentType]
    run = sw.simulate_collective("all_reduce", 1e6, H100, np.int32(8), algorithm="ring")  # pyright: ignore[reportArgumentType]
    assert run == sw.simulate_collective("all_reduce", 1e6, H100, 8, algorithm="ring")
    one = sw.compressed_all_reduce("int8", 1e6, H100, np.int64(16))  # pyright: ignore[reportArgumentType]
    assert one == sw.compressed_all_reduce("int8", 1e6, H100, 16)
    parts = np.full((4, 4), 1e6)
    uneven = sw.uneven_all_to_all(parts, H100, stride=np.int64(2))  # pyright: ignore[reportArgumentType]
    assert uneven == sw.uneven_all_to_all(parts, H100, stride=2)


@pytest.mark.parametrize("matrix", [[[1.0, 2.0]], [[1.0, -2.0], [1.0, 1.0]], "x", []])
def test_a_matrix_that_is_none_is_refused(matrix: Any) -> None:
    with pytest.raises(sw.ScalewrightError, match="byte"):
        sw.uneven_all_to_all(matrix, H100)


def test_few_channels_bound_rings_and_enough_do_not(tmp_path: Path) -> None:
    file = tmp_path / "few.toml"

    def ring(count: int) -> float:
        file.write_text(
            'kind = "system"\nbase = "dgx-h100"\n[[levels]]\nname = "nvswitch"\n'
            f'[levels.library]\nchannels = {{ count = {count}, bandwidth = "36.7 GB/s" }}\n'
            '[sources]\n"levels.nvswitch.library.channels" = "this test"\n'
        )
        system = sw.system("dgx-h100", 8, overrides=[file])
        return float(sw.collective("all_reduce", 1e10, system, 8, algorithms="ring").time_s)

    usual = float(sw.collective("all_reduce", 1e10, H100, 8, algorithms="ring").time_s)
    assert ring(24) == usual
    assert ring(100) == usual
    assert ring(2) == pytest.approx(2 * ring(4), rel=0.05)
    assert ring(4) > 2 * usual


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_without_peer_to_peer_all_passes_the_host(name: str) -> None:
    answer = sw.collective(name, [1e3, 1e9], "rtx-4090-node", 8)
    assert set(answer.algorithm.tolist()) == {"host_staged"}
    ring = sw.collective(name, 1e9, "l40s-node", 2).time_s
    assert answer.time_s[1] > ring
    with pytest.raises(sw.ScalewrightError, match="memory"):
        sw.collective("all_reduce", 1e6, "rtx-4090-node", 8, algorithms="one_shot")


@pytest.mark.parametrize("name", ["rtx-5090-node", "rtx-4090-node", "rtx-3090-node"])
def test_ways_through_the_host_are_no_faster_than_a_device_s_own_link(name: str) -> None:
    size, ranks = 1e9, 4
    link = load_system(name)["levels"][0]
    rate, unit = link["bandwidth"].split()
    assert unit == "GB/s"
    reach = float(rate) * 1e9 * link["efficiency"]
    answer = sw.collective("all_reduce", size, name, ranks, algorithms="host_staged")
    assert float(answer.time_s) >= 2 * (ranks - 1) / ranks * size / reach


@pytest.mark.parametrize("name", ["a100-pcie-80gb-node", "rtx-4090-node", "v100-pcie-32gb-node"])
def test_between_the_sockets_of_a_server_less_is_reached_than_in_one(name: str) -> None:
    one, both = (sw.collective("all_reduce", 1e9, name, ranks).time_s for ranks in (4, 8))
    # a ring of eight sends an eighth more; the rest is the way between the processors
    assert float(both) > 1.2 * float(one)


def test_peer_to_peer_is_a_matter_of_pcie_alone(tmp_path: Path) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(
        'kind = "system"\nbase = "dgx-h100"\n[[levels]]\nname = "nvswitch"\npeer_to_peer = false\n'
    )
    with pytest.raises(sw.ScalewrightError, match="peer_to_peer"):
        sw.system("dgx-h100", 8, overrides=[file])


@pytest.mark.parametrize("wrong", [np.array([1 + 2j]), np.array(["2020-01-01"], "M8[D]")])
def test_what_is_no_amount_is_refused(wrong: Any) -> None:
    with pytest.raises(sw.ScalewrightError, match=r"buffer_bytes: got .*; allowed: numbers"):
        sw.collective("all_reduce", wrong, H100, 8)


@pytest.mark.parametrize("field", ["algorithms", "forbid"])
def test_a_number_is_no_list_of_names(field: str) -> None:
    rules: dict[str, Any] = {field: 5}
    with pytest.raises(sw.ScalewrightError, match=f"{field}: got 5; allowed: names"):
        sw.collective("all_reduce", 1e6, H100, 8, **rules)


@pytest.mark.parametrize("algorithm", [None, "host_reduce", "host_staged", "one_shot", "ramp"])
def test_nothing_on_any_system_of_the_catalog_beats_its_bound(algorithm: str | None) -> None:
    priced = 0
    for name in names_of("system"):
        for ranks in (2, 3, 8, 31, 64):
            for collective in NAMES:
                try:
                    answer = sw.collective(
                        collective, [1.0, 1e6, 1e12], name, ranks, algorithms=algorithm
                    )
                except sw.ScalewrightError:
                    continue
                assert np.all(answer.relative_gap >= -1e-9), (
                    name,
                    ranks,
                    collective,
                    answer.relative_gap,
                )
                assert np.all(np.isfinite(answer.time_s))
                priced += 1
    assert priced > 0


def test_forbidding_an_algorithm_forbids_all_its_counts() -> None:
    with pytest.raises(sw.ScalewrightError, match="forbid"):
        sw.collective(
            "all_reduce",
            1e6,
            H100,
            8,
            algorithms="parameter_server:4",
            forbid="parameter_server",
        )


def test_a_group_larger_than_any_machine_is_priced_at_once() -> None:
    started = time.monotonic()
    answer = sw.collective("all_reduce", 1e6, "dgx-h100", [2**32 - 1, 2**31 + 5])
    assert np.all(np.isfinite(answer.time_s))
    assert time.monotonic() - started < 20.0, "a hang, not a slow machine"


@settings(max_examples=60, deadline=None)
@given(
    operation=st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "broadcast"]),
    ranks=st.integers(2, 24),
    stride=st.integers(1, 40),
    size=st.sampled_from([1e4, 1e6, 6e8]),
)
def test_no_group_beats_its_bound_whatever_its_stride(
    operation: str, ranks: int, stride: int, size: float
) -> None:
    found = sw.collective(operation, size, "dgx-h100", ranks, stride=stride)
    assert found.time_s >= found.lower_bound_s * (1.0 - 1e-9)


def test_a_group_is_priced_alike_with_and_without_the_devices_behind_it() -> None:
    for stride in (5, 10, 12):
        whole = sw.system("dgx-h100", 4 * stride)
        alone = sw.collective("all_gather", 6e8, "dgx-h100", 4, stride=stride)
        assert alone.time_s == sw.collective("all_gather", 6e8, whole, 4, stride=stride).time_s


def test_links_that_all_groups_fill_slow_rings_and_trees_alone(tmp_path: Path) -> None:
    """`busy_share` multiplies the rate of what the page says, from two nodes on; nothing else."""
    free = tmp_path / "free.toml"
    text = ["kind = 'system'", "base = 'dgx-a100-80gb'", "name = 'free'", "[[levels]]"]
    free.write_text("\n".join([*text, "name = 'hdr-infiniband'", "library.busy_share = 1.0"]))
    machines = [sw.system("dgx-a100-80gb", 128), sw.system("free", 128, overrides=[str(free)])]

    def gain(name: str, ranks: int, **rules: str) -> float:
        busy, whole = (
            float(sw.collective(name, 1e12, of, ranks, stride=8, **rules).time_s) for of in machines
        )
        return whole / busy

    for ranks in (2, 16):
        assert gain("all_reduce", ranks, algorithms="ring") == pytest.approx(0.677, rel=1e-3)
    assert gain("all_reduce", 16, algorithms="tree") == pytest.approx(0.677, rel=1e-3)
    for name, ranks in (("send_receive", 2), ("all_to_all", 16), ("gather", 16)):
        assert gain(name, ranks) == 1
    assert gain("all_reduce", 16, algorithms="halving_doubling") == 1
    beside = [sw.collective("all_reduce", 1e9, of, 128) for of in machines]
    assert beside[0].lower_bound_s == beside[1].lower_bound_s
    # ranks side by side have the links to themselves
    assert beside[0].time_s == beside[1].time_s
