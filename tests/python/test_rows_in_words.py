"""Is a row read as a person reads it, where its cells say more than names and numbers?"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest

from scalewright import reproductions
from scalewright.errors import InvalidError
from scalewright.reproductions.adapters import adapted
from scalewright.reproductions.machine import Machines, machine_of
from scalewright.reproductions.metrics import metric_meant, metric_of, unit_meant
from scalewright.reproductions.reading import Row, read_rows
from scalewright.reproductions.wide import as_figure
from scalewright.reproductions.wording import recomputation_meant

if TYPE_CHECKING:
    from pathlib import Path

RUN = {
    "hardware": "H100",
    "devices": "8",
    "model": "llama2-7b",
    "seq": "4096",
    "gbs": "128",
    "mbs": "1",
    "tp": "1",
    "pp": "1",
    "dp": "8",
    "dtype": "bf16",
    "metric": "step time",
    "value": "5",
    "unit": "s",
}


def priced(tmp_path: Path, *runs: dict[str, str]) -> list[dict[str, Any]]:
    """Price rows that differ from the usual one in some cells."""
    rows = [RUN | run for run in runs]
    headers = list(dict.fromkeys(name for row in rows for name in row))
    file = tmp_path / "rows.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, headers)
        writer.writeheader()
        writer.writerows(rows)
    return reproductions.run(rows_path=file)["rows"]


@pytest.mark.parametrize(
    ("hardware", "count"),
    [
        ("8\u00d7H800", 8),
        ("1x 4090", 1),
        ("one A100", 1),
        ("single V100", 1),
        ("1 H100 node (8)", 8),
        ("256 B200", 256),
        ("4xH100", 4),
        ("8X A100 80GB SXM", 8),
        ("2\u00d78 MI355X", 16),
        ("2x 40 GB A100", 2),
        ("8xA100 40GB", 8),
        ("8 x H100 80GB HBM3", 8),
        ("H100 x 64", 64),
        ("2 nodes \u00d7 1 A100-PCIE-40GB", 2),
        ("TPU v4-32 (16 chips)", 16),
    ],
)
def test_a_count_beside_the_hardware_is_that_of_a_row_without_one(hardware: str, count: int):
    machine = machine_of(Row("a.csv", 2, {"hardware": hardware}), Machines())
    assert machine.devices == count
    assert any("devices taken" in note for note in machine.notes)


@pytest.mark.parametrize("hardware", ["4090 (24GB)", "8x H100 per node", "RTX 5090"])
def test_a_number_that_is_a_name_or_of_a_part_counts_no_devices(hardware: str):
    with pytest.raises(InvalidError, match="devices: got nothing"):
        machine_of(Row("a.csv", 2, {"hardware": hardware}), Machines())


def test_counts_that_contradict_one_another_are_told():
    row = Row("a.csv", 2, {"hardware": "16x H100", "devices": "8"})
    machine = machine_of(row, Machines())
    assert machine.devices == 8
    assert any("counts 16 devices" in note for note in machine.notes)


@pytest.mark.parametrize(
    ("value", "unit", "read", "of"),
    [
        ("2749.40 ms", "", "2749.40", "ms"),
        ("2749.40 ms", "s", "2.7494", "s"),
        ("221k", "tokens/s", "221000.0", "tokens/s"),
        ("~292K tok/s", "", "292000.0", "tok/s"),
        ("47.3% bf16 MFU", "%", "47.3", "%"),
        ("73.32GiB(92.70%)", "", "73.32", "GiB"),
        ("47.1G", "GB", "47.1", "GB"),
        ("1.7s/it", "s/iter", "1.7", "s/iter"),
        ("12 h", "days", "0.5", "days"),
        ("1.2 PFLOP/s", "TFLOP/s", "1200", "TFLOP/s"),
        ("221k", "K tokens/s", "221", "K tokens/s"),
    ],
)
def test_a_value_with_its_unit_is_the_same_figure(value: str, unit: str, read: str, of: str):
    figure = as_figure({"value": value, "unit": unit})
    assert float(figure["value"]) == pytest.approx(float(read))
    assert figure["unit"] == of


@pytest.mark.parametrize("value", ["5", "1e1", "130\u2013140k", "about 5"])
def test_a_bare_number_or_what_is_unlike_one_stays(value: str):
    assert as_figure({"value": value, "unit": "s"}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "optimizer_step_time",
        "forward_step_time",
        "evaluation_step_time",
        "communication_time_per_step",
        "bubble_time_per_step",
        "micro_batch_time",
        "time_per_100_steps",
        "decode_throughput",
        "inference_tokens_s",
        "tokens_s_w",
        "peak_tflops",
    ],
)
def test_a_part_of_a_step_or_another_work_is_no_figure_of_training(name: str):
    assert metric_meant(name, "") is None


def test_a_unit_of_one_device_makes_a_rate_of_one_device():
    said = {"metric": "tokens/s", "unit": "tokens/s/GPU"}
    assert metric_of(Row("a.csv", 2, said)) == "tokens_per_s_per_gpu"
    assert metric_of(Row("a.csv", 2, said | {"unit": "tokens/s"})) == "tokens_per_s"


@pytest.mark.parametrize("unit", ["tokens/min", "tokens/day", "tok/s/node", "$", "%"])
def test_a_rate_of_another_time_or_thing_is_not_taken_for_one_of_a_second(unit: str):
    assert unit_meant("tokens_per_s", "tokens_s", unit) == unit


def test_memory_without_a_unit_is_refused_where_it_cannot_be_bytes(tmp_path: Path):
    bare, told = priced(
        tmp_path,
        {"metric": "peak memory", "value": "81.67", "unit": ""},
        {"metric": "peak memory", "value": "81.67", "unit": "GiB"},
    )
    assert "unit: got nothing beside 81.67" in bare["reason"]
    assert told["status"] == "searched"


def test_programs_count_tokens_of_one_device_and_mfu_of_their_own_peak(tmp_path: Path):
    v100 = {"hardware": "V100 32G", "devices": "1", "dp": "1", "dtype": "fp16", "gbs": "60"}
    gpt2 = v100 | {"model": "gpt2", "mbs": "12", "seq": "1024", "metric": "mfu", "unit": "%"}
    whole, one, share, other = priced(
        tmp_path,
        {"metric": "tps", "value": "13000", "unit": ""},
        {"paper": "torchtitan log, compiled", "metric": "tps", "value": "13000", "unit": ""},
        gpt2 | {"paper": "nanoGPT log", "value": "15"},
        gpt2 | {"paper": "compiled, torch.compile", "value": "15"},
    )
    assert whole["predicted"] == pytest.approx(8 * one["predicted"], rel=0.5)
    # nanoGPT divides by the peak of A100, 312 TFLOP/s, a V100 has 125
    assert share["predicted"] == pytest.approx(other["predicted"] * 125 / 312, rel=0.01)
    assert "peak of A100" in share["note"]


def test_qlora_is_no_full_fine_tuning_and_its_memory_is_refused(tmp_path: Path):
    slow, memory = priced(
        tmp_path,
        {"model": "llama2-7b QLoRA rank 8"},
        {"model": "llama2-7b QLoRA", "metric": "memory", "value": "13", "unit": "GB"},
    )
    assert "adapters of rank 8" in slow["note"]
    assert "4 bits" in slow["note"]
    assert "4 bits" in memory["reason"]


def test_a_rank_in_words_is_the_rank_of_adapters():
    row, _ = adapted(Row("a.csv", 2, {"model": "Llama 2 7B LoRA rank 64", "metric": "step time"}))
    assert row.text("lora") == "64"


def test_a_module_for_a_further_token_makes_a_step_longer(tmp_path: Path):
    cells = {"model": "deepseek-v3", "devices": "512", "dp": "512", "gbs": "4096", "zero": "3"}
    plain, more = priced(tmp_path, cells, cells | {"model": "DeepSeek-V3 + MTP"})
    assert more["predicted"] > plain["predicted"]
    assert "one module for a further token" in more["note"]


def test_shared_experts_in_parentheses_are_as_wide_as_they_say(tmp_path: Path):
    shape = {"layers": "24", "hidden": "2560", "heads": "20", "ffn": "1280", "model": "a mixture"}
    texts = ("256 experts top-8", "256 experts top-8 + 1 shared (5120)")
    none, wide = priced(tmp_path, *(shape | {"moe": text} for text in texts))
    grown = wide["parameters"] - none["parameters"]
    assert grown == pytest.approx(24 * 3 * 2560 * 5120, rel=0.01)


def test_what_recomputes_in_two_ways_is_refused():
    assert recomputation_meant("full/selective") is None
    assert recomputation_meant("selective + full") is None
    assert recomputation_meant("partial (recompute_num_layers=8)") == ("full", 8)
    assert recomputation_meant("1 layer per virtual stage") == ("full", 1)
    assert recomputation_meant("15 layers") == ("full", 15)
    assert recomputation_meant("every 2 layers") is None


def test_a_speed_up_over_a_label_of_two_runs_is_refused(tmp_path: Path):
    rows = priced(
        tmp_path,
        {"label": "a"},
        {"label": "a", "hardware": "A100", "value": "15"},
        {"label": "b", "dtype": "fp8", "metric": "speed-up", "value": "1.3x", "against": "a"},
        {"metric": "speedup", "value": "1.3", "unit": "", "label": "c"},
    )
    assert "the label of several runs" in rows[2]["reason"]
    assert "against: got nothing" in rows[3]["reason"]


def test_steps_a_second_are_the_time_of_a_step(tmp_path: Path):
    timed, counted = priced(tmp_path, {}, {"metric": "rate", "value": "0.2", "unit": "steps/s"})
    assert counted["published"] == timed["published"] == 5.0
    assert counted["error"] == timed["error"]
    assert "5 s a step taken, of 0.2 steps a second" in counted["note"]


def test_figures_of_a_bad_other_run_say_so(tmp_path: Path):
    rows = priced(
        tmp_path,
        {"label": "bad", "tp": "3"},
        {"metric": "speedup", "value": "1.3", "unit": "x", "against": "bad", "dtype": "fp8"},
    )
    assert rows[1]["reason"].startswith("against: line 2 cannot be priced")


@pytest.mark.parametrize(
    ("value", "unit", "middle"),
    [
        ("~10\u201312k", "tokens/s/GPU", 11_000.0),
        ("10,000 to 12,000", "tokens/s/GPU", 11_000.0),
        ("40-44%", "%", 42.0),
        ("4.5\u20135.5", "s", 5.0),
        ("\u7ea6 4.5\u20135.5 s/step", "s", 5.0),
        ("13.3-13.4 s/step", "s", 13.35),
    ],
)
def test_the_middle_stands_for_a_range(tmp_path: Path, value: str, unit: str, middle: float):
    metric = {"%": "MFU", "s": "step time"}.get(unit, "throughput")
    (row,) = priced(tmp_path, {"metric": metric, "value": value, "unit": unit})
    assert row["published"] == middle
    said = value.removeprefix("\u7ea6 ")
    assert f"the middle of '{said}' taken" in row["note"]


@pytest.mark.parametrize("value", ["\u7ea6 5", "\u5927\u7ea65.0 s", "about 5", "approx. 5,000 ms"])
def test_a_figure_that_is_said_to_be_rounded_is_one(tmp_path: Path, value: str):
    (row,) = priced(tmp_path, {"metric": "step time", "value": value, "unit": "s"})
    assert row["published"] == 5.0


@pytest.mark.parametrize("value", ["1-9", "12-10", "1e-5-2", "3-4-5"])
def test_what_is_no_range_of_one_figure_is_refused(tmp_path: Path, value: str):
    (row,) = priced(tmp_path, {"value": value})
    assert "allowed: one number" in row["reason"]


def test_experts_counted_beside_data_ranks_are_data_ranks(tmp_path: Path):
    run = {"model": "mixtral-8x7b", "hardware": "H200", "devices": "16", "ep": "2", "zero": "3"}
    beside, among, neither = priced(
        tmp_path, {**run, "dp": "8"}, {**run, "dp": "16"}, {**run, "dp": "4"}
    )
    assert beside["predicted"] == among["predicted"]
    assert "16 data ranks taken: 8 beside 2 of experts" in beside["note"]
    assert "allowed: 4" in neither["reason"]


def test_a_title_above_the_header_is_passed_over(tmp_path: Path):
    file = tmp_path / "titled.csv"
    header, cells = ",".join(RUN), ",".join(RUN.values())
    file.write_text(f"My results{',' * (len(RUN) - 1)}\n{header}\n{cells}\n", encoding="utf-8")
    (row,) = read_rows(file)
    assert row.text("hardware") == "H100"
    assert row.text("paper") == "titled"


def test_columns_of_another_device_are_figures_of_another_run(tmp_path: Path):
    file = tmp_path / "wide.csv"
    header = "GPU,GPUs,model,seq,gbs,H100 tokens/s/GPU,A100 tokens/s/GPU"
    file.write_text(f"{header}\nH100,8,llama2-7b,4096,128,13000,4500\n", encoding="utf-8")
    (row,) = read_rows(file)
    assert row.text("value") == "13000"


def test_cells_without_a_number_are_told_and_count_for_nothing(tmp_path: Path):
    plain, odd = priced(tmp_path, {}, {"nodes": "two", "gas": "abc"})
    assert odd["predicted"] == plain["predicted"]
    assert "'two' is no number" in odd["note"]
    assert "'abc' is no number" in odd["note"]


def test_experts_of_a_dense_model_are_told(tmp_path: Path):
    dense, mixture = priced(
        tmp_path, {"moe": "8 experts top-2"}, {"model": "mixtral 8x7b", "moe": "none", "zero": "3"}
    )
    assert "its model is dense" in dense["note"]
    assert "its model is a mixture" in mixture["note"]


def test_a_job_rate_that_leaves_devices_idle_may_be_of_one_device(tmp_path: Path):
    (row,) = priced(
        tmp_path,
        {"devices": "64", "dp": "64", "metric": "tokens/s", "value": "9000", "unit": "tokens/s"},
    )
    assert "it may be of one device" in row["note"]


def test_remarks_tell_the_sharding_where_its_column_is_blank(tmp_path: Path):
    column, remark, several, denied, url = priced(
        tmp_path,
        {"zero": "FSDP", "dp": "8"},
        {"source": "A report, FSDP2 without compilation"},
        {"source": "FSDP against ZeRO-2"},
        {"source": "no FSDP"},
        {"source": "github.com/someone/fsdp-runs"},
    )
    assert remark["predicted"] == column["predicted"]
    assert "remarks of the row say 'fsdp2'" in remark["note"]
    for other in (several, denied, url):
        assert "remarks of the row" not in other["note"]


def test_remarks_tell_that_a_rate_is_of_one_device(tmp_path: Path):
    rate = {"metric": "throughput", "unit": "tokens/s", "value": "9000"}
    of_job, remark, unit, other = priced(
        tmp_path,
        rate,
        {**rate, "source": "a report; rate of one GPU"},
        {**rate, "unit": "tokens/s/GPU"},
        {**rate, "source": "a report; batch per GPU"},
    )
    assert remark["predicted"] == unit["predicted"] == pytest.approx(of_job["predicted"] / 8)
    assert other["predicted"] == of_job["predicted"]


def test_a_format_that_the_device_lacks_is_told(tmp_path: Path):
    v100 = {"hardware": "DGX-1 V100 32GB", "model": "gpt2", "seq": "1024", "gbs": "64"}
    lacks, has = priced(tmp_path, {**v100, "dtype": "bf16"}, {**v100, "dtype": "fp16"})
    assert "the device has no bf16: its products are priced as fp16" in lacks["note"]
    assert "the device has no" not in has["note"]


def test_remarks_tell_state_in_16_bits(tmp_path: Path):
    memory = {"metric": "peak memory", "unit": "GiB", "value": "40", "zero": "3"}
    wide, pure, narrow, program = priced(
        tmp_path,
        memory,
        {**memory, "dtype": "pure bf16"},
        {**memory, "source": "a trainer with bf16 AdamW"},
        {**memory, "source": "DeepSpeed's bf16 optimizer"},
    )
    assert narrow["predicted"] == pure["predicted"] < wide["predicted"]
    assert program["predicted"] > pure["predicted"]


def test_remarks_tell_that_the_optimizer_lies_in_host_memory(tmp_path: Path):
    run = {"zero": "3", "recompute": "full"}
    cell, remark, states, denied, able = (
        row["plan"]["offload_optimizer"]
        for row in priced(
            tmp_path,
            {**run, "zero": "3 + CPU offload"},
            {**run, "source": "PyTorch FSDP with CPU offload of parameters and optimizer"},
            {**run, "source": "ZeRO-3, optimizer states offloaded to CPU"},
            {**run, "source": "ZeRO-3, no offload of the optimizer"},
            {**run, "source": "DeepSpeed, with CPU offload capability"},
        )
    )
    assert cell is remark is states is True
    assert denied is able is False


@pytest.mark.parametrize(
    ("column", "text", "meant"),
    [
        ("zero", "0 (DDP)", "DDP"),
        ("zero", "1 (distributed optimizer)", "1"),
        ("zero", "3 with MiCS (shard group 2, 4 copies)", "zero3=2"),
        ("recompute", "full (8 FLOPs per parameter counted)", "full"),
        ("dtype", "16-bit base, LoRA", "bf16"),
        ("model", "Llama 2 7B, continued pretraining", "llama2-7b"),
        ("model", "Llama-2 7B fine-tuning (alpaca)", "llama2-7b"),
    ],
)
def test_a_remark_in_a_cell_leaves_what_the_cell_says(
    tmp_path: Path, column: str, text: str, meant: str
):
    said, plain = priced(tmp_path, {column: text}, {column: meant})
    assert said["predicted"] == plain["predicted"] is not None


def test_words_tell_the_length_of_a_whole_run(tmp_path: Path):
    run = {"metric": "training_time", "value": "30", "unit": "day"}
    named, cell, scaled, two, none = priced(
        tmp_path,
        {**run, "metric": "training_time_for_500b_tokens"},
        {**run, "source": "a report: 500 billion tokens"},
        {**run, "source": "a report: 1.5T tokens, 32k vocabulary"},
        {**run, "source": "500B tokens of 2T tokens in all"},
        run,
    )
    assert named["predicted"] == cell["predicted"] == pytest.approx(scaled["predicted"] / 3.0)
    assert "a run of 500 billion tokens" in cell["note"]
    for row in (two, none):
        assert row["status"] == "skipped"
        assert "a whole run" in row["reason"]


def test_a_cell_on_recomputation_tells_of_activations_on_the_host(tmp_path: Path):
    run = {"metric": "peak memory", "unit": "GiB", "value": "40"}
    plain, stored, denied, column = priced(
        tmp_path,
        {**run, "recompute": "full"},
        {**run, "recompute": "activation checkpointing, CPU offload"},
        {**run, "recompute": "full, no offload"},
        {**run, "recompute": "full", "offload_activations": "100"},
    )
    assert stored["predicted"] == column["predicted"] < plain["predicted"]
    assert denied["predicted"] == plain["predicted"]


def test_two_models_in_a_cell_are_refused(tmp_path: Path):
    shape = {"layers": "32", "hidden": "4096", "heads": "32"}
    joined, predicts = priced(
        tmp_path,
        {**shape, "model": "ViT-5B (48 layers) + GPT-7B multimodal"},
        {**shape, "model": "Llama 2 7B + MTP"},
    )
    assert joined["status"] == "skipped"
    assert "one model" in joined["reason"]
    assert predicts["status"] != "skipped"


def test_a_metric_of_days_for_so_many_tokens_is_the_time_of_a_run(tmp_path: Path):
    run = {"value": "30", "unit": "days"}
    named, written, clock = priced(
        tmp_path,
        {**run, "metric": "training_time_for_500b_tokens"},
        {"metric": "training_days for 500B tokens (600k steps)", "value": "30", "unit": ""},
        {**run, "metric": "wall-clock time for 0.5 trillion tokens"},
    )
    assert named["predicted"] == written["predicted"] == clock["predicted"] is not None
    hours = {**run, "metric": "GPU hours", "unit": "h", "value": "82000"}
    counted, said = (
        {**hours, "source": f"trained on {tokens}"}
        for tokens in ("1,000,000,000,000 tokens", "1T tokens")
    )
    assert len({row["predicted"] for row in priced(tmp_path, counted, said)}) == 1
    (part,) = priced(tmp_path, {**run, "metric": "training_days (part of 1T tokens)"})
    assert part["status"] == "skipped"


@pytest.mark.parametrize(
    ("metric", "value", "unit"),
    [
        ("days to train on 500B tokens", "~30 days", ""),
        ("Time to 500B tokens", "~30 days", ""),
        ("Training time (500 billion tokens)", "30 days", ""),
        ("training days (5 epochs over 100B tokens)", "30", ""),
        ("GPU-hours (0.5T tokens)", "5,760", ""),
        ("A100 hours for 0.5T tokens", "5.76k", "h"),
        ("Training Time (GPU hours)", "5760", "GPU hours"),
        ("gpu_hours (train for 500B)", "5760", ""),
    ],
)
def test_a_metric_of_a_whole_run_is_read_however_it_is_spelt(
    tmp_path: Path, metric: str, value: str, unit: str
):
    spelt = {"metric": metric, "value": value, "unit": unit, "table": "500B+ tokens"}
    days, row = priced(
        tmp_path, {"metric": "days_for_500b_tokens", "value": "30", "unit": "days"}, spelt
    )
    times = 8 * 24.0 if "hours" in metric.casefold() else 1.0
    assert row["predicted"] == pytest.approx(days["predicted"] * times)


def test_device_hours_of_so_many_tokens_need_no_count_of_devices(tmp_path: Path):
    hours = {"metric": "GPU hours for 2.0T tokens", "value": "184320", "unit": "", "devices": ""}
    (row,) = priced(tmp_path, {**hours, "tp": "", "pp": "", "dp": ""})
    assert row["predicted"] is not None
    assert "says no count" in row["note"]


@pytest.mark.parametrize("metric", ["TF/s per GPU", "TF per GPU", "TF/s/GPU"])
def test_short_flops_name_a_metric_too(tmp_path: Path, metric: str):
    rate = {"value": "400", "unit": ""}
    named = ({"metric": each, **rate} for each in ("TFLOP/s/GPU", metric, "TF version"))
    whole, short, other = priced(tmp_path, *named)
    assert short["predicted"] == whole["predicted"] is not None
    assert "unknown name" in other["reason"]


def test_seconds_alone_are_a_steps_in_the_logs_of_maxtext_alone(tmp_path: Path):
    log = {"metric": "seconds", "value": "10", "unit": "", "hardware": "TPU v5p"}
    said, unsaid = priced(tmp_path, {**log, "source": "MaxText"}, {**log, "source": "a log"})
    assert said["kind"] == "time"
    assert "unknown name" in unsaid["reason"]


@pytest.mark.parametrize("unit", ["TF/s/GPU", "TF/GPU", "TFLOPs/s/GPU"])
def test_short_words_for_flops_are_units(tmp_path: Path, unit: str):
    told, plain = priced(
        tmp_path,
        {"metric": "throughput (last)", "value": "400", "unit": unit},
        {"metric": "tflops_per_gpu", "value": "400", "unit": "TFLOP/s"},
    )
    assert told["error"] == plain["error"] is not None


@pytest.mark.parametrize(
    ("remark", "recompute"),
    [
        ("torch 2.6; gradient checkpointing", "full"),
        ("with full activation recomputation, flash attention", "full"),
        ("selective rematerialization", "selective"),
        ("no activation checkpointing", "none"),
    ],
)
def test_a_clause_of_remarks_says_what_is_computed_again(
    tmp_path: Path, remark: str, recompute: str
):
    told, said = priced(tmp_path, {"source": remark}, {"source": "a page", "recompute": recompute})
    assert told["plan"] == said["plan"]
    assert f"recomputation taken as {recompute}" in told["note"]


@pytest.mark.parametrize(
    "remark",
    ["recompute not printed", "gradient checkpointing not stated", "with or without recomputation"],
)
def test_remarks_that_say_nothing_of_recomputation_leave_it_open(tmp_path: Path, remark: str):
    (row,) = priced(tmp_path, {"source": remark})
    assert "recomputation taken" not in row["note"]


def test_sharding_in_more_words_is_the_same(tmp_path: Path):
    plain, optimizer, host, superoffload = priced(
        tmp_path,
        {"zero": "ZeRO-2"},
        {"zero": "ZeRO-2 optimizer"},
        {"zero": "zero 3 + offload"},
        {"zero": "zero 3 + superoffload"},
    )
    assert plain["predicted"] == optimizer["predicted"] is not None
    assert host["plan"] == superoffload["plan"]
    assert superoffload["plan"]["offload_optimizer"]


def test_names_without_a_space_and_without_prediction_layers(tmp_path: Path):
    spaced, joined = priced(tmp_path, {"model": "Llama 8B"}, {"model": "Llama8B"})
    assert spaced["predicted"] == joined["predicted"] is not None
    plain, without = priced(
        tmp_path, {"model": "ling-mini-2.0"}, {"model": "Ling-mini-2.0 w/o MTP"}
    )
    assert plain["predicted"] == without["predicted"] is not None


@pytest.mark.parametrize("kind", ["Adapter", "Adapter v2", "LLaMA-Adapter", "IA3"])
def test_adapters_that_are_no_lora_are_refused(kind: str, tmp_path: Path):
    row = priced(tmp_path, {"model": f"Llama 2 7B ({kind})"})[0]
    assert row["status"] == "skipped"
    assert "adapters of another kind; allowed: LoRA and QLoRA" in row["reason"]


def test_weights_of_bitsandbytes_are_those_of_qlora(tmp_path: Path):
    cells = {"model": "Llama 2 7B (LoRA)", "dtype": "bnb.nf4"}
    timed, held = priced(tmp_path, cells, {**cells, "metric": "peak memory", "unit": "GB"})
    assert "the row says QLoRA" in timed["note"]
    assert timed["dtype"] == "bf16"
    assert "weights of 8 bits or more" in held["reason"]


@pytest.mark.parametrize(
    ("cells", "field", "value"),
    [
        ({"recompute": "GC"}, "recompute", "full"),
        ({"tp": "2", "dp": "4", "seq_parallel": "sp"}, "sequence_parallel", True),
        ({"tp": "2", "dp": "4", "seq_parallel": "sequence_parallel"}, "sequence_parallel", True),
        ({"zero": "deepspeed_zero_3"}, "zero", 3),
    ],
)
def test_short_words_of_a_column_are_understood(
    cells: dict[str, str], field: str, value: object, tmp_path: Path
):
    assert priced(tmp_path, cells)[0]["plan"][field] == value
