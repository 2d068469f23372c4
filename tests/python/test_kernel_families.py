"""Do boards without rows of their own keep to what is known of their chips?"""

from __future__ import annotations

from typing import Any

import pytest

import scalewright as sw
from scalewright.catalog import load_device, names


def attention_rate(name: str, positions: float = 32760.0, backward: bool = False) -> float:
    """Return the FLOP/s of attention without a mask in bf16."""
    shape = {"batch": 1.0, "heads": 40.0, "kv_heads": 40.0, "head_dim": 128.0, "value_dim": 128.0}
    request: dict[str, Any] = {"kernel": "training_attention", "dtype": "bf16", "causal": False}
    time = sw.kernel_times(
        {**request, "backward": backward}, name, {**shape, "positions": positions, "window": 0.0}
    )
    return (10.0 if backward else 4.0) * 40.0 * positions**2 * 128.0 / float(time)


def test_a_workstation_board_multiplies_scores_as_fast_as_it_was_seen_to() -> None:
    """207 TFLOP/s of an RTX PRO 5000: SageAttention issue 378."""
    assert attention_rate("rtx-pro-5000") == pytest.approx(207e12, rel=0.01)


@pytest.mark.parametrize("backward", [False, True])
def test_full_rate_boards_outrun_the_half_rate_board_of_their_chip(backward: bool) -> None:
    """Boards of one chip with as many units: fp32 sums cost GeForce boards half their rate."""
    for name in ("rtx-pro-6000", "rtx-pro-6000-workstation"):
        assert attention_rate(name, backward=backward) > attention_rate(
            "rtx-5090", backward=backward
        )


def test_attention_follows_the_power_limit_as_products_do() -> None:
    boards = ("rtx-pro-6000-max-q", "rtx-pro-6000-workstation")
    shape = {"m": 4096.0, "n": 4096.0, "k": 4096.0}
    request = {"kernel": "matmul", "a": "bf16", "b": "bf16", "output": "bf16"}
    attention = attention_rate(boards[0]) / attention_rate(boards[1])
    slow, fast = (float(sw.kernel_times(request, name, shape)) for name in boards)
    assert attention == pytest.approx(fast / slow, rel=0.1)
    assert attention == pytest.approx((300.0 / 600.0) ** 0.5, rel=0.1)


def test_the_units_of_a_device_read_together_what_its_memory_gives() -> None:
    """A limit for one unit that was fitted where memory ends is none on faster memory."""
    rates = {"GB/s": 1e9, "TB/s": 1e12, "PB/s": 1e15}

    def rate(text: str) -> float:
        value, unit = text.split()
        return float(value) * rates[unit]

    checked = 0
    for name in names("device"):
        table = load_device(name)
        memory = rate(table["tiers"][-1]["bandwidth"])
        for constants in table.get("decode", {}).values():
            if "unit_bandwidth" in constants:
                together = table["matmul"]["units"] * rate(constants["unit_bandwidth"])
                assert together > 0.8 * constants["bandwidth_share"] * memory, name
                checked += 1
    assert checked > 100


def test_odd_sides_take_as_long_for_a_unit_however_fast_it_multiplies() -> None:
    """Kernels that load element by element wait for loads, not for the matrix engine."""
    odd, even = ({"m": side, "n": side, "k": side} for side in (8191.0, 8192.0))
    lost: dict[str, float] = {}
    for name in ("l40s", "rtx-4090", "rtx-3090", "h100-sxm", "h20"):
        request = {"kernel": "matmul", "a": "fp16", "b": "fp16", "output": "fp16"}
        slow, fast = (float(sw.kernel_times(request, name, shape)) for shape in (odd, even))
        lost[name] = slow / fast
    assert lost["l40s"] > 2.5
    assert 1.3 < lost["rtx-4090"] < 0.6 * lost["l40s"]
    assert lost["h20"] < 0.4 * lost["h100-sxm"]
    assert all(share > 0.99 for share in lost.values())


def test_experts_reach_the_share_of_the_peak_that_products_do_on_boards_of_a_cut_rate() -> None:
    """A half of the rate for each unit is nearly reached, where a whole one is not."""
    own = load_device("l40s")
    for name in ("rtx-4090", "rtx-5090", "l20", "a10", "l4"):
        board = load_device(name)
        ratio = board["matmul"]["efficiency"]["fp16"] / own["matmul"]["efficiency"]["fp16"]
        for family in ("bf16", "fp8"):
            share = board["experts"][family]["efficiency"]
            whole = own["experts"][family]["efficiency"]
            assert share == pytest.approx(min(1.0, whole * ratio), rel=1e-3)


@pytest.mark.parametrize("name", ["mi300x", "mi325x", "mi300a"])
def test_a_wide_result_of_integers_is_stored_no_slower_than_one_of_eight_bits(name: str) -> None:
    """Results are in 16 bits either way, on one board's memory."""
    shape = {"m": 65536.0, "n": 8192.0, "k": 256.0}
    integer, floating = (
        float(sw.kernel_times({"kernel": "matmul", "a": a, "b": a, "output": "bf16"}, name, shape))
        for a in ("int8", "fp8")
    )
    assert integer <= 1.05 * floating


def rate(name: str, dtype: str, side: float = 8192.0) -> float:
    """Return the FLOP/s of a square product."""
    shape = {"m": side, "n": side, "k": side}
    request = {"kernel": "matmul", "a": dtype, "b": dtype, "output": "bf16"}
    return 2.0 * side**3 / float(sw.kernel_times(request, name, shape))


def test_integers_of_eight_bits_multiply_as_fp8_does_where_both_have_one_rate() -> None:
    for name in ("l40s", "l4", "rtx-6000-ada", "rtx-pro-6000", "gb10"):
        assert rate(name, "int8") == pytest.approx(rate(name, "fp8"), rel=0.05), name
    # fp32 sums halve fp8 on GeForce boards, and no integers
    for name in ("rtx-4090", "rtx-5090"):
        assert 1.2 < rate(name, "int8") / rate(name, "fp8") < 1.8, name


def test_boards_of_a_cut_rate_reach_as_much_of_their_peak_in_fp8_as_in_16_bits() -> None:
    for name in ("rtx-4090", "rtx-5080", "rtx-5090", "rtx-6000d"):
        assert rate(name, "fp8") == pytest.approx(2.0 * rate(name, "bf16"), rel=0.06), name


@pytest.mark.parametrize("backward", [False, True])
def test_attention_in_fp8_is_quicker_than_in_16_bits_by_less_than_its_products(
    backward: bool,
) -> None:
    """Exponentials take as long; a device without kernels of its own would multiply in 16 bits."""
    shape = {"batch": 2.0, "positions": 8192.0, "heads": 16.0, "kv_heads": 16.0}
    for name in ("h100-sxm", "h100-pcie", "h200-sxm", "h20", "gb200"):
        wide, narrow = (
            float(
                sw.kernel_times(
                    {
                        "kernel": "training_attention",
                        "dtype": dtype,
                        "causal": False,
                        "backward": backward,
                    },
                    name,
                    {**shape, "head_dim": 128.0, "value_dim": 128.0, "window": 0.0},
                )
            )
            for dtype in ("bf16", "fp8")
        )
        assert 1.05 < wide / narrow < 2.0, name
