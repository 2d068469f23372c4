"""Do plans on unlike devices come through Python and the verb whole, and are mistakes named?"""

import json
from itertools import pairwise
from typing import Any

import pytest

import scalewright as sw
from scalewright.cli import main
from scalewright.errors import CancelledError, InvalidError, ScalewrightError, UnknownNameError

MODEL = sw.model("gpt3-6.7b")
TRAINING = sw.Training(global_batch=64, sequence=2048)
GROUPS = ["dgx-a100-80gb:16", "dgx-h100:8"]
LINK = "25 GB/s, 10 us"


def found(**options: Any) -> sw.UnlikeSearch:
    return sw.search_unlike(MODEL, GROUPS, TRAINING, **{"between": LINK, "top": 3, **options})


def test_stages_hold_all_layers_on_devices_that_they_fit() -> None:
    best = found()[0]
    layers = [stage["layers"] for stage in best["stages"]]
    assert layers[0][0] == 0
    assert layers[-1][1] == MODEL.table["layers"]
    assert all(a[1] == b[0] for a, b in pairwise(layers))
    assert all(s["peak_memory_bytes"] <= s["memory_capacity_bytes"] for s in best["stages"])
    for use, devices in zip(best["groups"], (16, 8), strict=True):
        assert use["devices_used"] + use["devices_unused"] == devices
    assert best["tokens_per_s"] == pytest.approx(64 * 2048 / best["step_time_s"])


def test_a_program_runs_on_every_group() -> None:
    plain, eager = found()[0], found(software="torchtitan-eager")[0]
    assert eager["step_time_s"] > plain["step_time_s"]
    with pytest.raises(UnknownNameError, match="torchtitan-eager"):
        found(software="torchtitan-eagre")


def test_counts_add_up_and_the_answer_is_proven() -> None:
    values = found().values
    counts = ("priced", "excluded_by_bound", "that_do_not_fit")
    assert values["combinations"] == sum(values[f"combinations_{count}"] for count in counts)
    assert values["proven"]


def test_another_group_is_never_worse_and_makes_some_jobs_faster() -> None:
    alone = [sw.search_unlike(MODEL, [group], TRAINING, top=1)[0] for group in GROUPS]
    both = found()[0]["step_time_s"]
    assert both < min(plan["step_time_s"] for plan in alone)


def test_one_group_is_never_worse_than_plans_of_like_stages() -> None:
    machines = sw.system("dgx-a100-80gb", 16)
    fix = {"schedule": "1f1b", "context": 1}
    like = sw.search(MODEL, machines, TRAINING, top=1, fix=fix)[0].step_time_s
    own = sw.search_unlike(MODEL, [machines], TRAINING, top=1)[0]["step_time_s"]
    assert own <= like * (1 + 1e-9)


def test_a_link_may_be_text_fields_a_system_or_one_of_its_levels() -> None:
    level = {"bandwidth": "25 GB/s", "latency": "10 us"}
    assert found(between=level).best == found().best
    outermost = found(between="dgx-a100-80gb").best
    assert outermost == found(between="dgx-a100-80gb:hdr-infiniband").best


def test_pinned_fields_hold() -> None:
    for plan in found(fix={"tensor": 4, "zero": [1], "schedule": "gpipe", "pipeline": [3]}).best:
        assert plan["zero"] == 1
        assert plan["schedule"] == "gpipe"
        assert len(plan["stages"]) == 3
        assert {use["tensor"] for use in plan["groups"]} <= {0, 4}


@pytest.mark.parametrize(
    ("groups", "options", "kind", "named"),
    [
        (["dgx-a100-80gb"], {}, InvalidError, "groups[0]"),
        (["dgx-a100-80gb:many"], {}, InvalidError, "groups[0]"),
        (["dgx-a100-80gb:" + "9" * 5000], {}, InvalidError, "groups[0]"),
        (["dgx-a101:8"], {}, UnknownNameError, "dgx-h100"),
        ([], {}, InvalidError, "groups"),
        (GROUPS * 3, {"between": LINK}, InvalidError, "groups"),
        (GROUPS, {}, InvalidError, "between"),
        (GROUPS, {"between": "25 GB/s"}, InvalidError, "between"),
        (GROUPS, {"between": "dgx-h100:nvlink-9"}, UnknownNameError, "between"),
        (GROUPS, {"between": 7}, InvalidError, "between"),
        (GROUPS, {"between": {"bandwidth": "25 GB/s"}}, ScalewrightError, "latency"),
        (GROUPS, {"between": LINK, "fix": {"context": 2}}, InvalidError, "fix.context"),
        (GROUPS, {"between": LINK, "fix": {"tensr": 2}}, UnknownNameError, "tensor"),
        (GROUPS, {"between": LINK, "top": 0}, InvalidError, "top: got 0"),
        (GROUPS, {"between": LINK, "memory_margin": 1.0}, InvalidError, "memory_margin"),
    ],
)
def test_mistakes_are_named(
    groups: list[str], options: dict[str, Any], kind: type[ScalewrightError], named: str
) -> None:
    with pytest.raises(kind) as refused:
        sw.search_unlike(MODEL, groups, TRAINING, **options)
    assert named in str(refused.value)


def test_progress_is_told_and_stops_the_search() -> None:
    calls: list[tuple[int, int]] = []
    found(progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] > 0

    def stop(done: int, total: int) -> None:
        message = f"{done} of {total}"
        raise CancelledError(message)

    with pytest.raises(CancelledError):
        found(progress=stop)


ARGUMENTS = [
    "plan-unlike",
    *("--model", "gpt3-6.7b", "--group", GROUPS[0], "--group", GROUPS[1]),
    *("--global-batch", "64", "--sequence", "2048"),
]


def test_the_verb_says_what_the_call_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGUMENTS, "--between", LINK, "--top", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"] == [dict(plan) for plan in found().best]
    assert [job["job"]["system"] for job in told["group_jobs"]] == ["dgx-a100-80gb", "dgx-h100"]
    assert main([*ARGUMENTS, "--between", LINK]) == 0
    shown = capsys.readouterr().out
    assert "expert" not in shown  # the model has none
    assert "The winner" in shown
    assert "excluded by a bound" in shown
    told = " ".join(shown.split())
    assert "proven: no plan with whole pipeline stages in one group is faster than the best" in told
    assert "not tried: replicas or other ranks that span groups" in told


def test_the_verb_refuses_and_finds_nothing_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ARGUMENTS) == 2
    assert "between" in capsys.readouterr().err
    assert main([*ARGUMENTS, "--between", LINK, "--memory-margin", "0.99"]) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "Infeasible" in told
    assert "proven: no plan with whole pipeline stages in one group is legal and fits; not" in told
