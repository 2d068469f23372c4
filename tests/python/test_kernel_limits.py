"""Is a timed kernel refused that is faster than its device can multiply or read?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.cli import main
from scalewright.reproductions.kernels import run
from scalewright.reproductions.kernels.limits import too_quick
from scalewright.reproductions.kernels.rows import KernelRow, shipped

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PRODUCTS = "system,dtype,m,n,k,latency_us"
CACHED = (
    "system,batch_size,isl,step,num_heads,num_key_value_heads,head_dim,attn_dtype,kv_cache_dtype,"
    "latency_us"
)


def compared(folder: Path, head: str, *lines: str) -> list[dict[str, Any]]:
    """Return what timed kernels come to."""
    file = folder / "timed.csv"
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return run(rows_path=file)["rows"]


def test_a_product_far_beyond_the_dense_peak_is_refused(tmp_path: Path) -> None:
    quick, fine = compared(
        tmp_path, PRODUCTS, "H100,bf16,8192,8192,8192,0.5", "H100,bf16,8192,8192,8192,1600"
    )
    assert quick["error"] is None
    assert "time: got 0.5 us, which is 2223 times the dense peak of 989.4" in quick["reason"]
    assert "allowed: from about 1111 us" in quick["reason"]
    assert (fine["reason"], fine["note"]) == (None, None)


def test_one_little_beyond_it_counts_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = compared(tmp_path, PRODUCTS, "RTX 4090,fp16,8192,8192,8192,6000")
    assert row["note"].startswith("faster than the dense peak of the device")
    assert row["error"] is not None
    assert main(["reproduce", "--rows", str(tmp_path / "timed.csv")]) == 0
    assert "noted 1 (timed.csv:2): faster than the dense peak" in (
        " ".join(capsys.readouterr().out.split())
    )


def test_no_cache_is_read_faster_than_memory_gives_it(tmp_path: Path) -> None:
    # 4.3 GB of keys and values at 3.35 TB/s take 1.28 ms
    quick, fine = (
        compared(tmp_path, CACHED, f"h100_sxm,64,1,32767,32,4,128,bf16,bf16,{time}")[0]
        for time in (800, 1500)
    )
    assert "to move 4.295 GB at 3350 GB/s" in quick["reason"]
    assert fine["reason"] is None


def test_products_in_a_format_that_the_device_lacks_are_noted(tmp_path: Path) -> None:
    narrow, stored = compared(
        tmp_path, PRODUCTS, "A100,fp8,4096,4096,4096,900", "A100,fp8_wo,4096,4096,4096,900"
    )
    assert narrow["note"] == "a100-sxm-80gb multiplies no fp8: products in 16 bits taken"
    assert narrow["predicted_s"] == stored["predicted_s"]
    assert stored["note"] is None


def test_no_row_of_the_package_is_beyond_what_its_device_can() -> None:
    rows = [row for row in shipped() if isinstance(row, KernelRow)]
    every = run(pattern="torch_mm")["rows"] + run(pattern="attention_decode")["rows"]
    assert len(rows) > 10_000
    assert not [row for row in every if "allowed: from about" in (row["reason"] or "")]
    shape, request = rows[0].shape, rows[0].shape.request
    assert too_quick(shape, request, {"matrix": {}, "tiers": []}, 1e-12) == ("", "")
