"""Does the command line answer, refuse bad input in a line, and keep its JSON contract?"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalewright as sw
from scalewright.cli import main
from scalewright.report import quantities as q

JOB = ["--model", "gpt2", "--system", "dgx-a100-80gb", "--global-batch", "64", "--sequence", "1024"]
PLAN = ["plan", *JOB, "--devices", "16"]
ESTIMATE = ["estimate", *JOB, "--devices", "16"]
UNITS = ("_s", "_bytes", "_usd", "_j", "_w", "_per_step", "_per_s", "_per_device")
ON_DEVICE = (
    *("weights", "gradients", "optimizer", "activations"),
    *("workspace", "fragmentation", "reserve"),
)
COUNTS_AND_RATIOS = {
    *("plans_priced", "plans_feasible", "plans_excluded_by_bound", "plans_legal", "plans_ahead"),
    "plans_not_fitting",
    *("count", "schema_version", "units", "units_walked", "plans_written"),
    *("plans_placed", "plans_that_fit_with_offload"),
    *("mfu", "hfu", "micro_batches", "run_steps", "stage", "stages", "devices", "parameters"),
    *("devices_per_node", "memory_margin", "global_batch", "sequence", "run_tokens", "goodput"),
    *("tensor", "tensor_rows", "context", "pipeline", "data", "expert", "expert_tensor"),
    "micro_batch",
    *("interleave", "zero", "zero_group", "tensor_chunks", "offload_activations", "token_slices"),
    *("first_layers", "last_layers", "recompute_layers"),
    # of a band of error
    *("low_factor", "middle_factor", "high_factor", "share", "runs", "same_device"),
}


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("scalewright: ")
    return shown.err


def test_plan_answers_with_the_best_plans(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, *PLAN, "--top", "3")
    assert found["schema_version"] == 2
    assert len(found["best"]) == 3
    times = [best["step_time_s"] for best in found["best"]]
    assert times == sorted(times)
    for best in found["best"]:
        plan = best["plan"]
        ranks = plan["tensor"] * plan["pipeline"] * plan["data"] * plan["context"]
        assert ranks == 16
        assert 0 < best["mfu"] < 1
        assert best["peak_memory_bytes"] <= best["memory_capacity_bytes"]
    counted = found["plans_priced"] + found["plans_excluded_by_bound"] + found["plans_not_fitting"]
    assert counted == found["plans_legal"] > 0
    assert found["proven"]
    assert found["bound"] == {"step_time_s": found["best"][0]["step_time_s"]}
    assert found["elapsed_s"] > 0
    assert found["pareto"]
    assert found["rejected"]


def test_every_answer_is_stamped(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (PLAN, ESTIMATE, ["compare", "zero=1", "zero=2", *PLAN[1:]]):
        stamp = answer(capsys, *arguments)
        assert stamp["engine_version"].count(".") == 2
        assert len(stamp["catalog_hash"]) == 12
        assert stamp["overridden_constants"] == []
        assert stamp["calibrated"] is True
        assert stamp["calibration_basis"]


def test_estimate_of_the_best_plan_is_the_search_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    best = answer(capsys, *PLAN, "--fix", "interleave=2")["best"][0]
    names = ("tensor", "pipeline", "micro_batch", "interleave", "zero", "recompute")
    options = [f"--{name.replace('_', '-')}={best['plan'][name]}" for name in names]
    if best["plan"]["sequence_parallel"]:
        options.append("--sequence-parallel")
    again = answer(capsys, *ESTIMATE, *options)
    assert {key: again[key] for key in best} == best


def test_every_answer_names_the_program_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    eager = ("--software", "torchtitan-eager")
    found, priced = answer(capsys, *PLAN, *eager), answer(capsys, *ESTIMATE, *eager)
    assert {a["job"]["training"]["software"]["name"] for a in (found, priced)} == {eager[1]}
    assert priced["step_time_s"] > answer(capsys, *ESTIMATE)["step_time_s"]
    assert main([*ESTIMATE, *eager]) == 0
    assert "software torchtitan-eager" in capsys.readouterr().out


def test_the_breakdowns_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    one = answer(capsys, *ESTIMATE, "--tensor", "2", "--pipeline", "4", "--explain")
    assert sum(term["time_s"] for term in one["time"]) == pytest.approx(one["step_time_s"])
    assert len(one["memory"]) == 4
    for stage in one["memory"]:
        assert sum(stage[f"{part}_bytes"] for part in ON_DEVICE) == pytest.approx(
            stage["total_bytes"]
        )
        assert 0 <= stage["end_activations_bytes"] <= stage["activations_bytes"]
    assert max(stage["total_bytes"] for stage in one["memory"]) == one["peak_memory_bytes"]
    explained = {term["term"] for term in one["explanation"]}
    assert explained <= {term["term"] for term in one["time"]}
    assert all(term["formula"] and term["source"] for term in one["explanation"])


def numbers_without_unit(value: object, key: str = "") -> set[str]:
    if isinstance(value, dict):
        return {bad for k, v in value.items() for bad in numbers_without_unit(v, k)}
    if isinstance(value, list):
        return {bad for v in value for bad in numbers_without_unit(v, key)}
    counted = isinstance(value, bool) or not isinstance(value, int | float)
    return set() if counted or key.endswith(UNITS) or key in COUNTS_AND_RATIOS else {key}


@pytest.mark.parametrize(("tokens", "said"), [("1e9", "15,259 steps"), ("4096", "0.0625 steps")])
def test_a_run_shorter_than_a_step_is_not_one_of_none(
    capsys: pytest.CaptureFixture[str], tokens: str, said: str
) -> None:
    main([*ESTIMATE, "--run-tokens", tokens])
    assert f"run of {said}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [*PLAN, "--run-tokens", "1e9"],
        [*PLAN[:-1], "1", "--memory-margin", "0.999"],
        [*ESTIMATE, "--run-tokens", "1e9", "--zero", "3"],
    ],
    ids=["plan", "infeasible", "estimate"],
)
def test_every_quantity_has_its_unit_in_the_key(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    main([*arguments, "--json"])
    assert numbers_without_unit(json.loads(capsys.readouterr().out)) == set()


def test_a_plan_that_fits_nowhere_is_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    large = ["--model", "gpt3-175b", *PLAN[3:-1], "8", "--offload", "never"]
    verdict = answer(capsys, "plan", *large, code=3)["infeasible"]
    assert verdict["verdict"] == "no plan fits"
    assert verdict["shortfall"]["missing_bytes"] > 0
    assert verdict["shortfall"]["tier"] == "hbm"
    assert verdict["remedy"]["change"].endswith("devices")
    assert main(["plan", *large]) == 3
    shown = capsys.readouterr().out
    assert "GiB are missing in hbm of stage 1 of 1" in shown
    assert f"remedy: {verdict['remedy']['change']}" in shown


def test_a_prime_count_of_devices_names_a_round_one_below_that_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    count = 99_991
    large = ["--model", "gpt3-175b", *PLAN[3:-1], str(count), "--offload", "never"]
    verdict = answer(capsys, "plan", *large, code=3)["infeasible"]
    assert verdict["verdict"] == "no plan is legal"
    fewer = int(verdict["remedy"]["change"].removesuffix(" devices"))
    assert fewer < count
    answer(capsys, "plan", *large[:-3], str(fewer), "--offload", "never")


def test_an_estimate_that_does_not_fit_names_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    large = ["estimate", "--model", "gpt3-175b", *PLAN[3:-1], "64", "--tensor", "8"]
    short = answer(capsys, *large, code=3)
    assert short["fits"] is False
    assert short["shortfall"]["remedy"]
    assert main(large) == 3
    assert f"cheapest change that fits: {short['shortfall']['remedy']}" in capsys.readouterr().out


def test_pins_that_leave_nothing_legal_name_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = answer(capsys, *PLAN, "--fix", "tensor=8", code=3)["infeasible"]
    assert verdict["verdict"] == "no plan is legal"
    assert verdict["broken_rule"] == "tensor = 8 does not divide heads = 12; nearest 6, 12"
    assert verdict["remedy"]["change"] == "leave tensor open"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*PLAN, "--fix", "pipline=8"], "unknown name 'pipline'; nearest: pipeline"),
        ([*PLAN, "--fix", "tensor"], "fix: got 'tensor'; allowed: field=value"),
        ([*PLAN, "--fix", "tensor=two"], "tensor: got 'two'; allowed: a whole number"),
        ([*PLAN, "--fix", "tensor=1", "tensor=2"], "fix: tensor: given twice"),
        ([*PLAN, "--fix", "sequence_parallel=maybe"], "allowed: true, false"),
        ([*PLAN, "--fix", "recompute=some"], "recompute"),
        ([*PLAN, "--fix", "tensor=-1"], "--fix: tensor: got -1"),
        ([*PLAN, "--model", "gpt-3-175"], "nearest: gpt3-175b"),
        ([*PLAN, "--system", "dgx-a100-80"], "nearest: dgx-a100-80gb"),
        ([*PLAN, "--software", "megatron-bridg"], "nearest: megatron-bridge"),
        ([*PLAN, "--model", "nowhere/config.json"], "nowhere/config.json"),
        ([*PLAN, "--catalog", "nowhere"], "catalog override: got 'nowhere'"),
        ([*PLAN, "--memory-margin", "nan"], "--memory-margin: got NaN"),
        ([*PLAN, "--memory-margin", "1"], "--memory-margin: got 1"),
        ([*PLAN, "--run-tokens", "inf"], "--run-tokens: got inf"),
        ([*PLAN, "--run-tokens", "-5"], "--run-tokens: got -5"),
        ([*PLAN[:-1], "0"], "--devices: got 0"),
        ([*PLAN[:-1], "-8"], "--devices: got -8"),
        ([*PLAN, "--global-batch", "0"], "--global-batch: got 0"),
        ([*PLAN, "--sequence", str(10**30)], "--sequence: got 1e+30"),
        ([*ESTIMATE, "--tensor", "8"], "tensor = 8 does not divide heads = 12; nearest 6, 12"),
        ([*ESTIMATE, "--pipeline", "0"], "pipeline"),
        (["estimate", "--system", "dgx-a100-80gb"], "--model: got nothing"),
        (ESTIMATE[:5], "--devices: got nothing"),
        (["compare", "tensor=2", "tensor=2,tensor=4", *PLAN[1:]], "plan: tensor: given twice"),
        (["compare", "tensor=2", "nowhere.json", *PLAN[1:]], "'nowhere.json' cannot be read"),
        (["catalog", "gpt3-175"], "nearest: gpt3-175b"),
    ],
)
def test_bad_input_is_refused_in_a_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in refusal(capsys, *arguments)


def test_a_plan_file_says_each_field_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"tensor": 2, "tensor": 4}', encoding="utf-8")
    assert main(["compare", "tensor=2", str(plan), *PLAN[1:]]) == 2
    assert "gives tensor twice" in capsys.readouterr().err


WORDS = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["gpt2", "dgx-a100-80gb", "tensor=1,2", "zero=9", "1", "4", "bf16", "../"]),
)
OPTIONS = st.sampled_from(
    ["--model", "--system", "--devices", "--global-batch", "--sequence", "--fix", "--zero", "--top"]
) | st.sampled_from(
    ["--memory-margin", "--run-tokens", "--tensor", "--pipeline", "--plan", "--micro-batch"]
)


@given(
    verb=st.sampled_from([PLAN, ESTIMATE, ["compare", *PLAN[1:]], ["catalog"]]),
    extra=st.lists(st.tuples(OPTIONS, WORDS).map(list) | WORDS.map(lambda w: [w]), max_size=4),
)
def test_no_arguments_end_in_a_traceback(verb: list[str], extra: list[list[str]]) -> None:
    try:
        code = main([*verb, *(word for group in extra for word in group), "--json"])
    except SystemExit as stop:  # argparse has refused the arguments, or shown its help
        code = int(str(stop.code))
    assert code in {0, 2, 3}


def test_the_tables_read_as_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--run-tokens", "1e9", "--explain"]) == 0
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out
    assert shown.err == ""
    assert shown.out.isascii()
    for section in (
        *("Best plans", "Where the time goes", "Memory of a device", "Energy and price"),
        *("Why the runner-up loses", "Rejected", "MFU", "HFU", "overridden constants: none"),
        "Where each term comes from",
    ):
        assert section in shown.out


@pytest.mark.parametrize("columns", ["80", "100", "200"])
def test_tables_fit_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(PLAN) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert all(line == line.rstrip() for line in lines)
    assert not any("\u2026" in line for line in lines)


def test_a_forward_pass_alone_counts_its_arithmetic_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = {}
    for extra in ([], ["--forward-only"]):
        assert main([*ESTIMATE, *extra]) == 0
        told[bool(extra)] = " ".join(capsys.readouterr().out.split())
    assert "model FLOPs = 3 x the forward pass's" in told[False]
    assert "model FLOPs = the forward pass's" in told[True]
    assert "24 B s l h^2" in told[True]


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("dgx-h100", "price: nodes of 300,000 USD each, written off over 4 years, and 0.08 USD a"),
        ("p5", "price: rent of 12.29 USD a device and hour, energy within"),
        ("mi300x-node", "price: devices of 15,000 USD each, without what else is in a node"),
        ("cs-3", "price: unknown: the catalog has no price of a node or a device"),
    ],
)
def test_a_price_says_what_is_paid_for(
    system: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = ["--global-batch", "8", "--sequence", "1024"]
    assert main(["estimate", "--model", "gpt2", "--system", system, "--devices", "8", *batch]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("objective", "head", "field"),
    [
        ("energy", "energy, kJ", "energy_j_per_step"),
        ("dollars", "price, USD", "cost_usd_per_step"),
        ("time", "", "step_time_s"),
    ],
)
def test_the_best_plans_are_shown_with_what_they_have_least_of(
    capsys: pytest.CaptureFixture[str], objective: str, head: str, field: str
) -> None:
    asked = [*PLAN, "--objective", objective, "--top", "3"]
    least = [found[field] for found in answer(capsys, *asked)["best"]]
    assert least == sorted(least)
    assert main(asked) == 0
    shown = capsys.readouterr().out.partition("The winner")[0]
    assert [name in shown for name in ("energy, kJ", "price, USD")] == [
        name == head for name in ("energy, kJ", "price, USD")
    ]
    if head:
        unit = 1e3 if objective == "energy" else 1.0
        assert all(q.figures(value / unit, 4) in shown for value in least)


@pytest.mark.parametrize(
    ("system", "devices", "said"),
    [
        ("tpu-v4-3072", 64, "torus of 12 x 16 x 16 (ici) are taken row by row, in a corner of 12"),
        ("tpu-v4-3072", 64, "`--system tpu-v4-4x4x4` has units that fit"),
        ("tpu-v4-3072", 128, "with `dims` of its own global batch"),
        ("tpu-v5p", 64, ""),
        ("tpu-v5p", 101, "are taken row by row, in a corner of 16 x 7 x 1"),
        ("tpu-v4-4x4x4", 64, ""),
        ("tpu-v4-4x4x4", 128, ""),
        ("tpu-v5p", 1, ""),
        ("dgx-h100", 8, ""),
    ],
)
def test_where_devices_lie_on_a_torus_is_said_where_they_do_not_fill_it(
    capsys: pytest.CaptureFixture[str], system: str, devices: int, said: str
) -> None:
    job = ["--model", "gpt2", "--global-batch", str(devices), "--sequence", "1024"]
    assert main(["estimate", "--system", system, "--devices", str(devices), *job]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert said in shown
    assert ("row by row" in shown) == bool(said)


def test_no_measured_run_is_a_forward_pass_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, *ESTIMATE)["error_band"] is not None
    assert answer(capsys, *ESTIMATE, "--forward-only")["error_band"] is None
    assert main([*ESTIMATE, "--forward-only"]) == 0
    shown = capsys.readouterr().out
    assert "measured runs" not in shown
    assert "adam" not in shown


@pytest.mark.parametrize("frozen", ["frozen_layers = 24", 'lora = {rank = 8, targets = ["query"]}'])
def test_flops_that_count_frozen_weights_as_trained_say_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, frozen: str
) -> None:
    file = tmp_path / "partly.toml"
    file.write_text(f'kind = "model"\nbase = "llama3-8b"\nname = "partly"\n{frozen}\n')
    job = ["--system", "dgx-h100", "--devices", "8", "--global-batch", "8", "--sequence", "4096"]
    counts = sw.model(file).parameters()
    said = f"all weights as trained, of which {counts['trained'] / counts['total']:.1%} are"
    for model, expected in ((str(file), True), ("llama3-8b", False)):
        assert main(["estimate", "--model", model, "--zero", "2", *job]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert (said in shown) == expected
        assert "attention is counted in full, of which" not in shown


@pytest.mark.parametrize(("sequence", "said"), [("2048", False), ("1000000", True)])
def test_a_use_of_more_than_the_peak_is_explained(
    capsys: pytest.CaptureFixture[str], sequence: str, said: bool
) -> None:
    job = ["--devices", "24", "--global-batch", "7", "--sequence", sequence, "--forward-only"]
    assert main(["plan", "--model", "opt-66b", "--system", "hgx-b100", *job]) == 0
    shown = capsys.readouterr().out
    (share,) = re.findall(r"^MFU ([0-9.]+)% = ", shown, re.MULTILINE)
    assert (float(share) > 100.0) == said
    assert ("MFU above 100%: attention is counted in full" in shown) == said


def test_compare_reads_text_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = tmp_path / "first.json"
    first.write_text(json.dumps(answer(capsys, *ESTIMATE, "--pipeline", "4")))
    both = answer(capsys, "compare", str(first), "zero=1", *PLAN[1:])
    assert both["first"]["plan"]["pipeline"] == 4
    assert both["second"]["plan"]["data"] == 16
    assert both["plan_differences"]["zero"] == [0, 1]
    gaps = [term["difference_s"] for term in both["terms"]]
    total = both["second"]["step_time_s"] - both["first"]["step_time_s"]
    assert sum(gaps) == pytest.approx(total)
    assert main(["compare", str(first), "zero=1", *PLAN[1:]]) == 0
    assert "pipeline 4 -> 1" in capsys.readouterr().out


def test_an_override_is_stamped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'kind = "system"\nbase = "dgx-a100-80gb"\n'
        '[[levels]]\nname = "hdr-infiniband"\nbandwidth = "1 Gb/s"\n'
    )
    slow = answer(capsys, *ESTIMATE, "--catalog", str(mine))
    plain = answer(capsys, *ESTIMATE)
    assert slow["overridden_constants"] == ["system.levels.hdr-infiniband.bandwidth"]
    assert slow["catalog_hash"] != plain["catalog_hash"]
    assert slow["step_time_s"] > plain["step_time_s"]


@pytest.mark.parametrize("what", ["devices", "systems", "models", "software"])
def test_the_catalog_lists_each_kind(capsys: pytest.CaptureFixture[str], what: str) -> None:
    listed = answer(capsys, "catalog", what)[what]
    assert len(listed) > (10 if what == "software" else 20)
    assert main(["catalog", what]) == 0
    shown = capsys.readouterr().out
    assert all(member["name"] in shown for member in listed)


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "dgx-h100", "llama3-405b", "xla"])
def test_the_catalog_shows_an_entry(capsys: pytest.CaptureFixture[str], name: str) -> None:
    entry = answer(capsys, "catalog", name)["entries"][0]
    assert entry["name"] == name
    assert main(["catalog", name]) == 0
    assert name in capsys.readouterr().out


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True)


def test_help_loads_nothing_heavy() -> None:
    shown = python("-X", "importtime", "-m", "scalewright", "--help")
    loaded = {line.split("|")[-1].strip() for line in shown.stderr.splitlines()}
    assert "scalewright.cli" in loaded
    for heavy in ("numpy", "rich", "scalewright._engine", "scalewright.planning"):
        assert heavy not in loaded
    for verb in ("plan", "estimate", "compare", "catalog", "reproduce"):
        assert verb in shown.stdout


def test_a_closed_pipe_is_no_error() -> None:
    command = [sys.executable, "-m", "scalewright", "catalog"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_letters_that_the_terminal_lacks_do_not_stop_the_answer() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "scalewright", "catalog", "models"]
    subprocess.run(command, check=True, capture_output=True, env=environment)


def test_the_winner_is_written_for_megatron_and_read_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*PLAN, "--fix", "schedule=1f1b,interleaved", "--export", "megatron"]) == 0
    file = tmp_path / "run.sh"
    file.write_text(capsys.readouterr().out)
    best = answer(capsys, *PLAN, "--fix", "schedule=1f1b,interleaved")["best"][0]
    read = answer(capsys, "estimate", "--from-megatron", str(file), "--system", "dgx-a100-80gb")
    assert read["plan"] == best["plan"]
    assert read["step_time_s"] == pytest.approx(best["step_time_s"], rel=0.01)


def test_a_schedule_that_a_framework_lacks_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = [*PLAN, "--fix", "schedule=gpipe", "--fix", "pipeline=2", "--export", "deepspeed"]
    assert "schedule: got gpipe; allowed: 1f1b (plan again with --fix)" in refusal(capsys, *wanted)


@pytest.mark.parametrize(("batch", "said"), [("16", "1 micro-batch"), ("32", "2 micro-batches")])
def test_one_thing_is_not_many(capsys: pytest.CaptureFixture[str], batch: str, said: str) -> None:
    job = ["--system", "dgx-h100", "--devices", "16", "--global-batch", batch, "--sequence", "512"]
    assert main(["estimate", "--model", "gpt2", *job]) == 0
    assert f"; {said}\n" in capsys.readouterr().out
