"""Do refusals name the option that was typed, and are options refused that change nothing?"""

import argparse
import sys

import pytest

from scalewright.cli import main
from scalewright.cli.refusing import in_options

BATCH = ["--global-batch", "64", "--sequence", "1024"]
MACHINES = ["--model", "gpt2", "--system", "dgx-a100-80gb"]
JOB = [*MACHINES, "--devices", "16", *BATCH]
UNLIKE = ["plan-unlike", "--model", "gpt2", *BATCH, "--group"]
CONTROLLER = ["controller", "--hosts", "1", "--computation", "1ms"]
OFFLOAD = ["offload", *JOB, "--scheme", "zero-infinity", "--set"]
ROOM = "device.memory.capacity"
PIPELINE = ["--stages", "4", "--micro-batches", "8"]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix("scalewright: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", *JOB, "--top", "0"], "--top: got 0; allowed: 1 to 1000"),
        (["plan", *JOB, "--export", "megatron", "--json"], "--json: got it beside --export"),
        (["plan", *JOB, "--robust", "--pool", "0"], "--pool: got 0; allowed: 1 to 1000"),
        (["plan", *JOB, "--robust", "--samples", "0"], "--samples: got 0; allowed: 1 to"),
        (["plan", *JOB, "--robust", "--dtypes", "fp16"], "--dtypes: got 1 recipes"),
        (["plan", *JOB, "--dtypes", "bf16,fp7"], "--dtypes: unknown name 'fp7'; nearest: fp8"),
        (["plan", *JOB, "--dtypes", "fp8", "--precision", "bf16"], "--dtypes: got fp8; allowed:"),
        (["plan", *JOB, "--precision", "fp8"], "--precision: got fp8; allowed: fp32"),
        (["plan", *JOB, "--fix", "dtype=fp7"], "--fix: dtype: unknown name 'fp7'"),
        (["plan", *JOB, "--front", "time,room"], "--front: unknown name 'room'; known: time"),
        (["plan", *JOB, "--all-plans", "/no/such.arrow"], "--all-plans: '/no/such.arrow' "),
        (["plan", *JOB, "--run-tokens", "-5"], "--run-tokens: got -5; allowed: a finite"),
        (["plan", *MACHINES, "--devices", "0", *BATCH], "--devices: got 0; allowed: 1 or more"),
        ([*UNLIKE, "dgx-h100:8", "--top", "0"], "--top: got 0; allowed: 1 to 1000"),
        ([*UNLIKE, "dgx-h100"], "--group: got 'dgx-h100'; allowed: "),
        (["sensitivity", *JOB, "--change", "0"], "--change: got 0; allowed: a share"),
        (["codesign", *JOB, "--counts", "8,16", "--budget", "x=1"], "--budget: unknown name 'x'"),
        (
            ["codesign", *JOB, "--counts", "8,16", "--budget", "capital=20MEUR"],
            '--budget: capital: got "20MEUR"; allowed: dollars',
        ),
        (["place", *JOB, "--objective", "per_x=1"], "--objective: unknown name 'per_x'"),
        (["place", *JOB, "--tier", "tape"], "--tier: unknown name 'tape'; known: l2"),
        (["rematerialise", *JOB, "--budget", "8 apples"], '--budget: got "8 apples"; allowed: b'),
        (["serve-blocks", "gpt2", "gcp-t4", "--generate", "0"], "--generate: got 0; allowed: 1"),
        (["serve-blocks", "gpt2", "gcp-t4", "--batch", "0"], "--batch: got 0; allowed: 1 to 10"),
        (["schedule", "1f1b"], "--stages: got nothing; allowed: the number of devices of the pipe"),
        (["schedule", "--stages", "4"], "--micro-batches: got nothing; allowed: a whole number"),
        (
            ["schedule", "1f1b", *PIPELINE, "--width", "0", "--picture", "x.svg"],
            "--width: got 0.0; allowed: 3 to 60 inches",
        ),
        (["schedule", "1f1b", *PIPELINE, "--send", "x"], '--send: got "x"; allowed: a duration'),
        (["schedule", "dualpipe", *PIPELINE, "--hidden", "9"], "--hidden of stage 0: got 9"),
        (["controller", "--hosts", "1", "--computation", "x"], '--computation: got "x"'),
        ([*CONTROLLER, "--groups", "7"], "--groups: got 7; allowed: a divisor of 1"),
        ([*CONTROLLER, "--input", "x"], '--input: got "x"; allowed: a duration'),
        (["plan", *JOB, "--fix", "tensr=2"], "--fix: unknown name 'tensr'; nearest: tensor"),
        (["plan", *JOB, "--fix", "tensor=x"], "--fix: tensor: got 'x'; allowed: a whole number"),
        (["plan", *JOB, "--fix", "zero=9"], "--fix: zero: got 9; allowed: 0, 1, 2 or 3"),
        (["plan", *JOB, "--checkpoint", "no/x"], "--checkpoint: '"),
        (["codesign", *JOB, "--systems", "dgx-h10"], "--systems: unknown name 'dgx-h10'"),
        (["codesign", *JOB, "--chips", "h10"], "--chips: unknown name 'h10'"),
        (["codesign", *JOB, "--vary", f"{ROOM}=0"], f"--vary: {ROOM}: got 0; allowed: 0.000001"),
        ([*UNLIKE, "dgx-h10:8"], "--group: unknown name 'dgx-h10'"),
        (["place", *JOB, "--relative-gap", "2"], "--relative-gap: got 2; allowed: 0 up to"),
        ([*OFFLOAD, "tiles=x"], '--set: tiles: got "x"; allowed: a whole number'),
        ([*OFFLOAD, "tils=2"], "--set: unknown name 'tils'; nearest: tiles"),
        (["schedule", "1f1c"], "schedule: unknown name '1f1c'; nearest: 1f1b"),
    ],
)
def test_a_refusal_names_the_option_that_was_typed(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, *arguments).startswith(said)


def test_what_no_option_has_set_keeps_its_name() -> None:
    options = argparse.Namespace(devices=None, top=5, offload_optimizer=False, fix=[])
    for message in (
        "training.global_batch: got 0; allowed: 1 to 2^32",
        "devices: got 0; allowed: 1 or more",
        "plan.offload_optimizer: got true; allowed: false",
        "topmost: got 0; allowed: 1",
        "plan: tensor = 8 does not divide heads = 12",
        "mine.toml: top: got 0",
        "top",
        "",
    ):
        assert in_options(message, options) == message


def test_the_option_that_holds_what_was_refused_is_the_one_named() -> None:
    for top, pool, named in ((0, 200, "top"), (5, 0, "pool"), (0, None, "top"), (0, 0, "top")):
        options = argparse.Namespace(top=top, pool=pool)
        told = in_options("top: got 0; allowed: 1 to 1000", options)
        assert told == f"--{named}: got 0; allowed: 1 to 1000"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("foo", "unknown name 'foo'; known: tensor, "),
        ("tensr", "unknown name 'tensr'; nearest: tensor"),
    ],
)
def test_a_field_to_differ_in_that_is_none_gets_the_names(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refusal(capsys, "plan", *JOB, "--distinct", name)
    assert told.startswith("--distinct: ")
    assert said in told


def test_values_of_a_search_are_refused_where_none_is_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fixed = [*JOB, "--fix", "tensor=4", "zero=1"]
    told = refusal(capsys, "sensitivity", "tensor=2", *fixed)
    assert told == "--fix: got 'tensor=4 zero=1'; allowed: only with --search, or without a plan\n"
    assert main(["sensitivity", "tensor=2", *fixed, "--search", "--top", "1"]) == 0
    assert "tensor 4" in capsys.readouterr().out
    assert main(["sensitivity", *fixed, "--top", "1"]) == 0
    assert "plan: tensor 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["rematerialise", *JOB, "--recompute", "full"], "--recompute"),
        (["rematerialise", *JOB, "--recompute-layers", "2"], "--recompute-layers"),
        (["rematerialise", *JOB, "--offload-activations", "50"], "--offload-activations"),
        ([*OFFLOAD, "tiles=2", "--zero", "3"], "--zero"),
        ([*OFFLOAD, "tiles=2", "--schedule", "gpipe"], "--schedule"),
        ([*OFFLOAD, "tiles=2", "--collectives", "ring"], "--collectives"),
        ([*OFFLOAD, "tiles=2", "--no-overlap-grad-reduce"], "--overlap-grad-reduce"),
        ([*OFFLOAD, "tiles=2", "--no-overlap-param-gather"], "--overlap-param-gather"),
        ([*CONTROLLER, "--transfer", "1 ms"], "--transfer"),
        ([*CONTROLLER, "--prefetch", "2"], "--prefetch"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    arguments: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, *arguments).startswith(f"{option}: got ")


def test_a_plan_that_is_given_whole_may_say_what_is_set_aside(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The best plan of a search, say, which has an answer of its own to it."""
    shown: list[str] = []
    for fields in ("micro_batch=4", "micro_batch=4,recompute=full"):
        assert main(["rematerialise", *JOB, "--plan", fields, "--json"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    for fields in ("micro_batch=4", "micro_batch=4,zero=1"):
        assert main([*OFFLOAD, "tiles=2", "--plan", fields, "--json"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[2] == shown[3]


@pytest.mark.parametrize(
    "verb",
    [
        ["place"],
        ["rematerialise"],
        ["sensitivity"],
        ["codesign"],
        ["offload", "--scheme", "zero-offload"],
    ],
)
def test_tokens_of_a_run_are_taken_by_verbs_that_price_one_only(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*verb, *JOB, "--run-tokens", "1e9"])
    assert ended.value.code == 2
    assert "unrecognized arguments: --run-tokens" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["schedules", "placement", "collectives", "kernels"])
def test_a_flag_that_is_refused_was_got_and_not_true(
    pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refusal(capsys, "reproduce", pattern, "--ablation")
    assert told == "--ablation: got it; allowed: only where rows are training runs\n"
    told = refusal(capsys, "reproduce", pattern, "--page", "a.html")
    assert told == "--page: got 'a.html'; allowed: only where rows are training runs\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["estimat"], "VERB: unknown name 'estimat'; nearest: estimate"),
        (["frobnicate"], "VERB: unknown name 'frobnicate'; allowed: plan, plan-unlike, "),
        (["--bogus"], "unrecognized arguments: --bogus; `scalewright --help` tells"),
        (["plan", *JOB, "--fxi=3"], "unrecognized arguments: --fxi=3; nearest: --fix"),
        (["plan", *JOB, "extra"], "unrecognized arguments: extra; `scalewright plan --help`"),
        (["plan", *JOB, "--top", "1e400"], "--top: got '1e400'; allowed: a whole number"),
        (["plan", *JOB, "--memory-margin", ""], "--memory-margin: got ''; allowed: a number"),
        (["plan", *JOB, "--precision", "bf61"], "--precision: got 'bf61'; allowed: fp32, tf32, "),
        (["plan", *JOB, "--fix"], "--fix: got nothing; allowed: a value, as --fix=VALUE where"),
        (["plan", *JOB, "--json=3"], "--json: got '3'; allowed: no value"),
        (["plan", *JOB, "--st", "bf16"], "--st: got what several begin with; allowed: --state, "),
        (["plan", *MACHINES], "--devices, --global-batch, --sequence: got nothing; allowed: a v"),
        (["estimate", *JOB, "--zero", "4"], "--zero: got 4; allowed: 0, 1, 2, 3"),
        (
            ["collective", "all_reduce", "--system", "p5", "--json", "--like", "nccl-tests"],
            "--like: got it beside --json; allowed: one of them",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_refused_in_one(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.startswith(f"scalewright: {said}")


def test_a_cluster_without_ray_is_refused_by_its_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    said = refusal(capsys, "plan", *JOB, "--ray", "local")
    assert said.startswith("--ray: Ray is not installed; allowed: with the extra `ray`")
