"""May a plan cut its sequences into slices along their tokens, however the field is written?"""

import json
from typing import Any

import pytest

import scalewright as sw
from scalewright.cli import main
from scalewright.export import write

SEQUENCE = 2048
JOB = ["--model", "gpt3-1.3b", "--system", "dgx-1-v100", "--devices", "8", "--precision", "fp16"]
JOB += ["--global-batch", "2", "--sequence", str(SEQUENCE)]
PLAN: dict[str, Any] = {"pipeline": 8, "schedule": "gpipe"}


def priced(**of: Any) -> sw.Estimate:
    training = sw.Training(2, SEQUENCE, precision="fp16")
    plan = sw.Plan(**{**PLAN, **of})
    return sw.estimate(sw.model("gpt3-1.3b"), sw.system("dgx-1-v100", 8), plan, training)


def searched(**of: Any) -> sw.Search:
    training = sw.Training(2, SEQUENCE, precision="fp16")
    on = sw.system("dgx-1-v100", 8)
    return sw.search(sw.model("gpt3-1.3b"), on, training, fix={**PLAN, **of})


def test_slices_fill_the_pipeline_that_two_sequences_leave_idle() -> None:
    whole, cut = priced(), priced(token_slices=8)
    assert cut.step_time_s < 0.75 * whole.step_time_s
    bubble = [
        next(t["time_s"] for t in found.values["time"] if t["term"] == "bubble")
        for found in (whole, cut)
    ]
    assert bubble[1] < 0.5 * bubble[0]


@pytest.mark.parametrize("written", [[768, 640, 640], (768, 640, 640), "768+640*2"])
def test_lengths_are_a_list_or_a_sum(written: Any) -> None:
    found = priced(token_slices=written)
    assert found.values["plan"]["token_slices"] == "768+640*2"
    again = priced(token_slices=found.values["plan"]["token_slices"])
    assert again.step_time_s == found.step_time_s


def test_slices_that_are_alike_are_a_count() -> None:
    listed = priced(token_slices=[512] * 4)
    assert priced(token_slices=4).step_time_s == listed.step_time_s
    assert priced(token_slices=4).values["plan"]["token_slices"] == 4
    assert priced(token_slices=[SEQUENCE]).step_time_s == priced().step_time_s


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({"token_slices": 3}, "token_slices = 3 does not divide sequence = 2048; nearest 2, 4"),
        ({"token_slices": [1000, 1000]}, "token_slices add up to 2000 tokens; allowed: sequence"),
        ({"token_slices": 0}, "token_slices: got 0; allowed: 1 to 4096 slices"),
        ({"token_slices": 4, "schedule": "1f1b"}, "token_slices above 1 needs schedule = gpipe"),
        (
            {"token_slices": 4, "pipeline": 4, "context": 2},
            "token_slices above 1 needs context = 1",
        ),
        ({"token_slices": "4x"}, "token_slices"),
        ({"token_slices": -4}, "token_slices"),
        ({"token_slices": [512, -1]}, "token_slices"),
    ],
)
def test_wrong_slices_are_refused_by_name(of: dict[str, Any], said: str) -> None:
    with pytest.raises(sw.ScalewrightError) as caught:
        priced(**of)
    assert said in str(caught.value)


def test_a_search_cuts_what_is_listed_and_nothing_unasked() -> None:
    free = searched()
    assert {found.values["plan"]["token_slices"] for found in free.best} == {1}
    asked = searched(token_slices=[1, 4, 8, "1024+768+256"])
    assert asked.best[0].values["plan"]["token_slices"] == 8
    assert asked.best[0].step_time_s < free.best[0].step_time_s
    text = searched(token_slices=["1024+768+256"], zero=[0], micro_batch=[1], recompute=["none"])
    one = priced(token_slices=[1024, 768, 256], data=1)
    assert text.best[0].step_time_s == one.step_time_s


def test_command_line_and_plan_text_take_slices(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--pipeline", "8", "--schedule", "gpipe", "--json"]
    times: list[float] = []
    for more in (
        ["--token-slices", "768+640*2"],
        ["--plan", "token_slices=768+640*2"],
        ["--token-slices", "768+640+640"],
    ):
        assert main(["estimate", *JOB, *options, *more]) in {0, 3}
        times.append(json.loads(capsys.readouterr().out)["step_time_s"])
    assert times == [priced(token_slices="768+640*2").step_time_s] * 3
    fixed = [f"--fix={name}={value}" for name, value in PLAN.items()]
    assert main(["plan", *JOB, *fixed, "--fix", "token_slices=2,8", "--json"]) in {0, 3}
    found = json.loads(capsys.readouterr().out)["best"][0]["plan"]
    assert found["token_slices"] == 8
    assert main(["estimate", *JOB, *options[:-1], "--token-slices", "8"]) in {0, 3}
    assert "token slices 8" in capsys.readouterr().out


def test_many_plans_take_counts_as_a_column() -> None:
    training = sw.Training(2, SEQUENCE, precision="fp16")
    on = sw.system("dgx-1-v100", 8)
    columns = {"pipeline": [8, 8], "schedule": [0, 0], "token_slices": [1, 8]}
    many = sw.estimate_many(sw.model("gpt3-1.3b"), on, columns, training)
    assert many.step_time_s.tolist() == [priced(token_slices=s).step_time_s for s in (1, 8)]


def test_no_framework_is_told_of_slices() -> None:
    with pytest.raises(sw.ScalewrightError, match="token_slices"):
        write("megatron", priced(token_slices=8).values, {}, {})


def test_a_simulated_step_time_step_runs_every_slice() -> None:
    training = sw.Training(2, SEQUENCE, precision="fp16")
    on = sw.system("dgx-1-v100", 8)
    plan = sw.Plan(**PLAN, token_slices=4)
    step = sw.simulate_step(sw.model("gpt3-1.3b"), on, plan, training)
    assert step.simulated_step_time_s == pytest.approx(priced(token_slices=4).step_time_s, rel=1e-2)
