"""Placing tensors over memory tiers: laws on real plans and on tiers of a user's own."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewright as sw
from scalewright.cli import main

GB = 1e9
JOB = ["--devices", "2", "--global-batch", "16", "--sequence", "2048"]


@pytest.fixture(scope="module")
def small() -> tuple[sw.Model, sw.System, sw.Training]:
    return (
        sw.model("gpt3-13b"),
        sw.system("dgx-a100-80gb", 8),
        sw.Training(global_batch=64, sequence=2048),
    )


@pytest.mark.parametrize(
    "plan",
    [
        "tensor=8",
        "tensor=2,pipeline=4",
        "tensor=2,pipeline=4,interleave=2",
        "tensor=1,data=8,zero=3,recompute=full",
        "pipeline=8,schedule=zb-h1",
    ],
)
def test_a_plan_that_fits_takes_no_longer_than_its_estimate(
    small: tuple[sw.Model, sw.System, sw.Training], plan: str
) -> None:
    model, system, training = small
    priced = sw.estimate(model, system, plan, training)
    placed = sw.place(model, system, plan, training)
    assert priced.fits
    assert placed.step_time_s == pytest.approx(priced.step_time_s, rel=1e-9)
    assert placed.relative_gap < 1e-6


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_states_take_the_bytes_of_the_published_accounting(zero: int) -> None:
    # Rajbhandari et al. 2020, table 1, with gradients in fp32: 2 + 4 + 12 bytes a parameter
    model, system = sw.model("gpt3-13b"), sw.system("dgx-a100-80gb", 8)
    training = sw.Training(global_batch=8, sequence=2048)
    placed = sw.place(model, system, f"data=8,zero={zero}", training)
    held: dict[str, float] = {}
    for tensor in placed.values["problem"]["tensors"]:
        held[tensor["class"]] = held.get(tensor["class"], 0.0) + tensor["bytes"]
    count = model.parameters()["padded_total"]
    weights = held["weights"] + held["embeddings"]
    shards = [8 if zero >= stage else 1 for stage in (3, 2, 1)]
    assert weights == pytest.approx(2 * count / shards[0], rel=1e-3)
    assert held["gradients"] == pytest.approx(4 * count / shards[1], rel=1e-3)
    assert held["optimizer"] == pytest.approx(12 * count / shards[2], rel=1e-3)
    kinds = dict(placed.values["optimizer_bytes"])
    assert kinds["master weights"] == pytest.approx(kinds["first moment"])
    assert sum(kinds.values()) == pytest.approx(held["optimizer"])


def test_activations_follow_the_published_formula() -> None:
    # Korthikanti et al. 2022, equation 1: s b h (34 + 5 a s / h) bytes a layer
    model, system = sw.model("gpt3-13b"), sw.system("dgx-a100-80gb", 1)
    training = sw.Training(
        global_batch=1, sequence=2048, precision="fp16", flash_attention=False, dropout=True
    )
    placed = sw.place(model, system, {}, training)
    layers, hidden, heads = (int(model.table[name]) for name in ("layers", "hidden", "heads"))  # pyright: ignore[reportArgumentType]
    formula = 2048 * hidden * (34 + 5 * heads * 2048 / hidden)
    sizes = [
        tensor["bytes"]
        for tensor in placed.values["problem"]["tensors"]
        if tensor["class"] == "activations"
    ]
    inner = sorted(sizes)[len(sizes) // 2]
    assert len(sizes) >= layers
    assert inner == pytest.approx(formula, rel=0.02)


def test_the_peak_is_that_of_the_live_set(small: tuple[sw.Model, sw.System, sw.Training]) -> None:
    model, system, training = small
    for plan in (
        "tensor=2,pipeline=4",
        "data=8,zero=3,recompute=full",
        "pipeline=8,schedule=gpipe",
    ):
        live = sw.place(model, system, plan, training).values["live"]
        by_instant = [sum(line) for line in zip(*live["bytes_by_instant"].values(), strict=True)]
        assert live["peak_bytes"] == pytest.approx(max(by_instant))
        assert live["peak_bytes"] <= live["sum_of_peaks_bytes"] * (1 + 1e-12)
        whole = sw.estimate(model, system, plan, training).peak_memory_bytes
        assert live["peak_bytes"] == pytest.approx(whole, rel=0.05)


def test_more_near_memory_is_worth_its_shadow_price() -> None:
    model, training = sw.model("gpt3-13b"), sw.Training(global_batch=16, sequence=2048)
    system = sw.system("dgx-a100-80gb", 2)
    before = sw.place(model, system, "tensor=2", training)
    margin = 0.001
    less = sw.place(model, system, "tensor=2", training, memory_margin=margin)
    worth = next(t for t in before.placed["tiers"] if t["name"] == "hbm")
    lost = margin * 80 * 2**30 * worth["value_per_byte"]
    assert worth["value_per_byte"] > 0.0
    # the step is convex in the size of a tier: a loss costs at least the price
    assert less.objective - before.objective >= lost * (1 - 1e-6)


def _tiers(hbm: float, ddr: float, link: float) -> list[dict[str, Any]]:
    return [
        {"name": "hbm", "kind": "hbm", "capacity": hbm * GB, "bandwidth": "2 TB/s"},
        {
            "name": "ddr",
            "kind": "ddr",
            "capacity": ddr * GB,
            "bandwidth": link * GB,
        },
    ]


def _tensors(sizes: list[float]) -> list[dict[str, Any]]:
    return [
        {
            "name": f"t{index}",
            "class": "weights",
            "bytes": size * GB,
            "uses": [{"at": 0, "read_bytes": size * GB}],
        }
        for index, size in enumerate(sizes)
    ]


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.floats(0.1, 4.0), min_size=1, max_size=6),
    hbm=st.floats(5.0, 20.0),
    link=st.floats(1.0, 50.0),
)
def test_a_step_is_as_long_as_the_link_takes_for_what_is_too_much(
    sizes: list[float], hbm: float, link: float
) -> None:
    # one window without compute: a far tensor streams through a buffer of its size, so every way
    # to split has the same bytes near: x near and the rest streamed means all of them are there
    windows = [{"compute_s": 0.01}]
    found = sw.place_tensors(_tensors(sizes), windows, tiers=_tiers(hbm, 100.0, link))
    if sum(sizes) > hbm * (1 + 1e-9):
        assert not found.feasible
        assert found.missing[0]["missing_bytes"] == pytest.approx((sum(sizes) - hbm) * GB, rel=1e-6)
    else:
        assert found.step_time_s == pytest.approx(max(0.01, sum(sizes) / 2000.0), rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.floats(0.5, 4.0), min_size=2, max_size=6),
    scale=st.floats(0.01, 100.0),
)
def test_scaling_bytes_and_rates_together_changes_nothing(sizes: list[float], scale: float) -> None:
    windows = [{"compute_s": 0.05, "instants": len(sizes)}]

    def of(by: float) -> sw.Placement:
        tensors = [
            {
                "name": f"t{index}",
                "class": "weights",
                "bytes": size * by * GB,
                "uses": [{"at": index, "read_bytes": size * by * GB}],
            }
            for index, size in enumerate(sizes)
        ]
        tiers = _tiers(8.5 * by, 100.0 * by, 25.0 * by)
        tiers[0]["bandwidth"] = 2000.0 * by * GB
        return sw.place_tensors(tensors, windows, tiers=tiers)

    assert of(scale).step_time_s == pytest.approx(of(1.0).step_time_s, rel=1e-6)


def test_whole_tensors_cost_at_least_what_split_ones_do() -> None:
    model, training = sw.model("gpt3-13b"), sw.Training(global_batch=16, sequence=2048)
    system = sw.system("dgx-a100-80gb", 2)
    split = sw.place(model, system, "tensor=2", training)
    whole = sw.place(model, system, "tensor=2", training, whole=True)
    assert whole.objective >= split.objective * (1 - 1e-6)
    assert whole.relative_gap <= 0.01
    for tensor in whole.placed["tensors"]:
        assert max(tensor["shares"]) == pytest.approx(1.0)


def test_a_search_that_finds_nothing_that_fits_puts_tensors_into_other_tiers() -> None:
    model, training = sw.model("gpt3-13b"), sw.Training(global_batch=8, sequence=2048)
    fix = {"micro_batch": 1, "zero": [0, 3], "recompute": "full"}
    one = sw.system("dgx-a100-80gb", 1)
    found = sw.search(model, one, training, fix=fix, top=1)
    never = sw.search(model, one, training, fix=fix, top=1, offload="never")
    assert found.values["plans_priced"] == 0
    assert not never.feasible
    assert found.values["plans_that_fit_with_offload"] > 0
    best = found[0]
    placed = sw.place(model, one, best.plan, training)
    assert best.step_time_s == pytest.approx(placed.step_time_s, rel=1e-6)
    assert best.fits
    assert best.values["offloaded"]["away"]
    held = next(tier for tier in placed.placed["tiers"] if tier["name"] == "hbm")
    assert best.values["offloaded"]["device_bytes"] == pytest.approx(held["peak_bytes"], rel=1e-6)
    assert held["peak_bytes"] <= best.values["memory_capacity_bytes"] * (1 + 1e-9)


def test_flash_wears_out_by_the_step_with_its_transfers() -> None:
    model, system = sw.model("gpt3-175b"), sw.system("dgx-2", 16)
    training = sw.Training(global_batch=16, sequence=1024, precision="fp16")
    placed = sw.place(model, system, "data=16,zero=3,recompute=full", training)
    flash = next(t for t in placed.placed["tiers"] if t["name"] == "nvme")
    of = sw.memories(system)["places"]
    endurance = next(p["tier"]["endurance"] for p in of if p["tier"]["name"] == "nvme")
    steps = 31_557_600 / placed.step_time_s
    years = endurance * flash["capacity_bytes"] / flash["written_bytes"] / steps
    assert flash["lifetime_years"] == pytest.approx(years, rel=1e-9)
    assert placed.step_time_s > 5 * placed.placed["transfer_free_s"]


def test_of_equal_placements_the_nearest_is_taken() -> None:
    model, system = sw.model("llama2-7b"), sw.system("dgx-a100-80gb", 8)
    training = sw.Training(global_batch=64, sequence=4096)
    placed = sw.place(model, system, "data=8,zero=1", training)
    near = sw.place(model, system, "data=8,zero=1", training, tiers=["hbm"])
    assert placed.step_time_s == pytest.approx(near.step_time_s, rel=1e-9)
    assert placed.placed["memory_energy_j"] == pytest.approx(
        near.placed["memory_energy_j"], rel=1e-6
    )
    assert placed.relative_gap < 1e-8
    assert all(t["written_bytes"] < 1.0 for t in placed.placed["tiers"] if t["name"] != "hbm")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"behind": "nowhere"}, "unknown name 'nowhere'"),
        ({"behind": "ddr"}, "got a circle (ddr behind ddr)"),
        ({"bandwidth": 0}, "tiers.ddr.bandwidth: got 0"),
        ({"bandwidht": "1 GB/s"}, "nearest: bandwidth"),
        ({"technology": "hbm9"}, "unknown name 'hbm9'"),
        ({"name": "hbm"}, "each name of a tier or path once"),
        ({"endurance": -1.0}, "endurance"),
    ],
)
def test_tiers_that_make_no_sense_are_named(change: dict[str, Any], told: str) -> None:
    tiers = _tiers(5.0, 50.0, 10.0)
    tiers[1] |= change
    with pytest.raises(sw.ScalewrightError) as error:
        sw.place_tensors(_tensors([1.0]), [{"compute_s": 0.1}], tiers=tiers)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bytes": -1.0}, "tensor 't0'.bytes: got -1"),
        ({"uses": [{"at": 3}]}, "tensor 't0'.uses.at: got 3"),
        ({"tiers": ["ssd"]}, "unknown name 'ssd'"),
        ({"from": 1}, "tensor 't0'.from, to"),
        ({"class": "wieghts"}, "nearest: weights"),
    ],
)
def test_tensors_that_make_no_sense_are_named(change: dict[str, Any], told: str) -> None:
    tensors = _tensors([1.0])
    tensors[0] |= change
    with pytest.raises(sw.ScalewrightError) as error:
        sw.place_tensors(tensors, [{"compute_s": 0.1}], tiers=_tiers(5.0, 50.0, 10.0))
    assert told in str(error.value)


def test_endurance_that_is_exceeded_is_said_with_what_would_do() -> None:
    tensor = {
        "name": "cache",
        "class": "kv_cache",
        "bytes": 10 * GB,
        "whole": True,
        "uses": [{"at": 0, "written_bytes": 10 * GB}],
        "tiers": ["mrm"],
    }
    tiers: list[dict[str, Any]] = [
        {"name": "hbm", "kind": "hbm", "capacity": "80 GB", "bandwidth": "2 TB/s"},
        {
            "name": "mrm",
            "kind": "mrm",
            "capacity": "20 GB",
            "bandwidth": "1 TB/s",
            "endurance": 1e5,
        },
    ]
    found = sw.place_tensors([tensor], [{"compute_s": 1.0}], tiers=tiers, years=5.0)
    assert not found.feasible
    assert found.missing[0]["what"] == "endurance of mrm, bytes a step"
    assert re.search(r"endurance of mrm: [\d.]+ GiB a step too many are written", found.lacks())
    tiers[1]["endurance"] = 1e9
    found = sw.place_tensors([tensor], [{"compute_s": 1.0}], tiers=tiers, years=5.0)
    assert found.placed["tiers"][1]["lifetime_years"] > 5.0


def test_the_verb_prints_a_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    job = ["place", "gpt3-13b", "dgx-a100-80gb", *JOB, "--tensor", "2"]
    assert main(job) == 0
    table = capsys.readouterr().out
    for part in ("proven to be at least", "wears out in", "ZeRO-Offload", "for each GB"):
        assert part in table
    assert main([*job, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["placed"]["relative_gap"] < 1e-6
    large = ["place", "gpt3-175b", "dgx-a100-80gb", *JOB, "--tensor", "2"]
    assert main([*large, "--tier", "hbm", "--tier", "ddr"]) == 3
    assert re.search(r"it lacks at least: .* GiB at instant \d+", capsys.readouterr().out)
    worn = ["place", "llama3-8b", "dgx-h100", "--devices", "8", "--global-batch", "8"]
    assert main([*worn, "--sequence", "4096", "--years", "5"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"all model states in nvme .* no: wears out, [\d.]+ GiB a step too", table)
    assert re.search(r"everything in hbm .* no: [\d.]+ GiB missing", table)
    assert main(["place", "gpt3-13b", *JOB]) == 2


def test_the_picture_is_drawn_in_the_units_of_the_tables(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "memory.svg"
    job = ["place", "gpt3-13b", "dgx-a100-80gb", *JOB, "--tensor", "2"]
    assert main([*job, "--picture", str(path)]) == 0
    drawn = path.read_text()
    assert "activations" in drawn
    assert "80 GiB hold" in drawn  # as in the tables
    assert main([*job, "--picture", str(tmp_path / "memory.txt")]) == 2
    assert "allowed" in capsys.readouterr().err
