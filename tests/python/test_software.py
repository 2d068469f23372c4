"""Does every software profile say its sources, fit the engine, and change only what it names?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from scalewright import catalog
from scalewright._engine import Cluster, Job, Workload, estimate
from scalewright.catalog.layers import built_in_root
from scalewright.catalog.toml_file import leaves, read_table
from scalewright.config import Plan, Training
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.planning import Job as Asked
from scalewright.planning import estimate_job, model, search_job, system
from scalewright.reproductions.conventions import book

UNFUSED_LOSS = [38.0, 14.0]
NAMES = catalog.software_names()
PLAN = {"micro_batch": 2, "data": 8, "recompute": "none"}


def step_seconds(training: dict[str, Any], device: dict[str, Any]) -> float:
    """Price GPT-3 1.3B on eight devices."""
    system = catalog.load_system("dgx-h100") | {"device": device["name"]}
    cluster = Cluster(json.dumps({"system": system, "device": device, "devices": 8}))
    model = json.dumps(catalog.load_model("gpt3-1.3b"))
    job = Job(Workload(model), cluster, json.dumps(training))
    return json.loads(estimate(job, json.dumps(PLAN)))["estimate"]["step_time_s"]


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_names_a_source_for_every_figure(name: str) -> None:
    profile = read_table(built_in_root() / "software" / f"{name}.toml")
    figures = {path.partition(".")[2] for path, _ in leaves(profile.get("software", {}))}
    sources = profile["sources"]
    assert profile["name"] == name
    assert figures <= set(sources)
    for table in ("attention", "training_attention", "overlap", "products", "sustained"):
        assert not profile.get(table) or any(key.startswith(table) for key in sources)
    assert all(len(text) > 20 for text in sources.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_never_makes_a_step_shorter_than_fused_kernels(name: str) -> None:
    device = catalog.load_device("h100-sxm")
    training = {"global_batch": 16, "sequence": 2048}
    changed, own = catalog.with_software(name, training, device)
    assert changed["software"]["name"] == name
    loss = changed["software"].get("vocabulary", {}).get("loss", UNFUSED_LOSS)
    # the default runs the loss in passes of its own, which some programs fuse, and its products add
    # gradients to sums, which some programs do without
    least = loss if sum(loss) < sum(UNFUSED_LOSS) else UNFUSED_LOSS
    plain = changed["software"].get("weights", {}).get("plain_gradients", False)
    weights = {"plain_gradients": plain}
    # the default divides gradients in a pass of its own, which a mean does not take
    if "divided_gradients" in changed["software"].get("weights", {}):
        weights["divided_gradients"] = changed["software"]["weights"]["divided_gradients"]
    fused = {"vocabulary": {"loss": least}, "weights": weights}
    default = {**training, "software": fused}
    assert step_seconds(changed, own) >= step_seconds(default, device) * 0.98


def test_a_profile_leaves_the_job_and_the_device_it_was_given() -> None:
    device = catalog.load_device("h100-sxm")
    before, training = json.dumps(device), {"global_batch": 16, "sequence": 2048}
    _, changed = catalog.with_software("torchtitan-eager", training, device)
    assert json.dumps(device) == before
    assert "software" not in training
    assert changed["attention"] != device["attention"]
    assert changed["communication_units"] > device["communication_units"]
    own = {"attention", "communication_units", "training_attention"}
    assert {k: v for k, v in changed.items() if k not in own} == {
        k: v for k, v in device.items() if k not in own
    }


def test_units_that_kernels_lose_beside_a_collective_are_those_of_named_devices_alone() -> None:
    for name, changes in (("h100-sxm", True), ("a100-sxm-80gb", False)):
        device = catalog.load_device(name)
        _, changed = catalog.with_software("torchtitan-compile", {}, device)
        assert (changed["communication_units"] != device["communication_units"]) is changes


def test_a_slow_library_of_products_lengthens_steps_of_its_formats_on_named_devices_alone() -> None:
    name = "llm-foundry-2023-torch-2.1"
    for device, precision, changes in (
        ("h100-sxm", "bf16", True),
        ("h100-sxm", "fp8", False),
        ("a100-sxm-80gb", "bf16", False),
    ):
        # narrow formats have no share, and their wide products are those of the head alone
        training = {"global_batch": 16, "sequence": 2048, "precision": precision}
        changed, own = catalog.with_software(name, training, catalog.load_device(device))
        assert ("product_share" in own) is (device == "h100-sxm")
        if device != "h100-sxm":
            continue
        without = {key: value for key, value in own.items() if key != "product_share"}
        longer = step_seconds(changed, own) / step_seconds(changed, without)
        assert 1.02 < longer < 1.0 / 0.72 if changes else 1.0 < longer < 1.02


def test_a_site_whose_products_hold_less_takes_longer_on_its_boards_alone() -> None:
    training = {"global_batch": 16, "sequence": 2048, "precision": "bf16"}
    for name, changes in (("b200-sxm", True), ("h100-sxm", False)):
        device = catalog.load_device(name)
        changed, own = catalog.with_software("simumax-b200", training, device)
        assert (own["sustained"] != device["sustained"]) is changes
        assert set(own["sustained"]) == set(device["sustained"])
        longer = step_seconds(changed, own) / step_seconds(changed, device)
        assert 1.05 < longer < 1288 / 1108 if changes else longer == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_bounds_lose_no_plan_whatever_the_program_does(name: str) -> None:
    job = Asked(model("mixtral-8x7b"), system("dgx-h100", 16), Training(16, 2048))
    limits = {"objective": "time", "top": 5, "front": ["time", "memory"], "offload": "never"}
    found = [
        search_job(job.with_software(name), {}, {**limits, "method": method})
        for method in ("bounds", "exhaustive")
    ]
    assert len(found[0].best) == 5
    assert [p.step_time_s for p in found[0].best] == [p.step_time_s for p in found[1].best]


def test_an_unknown_profile_is_refused_with_the_nearest_ones() -> None:
    for wrong, hint in (("torch-titan", "nearest: torchtitan-eager"), ("q", "catalog software")):
        with pytest.raises(UnknownNameError, match=f"software: unknown name '{wrong}'.*{hint}"):
            catalog.with_software(wrong, {}, {"name": "toy"})


def test_a_job_run_by_a_program_costs_what_its_profile_and_device_cost() -> None:
    machines = system("dgx-h100", 8)
    job = Asked(model("gpt3-1.3b"), machines, Training(16, 2048))
    changed = job.with_software("torchtitan-eager")
    given = job.training.to_dict()
    training, own = catalog.with_software("torchtitan-eager", given, machines.device)
    plan = Plan(micro_batch=2, data=8, recompute="none")
    assert estimate_job(changed, plan).step_time_s == step_seconds(training, own)
    assert estimate_job(job, plan).step_time_s < step_seconds(training, own)
    assert json.dumps(changed.to_dict())


def test_a_figure_that_no_program_has_is_refused_by_name() -> None:
    device = catalog.load_device("h100-sxm")
    software = {"layer": {"norm": [2.0, -1.0]}}
    with pytest.raises(InvalidError, match=r"software\.layer\.norm"):
        step_seconds({"global_batch": 16, "sequence": 2048, "software": software}, device)


def test_every_profile_that_a_paper_names_is_in_the_catalog() -> None:
    papers = book()["papers"]
    entries = [*papers, *(run for paper in papers for run in paper.get("runs", ()))]
    entries += read_table(built_in_root() / "programs.toml")["programs"]
    kinds = ("software", "library")
    named = {name for e in entries for key in kinds if key in e for name in e[key].split("+")}
    assert named <= set(NAMES)
    assert named


@pytest.mark.parametrize("software", ["torchtitan-eager", ["torchtitan-eager"], 5])
def test_a_training_refuses_the_name_of_a_profile_and_says_who_takes_it(software: Any) -> None:
    said = r"^training\.software: got .*; allowed: none or a table, as Job\(.*\.with_software\(NAME"
    with pytest.raises(InvalidError, match=said):
        Training(64, 1024, software=software)
