"""Is a choice of precision recipes the best of each, refused where one job is asked about?"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw
from scalewright import InvalidError, ScalewrightError
from scalewright.cli import main

MODEL = sw.model("gpt2")
SYSTEM = sw.system("dgx-h100", devices=8)
TRAINING = sw.Training(global_batch=32, sequence=1024)
JOB = ["--model", "gpt2", "--system", "dgx-h100", "--global-batch", "32", "--sequence", "1024"]
PLAN = ["plan", *JOB, "--devices", "8"]
FIX = {"context": 1, "micro_batch": [1, 2], "zero": [0, 1], "recompute": "none"}
RECIPES = st.permutations(["bf16", "fp8", "fp16", "fp32"])


def search(dtypes: list[str] | None, **more: Any) -> sw.Search:
    fix = FIX if dtypes is None else {**FIX, "dtype": dtypes}
    return sw.search(MODEL, SYSTEM, TRAINING, fix=fix, offload="never", **more)


@settings(max_examples=6, deadline=None)
@given(recipes=RECIPES, count=st.integers(1, 3))
def test_more_recipes_never_give_a_worse_best(recipes: list[str], count: int) -> None:
    few, more = search(recipes[:count]), search(recipes[: count + 1])
    assert more[0].step_time_s <= few[0].step_time_s
    assert more.values["plans_legal"] > few.values["plans_legal"]
    assert {found.values["dtype"] for found in few.best} <= set(recipes[:count])


def test_a_plan_s_job_has_its_recipe() -> None:
    found = search(["bf16", "fp8"], top=20)
    assert {one.values["dtype"] for one in found.best} == {"bf16", "fp8"}
    assert {point["dtype"] for point in found.values["pareto"]} <= {"bf16", "fp8"}
    for one in found.best:
        assert one.job.training.precision == one.values["dtype"]
        again = sw.estimate(MODEL, SYSTEM, one.plan, one.job.training)
        assert again.step_time_s == one.step_time_s
    assert found.job.training.precision == "bf16"
    alone = search(None)
    assert "dtype" not in alone[0].values


def test_the_head_and_the_job_name_what_was_searched(capsys: pytest.CaptureFixture[str]) -> None:
    """Recipes that are listed win over the training's own, wherever the answer says which it is."""
    fix = ["--fix", "context=1", "zero=0", "micro_batch=1", "--precision", "fp8"]
    for listed, head in (("bf16", "bf16"), ("fp16,bf16", "fp16 or bf16"), ("bf16,fp8", None)):
        assert main([*PLAN, *fix, "--dtypes", listed]) == 0
        shown = capsys.readouterr().out.splitlines()[1]
        assert shown == f"global batch 32 x 1,024 tokens, {head or 'bf16 or fp8'}, adam"
    own = replace(TRAINING, precision="fp8")
    for listed, job in ((["bf16"], "bf16"), (["fp16", "bf16"], "fp16"), (["bf16", "fp8"], "fp8")):
        found = sw.search(MODEL, SYSTEM, own, fix={**FIX, "dtype": listed}, offload="never")
        assert found.job.training.precision == job
        assert found.to_dict()["dtypes"] == listed
        assert found.error_band == sw.search(MODEL, SYSTEM, found[0].job.training, top=1).error_band


def test_a_checkpoint_of_recipes_goes_on_to_the_same_answer(tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    whole = search(["fp8", "bf16"], checkpoint=path)
    again = search(["fp8", "bf16"], checkpoint=path)
    assert again.values["best"] == whole.values["best"]
    with pytest.raises(InvalidError, match=r"is of another search: space\.dtype"):
        search(["fp8"], checkpoint=path)


def test_why_not_says_which_recipe_wins() -> None:
    fix, wide = {**FIX, "dtype": ["fp32", "bf16"]}, replace(TRAINING, precision="fp32")
    asked = sw.why_not(MODEL, SYSTEM, "tensor=2", wide, fix=fix)
    assert asked.winner is not None
    assert asked.winner.values["dtype"] == "bf16"
    assert asked.to_dict()["plan_differences"]["dtype"] == ("bf16", "fp32")


def test_the_command_names_the_recipe(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fix = ["--fix", "context=1", "zero=0", "micro_batch=1", "--dtypes", "fp32,bf16"]
    assert main([*PLAN, *fix]) == 0
    assert "The winner: " in (shown := capsys.readouterr().out)
    assert ", bf16" in shown
    space = tmp_path / "space.toml"
    space.write_text('dtype = ["fp32", "bf16"]\ncontext = 1\nzero = 0\nmicro_batch = 1\n')
    assert main([*PLAN, "--space", str(space), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"][0]["dtype"] == "bf16"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtypes", "bf16,fp9"], "fp9"),
        (["--dtypes", "bf16,fp8", "--all-plans", "plans.arrow"], "--all-plans: got it with dtype"),
        (["--dtypes", "bf16,fp8", "--robust"], "--dtypes: got 2 recipes"),
    ],
)
def test_what_is_about_one_recipe_refuses_several(
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*PLAN, "--fix", "context=1", "zero=0", *options]) == 2
    assert message in capsys.readouterr().err


def test_no_recipe_is_a_field_of_a_plan() -> None:
    with pytest.raises(ScalewrightError, match="unknown name 'dtype'"):
        sw.estimate(MODEL, SYSTEM, {"tensor": 2, "dtype": "fp8"}, TRAINING)
    with pytest.raises(ScalewrightError, match=r"fix\.dtype"):
        sw.sensitivity(MODEL, SYSTEM, TRAINING, "tensor=2", fix={"dtype": "fp8"}, search=True)
