"""Does no simulated algorithm beat the bound of a group, however the group lies on its fabric?"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import scalewright as sw
from scalewright.errors import ScalewrightError

NAMES = ("all_to_all", "all_reduce", "all_gather", "reduce_scatter")
ALGORITHMS = (
    *("ring", "pairwise", "tree", "hierarchical"),
    *("torus", "halving_doubling", "bruck"),
)
SIZE = 1e9


def simulated(name: str, system: Any, ranks: int) -> dict[str, float]:
    """Return the times of the algorithms that can be simulated on a group."""
    found: dict[str, float] = {}
    for algorithm in ALGORITHMS:
        with contextlib.suppress(ScalewrightError):
            answer = sw.simulate_collective(name, SIZE, system, ranks=ranks, algorithm=algorithm)
            found[algorithm] = answer.time_s
    return found


@pytest.mark.parametrize(
    ("name", "devices", "counts"),
    [
        ("aurora", 48, (2, 3, 4, 5, 8, 10, 12, 16, 18, 24)),
        ("trn1-32xlarge-cores", 64, (3, 4, 6, 12, 16, 24, 32)),
        ("frontier-gcd", 64, (2, 3, 5, 6, 8, 12, 24)),
        ("tpu-v4-4x4x4", 64, (3, 6, 12, 20, 24, 40, 48, 56, 64)),
        ("tpu-v5e", 256, (6, 12, 20, 24, 48, 80, 96)),
    ],
)
def test_no_simulated_algorithm_beats_the_bound(
    name: str, devices: int, counts: tuple[int, ...]
) -> None:
    system = sw.system(name, devices=devices)
    seen = 0
    for collective in NAMES:
        for ranks in counts:
            bound = float(sw.collective(collective, SIZE, system, ranks).lower_bound_s)
            for algorithm, time_s in simulated(collective, system, ranks).items():
                seen += 1
                assert time_s >= bound * (1 - 1e-9), (collective, ranks, algorithm)
    assert seen >= 2 * len(counts)


def test_planes_of_a_torus_are_a_box_and_no_line() -> None:
    """An all-to-all crosses the middle of the widest dimension, however many planes there are."""
    system = sw.system("tpu-v4", devices=4096)
    times = {
        ranks: float(sw.collective("all_to_all", SIZE, system, ranks).time_s)
        for ranks in (512, 768, 1024, 3072, 4096)
    }
    assert times[768] == pytest.approx(times[512], rel=0.01)
    # twelve of sixteen planes lie on a line whose ends are apart
    assert times[3072] == pytest.approx(1.5 * times[4096], rel=0.01)


@pytest.mark.parametrize("ranks", [6, 20, 24, 48, 56])
def test_members_that_fill_no_box_take_what_their_routes_take(ranks: int) -> None:
    system = sw.system("tpu-v4-4x4x4", devices=64)
    form = float(sw.collective("all_to_all", SIZE, system, ranks).time_s)
    witness = simulated("all_to_all", system, ranks)["torus"]
    assert witness * 0.99 <= form <= witness * 1.5
