"""Does a space say what may be chosen, and an empty one which fixed fields leave nothing?"""

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw
from scalewright import InvalidError, ScalewrightError, UnknownNameError
from scalewright.cli import main

MODEL = sw.model("gpt2")
SYSTEM = sw.system("dgx-a100-80gb", devices=16)
TRAINING = sw.Training(global_batch=64, sequence=1024)
JOB = ["--model", "gpt2", "--system", "dgx-a100-80gb", "--global-batch", "64", "--sequence", "1024"]
PLAN = ["plan", *JOB, "--devices", "16"]


def search(fix: dict[str, Any], **more: Any) -> sw.Search:
    return sw.search(MODEL, SYSTEM, TRAINING, fix=fix, top=3, offload="never", **more)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "space.toml"
    path.write_text(
        'tensor = [1, 2, 4]\ncontext = 1\nrecompute-layers = 0\nschedule = "1f1b"\n'
        'axis_order = ["tensor-context-data-pipeline", "pipeline-tensor-context-data"]\n'
        "offload_optimizer = [false, true]\n"
    )
    return path


def test_a_space_file_says_what_the_same_pins_say(file: Path) -> None:
    """Given as a file, as a table, or pin by pin, a space is the same."""
    table = {
        "tensor": [1, 2, 4],
        "context": 1,
        "recompute_layers": 0,
        "schedule": "1f1b",
        "axis_order": ["tensor-context-data-pipeline", "pipeline-tensor-context-data"],
        "offload_optimizer": [False, True],
    }
    found = [search({}, space=file), search({}, space=table), search(table)]
    assert len({one.values["plans_legal"] for one in found}) == 1
    assert len({one[0].step_time_s for one in found}) == 1


def test_pins_narrow_a_space_and_may_not_leave_it(file: Path) -> None:
    narrow = search({"tensor": 2}, space=file)
    assert {found.plan.tensor for found in narrow.best} == {2}
    assert narrow.values["plans_legal"] < search({}, space=file).values["plans_legal"]
    with pytest.raises(
        InvalidError, match="fix: tensor: got 8; allowed: of the space's own 1, 2, 4"
    ):
        search({"tensor": [2, 8]}, space=file)
    with pytest.raises(InvalidError, match="fix: context: got True"):
        search({"context": True}, space=file)


def test_a_wrong_space_file_names_the_field(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text("tensr = 2\n")
    with pytest.raises(UnknownNameError, match="nearest: tensor"):
        search({}, space=path)
    path.write_text('tensor = "two"\n')
    with pytest.raises(ScalewrightError, match=r"space.tensor\[0\]: got .two"):
        search({}, space=path)
    with pytest.raises(InvalidError, match="cannot be read"):
        search({}, space=tmp_path / "none.toml")


def test_the_command_line_says_what_is_looked_for(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--distinct", "micro-batch", "--front", "time,energy", "--objective", "dollars"]
    assert main([*PLAN, "--space", str(file), "--fix", "zero=1", *options]) == 0
    shown = capsys.readouterr().out
    proof = "proven: no legal plan of the space that fits in device memory costs less than the best"
    assert re.search(rf"{proof} one, [0-9.,]+ USD a step", shown)
    assert main([*PLAN, "--space", str(file), "--fix", "tensor=8"]) == 2
    assert main([*PLAN, "--front", "time,speed"]) == 2


@pytest.mark.parametrize("method", ["bounds", "exhaustive"])
def test_a_search_shows_what_it_excluded_and_what_it_proves(
    capsys: pytest.CaptureFixture[str], method: str
) -> None:
    plan = ["plan", *JOB, "--devices", "32"]
    assert main([*plan, *(["--exhaustive"] if method == "exhaustive" else [])]) == 0
    shown = capsys.readouterr().out
    system = sw.system("dgx-a100-80gb", devices=32)
    found = sw.search(MODEL, system, TRAINING, top=5, method=method)
    assert (
        "proven: no legal plan of the space that fits in device memory is faster than the best one"
        in shown
    )
    unfit = found.values["plans_not_fitting"]
    assert ("`--offload always` tries them" in shown) == (unfit > 0)
    assert f"{found.values['plans_legal']:,} legal plans in" in shown
    rows = [f"  {row['count']:,} excluded by: {row['bound']}" for row in found.values["excluded"]]
    assert rows == [line for line in shown.splitlines() if " excluded by: " in line]
    counts = sum(row["count"] for row in found.values["excluded"])
    assert counts == found.values["plans_excluded_by_bound"] > 0


@pytest.mark.parametrize("objective", ["energy", "memory", "dollars", "time", "devices"])
def test_an_objective_that_tries_no_plan_on_the_host_promises_none(
    capsys: pytest.CaptureFixture[str], objective: str
) -> None:
    job = ["--model", "gpt3-6.7b", "--system", "dgx-a100-80gb", "--devices", "1"]
    asked = ["plan", *job, "--global-batch", "1", "--sequence", "1024", "--objective", objective]
    tries = objective in ("time", "devices")
    assert main(asked) == (0 if tries else 3)
    shown = capsys.readouterr().out
    assert ("a search for the least time does" in shown) != tries
    assert main([*asked, "--offload", "always"]) == (0 if tries else 2)
    refused = f"--offload: got always with objective = {objective}; allowed: auto or never"
    assert (refused in capsys.readouterr().err) != tries


def runs(fields: dict[str, Any]) -> bool:
    return search(fields).values["plans_legal"] > 0


pins = st.fixed_dictionaries(
    {},
    optional={
        "tensor": st.sampled_from([1, 2, 4, 5, 8]),
        "pipeline": st.sampled_from([1, 2, 4, 12]),
        "data": st.sampled_from([1, 2, 3, 8]),
        "micro_batch": st.sampled_from([1, 3, 64]),
        "recompute_layers": st.sampled_from([0, 2, 13]),
        "sequence_parallel": st.booleans(),
    },
)


@settings(max_examples=25, deadline=None)
@given(fixed=pins)
def test_the_conflict_is_the_smallest_set_that_leaves_nothing(fixed: dict[str, Any]) -> None:
    """Tried set by set: no smaller set of the fixed fields leaves no legal plan."""
    if runs(fixed):
        return
    found = search(fixed).values["infeasible"]["conflict"]
    sizes = (
        size
        for size in range(len(fixed) + 1)
        for names in combinations(fixed, size)
        if not runs({name: fixed[name] for name in names})
    )
    assert len(found["fields"]) == next(sizes)
    assert found["smallest"]
    assert not runs(found["fields"])
    doors = [
        name for name in fixed if runs({key: value for key, value in fixed.items() if key != name})
    ]
    assert found["leave_open"] == doors


def test_axes_that_exceed_the_devices_are_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--fix", "tensor=2", "pipeline=4", "data=4", "zero=1"]) == 3
    shown = capsys.readouterr().out
    assert "tensor x context x pipeline x data = 32 is not the 16 devices" in shown
    assert "conflict: tensor=2, pipeline=4 and data=4 together leave no legal plan" in shown
    assert "leaving tensor, pipeline or data open leaves some" in shown


def test_a_batch_that_does_not_divide_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--fix", "micro_batch=5", "zero=1"]) == 3
    shown = capsys.readouterr().out
    assert "does not divide global_batch = 64" in shown
    assert "conflict: micro_batch=5 leaves no legal plan" in shown


PINS = ["--offload", "never", "--fix", "tensor=1", "pipeline=1", "zero=0", "micro_batch=1"]


def test_fields_that_leave_no_room_in_memory_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, system = sw.model("llama3-70b"), sw.system("dgx-a100-80gb", devices=64)
    fix = {"tensor": 1, "pipeline": 1, "zero": 0, "micro_batch": 1}
    found = sw.search(model, system, TRAINING, fix=fix, offload="never")
    conflict = found.values["infeasible"]["conflict"]
    assert list(conflict["fields"]) == ["tensor", "zero"]
    assert main(["plan", "--model", "llama3-70b", *JOB[2:], "--devices", "64", *PINS]) == 3
    shown = capsys.readouterr().out
    assert "conflict: tensor=1 and zero=0 together leave no plan that fits" in shown
    # other tiers were not tried, so nothing is said of them
    assert "proven: no plan of the space fits in device memory\n" in shown
    for name in fix:
        rest = {key: value for key, value in fix.items() if key != name}
        feasible = sw.search(model, system, TRAINING, fix=rest, offload="never").feasible
        assert feasible == (name in conflict["leave_open"])


def test_fields_that_are_not_to_blame_are_not_named() -> None:
    alone = sw.system("dgx-a100-80gb", devices=1)
    found = sw.search(
        sw.model("gpt3-175b"), alone, TRAINING, fix={"micro_batch": 1}, offload="never"
    )
    assert found.values["infeasible"]["conflict"] is None


def test_of_plans_on_equal_devices_the_quickest_is_best() -> None:
    asked: dict[str, Any] = {"top": 5, "offload": "never", "front": ()}
    quickest = sw.search(MODEL, SYSTEM, TRAINING, **asked)
    fewest = sw.search(MODEL, SYSTEM, TRAINING, objective="devices", **asked)
    assert fewest.values["best"] == quickest.values["best"]
    assert fewest.proven


def test_of_plans_with_tensors_elsewhere_each_value_of_a_field_has_one() -> None:
    model, system = sw.model("llama3-8b"), sw.system("dgx-h100", devices=8)
    training = sw.Training(global_batch=32, sequence=8192)
    fix = {"recompute": ["none", "full"], "schedule": ["1f1b"], "micro_batch": [1, 2]}
    asked: dict[str, Any] = {"fix": fix, "offload": "always", "front": ()}
    every = sw.search(model, system, training, top=200, **asked)
    apart = sw.search(model, system, training, distinct="zero", **asked)
    first: dict[int, float] = {}
    for found in every.best:
        first.setdefault(found.plan.zero, found.step_time_s)
    assert {found.plan.zero: found.step_time_s for found in apart.best} == first
    assert len(apart) == len(first) > 1
    assert any(found.values["offloaded"] for found in apart.best)


def test_state_that_fits_on_the_host_does_not_hide_tensors_that_could_lie_there() -> None:
    model, system = sw.model("mixtral-8x7b"), sw.system("dgx-h100", devices=8)
    training = sw.Training(global_batch=64, sequence=4096)
    layout = {"tensor": 1, "pipeline": 1, "context": 1, "expert": 8, "micro_batch": 1}
    fix = {**layout, "recompute": ["none", "selective", "full"], "offload_optimizer": [False, True]}
    never = sw.search(model, system, training, fix=fix, offload="never").best[0]
    assert never.plan.offload_optimizer
    found = sw.search(model, system, training, fix=fix)
    assert found.values["plans_placed"] > 0
    assert found.best[0].step_time_s < 0.9 * never.step_time_s


def test_devices_that_do_not_fill_their_racks_are_told_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["--model", "gpt2", "--global-batch", "64", "--sequence", "1024", "--top", "1"]

    def shown(system: str, devices: int) -> str:
        main(["plan", *asked, "--system", system, "--devices", str(devices)])
        return " ".join(capsys.readouterr().out.split())

    uneven = "devices fill 1 of 2 units of 72 (nvswitch), the last one has 56"
    assert uneven in shown("gb200-nvl72", 128)
    assert "`--system dgx-gb200` has units that fit" in shown("gb200-nvl72", 128)
    for system, devices in (("gb200-nvl72", 144), ("gb200-nvl72", 64), ("dgx-gb200", 128)):
        assert "do not line up" not in shown(system, devices)


def test_a_front_beside_plans_with_tensors_elsewhere_says_that_it_has_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["--model", "llama3-8b", "--system", "dgx-h100", "--devices", "8", "--top", "1"]
    asked += ["--global-batch", "32", "--sequence", "8192", "--fix", "schedule=1f1b"]
    for offload, told in (("always", True), ("never", False)):
        assert main(["plan", *asked, "--offload", offload]) == 0
        shown = capsys.readouterr().out
        assert "that no other beats in both" in shown
        assert ("plans in device memory that no other beats" in shown) == told
