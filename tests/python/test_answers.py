"""Do answers leave as JSON in one way: stamped, one name for one idea, units in names?"""

import inspect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scalewright as sw
from scalewright.cli import main
from scalewright.planning.stamp import SCHEMA_VERSION

MODEL, SYSTEM = sw.model("gpt2"), sw.system("dgx-h100", devices=8)
TRAINING = sw.Training(global_batch=16, sequence=1024)
TIER = {"name": "hbm", "kind": "hbm", "capacity": "2 GB", "bandwidth": "1 TB/s"}
TENSOR = {"name": "w", "class": "weights", "bytes": 1e9, "uses": [{"at": 0, "read_bytes": 1e9}]}
BLOCK = {"forward_s": 1.0, "backward_s": 2.0, "input_bytes": 1e9, "kept_bytes": 2e9}
LEVEL = {"name": "a", "capacity_bytes": 1e9, "bytes_per_s": 1e12}
PROMPT = {"parameters": 1e9, "input_tokens": 128}
SHAPES: dict[str, Any] = {"layers": 24, "experts": 16, "top_k": 2, "hidden": 64, "ffn": 128}
PARTS = {
    *("BlockChoices", "BusyLanes", "Crossover", "Decision", "FilledMemory", "FilledTier", "Flow"),
    *("FreezingEpoch", "Gating", "Line", "MemoryLevel", "Model", "BlockPass", "Operations"),
    *("PartitionStage", "Policy", "Recomputation", "Row", "ScheduleRule", "SlicedPart", "Span"),
    *("SwarmStage", "System", "TierUse", "Timeline"),
}
"""Classes that are parts of answers, or what is asked."""
OLD = {
    *("gap", "step_s", "first_step_s", "estimated_s", "outcome", "by_use", "energy_j", "tasks"),
    *("median_with_sign", "rate", "resident", "matmul", "host_attention"),
}
"""Names that other ones, or ones with a unit, have taken the place of."""


def _embedding(system: sw.System) -> sw.EmbeddingCache:
    shape: dict[str, Any] = {"parameters": 1e9, "width": 64, "lookups_per_sample": 1}
    return sw.embedding_cache(system, samples=8, exponent=1.0, **shape)


def _neurons() -> sw.NeuronCache:
    one = sw.system("dgx-h100", devices=1)
    return sw.neuron_cache(one, layers=32, ffn_parameters=1e9, other_parameters=1e9)


ANSWERS: dict[str, Callable[[], Any]] = {
    "estimate": lambda: sw.estimate(MODEL, SYSTEM, "tensor=2", TRAINING),
    "estimate_many": lambda: sw.estimate_many(MODEL, SYSTEM, {"tensor": [2, 3]}, TRAINING),
    "search": lambda: sw.search(MODEL, SYSTEM, TRAINING, top=2),
    "compare": lambda: sw.compare(MODEL, SYSTEM, ("tensor=2", "tensor=4"), TRAINING),
    "why_not": lambda: sw.why_not(MODEL, SYSTEM, "tensor=4", TRAINING),
    "sensitivity": lambda: sw.sensitivity(MODEL, SYSTEM, TRAINING, "tensor=2"),
    "robust": lambda: sw.robust(MODEL, SYSTEM, TRAINING, samples=8, pool=5),
    "codesign": lambda: sw.codesign(
        MODEL, SYSTEM, TRAINING, constants={"device.memory.capacity": [0.5, "80 GiB"]}, top=1
    ),
    "search_unlike": lambda: sw.search_unlike(MODEL, ["dgx-h100:8"], TRAINING, top=1),
    "simulate_step": lambda: sw.simulate_step(MODEL, SYSTEM, "tensor=2", TRAINING),
    "slice_times": lambda: sw.slice_times(MODEL, SYSTEM, "tensor=2", TRAINING, [(512, 0)]),
    "place": lambda: sw.place(MODEL, SYSTEM, "tensor=2", TRAINING),
    "place_tensors": lambda: sw.place_tensors([TENSOR], [{"compute_s": 1}], tiers=[TIER]),
    "offload": lambda: sw.offload("zero-offload", MODEL, SYSTEM, TRAINING),
    "largest_model": lambda: sw.largest_model("zero-offload", MODEL, SYSTEM, TRAINING),
    "rematerialise": lambda: sw.rematerialise([BLOCK] * 3, 1e10),
    "rematerialise_stage": lambda: sw.rematerialise_stage(MODEL, SYSTEM, "tensor=2", TRAINING),
    "serving_blocks": lambda: sw.serving_blocks("opt-30b", "gcp-t4", prompt=512, generated=32),
    "collective": lambda: sw.collective("all_reduce", [0, 1e6], SYSTEM),
    "collectives": lambda: sw.collective("all_reduce", [1e6], SYSTEM, [[2], [4]]),
    "collective_on_links": lambda: sw.collective_on_links("all_reduce", 1e6, [[0, 1e9], [1e9, 0]]),
    "simulate_collective": lambda: sw.simulate_collective(
        "all_reduce", 1e6, SYSTEM, algorithm="ring"
    ),
    "uneven_all_to_all": lambda: sw.uneven_all_to_all([[1, 2], [3, 4]], SYSTEM),
    "compressed_all_reduce": lambda: sw.compressed_all_reduce("fp8", 1e6, SYSTEM),
    "schedule": lambda: sw.schedule(
        "1f1b", stages=2, micro_batches=2, forward_s=1, backward_s=2, simulate=True
    ),
    "controllers": lambda: sw.controllers([1], hosts=1)[0],
    "partition": lambda: sw.partition([1, 2], [1, 2], 1, devices=2),
    "token_slices": lambda: sw.token_slices([[1.0]], 2),
    "swarm": lambda: sw.swarm([[1]], 1, 10.0),
    "layer_relay": lambda: sw.layer_relay([1, 1], [1, 1], 1),
    "progressive_freezing": lambda: sw.progressive_freezing(
        [1] * 8, [2] * 8, 1e6, [0], devices_per_node=4, samples=100, batch=10
    ),
    "retained": lambda: sw.retained(86_400),
    "cache_hits": lambda: sw.cache_hits(10, 1.0, objects=100),
    "simulate_cache": lambda: sw.simulate_cache([0, 1, 0], 1),
    "cache_time": lambda: sw.cache_time([LEVEL], 1.0, object_bytes=1, accesses=1, objects=10),
    "model_switching": lambda: sw.model_switching(SYSTEM, 10, PROMPT),
    "embedding_cache": lambda: _embedding(SYSTEM),
    "expert_buffering": lambda: sw.expert_buffering(SYSTEM, tokens=64, capacity=1.0, **SHAPES),
    "neuron_cache": _neurons,
    "assign": lambda: sw.assign([2], [1, 2], [[1], [1]], limits=[1]),
}


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_stamped_json_in_the_names_of_all(name: str) -> None:
    told = ANSWERS[name]().to_dict()
    read = json.loads(json.dumps(told, allow_nan=False))
    assert read["schema_version"] == SCHEMA_VERSION
    assert {"engine_version", "catalog_hash"} <= set(read)
    assert set(keys(read)) & OLD == set()


def test_every_public_answer_leaves_as_json() -> None:
    public = {name: getattr(sw, name) for name in sw.__all__}
    without = {
        name
        for name, one in public.items()
        if inspect.isclass(one) and is_dataclass(one) and not hasattr(one, "to_dict")
    }
    assert without <= PARTS


def test_what_an_answer_rests_on_is_that_of_its_system(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('kind = "device"\nbase = "h100-sxm"\nlaunch_overhead = "9 us"\n')
    own = sw.system("dgx-h100", 8, overrides=[file])
    first, second = (
        sw.collective("all_reduce", [1e6], system).to_dict() for system in (SYSTEM, own)
    )
    assert first["catalog_hash"] != second["catalog_hash"]
    assert second["overridden_constants"] == ["device.launch_overhead"]
    assert _embedding(own).to_dict()["catalog_hash"] == second["catalog_hash"]


def test_a_number_of_numpy_is_one() -> None:
    found = sw.estimate(MODEL, SYSTEM, "tensor=2", TRAINING, memory_margin=np.float32(0.1))
    assert json.loads(json.dumps(found.to_dict()))["job"]["memory_margin"] == pytest.approx(0.1)
    size = np.float32(2**20)
    ring = sw.simulate_collective("all_reduce", float(size), SYSTEM, algorithm="ring")
    assert sw.simulate_collective("all_reduce", size, SYSTEM, algorithm="ring") == ring  # pyright: ignore[reportArgumentType]
    (one,) = sw.controllers([1], hosts=1, input_s=np.float32(2), names=("single_parallel",))  # pyright: ignore[reportArgumentType]
    assert one.step_time_s == pytest.approx(2)
    with pytest.raises(sw.InvalidError, match=r"buffer_bytes: got .1e6"):
        sw.compressed_all_reduce("fp8", "1e6", SYSTEM)  # pyright: ignore[reportArgumentType]
    with pytest.raises(sw.InvalidError, match=r"memory_margin: got .0\.1"):
        sw.estimate(MODEL, SYSTEM, "tensor=2", TRAINING, memory_margin="0.1")  # pyright: ignore[reportArgumentType]


def test_a_placement_says_what_became_of_it() -> None:
    placed = ANSWERS["place"]().to_dict()
    assert (placed["status"], placed["missing"]) == ("placed", [])
    held = placed["placed"]["memory"][0]
    assert set(held) == {"tier", "class", "bytes_by_instant"}
    assert len(held["bytes_by_instant"]) == sum(w["instants"] for w in placed["problem"]["windows"])
    big = {**TENSOR, "bytes": 4e9}
    lacking = sw.place_tensors([big], [{"compute_s": 1}], tiers=[TIER]).to_dict()
    assert (lacking["status"], lacking["placed"]) == ("impossible", None)
    assert lacking["missing"] == [{"what": "hbm", "instant": 0, "missing_bytes": 2e9}]


def test_a_robust_choice_is_a_plan_and_no_place_in_a_list() -> None:
    found = ANSWERS["robust"]()
    told = found.to_dict()
    assert told["least_worst_regret"] == found.least_worst_regret
    assert told["least_worst_regret"] in told["plans"]
    near = [plan for plan in told["plans"] if plan["always_near"]]
    assert near == found.always_near != []


def test_axes_hold_values_and_labels_show_them() -> None:
    found = ANSWERS["codesign"]()
    (_, systems), (_, devices), (name, steps) = (
        (axis["name"], axis["values"]) for axis in found.to_dict()["axes"]
    )
    assert (systems, devices, name) == (["dgx-h100"], [8], "device.memory.capacity")
    assert steps == [{"factor": 0.5}, {"value": "80 GiB"}]
    assert [labels for _, labels in found.labels()][1:] == [("8",), ("x 0.5", "80 GiB")]


def test_memory_has_one_form() -> None:
    """A table for each place, with bytes by class, their sum and what there is room for."""
    offloaded = ANSWERS["offload"]().to_dict()["tiers"]
    for place in offloaded:
        classes = [
            value
            for key, value in place.items()
            if key.endswith("_bytes") and key not in ("total_bytes", "capacity_bytes")
        ]
        assert len(classes) == 8
        assert sum(classes) == pytest.approx(place["total_bytes"])
    parts = (ANSWERS[name]().to_dict() for name in ("largest_model", "serving_blocks"))
    for place in (*next(parts)["tiers"], *next(parts)["memory"], *offloaded):
        assert {"tier", "total_bytes", "capacity_bytes"} <= set(place)
    for stage in ANSWERS["estimate"]().to_dict()["memory"]:
        assert {"stage", "weights_bytes", "total_bytes"} <= set(stage)


def test_the_page_tells_the_version_and_the_keys_of_every_verb(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    assert f"`schema_version` is {SCHEMA_VERSION}" in page
    rows = re.findall(r"^\| `([a-z-]+)(?: [^`]*)?` \|[^|]*\| ([^|]*) \|", page, re.MULTILINE)
    told = {verb: set(re.findall(r"`(\w+)`", names)) for verb, names in rows}
    job = ["--model", "gpt2", "--system", "dgx-h100", "--devices", "8"]
    job += ["--global-batch", "16", "--sequence", "1024"]
    asked: dict[str, list[str]] = {
        "plan": [*job, "--top", "1"],
        "plan-unlike": [*job[:2], "--group", "dgx-h100:8", *job[6:]],
        "estimate": [*job, "--tensor", "2"],
        "place": [*job, "--tensor", "2"],
        "compare": [*job, "tensor=2", "tensor=4"],
        "why-not": [*job, "tensor=4"],
        "sensitivity": [*job, "tensor=2"],
        "codesign": [*job, "--vary", "device.memory.capacity=0.5,1"],
        "collective": ["all_reduce", "--system", "dgx-h100", "--sizes", "1M"],
        "schedule": ["1f1b", "--stages", "2", "--micro-batches", "2"],
        "rematerialise": [*job, "--tensor", "2"],
        "controller": ["--computation", "10ms", "--hosts", "8"],
        "offload": [*job, "--scheme", "zero-offload"],
        "serve-blocks": ["opt-30b", "gcp-t4"],
    }
    stamp = {
        *("schema_version", "engine_version", "catalog_hash", "overridden_constants"),
        *("calibrated", "calibration_basis", "left_out", "job"),
    }
    for verb, arguments in asked.items():
        assert main([verb, *arguments, "--json"]) == 0
        found = set(json.loads(capsys.readouterr().out)) - stamp
        assert found == told[verb], verb


def test_the_page_tells_every_field_of_memory() -> None:
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    _, _, part = page.partition("## Memory, field by field\n")
    told = set(re.findall(r"`(\w+)`", part.partition("\n## Keys by verb")[0]))
    estimate = ANSWERS["estimate"]().to_dict()
    too_large = sw.estimate(sw.model("gpt3-175b"), SYSTEM, {}, sw.Training(8, 1024)).to_dict()
    placed = ANSWERS["place"]().to_dict()
    tables: list[dict[str, Any]] = [
        *estimate["memory"],
        too_large["shortfall"],
        *ANSWERS["compare"]().to_dict()["memory"],
        *ANSWERS["offload"]().to_dict()["tiers"],
        *ANSWERS["largest_model"]().to_dict()["tiers"],
        *ANSWERS["serving_blocks"]().to_dict()["memory"],
        *placed["placed"]["tiers"],
        *placed["placed"]["memory"],
        placed["live"],
    ]
    alone = sw.system("dgx-a100-80gb", 1)
    beyond = sw.search(sw.model("gpt3-13b"), alone, sw.Training(2, 2048), top=1).best[0]
    away = beyond.values["offloaded"]
    tables += [away, *away["away"]]
    assert {key for table in tables for key in table} - told == set()
    rows = set(re.findall(r"^\| `(\w+)` \|", part.partition("\n`shortfall`")[0], re.MULTILINE))
    assert rows == set(estimate["memory"][0])


def test_fields_of_memory_add_up_as_the_page_tells() -> None:
    """Columns of the page say which classes are in the total."""
    page = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
    summed = re.findall(r"^\| `(\w+)` \|[^|]*\| yes \|", page, re.MULTILINE)
    for stage in ANSWERS["estimate"]().to_dict()["memory"]:
        assert sum(stage[name] for name in summed) == pytest.approx(stage["total_bytes"])


def test_a_plan_that_fits_with_other_tiers_says_what_lies_on_the_device() -> None:
    """`fits` is of the plan with what is away; the peak is what it would take without."""
    alone = sw.system("dgx-a100-80gb", 1)
    model, training = sw.model("gpt3-13b"), sw.Training(2, 2048)
    best = sw.search(model, alone, training, top=1, offload="auto").best[0]
    away = best.values["offloaded"]
    assert best.fits
    assert best.peak_memory_bytes > best.values["memory_capacity_bytes"]
    assert away["device_bytes"] <= best.values["memory_capacity_bytes"] * (1 + 1e-12)
    assert not sw.estimate(model, alone, best.plan, training).fits
    assert not sw.search(model, alone, training, top=1, offload="never").feasible


def test_utilisations_of_an_estimate_differ_by_what_is_computed_again() -> None:
    plain = sw.estimate(MODEL, SYSTEM, "recompute=none", TRAINING)
    again = sw.estimate(MODEL, SYSTEM, "recompute=full", TRAINING)
    assert plain.hfu == pytest.approx(plain.mfu)
    assert again.hfu == again.to_dict()["hfu"] > 1.2 * again.mfu
