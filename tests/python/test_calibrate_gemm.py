"""Does a calibration find the constants behind timed products, and is the catalog made by it?"""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import scalewright as sw
from scalewright import InvalidError
from scalewright.calibration import calibrate_products, timed_kernels, timing
from scalewright.catalog import load_device
from scalewright.cli import main
from scalewright.reproductions.kernels.rows import KernelRow, held_out, shipped

if TYPE_CHECKING:
    from pathlib import Path


def rows_of(system: str, dtype: str) -> list[KernelRow]:
    return [
        row
        for row in shipped()
        if isinstance(row, KernelRow)
        and (row.kind, row.system, row.shape.dtype) == ("gemm", system, dtype)
    ]


def timed(rows: list[KernelRow], device: dict[str, Any], noise: float = 0.0) -> list[KernelRow]:
    """Return the rows with the times that a device would give."""
    names = ("batch", "m", "n", "k")
    shapes = {name: [row.shape.numbers[name] for row in rows] for name in names}
    times = sw.kernel_times(rows[0].shape.request, device, shapes)
    factors = np.exp(np.random.default_rng(1).normal(0.0, noise, len(rows)))
    return [replace(row, time_s=t) for row, t in zip(rows, (times * factors).tolist(), strict=True)]


def constants(found: Any) -> dict[str, float]:
    return {line["name"]: line["after"] for line in found.families[0]["constants"]}


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_the_constants_behind_synthetic_timings_are_found(noise: float) -> None:
    device = load_device("h100-sxm")
    other = {**device["matmul"], "throttle": 0.3, "memory_efficiency": 0.7, "depth_overhead": 400.0}
    other["efficiency"] = {**other["efficiency"], "bf16": 0.7}
    truth = {**device, "launch_overhead": "5 us", "matmul": other}
    found = calibrate_products(timed(rows_of("h100_sxm", "bfloat16"), truth, noise), device)
    held_out = found.families[0]["errors"]["held_out"]
    assert held_out["median_abs_error"] <= 0.005 + noise
    values = constants(found)
    near = 0.03 + noise
    assert values["launch_overhead"] == pytest.approx(5e-6, rel=near)
    assert values["matmul.memory_efficiency"] == pytest.approx(0.7, rel=near)
    assert values["matmul.efficiency.bf16"] == pytest.approx(0.7, rel=0.05 + noise)
    assert values["matmul.depth_overhead"] == pytest.approx(400.0, rel=0.2)


def test_the_catalog_is_what_the_command_gives() -> None:
    found = calibrate_products(rows_of("h100_sxm", "bfloat16"), load_device("h100-sxm"))
    for line in found.families[0]["constants"]:
        if line["name"] in ("launch_overhead", "matmul.efficiency.bf16"):
            before = line["before"]
            if isinstance(before, str):
                before = float(before.split()[0]) * 1e-6
            assert line["after"] == pytest.approx(before, rel=0.01), line


def test_the_override_changes_what_kernels_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device = {**load_device("l40s")}
    device["matmul"] = {**device["matmul"], "memory_efficiency": 0.5}
    file, out = tmp_path / "timed.csv", tmp_path / "my.toml"
    rows = timed(rows_of("l40s", "bfloat16"), device)
    with file.open("w", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(("m", "n", "k", "dtype", "latency_us"))
        for row in rows:
            shape = (int(row.shape.numbers[name]) for name in ("m", "n", "k"))
            writer.writerow((*shape, "bfloat16", row.time_s * 1e6))
        writer.writerow((1, 1, "x", "bfloat16", 3.0))
    asked = ["calibrate", "gemm", str(file), "--system", "l40s", "--out", str(out), "--json"]
    assert main(asked) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["families"][0]["rows"]["fitted"] == len(rows) - (len(rows) + 1) // 3
    assert "line 361: k: got 'x'" in answer["left_out"][0]
    changed = load_device("l40s", [out])
    assert changed["matmul"]["memory_efficiency"] == pytest.approx(0.5, rel=0.03)
    assert changed["matmul"]["units"] == 142
    assert "calibrate gemm" in changed["sources"]["matmul.memory_efficiency"]
    assert main(["calibrate", "gemm", str(file), "--system", "l40s"]) == 0
    assert "cross-validated" in capsys.readouterr().out


def test_what_cannot_be_fitted_is_named(tmp_path: Path) -> None:
    file = tmp_path / "timed.csv"
    file.write_text("m,n,k,dtype,latency_us\n1,2,3,bfloat16,4\n")
    with pytest.raises(InvalidError, match="system: got nothing"):
        timed_kernels([str(file)])
    rows, device, _ = timed_kernels([str(file)], "l40s")
    with pytest.raises(InvalidError, match=r"rows: got 1 of 1 shapes to fit matmul; allowed: 18"):
        calibrate_products(rows, device)
    alike = [replace(rows[0], line=place) for place in range(90)]
    with pytest.raises(InvalidError, match=r"rows: got 90 of 1 shapes to fit matmul"):
        calibrate_products(alike, device)
    two = tmp_path / "two.csv"
    two.write_text("system,m,n,k,dtype,latency_us\nl40s,1,2,3,bf16,4\ngb200,1,2,3,bf16,4\n")
    with pytest.raises(InvalidError, match="got devices l40s, gb200; allowed: one"):
        timed_kernels([str(two)])
    assert len(timed_kernels([str(two)], only="gb2")[0]) == 1


def test_no_row_fits_constants_where_its_shape_is_held_out() -> None:
    rows = [row for row in shipped() if isinstance(row, KernelRow)]
    apart = held_out(rows)
    keys = {row.key for row in rows if (row.file, row.line) in apart}
    assert all((row.file, row.line) in apart for row in rows if row.key in keys)
    # what is timed twice counts once: the split of the shapes stays
    one = rows_of("h100_sxm", "bfloat16")
    twice = [*one, *(replace(row, line=row.line + 10**6) for row in one)]
    of_both = {line % 10**6 for _, line in held_out(twice)}
    assert of_both == {line for _, line in held_out(one)}


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths: list[str] = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        file = tmp_path / place / "timed.csv"
        file.write_text("system,m,n,k,dtype,latency_us\nl40s,64,64,64,bf16,4\n")
        paths.append(str(file))
    rows, _, _ = timed_kernels([*paths, paths[0]])
    assert [row.file for row in rows] == paths


def in_another_unit(path: Path, scale: float) -> str:
    """Write products whose times are in another unit: no times of this device."""
    with path.open("w", newline="", encoding="utf-8") as table:
        lines = csv.writer(table)
        lines.writerow(["system", "dtype", "m", "n", "k", "latency_us"])
        for row in rows_of("h100_sxm", "bfloat16")[:120]:
            shape = [int(row.shape.numbers[name]) for name in ("m", "n", "k")]
            lines.writerow(["h100_sxm", "bf16", *shape, repr(row.time_s * 1e6 * scale)])
    return str(path)


def test_a_fit_that_predicts_nothing_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = in_another_unit(tmp_path / "timed.csv", 1e3), tmp_path / "out.toml"
    asked = ["calibrate", "gemm", file, "--afresh", "--out", str(out)]
    assert main(asked) == 1
    assert "nothing is written" in capsys.readouterr().out
    assert not out.exists()
    assert main([*asked, "--force"]) == 0
    assert out.exists()
    out.write_text("title = 'mine'\n")
    assert main(asked) == 2
    assert "no override" in capsys.readouterr().err


def test_rows_that_no_device_can_have_run_are_named_and_fit_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = in_another_unit(tmp_path / "timed.csv", 1e-3), tmp_path / "out.toml"
    assert main(["calibrate", "gemm", file, "--out", str(out)]) != 0
    told = capsys.readouterr()
    assert "times the dense peak of 989.4 TFLOP/s" in told.out + told.err
    assert "more, lines " in told.out + told.err
    assert not out.exists()


@pytest.mark.parametrize("what", ["gemm", "attention", "step"])
def test_the_timing_script_refuses_a_machine_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    assert timing.main([what, "--out", str(tmp_path / "out.csv")]) == 2
    assert "torch: " in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


class TooSmall(Exception):
    pass


class Gpu:
    """As much of `torch` as times a kernel, on a device whose memory only holds thin products."""

    def __init__(self) -> None:
        self.cuda, self.nn, self.functional = self, self, self
        self.bfloat16 = "bfloat16"
        self.OutOfMemoryError = TooSmall
        self.emptied = 0

    def is_available(self) -> bool:
        return True

    def get_device_properties(self, _: int) -> Any:
        return type("Properties", (), {"name": "small", "L2_cache_size": 0})

    def randn(self, shape: tuple[int, ...], **_: object) -> tuple[int, ...]:
        return shape

    def linear(self, left: tuple[int, int], _: object) -> None:
        if left[0] > 1:
            raise TooSmall

    def empty_cache(self) -> None:
        self.emptied += 1

    def synchronize(self) -> None: ...

    def _sleep(self, _: int) -> None: ...

    CUDAGraph = graph = type(
        "Graph",
        (),
        {
            "__init__": lambda *_: None,
            "__enter__": lambda _: None,
            "__exit__": lambda *_: None,
            "replay": lambda _: None,
        },
    )
    Event = type(
        "Event",
        (),
        {
            "__init__": lambda _, **__: None,
            "record": lambda _: None,
            "elapsed_time": lambda *_: 0.5,
        },
    )


def test_a_shape_for_which_the_memory_is_too_small_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu()
    monkeypatch.setattr(timing, "_torch", lambda: gpu)
    monkeypatch.setattr(timing, "shapes", lambda: [(1, 8, 8), (2, 8, 8), (1, 8, 16)])
    out = tmp_path / "out.csv"
    assert timing.main(["gemm", "--out", str(out)]) == 0
    told = out.read_text().splitlines()
    assert told[1:] == ["small,bfloat16,1,8,8,500.0000", "small,bfloat16,1,8,16,500.0000"]
    assert "has not the memory" in capsys.readouterr().err
    assert gpu.emptied == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--out", "none/out.csv"], "out: none/out.csv"), (["--shapes", "0"], "shapes: got 0")],
)
def test_the_timing_script_says_what_it_cannot_do(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(timing, "_torch", Gpu)
    monkeypatch.chdir(tmp_path)
    assert timing.main(["gemm", "--out", "out.csv", *options]) == 2
    assert said in capsys.readouterr().err


def test_timed_weights_fill_the_cache_unless_they_may_be_warm() -> None:
    assert timing.copies(1e6, 5e7, warm=False) == 5
    assert timing.copies(2e7, 5e7, warm=False) == 3
    assert timing.copies(1e9, 5e7, warm=False) == 1
    assert timing.copies(1e6, 5e7, warm=True) == 1
    assert timing.shapes() == sorted(timing.shapes(), key=lambda s: s[0] * s[1] * s[2])
