"""Do the laws of the engine hold through the binding, and does no input get past its checks?"""

import json
import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import TOY_CLUSTER
from scalewright import ScalewrightError
from scalewright._engine import Cluster, Job, Workload, estimate, estimate_many, search
from scalewright.catalog import load_device, load_model, load_system, names

MODELS = {name: Workload(json.dumps(load_model(name))) for name in ["gpt2", "mixtral-8x7b"]}
TRAINING = {"global_batch": 32, "sequence": 1024}
COLUMNS = ["tensor", "pipeline", "data", "micro_batch", "zero", "sequence_parallel"]
SPACE = {"context": [1], "expert": [1], "micro_batch": [1, 2], "interleave": [1], "zero": [0, 1]}
CODES = {
    "schedule": ["gpipe", "1f1b", "interleaved"],
    "recompute": ["none", "selective", "full"],
    "recompute_rest": ["none", "selective", "full"],
    "recompute_experts": ["same", "none", "selective", "full"],
    "axis_order": [
        *("tensor-context-data-pipeline", "tensor-data-context-pipeline"),
        *("tensor-pipeline-context-data", "tensor-pipeline-data-context"),
        *("context-data-tensor-pipeline", "data-context-tensor-pipeline"),
        *("context-data-pipeline-tensor", "data-context-pipeline-tensor"),
        *("pipeline-tensor-context-data", "pipeline-tensor-data-context"),
        *("pipeline-context-data-tensor", "pipeline-data-context-tensor"),
    ],
    "collectives": ["auto", "ring", "bidirectional_ring", "tree"],
}
SLACK = 1 + 1e-9

factors = st.floats(1, 50)
counts = st.integers(0, 6).map(lambda n: 2**n)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def job(model: str, cluster: dict[str, Any], **training: object) -> Job:
    made = Cluster(json.dumps(cluster))
    return Job(MODELS[model], made, json.dumps({**TRAINING, **training}))


def toy(
    memory_gib: float = 80, matrix: float = 100e12, memory_rate: float = 2e12
) -> dict[str, Any]:
    """The toy cluster with other figures."""
    cluster = deepcopy(TOY_CLUSTER)
    tier = cluster["device"]["tiers"][0]
    tier["capacity"], tier["bandwidth"] = f"{memory_gib} GiB", f"{memory_rate} B/s"
    cluster["device"]["matrix"]["bf16"] = f"{matrix} FLOP/s"
    return cluster


def answer(text: str) -> dict[str, Any]:
    """The JSON text as a table; a number that JSON does not know fails."""

    def refuse(constant: str) -> float:
        pytest.fail(f"{constant} in {text}")

    return json.loads(text, parse_constant=refuse)


def attempt(call: Callable[[], Any]) -> Any:
    """The result, or None where the engine refused the input in plain words."""
    try:
        return call()
    except ScalewrightError as error:
        message = str(error)
    assert len(message) > 20
    assert "internal error" not in message
    return None


def best_time(of: Job) -> float:
    best = answer(search(of, json.dumps(SPACE), '{"top": 1}'))["best"]
    return best[0]["step_time_s"] if best else math.inf


@few
@given(
    st.sampled_from(sorted(MODELS)),
    st.floats(8, 80),
    factors,
    st.sampled_from(["gib", "flop", "byte"]),
)
def test_more_memory_arithmetic_or_bandwidth_never_slows_the_best_plan(
    model: str, memory_gib: float, factor: float, which: str
) -> None:
    grown = {
        "gib": toy(memory_gib * factor),
        "flop": toy(memory_gib, matrix=100e12 * factor),
        "byte": toy(memory_gib, memory_rate=2e12 * factor),
    }
    slow, fast = best_time(job(model, toy(memory_gib))), best_time(job(model, grown[which]))
    assert fast <= slow * SLACK


@few
@given(factors, st.sampled_from([0, 1]))
def test_faster_links_never_slow_the_best_plan(factor: float, level: int) -> None:
    faster = toy()
    link = faster["system"]["levels"][level]
    link["bandwidth"] = f"{float(link['bandwidth'].split()[0]) * factor} GB/s"
    assert best_time(job("gpt2", faster)) <= best_time(job("gpt2", toy())) * SLACK


def coded(name: str, value: int | str) -> int:
    """The integer that stands for a plan field's value in a column."""
    return CODES[name].index(value) if name in CODES else int(value)


@few
@given(st.sampled_from(sorted(MODELS)), st.integers(1, 20), st.sampled_from(["time", "memory"]))
def test_all_calls_agree_to_the_bit(model: str, top: int, objective: str) -> None:
    of = job(model, toy())
    limits = json.dumps({"top": top, "objective": objective})
    best = answer(search(of, json.dumps(SPACE), limits))["best"]
    assert best
    columns = list(best[0]["plan"])
    rows = [[coded(name, found["plan"][name]) for name in columns] for found in best]
    times, peaks, status = estimate_many(of, columns, np.array(rows))
    assert list(times) == [found["step_time_s"] for found in best]
    assert list(peaks) == [found["peak_memory_bytes"] for found in best]
    assert not status.any()
    assert best == [answer(estimate(of, json.dumps(found["plan"])))["estimate"] for found in best]
    ranked = times if objective == "time" else peaks
    assert list(ranked) == sorted(ranked)


@few
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "tensor": counts,
            "context": counts,
            "pipeline": counts,
            "data": counts,
            "expert": counts,
            "expert_tensor": st.integers(0, 9),
            "micro_batch": st.integers(0, 40),
            "interleave": st.integers(0, 9),
            "schedule": st.sampled_from(["gpipe", "1f1b", "interleaved"]),
            "zero": st.integers(0, 4),
            "zero_group": st.integers(0, 9),
            "recompute": st.sampled_from(["none", "selective", "full"]),
            "sequence_parallel": st.booleans(),
            "overlap_pipeline": st.booleans(),
        },
    ),
    st.sampled_from(sorted(MODELS)),
)
def test_random_plans_are_priced_in_numbers(plan: dict[str, object], model: str) -> None:
    got = answer(estimate(job(model, toy()), json.dumps(plan)))
    assert ("estimate" in got) != ("illegal" in got)
    if "estimate" in got:
        assert got["estimate"]["step_time_s"] > 0
        assert got["estimate"]["peak_memory_bytes"] > 0


@few
@given(
    st.dictionaries(
        st.sampled_from(["global_batch", "sequence", "run_tokens", "precision", "optimizer", "x"]),
        st.integers(1, 2**33) | st.sampled_from(["fp8", "sgd", "fp32", 1e300]) | anything,
    )
)
def test_random_training_is_priced_or_refused(training: dict[str, object]) -> None:
    plan = json.dumps({"data": 8, "tensor": 4, "pipeline": 2, "zero": 1})
    got = attempt(lambda: answer(estimate(job("gpt2", toy(), **training), plan)))
    assert got is None or ("estimate" in got) != ("illegal" in got)


@few
@given(
    st.dictionaries(
        st.sampled_from(
            ["tensor", "pipeline", "zero", "schedule", "recompute", "overlap_tensor", "x"]
        ),
        st.lists(st.integers(0, 5) | st.sampled_from(["1f1b", "full"]), max_size=3) | anything,
    )
)
def test_random_spaces_are_searched_or_refused(space: dict[str, object]) -> None:
    text = json.dumps({**SPACE, **space})
    got = attempt(lambda: answer(search(job("gpt2", toy()), text, "{}")))
    if got is not None:
        counted = got["plans_priced"] + got["plans_excluded_by_bound"] + got["plans_not_fitting"]
        assert counted == got["plans_legal"]


@few
@given(
    st.lists(st.sampled_from([*COLUMNS, "schedule", "recompute"]) | st.text(), max_size=5),
    st.integers(1, 4),
    st.data(),
)
def test_random_columns_are_priced_or_refused(
    columns: list[str], rows: int, data: st.DataObject
) -> None:
    row = st.lists(st.integers(-1, 70), min_size=len(columns), max_size=len(columns))
    table = data.draw(st.lists(row, min_size=rows, max_size=rows))
    array = np.array(table, dtype=np.int64).reshape(rows, len(columns))
    got = attempt(lambda: estimate_many(job("gpt2", toy()), columns, array))
    if got is not None:
        times, peaks, status = got
        assert not np.isnan(times).any()
        assert not np.isnan(peaks).any()
        assert np.array_equal(np.isinf(times), status == 2)


@few
@given(
    st.sampled_from(names("model")), st.sampled_from(names("system")), st.sampled_from([1, 8, 64])
)
def test_any_model_on_any_system_is_planned_or_refused(
    model: str, system: str, devices: int
) -> None:
    table = load_system(system)
    device = load_device(str(table["device"]))
    cluster = json.dumps({"devices": devices, "system": table, "device": device})
    space = {"context": [1], "micro_batch": [1], "interleave": [1], "zero": [0, 3]}

    def plan() -> dict[str, Any]:
        of = Job(Workload(json.dumps(load_model(model))), Cluster(cluster), json.dumps(TRAINING))
        return answer(search(of, json.dumps(space), '{"top": 2}'))

    got = attempt(plan)
    if got is not None:
        assert all(found["fits"] for found in got["best"])
        assert got["best"] or got["nearest"] or got["rejected"]
