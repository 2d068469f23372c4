"""Does attention of training come near its timed rows, in the benchmark's files, and calibrate?"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import scalewright
from scalewright import catalog
from scalewright.calibration import calibrate_serving, timed_kernels
from scalewright.calibration.serving_families import constants, table
from scalewright.catalog import load_device, with_costs
from scalewright.planning import kernel_times
from scalewright.reproductions import kernels

_BOOK = Path(scalewright.__file__).parent / "catalog/published/kernels/attention_training.csv"
# as NVIDIA/cudnn-frontend writes them
_HEADER = (
    "config_name,backend,data_type,attn_mask,batch_size,q_seqlen,kv_seqlen,num_q_heads,"
    "num_kv_heads,head_dim_qk,head_dim_vo,profile_pass,deterministic_bwd,time_ms,"
    "sliding_window_size,gpu_name\n"
)
_KINDS = ("attention_forward", "attention_backward")
_DEVICES = {"a100-pcie-80gb", "h200-sxm", "gb200", "gb300"}
_MEDIAN, _TAIL = 0.13, 0.30


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


@pytest.mark.parametrize("kind", _KINDS)
def test_held_out_passes_of_every_device_and_format_lie_in_the_band(kind: str) -> None:
    groups: dict[tuple[str, str], list[float]] = {}
    for row in kernels.run(kind)["rows"]:
        assert row["error"] is not None, row["reason"]
        if row["part"] == "held_out":
            groups.setdefault((row["device"], row["dtype"]), []).append(abs(row["error"]))
    assert {device for device, _ in groups} - {"gb10"} == _DEVICES
    for group, sizes in groups.items():
        assert _quantile(sizes, 0.5) <= _MEDIAN, group
        assert _quantile(sizes, 0.9) <= _TAIL, group


def _line(changes: dict[str, str]) -> str:
    cells = {
        "config_name": "own",
        "backend": "cudnn",
        "data_type": "bfloat16",
        "attn_mask": "top_left",
        "batch_size": "2",
        "q_seqlen": "8192",
        "kv_seqlen": "8192",
        "num_q_heads": "64",
        "num_kv_heads": "8",
        "head_dim_qk": "128",
        "head_dim_vo": "128",
        "profile_pass": "fwd",
        "deterministic_bwd": "False",
        "time_ms": "3.357",
        "sliding_window_size": "",
        "gpu_name": "NVIDIA H200",
    }
    return ",".join((cells | changes).values()) + "\n"


def test_rows_are_read_in_the_columns_of_the_benchmark_and_the_others_go_on(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    wrong = {
        "attn_mask": ("sideways", "attn_mask: got 'sideways'; allowed: top_left"),
        "deterministic_bwd": ("True", "deterministic_bwd: got 'True'"),
        "num_kv_heads": ("7", "num_kv_heads: got 7"),
        "kv_seqlen": ("4096", "kv_seqlen: got another length"),
        "time_ms": ("inf", "latency_ms: got 'inf'"),
        "profile_pass": ("both", "profile_pass: got 'both'; allowed: fwd"),
    }
    lines = [_line({}), *(_line({cell: text}) for cell, (text, _) in wrong.items())]
    file.write_text(_HEADER + "".join(lines))
    assert kernels.holds_kernels(file)
    first, *others = kernels.run(rows_path=file)["rows"]
    assert (first["kind"], first["device"]) == ("attention_forward", "h200-sxm")
    assert abs(first["error"]) < 0.15
    for row, (_, reason) in zip(others, wrong.values(), strict=True):
        assert row["error"] is None
        assert reason in row["reason"]


def test_calibration_finds_the_constants_that_made_the_times(tmp_path: Path) -> None:
    device = dict(with_costs(load_device("h200-sxm")))
    own = {"efficiency": 0.7, "score_overhead": 20.0, "key_overhead": 100.0, "window": "3 us"}
    changed = {"bf16": {"forward": {"tail": 0.5, "wide": 1.0} | own}}
    request = {"kernel": "training_attention", "dtype": "bf16", "backward": False, "causal": True}
    lines = []
    for positions in (1024, 2048, 4096, 8192, 16384, 32768):
        for heads, width in ((16, 128), (64, 64), (64, 128)):
            for window in (0, 128):
                shape = {
                    "positions": positions,
                    "heads": heads,
                    "kv_heads": 8,
                    "head_dim": width,
                    "value_dim": width,
                    "window": window,
                }
                seconds = float(
                    kernel_times(request, {**device, "training_attention": changed}, shape)
                )
                lines.append(
                    _line(
                        {
                            "batch_size": "1",
                            "q_seqlen": str(positions),
                            "kv_seqlen": str(positions),
                            "num_q_heads": str(heads),
                            "head_dim_qk": str(width),
                            "head_dim_vo": str(width),
                            "time_ms": f"{seconds * 1e3:.9f}",
                            "sliding_window_size": str(window),
                        }
                    )
                )
    file = tmp_path / "own.csv"
    file.write_text(_HEADER + "".join(lines))
    rows, _, wrong = timed_kernels([file], "h200-sxm", kinds=("attention_forward",))
    assert not wrong
    found = calibrate_serving(rows, device)
    override = tmp_path / "my.toml"
    override.write_text(found.override)
    fitted = tomllib.loads(found.override)["training_attention"]["bf16"]["forward"]
    assert fitted["efficiency"] == pytest.approx(0.7, rel=0.1)
    assert fitted["key_overhead"] == pytest.approx(100.0, rel=0.3)
    errors = found.families[0]["errors"]["held_out"]
    assert errors["median_abs_error"] < 0.01
    # the override is a device that the engine takes
    taken = load_device("h200-sxm", [override])
    assert (
        taken["training_attention"]["bf16"]["backward"]
        == device["training_attention"]["bf16"]["backward"]
    )


def test_a_kernel_that_skips_nothing_has_no_price_of_windows() -> None:
    device = load_device("gb200")
    rows, _, _ = timed_kernels(
        [str(_BOOK)], "gb200", kinds=("attention_forward", "attention_backward"), only="gb200"
    )
    for dtype, skips in (("bf16", True), ("fp8", False), ("mxfp8", False)):
        path = ("training_attention", dtype, "backward")
        shapes = [row.shape for row in rows if table(row.shape.request) == path]
        assert shapes
        told = {place[-1] for place in constants(path, shapes, device)}
        assert ("window" in told) == skips
        assert {"efficiency", "score_overhead", "key_overhead", "tail"} <= told


def test_a_release_of_a_library_is_laid_over_a_program() -> None:
    device = load_device("gb300")
    training, own = catalog.with_software("megatron-bridge+cudnn-2025", {}, device)
    alone, _ = catalog.with_software("megatron-bridge", {}, device)
    assert training["software"]["name"] == "megatron-bridge+cudnn-2025"
    assert training["software"] | {"name": "megatron-bridge"} == alone["software"]
    before, after = (d["training_attention"]["bf16"]["forward"] for d in (device, own))
    assert after == before | {"efficiency": 0.87}
    _, kept = catalog.with_software("megatron-bridge+cudnn-2025", {}, load_device("h100-sxm"))
    assert kept["training_attention"] == load_device("h100-sxm")["training_attention"]


def test_a_program_with_kernels_of_its_own_takes_none_that_were_timed() -> None:
    _, own = catalog.with_software("torchtitan-eager", {}, load_device("h100-sxm"))
    assert "training_attention" not in own
