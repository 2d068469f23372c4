"""Do the planning calls agree with each other, refuse bad input plainly and stop when asked?"""

import io
import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import scalewright as sw
from conftest import TOY_CLUSTER
from scalewright import InvalidError, ScalewrightError
from scalewright._engine import Cluster, Job, Workload, estimate, estimate_many, explain, search
from scalewright.catalog import load_model
from scalewright.errors import NoPlanError
from scalewright.report.why_not import show_why_not

TRAINING = {"global_batch": 64, "sequence": 1024}
COLUMNS = ["tensor", "pipeline", "data", "micro_batch", "zero"]
MODEL = Workload(json.dumps(load_model("gpt2")))
CLUSTER = Cluster(json.dumps(TOY_CLUSTER))
JOB = Job(MODEL, CLUSTER, json.dumps(TRAINING))

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
numbers = st.integers(-2, 130) | st.sampled_from([2**31, 2**32 - 1, 2**32, 2**63, 2**64, 0.5])


def many_rows(count: int) -> np.ndarray:
    rows = np.array([[1, 4, 16, 1, 0], [4, 1, 16, 2, 1], [2, 2, 16, 4, 2]])
    return np.tile(rows, (count // 3, 1))


def attempt(call: Any, *arguments: Any) -> str:
    """The result, or the message of the refusal."""
    try:
        return str(call(*arguments))
    except ScalewrightError as error:
        return str(error)


def test_one_plan_and_many_plans_cost_the_same_to_the_bit() -> None:
    rows = many_rows(3)
    times, peaks, status = estimate_many(JOB, COLUMNS, rows)
    assert list(status) == [0, 0, 0]
    for row, time_s, peak_bytes in zip(rows.tolist(), times, peaks, strict=True):
        plan = dict(zip(COLUMNS, row, strict=True))
        one = json.loads(estimate(JOB, json.dumps(plan)))["estimate"]
        assert (one["step_time_s"], one["peak_memory_bytes"]) == (time_s, peak_bytes)


def test_the_best_plan_costs_what_its_estimate_says() -> None:
    best = json.loads(search(JOB, "{}", "{}"))["best"][0]
    again = json.loads(estimate(JOB, json.dumps(best["plan"])))["estimate"]
    assert again == best


def test_an_illegal_plan_names_its_rule() -> None:
    verdict = json.loads(estimate(JOB, json.dumps({"tensor": 5})))
    assert verdict["illegal"]
    assert list(estimate_many(JOB, ["tensor"], np.array([[5]]))[2]) == [2]
    with pytest.raises(ScalewrightError, match="plan: "):
        explain(JOB, json.dumps({"tensor": 5}))


def test_rows_need_a_column_each() -> None:
    with pytest.raises(InvalidError, match="rows: got 1 columns"):
        estimate_many(JOB, COLUMNS, np.array([[1]]))


@given(st.dictionaries(st.sampled_from([*COLUMNS, "expert", "schedule", "x"]), numbers | anything))
def test_random_plans_get_a_verdict_or_a_refusal(plan: dict[str, object]) -> None:
    for call in [estimate, explain]:
        assert "internal error" not in attempt(call, JOB, json.dumps(plan))


@given(
    st.lists(
        st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 64), min_size=5, max_size=5),
        min_size=1,
    )
)
def test_random_rows_get_a_status_or_a_refusal(rows: list[list[int]]) -> None:
    assert "internal error" not in attempt(estimate_many, JOB, COLUMNS, np.array(rows))


@given(
    st.dictionaries(
        st.sampled_from(["global_batch", "sequence", "run_tokens", "precision"]), numbers | anything
    )
)
def test_random_training_gives_a_job_or_a_refusal(changes: dict[str, object]) -> None:
    text = json.dumps({**TRAINING, **changes})
    assert "internal error" not in attempt(Job, MODEL, CLUSTER, text)


@given(
    st.dictionaries(
        st.sampled_from([*COLUMNS, "recompute"]), st.lists(numbers, max_size=4) | anything
    ),
    st.dictionaries(st.sampled_from(["top", "objective"]), numbers | anything),
)
def test_random_spaces_are_searched_or_refused(
    space: dict[str, object], limits: dict[str, object]
) -> None:
    answer = attempt(search, JOB, json.dumps(space), json.dumps(limits))
    assert "internal error" not in answer


def test_a_search_returns_a_bounded_number_of_plans() -> None:
    with pytest.raises(InvalidError, match=r"top: got 1000000; allowed: 1 to 1000"):
        search(JOB, "{}", json.dumps({"top": 1_000_000}))


def test_ten_threads_find_what_one_finds() -> None:
    alone = search(JOB, "{}", "{}")
    with ThreadPoolExecutor(10) as pool:
        together = list(pool.map(lambda _: search(JOB, "{}", "{}"), range(20)))
    assert set(together) == {alone}


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_a_long_call_midway() -> None:
    rows = many_rows(6_000_000)
    seen: list[tuple[int, int]] = []

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.1, interrupt)

    def progress(done: int, total: int) -> None:
        if not seen:
            timer.start()  # the call is under way
        seen.append((done, total))

    with pytest.raises(KeyboardInterrupt):
        estimate_many(JOB, COLUMNS, rows, progress=progress)
    timer.join()
    assert seen[-1][0] < seen[-1][1] == len(rows)


def test_numbers_of_numpy_count_as_python_s_own() -> None:
    model, machines = sw.model("gpt2"), sw.system("dgx-h100", 8)
    plain = sw.Training(global_batch=64, sequence=512, run_tokens=1e9)
    training = sw.Training(np.int64(64), np.uint16(512), run_tokens=np.float32(1e9))
    assert training == plain
    assert type(training.sequence) is int
    told = sw.estimate(model, machines, {"tensor": 2, "micro_batch": 4}, plain)
    for plan in (
        {"tensor": np.int32(2), "micro_batch": np.uint8(4)},
        sw.Plan(tensor=np.int64(2), data=np.int64(4), micro_batch=np.int16(4)),
    ):
        assert sw.estimate(model, machines, plan, training).to_dict() == told.to_dict()
    found = sw.search(model, machines, training, fix={"tensor": np.array([1, 2])}, top=1)
    fixed = sw.search(model, machines, plain, fix={"tensor": [np.int8(1), 2]}, top=1)
    assert found.best[0].values == fixed.best[0].values
    fields = {**model.table, "layers": np.int64(6)}
    assert sw.model(fields).parameters()["total"] < model.parameters()["total"]
    with pytest.raises(sw.InvalidError, match=r"training\.run_tokens: got nan; allowed: a finite"):
        sw.estimate(model, machines, "tensor=2", sw.Training(64, 512, run_tokens=np.float32("nan")))
    with pytest.raises(sw.InvalidError, match="training: cannot be written as JSON"):
        sw.estimate(model, machines, "tensor=2", sw.Training(np.array([64]), 512))


def test_a_rank_of_a_search_that_found_nothing_is_refused_in_a_line() -> None:
    found = sw.search(
        sw.model("gpt2"), sw.system("dgx-h100", 8), sw.Training(1, 128), fix={"data": 3}
    )
    assert list(found) == []
    with pytest.raises(sw.ScalewrightError, match="rank: got 0; allowed: none, no plan runs"):
        found[0]


def test_a_search_that_was_stopped_says_so_and_not_that_nothing_fits() -> None:
    model, system = sw.model("gpt2"), sw.system("dgx-a100-80gb", 8)
    found = sw.search(model, system, sw.Training(global_batch=64, sequence=1024))
    values = {**found.values, "best": [], "front": [], "stopped": True, "proven": False}
    stopped = replace(found, values=values)
    with pytest.raises(NoPlanError, match="stopped before"):
        _ = stopped[0]
    told = sw.why_not(model, system, found.best[0].plan, found.job.training)
    pieces = io.StringIO()
    show_why_not(replace(told, search=stopped), Console(file=pieces, width=200))
    assert "was stopped" in pieces.getvalue()
    assert "Infeasible" not in pieces.getvalue()


@given(goodput=st.floats(0.01, 1.0))
def test_a_run_lasts_longer_by_what_no_step_takes(goodput: float) -> None:
    system = sw.system("dgx-h100", 8)

    def run(share: float) -> dict[str, Any]:
        training = sw.Training(64, 512, run_tokens=1e9, goodput=share)
        priced = sw.estimate(sw.model("llama2-7b"), system, "tensor=2,micro_batch=1", training)
        return priced.values

    whole, part = run(1.0), run(goodput)
    for name in ("run_time_s", "run_energy_j", "run_cost_usd"):
        assert part[name] == pytest.approx(whole[name] / goodput)
    assert part["step_time_s"] == whole["step_time_s"]
    assert part["run_steps"] == whole["run_steps"]


@pytest.mark.parametrize("goodput", [0.0, -0.5, 1.5, float("nan"), float("inf")])
def test_a_share_of_a_run_is_above_0_and_up_to_1(goodput: float) -> None:
    training = sw.Training(64, 512, run_tokens=1e9, goodput=goodput)
    with pytest.raises(
        sw.InvalidError, match=r"training\.goodput: got .*; allowed: a (share|finite)"
    ):
        sw.estimate(sw.model("llama2-7b"), sw.system("dgx-h100", 8), "tensor=2", training)
