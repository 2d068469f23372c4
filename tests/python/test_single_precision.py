"""Are products in fp32 and tf32 priced by the engine that runs them?"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pytest

import scalewright as sw
from scalewright.catalog import load_device, names
from scalewright.reproductions.kernels import run

WIDE = {"kernel": "matmul", "a": "fp32", "b": "fp32", "output": "fp32"}
NARROW = {"kernel": "matmul", "a": "fp16", "b": "fp16", "output": "fp16"}


def rate(text: str) -> float:
    value, unit = text.split()
    return float(value) * {"TFLOP/s": 1e12, "PFLOP/s": 1e15}[unit]


def stepped() -> list[dict[str, Any]]:
    """Devices whose products in fp32 have overheads of their own."""
    tables = [load_device(name) for name in names("device")]
    return [table for table in tables if "fp32" in table.get("matmul", {}).get("families", {})]


def test_overheads_of_fp32_take_the_seconds_of_those_in_16_bits() -> None:
    """A unit that multiplies more slowly waits as long; a tile's operands are twice as wide."""
    found = stepped()
    assert len(found) > 60
    for table in found:
        matrix, matmul = table["matrix"], table["matmul"]
        narrow = rate(matrix.get("bf16") or matrix["fp16"])
        share = rate(matrix.get("fp32") or table["vector"]) / narrow
        own = matmul["families"]["fp32"]
        assert own["tile_overhead"] == pytest.approx(2 * share * matmul["tile_overhead"], rel=5e-3)
        assert own["depth_overhead"] == pytest.approx(share * matmul["depth_overhead"], rel=5e-3)


def test_the_slower_engine_loses_less_on_small_products() -> None:
    side = np.array([1024.0, 8192.0])
    shape = {"m": side, "n": side, "k": side}
    for name in ("a100-sxm-80gb", "v100-sxm-16gb", "h100-sxm", "rtx-4090"):
        kept = []
        for request in (WIDE, NARROW):
            small, large = side**3 / sw.kernel_times(request, name, shape)
            kept.append(small / large)
        assert kept[0] > kept[1], name


def test_half_the_rate_with_operands_twice_as_wide_keeps_the_share_of_16_bits() -> None:
    for table in stepped():
        share = table["matmul"]["efficiency"]
        if "tf32" in table["matrix"] and not table["name"].startswith(("a100", "a30", "a800")):
            assert share["tf32"] == share["bf16"], table["name"]


def test_products_in_fp32_that_others_timed_come_out_near_where_vectors_multiply() -> None:
    boards = {"a10", "a100-pcie-80gb", "rtx-4070-ti-super", "rtx-a6000"}
    errors = [
        abs(row["error"])
        for row in run("float32")["rows"]
        if row["file"] == "gemm_others.csv" and row["device"] in boards
    ]
    assert len(errors) >= 7
    assert statistics.median(errors) <= 0.05
    assert max(errors) <= 0.25
