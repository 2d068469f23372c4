"""Does the binding map errors, release the interpreter, report progress and stop when asked?"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import TOY_CLUSTER
from scalewright import CancelledError, InvalidError, ScalewrightError, UnknownNameError, version
from scalewright._engine import Cluster, Workload, collective_times

COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send_receive"]
LONG = np.full(4_000_000, 1e6)  # some tenths of a second of work, since each has a rate of its own
RATES = np.linspace(1e9, 1e12, LONG.size)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def times_of(
    cluster: Cluster,
    name: str,
    group: tuple[int, int],
    sizes: np.ndarray,
    rates: np.ndarray | None = None,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> np.ndarray:
    """Ask the engine about a group, given as the distance of its neighbours and its size."""
    stride, ranks = group
    request = json.dumps({"collective": name, "stride": stride})
    counts = np.array([ranks], np.uint32)
    return collective_times(cluster, request, sizes, counts, rates, progress=progress)


@pytest.fixture
def cluster(cluster_json: str) -> Cluster:
    return Cluster(cluster_json)


def test_version_is_that_of_the_package() -> None:
    assert version().count(".") == 2


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_never_gets_quicker_with_more_bytes(cluster: Cluster, name: str) -> None:
    size = 2 if name == "send_receive" else 8
    times = times_of(cluster, name, (1, size), np.geomspace(1, 1e10, 50))
    assert times.dtype == np.float64
    assert np.all(np.isfinite(times))
    assert np.all(np.diff(times) >= 0)
    assert times[-1] > times[0] > 0


def test_an_array_with_gaps_reads_as_its_elements(cluster: Cluster) -> None:
    sizes = np.arange(20.0) * 1e6
    every_third = times_of(cluster, "all_gather", (1, 8), sizes[::3])
    assert np.array_equal(every_third, times_of(cluster, "all_gather", (1, 8), sizes)[::3])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 1e31])
def test_a_number_of_bytes_that_cannot_be_is_invalid(cluster: Cluster, bad: float) -> None:
    with pytest.raises(InvalidError, match=r"buffer_bytes: got .*; allowed: 0 to 1e30") as caught:
        times_of(cluster, "all_reduce", (1, 8), np.array([1.0, bad]))
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("ranks", [8, 64])
def test_levels_read_out_in_full_price_the_same(
    cluster: Cluster, cluster_entry: dict[str, Any], ranks: int
) -> None:
    levels = json.loads(cluster.levels())
    assert [level["latency"] for level in levels] == pytest.approx([2e-6, 5e-6])
    assert all(level["library"]["simple"]["share"] == 1.0 for level in levels)
    cluster_entry["system"]["levels"] = levels
    again = Cluster(json.dumps(cluster_entry))
    sizes = np.geomspace(1, 1e10, 50)
    for name in COLLECTIVES[:4]:
        group = (1, ranks)
        assert np.array_equal(
            times_of(again, name, group, sizes), times_of(cluster, name, group, sizes)
        )


@pytest.mark.parametrize(("stride", "size"), [(0, 8), (1, 0), (1, 65), (8, 9), (2**32 - 1, 2)])
def test_a_group_that_leaves_the_cluster_is_invalid(
    cluster: Cluster, stride: int, size: int
) -> None:
    with pytest.raises(InvalidError, match="stride, ranks: got"):
        times_of(cluster, "all_reduce", (stride, size), np.ones(1))


def test_an_unknown_name_reads_as_a_sentence(cluster: Cluster) -> None:
    with pytest.raises(UnknownNameError) as caught:
        times_of(cluster, "allreduce", (1, 8), np.ones(1))
    assert isinstance(caught.value, KeyError)
    expected = "collective: unknown name 'allreduce'; nearest: all_reduce"
    assert str(caught.value).startswith(expected)


def test_a_wrong_field_is_named_by_its_path(cluster_entry: dict[str, Any]) -> None:
    cluster_entry["system"]["levels"][1]["bandwidth"] = "25 apples"
    with pytest.raises(ScalewrightError, match=r"^system\.levels\[1\]\.bandwidth: "):
        Cluster(json.dumps(cluster_entry))


def test_every_error_class_is_a_scalewright_error() -> None:
    for kind in [InvalidError, UnknownNameError, CancelledError]:
        assert issubclass(kind, ScalewrightError)
        assert str(kind("plain words")) == "plain words"


def refused_plainly(make: type[Cluster] | type[Workload], text: str) -> bool:
    """True where the text was refused; a bug of the engine would show as an internal error."""
    try:
        return not repr(make(text))
    except ScalewrightError as error:
        message = str(error)
    return "internal error" not in message


@pytest.mark.parametrize("make", [Cluster, Workload])
@given(text=st.text() | st.binary().map(lambda b: b.decode("latin-1")))
def test_text_that_is_no_config_is_refused(make: type[Cluster] | type[Workload], text: str) -> None:
    assert refused_plainly(make, text)


@pytest.mark.parametrize("make", [Cluster, Workload])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{}x", "\ud800", "null", '{"a":' * 200 + "}" * 200]
)
def test_odd_text_is_refused(make: type[Cluster] | type[Workload], text: str) -> None:
    assert refused_plainly(make, text)


@pytest.mark.parametrize("make", [Cluster, Workload])
@given(value=anything)
def test_json_that_is_no_config_is_refused(
    make: type[Cluster] | type[Workload], value: object
) -> None:
    assert refused_plainly(make, json.dumps(value))


def paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in nested tables and lists."""
    found = [path] if path else []
    if isinstance(value, dict):
        members: Any = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    else:
        members = ()
    for key, member in members:
        found += paths(member, (*path, key))
    return found


BUFFERS = np.array([0.0, 1.0, 1e30])
numbers = st.sampled_from(
    [0, -1, 1e-308, 1e-30, 1e30, 1e308, 2**32 - 1, 2**64, "0 B/s", "1e400 B/s", "-1 s"]
)


@given(path=st.sampled_from(paths(TOY_CLUSTER)), value=numbers | anything)
def test_one_wrong_value_gives_a_refusal_or_finite_times(
    path: tuple[str | int, ...], value: object
) -> None:
    entry: Any = json.loads(json.dumps(TOY_CLUSTER))
    place = entry
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    text = json.dumps(entry)
    if refused_plainly(Cluster, text):
        return
    cluster = Cluster(text)
    try:
        times = [times_of(cluster, name, (1, 2), BUFFERS) for name in COLLECTIVES]
    except InvalidError:  # a cluster of one device has no group of two
        return
    assert np.all(np.isfinite(times))
    assert np.all(np.array(times) >= 0)


def test_the_interpreter_runs_on_while_the_engine_works(cluster: Cluster) -> None:
    span: list[float] = []

    def work() -> None:
        span.append(time.perf_counter())
        times_of(cluster, "all_reduce", (1, 8), LONG, RATES)
        span.append(time.perf_counter())

    worker = threading.Thread(target=work)
    worker.start()
    ticks = []
    while worker.is_alive():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    middle = [tick for tick in ticks if span[0] < tick < span[1]]
    assert len(middle) >= 20


def test_ten_threads_get_what_one_gets(cluster: Cluster) -> None:
    sizes = np.geomspace(1, 1e10, 10_000)

    def times(name: str) -> np.ndarray:
        return times_of(cluster, name, (4, 2), sizes)

    alone = [times(name) for name in COLLECTIVES]
    with ThreadPoolExecutor(10) as pool:
        together = list(pool.map(times, COLLECTIVES * 10))
    for i, result in enumerate(together):
        assert np.array_equal(result, alone[i % len(COLLECTIVES)])


def test_progress_counts_up_to_the_total(cluster: Cluster) -> None:
    seen: list[tuple[int, int]] = []
    times_of(
        cluster,
        "all_reduce",
        (1, 8),
        LONG,
        RATES,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == sorted(seen)
    assert seen[-1] == (LONG.size, LONG.size)


def test_an_exception_in_progress_stops_the_work(cluster: Cluster) -> None:
    def fail(done: int, total: int) -> None:
        raise RuntimeError(done, total)

    with pytest.raises(RuntimeError, match=str(LONG.size)):
        times_of(cluster, "all_reduce", (1, 8), LONG, RATES, progress=fail)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_a_long_call(cluster: Cluster) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.01, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        times_of(cluster, "all_reduce", (1, 8), LONG, RATES)
    timer.join()
