"""Do figures of one run tell how others are meant, and are untrue ones refused?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scalewright import reproductions

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS = "paper,hardware,devices,model,seq,gbs,mbs,dp,dtype,metric,value,unit"
_RATE = "tokens_per_s_per_gpu"


def _priced(tmp_path: Path, dtype: str, *figures: tuple[str, float, str]) -> list[dict[str, Any]]:
    file = tmp_path / "rows.csv"
    rows = [
        f"a report,B200,8,llama3-8b,4096,64,2,8,{dtype},{metric},{value},{unit}"
        for metric, value, unit in figures
    ]
    file.write_text("\n".join([_COLUMNS, *rows]) + "\n", encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


@pytest.mark.parametrize("dtype", ["fp8", "mxfp8", "nvfp4"])
@pytest.mark.parametrize("speed", [0.2, 0.5, 0.9])
def test_a_share_of_either_peak_comes_as_near_as_its_rate(tmp_path: Path, dtype: str, speed: float):
    (rate,) = _priced(tmp_path, dtype, (_RATE, 9000.0, "tokens/s"))
    (mfu,) = _priced(tmp_path, dtype, ("MFU", 30.0, "%"))
    own, told = mfu["predicted"] * speed, rate["predicted"] * speed
    wide = {"fp8": 2.0, "mxfp8": 2.0, "nvfp4": 4.0}[dtype] * own
    for share in (own, wide):
        as_rate, as_share = _priced(tmp_path, dtype, (_RATE, told, "tokens/s"), ("MFU", share, "%"))
        assert as_share["error"] == pytest.approx(as_rate["error"], rel=1e-3, abs=1e-6)
        assert ("of the peak in bf16" in (as_share["note"] or "")) == (share == wide)


def test_nothing_is_taken_where_no_rate_is_told_or_rates_disagree(tmp_path: Path):
    (alone,) = _priced(tmp_path, "fp8", ("MFU", 60.0, "%"))
    (rate,) = _priced(tmp_path, "fp8", (_RATE, 9000.0, "tokens/s"))
    *_, among = _priced(
        tmp_path,
        "fp8",
        (_RATE, rate["predicted"], "tokens/s"),
        ("step time", 1.2 * 64 * 4096 / 8 / rate["predicted"], "s"),
        ("MFU", 2.0 * alone["predicted"], "%"),
    )
    *_, wide = _priced(tmp_path, "bf16", (_RATE, 9000.0, "tokens/s"), ("MFU", 60.0, "%"))
    for row in (alone, among, wide):
        assert "of the peak in bf16" not in (row["note"] or "")
    assert alone["predicted"] == among["predicted"]


def test_rates_that_agree_tell_together(tmp_path: Path):
    (mfu,) = _priced(tmp_path, "fp8", ("MFU", 30.0, "%"))
    (rate,) = _priced(tmp_path, "fp8", (_RATE, 9000.0, "tokens/s"))
    step = 64 * 4096 / 8 / rate["predicted"]
    wide = 2.0 * mfu["predicted"]
    *_, told = _priced(
        tmp_path,
        "fp8",
        (_RATE, rate["predicted"], "tokens/s"),
        ("step time", step, "s"),
        ("MFU", wide, "%"),
    )
    assert "of the peak in bf16" in told["note"]
    assert told["error"] == pytest.approx(0.0, abs=1e-6)


_LONG = "paper,hardware,devices,model,seq,gbs,mbs,dp,recompute,dtype,metric,value,unit"


def _long(
    tmp_path: Path, recompute: str, *figures: tuple[str, float, str], seq: int = 32768
) -> list[dict[str, Any]]:
    file = tmp_path / "rows.csv"
    run = f"a report of 2025,H100,8,llama3-8b,{seq},8,1,8,{recompute},bf16"
    rows = [f"{run},{metric},{value},{unit}" for metric, value, unit in figures]
    file.write_text("\n".join([_LONG, *rows]) + "\n", encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


@pytest.mark.parametrize(
    ("recompute", "share", "said"),
    [
        ("full", 4.0 / 3.0, "recomputed layers"),
        ("none", 0.75, "half under its mask"),
        ("none", 0.5, "attention left out"),
    ],
)
def test_flops_are_counted_as_the_rate_of_the_run_tells(
    tmp_path: Path, recompute: str, share: float, said: str
):
    rate, flops = _long(
        tmp_path, recompute, (_RATE, 5000.0, "tokens/s"), ("TFLOP/s per GPU", 400.0, "TFLOP/s")
    )
    told = flops["predicted"] * share
    _, counted = _long(
        tmp_path,
        recompute,
        (_RATE, rate["predicted"], "tokens/s"),
        ("TFLOP/s per GPU", told, "TFLOP/s"),
    )
    assert said in counted["note"]
    assert abs(counted["error"]) < 0.06
    # the model's own FLOPs need no other count
    _, usual = _long(
        tmp_path,
        recompute,
        (_RATE, rate["predicted"], "tokens/s"),
        ("TFLOP/s per GPU", flops["predicted"], "TFLOP/s"),
    )
    assert "tells the rate" not in (usual["note"] or "")


@pytest.mark.parametrize(
    ("above", "recompute"), [(1.0, "none"), (1.05, "selective"), (1.33, "full")]
)
def test_hfu_beside_mfu_tells_what_is_computed_again(tmp_path: Path, above: float, recompute: str):
    figures = ("MFU", 40.0, "%"), ("HFU", 40.0 * above, "%"), (_RATE, 7000.0, "tokens/s")
    rows = _long(tmp_path, "", *figures, seq=4096)
    for row in rows:
        assert row["plan"]["recompute"] == recompute
        assert f"recomputation taken as {recompute}" in row["note"]
    said = _long(tmp_path, "none", *figures, seq=4096)
    assert {row["plan"]["recompute"] for row in said} == {"none"}


def test_figures_that_cannot_all_be_true_are_refused_and_others_run(tmp_path: Path):
    file = tmp_path / "rows.csv"
    header = "paper,hardware,devices,model,seq,gbs,mbs,dp,dtype,tokens/s/GPU,step time (s)"
    job = "H100,8,llama2-7b,4096,64,2,8,bf16"
    file.write_text(f"{header}\na,{job},9000,100\nb,{job},9000,3.6\n", encoding="utf-8")
    *refused, rate, step = reproductions.run(rows_path=file)["rows"]
    for row in refused:
        assert row["status"] == "skipped"
        assert row["predicted"] is row["error"] is row["plan"] is None
        assert "line 2 is one of" in row["reason"]
        assert "allowed: within 3 times" in row["reason"]
    assert rate["error"] is not None
    assert step["error"] is not None


def test_a_rate_that_no_device_reaches_is_the_jobs(tmp_path: Path):
    figures = (
        ("throughput", 3.0, "PFLOP/s"),
        ("PFLOPS", 3.0, ""),
        ("exaFLOPs", 0.003, ""),
        ("TFLOPS", 3000.0, ""),
    )
    for figure in figures:
        (row,) = _priced(tmp_path, "bf16", figure)
        (whole,) = _priced(tmp_path, "bf16", ("total TFLOP/s", 3000.0, "TFLOP/s"))
        assert row["error"] == pytest.approx(whole["error"])
    (own,) = _priced(tmp_path, "bf16", ("PFLOPS per GPU", 3.0, ""))
    assert own["error"] < -0.5


_BARE = "paper,table,hardware,devices,model,seq,gbs,mbs,dtype,metric,value,unit"


def _tabled(
    tmp_path: Path, batch: str, *figures: tuple[str, str, float, str]
) -> list[dict[str, Any]]:
    file = tmp_path / "rows.csv"
    rows = [
        f"a report,{table},H100,8,llama3-8b,4096,{batch},2,bf16,{metric},{value},{unit}"
        for table, metric, value, unit in figures
    ]
    file.write_text("\n".join([_BARE, *rows]) + "\n", encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


@pytest.mark.parametrize("batch", [16, 64, 240])
@pytest.mark.parametrize(
    ("metric", "unit", "of_one"), [(_RATE, "tokens/s", 8), ("tokens_per_s", "tokens/s", 1)]
)
def test_a_rate_and_a_step_of_one_run_make_its_batch(
    tmp_path: Path, batch: int, metric: str, unit: str, of_one: int
):
    rate = batch * 4096 / 7.0 / of_one
    figures = (("a", "step time", 7.0, "s"), ("a", metric, rate, unit))
    made, said = (_tabled(tmp_path, each, *figures)[0] for each in ("", str(batch)))
    assert f"global batch of {batch} taken" in made["note"]
    assert made["predicted"] == said["predicted"]


def test_figures_of_other_tables_and_of_no_whole_batch_make_none(tmp_path: Path):
    rate = 64 * 4096 / 7.0 / 8
    apart = _tabled(tmp_path, "", ("a", "step time", 7.0, "s"), ("b", _RATE, rate, "tokens/s"))
    odd = _tabled(tmp_path, "", ("a", "step time", 7.0, "s"), ("a", _RATE, rate / 47.0, "tokens/s"))
    alone = _tabled(tmp_path, "", ("a", "step time", 7.0, "s"))
    for step in (apart[0], odd[0], alone[0]):
        assert "gbs: got nothing" in step["reason"]


def _of_nanogpt(tmp_path: Path, *figures: tuple[str, str, float, str]) -> list[dict[str, Any]]:
    """Price rows of one run of nanoGPT's, whose MFU is of the peak of A100 unless told."""
    file = tmp_path / "rows.csv"
    rows = [
        f"a report,{table},H100,8,gpt2,1024,64,8,bf16,{metric},{value},{unit},nanoGPT"
        for table, metric, value, unit in figures
    ]
    file.write_text("\n".join([f"{_BARE},source", *rows]) + "\n", encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


def test_the_peak_of_a_program_gives_way_to_what_is_printed(tmp_path: Path):
    (mfu,) = _of_nanogpt(tmp_path, ("a", "MFU", 30.0, "%"))
    (rate,) = _of_nanogpt(tmp_path, ("a", _RATE, 9000.0, "tokens/s"))
    quick = ("a", _RATE, rate["predicted"], "tokens/s")
    of_a100, of_own = mfu["predicted"], mfu["predicted"] * 312.0 / 989.4
    for share in (of_a100, of_own):
        _, beside = _of_nanogpt(tmp_path, quick, ("a", "MFU", share, "%"))
        assert beside["error"] == pytest.approx(0.0, abs=5e-3)
        assert ("the device's own peak" in beside["note"]) == (share == of_own)


def test_the_rate_of_a_figures_own_table_tells_how_it_is_meant(tmp_path: Path):
    (mfu,) = _of_nanogpt(tmp_path, ("a", "MFU", 30.0, "%"))
    (rate,) = _of_nanogpt(tmp_path, ("a", _RATE, 9000.0, "tokens/s"))
    own, slow = mfu["predicted"] * 312.0 / 989.4, 0.8
    rows = _of_nanogpt(
        tmp_path,
        ("a", _RATE, rate["predicted"], "tokens/s"),
        ("a", "MFU", own, "%"),
        ("b", _RATE, rate["predicted"] * slow, "tokens/s"),
        ("b", "MFU", own * slow, "%"),
    )
    for pair in (rows[:2], rows[2:]):
        told, share = (row["error"] for row in pair)
        assert share == pytest.approx(told, abs=1e-2)


def _variants(tmp_path: Path, *figures: tuple[str, float, str, str]) -> list[int]:
    """Return the numbers of the runs of rows of one configuration, by their remarks."""
    file = tmp_path / "rows.csv"
    rows = [
        f"a report,B200,8,llama3-8b,4096,64,2,8,bf16,{metric},{value},{unit},{remark}"
        for metric, value, unit, remark in figures
    ]
    file.write_text("\n".join([f"{_COLUMNS},source", *rows]) + "\n", encoding="utf-8")
    return [row["run"] for row in reproductions.run(rows_path=file)["rows"]]


def test_remarks_tell_variants_of_one_configuration_apart(tmp_path: Path):
    told = [
        (_RATE, 9000.0, "tokens/s", "fused kernel"),
        ("peak memory", 100.0, "GB", "fused kernel"),
        (_RATE, 8000.0, "tokens/s", "baseline"),
        ("MFU", 36.0, "%", "baseline"),
    ]
    fused, fused_too, plain, plain_too = _variants(tmp_path, *told)
    assert fused == fused_too != plain == plain_too
    # figures of one run of which each has a remark of its own
    once = [(_RATE, 9000.0, "tokens/s", "Table 3"), ("MFU", 40.0, "%", "Table 4")]
    assert len(set(_variants(tmp_path, *once))) == 1


def _of_two_rates(tmp_path: Path, hardware: str, devices: str, *rates: str) -> list[dict[str, Any]]:
    file = tmp_path / "rows.csv"
    rows = [f"a report,{hardware},{devices},llama3-8b,4096,bf16,{rate},tokens/s" for rate in rates]
    head = "paper,hardware,devices,model,seq,dtype,metric,value,unit"
    file.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


@pytest.mark.parametrize("count", [8, 24, 512])
def test_the_rate_of_a_run_and_of_one_device_make_its_devices(tmp_path: Path, count: int):
    rates = f"total tok/s,{count * 4471.0 + 16}", "tok/s/GPU,4471"
    for row in _of_two_rates(tmp_path, "H100", "", *rates):
        assert row["device_count"] == count
        assert f"{count} devices taken: the rates of this run" in row["note"]


def test_two_rates_make_no_devices_that_a_row_says_or_that_are_no_whole_number(tmp_path: Path):
    told = _of_two_rates(tmp_path, "H100", "16", "total tok/s,143088", "tok/s/GPU,4471")
    assert {row["device_count"] for row in told} == {16}
    for whole in ("total tok/s,141000", "total tok/s,4472"):
        row = _of_two_rates(tmp_path, "H100", "", whole, "tok/s/GPU,4471")[0]
        assert "devices: got nothing" in row["reason"]


def test_rates_tell_that_a_slice_named_by_cores_was_counted_by_them(tmp_path: Path):
    rates = "total tok/s,85632", "tok/s/device,5352"
    for row in _of_two_rates(tmp_path, "TPU v4-32", "32 chips", *rates):
        assert row["device_count"] == 16
    for row in _of_two_rates(tmp_path, "TPU v4-32", "32 chips", rates[0], "tok/s/device,2676"):
        assert row["device_count"] == 32
