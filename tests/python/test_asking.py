"""Does the Python face agree with itself, and does it refuse what it cannot use?"""

import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalewright as sw
from scalewright import InvalidError
from scalewright.config import FIELDS

README = Path(__file__).parents[2] / "README.md"
MODEL = sw.model("gpt2")
SYSTEM = sw.system("dgx-a100-80gb", devices=16)
TRAINING = sw.Training(global_batch=64, sequence=1024)


def test_the_search_s_best_is_the_best_of_many() -> None:
    fix = {"tensor": [1, 2, 4], "context": 1, "schedule": "1f1b", "recompute": "none"}
    found = sw.search(
        MODEL,
        SYSTEM,
        TRAINING,
        fix={**fix, "sequence_parallel": False, "zero": [0, 1]},
        method="exhaustive",
    )
    axes = np.array(
        [
            (tensor, pipeline, micro_batch, zero)
            for tensor in (1, 2, 4)
            for pipeline in (1, 2, 4, 8, 16)
            for micro_batch in (1, 2, 4, 8, 16, 32, 64)
            for zero in (0, 1)
            if tensor * pipeline <= 16
        ]
    ).T
    tensor, pipeline, micro_batch, zero = axes
    columns = {"tensor": tensor, "pipeline": pipeline, "data": 16 // (tensor * pipeline)}
    columns |= {"micro_batch": micro_batch, "zero": zero}
    prices = sw.estimate_many(MODEL, SYSTEM, columns, TRAINING)
    assert found[0].step_time_s == prices.step_time_s[prices.fits].min()
    assert found.values["plans_feasible"] == prices.fits.sum()


def test_an_estimate_is_one_of_many() -> None:
    one = sw.estimate(MODEL, SYSTEM, {"tensor": 2, "zero": 1}, TRAINING)
    many = sw.estimate_many(MODEL, SYSTEM, {"tensor": 2, "data": 8, "zero": [1, 2]}, TRAINING)
    assert many.step_time_s[0] == one.step_time_s
    assert many.peak_memory_bytes[0] == one.peak_memory_bytes
    assert many.legal.all()


def test_columns_leave_open_what_an_estimate_completes() -> None:
    shape = {"tensor": 2, "pipeline": 4}
    chunked = sw.estimate_many(MODEL, SYSTEM, {**shape, "interleave": [1, 3]}, TRAINING)
    for step_time_s, chunks in zip(chunked.step_time_s, (1, 3), strict=True):
        one = sw.estimate(MODEL, SYSTEM, {**shape, "interleave": chunks}, TRAINING)
        assert step_time_s == one.step_time_s
    rules = sw.schedules()
    columns = {**shape, "schedule": list(range(len(rules)))}
    many = sw.estimate_many(MODEL, SYSTEM, columns, TRAINING)
    assert many.legal.sum() > 8
    for rule, legal, step_time_s in zip(rules, many.legal, many.step_time_s, strict=True):
        plan = {**shape, "schedule": rule.name}
        if legal:
            assert sw.estimate(MODEL, SYSTEM, plan, TRAINING).step_time_s == step_time_s, rule
        else:
            with pytest.raises(sw.ScalewrightError):
                sw.estimate(MODEL, SYSTEM, plan, TRAINING)


@pytest.mark.parametrize("field", ["axis_order", "collectives", "schedule"])
def test_numbers_in_columns_stand_for_the_names_that_a_refusal_lists(field: str) -> None:
    shape = {"tensor": 2, "pipeline": 2, "data": 4}
    with pytest.raises(InvalidError) as refused:
        sw.estimate_many(MODEL, SYSTEM, {**shape, field: 99}, TRAINING)
    names = dict(re.findall(r"(\d+) \(([^)]+)\)", str(refused.value)))
    assert len(names) >= 12
    numbers = np.array([int(number) for number in names])
    for interleave in (1, 2):
        plain = {**shape, "interleave": interleave, "overlap_pipeline": 0}
        many = sw.estimate_many(MODEL, SYSTEM, {**plain, field: numbers}, TRAINING)
        assert not many.legal.all() or field == "axis_order"
        for legal, step_time_s, name in zip(
            many.legal, many.step_time_s, names.values(), strict=True
        ):
            plan = {**plain, "overlap_pipeline": False, field: name}
            if legal:
                assert sw.estimate(MODEL, SYSTEM, plan, TRAINING).step_time_s == step_time_s
            else:
                with pytest.raises(InvalidError):
                    sw.estimate(MODEL, SYSTEM, plan, TRAINING)


def test_an_order_says_who_is_near_whom() -> None:
    of = {"tensor": 4, "pipeline": 4, "data": 1}
    inside = sw.estimate(MODEL, SYSTEM, of, TRAINING)
    outside = {**of, "axis_order": "pipeline-tensor-context-data"}
    assert sw.estimate(MODEL, SYSTEM, outside, TRAINING).step_time_s > inside.step_time_s
    ends = sw.estimate(MODEL, SYSTEM, "pipeline=4,first_layers=2,last_layers=4", TRAINING)
    assert (ends.plan.first_layers, ends.plan.last_layers) == (2, 4)
    with pytest.raises(InvalidError, match="first_layers = 2, last_layers = 3 leave 7 of layers"):
        sw.estimate(MODEL, SYSTEM, "pipeline=4,first_layers=2,last_layers=3", TRAINING)
    with pytest.raises(InvalidError, match="collectives = direct on 16 replicas needs a group"):
        sw.estimate(MODEL, SYSTEM, "collectives=direct", TRAINING)


def test_what_follows_from_other_fields_may_be_left_out() -> None:
    short = sw.estimate(MODEL, SYSTEM, "pipeline=4,interleave=3", TRAINING)
    assert short.plan.data == 4
    assert short.plan.schedule == "interleaved"
    assert short.plan.overlap_pipeline
    assert sw.estimate(MODEL, SYSTEM, short.plan, TRAINING).to_dict() == short.to_dict()


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved", "breadth-first"])
def test_sends_are_hidden_where_the_schedule_can_however_a_plan_is_written(schedule: str) -> None:
    fields = {"pipeline": 4, "data": 4, "schedule": schedule}
    if schedule != "1f1b":
        fields["interleave"] = 3
    names = [rule.name for rule in sw.schedules()]
    columns = {**fields, "schedule": names.index(schedule)}
    text = ",".join(f"{name}={value}" for name, value in fields.items())
    written = [text, fields, sw.Plan(**fields), {**fields, "overlap_pipeline": None}]
    times = {sw.estimate(MODEL, SYSTEM, plan, TRAINING).step_time_s for plan in written}
    assert times == {float(sw.estimate_many(MODEL, SYSTEM, columns, TRAINING).step_time_s[0])}


def test_answers_are_frozen_and_go_back_and_forth() -> None:
    best = sw.search(MODEL, SYSTEM, TRAINING, top=2)
    assert len(best) == 2
    assert isinstance(best[0], sw.Estimate)
    with pytest.raises(FrozenInstanceError):
        best[0].plan.tensor = 3  # type: ignore[misc]
    assert sw.Plan(**best[0].plan.to_dict()) == best[0].plan
    both = sw.compare(MODEL, SYSTEM, (best[0].plan, best[1].plan), TRAINING)
    assert sum(term["difference_s"] for term in both.terms()) == pytest.approx(
        best[1].step_time_s - best[0].step_time_s
    )
    assert both.plan_differences()
    assert best.to_dict()["schema_version"] == 2


def test_more_memory_margin_leaves_fewer_plans() -> None:
    counts = [
        sw.search(MODEL, SYSTEM, TRAINING, memory_margin=margin, method="exhaustive").values[
            "plans_feasible"
        ]
        for margin in (0.0, 0.5, 0.9)
    ]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_an_objective_is_what_the_best_has_least_of() -> None:
    by_time, by_memory = (
        sw.search(MODEL, SYSTEM, TRAINING, objective=objective)[0]
        for objective in ("time", "memory")
    )
    assert by_time.step_time_s < by_memory.step_time_s
    assert by_memory.peak_memory_bytes < by_time.peak_memory_bytes


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    sw.search(MODEL, SYSTEM, TRAINING, progress=lambda done, total: seen.append((done, total)))
    done, total = seen[-1]
    assert done == total > 0


def test_a_collective_takes_arrays() -> None:
    times = sw.collective("all_reduce", np.logspace(3, 9, 5), SYSTEM).time_s
    assert times.shape == (5,)
    assert np.all(np.diff(times) > 0)
    assert sw.collective("all_gather", 1e6, SYSTEM, ranks=8).time_s > 0


def test_a_named_algorithm_is_never_faster_than_the_best_that_the_library_has() -> None:
    sizes = np.logspace(3, 9, 7)
    best, ring, doubling = (
        sw.collective("all_reduce", sizes, SYSTEM, ranks=8, algorithms=names).time_s
        for names in (None, "ring", "recursive_doubling")
    )
    assert np.all(ring >= best * (1 - 1e-12))
    assert doubling[-1] > ring[-1], "doubling sends the whole buffer in each of its rounds"


@pytest.mark.parametrize("name", ["broadcast", "reduce", "gather", "scatter", "barrier"])
def test_rooted_collectives_take_time(name: str) -> None:
    assert sw.collective(name, 1e6, SYSTEM, ranks=8).time_s > 0


def test_an_algorithm_that_cannot_run_is_refused_with_a_near_name_or_a_reason() -> None:
    with pytest.raises(sw.ScalewrightError, match="ring"):
        sw.collective("all_reduce", 1e6, SYSTEM, ranks=8, algorithms="rinng")
    with pytest.raises(sw.ScalewrightError, match="bruck"):
        sw.collective("all_reduce", 1e6, SYSTEM, ranks=8, algorithms="bruck")


def test_a_model_may_be_a_table() -> None:
    assert sw.model(MODEL.table).parameters() == MODEL.parameters()
    with pytest.raises(sw.ScalewrightError, match="model"):
        sw.model({"name": "nothing"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"precision": "bf17"}, "bf17"),
        ({"global_batch": 0}, "training.global_batch: got 0"),
        ({"sequence": -1}, "training.sequence"),
        ({"run_tokens": float("nan")}, "training"),
        ({"flash_attention": "yes"}, "training.flash_attention"),
    ],
)
def test_a_wrong_training_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(sw.ScalewrightError, match=message):
        sw.search(MODEL, SYSTEM, replace(TRAINING, **change))


@pytest.mark.parametrize(
    "plan", [{"tensors": 2}, "tensor=2,tensr=4", {"plan": 3}, {"tensor": [1]}, {"zero": 7}, "x=1"]
)
def test_a_wrong_plan_is_refused(plan: Any) -> None:
    with pytest.raises(sw.ScalewrightError):
        sw.estimate(MODEL, SYSTEM, plan, TRAINING)


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
)


@given(
    fields=st.dictionaries(st.sampled_from(sorted(FIELDS)) | st.text(max_size=8), anything),
    margin=st.floats() | st.integers(),
    top=st.integers(-2, 4),
)
def test_no_values_end_in_anything_but_an_answer_or_a_refusal(
    fields: dict[str, Any], margin: float, top: int
) -> None:
    questions: list[Any] = [
        lambda: sw.estimate(MODEL, SYSTEM, fields, TRAINING, memory_margin=margin),
        lambda: sw.search(MODEL, SYSTEM, TRAINING, fix=fields, top=top, memory_margin=margin),
        lambda: sw.estimate_many(MODEL, SYSTEM, fields, TRAINING),
    ]
    for question in questions:
        try:
            question()
        except sw.ScalewrightError as error:
            refused = str(error)
        else:
            continue
        assert "internal error" not in refused


@pytest.mark.parametrize("devices", [0, -1, 2**40, 1.5, "8", None])
def test_a_wrong_number_of_devices_is_refused(devices: Any) -> None:
    with pytest.raises(sw.ScalewrightError, match="devices"):
        sw.system("dgx-a100-80gb", devices)


def test_the_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})
    shown = capsys.readouterr().out
    assert shown


def test_muon_holds_less_than_adam_and_computes_more() -> None:
    plan = sw.Plan(data=8, zero=1, recompute="full")
    model, machines = sw.model("gpt3-6.7b"), sw.system("dgx-h100", 8)
    kinds = [sw.Training(64, 2048, optimizer=kind) for kind in ("adam", "muon")]
    adam, muon = (sw.estimate(model, machines, plan, kind) for kind in kinds)
    held = [found.values["memory"][0]["optimizer_bytes"] for found in (adam, muon)]
    assert held[1] < held[0]
    assert muon.step_time_s > adam.step_time_s
    host = sw.Plan(data=8, zero=1, recompute="full", offload_optimizer=True)
    with pytest.raises(InvalidError, match="optimizer = muon"):
        sw.estimate(model, machines, host, kinds[1])


def test_a_job_runs_one_program() -> None:
    job = sw.Job(MODEL, SYSTEM, TRAINING)
    ran = job.with_software("eager-llama")
    with pytest.raises(
        InvalidError, match=r"got liger on a job of eager-llama; allowed: .*\+liger"
    ):
        ran.with_software("liger")


def test_waits_for_launches_draw_no_more_than_idle_power() -> None:
    plan = "tensor=4,data=4,zero=1"
    slow = {"host": {"host_time": "1 ms"}}
    jobs = [
        sw.Training(global_batch=64, sequence=512, software=software) for software in (None, slow)
    ]
    machines = sw.system("dgx-h100", 16)
    quick, waiting = (sw.estimate(MODEL, machines, plan, job).to_dict() for job in jobs)
    longer = waiting["step_time_s"] - quick["step_time_s"]
    assert longer > 0.5 * waiting["step_time_s"]
    system, power = machines.table, machines.device["power"]
    watts = [float(text.split()[0]) for text in (power["idle"], system["node_overhead_power"])]
    idle = (16 * watts[0] + 2 * watts[1]) * system.get("power_usage_effectiveness", 1.1)
    more = waiting["energy_j_per_step"] - quick["energy_j_per_step"]
    assert more == pytest.approx(idle * longer, rel=1e-3)
