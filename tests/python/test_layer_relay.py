"""Does layer-to-layer execution hold its laws from Python?"""

from typing import Any

import pytest

import scalewright as sw

# a BERT-Large layer of 12.6 M parameters on a V100: 2.4 ms and, run anew with it, 7.2 ms for 4
# sequences; fp16 weights and gradients over PCIe at 12 GB/s; an update by the host in 20 ms
LAYER: dict[str, Any] = {
    "load_s": 2.1e-3,
    "store_s": 2.1e-3,
    "optimizer_s": 20e-3,
    "weight_bytes": 25.2e6,
    "gradient_bytes": 25.2e6,
    "input_bytes": 4 * 512 * 1024 * 2,
    "working_bytes": 500e6,
}


def relay(layers: int, micro_batches: int, **of: Any) -> sw.LayerRelay:
    return sw.layer_relay([2.4e-3] * layers, 7.2e-3, micro_batches, **{**LAYER, **of})


def test_micro_batches_hide_the_host() -> None:
    exposed = [relay(24, m).exposed_s / relay(24, m).step_time_s for m in (1, 4, 16)]
    assert exposed[0] > exposed[1] > exposed[2] > 0
    assert exposed[2] < 0.02
    for m in (1, 4, 16):
        assert relay(24, m).lower_bound_s <= relay(24, m).step_time_s


def test_depth_costs_kept_inputs_alone() -> None:
    short, long = relay(24, 8), relay(96, 8)
    assert long.input_bytes == 4 * short.input_bytes
    assert long.device_bytes - long.input_bytes == short.device_bytes - short.input_bytes
    assert relay(96, 8, offload_inputs=True, input_s=0.4e-3).input_bytes == 3 * 8 * 4 * 512 * 2048


def test_one_buffer_waits_for_every_load() -> None:
    assert relay(24, 8, buffers=1).step_time_s > relay(24, 8).step_time_s
    assert relay(24, 8, buffers=1).device_bytes < relay(24, 8).device_bytes


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"forward_s": 1.0}, "forward_s: got shape ()"),
        ({"backward_s": [1.0]}, "backward_s: got shape (1,)"),
        ({"load_s": -1.0}, "load_s[0]: got -1"),
        ({"buffers": 0}, "buffers: got 0"),
        ({"offload_inputs": 1}, "offload_inputs: got 1"),
        ({"micro_batches": 0.5}, "micro_batches: got 0.5"),
    ],
)
def test_what_is_wrong_is_said(wrong: dict[str, Any], said: str) -> None:
    right = {"forward_s": [1.0, 2.0], "backward_s": 2.0, "micro_batches": 2}
    with pytest.raises(sw.ScalewrightError) as caught:
        sw.layer_relay(**{**right, **wrong})
    assert said in str(caught.value)
