"""Which nodes and network do a row's words give the usual server of a device?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright.catalog import load_system
from scalewright.reproductions.fabric import as_told
from scalewright.reproductions.fabric_words import fabric_in
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
        ("8x V100-SXM2-16GB per node, InfiniBand 100 Gb/s (4X EDR)", 8, 100e9, None),
        ("A100-80GB, 8 GPUs per node, 4x200Gbps RDMA", 8, 800e9, 4),
        ("A100-80GB, 8 GPUs/node, 4 x HDR InfiniBand", 8, 800e9, 4),
        ("A100-80GB, 2 Tb/s RoCE per node", None, 2e12, None),
        ("A100 (four nodes of 4), 100 GB/s between nodes", 4, 800e9, None),
        ("H100, NVLink 900 GB/s, 25 GbE", None, 25e9, None),
        ("H100, 3,200 Gbps EFA", None, 3.2e12, None),
        ("H100, 8 GPUs per node 400 Gb/s InfiniBand", 8, 400e9, None),
        ("H100, NVLink 900 GB/s / InfiniBand 400 Gb/s", None, 400e9, None),
        ("A100, NVLink 600GB/s intra-node/200Gb/s inter-node", None, 200e9, None),
        ("H100, eight 400 Gbps NICs per node", None, 3.2e12, 8),
        ("H100 8x 400 Gb/s NICs - one NIC per GPU", None, 3.2e12, 8),
        ("A100, 100 Gbps per NIC, 8 NICs per node", None, 800e9, 8),
        ("V100, 4 HCAs (100 Gb/s each)", None, 400e9, 4),
        ("MI300X, 4 NICs of 25 GB/s per node", None, 800e9, 4),
        ("A100, 50 GB/s bidirectional per GPU over InfiniBand", None, 200e9, None),
        ("A100, 8 NICs x 100 Gb/s", None, 800e9, 8),
        ("A100, two 100 Gb/s ports", None, 200e9, 2),
        ("A100, 100 Gb/s x 4", None, 400e9, 4),
        ("A100, 100 Gb/s/GPU RoCE", None, 100e9, None),
        ("A100, 100G RoCE", None, 100e9, None),
        ("2 nodes 8 A100 GPUs per node", 8, None, None),
        ("A100 x4 per node", 4, None, None),
        ("1 node with 16 Nvidia V100 GPUs", 16, None, None),
        ("four 16GB V100 GPUs per node", 4, None, None),
        ("V100, GPUs per node: 4", 4, None, None),
        ("8/node A100", 8, None, None),
        ("A100, 2 CPUs a node, 2 x 25 GbE", None, 50e9, 2),
        ("A100, 400 Gb/s per host", None, 400e9, None),
        ("H100, 8-GPU nodes, HDR200 x 8", 8, None, None),
        ("A100, 2x 200 Gb/s storage, 8 per host", 8, None, None),
    ],
)
def test_words_of_nodes_and_networks(
    said: str, node: int | None, rate: float | None, adapters: int | None
) -> None:
    found = fabric_in(said)
    assert found.devices_per_node == node
    assert (found.rate and found.rate.bits_per_s) == rate
    assert (found.rate and found.rate.adapters) == adapters


@pytest.mark.parametrize(
    "said",
    [
        "H100 80GB HBM3 3.35 TB/s",
        "H100, 95 GiB",
        "A800, 400 GB/s NVLink",
        "A100, connected by NVLink (4.8 Tb/s per GPU)",
        "A100, NVSwitch with 4.8 Tbps per GPU, HDR IB",
        "H100, NVLink Switch network 900 GB/s",
        "V100 PCIe 3.0 x16, 128 Gbps",
        "8x A100 80G RoCE cluster",
        "A100-40G RDMA network",
        "H100, storage network 100 Gb/s",
        "A100, 2x 100 Gb/s to the file system",
        "H100, Quantum-2 InfiniBand switches (25.6 Tb/s)",
        "RTX 2080 Ti, 14 Gbps effective",
        "RTX 4090, 24GB, 21 Gbps",
        "Gaudi2, 600 GB/s RoCE in-server",
        "Gaudi2, 24x100GbE RoCE per accelerator",
        "A100, 64 GB per node, 16 cores per node",
        "P100, 16 GB GPU memory per node",
        "V100, 2 Mellanox cards per node",
        "H100, 2 GPU trays per server",
        "V100, nodes of 10 cores",
        "V100, nodes of 16 cores with GPUs",
        "H100, InfiniBand 8 HCAs per node",
        "H100, Meta 400 Gb/s RoCE and IBM 3.2 Tb/s InfiniBand",
    ],
)
def test_words_of_other_things_say_nothing(said: str) -> None:
    assert fabric_in(said) == (None, None)


def test_a_usual_server_has_what_its_row_says() -> None:
    told = system("V100 16GB, 4 per node, 100 Gb/s InfiniBand per node")
    assert told["devices_per_node"] == 4
    assert told["levels"][0]["devices"] == 4
    assert per_device(told) == "25 Gb/s"


@pytest.mark.parametrize("hardware", ["A100-SXM4-80GB", "A100 80GB", "A100"])
def test_a_column_says_it_as_the_hardware_does(hardware: str) -> None:
    told = system(hardware, per_node="4", fabric="2x 200 Gb/s HDR")
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
        ("H100", "H100 SXM, NVLink intra-node and 400 Gb/s InfiniBand inter-node"),
        ("A100", "A100 80GB, inter-node 200 Gb/s HDR InfiniBand"),
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


@pytest.mark.parametrize("rate", ["25 GB/s", "25GB/s", "0.2 Tb/s", "200000 Mb/s", 25e9])
def test_a_users_rate_is_read_as_the_engine_reads_it(rate: object) -> None:
    levels = [SERVER["levels"][0], {**SERVER["levels"][1], "bandwidth": rate}]
    mine = {**SERVER, "levels": levels}
    assert as_told(mine, "A100, 200 Gb/s per GPU", None) == (mine, ())
    assert as_told(mine, "A100, 800 Gb/s per node", None)[1]


@pytest.mark.parametrize("rate", ["fast", "", "1.2.3 GB/s", None, [25]])
def test_a_users_rate_that_is_none_is_left_to_the_engine(rate: object) -> None:
    levels = [SERVER["levels"][0], {**SERVER["levels"][1], "bandwidth": rate}]
    mine = {**SERVER, "levels": levels}
    assert as_told(mine, "A100, 4 per node, 100 Gb/s", None) == (mine, ())


@pytest.mark.parametrize("levels", [None, "two", [], [{}, {}], ["a", "b"], [{}, 3]])
def test_levels_that_are_none_are_left_to_the_engine(levels: object) -> None:
    mine = {**SERVER, "levels": levels}
    assert as_told(mine, "A100, 4 per node, 100 Gb/s", None) == (mine, ())


def test_a_slower_network_takes_no_less_time() -> None:
    """Monotone in bandwidth: half the rate between nodes never makes a step shorter."""
    times: list[float] = []
    for rate in (1600, 800, 400, 200, 100, 10):
        hardware = f"A100-SXM4-80GB, 8 per node, {rate} Gb/s RDMA per node"
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
    assert found.rate is None or found.rate.bits_per_s > 0.0
    fields, notes = as_told(SERVER, words, None)
    assert (fields is SERVER) == (not notes)
    assert 1 <= fields["devices_per_node"] <= 16
    assert fields["levels"][-1].get("adapters", 1) <= fields["devices_per_node"]


@pytest.mark.parametrize(
    "cells",
    [{"hardware": "1 node with 16 Nvidia V100 GPUs"}, {"hardware": "V100", "per_node": "16"}],
)
def test_sixteen_v100_of_a_node_are_a_dgx_2(cells: dict[str, str]) -> None:
    assert system(**cells)["name"] == "dgx-2"
    assert system("16x V100")["name"] == "dgx-1-v100"
