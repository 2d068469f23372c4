"""Do profiles of PyTorch price its attention on AMD as printed calls of it say?"""

from __future__ import annotations

import math

import pytest

from scalewright.catalog import load_device, with_costs, with_software
from scalewright.planning import kernel_times

_PROFILES = (
    "compiled-gpt",
    "compiled-gpt-2026",
    "eager-gpt",
    "eager-gpt-2026",
    "eager-gpt-fsdp",
    "eager-gpt-fsdp-2026",
    "eager-llama",
    "eager-llama-2026",
    "eager-llama-fsdp",
    "eager-llama-fsdp-2026",
    "torchtitan-compile",
    "torchtitan-compile-2025",
    "torchtitan-compile-2026",
    "torchtitan-eager",
    "torchtitan-eager-2026",
    "torchtitan-experts",
)
"""Programs that call scaled_dot_product_attention."""
_OTHERS = ("megatron-eager", "megatron-bridge-eager", "maxtext-gpu-narrow", "nanotron-2024")

# causal calls as docs/attention-kernels.md lists them: positions, width, TFLOP/s as printed
_FORWARD_MI300X = (
    *((1024, 64, 132.7), (2048, 64, 210.8), (4096, 64, 227.6), (8192, 64, 255.5)),
    *((16384, 64, 269.6), (1024, 128, 164.1), (2048, 128, 214.5), (4096, 128, 256.9)),
    *((8192, 128, 289.5), (16384, 128, 306.5)),
)
_FORWARD_MI355X = ((8192, 64, 329.5), (16384, 64, 419.6), (8192, 128, 452.3), (16384, 128, 506.1))
_BACKWARD_MI355X = (
    *((1024, 128, 109.5), (2048, 128, 156.7), (4096, 128, 142.8)),
    *((8192, 128, 224.0), (16384, 128, 259.1)),
)
_TABLES = {
    "mi300x forward": ("mi300x", False, 16, 16, 16, _FORWARD_MI300X),
    "mi300x backward": ("mi300x", True, 48, 12, 12, ((1024, 64, 80.1),)),
    "mi355x forward": ("mi355x", False, 1, 64, 64, _FORWARD_MI355X),
    "mi355x backward": ("mi355x", True, 16, 64, 8, _BACKWARD_MI355X),
}


def _device(name: str, profile: str | None) -> dict[str, object]:
    device = with_costs(load_device(name))
    return dict(device if profile is None else with_software(profile, {}, device)[1])


def _ratios(table: str, profile: str | None) -> list[float]:
    """Return predicted over printed times of the calls of a table, shortest first."""
    name, backward, batch, heads, kv_heads, calls = _TABLES[table]
    device = _device(name, profile)
    request = {"kernel": "training_attention", "dtype": "bf16", "backward": backward}
    found: list[float] = []
    for positions, width, rate in calls:
        shape = {"batch": batch, "positions": positions, "heads": heads, "kv_heads": kv_heads}
        shape |= {"head_dim": width, "value_dim": width, "window": 0}
        seconds = float(kernel_times(request | {"causal": True}, device, shape))
        flops = 2.0 * batch * heads * positions**2 * width * (2.5 if backward else 1.0)
        found.append(seconds * rate * 1e12 / flops)
    return sorted(found)


@pytest.mark.parametrize("profile", _PROFILES)
@pytest.mark.parametrize("table", _TABLES)
def test_profiles_of_pytorch_meet_printed_calls(profile: str, table: str) -> None:
    ratios = _ratios(table, profile)
    middle = math.exp(sum(map(math.log, ratios)) / len(ratios))
    assert 0.93 < middle < 1.07, ratios
    assert ratios[0] > 0.75, ratios
    assert ratios[-1] < 1.25, ratios


@pytest.mark.parametrize("table", _TABLES)
def test_the_devices_own_kernels_are_faster_than_pytorchs(table: str) -> None:
    assert _ratios(table, None)[-1] < 0.85


@pytest.mark.parametrize("profile", _OTHERS)
@pytest.mark.parametrize("name", ["mi300x", "mi355x"])
def test_programs_that_call_other_kernels_keep_the_devices_own(profile: str, name: str) -> None:
    assert _device(name, profile)["attention"] == _device(name, None)["attention"]
