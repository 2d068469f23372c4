"""Is nothing of a row taken for another thing, or passed over, in silence?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scalewright import reproductions
from scalewright.catalog.layers import built_in_root
from scalewright.cli import main
from scalewright.reproductions import collectives, kernels
from scalewright.reproductions.metrics import counts_steps, metric_meant
from test_rows_in_words import priced as rows_priced

if TYPE_CHECKING:
    from pathlib import Path


def priced(tmp_path: Path, **cells: str) -> dict[str, Any]:
    """Price a row of a page that nobody knows, which differs from the usual one in some cells."""
    return rows_priced(tmp_path, {"paper": "A page of 2024", **cells})[0]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("seconds_per_sample", ""),
        ("time", "s/token"),
        ("latency_per_token", "s"),
        ("tflops_per_step", ""),
        ("work", "TFLOPs/iteration"),
        ("pflops_per_sample", ""),
        ("gemm_tflops", ""),
        ("attention_tflop_s", ""),
        ("tokens_s_user", "tokens/s/user"),
        ("prompt_tokens_s", ""),
        ("target_tokens_s", ""),
    ],
)
def test_work_reciprocals_and_parts_are_no_rates(name: str, unit: str):
    assert metric_meant(name, unit) is None


@pytest.mark.parametrize(
    ("name", "unit", "meant"),
    [
        ("seconds_per_iteration", "", "step_time"),
        ("time_per_step", "s", "step_time"),
        ("time", "s/it", "step_time"),
        ("samples_s", "samples/s", "sequences_per_s"),
        ("tok_s", "tok/s/dev", "tokens_per_s_per_gpu"),
    ],
)
def test_times_of_steps_and_rates_stay_what_they_are(name: str, unit: str, meant: str):
    assert metric_meant(name, unit) == meant


@pytest.mark.parametrize("heading", ["train_steps_per_second", "avg_steps_per_sec", "x_iter/s"])
def test_steps_a_second_are_no_seconds_whatever_stands_before_them(tmp_path: Path, heading: str):
    assert counts_steps(heading, "")
    rate = priced(tmp_path, metric=heading, value="0.2", unit="")
    assert rate["published"] == pytest.approx(5.0)
    assert "a step taken" in rate["note"]


@pytest.mark.parametrize("metric", ["hardware TFLOPs/GPU", "TFLOPS/GPU incl. recompute"])
def test_flops_that_count_recomputation_are_compared_with_such(tmp_path: Path, metric: str):
    run = {"recompute": "full", "value": "400", "unit": "TFLOP/s"}
    counted = priced(tmp_path, metric=metric, **run)
    model = priced(tmp_path, metric="TFLOPs/GPU", **run)
    assert counted["predicted"] > 1.2 * model["predicted"]
    assert "recomputed layers count" in counted["note"]


@pytest.mark.parametrize("recompute", ["none", "selective"])
def test_hardware_flops_count_nothing_that_is_not_computed_again(tmp_path: Path, recompute: str):
    run = {"recompute": recompute, "value": "400", "unit": "TFLOP/s"}
    counted = priced(tmp_path, metric="hardware TFLOPs/GPU", **run)
    assert counted["predicted"] == priced(tmp_path, metric="TFLOPs/GPU", **run)["predicted"]


def test_seconds_of_a_token_are_refused_as_they_are_written(tmp_path: Path):
    row = priced(tmp_path, metric="s/token", value="1.1e-5", unit="")
    assert row["status"] == "skipped"


def test_a_network_that_is_not_understood_is_named(tmp_path: Path):
    run = {"metric": "step time", "value": "5", "unit": "s"}
    assert "'EDR' tells no rate" in priced(tmp_path, interconnect="EDR", **run)["note"]
    assert "tells no rate" not in priced(tmp_path, interconnect="400 Gb/s RoCE", **run)["note"]


def test_an_encoder_beside_a_decoder_is_not_priced_as_one_stack(tmp_path: Path):
    shape = {"layers": "24", "hidden": "1024", "heads": "16"}
    run = {"metric": "step time", "value": "5", "unit": "s"}
    row = priced(tmp_path, **(shape | run), model="T5")
    assert row["status"] == "skipped"
    assert "one stack's shape" in row["reason"]


def test_a_step_time_in_tokens_a_second_is_refused(tmp_path: Path):
    row = priced(tmp_path, metric="step time", value="10", unit="tokens/s")
    assert row["status"] == "skipped"
    assert "unit" in row["reason"]


def test_headings_that_are_not_understood_are_named_beside_a_price(tmp_path: Path):
    run = {"metric": "step time", "value": "5", "unit": "s"}
    plain = priced(tmp_path, **run)
    beside = priced(tmp_path, flash="no", optimizer_kind="sgd", **run)
    assert "headings not understood" not in plain["note"]
    assert "'flash', 'optimizer_kind'" in beside["note"]


def test_remarks_in_a_column_of_that_name_are_read(tmp_path: Path):
    run = {"metric": "step time", "value": "5", "unit": "s", "recompute": "full"}
    row = priced(tmp_path, remarks="CPU offload of parameters and optimizer", **run)
    assert row["plan"]["offload_optimizer"] is True


def test_a_time_without_a_unit_that_cannot_be_seconds_says_so(tmp_path: Path):
    far = priced(tmp_path, metric="step time", value="5000", unit="")
    near = priced(tmp_path, metric="step time", value="5", unit="")
    said = priced(tmp_path, metric="step time", value="5000", unit="s")
    assert "taken as seconds" in far["note"]
    assert "taken as seconds" not in near["note"] + said["note"]


def test_a_size_that_is_not_the_models_is_named(tmp_path: Path):
    run = {"metric": "step time", "value": "5", "unit": "s"}
    assert "the row says 13B parameters" in priced(tmp_path, size="13B", **run)["note"]
    assert "parameters" not in priced(tmp_path, size="7B", **run)["note"]


def test_memory_is_not_held_against_the_peak_of_arithmetic(tmp_path: Path):
    row = priced(tmp_path, metric="memory", value="70000", unit="MiB")
    assert "peak" not in row["note"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("GPT-MoE 1.3B", "a mixture"),
        ("GPT-3 175B MoE", "a mixture"),
        ("Llama 2 7B inference", "in training"),
    ],
)
def test_a_name_that_says_more_than_its_model_has_is_refused(
    tmp_path: Path, name: str, reason: str
):
    row = priced(tmp_path, model=name, metric="step time", value="5", unit="s")
    assert row["status"] == "skipped"
    assert reason in row["reason"]


def test_what_reads_pictures_is_named_as_not_priced(tmp_path: Path):
    row = priced(tmp_path, model="Qwen2-VL-7B", metric="step time", value="5", unit="s")
    assert "what reads pictures is not priced" in (row["note"] or row["reason"])


def test_a_code_of_one_source_is_not_anybodys_words(tmp_path: Path):
    run = {"metric": "step time", "value": "5", "unit": "s"}
    code, words, dashed = (
        priced(tmp_path, hardware=text, **run)["system"]
        for text in ("a100_40gb", "A100 40GB", "A100-40G")
    )
    assert code == "mosaic-a100-40gb"
    assert words == dashed == "dgx-a100-40gb"


def test_the_schedule_of_a_pipeline_is_read(tmp_path: Path):
    run = {"dp": "2", "pp": "4", "metric": "step time", "value": "5", "unit": "s"}
    plans = {
        text: priced(tmp_path, schedule=text, **run)["plan"]
        for text in ("GPipe", "1F1B", "ZB-H1", "Interleaved 1F1B")
    }
    told = [plan["schedule"] for plan in plans.values()]
    assert told == ["gpipe", "1f1b", "zb-h1", "interleaved"]
    assert plans["Interleaved 1F1B"]["interleave"] > 1
    virtual = priced(tmp_path, schedule="1F1B", vpp="2", **run)["plan"]
    assert (virtual["schedule"], virtual["interleave"]) == ("interleaved", 2)
    unknown = priced(tmp_path, schedule="magic", **run)
    assert "schedule: got 'magic'; allowed: gpipe, 1f1b" in unknown["reason"]
    # one stage has no schedule
    assert priced(tmp_path, schedule="magic", **{**run, "pp": "1", "dp": "8"})["plan"]


@pytest.mark.parametrize(("text", "stage"), [("yes", 1), ("no", 0), ("True", 1)])
def test_a_column_on_the_distributed_optimizer_is_zero_1(tmp_path: Path, text: str, stage: int):
    row = priced(tmp_path, metric="step time", value="5", unit="s", distributed_optimizer=text)
    assert row["plan"]["zero"] == stage


@pytest.mark.parametrize(("value", "told"), [(">5", True), ("≤ 5", True), ("~5", False)])
def test_a_bound_in_the_place_of_a_figure_is_named(tmp_path: Path, value: str, told: bool):
    row = priced(tmp_path, metric="step time", value=value, unit="s")
    assert row["published"] == 5.0
    assert ("is a bound" in row["note"]) == told


def test_a_count_of_micro_batches_tells_their_size(tmp_path: Path):
    run = {"metric": "step time", "value": "5", "unit": "s", "mbs": "", "gbs": "256"}
    told = priced(tmp_path, gas="8", **run)
    assert told["plan"]["micro_batch"] == 4
    size = priced(tmp_path, **{**run, "mbs": "4"})
    assert told["predicted"] == size["predicted"]
    # 256 are no 7 micro-batches
    assert priced(tmp_path, gas="7", **run)["status"] == "searched"


def test_a_row_over_several_lines_is_named_by_its_first(tmp_path: Path):
    file = tmp_path / "rows.csv"
    file.write_text('paper,model,metric,value\na,"x\ny",MFU,?\nb,z,MFU,?\n', encoding="utf-8")
    assert [row["line"] for row in reproductions.run(rows_path=file)["rows"]] == [2, 4]


def test_two_files_of_rows_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "rows.csv"
    file.write_text("paper,model,metric,value\na,x,MFU,1\n", encoding="utf-8")
    assert main(["reproduce", "--rows", str(file), "--rows", str(file)]) == 2
    assert "--rows: got 2 files" in capsys.readouterr().err


def test_a_collective_beyond_its_links_is_refused(tmp_path: Path):
    file = tmp_path / "rows.csv"
    rows = ["all_reduce,8,1G,4.139", "all_reduce,8,1G,4139"]
    file.write_text("\n".join(["collective,ranks,bytes,time_us", *rows]), encoding="utf-8")
    quick, real = collectives.run(file, "dgx-h100")["rows"]
    assert "as fast as the links of dgx-h100 allow; allowed: up to 2 times" in quick["reason"]
    assert real["part"] == "not_calibrated"
    assert abs(real["error"]) < 0.5
    (first, *_) = collectives.run(file)["rows"]
    assert "system: got nothing" in first["reason"]


def test_a_kernel_of_the_package_is_known_by_whatever_name_its_device_goes(tmp_path: Path):
    ours = [r for r in kernels.run("gemm")["rows"] if r["system"] == "h100_sxm"]
    shapes = {r["part"]: r for r in ours if r["dtype"] == "bfloat16" and r["error"] is not None}
    table = built_in_root() / "published" / "kernels" / "gemm.csv"
    lines = table.read_text(encoding="utf-8").split("\n")
    file = tmp_path / "own.csv"
    for part in ("fitted", "held_out"):
        line = lines[shapes[part]["line"] - 1].replace("h100_sxm", "H100 SXM")
        file.write_text(f"{lines[0]}\n{line}\n", encoding="utf-8")
        (row,) = kernels.run(rows_path=file)["rows"]
        assert row["part"] == part
