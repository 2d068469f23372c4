"""Do grids of hardware reach the engine as asked, and do their answers read back as they should?"""

import json
from pathlib import Path
from typing import Any

import pytest

import scalewright as sw
from scalewright.cli import main
from scalewright.planning import FATES, MEASURES

MODEL = sw.model("gpt2")
SYSTEM = sw.system("dgx-a100-80gb", 16)
TRAINING = sw.Training(global_batch=64, sequence=1024)
JOB = [
    *("codesign", "--model", "gpt2", "--system", "dgx-a100-80gb", "--devices", "16"),
    *("--global-batch", "64", "--sequence", "1024"),
]
ROOM = "device.memory.capacity"
RATE = "device.memory.bandwidth"
MANY = [1 + step / 1000 for step in range(1001)]


def found(**more: Any) -> sw.Codesign:
    given: dict[str, Any] = {"constants": {RATE: [1, 2]}, "devices": [8, 16], **more}
    return sw.codesign(MODEL, SYSTEM, TRAINING, **given)


def test_a_variant_of_the_catalog_has_the_plan_that_a_search_finds() -> None:
    everywhere = found(systems=["dgx-h100"], top=100)
    plain = [v for v in everywhere.best if all(c["factor"] == 1 for c in v["constants"])]
    assert len(plain) == 4
    for variant in plain:
        machines = sw.system(variant["system"], variant["devices"])
        best = sw.search(MODEL, machines, TRAINING, top=1, offload="never").best[0]
        assert best.plan == sw.Plan(**variant["plan"])
        assert best.step_time_s == variant["step_time_s"]
        assert best.values["cost_usd_per_step"] == variant["cost_usd_per_step"]
        assert best.tokens_per_s == pytest.approx(variant["tokens_per_s"], rel=1e-12)


def test_columns_hold_every_variant_in_the_order_of_the_axes() -> None:
    grid = found(constants={ROOM: ["80 GiB", "20 GiB"], RATE: [1, 1.5, 2]}, top=100)
    assert [len(labels) for _, labels in grid.axes] == [1, 2, 2, 3]
    times = grid.column("time")
    gib = 2.0**30
    assert times.shape == (1, 2, 2, 3)
    for variant in grid.best:
        assert times.ravel()[variant["index"]] == variant["step_time_s"]
        assert grid.fates[variant["index"]] == FATES.index("planned")
        constants: list[dict[str, Any]] = variant["constants"]
        values = {constant["name"]: float(constant["value"]) for constant in constants}
        wanted = 20.0 if variant["index"] // 3 % 2 else 80.0
        assert abs(values[ROOM] / gib - wanted) < 1e-9
    assert len(grid.best) == int((grid.fates == 0).sum())
    assert grid.measures.shape == (12, len(MEASURES))


def test_prices_of_values_bear_on_budgets_and_dollars() -> None:
    steps = [1, {"factor": 2, "price_usd": 1000.0}, {"factor": 3, "price_factor": 2.0}]
    grid = found(constants={RATE: steps}, devices=[16], top=10)
    capital = dict(zip((1, 2, 3), grid.column("capital").ravel(), strict=True))
    assert capital == {1: 300_000, 2: 316_000, 3: 600_000}
    within = found(constants={RATE: steps}, devices=[16], budget={"capital": "0.4 MUSD"})
    assert within.values["variants_over_budget"] == 1
    assert {v["capital_usd"] for v in within.best} == {300_000, 316_000}


def test_other_chips_stand_in_and_make_their_node_as_much_dearer() -> None:
    grid = found(constants={}, chips=["h100-sxm"], devices=[16], front=["time", "capital"])
    by_device = {variant["device"]: variant for variant in grid.best}
    assert set(by_device) == {"a100-sxm-80gb", "h100-sxm"}
    assert by_device["a100-sxm-80gb"]["capital_usd"] == 2 * 150_000
    assert by_device["h100-sxm"]["capital_usd"] == 2 * (150_000 + 8 * (30_000 - 15_000))
    assert by_device["h100-sxm"]["step_time_s"] < by_device["a100-sxm-80gb"]["step_time_s"]
    assert [v["device"] for v in grid.front] == ["h100-sxm", "a100-sxm-80gb"]


def test_dollars_say_what_they_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    others = ["--chips", "a100-sxm-80gb", "--systems", "p4de"]
    assert main([*JOB, *others, "--top", "2"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    own = "dgx-a100-80gb"
    assert f"dollars of {own}: nodes of 150,000 USD each, written off over 4 years" in told
    assert f"dollars of {own} with a100-sxm-80gb: nodes of 150,000 USD each" in told
    assert "dollars of p4de: rent of " in told
    one, other = found(constants={}, chips=["a100-sxm-80gb"], devices=[16]).best
    assert one["step_time_s"] == other["step_time_s"]
    assert one["capital_usd"] == other["capital_usd"] == 2 * 150_000
    # nobody knows what this board costs in a node
    (bare,) = (
        of for of in found(constants={}, chips=["tpu-v4"], devices=[16]).systems if "tpu" in of.name
    )
    assert "node" not in bare.table["price"]


@pytest.mark.parametrize(
    "name", ["device.matmul.efficiency.bf16", "device.matmul.efficiency", "device.*.efficiency"]
)
def test_a_share_beyond_1_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*JOB, "--vary", f"{name}=1,5"]) == 2
    said = capsys.readouterr().err
    assert f"--vary: {name}: got x 5, with which device.matmul.efficiency." in said
    assert "as a share is at most 1" in said


def test_a_rate_that_lasts_beyond_the_peak_is_refused_as_it_was_typed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*JOB, "--vary", "device.sustained=1.5"]) == 2
    said = "--vary: device.sustained: got x 1.5, with which device.sustained.bf16 would be 1.264;"
    assert said in capsys.readouterr().err


def test_a_share_may_grow_to_1() -> None:
    bf16 = "device.matmul.efficiency.bf16"
    held = {c["name"]: c["value"] for c in sw.constants(SYSTEM)}[bf16]
    full = found(constants={bf16: [1, 1 / held]}, devices=[8])
    assert max(c["value"] for v in full.best for c in v["constants"]) == pytest.approx(1)
    with pytest.raises(sw.InvalidError, match=r"up to 1\.046 times the catalog's 0\.9558"):
        found(constants={bf16: [1.0001 / held]})
    with pytest.raises(sw.InvalidError, match=r"got 1\.2, with which .* would be 1\.2"):
        found(constants={bf16: ["1.2"]})


def test_bounds_and_exhaustive_agree_on_the_best() -> None:
    constants = {RATE: [0.5, 1, 2], "fabric.*.bandwidth": [0.25, 1]}
    one, other = (
        found(constants=constants, method=method, top=2) for method in ("exhaustive", "bounds")
    )
    wanted = [(v["index"], v["plan"]) for v in one.best]
    assert [(v["index"], v["plan"]) for v in other.best] == wanted
    assert other.values["variants_excluded_by_bound"] > 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"constants": {"device.memory.capacty": [1]}}, ["nearest: device.memory.capacity"]),
        ({"constants": {RATE: []}}, [RATE, "none"]),
        ({"constants": {RATE: "2"}}, [RATE, "a list"]),
        ({"constants": {RATE: [True]}}, [RATE, "True"]),
        ({"constants": {RATE: ["2 GB"]}}, ["2 GB", "data rate"]),
        ({"constants": {RATE: [{"factr": 2}]}}, ["factr", "nearest"]),
        ({"constants": {}, "devices": []}, ["nothing that varies"]),
        ({"devices": [8, 8]}, ["8 twice"]),
        ({"devices": "8"}, ["devices", "a list"]),
        ({"constants": {RATE: [1, 2, 1]}}, [RATE, "x 1 twice"]),
        ({"systems": ["dgx-a100-80gb"]}, ["systems", "dgx-a100-80gb", "twice"]),
        ({"budget": {"watt": 1}}, ["watt", "nearest: watts"]),
        ({"budget": {"watts": "1 W"}}, ["budget.watts", "the least of any variant"]),
        ({"budget": {"capital": "5 kg"}}, ["5 kg", "dollars"]),
        ({"systems": ["mi300x-node"], "budget": {"mm2": 1e6}}, ["die_area", "mi300x"]),
        ({"chips": ["h100-sx"]}, ["h100-sx", "nearest: h100-sxm"]),
        ({"front": ["speed"]}, ["speed", "time"]),
        (
            {"devices": list(range(1, 2)), "constants": {RATE: MANY, ROOM: MANY}},
            ["1002001"],
        ),
    ],
)
def test_bad_input_is_refused_by_name(more: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(sw.ScalewrightError) as refused:
        found(**more)
    assert all(word in str(refused.value) for word in words), refused.value


def test_the_verb_prints_tables_and_json_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vary = ["--vary", f"{RATE}=1,2@500,3@x1.1", "--counts", "8,16", "--front", "capital,time"]
    assert main([*JOB, *vary, "--budget", "watts=20kW"]) == 0
    told = capsys.readouterr().out
    for said in ("6 variants", "Front", "stays as in the catalog"):
        assert said in told
    assert main([*JOB, *vary, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {"catalog_hash", "axes", "best", "front", "plans_priced"} <= set(answer)
    assert answer["axes"][1] == {"name": "devices", "values": [8, 16]}
    assert len(answer["best"]) == 5
    pytest.importorskip("matplotlib")
    for name, more in (("map.svg", vary[:4]), ("scatter.svg", vary)):
        assert main([*JOB, *more, "--picture", str(tmp_path / name)]) == 0
        assert "<svg" in (tmp_path / name).read_text()
    capsys.readouterr()
    assert main([*JOB, "--vary", f"{RATE}=2@lots"]) == 2
    assert "VALUE@DOLLARS" in capsys.readouterr().err


def test_nothing_that_fits_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    big = [*JOB, "--vary", f"{ROOM}=0.02"]
    assert main(["codesign", "--model", "gpt3-175b", *big[3:]]) == 3
    assert "No variant" in capsys.readouterr().out


@pytest.mark.parametrize(
    "price", ["300000 USD", "3e5 USD", "300000USD", " 300 kUSD", "0.3 MUSD", "300kUSD "]
)
def test_prices_of_any_spelling_make_one_sum(
    price: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.toml"
    head = 'kind = "system"\nname = "mine"\nbase = "dgx-h100"\n'
    own.write_text(f'{head}[price]\nnode = "{price}"\n', encoding="utf-8")
    asked = ["--model", "llama2-7b", "--system", "mine", "--devices", "8", "--global-batch", "8"]
    asked += ["--sequence", "2048", "--chips", "h200-sxm", "--catalog", str(own)]
    assert main(["codesign", *asked]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "dollars of mine: nodes of 300,000 USD each" in told
    assert "dollars of mine with h200-sxm: nodes of 316,000 USD each" in told
