"""Do attention and experts come near measured rows, and does calibration find constants again?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scalewright.calibration import calibrate_serving, timed_kernels
from scalewright.catalog import load_device, names, with_costs
from scalewright.errors import InvalidError
from scalewright.planning import kernel_times
from scalewright.reproductions import kernels

if TYPE_CHECKING:
    from collections.abc import Mapping

# held-out rows of every device: median and 90th percentile of the error's size
_BANDS = {
    "attention_prefill": (0.12, 0.40),
    "attention_decode": (0.15, 0.40),
    "moe": (0.20, 0.60),
}
_HEADER = (
    "system,batch_size,isl,num_heads,num_key_value_heads,head_dim,window_size,attn_dtype,"
    "kv_cache_dtype,step,latency_us\n"
)


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[round(share * (len(values) - 1))]


@pytest.mark.parametrize("kind", _BANDS)
def test_held_out_rows_of_every_device_lie_in_the_band(kind: str) -> None:
    rows = kernels.run(kind)["rows"]
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        assert row["error"] is not None, row["reason"]
        if row["part"] == "held_out":
            groups.setdefault((row["device"], row["dtype"]), []).append(abs(row["error"]))
    assert len({device for device, _ in groups}) == (10 if kind == "moe" else 7)
    median, tail = _BANDS[kind]
    for group, sizes in groups.items():
        assert _quantile(sizes, 0.5) <= median, group
        assert _quantile(sizes, 0.9) <= tail, group


def _decode_rows(device: Mapping[str, Any]) -> str:
    """Price decode attention on a device and write it as measured rows."""
    lines = []
    for batch in (1, 4, 16, 64, 256, 1024):
        for keys in (16, 256, 1024, 8192, 32768):
            for heads, kv_heads in ((8, 8), (32, 4), (64, 4)):
                if batch * keys * kv_heads > 4e6:
                    continue
                shape = {
                    "batch": batch,
                    "keys": keys,
                    "heads": heads,
                    "kv_heads": kv_heads,
                    "head_dim": 128,
                }
                kernel = {"kernel": "decode", "cache": "bf16", "warm": True}
                time = float(kernel_times(kernel, device, shape))
                cells = [batch, 1, heads, kv_heads, 128, 0, "bf16", "bf16", keys - 1]
                lines.append(",".join(map(str, ["h200-sxm", *cells, f"{time * 1e6:.6f}"])))
    return _HEADER + "\n".join(lines) + "\n"


def test_calibration_finds_the_constants_that_made_the_times(tmp_path: Path) -> None:
    device = dict(with_costs(load_device("h200-sxm")))
    model = dict(device["decode"]["bf16"])
    model |= {"tiled_launch": 9e-6, "vector_block": 2e-6, "vector_launch": 5e-6}
    made = {**device, "decode": {**device["decode"], "bf16": model}}
    path = tmp_path / "rows.csv"
    path.write_text(_decode_rows(made), encoding="utf-8")
    rows, table, wrong = timed_kernels([str(path)], kinds=("attention_decode",))
    assert not wrong
    found = calibrate_serving(rows, table)
    (family,) = found.families
    assert family["table"] == "decode.bf16"
    assert family["errors"]["held_out"]["median_abs_error"] < 0.03
    assert family["errors"]["cross_validation"]["median_abs_error"] < 0.03
    constants = {line["name"].rsplit(".", 1)[1]: line["after"] for line in family["constants"]}
    for name in ("tiled_launch", "vector_block", "vector_launch"):
        assert constants[name] == pytest.approx(model[name], rel=0.15), name
    out = tmp_path / "mine.toml"
    out.write_text(found.override, encoding="utf-8")
    changed = load_device("h200-sxm", [out])
    text = changed["decode"]["bf16"]["tiled_launch"]
    assert float(text.split()[0]) * 1e-6 == pytest.approx(constants["tiled_launch"])


def test_the_catalog_holds_what_calibration_gives() -> None:
    place = Path(kernels.__file__).parents[2] / "catalog" / "published" / "kernels"
    rows, table, _ = timed_kernels(
        [str(place / "attention_decode.csv")], kinds=("attention_decode",), only="a100_sxm"
    )
    (family,) = calibrate_serving(rows, table).families
    held = with_costs(load_device("a100-sxm-80gb"))["decode"]["bf16"]
    for line in family["constants"]:
        name = line["name"].rsplit(".", 1)[1]
        assert line["after"] == pytest.approx(_number(held[name]), rel=1e-6), name


def _number(value: object) -> float:
    scales = {"us": 1e-6, "ns": 1e-9, "ps": 1e-12, "GB/s": 1e9}
    if isinstance(value, str):
        amount, unit = value.split()
        return float(amount) * scales[unit]
    assert isinstance(value, float)
    return value


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(_HEADER + "h100-sxm,1,1,8,1,128,0,bf16,bf16,100,9.0\n", encoding="utf-8")
    rows, table, _ = timed_kernels([str(path)], kinds=("attention_decode",))
    with pytest.raises(InvalidError, match=r"rows: got 1 of 1 shapes to fit decode\.bf16"):
        calibrate_serving(rows, table)


def test_rows_that_cannot_be_say_why_and_others_still_run(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        _HEADER
        + "h100-sxm,1,1,8,1,128,0,bf16,bf16,100,9.0\n"
        + "h100-sxm,1,1,8,3,128,0,bf16,bf16,100,9.0\n"
        + "h100-sxm,1,1,8,1,128,0,bf17,bf16,100,9.0\n"
        + "h100-sxm,1,512,8,1,128,0,bf16,fp8,0,19.0\n",
        encoding="utf-8",
    )
    decode, heads, dtype, prefill = kernels.run(rows_path=path)["rows"]
    assert (decode["kind"], decode["part"]) == ("attention_decode", "held_out")
    assert "num_key_value_heads: got 3" in heads["reason"]
    assert "attn_dtype: got 'bf17'" in dtype["reason"]
    assert prefill["kind"] == "attention_prefill"
    assert prefill["error"] is not None


def test_rows_of_experts_say_their_load_and_gate(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    header = (
        "system,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_ep_size,"
        "distribution,gated,latency_us\n"
    )
    lines = [
        "h100-sxm,fp8,256,4096,1536,8,128,8,balanced,,100",
        "h100-sxm,fp8,256,4096,1536,8,128,8,balanced,no,100",
        "h100-sxm,fp8,256,4096,1536,8,128,8,power_law_1.2,,100",
        "h100-sxm,fp8,256,4096,1536,8,128,7,balanced,,100",
        "h100-sxm,fp8,256,4096,1536,8,128,8,zipf,,100",
        "h100-sxm,fp8,16,4096,1536,8,128,1,balanced,,100",
        "h100-sxm,fp8,16,4096,1536,8,128,1,Random,,100",
    ]
    path.write_text(header + "\n".join(lines) + "\n", encoding="utf-8")
    gated, plain, _, ranks, zipf, alike, drawn = kernels.run(rows_path=path)["rows"]
    assert plain["predicted_s"] < gated["predicted_s"]
    assert "moe_ep_size: got 7" in ranks["reason"]
    assert "distribution: got 'zipf'" in zipf["reason"]
    # by chance a third of the experts gets no token, and its weights are not read
    assert 0.55 * alike["predicted_s"] < drawn["predicted_s"] < 0.8 * alike["predicted_s"]


_SCALES = {
    "GFLOP/s": 1e9,
    "TFLOP/s": 1e12,
    "PFLOP/s": 1e15,
    "GB/s": 1e9,
    "TB/s": 1e12,
    "PB/s": 1e15,
}


def _rate(text: str) -> float:
    number, unit = text.split()
    return float(number) * _SCALES[unit]


@pytest.mark.parametrize("name", names("device"))
def test_no_product_and_no_prompt_beats_the_peak(name: str) -> None:
    device = load_device(name)
    rows, tokens = [1, 17, 128, 320, 4096, 32768], [64, 512, 4096, 32768]
    for dtype in ("bf16", "fp16", "fp8", "nvfp4", "mxfp4"):
        if dtype not in device["matrix"]:
            continue
        peak = _rate(device["matrix"][dtype])
        product = {"kernel": "matmul", "a": dtype, "b": dtype, "output": "bf16"}
        for n, k in ((4096, 4096), (512, 7168), (8192, 28672)):
            times = kernel_times(product, device, {"m": rows, "n": n, "k": k})
            assert all(2.0 * m * n * k / peak <= time for m, time in zip(rows, times, strict=True))
        if dtype not in ("bf16", "fp8"):
            continue
        prompt = {"kernel": "prefill", "queries": dtype, "cache": "fp8", "warm": True}
        for heads, kv_heads, width in ((32, 8, 128), (16, 16, 256), (64, 8, 64)):
            shape = {"queries": tokens, "heads": heads, "kv_heads": kv_heads, "head_dim": width}
            times = kernel_times(prompt, device, shape)
            assert all(
                2.0 * heads * width * count**2 / peak <= time
                for count, time in zip(tokens, times, strict=True)
            )


@pytest.mark.parametrize("name", [name for name in names("device") if "cerebras" not in name])
def test_a_long_cache_is_read_at_the_rate_of_its_memory(name: str) -> None:
    """Few large engines stream as multiprocessors do; on a wafer launches last longer."""
    device = load_device(name)
    memory = _rate(device["tiers"][-1]["bandwidth"])
    shape = {"batch": 128, "keys": 65536, "heads": 32, "kv_heads": 8, "head_dim": 128}
    time = float(kernel_times({"kernel": "decode", "cache": "bf16", "warm": True}, device, shape))
    read = 128 * 65536 * 8 * 128 * 2 * 2
    assert 0.3 * memory <= read / time <= memory
