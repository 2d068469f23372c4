"""Does a Ray cluster find what one process finds, also when a part of it dies on the way?"""

import os
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import scalewright as sw
from long_search import long_search, told
from scalewright import _engine
from scalewright.searching.ray_workers import RayWorkers

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="nodes of Ray on one machine"),
    # what Ray warns of is Ray's to mend
    pytest.mark.filterwarnings("ignore"),
]

TIMED = {"plans_priced", "plans_excluded_by_bound", "excluded", "rejected", "plans_feasible"}
"""Counts that tell which bound excluded a plan, and so what was known when it was looked at."""
SOON_GONE = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
"""A node that does not answer counts as dead after seconds, where Ray gives it fifteen."""
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


def answer(found: sw.Search) -> dict[str, Any]:
    """What a search tells, but for what depends on time."""
    return {name: value for name, value in told(found).items() if name not in TIMED}


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """What one process finds."""
    return answer(long_search())


@pytest.fixture(scope="module")
def client_port() -> int:
    """Where the client server of the cluster listens."""
    return free_port()


@pytest.fixture(scope="module")
def nodes(client_port: int) -> Iterator[Any]:
    """A cluster of two nodes with a core each, at first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True,
            head_node_args={
                **NODE,
                "ray_client_server_port": client_port,
                "_system_config": SOON_GONE,
            },
        )
        cluster.add_node(**NODE)
        yield cluster
        ray.shutdown()
        cluster.shutdown()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_two_nodes_find_what_one_process_finds(nodes: Any, alone: dict[str, Any]) -> None:
    seen: list[tuple[int, int]] = []
    found = long_search(
        ray_address=nodes.address, progress=lambda done, total: seen.append((done, total))
    )
    assert answer(found) == alone
    assert found.proven
    assert len({done for done, _ in seen}) > 3, "progress is shown"
    assert seen[-1][0] == seen[-1][1]


def test_a_node_that_dies_on_the_way_loses_nothing(nodes: Any, alone: dict[str, Any]) -> None:
    doomed = nodes.add_node(**NODE)
    killed: list[int] = []

    def progress(done: int, total: int) -> None:
        if not killed and done > total // 10:
            killed.append(done)
            nodes.remove_node(doomed, allow_graceful=False)

    found = long_search(ray_address=nodes.address, progress=progress)
    assert killed
    assert killed[0] < found.values["units"]
    assert answer(found) == alone
    assert found.values["units_walked"] == found.values["units"]


def test_groups_whose_worker_dies_too_often_for_ray_go_out_again(
    nodes: Any, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    brought = RayWorkers._brought
    lost: list[Any] = []

    def losing(self: RayWorkers, handle: Any, group: Any) -> Any:
        if len(lost) < 3 and group not in lost:
            lost.append(group)
            fails = ray.remote(max_retries=0)(lambda: os._exit(1)).remote()
            return brought(self, fails, group)
        return brought(self, handle, group)

    monkeypatch.setattr(RayWorkers, "_brought", losing)
    assert answer(long_search(ray_address=nodes.address)) == alone
    assert len(lost) == 3


def test_ctrl_c_and_a_checkpoint_go_on_in_one_process(
    nodes: Any, alone: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "search.json"

    def progress(done: int, total: int) -> None:
        if done > total // 3:
            raise KeyboardInterrupt

    stopped = long_search(ray_address=nodes.address, checkpoint=file, progress=progress)
    assert stopped.stopped
    assert not stopped.proven
    assert stopped.bound_s is not None
    assert stopped.bound_s <= alone["best"][0]["step_time_s"] <= stopped[0].step_time_s
    assert 0 < stopped.values["units_walked"] < stopped.values["units"]
    walked: list[int] = []
    found = long_search(checkpoint=file, progress=lambda done, _: walked.append(done))
    assert walked[0] == stopped.values["units_walked"]
    assert answer(found) == alone


def test_a_worker_of_another_version_is_refused(
    nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = _engine.version()
    monkeypatch.setattr(_engine, "version", lambda: "99.0.0")
    with pytest.raises(
        sw.ScalewrightError, match=f"a worker has scalewright {ours}; allowed: 99.0.0"
    ):
        long_search(ray_address=nodes.address)


@pytest.mark.usefixtures("nodes")
def test_the_address_of_a_client_server_serves_too(client_port: int, alone: dict[str, Any]) -> None:
    deadline = time.monotonic() + 30
    while socket.socket().connect_ex(("127.0.0.1", client_port)) and time.monotonic() < deadline:
        time.sleep(0.2)  # it starts behind the head
    assert answer(long_search(cluster=f"ray://127.0.0.1:{client_port}")) == alone


def serve(answering: Callable[[socket.socket], object]) -> str:
    """The address of a server that does something else than Ray."""
    server = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            answering(server.accept()[0])

    threading.Thread(target=accept, daemon=True).start()
    return f"127.0.0.1:{server.getsockname()[1]}"


HELD: list[socket.socket] = []
HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@pytest.mark.parametrize("prefix", ["ray://", ""])
@pytest.mark.parametrize(
    "address",
    [
        lambda: f"127.0.0.1:{free_port()}",
        lambda: "no-such-host.invalid:10001",
        lambda: serve(HELD.append),
        lambda: serve(lambda line: (line.sendall(HTTP), line.close())),
    ],
    ids=["closed", "unknown", "silent", "another"],
)
def test_an_address_that_does_not_answer_is_said_in_seconds(
    prefix: str, address: Callable[[], str]
) -> None:
    asked = prefix + address()
    start = time.monotonic()
    with pytest.raises(sw.ScalewrightError, match=f"no Ray cluster answers at '{asked}'"):
        long_search(cluster=asked)
    assert time.monotonic() - start < 12


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(sw.InvalidError, match=r"pip install 'scalewright\[ray\]'"):
        long_search(cluster="auto")


def test_where_no_cluster_runs_auto_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port()}")
    with pytest.raises(sw.ScalewrightError, match="no Ray cluster answers at '127"):
        long_search(ray_address="auto")
