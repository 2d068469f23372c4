"""Does `scalewright schedule` say what Python says, in tables, letters, files and JSON?"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import scalewright as sw
from conftest import run_schedule
from scalewright.cli import main
from scalewright.cli.schedule import _times

PIPELINE = ["--stages", "4", "--micro-batches", "8"]
RULES = [rule.name for rule in sw.schedules()]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["schedule", *arguments]) == 0
    return capsys.readouterr().out


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    return json.loads(shown(capsys, "--json", *arguments))


def test_json_says_what_python_says(capsys: pytest.CaptureFixture[str]) -> None:
    times = ["--forward", "10 ms,11 ms,0.012,10 ms", "--backward", "20 ms", "--send", "1 ms"]
    told = answered(capsys, "1f1b", "interleaved", *PIPELINE, *times, "--blocking", "--simulate")
    for found, name in zip(told["schedules"], ("1f1b", "interleaved"), strict=True):
        answer = sw.schedule(
            name,
            stages=4,
            micro_batches=8,
            forward_s=[0.01, 0.011, 0.012, 0.01],
            backward_s=0.02,
            weight_s=None,
            hop_s=0.001,
            sends="blocking",
            simulate=True,
            cut_stages=True,
            whole_backward=True,
        )
        assert found == json.loads(json.dumps(answer.plain()))
    assert {"schema_version", "engine_version", "catalog_hash"} <= set(told)


def test_all_that_can_run_are_shown_where_none_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = answered(capsys, *PIPELINE)
    names = [found["name"] for found in told["schedules"]]
    assert sorted([*names, *told["refused"]]) == sorted(RULES)
    text = shown(capsys, *PIPELINE)
    for name, why in told["refused"].items():
        assert f"{name} cannot run here: {why[:30]}" in " ".join(text.split())
    for name in names:
        assert re.search(rf"^{name} ", text, re.MULTILINE)


def test_no_bound_is_shown_above_what_takes_as_long(capsys: pytest.CaptureFixture[str]) -> None:
    """An exact bound and the makespan round alike, though two sums differ in the last digit."""
    times = ["--forward", "11 ms", "--backward", "22 ms", "--send", "1 ms"]
    said = shown(capsys, "breadth-first", "--stages", "8", "--micro-batches", "32", *times)
    row = next(line for line in said.splitlines() if line.startswith("breadth-first"))
    assert len(re.findall(r"1\.18\d s", row)) > 1  # of step and bound, on a wide screen makespan
    assert len(set(re.findall(r"1\.18\d s", row))) == 1


def test_the_list_has_every_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--list")
    told = answered(capsys, "--list")["schedules"]
    assert [rule["name"] for rule in told] == RULES
    for rule in sw.schedules():
        assert re.search(rf"^{rule.name} +{rule.chunks} ", text, re.MULTILINE)
        assert rule.source[:40] in text


def test_the_whole_backward_pass_holds_the_gradients_of_weights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in RULES:
        plain = main(["schedule", name, *PIPELINE, "--json"])
        first = capsys.readouterr().out
        if plain != 0:
            continue
        half = answered(capsys, name, *PIPELINE, "--backward", "2", "--weight", "1")
        assert json.loads(first)["schedules"] == half["schedules"]


def test_a_brought_order_runs_from_text_and_from_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, listed = tmp_path / "order.txt", tmp_path / "order.json"
    text.write_text("# two devices\nF0@0 F1@0 B0@0 B1@0\nF0@1 B0@1 F1@1 B1@1\n")
    listed.write_text(json.dumps([["F0", "F1", "B0", "B1"], ["F0", "B0", "F1", "B1"]]))
    one, other = (answered(capsys, "--order", str(path)) for path in (text, listed))
    assert one == other
    assert one["schedules"][0]["makespan_s"] == 9.0
    assert "own order" in shown(capsys, "--order", str(text))


def test_operations_are_told_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    (told,) = answered(capsys, "1f1b", *PIPELINE, "--operations")["schedules"]
    assert len(told["operations"]["start_s"]) == 2 * 4 * 8
    assert max(told["operations"]["end_s"]) == told["makespan_s"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1f1c", *PIPELINE], "schedule: unknown name '1f1c'; nearest: 1f1b"),
        (["1f1b", "--micro-batches", "8"], "stages: got nothing; allowed: the number of devices"),
        (["1f1b", "--stages", "4"], "--micro-batches: got nothing"),
        (["1f1b", *PIPELINE, "--forward", "1,2"], "--forward: got 2 values; allowed: 1 or 4"),
        (["1f1b", *PIPELINE, "--forward", "fast"], 'got "fast"'),
        (["1f1b", *PIPELINE, "--forward", "-1"], "got -1"),
        (["1f1b", *PIPELINE, "--forward", "nan"], "got nan"),
        (["1f1b", *PIPELINE, "--weight", "3"], "at most 2 s"),
        (["1f1b", *PIPELINE, "--chunks", "2"], "chunks: got 2"),
        (["1f1b", *PIPELINE, "--sizes", "1,2"], "sizes: got 2 values"),
        (["1f1b", *PIPELINE, "--sizes", "1,x"], "sizes: got"),
        (["--stages", "0", "--micro-batches", "8"], "stages: got 0"),
        (["1f1b", *PIPELINE, "--picture", "a.bmp"], "ends with .svg, .pdf, .png"),
        (["1f1b", *PIPELINE, "--picture", "a.svg", "--width", "1"], "--width: got 1.0"),
        (["1f1b", *PIPELINE, "--timeline", "no/such/place.json"], "no/such/place.json: No such"),
        (["--order", "no-such-file"], "no-such-file: cannot be read as an order: No such file"),
        (["--order", os.devnull], "got no line; allowed: a line of operations, as F0 B0"),
        (["1f1b", "gpipe", "--order", "no-such-file"], "got 2 names beside an order"),
    ],
)
def test_wrong_input_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", *arguments]) == 2
    heard = capsys.readouterr()
    assert said in heard.err
    assert heard.err.count("\n") == 1


USUAL = {"--window": "1", "--slices": "1", "--feedback": "0", "--hidden": "0.0"}
IDLE = {"--window": "2", "--slices": "2", "--feedback": "0.5", "--hidden": "0.5"}
USERS = {
    "--window": "interlocking",
    "--slices": "terapipe",
    "--feedback": "direct-feedback",
    "--hidden": "dualpipe",
}


@pytest.mark.parametrize("option", IDLE)
def test_an_option_that_no_named_schedule_uses_is_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user, asked = USERS[option], [*PIPELINE, option, IDLE[option]]
    others = [name for name in RULES if name != user]
    for names in ([others[0]], others):
        assert main(["schedule", *names, *asked]) == 2
        heard = capsys.readouterr().err
        assert f"{option}: got " in heard
        assert f"allowed: only with {user}\n" in heard
    for names in ([user], ["1f1b", user], []):
        assert main(["schedule", *names, *asked]) == 0
    assert main(["schedule", *others[:1], *PIPELINE, option, USUAL[option]]) == 0


@pytest.mark.parametrize(
    ("field", "usual", "more"),
    [("window", 1, 3), ("slices", 1, 3), ("feedback_s", 0.0, 0.5), ("hidden_s", 0.0, 0.25)],
)
def test_only_its_own_schedule_takes_an_option(field: str, usual: float, more: float) -> None:
    user = USERS[f"--{field.removesuffix('_s')}"]
    moved: list[str] = []
    for name in RULES:
        plain, other = (run_schedule(name, hop_s=0.1, **{field: value}) for value in (usual, more))
        if plain.to_dict(operations=True) != other.to_dict(operations=True):
            moved.append(name)
    assert moved == [user]


@pytest.mark.parametrize(
    ("names", "option", "accepted"),
    [
        ([], "--slices", False),
        (["terapipe"], "--slices", False),
        ([], "--feedback", False),
        (["direct-feedback"], "--feedback", True),
        (["1f1b"], "--window", False),
        (["interlocking"], "--window", True),
        ([], "--window", True),
        (["1f1b"], "--hidden", True),
    ],
)
def test_an_order_of_one_s_own_takes_what_may_bear_on_it(
    names: list[str],
    option: str,
    accepted: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    order = tmp_path / "order.txt"
    order.write_text("F0 F1 B0 B1\nF0 B0 F1 B1\n")
    if names == ["interlocking"]:
        order.write_text("F0 L0:0 F1 L0:1\nF0 L0:0 F1 L0:1\n")
    code = main(["schedule", *names, "--order", str(order), option, IDLE[option]])
    heard = capsys.readouterr().err
    assert (f"{option}: got" not in heard) == accepted
    assert accepted or code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--blocking"], "--blocking: got it; allowed: only with --send"),
        (["--width", "5"], "--width: got 5.0; allowed: only with --picture"),
        (["--operations"], "--operations: got it; allowed: only with --json"),
    ],
)
@pytest.mark.parametrize("names", [["1f1b"], []])
def test_an_option_without_the_one_it_belongs_to_is_refused(
    names: list[str], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schedule", *names, *PIPELINE, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, picture = tmp_path / "trace.json", tmp_path / "picture.svg"
    names = ["gpipe", "1f1b"]
    shown(capsys, *names, *PIPELINE, "--timeline", str(trace), "--picture", str(picture))
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 2 * 2 * 4 * 8
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert processes == [f"{name}: device {number}" for name in names for number in range(4)]
    assert picture.read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize("columns", [80, 97, 140, 300])
def test_everything_fits_the_screen(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in ([], ["1f1b"], ["1f1b", "--simulate", "--send", "0.1"]):
        lines = shown(capsys, *arguments, *PIPELINE).splitlines()
        assert max(map(len, lines)) <= columns
        assert not any("…" in line for line in lines)


def test_the_drawing_is_the_textbook_s(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(capsys, "1f1b", "--stages", "2", "--micro-batches", "3").splitlines()
    drawn = [line for line in lines if line.startswith("device ") and "·" in line]
    assert drawn == [
        "device 0  0░░░░1░░░░··········0▓▓▓▓▓▓▓▓▓2░░░░1▓▓▓▓▓▓▓▓▓·····2▓▓▓▓▓▓▓▓▓",
        "device 1  ·····0░░░░0▓▓▓▓▓▓▓▓▓1░░░░1▓▓▓▓▓▓▓▓▓2░░░░2▓▓▓▓▓▓▓▓▓··········",
    ]


def test_what_is_too_fine_is_not_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--picture" in shown(capsys, "1f1b", "--stages", "32", "--micro-batches", "32")
    assert "--picture" in shown(capsys, "1f1b", "--stages", "4", "--micro-batches", "512")


def test_a_screen_without_letters_gets_a_plain_drawing() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "scalewright", "schedule", "1f1b", *PIPELINE]
    run = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert b"- forward  = backward  . idle" in run.stdout
    assert b"\\u" not in run.stdout


def test_numbers_and_units_are_told_apart() -> None:
    assert _times("1, 2e-3 ,12 ms") == [1.0, 0.002, "12 ms"]
