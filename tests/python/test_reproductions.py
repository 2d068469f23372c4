"""Do predictions come near published figures, and does every row end with a clear answer?"""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalewright import reproductions
from scalewright.errors import ScalewrightError
from scalewright.reproductions.columns import meanings, plain
from scalewright.reproductions.reading import read_rows, shipped_rows
from scalewright.reproductions.showing import plan_in_short

HEADER = [
    "paper",
    "table",
    "system_or_hw",
    "devices",
    "model",
    "params_B",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "ffn",
    "seq",
    "vocab",
    "moe",
    "global_batch",
    "micro_batch",
    "tp",
    "pp",
    "interleave",
    "dp",
    "cp",
    "ep",
    "zero",
    "recompute",
    "seq_parallel",
    "dtype",
    "metric",
    "value",
    "unit",
    "source_kind",
    "source",
]
FIXED = {
    "paper": "Korthikanti et al. 2022",
    "table": "Table 5",
    "system_or_hw": "A100-80GB SXM (Selene)",
    "devices": "8",
    "model": "22B",
    "seq": "2048",
    "vocab": "51200",
    "global_batch": "4",
    "micro_batch": "4",
    "tp": "8",
    "pp": "1",
    "interleave": "1",
    "dp": "1",
    "zero": "0",
    "recompute": "full",
    "seq_parallel": "no",
    "dtype": "fp16",
    "metric": "iteration_time",
    "value": "1.42",
    "unit": "s",
}


def written(path: Path, rows: list[dict[str, str]], header: list[str] = HEADER) -> Path:
    file = path / "rows.csv"
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, header, extrasaction="ignore", restval="")
    writer.writeheader()
    writer.writerows(rows)
    file.write_text(text.getvalue())
    return file


def only(path: Path, **changes: str) -> dict:
    return reproductions.run(rows_path=written(path, [FIXED | changes]))["rows"][0]


def errors(*patterns: str) -> list[float]:
    found = [row for p in patterns for row in reproductions.run(p)["rows"]]
    assert all(row["error"] is not None for row in found)
    return [abs(row["error"]) for row in found]


def test_megatron_table_1_and_korthikanti_table_5_come_near():
    sizes = errors("Narayanan*Table 1", "Korthikanti*Table 5")
    assert len(sizes) == 30 + 20
    assert sum(sizes) / len(sizes) <= 0.06
    assert max(sizes) <= 0.15


def test_vtrain_multi_node_comes_near():
    sizes = errors("vtrain-multi")
    assert len(sizes) == 69
    assert sum(sizes) / len(sizes) <= 0.12


def test_a_row_that_says_its_whole_plan_is_priced(tmp_path):
    row = only(tmp_path)
    assert row["status"] == "priced"
    assert row["error"] == row["predicted"] / row["published"] - 1
    assert row["plan"]["tensor"] == 8
    assert row["plan"]["recompute"] == "full"
    assert row["line"] == 2


def test_a_row_with_an_open_field_is_searched_for_the_least_time(tmp_path):
    searched = only(tmp_path, micro_batch="", recompute="")
    assert searched["status"] == "searched"
    for micro_batch in ("1", "2", "4"):
        for recompute in ("none", "selective", "full"):
            fixed = only(tmp_path, micro_batch=micro_batch, recompute=recompute)
            assert not fixed["fits"] or searched["step_time_s"] <= fixed["step_time_s"]


def test_the_choice_does_not_look_at_the_published_figure(tmp_path):
    plans = [only(tmp_path, micro_batch="", value=value)["plan"] for value in ("0.5", "1.4", "9")]
    assert plans[0] == plans[1] == plans[2]


def test_conventions_are_converted(tmp_path):
    time = only(tmp_path)
    rate = only(tmp_path, metric="model_tflops_per_gpu", unit="TFLOP/s", value="150")
    share = only(tmp_path, metric="MFU", unit="%", value="50")
    days = only(tmp_path, metric="days_for_300B_tokens", unit="day", value="100")
    hours = only(tmp_path, metric="GPU hours per 1T tokens", unit="K GPU hours", value="900")
    tokens = only(tmp_path, metric="tokens_per_s_per_gpu", unit="tokens/s", value="500")
    sequences = only(tmp_path, metric="samples/s/GPU", unit="", value="0.1")
    hidden, layers, sequence, vocab, batch = 6144, 48, 2048, 51200, 4
    flops = 72 * batch * sequence * layers * hidden**2
    flops *= 1 + sequence / (6 * hidden) + vocab / (12 * hidden * layers)
    step = time["predicted"]
    assert rate["predicted"] == pytest.approx(flops / step / 8 / 1e12, rel=1e-9)
    assert share["predicted"] == pytest.approx(flops / step / 8 / 312e12 * 100, rel=1e-9)
    assert days["predicted"] == pytest.approx(300e9 / (4 * 2048) * step / 86400, rel=1e-9)
    run = 1e12 / (4 * 2048) * step
    assert hours["predicted"] == pytest.approx(8 * run / 3600 / 1e3, rel=1e-9)
    assert tokens["predicted"] == pytest.approx(4 * 2048 / step / 8, rel=1e-9)
    assert sequences["predicted"] == pytest.approx(4 / step / 8, rel=1e-9)


def test_hardware_flops_count_full_recomputation_in_the_older_paper(tmp_path):
    same = {"metric": "achieved_tflops_per_gpu", "unit": "TFLOP/s", "value": "140"}
    same |= {"seq_parallel": "", "recompute": "full"}
    older = only(tmp_path, paper="Narayanan et al. 2021", **same)
    hidden, layers, sequence, vocab, batch = 6144, 48, 2048, 51200, 4
    flops = 96 * batch * sequence * layers * hidden**2
    flops *= 1 + sequence / (6 * hidden) + vocab / (16 * hidden * layers)
    rate = flops / older["step_time_s"] / 8 / 1e12
    assert older["predicted"] == pytest.approx(rate, rel=1e-9)


def test_what_the_model_says_not_to_fit_is_priced_and_noted(tmp_path):
    row = only(tmp_path, recompute="none", micro_batch="4", value="1")
    assert row["status"] == "priced"
    assert not row["fits"]
    assert "does not fit" in row["note"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tp": "8/1"}, "tp: got '8/1'"),
        ({"tp": "7"}, "devices: got 8; allowed: 7, which is tensor 7 x pipeline 1 x"),
        ({"devices": "-8"}, "devices: got '-8'"),
        ({"devices": "1e99"}, "devices"),
        ({"system_or_hw": "Cray-1"}, "unknown name 'Cray-1'"),
        ({"system_or_hw": ""}, "system_or_hw: got nothing"),
        ({"model": "nobody's", "layers": ""}, "model: unknown name"),
        ({"dtype": "int3"}, "dtype: got 'int3'"),
        ({"zero": "9"}, "zero: got '9'"),
        ({"recompute": "some"}, "recompute: got 'some'"),
        ({"value": "fast"}, "value: got 'fast'"),
        ({"value": "nan"}, "value: got 'nan'"),
        ({"value": "0"}, "value"),
        ({"metric": "speedup", "unit": "x"}, "ratio of two runs"),
        ({"metric": "happiness"}, "metric: unknown name 'happiness'"),
        ({"unit": "furlong"}, "unit: unknown name 'furlong'"),
        ({"global_batch": ""}, "global_batch: got nothing"),
        ({"seq": ""}, "seq"),
        ({"zero": "3 + chunk CPU offload", "global_batch": "", "micro_batch": ""}, "host memory"),
    ],
)
def test_a_row_that_cannot_be_priced_says_why(tmp_path, changes, reason):
    row = only(tmp_path, **changes)
    assert row["status"] == "skipped"
    assert reason in row["reason"]
    assert row["error"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"devices": "8.0", "global_batch": " 4 "},
        {"system_or_hw": "8x A100-SXM4-80GB with NVLink"},
        {"model": "", "layers": "48", "hidden": "6,144", "heads": "64"},
        {"dp": "", "cp": ""},
        {"dtype": "FP16 mixed"},
        {"value": "~1.42"},
        {"metric": "Iteration time (s)", "unit": "seconds"},
    ],
)
def test_odd_spellings_mean_the_same(tmp_path, changes):
    assert only(tmp_path, **changes)["error"] == pytest.approx(only(tmp_path)["error"], abs=0.02)


def test_both_headers_are_known(tmp_path):
    header = (
        "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
        "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)"
    )
    assert None not in meanings(header.split(",")[:-1])
    file = tmp_path / "vtrain.csv"
    file.write_text(f"{header}\n8,32,4,1024,16,24,1024,2,2,2,219.7\n")
    row = reproductions.run(rows_path=file)["rows"][0]
    assert (row["status"], row["metric"], row["unit"]) == ("priced", "iteration_time", "ms")
    assert row["published"] == 219.7
    assert plain("# GPUs") == "gpus"


def test_missing_columns_are_blank(tmp_path):
    header = [c for c in HEADER if c not in {"moe", "cp", "ep", "source", "kv_heads", "ffn"}]
    result = reproductions.run(rows_path=written(tmp_path, [FIXED], header))
    assert result["rows"][0]["status"] == "priced"


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "\x00\n", "# nothing\n"])
def test_a_file_without_figures_is_refused(tmp_path, text):
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(ScalewrightError, match="header"):
        read_rows(file)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ScalewrightError, match="cannot be read"):
        read_rows(tmp_path / "none.csv")


def test_a_pattern_that_matches_nothing_names_papers_like_it():
    with pytest.raises(ScalewrightError, match=r"nearest: Korthikanti et al\. 2022"):
        reproductions.run("Korthikani")
    with pytest.raises(ScalewrightError, match="`reproduce` lists all"):
        reproductions.run("zzzz")


def test_the_summary_counts_every_row(tmp_path):
    rows = [FIXED, FIXED | {"micro_batch": ""}, FIXED | {"metric": "speedup"}]
    seen: list[tuple[int, int]] = []
    file = written(tmp_path, rows)
    result = reproductions.run(rows_path=file, progress=lambda *at: seen.append(at))
    summary = result["summary"]
    counts = [summary[f"rows_{status}"] for status in ("priced", "searched", "skipped")]
    assert counts == [1, 1, 1]
    sizes = [abs(r["error"]) for r in result["rows"] if r["error"] is not None]
    assert summary["worst_abs_error"] == max(sizes)
    assert summary["mean_abs_error"] == pytest.approx(sum(sizes) / 2)
    assert summary["by_status"]["searched"]["rows_searched"] == 1
    assert seen[-1] == (3, 3)
    json.dumps(result, allow_nan=False)


def test_the_table_shows_every_priced_row(tmp_path):
    from rich.console import Console

    result = reproductions.run(rows_path=written(tmp_path, [FIXED, FIXED | {"metric": "speedup"}]))
    console = Console(width=200, record=True, file=io.StringIO())
    reproductions.show(result, console)
    text = console.export_text()
    assert f"{result['rows'][0]['error']:+.1%}" in text
    assert "a ratio of two runs" in text
    assert plan_in_short(result["rows"][0]["plan"]) == "t8 b4 full"


CELLS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "0", "-1", "8/1", "1e309", "nan", "inf", "8 ", "½", "9" * 30, "2048"]),
    st.sampled_from(["FSDP", "full", "yes", "bf16", "DGX H100", "llama3-8b", "MFU", "%", "64"]),
    st.integers(-5, 2**40).map(str),
)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.dictionaries(st.sampled_from(HEADER), CELLS, max_size=6))
def test_any_row_ends_with_an_answer(tmp_path, changes):
    # small machines keep open searches short
    row = only(tmp_path, **changes)
    assert row["status"] in {"priced", "searched", "skipped"}
    assert (row["status"] == "skipped") == bool(row["reason"])
    assert (row["error"] is None) == (row["status"] == "skipped")
    json.dumps(row, allow_nan=False)


def test_the_shipped_rows_are_well_formed():
    rows = shipped_rows()
    assert len(rows) > 1500
    assert all(row.text("paper") and row.text("metric") for row in rows)


def test_fully_sharded_weights_stay_gathered_under_a_pipeline(tmp_path):
    changes = {"model": "Llama 3 8B", "dtype": "bf16", "micro_batch": "1", "tp": "1"}
    changes |= {"devices": "8", "dp": "", "zero": "FSDP2", "global_batch": "16"}
    flat = only(tmp_path, **changes, pp="1")["plan"]
    deep = only(tmp_path, **changes, pp="2")["plan"]
    assert (flat["zero"], flat["data"]) == (3, 8)
    assert (deep["zero"], deep["data"]) == (1, 4)


def test_maxtext_runs_are_set_as_their_scripts_say():
    rows = reproductions.run("*MaxText*TPU v5e")["rows"]
    large = [row for row in rows if row["model"] == "MaxText 128B"]
    for row in large:
        slices = int(row["devices"]) // 256
        # one sequence a device, so sixteen on sixteen tensor ranks; weights are cut in one slice
        assert (row["plan"]["tensor"], row["plan"]["micro_batch"]) == (16, 16)
        assert row["plan"]["zero_group"] == (16 if slices > 1 else 0)
    small = [row for row in rows if row["model"] == "MaxText 16B"]
    assert large
    assert small
    assert {row["plan"]["micro_batch"] for row in small} == {6}
    assert {row["plan"]["recompute"] for row in small} == {"full"}


def test_runs_on_tpu_v6e_are_set_as_the_tokens_of_their_logs_say():
    rows = reproductions.run("*MaxText*Optimized*")["rows"]
    trillium = [row for row in rows if row["device"] == "tpu-v6e"]
    lengths = {"Llama 3.1 8B": 8192, "Llama 3.1 70B": 8192}
    # total_weights in the logs of the recipes: tokens a step
    logs = {"Llama 2 70B": 2_097_152, "Llama 3.1 8B": 8_388_608, "Llama 3.1 70B": 10_485_760}
    logs["Mixtral 8x7B"] = 12_582_912
    for row in trillium:
        tokens = row["plan"]["micro_batch"] * 256 * lengths.get(row["model"], 4096)
        assert tokens == logs.get(row["model"], tokens)
        assert row["plan"]["offload_activations"] == 100
    assert set(logs) <= {row["model"] for row in trillium}


def test_a_column_of_capacity_drops_tokens(tmp_path):
    header = [*HEADER, "capacity_factor"]
    changes = {"model": "Mixtral 8x7B", "vocab": "", "dtype": "bf16", "tp": "1", "dp": "8"}
    row = FIXED | changes | {"global_batch": "8", "micro_batch": "1", "ep": "1"}
    rows = [row, row | {"capacity_factor": "0.5"}, row | {"capacity_factor": "half"}]
    whole, half, wrong = reproductions.run(rows_path=written(tmp_path, rows, header))["rows"]
    assert half["step_time_s"] < whole["step_time_s"]
    assert wrong["status"] == "skipped"
    assert "capacity_factor" in wrong["reason"]


def test_a_figure_that_told_of_a_term_counts_nowhere() -> None:
    """Two lines of a table showed what stays in an allocator's cache; one is priced by it."""
    rows = reproductions.run("PyTorch torchtitan*Table 4*")["rows"]
    memory = {row["table"]: row["use"] for row in rows if row["kind"] == "memory"}
    assert memory == {"Table 4 (2D)": "calibrate", "Table 4 (2D + AsyncTP)": "validate"}
    assert {row["use"] for row in rows if row["kind"] == "rate"} == {"validate"}
