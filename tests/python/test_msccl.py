"""Does a user's own algorithm run from Python, and is a wrong file refused with its line?"""

import json
from pathlib import Path

import pytest

from scalewright import InvalidError, ScalewrightError, UnknownNameError
from scalewright._engine import Cluster, simulate_msccl

DATA = Path(__file__).parent.parent / "data"
RING = (DATA / "msccl-ring-of-four.xml").read_text()
ALL_PAIRS = (DATA / "msccl-all-pairs-of-four.xml").read_text()


@pytest.fixture
def cluster(cluster_json: str) -> Cluster:
    return Cluster(cluster_json)


def test_a_ring_takes_its_closed_form(cluster: Cluster) -> None:
    run = json.loads(simulate_msccl(cluster, RING, 1e9))
    # six steps of a quarter each at 80 % of 300 GB/s, and 2 us a step
    expected = 6 * (1e9 / 4 / 240e9 + 2e-6)
    assert run["time_s"] == pytest.approx(expected, rel=1e-9)
    assert run["algorithm_bandwidth_bytes_per_s"] == pytest.approx(1e9 / expected, rel=1e-9)
    assert run["sent_bytes"] == pytest.approx(6e9)
    assert (run["algorithm"], run["collective"]) == ("ring-of-four", "allreduce")
    assert (run["ranks"], run["messages"]) == (4, 24)
    assert 0.99 < run["busiest_link_share"] <= 1.0


def test_all_pairs_are_quicker_where_steps_cost_most(cluster: Cluster) -> None:
    def time(xml: str, buffer_bytes: float) -> float:
        return json.loads(simulate_msccl(cluster, xml, buffer_bytes))["time_s"]

    assert time(ALL_PAIRS, 8.0) == pytest.approx(time(RING, 8.0) / 3, rel=1e-3)
    assert time(ALL_PAIRS, 1e10) == pytest.approx(time(RING, 1e10), rel=1e-3)


def test_a_wrong_file_is_refused_with_its_line(cluster: Cluster) -> None:
    with pytest.raises(ScalewrightError, match=r"^line 12: no well-formed XML"):
        simulate_msccl(cluster, RING.replace("</tb>", "</tub>", 1), 1e6)
    with pytest.raises(InvalidError, match=r"^line 5: step.cnt: got x; allowed: "):
        simulate_msccl(cluster, RING.replace('cnt="1"', 'cnt="x"', 1), 1e6)
    with pytest.raises(UnknownNameError, match=r"line 6: step.type: unknown name 'rsr'"):
        simulate_msccl(cluster, RING.replace('"rrs"', '"rsr"', 1), 1e6)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), 1e31])
def test_bytes_that_cannot_be_are_invalid(cluster: Cluster, bad: float) -> None:
    with pytest.raises(InvalidError, match="buffer_bytes: got"):
        simulate_msccl(cluster, RING, bad)
