"""Does every catalog file hold sourced constants under unique names, and do overrides merge?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conftest import TOY_CLUSTER
from scalewright import catalog
from scalewright._engine import Cluster
from scalewright.catalog.defaults import defaults
from scalewright.catalog.layers import FOLDERS, built_in_root
from scalewright.catalog.resolving import normalised
from scalewright.catalog.toml_file import leaves
from scalewright.errors import InvalidError, ScalewrightError, UnknownNameError
from scalewright.planning import memories, system

HARDWARE = [(kind, name) for kind in ("device", "system") for name in catalog.names(kind)]
QUANTITY = re.compile(r"^[\d._]+(e[+-]?\d+)? ?[A-Za-z/0-9]+$")


def is_figure(path: str, value: object) -> bool:
    if isinstance(value, bool) or path.startswith(("sources.", "aliases", "calibration.")):
        return False
    if path.split(".")[-1] in {"name", "title", "vendor", "device", "kind"}:
        return False
    return isinstance(value, int | float) or bool(QUANTITY.match(str(value)))


@pytest.mark.parametrize(("kind", "name"), HARDWARE)
def test_name_is_the_file_name_and_the_text_is_json(kind, name):
    table = catalog.load_entry(kind, name).table
    assert table["name"] == name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert json.loads(json.dumps(table, allow_nan=False)) == table


@pytest.mark.parametrize(("kind", "name"), HARDWARE)
def test_every_figure_has_a_source_and_every_source_a_figure(kind, name):
    table = catalog.load_entry(kind, name).table
    figures = [path for path, value in leaves(table) if is_figure(path, value)]
    sources = table["sources"]

    def covers(prefix, path):
        return path == prefix or path.startswith(f"{prefix}.")

    assert figures
    assert [f for f in figures if not any(covers(s, f) for s in sources)] == []
    assert [s for s in sources if not any(covers(s, f) for f in figures)] == []
    assert all(len(text) > 10 for text in sources.values())


@pytest.mark.parametrize("kind", ["device", "system"])
def test_names_and_aliases_mean_one_entry_each(kind):
    seen = {}
    for name in catalog.names(kind):
        for text in {
            normalised(t) for t in (name, *catalog.load_entry(kind, name).table["aliases"])
        }:
            assert seen.setdefault(text, name) == name


@pytest.mark.parametrize("name", catalog.names("system"))
def test_a_system_stands_on_a_device_of_the_catalog(name):
    system = catalog.load_system(name)
    assert system["device"] in catalog.names("device")
    inner = 1
    for level in system["levels"]:
        assert level.get("devices", inner) % inner == 0
        inner = level.get("devices", inner)
        product = 1
        for size in level.get("dims", []):
            product *= size
        if level["kind"] == "torus":
            assert product == level["devices"]


@pytest.mark.parametrize(
    "name",
    [
        *("dgx-spark", "m2-ultra-node", "m3-max-node", "m3-ultra-node", "m4-max-node"),
        *("mi300a-node", "strix-halo"),
    ],
)
def test_memory_that_a_chip_shares_with_a_processor_is_there_once(name):
    table = catalog.load_system(name)
    assert "host" not in table
    chip = catalog.load_device(table["device"])
    assert len(memories(system(name, 1))["places"]) == len(chip["tiers"])


@pytest.mark.parametrize("name", catalog.names("device"))
def test_wider_formats_are_not_faster_and_memory_grows_outwards(name):
    device = catalog.load_device(name)
    rate = {
        d: float(v.split()[0]) * {"T": 1, "P": 1e3}[v.split()[1][0]]
        for d, v in device["matrix"].items()
    }
    widths = {
        "fp64": 8,
        "fp32": 4,
        "tf32": 4,
        "bf16": 2,
        "fp16": 2,
        "fp8": 1,
        "int8": 1,
        "nvfp4": 0.5,
    }
    for wide, slow in rate.items():
        for narrow, fast in rate.items():
            # the int8 units of the newest chips were cut down in favour of the floating formats
            if widths.get(wide, 1) > widths.get(narrow, 1) and narrow != "int8":
                assert slow <= fast
    assert float(device["power"]["idle"].split()[0]) < float(device["power"]["peak"].split()[0])
    factor = {
        "MiB": 1.0,
        "GiB": 1024.0,
        "MB": 1e6 / 2**20,
        "GB": 1e9 / 2**20,
        "TiB": 2.0**20,
        "KiB": 1 / 1024,
    }
    sizes = [
        float(t["capacity"].split()[0]) * factor[t["capacity"].split()[1]] for t in device["tiers"]
    ]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("device", "NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("device", "  a100 sxm 80gb ", "a100-sxm-80gb"),
        ("system", "DGX H100", "dgx-h100"),
        ("system", "SELENE", "selene"),
    ],
)
def test_aliases_ignore_case_and_spaces(kind, text, name):
    assert catalog.load_entry(kind, text).table["name"] == name


@pytest.mark.parametrize(
    ("kind", "name", "nearest"),
    [
        ("model", "llama3", "llama3-8b, llama3-70b, llama3-405b"),
        ("model", "mixtral", "mixtral-8x7b, mixtral-8x22b, "),
        ("model", "gpt3-175", "gpt3-175b, "),
        ("model", "mistrl-7b", "mistral-7b"),
        ("software", "megatron", "megatron-2019, megatron-2023"),
    ],
)
def test_what_begins_a_name_is_near_to_it(kind: catalog.Kind, name: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=f"nearest: {nearest}"):
        catalog.load_entry(kind, name)


def test_a_device_in_the_place_of_a_system_names_its_usual_server() -> None:
    with pytest.raises(UnknownNameError, match="a system of it, as dgx-a100-80gb, "):
        system("a100", 8)


def test_an_unknown_name_gets_the_nearest_ones_in_a_plain_message():
    with pytest.raises(UnknownNameError) as caught:
        catalog.load_device("a100-smx-80gb")
    assert str(caught.value).startswith("device: unknown name 'a100-smx-80gb'; nearest: ")
    assert "a100-sxm-80gb" in str(caught.value)
    with pytest.raises(UnknownNameError, match=r"`scalewright catalog systems` lists"):
        catalog.load_system("zzzzzz")


def test_an_override_changes_only_what_it_says(tmp_path):
    file = tmp_path / "slow.toml"
    file.write_text(
        'kind = "system"\nbase = "dgx-a100-80gb"\nname = "slow"\n'
        '[[levels]]\nname = "hdr-infiniband"\nbandwidth = "100 Gb/s"\n'
        '[price]\nenergy_per_kwh = "0.2 USD"\n'
    )
    base = catalog.load_system("dgx-a100-80gb")
    entry = catalog.load_entry("system", "slow", overrides=[file])
    assert entry.overridden == ("levels.hdr-infiniband.bandwidth", "price.energy_per_kwh")
    assert entry.table["levels"][0] == base["levels"][0]
    assert entry.table["levels"][1] == {**base["levels"][1], "bandwidth": "100 Gb/s"}
    assert entry.table["price"] == {**base["price"], "energy_per_kwh": "0.2 USD"}
    assert entry.table["sources"]["price.energy_per_kwh"] == "override in slow.toml"
    assert "aliases" not in entry.table
    assert "kind" not in entry.table
    assert "base" not in entry.table
    assert "slow" in catalog.names("system", overrides=[file])
    assert catalog.load_system("DGX A100", overrides=[file]) == base


def test_an_override_reaches_the_start_up_time_of_a_protocol(tmp_path):
    mine = tmp_path / "mine.toml"
    lines = ["kind = 'system'", "base = 'dgx-h100'", "[[levels]]", "name = 'nvswitch'"]
    mine.write_text("\n".join([*lines, "library.simple.base = '9 us'"]))
    simple = catalog.load_system("dgx-h100", [mine])["levels"][0]["library"]["simple"]
    untouched = catalog.load_system("dgx-h100")["levels"][0]["library"]["simple"]
    assert simple == {**untouched, "base": "9 us"}


def test_a_nameless_override_changes_its_base_through_the_environment(tmp_path, monkeypatch):
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "h100.toml").write_text('base = "h100-sxm"\n[power]\npeak = "500 W"\n')
    monkeypatch.setenv("SCALEWRIGHT_CATALOG", str(tmp_path))
    entry = catalog.load_entry("device", "H100 80GB")
    assert entry.overridden == ("power.peak",)
    assert entry.table["power"] == {"peak": "500 W", "idle": "70 W"}
    second = tmp_path / "more.toml"
    second.write_text(
        'kind = "device"\nbase = "h100-sxm"\nname = "h100-sxm"\nlaunch_overhead = "2 us"\n'
    )
    both = catalog.load_entry("device", "h100-sxm", overrides=[second])
    assert both.overridden == ("power.peak", "launch_overhead")
    assert (both.table["power"]["peak"], both.table["launch_overhead"]) == ("500 W", "2 us")


def test_a_path_is_loaded_as_it_stands(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nbase = "tpu-v4"\nvector = "5 TFLOP/s"\n')
    assert catalog.load_device(str(file))["vector"] == "5 TFLOP/s"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "not valid TOML"),
        ('name = "x"', "kind: got None; allowed: device, system, model"),
        ('kind = "device"\nyear = 2020', "base: got None; allowed: a name"),
        ('kind = "device"\nname = "x"\nvector = inf', "vector: got inf; allowed"),
        ('kind = "device"\nname = "x"\n[power]\npeak = 2020-01-01', "power.peak: got 2020-01-01"),
    ],
)
def test_a_wrong_file_is_named_with_the_field(tmp_path, text, message):
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(InvalidError) as caught:
        catalog.load_device("h100-sxm", overrides=[file])
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


def test_bases_in_a_circle_and_missing_places_are_refused(tmp_path):
    for name, base in (("one", "two"), ("two", "one")):
        (tmp_path / f"{name}.toml").write_text(
            f'kind = "device"\nname = "{name}"\nbase = "{base}"\n'
        )
    with pytest.raises(InvalidError, match="circle"):
        catalog.load_device("one", overrides=[tmp_path / "one.toml", tmp_path / "two.toml"])
    with pytest.raises(InvalidError, match="allowed: an existing file or directory"):
        catalog.load_device("h100-sxm", overrides=[tmp_path / "none.toml"])


def test_the_hash_follows_the_content(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('kind = "device"\nbase = "t4"\n')
    plain, with_file = catalog.catalog_hash(), catalog.catalog_hash([file])
    assert re.fullmatch(r"[0-9a-f]{12}", plain)
    assert plain == catalog.catalog_hash()
    file.write_text('kind = "device"\nbase = "h100-sxm"\n')
    assert len({plain, with_file, catalog.catalog_hash([file])}) == 3


def test_spellings_name_systems_of_the_catalog_or_say_why_not():
    for spelling in catalog.spellings().values():
        if spelling.system is None:
            assert len(spelling.note) > 10, spelling.text
        else:
            system = catalog.load_system(spelling.system)
            assert system["device"] == spelling.device, spelling.text
            assert system["devices_per_node"] == spelling.devices_per_node, spelling.text
    assert catalog.spellings()["A100 (Selene)"].system == "selene"


def test_no_catalog_file_lies_outside_the_known_folders():
    root = Path(str(built_in_root()))
    known = {*FOLDERS.values(), "software", "conventions"}
    entries = (path for path in root.glob("*/**/*.toml") if "published" not in path.parts)
    assert {path.parent.name for path in entries} <= known
    tables = ["conventions.toml", "defaults.toml", "habits.toml", "programs.toml"]
    tables += ["technologies.toml"]
    assert sorted(path.name for path in root.glob("*.toml")) == tables


@pytest.mark.parametrize("name", catalog.names("system"))
def test_the_engine_reads_every_system(name):
    system = catalog.load_system(name)
    device = catalog.load_device(system["device"])
    cluster = {"system": system, "device": device, "devices": system["devices_per_node"]}
    assert Cluster(json.dumps(cluster)) is not None


@pytest.mark.parametrize("name", catalog.names("device"))
def test_the_engine_reads_every_device_but_not_a_misspelt_field(name):
    device = catalog.load_device(name)
    system = {**TOY_CLUSTER["system"], "device": name}
    assert Cluster(json.dumps({"system": system, "device": device, "devices": 8})) is not None
    wrong = {"system": system, "device": {**device, "vektor": "1 TFLOP/s"}, "devices": 8}
    with pytest.raises(ScalewrightError, match="vektor"):
        Cluster(json.dumps(wrong))


def test_a_file_of_another_kind_is_no_entry(tmp_path):
    place = tmp_path / "mine.toml"
    place.write_text('kind = "device"\nbase = "a100-sxm-80gb"\nname = "mine"\n')
    assert catalog.load_entry("device", str(place)).table["name"] == "mine"
    for kind in ("system", "software", "model"):
        with pytest.raises(InvalidError, match=f"kind: got 'device'; allowed: {kind}"):
            catalog.load_entry(kind, str(place))


def test_every_default_has_a_source_and_is_what_the_engine_takes():
    found = defaults()
    paths = [path for path, _ in leaves({k: v for k, v in found.items() if k != "sources"})]
    assert paths
    for path in paths:
        tables = [path.rpartition(".")[0], path.rpartition(".")[0].rpartition(".")[0]]
        assert any(len(found["sources"].get(table, "")) > 20 for table in tables), path
    cluster = json.loads(Cluster(json.dumps({**TOY_CLUSTER, "devices": 8})).levels())
    assert "efficiency" not in TOY_CLUSTER["system"]["levels"][0]
    assert cluster[0]["efficiency"] == found["level"]["efficiency"]


def test_the_page_lists_the_fields_of_a_level_s_library(tmp_path: Path) -> None:
    """Its names are those that the engine knows; systems with a share below 1 are named."""
    file = tmp_path / "own.toml"
    text = ["kind = 'system'", "base = 'dgx-a100-80gb'", "name = 'own'", "[[levels]]"]
    file.write_text("\n".join([*text, "name = 'hdr-infiniband'", "library.no_such_field = 1"]))
    with pytest.raises(UnknownNameError) as refused:
        system("own", 8, overrides=[str(file)])
    known = str(refused.value).partition("known: ")[2].split(", ")
    pages = Path(__file__).parents[2] / "docs"
    _, _, rest = (pages / "catalog.md").read_text().partition("The table `library` of a level")
    rows = [row.split("|")[1] for row in rest.partition("\n## ")[0].splitlines() if "| `" in row]
    told = [name.strip(" `") for row in rows for name in row.split(",")]
    assert sorted(told) == sorted(known)
    busy = {
        name
        for name in catalog.names("system")
        for level in catalog.load_entry("system", name).table["levels"]
        if level.get("library", {}).get("busy_share", 1.0) != 1.0
    }
    _, _, said = (pages / "collectives.md").read_text().partition("A level's `busy_share`")
    assert busy <= set(re.findall(r"`([\w-]+)`", said.partition("\n\n")[0]))
