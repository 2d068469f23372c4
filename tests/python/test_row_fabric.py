"""Which nodes and network do a row's words give the usual server of a device?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright.catalog import load_system
from scalewright.reproductions.fabric import as_told, fabric_in
from scalewright.reproductions.machine import Machines, machine_of
from scalewright.reproductions.pricing import Pricing
from scalewright.reproductions.reading import Row
from scalewright.reproductions.setting import setting_of

CELLS = {
    "paper": "a table",
    "devices": "32",
    "model": "Llama 2 7B",
    "sequence": "4096",
    "global_batch": "128",
    "metric": "step_time_s",
    "unit": "s",
    "value": "10",
}
SERVER = load_system("dgx-a100-80gb")


def system(hardware: str, **cells: str) -> dict[str, Any]:
    """Return the system that a row runs on."""
    return machine_of(Row("own.csv", 2, CELLS | {"hardware": hardware} | cells), Machines()).system


def per_device(fields: dict[str, Any]) -> str:
    """Return a system's rate of a device between nodes."""
    return str(fields["levels"][-1]["bandwidth"])


@pytest.mark.parametrize(
    ("said", "node", "rate", "adapters"),
    [
        ("8x V100-SXM2-16GB per node, InfiniBand 100 Gb/s (4X EDR)", 8, 100e9, 1),
        ("A100-80GB, 8 GPUs per node, 4x200Gbps RDMA", 8, 800e9, 4),
        ("A100-80GB, 8 GPUs/node, 4 x HDR InfiniBand", 8, 800e9, 4),
        ("A100-80GB, 2 Tb/s RoCE per node", None, 2e12, None),
        ("A100 (four nodes of 4), 100 GB/s between nodes", 4, 800e9, None),
        ("H100, NVLink 900 GB/s, 25 GbE", None, 25e9, 1),
        ("H100 80GB HBM3 3.35 TB/s", None, None, None),
        ("A800, 400 GB/s NVLink", None, None, None),
        ("2 nodes 8 A100 GPUs per node", 8, None, None),
        ("A100 x4 per node", 4, None, None),
        ("V100, GPUs per node: 4", 4, None, None),
        ("A100, 64 GB per node, 16 cores per node", None, None, None),
        ("8/node A100", 8, None, None),
        ("A100, 2 CPUs a node, 2 x 25 GbE", None, 50e9, 2),
        ("A100, 400 Gb/s per host", None, 400e9, None),
        ("A100, 2x 200 Gb/s storage, 8 per host", 8, None, None),
        ("H100, InfiniBand 8 HCAs per node", None, None, None),
        ("H100, Meta 400 Gb/s RoCE and IBM 3.2 Tb/s InfiniBand", None, None, None),
        ("H100, 8-GPU nodes, HDR200 x 8", 8, None, None),
    ],
)
def test_words_of_nodes_and_networks(
    said: str, node: int | None, rate: float | None, adapters: int | None
) -> None:
    found = fabric_in(said)
    assert (found.devices_per_node, found.bits_per_s, found.adapters) == (node, rate, adapters)


def test_a_usual_server_has_what_its_row_says() -> None:
    told = system("V100 16GB, 4 per node, 100 Gb/s InfiniBand per node")
    assert told["devices_per_node"] == 4
    assert told["levels"][0]["devices"] == 4
    assert per_device(told) == "25 Gb/s"


def test_a_column_says_it_as_the_hardware_does() -> None:
    told = system("A100-SXM4-80GB", per_node="4", fabric="2x 200 Gb/s HDR")
    assert (told["devices_per_node"], per_device(told)) == (4, "100 Gb/s")
    assert told["levels"][-1]["adapters"] == 2


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        ("H100", "H100, 400 Gb/s InfiniBand, 8 per node"),
        ("H100", "H100, 8x 400 Gb/s InfiniBand"),
        ("H100", "H100, 3.2 Tb/s RoCE"),
        ("H100", "H100, 50 GB/s RDMA per GPU"),
        ("V100", "V100, 8 per node, 4x EDR InfiniBand"),
    ],
)
def test_what_a_server_has_anyway_changes_nothing(hardware: str, said: str) -> None:
    assert system(said) == system(hardware)


@pytest.mark.parametrize("said", ["Perlmutter", "Frontier", "p4d.24xlarge", "TPU v4", "GB200"])
def test_a_machine_that_is_named_keeps_what_it_has(said: str) -> None:
    assert system(f"{said}, 2 per node, 10 Gb/s Ethernet") == system(said)


def test_a_single_device_a_node_meets_others_over_the_network_alone() -> None:
    told = system("A100-SXM4-80GB, 1 GPU per node, 200 Gb/s InfiniBand per node")
    assert told["devices_per_node"] == 1
    assert [level["kind"] for level in told["levels"]] == ["fat-tree"]


def test_a_slower_network_takes_no_less_time() -> None:
    """Monotone in bandwidth: half the rate between nodes never makes a step shorter."""
    times: list[float] = []
    for rate in (1600, 800, 400, 200, 100, 10):
        hardware = f"A100-SXM4-80GB, 8 per node, {rate} Gb/s RDMA between nodes"
        cells = CELLS | {"hardware": hardware, "micro_batch": "1", "tensor": "1", "pipeline": "1"}
        cells |= {"data": "32", "zero": "3", "recompute": "full"}
        priced = Pricing().price(setting_of(Row("own.csv", 2, cells), Machines()))
        times.append(priced.fields()["step_time_s"])
    assert times == sorted(times)
    assert times[-1] > 1.5 * times[0]


@given(st.text(alphabet="0123456789xX*., /GTgtbBps()perandnodeofIBHDR\u00d7 ", max_size=60))
def test_any_words_are_read_or_passed_over(words: str) -> None:
    """No text raises, a rate is above nothing, and adapters are not more than devices."""
    found = fabric_in(words)
    assert found.bits_per_s is None or found.bits_per_s > 0.0
    fields, notes = as_told(SERVER, words, None)
    assert (fields is SERVER) == (not notes)
    assert 1 <= fields["devices_per_node"] <= 16
    assert fields["levels"][-1].get("adapters", 1) <= fields["devices_per_node"]
