"""Does a calibration to whole steps find the constants behind them, and hold what they hide?"""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pytest

from scalewright import InvalidError, UnknownNameError
from scalewright.calibration import calibrate_steps, step_timing, steps, timed_steps
from scalewright.calibration.step_constants import StepBench, step_constants
from scalewright.catalog import load_device, load_system, with_software
from scalewright.cli import main

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = [
    *("system", "devices", "model", "seq", "global_batch", "micro_batch", "tp", "pp", "dp", "cp"),
    *("ep", "interleave", "zero", "recompute", "seq_parallel", "dtype", "step_time_s"),
]
# devices, model, global batch, tensor, pipeline, data
LARGE = [
    (1, "llama2-7b", 2, 1, 1, 1),
    (8, "llama2-7b", 64, 1, 1, 8),
    (8, "llama2-7b", 64, 8, 1, 1),
    (8, "llama2-13b", 32, 4, 1, 2),
    (64, "llama2-13b", 256, 2, 1, 32),
    (256, "llama2-70b", 512, 8, 4, 8),
    (1024, "llama2-70b", 1024, 8, 2, 64),
    (1024, "llama2-7b", 1024, 1, 1, 1024),
]
RATE, SPREAD = "device.sustained.bf16", "device.speed_spread"
NVLINK = "fabric.nvswitch.efficiency of dgx-h100"


def table(runs: list[tuple[Any, ...]], times: list[float]) -> list[list[Any]]:
    return [
        ["dgx-h100", n, model, 4096, batch, 1, t, p, d, 1, 1, 1, 1, "none", "no", "bf16", time]
        for (n, model, batch, t, p, d), time in zip(runs, times, strict=True)
    ]


def write(path: Path, lines: list[list[Any]], columns: list[str] = COLUMNS) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *lines])
    return str(path)


def planted(path: Path, truth: dict[str, float], runs: list[tuple[Any, ...]] = LARGE) -> str:
    """Write rows whose times the engine gives with some constants changed."""
    read, wrong = timed_steps([write(path, table(runs, [1.0] * len(runs)))])
    assert not wrong
    named = {constant.name: constant for constant in step_constants(read)}
    times = StepBench(read).times({named[name]: value for name, value in truth.items()})
    return write(path, table(runs, times))


def lines_of(found: Any) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in found.to_dict()["constants"]}


def test_the_constants_behind_synthetic_steps_are_found(tmp_path: Path) -> None:
    truth = {RATE: 600e12, SPREAD: 0.03}
    runs, _ = timed_steps([planted(tmp_path / "steps.csv", truth)])
    found = calibrate_steps(runs, only=[RATE, SPREAD, NVLINK])
    told = lines_of(found)
    assert told[RATE]["before"] == pytest.approx(720e12)
    assert told[RATE]["after"] == pytest.approx(600e12, rel=0.01)
    assert told[SPREAD]["after"] == pytest.approx(0.03, rel=0.1)
    for name in truth:
        low, high = told[name]["interval"]
        assert 0.97 * low <= told[name]["after"] <= 1.03 * high
    assert told[NVLINK]["status"] == "confirmed"
    assert told[NVLINK]["after"] == told[NVLINK]["before"]
    # one device alone does not wait for others
    assert told[SPREAD]["told_by"]["runs"] == len(LARGE) - 1
    errors = found.errors
    assert errors["before"]["mean_abs_error"] > 0.1
    assert errors["held_out"]["mean_abs_error"] < 0.01
    assert found.better


def test_the_share_of_a_link_is_found_and_written_beside_the_device(tmp_path: Path) -> None:
    file = planted(tmp_path / "steps.csv", {RATE: 600e12, NVLINK: 0.5})
    out = tmp_path / "my.toml"
    asked = ["calibrate", "step", file, "--fit", RATE, "--fit", NVLINK, "--out", str(out)]
    assert main(asked) == 0
    beside = tmp_path / "my.system.dgx-h100.toml"
    levels = {level["name"]: level for level in load_system("dgx-h100", [beside])["levels"]}
    assert levels["nvswitch"]["efficiency"] == pytest.approx(0.5, rel=0.02)
    assert "calibrate step" in load_device("h100-sxm", [out])["sources"]["sustained.bf16"]


def test_the_pace_of_the_host_is_found_for_the_software_that_ran(tmp_path: Path) -> None:
    columns = [*step_timing.COLUMNS, "software_profile"]
    shapes = step_timing.step_shapes()[:4]
    rows = [[*shape.row("h100-sxm", "bf16", 1.0), "torchtitan-eager"] for shape in shapes]
    runs, wrong = timed_steps([write(tmp_path / "steps.csv", rows, columns)])
    assert not wrong
    assert not any(run.searched for run in runs)
    pace = "software.host.host_time of torchtitan-eager"
    constant = next(c for c in step_constants(runs) if c.name == pace)
    times = StepBench(runs).times({constant: 80e-6})
    rows = [
        [*s.row("h100-sxm", "bf16", t), "torchtitan-eager"]
        for s, t in zip(shapes, times, strict=True)
    ]
    file, out = write(tmp_path / "steps.csv", rows, columns), tmp_path / "my.toml"
    assert main(["calibrate", "step", file, "--fit", "software", "--out", str(out)]) == 0
    own = tmp_path / "my.software.torchtitan-eager.toml"
    training, _ = with_software("torchtitan-eager", {}, {"name": "h100-sxm"}, [own])
    value, unit = training["software"]["host"]["host_time"].split()
    assert (float(value), unit) == (pytest.approx(80.0, rel=0.02), "us")
    assert training["software"]["layer"]["norm"] == [19.0, 40.0]


def test_rows_without_a_profile_begin_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = step_timing.step_shapes()[:4]
    rows = [list(shape.row("h100-sxm", "bf16", 1.0)) for shape in shapes]
    columns = list(step_timing.COLUMNS)
    runs, _ = timed_steps([write(tmp_path / "steps.csv", rows, columns)])
    constant = next(c for c in step_constants(runs) if c.name.startswith("software"))
    times = StepBench(runs).times({constant: 40e-6})
    rows = [list(s.row("h100-sxm", "bf16", t)) for s, t in zip(shapes, times, strict=True)]
    file, out = write(tmp_path / "steps.csv", rows, columns), tmp_path / "my.toml"
    assert main(["calibrate", "step", file, "--fit", "software", "--out", str(out)]) == 0
    own = tmp_path / "my.software.measured-steps.toml"
    shown = " ".join(capsys.readouterr().out.split())
    assert f"take it with --catalog {own} and with --software measured-steps for jobs" in shown
    training, _ = with_software("measured-steps", {}, {"name": "h100-sxm"}, [own])
    assert float(training["software"]["host"]["host_time"].split()[0]) == pytest.approx(
        40.0, rel=0.02
    )
    with_profile = [[*row, "measured-steps"] for row in rows]
    again = write(tmp_path / "again.csv", with_profile, [*columns, "software_profile"])
    left, _ = timed_steps([again], overrides=[own])
    assert StepBench(left).times({}) == pytest.approx(times, rel=0.02)


def test_the_override_changes_an_estimate_and_bad_lines_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "steps.csv", tmp_path / "my.toml"
    planted(file, {RATE: 600e12})
    with file.open("a", newline="") as text:
        bad = table([("eight", "llama2-7b", 64, 1, 1, 8), (8, "lama2-7b", 64, 1, 1, 8)], [1, 1])
        csv.writer(text).writerows(bad)
    asked = ["calibrate", "step", str(file), "--fit", "device.sustained", "--out", str(out)]
    assert main([*asked, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["runs"]) == len(LARGE)
    first, second = answer["left_out"]
    assert "line 10: devices: got 'eight'" in first
    assert "line 11: model: unknown name 'lama2-7b'" in second
    assert answer["written"] == [str(out)]
    job = ["estimate", "--model", "llama2-7b", "--system", "dgx-h100", "--devices", "8"]
    job += ["--global-batch", "64", "--sequence", "4096", "--zero", "1", "--json"]
    steps_s: list[float] = []
    for more in ([], ["--catalog", str(out)]):
        main([*job, *more])
        told = json.loads(capsys.readouterr().out)
        steps_s.append(told["step_time_s"])
    assert steps_s[1] > 1.1 * steps_s[0]
    assert "device.sustained.bf16" in told["overridden_constants"]
    assert "lines 2, 3, 4, 5, 6, 7, 8, 9 of steps.csv" in told["calibration_basis"]
    # what kernels told of the device still holds
    assert told["calibration_basis"].startswith("Matrix products:")
    assert main(asked[:-2]) == 0
    shown = capsys.readouterr().out
    for words in ("held out", "between folds", "runs that tell it", "left out: "):
        assert words in shown


def test_a_refusal_for_want_of_runs_names_the_lines_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "steps.csv"
    planted(file, {RATE: 600e12})
    lines = file.read_text().splitlines()
    bad = [line.replace("llama2-7b", "lama2-7b") for line in lines[1:-1]]
    file.write_text("\n".join([lines[0], *bad, lines[-1]]))
    assert main(["calibrate", "step", str(file)]) == 2
    told = capsys.readouterr().err
    assert "runs to fit 5 constants" in told
    assert "left out: " in told
    assert "model: unknown name 'lama2-7b'" in told


def test_constants_that_do_not_carry_over_are_not_written_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = LARGE[1:6]
    read, _ = timed_steps([write(tmp_path / "steps.csv", table(runs, [1.0] * 5))])
    times = StepBench(read).times({})
    # three runs of five are slow: what they say is wrong for the others
    slow = (1.5, 1.0, 1.0, 1.5, 1.5)
    lines = table(runs, [t * f for t, f in zip(times, slow, strict=True)])
    file, out = write(tmp_path / "steps.csv", lines), tmp_path / "my.toml"
    asked = ["calibrate", "step", file, "--fit", "device.sustained", "--out", str(out)]
    assert main([*asked, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["constants"][0]["status"] == "fitted"
    assert (
        found["errors"]["held_out"]["mean_abs_error"] > found["errors"]["before"]["mean_abs_error"]
    )
    assert not out.exists()
    assert main(asked) == 1
    assert "nothing is written; --force" in capsys.readouterr().out
    assert main([*asked, "--force"]) == 0
    assert out.exists()


def test_what_cannot_be_fitted_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = write(tmp_path / "few.csv", table(LARGE[:3], [1.0] * 3))
    runs, _ = timed_steps([few])
    with pytest.raises(InvalidError, match=r"rows: got 3 different runs to fit 1 constants"):
        calibrate_steps(runs, only=[RATE])
    with pytest.raises(InvalidError, match=r"allowed: \d+ or more, or fewer constants"):
        calibrate_steps(runs)
    with pytest.raises(InvalidError, match=r"rows: got 1 different runs"):
        calibrate_steps([runs[0]] * 12, only=[RATE])
    with pytest.raises(
        UnknownNameError, match=r"fit: unknown name 'device.clock'; known: device.s"
    ):
        calibrate_steps(runs, only=["device.clock"])
    two = [*table(LARGE[:1], [1.0]), ["dgx-a100-80gb", *table(LARGE[:1], [1.0])[0][1:]]]
    both = write(tmp_path / "two.csv", two)
    with pytest.raises(InvalidError, match="got devices h100-sxm, a100-sxm-80gb; allowed: one"):
        timed_steps([both])
    assert len(timed_steps([both], only="a100")[0]) == 1
    assert main(["calibrate", "step", few, "--level", "nvswitch"]) == 2
    assert "--level: got one; allowed: only of collectives" in capsys.readouterr().err


def test_runs_in_another_unit_are_named_and_not_written_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = planted(tmp_path / "steps.csv", {RATE: 600e12}), tmp_path / "my.toml"
    lines = (tmp_path / "steps.csv").read_text().splitlines()
    for place in (3, 6):
        first, _, time = lines[place].rpartition(",")
        lines[place] = f"{first},{float(time) * 1e3!r}"
    (tmp_path / "steps.csv").write_text("\n".join(lines))
    asked = ["calibrate", "step", file, "--fit", "device.sustained", "--out", str(out)]
    assert main([*asked, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["far"] == ["steps.csv, line 4", "steps.csv, line 7"]
    assert not found["sound"]
    assert not out.exists()
    assert main(asked) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "off by a factor of 3 and more, of 2 lines: steps.csv, line 4; steps.csv, line 7" in shown
    )
    if found["overrides"]:
        assert main([*asked, "--force"]) == 0
        assert out.exists()


def test_what_reproduce_notes_of_a_row_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [*COLUMNS[:-1], "step_time"]
    runs, _ = timed_steps([write(tmp_path / "steps.csv", table(LARGE, [1.0] * len(LARGE)))])
    times = [time * 1e3 for time in StepBench(runs).times({})]
    file = write(tmp_path / "steps.csv", table(LARGE, times), columns)
    main(["calibrate", "step", file, "--fit", RATE])
    shown = " ".join(capsys.readouterr().out.split())
    assert "no unit is said: " in shown
    assert "was taken as seconds (so are 7 more, lines 3, 4, 5, 6, 7, ...)" in shown


def test_files_beside_the_main_one_are_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = planted(tmp_path / "steps.csv", {RATE: 600e12, NVLINK: 0.5})
    asked = ["calibrate", "step", file, "--fit", RATE, "--fit", NVLINK]
    asked += ["--out", str(tmp_path / "my.toml")]
    beside = tmp_path / "my.system.dgx-h100.toml"
    beside.write_text('kind = "system"\nbase = "dgx-a100-80gb"\n')
    assert main(asked) == 2
    assert "my.system.dgx-h100.toml: it is there and no override of dgx" in capsys.readouterr().err
    beside.unlink()
    beside.mkdir()
    assert main(asked) == 2
    assert "it is a folder" in capsys.readouterr().err
    assert not (tmp_path / "my.toml").exists()
    beside.rmdir()
    assert main(asked) == 0
    # what this wrote may be written again
    assert main(asked) == 0


def test_only_says_what_it_leaves(tmp_path: Path) -> None:
    file = write(tmp_path / "steps.csv", table(LARGE[:1], [1.0]))
    with pytest.raises(InvalidError, match=r"--only: got 'b200', which leaves no row; .*dgx-h100"):
        timed_steps([file], only="b200")


def test_ctrl_c_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = planted(tmp_path / "steps.csv", {RATE: 600e12})

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "_answer", stopped)
    out = tmp_path / "my.toml"
    assert main(["calibrate", "step", file, "--fit", RATE, "--out", str(out)]) == 130
    assert not out.exists()


def test_timed_steps_are_rows_that_the_calibration_reads() -> None:
    shapes = step_timing.step_shapes()
    assert shapes == sorted(shapes, key=lambda shape: shape.work)
    assert all(shape.global_batch % shape.micro_batch == 0 for shape in shapes)
    assert all(shape.hidden % 128 == 0 for shape in shapes)
    assert len(shapes[0].row("x", "bf16", 1.0)) == len(step_timing.COLUMNS)
