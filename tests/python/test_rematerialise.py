"""Do choices of what to keep, compute again and move hold their laws from Python and on plans?"""

import json
import re
from typing import Any

import pytest

import scalewright as sw
from scalewright.cli import main

GIB = 2.0**30
# 12 layers, of which each keeps half a gigabyte, and a head that is never computed again
LAYER: dict[str, Any] = {
    "forward_s": 4e-3,
    "backward_s": 8e-3,
    "input_bytes": 16e6,
    "kept_bytes": 500e6,
    "forward_working_bytes": 30e6,
    "backward_working_bytes": 60e6,
    "partial": {"kept_bytes": 200e6, "again_s": 1e-3},
}
HEAD: dict[str, Any] = {
    "forward_s": 6e-3,
    "backward_s": 9e-3,
    "input_bytes": 16e6,
    "kept_bytes": 400e6,
    "repeats": False,
}
BLOCKS = [LAYER] * 12 + [HEAD]
LINK = {"write_bytes_per_s": 25e9, "read_bytes_per_s": 25e9}
PASSES_S = 12 * 12e-3 + 15e-3


def stage(**of: Any) -> sw.StageRematerialisation:
    plan = of.pop("plan", {"data": 8, "zero": 3})
    training = of.pop("training", sw.Training(8, 2048))
    return sw.rematerialise_stage(
        sw.model("gpt3-6.7b"), sw.system("dgx-a100-80gb", 8), plan, training, **of
    )


def choice(found: sw.Rematerialisation) -> sw.BlockChoices:
    assert found.choice is not None
    return found.choice


def recompute(found: sw.Rematerialisation) -> sw.Recomputation:
    assert found.recompute is not None
    return found.recompute


def test_memory_buys_time_and_a_link_buys_more() -> None:
    budgets = [1.5e9, 2.5e9, 3.5e9, 5e9, 7e9]
    alone = [sw.rematerialise(BLOCKS, budget) for budget in budgets]
    beside = [sw.rematerialise(BLOCKS, budget, link=LINK) for budget in budgets]
    for found in (alone, beside):
        times = [choice(answer).time_s for answer in found]
        assert times == sorted(times, reverse=True)
        assert times[-1] == pytest.approx(PASSES_S)
    for one, two in zip(alone, beside, strict=True):
        assert choice(two).time_s <= choice(one).time_s
        assert choice(one).moved_bytes == 0
    assert choice(beside[1]).time_s < choice(alone[1]).time_s


def test_an_answer_lies_above_its_bound_within_its_gap_and_its_budget() -> None:
    found = sw.rematerialise(BLOCKS, 2.5e9, link=LINK, width=4096, slots=2000)
    for best in (choice(found), recompute(found)):
        assert found.compute_s <= best.bound_s <= best.time_s
        assert best.time_s == pytest.approx(best.bound_s * (1 + best.relative_gap))
        assert best.peak_bytes <= 2.5e9 * (1 + 1e-9)
    assert choice(found).simulated_s == pytest.approx(choice(found).time_s)
    passes = [operation.name for operation in recompute(found).operations]
    assert passes.count("backward") == len(BLOCKS)


def test_no_policy_of_frameworks_beats_the_choice() -> None:
    found = sw.rematerialise(BLOCKS, 3e9, link=LINK)
    names = [policy.retention for policy in found.policies]
    assert names == ["keep", "partial", "recompute", "swap", "swap_partial", "swap_input"]
    times = [policy.time_s for policy in found.policies if policy.time_s is not None]
    assert times
    assert choice(found).time_s <= min(times)
    assert found.policies[0].time_s is None
    assert found.policies[0].least_bytes > 3e9


def test_copies_run_beside_passes_in_order() -> None:
    blocks = choice(sw.rematerialise(BLOCKS, 2.5e9, link=LINK)).blocks
    moved = [block for block in blocks if block.moved_bytes > 0]
    assert moved
    writes = [block.write_s for block in moved if block.write_s is not None]
    assert writes == sorted(writes)
    for block in moved:
        assert block.write_s is not None
        assert block.read_s is not None
        assert block.forward_s[1] <= block.write_s[0] + 1e-12
        assert block.read_s[1] <= block.backward_s[0] + 1e-12


def test_a_stage_takes_the_passes_of_the_estimate() -> None:
    found = stage(budget_bytes="60 GiB")
    plan = {"data": 8, "zero": 3}
    job = (sw.model("gpt3-6.7b"), sw.system("dgx-a100-80gb", 8))
    whole = sw.estimate(*job, plan, sw.Training(8, 2048))
    terms = [t for t in whole.values["time"] if t["term"].endswith(("forward", "backward"))]
    assert found.answer.compute_s == pytest.approx(sum(t["time_s"] for t in terms), rel=1e-9)
    assert choice(found.answer).time_s == pytest.approx(found.answer.compute_s)
    assert found.names[0] == "embedding"
    assert found.names[-1] == "head"
    assert len(found.names) == 34
    assert not found.blocks[0]["repeats"]


def test_what_a_plan_leaves_is_the_budget() -> None:
    free = stage()
    plan = {"data": 8, "zero": 3, "recompute": "full", "offload_activations": 50}
    assert stage(plan=plan) == free
    wide = stage(plan={"data": 8, "zero": 1})
    assert wide.budget_bytes < free.budget_bytes
    piped = stage(plan={"pipeline": 4, "data": 2}, stage=1)
    last = stage(plan={"pipeline": 4, "data": 2}, stage=3)
    assert piped.in_flight > last.in_flight == 1
    assert piped.output_bytes > last.output_bytes == 0
    assert set(piped.names) == {"dense_layer"}


def test_a_system_without_a_host_is_told_what_it_lacks_and_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = ["--model", "gpt2", "--system", "mi300a-node", "--devices", "4", "--global-batch", "16"]
    asked = ["rematerialise", *job, "--sequence", "1024"]
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert "system mi300a-node has no [host] with memory, memory_bandwidth and" in said
    assert "allowed: false (--no-offload), or a system file that gives it one" in said
    assert main([*asked, "--no-offload"]) == 0


def test_offloading_can_be_refused() -> None:
    with_host, without = stage(budget_bytes=8 * GIB), stage(budget_bytes=8 * GIB, offload=False)
    assert without.link is None
    assert choice(with_host.answer).time_s < choice(without.answer).time_s
    # of schedules that are equally long another one may be found: the rounding differs
    alone, beside = recompute(without.answer), recompute(with_host.answer)
    assert beside.time_s == pytest.approx(alone.time_s, rel=1e-12)
    assert (beside.bound_s, beside.peak_bytes) == (alone.bound_s, alone.peak_bytes)
    assert beside.least_bytes == alone.least_bytes


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"blocks": []}, "blocks: got 0"),
        ({"blocks": 3}, "blocks: got 3"),
        ({"blocks": [3]}, "blocks[0]: got 3"),
        ({"blocks": [{**LAYER, "kept": 1}]}, "nearest: kept_bytes"),
        ({"blocks": [{**LAYER, "kept_bytes": 1}]}, "blocks[0].kept_bytes: got 1"),
        ({"budget_bytes": 1e6}, "or more: less holds no schedule"),
        ({"budget_bytes": float("nan")}, "budget_bytes: got nan"),
        ({"link": {**LINK, "read_bytes_per_s": 0.0}}, "link.read_bytes_per_s: got 0"),
        ({"link": 3}, "link: got 3"),
        ({"slots": 0}, "slots: got 0"),
        ({"width": 0.5}, "width: got 0.5"),
    ],
)
def test_what_is_wrong_is_said(wrong: dict[str, Any], said: str) -> None:
    right = {"blocks": BLOCKS, "budget_bytes": 3e9}
    with pytest.raises(sw.ScalewrightError) as caught:
        sw.rematerialise(**{**right, **wrong})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"stage": 1}, "stage: got 1"),
        ({"offload": 1}, "offload: got 1"),
        ({"budget_bytes": "8 apples"}, "budget_bytes"),
        ({"plan": {"pipeline": 2, "interleave": 2, "schedule": "interleaved"}}, "interleave: got"),
        ({"plan": {"tensor": 3}}, "plan"),
        ({"training": sw.Training(8, 2048, forward_only=True)}, "forward_only: got true"),
    ],
)
def test_what_is_wrong_with_a_stage_is_said(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(sw.ScalewrightError) as caught:
        stage(**wrong)
    assert said in str(caught.value)


def test_memory_that_nobody_named_is_no_field() -> None:
    full = sw.model("gpt3-175b"), sw.system("dgx-h100", 8), "tensor=8", sw.Training(8, 2048)
    with pytest.raises(sw.InvalidError, match=r"^memory of the device that the plan leaves to a m"):
        sw.rematerialise_stage(*full)
    with pytest.raises(sw.InvalidError, match=r"^budget_bytes: got 1; allowed: "):
        sw.rematerialise_stage(*full, budget_bytes=1)


def test_the_verb_shows_what_the_call_finds(capsys: pytest.CaptureFixture[str]) -> None:
    job = ["--model", "gpt3-6.7b", "--system", "dgx-a100-80gb", "--devices", "8"]
    batch = ["--global-batch", "8", "--sequence", "2048", "--data", "8", "--zero", "3"]
    asked = ["rematerialise", *job, *batch, "--budget", "8 GiB"]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stage"] == 0
    assert told == stage(budget_bytes="8 GiB").to_dict()
    assert set(told["answer"]["recompute"]["operations"][0]) == {"name", "block"}
    assert main(asked) == 0
    shown = capsys.readouterr().out
    for words in ("best block by block", "best recomputation", "recompute everywhere", "swap"):
        assert words in shown
    head = shown.splitlines()
    assert head[0].startswith("gpt3-6.7b (6.658B parameters) on 8 x NVIDIA A100 80GB SXM4 (dgx")
    assert head[1].startswith("global batch 8 x 2,048 tokens")
    assert head[2] == "plan: data 8, micro-batch 1, ZeRO 3"
    assert "One micro-batch of stage 1" in head


def test_stages_are_counted_from_1_and_their_index_from_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = ["--model", "gpt2", "--system", "dgx-a100-80gb", "--devices", "8"]
    job += ["--global-batch", "8", "--sequence", "1024", "--pipeline", "2"]
    for verb in ("rematerialise", "place"):
        for number in (1, 2):
            asked = [verb, *job, "--stage", str(number)]
            assert main([*asked, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["stage"] == number - 1
            assert main(asked) == 0
            assert f"of stage {number}\n" in capsys.readouterr().out
        for number, allowed in (("0", "1 or more"), ("-1", "1 or more"), ("3", "1 to 2")):
            assert main([verb, *job, "--stage", number]) == 2
            assert f"--stage: got {number}; allowed: {allowed}" in capsys.readouterr().err


def test_a_column_of_sizes_has_one_unit(capsys: pytest.CaptureFixture[str]) -> None:
    job = ["--model", "gpt3-6.7b", "--system", "dgx-a100-80gb", "--devices", "8"]
    job += ["--global-batch", "8", "--sequence", "2048", "--zero", "3"]
    assert main(["rematerialise", *job]) == 0
    lines = capsys.readouterr().out.splitlines()
    for first, count in (("way ", 2), ("blocks ", 3)):
        at = next(place for place, line in enumerate(lines) if line.startswith(first))
        units = re.findall("[KMGT]iB", lines[at])
        assert len(units) == count
        assert len(set(units)) == 1
        assert not re.search("[KMGT]iB", lines[at + 1])
