"""Do pipeline schedules keep their laws from Python, and is wrong input named?"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw
from conftest import run_schedule

RULES = {rule.name: rule for rule in sw.schedules()}
ONE = {"stages": 4, "micro_batches": 8, "forward_s": 1.0, "backward_s": 2.0}

names = st.sampled_from(sorted(RULES))
times = st.floats(1e-3, 10.0)
worlds = st.fixed_dictionaries(
    {
        "forward_s": times,
        "backward_s": times,
        "weight_s": st.just(0.0) | times,
        "hop_s": st.just(0.0) | st.floats(1e-6, 2.0),
        "sends": st.sampled_from(["asynchronous", "blocking"]),
        "feedback_s": st.just(0.0) | st.floats(1e-6, 1.0),
        "stages": st.sampled_from([2, 4]),
        "window": st.integers(1, 3),
        "slices": st.integers(1, 3),
    }
)


def waits(rule: sw.ScheduleRule) -> bool:
    """True where a step starts when the one before it has ended on all devices."""
    return rule.flushes and not rule.bypasses


def overlaps(answer: sw.Schedule) -> list[str]:
    """Operations that start before the one before them has ended, but for those that pair up."""
    done = answer.operations
    same = (done.device[1:] == done.device[:-1]) & ~done.paired[:-1]
    early = done.start_s[1:] < done.end_s[:-1] - 1e-9 * answer.makespan_s
    return [f"operation {at + 1}" for at in np.flatnonzero(same & early)]


@settings(max_examples=50)
@given(names, worlds)
def test_arrays_fit_together(name: str, world: dict[str, Any]) -> None:
    answer = run_schedule(name, **world, simulate=True)
    done = answer.operations
    assert overlaps(answer) == []
    assert np.all(done.start_s >= 0)
    assert np.all(done.end_s >= done.start_s)
    assert done.end_s.max() == pytest.approx(answer.makespan_s, rel=1e-12)
    assert answer.simulated_s == pytest.approx(answer.makespan_s, rel=1e-9)
    assert answer.lower_bound_s <= answer.makespan_s * (1 + 1e-9)
    assert not answer.bound_is_exact or answer.relative_gap < 1e-9
    assert len({len(column) for column in vars(done).values()}) == 1
    assert set(done.device.tolist()) == set(range(answer.stages))
    assert set(done.stage.tolist()) == set(range(answer.virtual_stages))
    forwards = done.span[done.work == "forward"].sum()
    assert forwards == answer.virtual_stages * answer.executed_micro_batches
    per_device = [answer.work_s, answer.busy_s, answer.in_flight, answer.activations]
    per_device += [answer.versions, answer.staleness, answer.idle_s]
    assert {len(column) for column in per_device} == {answer.stages}
    assert np.all(answer.work_s <= answer.busy_s * (1 + 1e-9))
    assert np.all(answer.idle_s >= -1e-9 * answer.makespan_s)
    assert answer.interval_s <= answer.makespan_s * (1 + 1e-9)
    assert answer.interval_s == answer.makespan_s or not waits(RULES[name])
    assert answer.bubble_s == pytest.approx(
        answer.interval_s - answer.work_s.max(), abs=1e-9 * answer.makespan_s
    )
    assert answer.bubble_over_ideal == pytest.approx(answer.bubble_s / answer.work_s.max())
    assert np.all(answer.in_flight <= answer.executed_micro_batches * answer.virtual_stages)


@settings(max_examples=50)
@given(names, worlds, st.sampled_from([0.25, 3.0, 1e-6, 1e6]))
def test_time_has_no_scale(name: str, world: dict[str, Any], factor: float) -> None:
    fields = [field for field in world if field.endswith("_s")]
    scaled = world | {field: world[field] * factor for field in fields}
    one, other = run_schedule(name, **world), run_schedule(name, **scaled)
    assert other.makespan_s == pytest.approx(one.makespan_s * factor, rel=1e-9)
    assert other.operations.start_s == pytest.approx(
        one.operations.start_s * factor, rel=1e-9, abs=1e-9 * other.makespan_s
    )
    assert other.bubble_over_ideal == pytest.approx(one.bubble_over_ideal, rel=1e-6, abs=1e-9)
    assert other.order == one.order


@settings(max_examples=50)
@given(names, worlds)
def test_an_order_that_is_brought_back_runs_alike(name: str, world: dict[str, Any]) -> None:
    one = run_schedule(name, **world)
    world = {
        **world,
        "chunks": one.chunks,
        "micro_batches": one.executed_micro_batches,
        "slices": 1,
    }
    again = sw.schedule(name, order=[line.split() for line in one.order], **world)
    assert again.makespan_s == one.makespan_s
    assert np.array_equal(again.operations.start_s, one.operations.start_s)
    assert np.array_equal(again.in_flight, one.in_flight)
    text = "# a comment\n" + "\n".join(one.order)
    assert sw.schedule(name, order=text, **world).makespan_s == one.makespan_s


@settings(max_examples=50)
@given(names, worlds)
def test_a_timeline_holds_every_operation(name: str, world: dict[str, Any]) -> None:
    answer = run_schedule(name, **world)
    timeline = answer.timeline(flows=True)
    assert timeline.spans == len(answer.operations)
    assert timeline.end_s == answer.makespan_s
    assert len(timeline.rows) == answer.stages
    most = max(span.shade for row in timeline.rows for span in row.spans)
    assert len(timeline.shades) == (most + 1 if most else 0)
    for flow in timeline.flows:
        (row, at), (other, then) = flow.source, flow.target
        assert row != other
        source, target = timeline.rows[row].spans[at], timeline.rows[other].spans[then]
        assert source.end_s <= target.start_s * (1 + 1e-9) + 1e-12


@settings(max_examples=50)
@given(names, st.integers(1, 16))
def test_lists_of_like_times_are_one_time(name: str, seed: int) -> None:
    one = run_schedule(name, hop_s=0.1 * seed)
    count = one.virtual_stages
    lists = {
        "forward_s": [1.0] * count,
        "backward_s": np.ones(count),
        "weight_s": ["1 s"] * count,
        "hidden_s": [0] * count,
        "hop_s": [0.1 * seed] * (count - 1),
        "sizes": np.ones(one.micro_batches * one.slices),
        "micro_batches": one.micro_batches,
    }
    if one.executed_micro_batches == one.micro_batches:
        assert run_schedule(name, **lists).makespan_s == pytest.approx(one.makespan_s)


def test_the_textbook_is_met() -> None:
    answer = sw.schedule("1f1b", **ONE)
    assert answer.makespan_s == 33.0
    assert answer.bubble_over_ideal == pytest.approx(3 / 8)
    assert answer.in_flight.tolist() == [4, 3, 2, 1]
    assert answer.period_s == pytest.approx(3.0)
    assert answer.bound_is_exact
    assert sw.schedule("1f1b", **{**ONE, "forward_s": "1000 ms"}).makespan_s == 33.0
    held = sw.schedule("interleaved", **{**ONE, "cut_stages": True})
    assert held.makespan_s == 28.5
    assert held.activations[0] == held.in_flight[0] / held.chunks
    assert held.timeline().shades == ("chunk 0", "chunk 1")


def test_a_cut_stage_holds_the_same_work_in_every_schedule() -> None:
    for rule in RULES.values():
        asked = {"backward_s": 2.0, "weight_s": None, "cut_stages": True, "whole_backward": True}
        asked |= {"slices": 2}
        answer = run_schedule(rule.name, **asked)
        if answer.gradient != "window":
            wanted = 3.0 * answer.stages * answer.executed_micro_batches / answer.slices
            assert answer.work_s.sum() == pytest.approx(wanted), rule.name


def test_two_ways_through_the_devices_have_shades_of_their_own() -> None:
    order = ["F0@0 F1@1 B1@1 B0@0", "F1@0 F0@1 B0@1 B1@0"]
    answer = sw.schedule(order=order, chunks=1, forward_s=1, backward_s=1)
    timeline = answer.timeline()
    assert answer.copies == 2
    assert answer.name == "own order"
    assert timeline.shades == ("down", "up")
    for row in timeline.rows:
        assert all(span.shade == span.args["micro_batch"] for span in row.spans)


def test_an_answer_goes_into_json_and_into_lines() -> None:
    for name in RULES:
        answer = run_schedule(name, simulate=True)
        told = json.loads(json.dumps(answer.to_dict(operations=True)))
        assert told["makespan_s"] == answer.makespan_s
        assert len(told["operations"]["start_s"]) == len(answer.operations)
        assert len(told["work_s"]) == answer.stages
        lines = answer.lines()
        assert lines[0].startswith(f"{name} (")
        assert len(lines) == 5 + answer.stages


def test_every_rule_says_what_it_is() -> None:
    assert len(RULES) == len(sw.schedules()) >= 3
    for rule in RULES.values():
        assert rule.source
        assert rule.chunks >= 1
        assert run_schedule(rule.name).chunks == rule.chunks


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "1f1c"}, "schedule: unknown name '1f1c'; nearest: 1f1b"),
        ({"name": None}, "name: got nothing"),
        ({"name": 3}, "name: got 3"),
        ({"stages": 0}, "stages: got 0"),
        ({"stages": None}, "stages: got nothing"),
        ({"stages": 2.0}, r"stages: got 2\.0"),
        ({"micro_batches": -1}, "micro_batches: got -1"),
        ({"micro_batches": 2**31}, "micro_batches: got 2147483648; allowed: 1 to"),
        ({"chunks": 2}, "chunks: got 2; allowed: 1"),
        ({"chunks": 0}, "chunks: got 0"),
        ({"window": 0}, "window: got 0"),
        ({"slices": 0}, "slices: got 0"),
        ({"forward_s": float("nan")}, r"forward_s\[0\]: got nan; allowed: a finite number"),
        ({"forward_s": float("inf")}, r"forward_s\[0\]: got inf"),
        ({"backward_s": [1, 1, -1, 1]}, r"backward_s\[2\]: got -1"),
        ({"forward_s": [1, 2, 3]}, "forward_s: got 3 values; allowed: 1 or 4: one per virtual"),
        ({"weight_s": []}, "weight_s: got shape"),
        ({"weight_s": [[1.0] * 4]}, "weight_s: got shape"),
        ({"hidden_s": 1j}, "hidden_s: got 1j"),
        ({"hidden_s": 100.0}, "hidden_s of stage 0: got 100; allowed: at most"),
        ({"hop_s": [0.1] * 4}, "hop_s: got 4 values; allowed: 1 or 3: one per border"),
        ({"forward_s": "2 parsecs"}, "units: s, ms"),
        ({"forward_s": ["1 s", None, 1, 1]}, "forward_s: got None"),
        ({"sends": "blockin"}, "nearest: blocking"),
        ({"sends": 1}, "sends: got 1"),
        ({"sizes": [1.0, 2.0]}, "sizes: got 2 values; allowed: 8: one per micro-batch"),
        ({"sizes": [-1.0] * 8}, r"sizes\[0\]: got"),
        ({"sizes": np.ones((8, 3))}, "sizes: got shape"),
        ({"feedback_s": [1.0, 2.0]}, "feedback_s: got 2 values; allowed: one"),
        ({"simulate": 1}, "simulate: got 1"),
        ({"weight_s": 3.0, "whole_backward": True}, "weight_s of stage 0: got 3; allowed: at most"),
        ({"order": 5}, "order: got 5"),
        ({"order": ["F0", 3, "F0", "F0"]}, "order of device 1: got 3"),
        ({"order": [["F0", None]]}, "order of device 0: got None"),
        ({"order": ["F0"]}, "order: got 1; allowed: 4"),
        ({"order": ["F0 Z1"] * 4}, "order of device 0, place 1: got Z1; allowed: F, B, I, W"),
        ({"order": ["B0 F0", *["F0 B0"] * 3], "micro_batches": 1}, "device 0 stops at its"),
        ({"order": ["F0 B0", *["F0"] * 3], "micro_batches": 1}, "which no device runs"),
    ],
)
def test_wrong_input_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(sw.ScalewrightError, match=said):
        sw.schedule(**{"name": "1f1b", **ONE, **changes})


def test_an_order_alone_says_its_counts() -> None:
    told = sw.schedule(order=[["F0", "B0"], ["F0", "B0"]], forward_s=1, backward_s=1)
    assert (told.stages, told.micro_batches, told.chunks) == (2, 1, 1)
    spread = sw.schedule(order=["F0-3@0 F4@0 B0-4@0"], forward_s=1, backward_s=1)
    assert spread.micro_batches == 5
    assert spread.operations.span.tolist() == [4, 1, 5]


@given(st.text(alphabet="FBIWL0123456789:@&- \n#é", max_size=40))
def test_any_text_is_an_order_or_refused(text: str) -> None:
    refused = ""
    try:
        sw.schedule(order=text, forward_s=1, backward_s=1)
    except sw.ScalewrightError as error:
        refused = str(error)
    assert "internal error" not in refused


def test_mitigations_of_stale_weights_cost_what_they_keep() -> None:
    """Kosson et al. 2021: spike compensation keeps nothing, prediction one copy, stashing all."""
    step = sw.schedule(
        "pipelined-backpropagation", stages=4, micro_batches=16, forward_s=1.0, backward_s=2.0
    )
    assert step.staleness.tolist() == [6, 4, 2, 0]
    assert step.mitigation_copies("spike-compensation").tolist() == [0, 0, 0, 0]
    assert step.mitigation_copies("weight-prediction").tolist() == [1, 1, 1, 0]
    assert step.mitigation_copies("weight-stashing").tolist() == [6, 4, 2, 0]
    with pytest.raises(sw.ScalewrightError, match="nearest: weight-stashing"):
        step.mitigation_copies("weight-stash")
