"""Does every constant bear on some job, and do sensitivities, regrets and verdicts agree?"""

import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import scalewright as sw
from scalewright.cli import main

MODEL = sw.model("llama2-7b")
SYSTEM = sw.system("dgx-a100-80gb", 64)
TRAINING = sw.Training(global_batch=512, sequence=1024)
PLAIN = "tensor=2,pipeline=1,zero=1,sequence_parallel=true"
JOB = [
    *("--model", "gpt2", "--system", "dgx-h100", "--devices", "16"),
    *("--global-batch", "128", "--sequence", "1024"),
]

# between them these read every constant that a cluster of the catalog has
JOBS: list[tuple[str, str, int, str, dict[str, Any]]] = [
    ("gpt2", "dgx-h100", 16, "tensor=2,zero=1", {}),
    ("gpt2", "dgx-h100", 16, "zero=3", {}),
    ("gpt2", "dgx-h100", 8, "zero=0", {}),
    ("gpt2", "dgx-h100", 16, "offload_optimizer=true,zero=1", {}),
    ("gpt2", "dgx-2", 16, "offload_optimizer=true,zero=1", {}),
    ("gpt2", "dgx-h100", 16, "tensor=2,zero=1", {"precision": "fp8"}),
    ("gpt2", "dgx-b200", 16, "tensor=2,zero=1", {"precision": "fp8"}),
    ("gpt2", "dgx-b200", 16, "tensor=2,zero=1", {"precision": "mxfp8"}),
    ("gpt2", "dgx-b200", 16, "tensor=2,zero=1", {"precision": "nvfp4"}),
    ("gpt2", "dgx-h100", 16, "tensor=2,zero=1", {"precision": "fp16"}),
    ("gpt2", "dgx-h100", 16, "tensor=2,zero=1", {"precision": "fp32"}),
    ("gpt2", "dgx-h100", 16, "tensor=2,zero=1", {"precision": "tf32"}),
    ("gpt2", "dgx-a100-80gb", 16, "tensor=2,zero=1", {"precision": "tf32"}),
    ("gpt2", "piz-daint", 16, "zero=1", {"precision": "fp32"}),
    ("gpt2", "arc-pro-b60-node", 2, "zero=1", {"precision": "fp32"}),
    ("gpt2", "gcp-a3", 16, "tensor=4", {}),
    ("gpt2", "wan-500mbit", 16, "pipeline=4", {}),
    ("gpt2", "ramp", 16, "zero=1", {}),
    ("gpt2", "tpu-v4", 64, "tensor=4", {}),
    ("gemma-7b", "dgx-h100", 16, "tensor=2,zero=1", {}),
    ("gemma-7b", "a10-node", 8, "tensor=2,zero=1", {}),
    *(
        ("gemma3-1b", "dgx-b200", 16, "zero=1", {"sequence": 8192, "software": software})
        for software in (
            None,
            *({"layer": {"attention_format": form}} for form in ("fp8", "mxfp8")),
        )
    ),
    ("mixtral-8x7b", "dgx-a100-80gb", 64, "expert=8,zero=3", {}),
    ("mixtral-8x7b", "topoopt-a100", 8, "expert=8,zero=3", {}),
    ("opt-30b", "dgx-1-v100-32gb", 8, "tensor=8,offload_optimizer=true,recompute=full", {}),
]


def anywhere(name: str) -> str:
    """The name of a constant, whatever its level or path is called."""
    return re.sub(r"^(fabric|paths)\.[^.]+", r"\1.*", name)


def told_by(start: str, name: str) -> bool:
    """Whether a name of the page, with `*` for one part, begins that of a constant."""
    own = name.split(".")
    parts = start.split(".")
    return len(parts) <= len(own) and all(a in ("*", b) for a, b in zip(parts, own, strict=False))


def moved(found: sw.Sensitivity) -> set[str]:
    """Constants whose half changes the time, the memory, or whether the plan fits."""
    asked = {key: found.values[key] for key in ("step_time_s", "peak_memory_bytes", "fits")}
    names: set[str] = set()
    for effect in found.effects:
        down = effect["down"]
        assert down["factor"] == 0.5
        if any(down[key] != value for key, value in asked.items()):
            names.add(effect["name"])
    return names


def test_half_of_every_constant_changes_some_job() -> None:
    listed: set[str] = set()
    seen: set[str] = set()
    for model, system, devices, plan, more in JOBS:
        machines = sw.system(system, devices)
        training = sw.Training(**{"global_batch": 64, "sequence": 1024, **more})
        found = sw.sensitivity(sw.model(model), machines, training, plan, change=0.5)
        names = {constant["name"] for constant in sw.constants(machines)}
        assert names == set(found.elasticity())
        listed |= {anywhere(name) for name in names}
        seen |= {anywhere(name) for name in moved(found)}
    assert listed - seen == set()
    assert len(listed) > 40


def test_every_system_of_the_catalog_has_constants_with_names_of_their_own() -> None:
    from scalewright.catalog import names

    known = {anywhere(c["name"]) for job in JOBS for c in sw.constants(sw.system(job[1], job[2]))}
    for name in names("system"):
        listed = [c["name"] for c in sw.constants(sw.system(name, 1))]
        assert len(set(listed)) == len(listed) > 10
        assert {anywhere(constant) for constant in listed} <= known, name


def test_a_sensitivity_is_that_of_an_overridden_catalog(tmp_path: Path) -> None:
    found = sw.sensitivity(MODEL, SYSTEM, TRAINING, PLAIN, change=0.2)
    up = next(e for e in found.effects if e["name"] == "fabric.nvswitch.bandwidth")["up"]
    level = next(level for level in SYSTEM.table["levels"] if level["name"] == "nvswitch")
    rate, unit = str(level["bandwidth"]).split()
    file = tmp_path / "faster.toml"
    file.write_text(
        'kind = "system"\nbase = "dgx-a100-80gb"\n[[levels]]\nname = "nvswitch"\n'
        f'bandwidth = "{1.2 * float(rate)} {unit}"\n'
    )
    faster = sw.system("dgx-a100-80gb", 64, overrides=[file])
    there = sw.estimate(MODEL, faster, PLAIN, TRAINING)
    assert there.step_time_s == pytest.approx(up["step_time_s"], rel=1e-12)
    assert there.step_time_s < found.step_time_s == found.values["step_time_s"]


def test_a_rate_that_lasts_follows_the_peak_and_holds_what_kernels_gain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    machines = sw.system("dgx-h100", 8)
    model, training = sw.model("llama2-7b"), sw.Training(global_batch=64, sequence=4096)
    found = sw.sensitivity(model, machines, training, sw.Plan(data=8, zero=1))
    step, effects = found.step_time_s, {effect["name"]: effect for effect in found.effects}
    peak = effects["device.matrix_peak.bf16"]
    assert effects["device.sustained.bf16"]["value"] == pytest.approx(720 / 989.4, rel=1e-3)
    assert peak["up"]["step_time_s"] < 0.95 * step < 0.95 * peak["down"]["step_time_s"]
    better = effects["device.matmul.efficiency.bf16"]["up"]["step_time_s"]
    assert better == pytest.approx(step, rel=1e-12)
    job = ["--model", "llama2-7b", "--system", "dgx-h100", "--devices", "8"]
    assert main(["sensitivity", "zero=1", *job, "--global-batch", "64", "--sequence", "4096"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "bound by device.sustained.bf16: a better device.matmul.efficiency.bf16" in shown


def test_the_best_plan_is_taken_where_none_is_given_and_may_change() -> None:
    found = sw.sensitivity(MODEL, SYSTEM, TRAINING, change=0.9, search=True)
    best = sw.search(MODEL, SYSTEM, TRAINING, top=1)[0]
    assert found.values["plan"] == best.values["plan"] == found.values["best"]["plan"]
    assert found.changes()
    for name, factor, plan in found.changes():
        assert plan != found.values["plan"]
        assert factor in (pytest.approx(0.1), pytest.approx(1.9)), name


def test_uncertainty_is_a_table_or_a_file_of_names(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(
        '[uncertainty]\ndevice = 0\n"fabric.*.latency" = 0.3\nfabric.nvswitch.share = 0\n'
    )
    asked: dict[str, Any] = {"samples": 16, "pool": 5, "fix": {"context": 1}}
    both = [
        sw.robust(MODEL, SYSTEM, TRAINING, uncertainty=given, **asked)
        for given in (
            file,
            {"device": 0, "fabric.*.latency": 0.3, "fabric.nvswitch.share": 0},
        )
    ]
    assert both[0].values == both[1].values
    off = {row["name"]: row["uncertainty"] for row in both[0].values["uncertain"]}
    assert off["fabric.nvswitch.latency"] == 0.3
    assert not any(name.startswith("device") for name in off)
    least, most = both[0].values["uncertain"][0]["interval"]
    assert least < both[0].values["uncertain"][0]["value"] < most


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"uncertainty": {"fabrik": 0.1}}, "uncertainty: unknown name 'fabrik'"),
        ({"uncertainty": {"fabric": -1}}, "uncertainty.fabric: got -1; allowed: 0 to 9"),
        ({"uncertainty": 3}, "uncertainty: got 3; allowed: shares"),
        ({"samples": 0}, "samples: got 0; allowed: 1 to"),
        ({"pool": 0}, "pool: got 0"),
        ({"tolerance": -0.1}, "tolerance: got -0.1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(sw.ScalewrightError, match=re.escape(message)):
        sw.robust(MODEL, SYSTEM, TRAINING, **asked)


def test_what_cannot_be_changed_is_refused() -> None:
    with pytest.raises(sw.InvalidError, match=r"change: got 1; allowed"):
        sw.sensitivity(MODEL, SYSTEM, TRAINING, PLAIN, change=1.0)
    with pytest.raises(sw.ScalewrightError, match="plan: tensor = 7"):
        sw.sensitivity(MODEL, SYSTEM, TRAINING, "tensor=7")
    with pytest.raises(sw.InvalidError, match="system: got"):
        sw.constants("dgx-h100")  # pyright: ignore[reportArgumentType]


def test_the_page_tells_the_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "robustness.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| ([0-9.]+) \|", page, re.MULTILINE)
    told = {name: float(share) for name, share in rows}
    off: dict[str, float] = {}
    for system in (SYSTEM, sw.system("dgx-1-v100", 8)):
        found = sw.robust(sw.model("gpt2"), system, TRAINING, samples=1, pool=1)
        off |= {row["name"]: row["uncertainty"] for row in found.values["uncertain"]}
    for name, share in off.items():
        start = next(start for start in told if told_by(start, name))
        assert share == told[start], name
    assert all(any(told_by(start, name) for name in off) for start in told)


def test_the_robust_plan_loses_least_where_all_is_uncertain() -> None:
    found = sw.robust(MODEL, SYSTEM, TRAINING, uncertainty={"fabric": 1.0}, samples=64, pool=50)
    robust, p95 = found.least_worst_regret, found.least_p95_regret
    assert robust is not None
    assert p95 is not None
    assert robust["worst_regret"] <= found.plans[0]["worst_regret"]
    assert p95["p95_regret"] <= robust["p95_regret"] <= robust["worst_regret"]
    assert sum(plan["best_probability"] for plan in found.plans) == pytest.approx(1)
    times = [plan["step_time_s"] for plan in found.plans]
    assert times == sorted(times)
    assert all(
        plan["bounds_s"][0] <= plan["step_time_s"] <= plan["bounds_s"][1] for plan in found.plans
    )
    assert all(plan["worst_regret"] <= 0.02 for plan in found.always_near)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_draws() -> None:
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        sw.robust(MODEL, SYSTEM, TRAINING, samples=100_000, pool=1000)


def test_an_illegal_plan_loses_by_its_rule() -> None:
    found = sw.why_not(MODEL, SYSTEM, "tensor=7", TRAINING)
    assert (found.verdict, found.estimate, found.plans_ahead) == ("illegal", None, None)
    assert "does not divide" in str(found.rule)
    assert found.winner is not None
    assert json.loads(json.dumps(found.to_dict()))["winner"]["fits"]


def test_a_plan_that_does_not_fit_loses_by_what_it_lacks() -> None:
    model, system = sw.model("gpt3-175b"), sw.system("dgx-a100-80gb", 1024)
    training = sw.Training(global_batch=1536, sequence=2048)
    found = sw.why_not(model, system, "tensor=8,pipeline=2,zero=1", training)
    assert found.verdict == "does not fit"
    told = found.to_dict()
    assert told["shortfall"]["missing_bytes"] > 0
    assert told["shortfall"]["remedy"]
    total = next(line for line in told["memory"] if line["class"] == "total")
    assert total["difference_bytes"] == total["second_bytes"] - total["first_bytes"] > 0
    gained = sum(term["difference_s"] for term in told["terms"])
    both = found.comparison
    assert both is not None
    assert gained == pytest.approx(both.second.step_time_s - both.first.step_time_s)


def test_the_command_line_shows_and_draws_effects(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "effects.svg"
    assert main(["sensitivity", "tensor=2", *JOB, "--picture", str(picture), "--top", "5"]) == 0
    shown = capsys.readouterr().out
    assert "elasticity" in shown
    assert "device.memory.bandwidth" in picture.read_text()
    assert main(["sensitivity", *JOB, "--search", "--change", "0.5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    moves = [abs(effect["down"]["step_time_s"] - told["step_time_s"]) for effect in told["effects"]]
    assert max(moves[:5]) == max(moves)
    assert main(["sensitivity", *JOB, "--search", "--change", "0.5"]) == 0
    assert "Where the best plan changes" in capsys.readouterr().out


def test_the_command_line_chooses_robust_plans(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--samples", "8", "--pool", "10"]
    assert main(["plan", *JOB, "--robust", *few]) == 0
    assert "least worst regret" in capsys.readouterr().out
    assert main(["plan", *JOB, "--robust", *few, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["robust"]
    assert told["samples"] == 8
    assert len(told["plans"]) >= 10
    assert main(["plan", *JOB, "--robust", "--uncertainty", "no-such-file.toml"]) == 2


@pytest.mark.parametrize("option", ["--samples", "--seed", "--pool", "--uncertainty"])
def test_an_option_of_a_robust_choice_is_refused_where_none_is_asked_for(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *JOB, option, "0"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{option}: got '0' without --robust; allowed: only with --robust" in told.err


def test_the_command_line_says_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why-not", "tensor=7", *JOB]) == 3
    assert "It is not legal: tensor = 7 does not divide" in capsys.readouterr().out
    assert main(["why-not", "tensor=7", *JOB, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["verdict"] == "illegal"


def test_the_plans_ahead_are_those_that_are_faster() -> None:
    model, system = sw.model("gpt2"), sw.system("dgx-h100", 8)
    training = sw.Training(global_batch=16, sequence=1024)
    fix = {"context": 1, "schedule": "1f1b", "recompute_layers": 0, "zero": [0, 1]}
    every = sw.search(model, system, training, fix=fix, top=1000, method="exhaustive").best
    assert 20 < len(every) < 1000
    for place in (0, 7, len(every) // 2):
        found = sw.why_not(model, system, every[place].plan, training, fix=fix)
        faster = sum(plan.step_time_s < every[place].step_time_s for plan in every)
        assert found.plans_ahead == faster
        assert found.verdict == ("slower" if faster else "best")


def test_work_that_is_stopped_ends_as_stopped_and_not_as_wrong_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> None:
        message = "search for a plan: stopped before one was found"
        raise sw.CancelledError(message)

    monkeypatch.setattr("scalewright.planning.sensitivity_job", stopped)
    assert main(["sensitivity", *JOB, "--search"]) == 130
    assert (
        capsys.readouterr().err == "scalewright: search for a plan: stopped before one was found\n"
    )
