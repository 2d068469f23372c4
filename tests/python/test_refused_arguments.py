"""Is an argument of a wrong kind refused in one line that names it, by every call of the API?"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalewright as sw

MODEL: Any = sw.model("llama2-7b")
SYSTEM: Any = sw.system("dgx-h100", 16)
ONE: Any = sw.system("dgx-h100", 1)
TRAINING: Any = sw.Training(64, 4096)
PLAN = "tensor=2"
JOB = (MODEL, SYSTEM, PLAN, TRAINING)
WEIGHTS: Any = {"name": "w", "class": "weights", "bytes": 1e9}
WINDOWS: Any = [{"compute_s": 1.0}]
HBM: Any = {"name": "hbm", "kind": "hbm", "capacity": "2 GB", "bandwidth": "1 TB/s"}
LEVELS: Any = [{"name": "a", "capacity_bytes": 10, "bytes_per_s": 1}]

Call = Callable[..., object]
CALLS: dict[str, Call] = {
    "search": lambda **of: sw.search(MODEL, SYSTEM, TRAINING, **of),
    "place": lambda **of: sw.place(*JOB, **of),
    "place_tensors": lambda **of: sw.place_tensors(
        **{"tensors": [WEIGHTS], "windows": WINDOWS, "tiers": [HBM], **of}
    ),
    "memories": lambda **of: sw.memories(**of),
    "cache_time": lambda **of: sw.cache_time(
        **{"levels": LEVELS, "popularity": 1.0, "objects": 1, **of}, object_bytes=1, accesses=1
    ),
    "slice_times": lambda **of: sw.slice_times(*JOB, **of),
    "estimate_many": lambda **of: sw.estimate_many(MODEL, SYSTEM, of.pop("columns"), TRAINING),
    "kernel_times": lambda **of: sw.kernel_times(
        {"kernel": "matmul", "a": "bf16", "b": "bf16", "output": "bf16"}, "h100-sxm", **of
    ),
    "assign": lambda **of: sw.assign([2], [1.0, 2.0], [[], []], **of),
    "controllers": lambda **of: sw.controllers([1], hosts=1, **of),
    "controller": lambda **of: sw.controller("multi_controller", [1], hosts=1, **of),
    "serving_blocks": lambda **of: sw.serving_blocks("opt-30b", "gcp-t4", **of),
    "schedule": lambda **of: sw.schedule(
        "1f1b", stages=2, micro_batches=2, **{"forward_s": 1, "backward_s": 2, **of}
    ),
    "collective": lambda **of: sw.collective("all_reduce", system=SYSTEM, **of),
    "swarm_utilization": lambda **of: sw.swarm_utilization(**of),
    "expert_buffering": lambda **of: sw.expert_buffering(
        ONE, layers=2, experts=8, top_k=1, hidden=64, ffn=64, tokens=8, capacity=1.0, **of
    ),
}

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("memories", {"system": "dgx-h100"}, "system: got 'dgx-h100'"),
    ("memories", {"system": None}, "system: got None"),
    ("search", {"front": None}, "front: got None"),
    ("search", {"front": 5}, "front: got 5"),
    ("search", {"front": "time"}, "front: got 'time'"),
    ("place", {"tiers": 5}, "tiers: got 5"),
    ("place", {"tiers": "hbm"}, "tiers: got 'hbm'"),
    ("place", {"tiers": [5]}, "tiers: got 5"),
    ("place_tensors", {"tensors": 5}, "tensors: got 5"),
    ("place_tensors", {"tensors": [5]}, "tensors[0]: got 5"),
    ("place_tensors", {"tensors": [{5: 1}]}, "tensors[0]: a name: got 5"),
    ("place_tensors", {"tensors": [WEIGHTS, WEIGHTS]}, "tensors[1].name: got 'w' twice"),
    ("place_tensors", {"windows": 5}, "windows: got 5"),
    ("place_tensors", {"windows": [5]}, "windows[0]: got 5"),
    ("place_tensors", {"tiers": 5}, "tiers: got 5"),
    ("place_tensors", {"tiers": [5]}, "tiers[0]: got 5"),
    ("place_tensors", {"fixed": 5}, "fixed: got 5"),
    ("place_tensors", {"paths": 5}, "paths: got 5"),
    ("place_tensors", {"system": "x", "tiers": ()}, "system: got 'x'"),
    ("place_tensors", {"node_devices": 0}, "node_devices: got 0"),
    ("place_tensors", {"node_devices": True}, "node_devices: got True"),
    ("cache_time", {"levels": 5}, "levels: got 5"),
    ("cache_time", {"levels": None}, "levels: got None"),
    ("cache_time", {"levels": [5]}, "levels[0]: got 5"),
    ("slice_times", {"slices": 5}, "slices: got 5"),
    ("slice_times", {"slices": None}, "slices: got None"),
    ("slice_times", {"slices": [(1,)]}, "slices[0]: got (1,)"),
    ("slice_times", {"slices": [(1, 2, 3)]}, "slices[0]: got (1, 2, 3)"),
    ("slice_times", {"slices": [(1, "x")]}, "slices[0]: got 'x'"),
    ("estimate_many", {"columns": {"tensor": [[2]]}}, "columns.tensor: got shape (1, 1)"),
    ("estimate_many", {"columns": {"tensor": [True]}}, "columns.tensor: got [True]"),
    ("estimate_many", {"columns": {"tensor": [1, 2], "pipeline": [1, 2, 4]}}, "pipeline with 3"),
    ("estimate_many", {"columns": {"tensor": [], "pipeline": [1, 2]}}, "columns.tensor: got []"),
    ("estimate_many", {"columns": {}}, "columns: got none"),
    ("kernel_times", {"shapes": {5: 1}}, "shapes: a name: got 5"),
    ("kernel_times", {"shapes": {"m": True, "n": 1, "k": 1}}, "shapes.m: got True"),
    ("assign", {"whole": "x"}, "whole: got 'x'"),
    ("assign", {"whole": None}, "whole: got None"),
    ("assign", {"whole": 0.5}, "whole: got 0.5"),
    ("assign", {"whole": [True, False]}, "whole: got shape (2,)"),
    ("controllers", {"input_s": None}, "input_s: got None"),
    ("controller", {"input_s": {}}, "input_s: got {}"),
    ("controller", {"hots": 2}, "unknown name 'hots'"),
    ("serving_blocks", {}, "prompt: got nothing"),
    ("serving_blocks", {"prompt": 512}, "generated: got nothing"),
    ("serving_blocks", {"prompt": 512, "generated": 32, "promt": 1}, "'promt'; nearest: prompt"),
    ("schedule", {"forward_s": None}, "forward_s: got None"),
    ("schedule", {"forward_s": True}, "forward_s: got True"),
    ("schedule", {"backward_s": [1.0, None]}, "backward_s: got None"),
    ("collective", {"buffer_bytes": None}, "buffer_bytes: got None"),
    ("collective", {"buffer_bytes": True}, "buffer_bytes: got True"),
    ("collective", {"buffer_bytes": np.array([True])}, "buffer_bytes: got array([ True])"),
    ("collective", {"buffer_bytes": np.array([None, 1.0])}, "buffer_bytes: got None"),
    ("collective", {"buffer_bytes": 1e6, "ranks": [2, True]}, "ranks: got True"),
    ("swarm_utilization", {"compute_s": "1", "transfer_bytes": 1}, "compute_s: got '1'"),
    ("swarm_utilization", {"compute_s": 1, "transfer_bytes": True}, "transfer_bytes: got True"),
    ("expert_buffering", {"products": 1}, "products: got 1; allowed: 2, or 3"),
    ("expert_buffering", {"products": 4}, "products: got 4; allowed: 2, or 3"),
    ("expert_buffering", {"buffered": 0}, "buffered: got 0"),
    ("expert_buffering", {"buffered": 9}, "buffered: got 9; allowed: 1 to 8"),
]


@pytest.mark.parametrize(("call", "arguments", "message"), WRONG)
def test_an_argument_of_a_wrong_kind_is_named(
    call: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(sw.ScalewrightError) as error:
        CALLS[call](**arguments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda progress: sw.search(MODEL, SYSTEM, TRAINING, progress=progress),
        lambda progress: sw.place(*JOB, progress=progress),
        lambda progress: sw.place_tensors([WEIGHTS], WINDOWS, tiers=[HBM], progress=progress),
        lambda progress: sw.simulate_step(*JOB, progress=progress),
        lambda progress: sw.why_not(*JOB, progress=progress),
        lambda progress: sw.sensitivity(MODEL, SYSTEM, TRAINING, PLAN, progress=progress),
        lambda progress: sw.robust(MODEL, SYSTEM, TRAINING, progress=progress),
        lambda progress: sw.codesign(MODEL, SYSTEM, TRAINING, devices=[8], progress=progress),
        lambda progress: sw.search_unlike(MODEL, ["dgx-h100:8"], TRAINING, progress=progress),
        lambda progress: sw.estimate_many(
            MODEL, SYSTEM, {"tensor": 2}, TRAINING, progress=progress
        ),
        lambda progress: sw.collective("all_reduce", 1e6, SYSTEM, progress=progress),
        lambda progress: sw.swarm([[1.0]], 1, 10.0, progress=progress),
        lambda progress: sw.assign([1], [1.0], [[]], progress=progress),
        lambda progress: sw.cache_hits(1, 1.0, objects=2, progress=progress),
        lambda progress: sw.simulate_cache([0, 1], 1, progress=progress),
        lambda progress: sw.lru_curve([0, 1], progress=progress),
    ],
)
def test_a_callback_that_cannot_be_called_is_refused(call: Callable[[Any], object]) -> None:
    with pytest.raises(sw.InvalidError, match="progress: got 5; allowed: a function"):
        call(5)
    call(lambda _done, _all: None)


NO_NUMBERS = st.one_of(st.none(), st.booleans(), st.text(max_size=3), st.dates())


@given(wrong=NO_NUMBERS, before=st.lists(st.floats(0, 1), max_size=3))
def test_what_is_no_number_is_none_among_numbers_either(wrong: object, before: list[float]) -> None:
    mixed: Any = [*before, wrong]
    with pytest.raises(sw.InvalidError, match="buffer_bytes: got"):
        sw.collective("all_reduce", mixed, SYSTEM)


@pytest.mark.parametrize("margin", ["0.1", True, np.True_, None, [0.1], 10**400, 0.1j])
def test_a_margin_that_is_no_number_is_refused(margin: Any) -> None:
    with pytest.raises(sw.InvalidError, match="memory_margin: got"):
        sw.estimate(*JOB, memory_margin=margin)


@pytest.mark.parametrize("margin", [np.float32(0.25), np.float64(0.25), np.array(0.25), 0.25])
def test_a_margin_of_numpy_is_written_as_a_number(margin: Any) -> None:
    answer = sw.estimate(*JOB, memory_margin=margin).to_dict()
    job: Any = answer["job"]
    assert job["memory_margin"] == 0.25
    json.dumps(answer)


@given(
    tensor=st.sampled_from([1, 2, 4, 8, 16, 64, 2**32 - 1]),
    pipeline=st.sampled_from([1, 2, 4, 8, 2**32 - 1]),
    context=st.sampled_from([1, 2]),
)
def test_many_plans_use_all_devices_as_one_does(tensor: int, pipeline: int, context: int) -> None:
    shape = {"tensor": tensor, "pipeline": pipeline, "context": context}
    many = sw.estimate_many(MODEL, SYSTEM, shape, TRAINING)
    try:
        one = sw.estimate(MODEL, SYSTEM, shape, TRAINING)
    except sw.ScalewrightError:
        assert not many.legal[0]
    else:
        assert many.legal[0]
        assert many.step_time_s[0] == one.step_time_s


def test_a_single_number_stands_for_all_and_flags_may_be_truth_values() -> None:
    columns: Any = {"tensor": [2, 4, 8], "pipeline": 1, "sequence_parallel": [True]}
    many = sw.estimate_many(MODEL, SYSTEM, columns, TRAINING)
    assert many.legal.tolist() == [True] * 3


def test_the_length_of_an_axis_is_limited_before_its_values_are_compared() -> None:
    values: Any = {"device.memory.capacity": range(10**12)}
    with pytest.raises(sw.InvalidError, match="got more than 1000000 values; allowed: 1000000"):
        sw.codesign(MODEL, SYSTEM, TRAINING, constants=values)
    with pytest.raises(sw.InvalidError, match="devices: got more than 1000000"):
        sw.codesign(MODEL, SYSTEM, TRAINING, devices=range(1, 10**7))
    values = {"device.memory.capacity": [0.5, 1.0]}
    with pytest.raises(sw.InvalidError, match="got 1999998 variants; allowed: 1 to 1000000"):
        sw.codesign(MODEL, SYSTEM, TRAINING, devices=range(1, 10**6), constants=values)
