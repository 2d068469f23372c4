"""Is a simulated step the witness of its estimate, and does its timeline hold every task?"""

import json
from pathlib import Path

import numpy as np
import pytest

import scalewright as sw
from scalewright import cli
from scalewright.export.trace import trace

PLAN = "tensor=8,pipeline=4,zero=1,sequence_parallel=true"


@pytest.fixture(scope="module")
def step() -> sw.SimulatedStep:
    model = sw.model("gpt3-13b")
    system = sw.system("dgx-a100-80gb", devices=64)
    return sw.simulate_step(model, system, PLAN, sw.Training(global_batch=32, sequence=2048))


def test_the_simulation_bears_out_the_estimate(step: sw.SimulatedStep) -> None:
    assert abs(step.relative_gap) < 0.05
    assert step.simulated_step_time_s == pytest.approx(float(step.end_s.max()))
    assert step.stands_for * 4 == 64


def test_no_resource_is_busy_for_longer_than_the_step(step: sw.SimulatedStep) -> None:
    busy = step.busy_s()
    assert {name for _, name in busy} >= {"compute", "nvswitch"}
    assert all(0.0 < seconds <= step.simulated_step_time_s for seconds in busy.values())


def test_the_timeline_holds_every_task_once(step: sw.SimulatedStep) -> None:
    timeline = step.timeline()
    assert timeline.spans == step.start_s.size
    events = trace(timeline)["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == step.start_s.size


def test_the_picture_shows_each_pass_of_each_micro_batch(step: sw.SimulatedStep) -> None:
    rows = step.operations().rows
    assert [row.device for row in rows] == [f"stage {stage}" for stage in range(4)]
    micro_batches = int(step.micro_batch.max()) + 1
    for row in rows:
        for kind in ("forward", "backward"):
            labels = [span.label for span in row.spans if span.category == kind]
            assert labels == [str(number) for number in range(micro_batches)]


@pytest.mark.parametrize(
    "schedule", ["gpipe", "breadth-first", "zb-h1", "zb-h2", "zb-v", "chimera", "dualpipe"]
)
def test_plans_run_any_schedule_that_backpropagates(schedule: str) -> None:
    model = sw.model("gpt3-13b")
    system = sw.system("dgx-a100-80gb", devices=64)
    training = sw.Training(global_batch=128, sequence=2048)
    plan = f"tensor=8,pipeline=4,sequence_parallel=true,schedule={schedule}"
    priced = sw.estimate(model, system, plan, training)
    plain = sw.estimate(model, system, "tensor=8,pipeline=4,sequence_parallel=true", training)
    assert 0.7 < priced.step_time_s / plain.step_time_s < 1.3
    step = sw.simulate_step(model, system, plan, training)
    # zero-bubble steps run into one another, the simulation shows one from start to end
    assert abs(step.relative_gap) < 0.15
    terms = sum(term["time_s"] for term in priced.values["time"])
    assert terms == pytest.approx(priced.step_time_s, rel=0.02)


def test_a_head_is_kept_for_all_micro_batches_that_go_forward_first() -> None:
    model = sw.model("gpt3-13b")
    system = sw.system("dgx-a100-80gb", devices=64)
    training = sw.Training(global_batch=128, sequence=2048)
    plan = "tensor=8,pipeline=4,sequence_parallel=true,schedule="
    plans = [f"{plan}{name}" for name in ("gpipe", "breadth-first")]
    gpipe, breadth = (sw.estimate(model, system, each, training).values for each in plans)
    last = [values["memory"][-1]["activations_bytes"] for values in (gpipe, breadth)]
    assert last[1] == pytest.approx(last[0], rel=0.02)


def test_a_schedule_that_does_not_backpropagate_is_refused_for_plans() -> None:
    model = sw.model("gpt3-13b")
    system = sw.system("dgx-a100-80gb", devices=64)
    training = sw.Training(global_batch=32, sequence=2048)
    with pytest.raises(sw.ScalewrightError, match="backpropagation"):
        sw.estimate(model, system, "pipeline=4,schedule=direct-feedback", training)
    with pytest.raises(sw.ScalewrightError, match="nearest: zb-h1"):
        sw.estimate(model, system, "pipeline=4,schedule=zb-h11", training)


def test_the_command_writes_trace_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace_file, picture = tmp_path / "step.json", tmp_path / "step.svg"
    job = "--model gpt3-13b --system dgx-a100-80gb --devices 64 --global-batch 32 --sequence 2048"
    outputs = ["--timeline", str(trace_file), "--picture", str(picture)]
    code = cli.main(["estimate", *job.split(), "--plan", PLAN, *outputs, "--json"])
    assert code == 0
    found = json.loads(capsys.readouterr().out)["simulated_step"]
    assert np.isclose(
        found["estimated_step_time_s"] / found["simulated_step_time_s"] - 1.0, found["relative_gap"]
    )
    events = json.loads(trace_file.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == found["task_count"]
    assert "<svg" in picture.read_text()
