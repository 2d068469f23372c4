"""Does every file that a user lays over the catalog change what it names, or get refused?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import scalewright as sw
from scalewright import catalog
from scalewright.catalog.file_fields import TABLES
from scalewright.catalog.resolving import _WHOLE
from scalewright.catalog.software_fields import software_field_names
from scalewright.catalog.units import BY_FORMAT, OF_TABLE, UNITS, bare_numbers
from scalewright.catalog.whole_entry import check_node
from scalewright.errors import InvalidError, ScalewrightError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator

ENGINE = Path(__file__).parents[2] / "rust" / "hardware"
QUANTITIES = (
    "Bytes|Seconds|BytesPerSecond|FlopsPerSecond|Joules|Watts|Dollars|JoulesPerByte|"
    "WattsPerByte|DollarsPerByte|SquareMillimetres"
)
# what stands in no file: what the engine works out of a system
INSIDE = {"memories.rs", "cluster.rs", "topology.rs", "group.rs", "constants.rs"}
SLOWER = '[sustained]\nbf16 = "300 TFLOP/s"\n'


def written(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def test_a_directory_without_an_entry_is_refused(tmp_path: Path) -> None:
    (tmp_path / "devices").mkdir()
    written(tmp_path / "README.md", "nothing to read\n")
    with pytest.raises(InvalidError) as caught:
        catalog.names("device", [tmp_path])
    assert str(caught.value).startswith(f"{tmp_path}: got a directory without TOML files; ")


@pytest.mark.parametrize(
    ("kind", "head", "near"),
    [
        ("device", 'base = "h100-smx"', "nearest: h100-sxm"),
        ("device", 'base = "h100-smx"\nname = "mine"', "nearest: h100-sxm"),
        ("device", 'base = "mine"\nname = "mine"', "`scalewright catalog devices` lists"),
        ("system", 'base = "dgx-h100x"', "nearest: dgx-h100"),
        ("model", 'base = "h100-sxm"', "`scalewright catalog models` lists"),
        ("software", 'base = "eager-lama"', "nearest: eager-llama"),
    ],
)
@pytest.mark.parametrize("asked", ["device", "system", "model", "software"])
def test_a_base_that_names_nothing_is_refused_whatever_is_asked_for(
    tmp_path: Path, kind: str, head: str, near: str, asked: catalog.layers.Kind
) -> None:
    file = written(tmp_path / "mine.toml", f'kind = "{kind}"\n{head}\n')
    with pytest.raises(UnknownNameError) as caught:
        catalog.names(asked, [file])
    assert str(caught.value).startswith(f"{file}: base: unknown name ")
    assert near in str(caught.value)


def test_a_change_without_a_base_is_no_entry(tmp_path: Path) -> None:
    for name in ("h100-smx", "h100-sxm"):
        file = written(tmp_path / "mine.toml", f'kind = "device"\nname = "{name}"\n{SLOWER}')
        with pytest.raises(InvalidError, match=r"base: got nothing; .* \(nearest: h100-sxm, "):
            catalog.load_device("a100-sxm-80gb", [file])


@pytest.mark.parametrize("kind", ["device", "system", "model"])
def test_every_entry_of_the_catalog_has_the_fields_of_a_whole_one(
    kind: catalog.layers.Kind,
) -> None:
    for name in catalog.names(kind):
        assert set(_WHOLE[kind]) <= set(catalog.load_entry(kind, name).table), name


@pytest.mark.parametrize(
    "head",
    ['base = "H100"', 'base = "H100"\nname = "h100"', 'base = "h100-sxm"\nname = "H100 SXM5"'],
)
def test_an_alias_works_like_the_name(tmp_path: Path, head: str) -> None:
    file = written(tmp_path / "mine.toml", f'kind = "device"\n{head}\n{SLOWER}')
    changed = sw.system("dgx-h100", 8, overrides=[file])
    assert changed.overridden == ("device.sustained.bf16",)
    assert changed.device["name"] == "h100-sxm"
    assert changed.device["sustained"]["bf16"] == "300 TFLOP/s"
    assert catalog.load_device("H100 80GB", [file]) == changed.device
    assert catalog.names("device", [file]) == catalog.names("device")


def test_a_user_s_own_alias_works_too_and_layers_stack_on_it(tmp_path: Path) -> None:
    own = 'kind = "device"\nbase = "h100-sxm"\nname = "ours"\naliases = ["the box"]\n'
    first = written(tmp_path / "one.toml", own)
    second = written(tmp_path / "two.toml", f'kind = "device"\nbase = "The Box"\n{SLOWER}')
    assert catalog.load_device("ours", [first, second])["sustained"]["bf16"] == "300 TFLOP/s"
    with pytest.raises(UnknownNameError, match=r"two\.toml: base: unknown name 'The Box'"):
        catalog.load_device("h100-sxm", [second])


def test_a_file_that_says_its_kind_is_read_at_the_top_of_a_directory(tmp_path: Path) -> None:
    written(tmp_path / "mine.toml", f'kind = "device"\nbase = "h100-sxm"\n{SLOWER}')
    assert catalog.load_device("h100-sxm", [tmp_path])["sustained"]["bf16"] == "300 TFLOP/s"
    written(tmp_path / "more.toml", 'base = "h100-sxm"\n')
    with pytest.raises(InvalidError, match=r"more\.toml: kind: got None; allowed: device, system"):
        catalog.load_device("h100-sxm", [tmp_path])


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("device/mine.toml", r"device: got a folder .* allowed: devices, .* \(nearest: devices\)"),
        ("hardware/mine.toml", "hardware: got a folder of TOML files that is not read"),
        ("devices/nvidia/mine.toml", "nvidia: got a folder .* allowed: files in .*devices itself"),
    ],
)
def test_a_folder_that_is_not_read_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, message: str
) -> None:
    written(tmp_path / place, f'base = "h100-sxm"\n{SLOWER}')
    with pytest.raises(InvalidError, match=message):
        catalog.load_device("h100-sxm", [tmp_path])
    monkeypatch.setenv("SCALEWRIGHT_CATALOG", str(tmp_path))
    with pytest.raises(InvalidError, match=message):
        catalog.load_system("dgx-h100")


def test_what_holds_no_toml_lies_beside_the_folders_unread(tmp_path: Path) -> None:
    written(tmp_path / "README.md", "ours")
    written(tmp_path / ".git" / "config.toml", "a = 1")
    written(tmp_path / "docs" / "page.md", "ours")
    written(tmp_path / "devices" / "mine.toml", f'base = "h100-sxm"\n{SLOWER}')
    assert catalog.load_device("h100-sxm", [tmp_path])["sustained"]["bf16"] == "300 TFLOP/s"


@pytest.mark.parametrize("kind", ["[]", "{}", "7", '"devices"'])
def test_a_kind_that_is_none_is_refused_in_a_line(tmp_path: Path, kind: str) -> None:
    file = written(tmp_path / "mine.toml", f'kind = {kind}\nbase = "h100-sxm"\n')
    for call in (
        lambda: catalog.load_device("h100-sxm", [file]),
        lambda: catalog.load_device(str(file)),
    ):
        with pytest.raises(ScalewrightError, match=rf"{re.escape(str(file))}: kind: got .*allowed"):
            call()


def engine_fields() -> Iterator[tuple[str, str]]:
    """Names and types of the public fields of the engine's hardware."""
    for file in sorted(ENGINE.glob("*.rs")):
        if file.name not in INSIDE:
            yield from re.findall(r"^    pub (\w+): (.*),$", file.read_text(), re.MULTILINE)


def program_fields() -> list[tuple[str, str]]:
    """Names and types of the engine's fields of a software profile."""
    files = sorted((ENGINE.parent / "workload" / "software").glob("*.rs"))
    texts = ((file.stem, file.read_text()) for file in files if file.stem != "mod")
    return [
        (f"{table}.{name}", kind)
        for table, text in texts
        for name, kind in re.findall(r"^    pub (\w+): (.*),$", text, re.MULTILINE)
    ]


def test_fields_with_units_are_those_of_the_engine() -> None:
    quantity = re.compile(rf"(?:Option<)?(?:{QUANTITIES})>?")
    hardware = {name for name, kind in engine_fields() if quantity.fullmatch(kind)}
    software = [(path.partition(".")[2], kind) for path, kind in program_fields()]
    programs = {name for name, kind in software if "Seconds" in kind}
    assert hardware | programs == set(UNITS) | {field for _, field in OF_TABLE}
    assert not set(UNITS) & {name for name, kind in software if "Seconds" not in kind}
    rates = {name for name, kind in engine_fields() if "FlopsPerSecond>" in kind}
    assert rates == set(BY_FORMAT)
    # a name with a unit here is never a plain number there
    plain = {name for name, kind in engine_fields() if kind in {"f64", "u32", "Option<f64>"}}
    assert not plain & set(UNITS)


@pytest.mark.parametrize("kind", ["device", "system"])
def test_the_catalog_s_own_files_hold_no_bare_number_and_tables_where_they_must(
    kind: catalog.layers.Kind,
) -> None:
    for name in catalog.names(kind):
        table = catalog.load_entry(kind, name).table
        assert list(bare_numbers(table)) == []
        assert all(isinstance(table.get(field, {}), dict) for field in TABLES[kind])


@pytest.mark.parametrize(
    ("kind", "base", "text", "message"),
    [
        ("device", "h100-sxm", "[[tiers]]\nname='hbm'\nbandwidth=3.35", "3.35 TB/s"),
        ("device", "h100-sxm", "[[tiers]]\nname='hbm'\ncapacity=80", "80 GiB"),
        ("device", "h100-sxm", "[[tiers]]\nname='hbm'\nprice=4", "4 USD/GB"),
        ("device", "h100-sxm", "[matrix]\nbf16=989", "312 TFLOP/s"),
        ("device", "h100-sxm", "sustained={bf16=700}", "312 TFLOP/s"),
        ("device", "h100-sxm", "launch_overhead=4.5", "4.5 us"),
        ("device", "h100-sxm", "[power]\npeak=700", "700 W"),
        ("device", "h100-sxm", "price=30000", "30000 USD"),
        ("system", "dgx-h100", "[[levels]]\nname='nvswitch'\nbandwidth=400", "3.35 TB/s"),
        ("system", "dgx-h100", "[[levels]]\nname='nvswitch'\nlatency=2", "4.5 us"),
        ("system", "dgx-h100", "[[levels]]\nname='nvswitch'\nlibrary.simple.base=9", "4.5 us"),
        ("system", "dgx-h100", "[price]\nenergy_per_kwh=0.1", "30000 USD"),
    ],
)
def test_a_bare_number_where_a_unit_is_needed_is_refused(
    tmp_path: Path, kind: catalog.layers.Kind, base: str, text: str, message: str
) -> None:
    file = written(tmp_path / "mine.toml", f'kind = "{kind}"\nbase = "{base}"\n{text}\n')
    field, _, number = text.replace("{", "").replace("}", "").rpartition("=")
    last = re.split(r"[\n.=]", field)[-1]
    wanted = rf"{last}: got {number}; allowed: text with a unit, as '{message}'"
    for call in (
        lambda: catalog.load_entry(kind, base, [file]),
        lambda: catalog.load_entry(kind, str(file)),
        lambda: sw.model("gpt2", overrides=[file]),
    ):
        with pytest.raises(InvalidError, match=wanted):
            call()


def test_zero_needs_no_unit(tmp_path: Path) -> None:
    file = written(tmp_path / "m.toml", 'kind = "device"\nbase = "h100-sxm"\nlaunch_overhead = 0\n')
    assert sw.system("dgx-h100", 8, overrides=[file]).device["launch_overhead"] == 0


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("device", "calibration = []", r"calibration: got \[\]; allowed: a table, as \[cal"),
        ("device", "matmul = [1]", r"matmul: got \[1\]; allowed: a table"),
        ("device", "attention = [1]", r"attention: got \[1\]; allowed: a table"),
        ("device", "aliases = 5", "aliases: got 5; allowed: a list of names"),
        ("device", "aliases = [1]", r"aliases: got \[1\]; allowed: a list of names"),
        ("device", "sources = 1", "sources: got 1; allowed: a table"),
        ("system", "price = [1]", r"price: got \[1\]; allowed: a table"),
        ("software", "software = 5", "software: got 5; allowed: a table"),
    ],
)
def test_what_is_no_table_or_list_is_refused_in_a_line(
    tmp_path: Path, kind: str, text: str, message: str
) -> None:
    bases = {"device": "h100-sxm", "system": "dgx-h100", "software": "eager-llama"}
    file = written(tmp_path / "m.toml", f'kind = "{kind}"\nbase = "{bases[kind]}"\n{text}\n')
    with pytest.raises(InvalidError, match=message):
        sw.system("dgx-h100", 8, overrides=[file])


@pytest.mark.parametrize(
    ("kind", "base", "text", "message"),
    [
        (
            *("system", "dgx-h100", "[[levels]]\nname='nvswich'\nbandwidth='400 GB/s'"),
            r"levels: got the name 'nvswich'; allowed: nvswitch, .* \(nearest: nvswitch\)",
        ),
        (
            *("device", "h100-sxm", "[[tiers]]\nname='hbm33'\nbandwidth='4 TB/s'"),
            r"tiers: got the name 'hbm33'; allowed: .*hbm.*, or a new one with its kind",
        ),
    ],
)
def test_a_tier_or_level_that_the_base_does_not_have_says_what_it_is(
    tmp_path: Path, kind: catalog.layers.Kind, base: str, text: str, message: str
) -> None:
    file = written(tmp_path / "m.toml", f'kind = "{kind}"\nbase = "{base}"\n{text}\n')
    with pytest.raises(InvalidError, match=message):
        catalog.load_entry(kind, base, [file])


@pytest.mark.parametrize(
    ("base", "devices", "message"),
    [
        ("dgx-h100", 7, "got 7; allowed: a multiple or a divisor of 8, as levels.nvswitch.devices"),
        ("dgx-h100", 12, "got 12; allowed: a multiple or a divisor of 8"),
        ("gb200-nvl72", 5, "got 5; allowed: a multiple or a divisor of 72"),
        ("aurora", 8, "got 8; allowed: a multiple or a divisor of 12"),
        ("dgx-h100", 4, None),
        ("dgx-h100", 16, None),
        ("gb200-nvl72", 8, None),
    ],
)
def test_a_node_cuts_through_no_unit_of_the_fabric(
    tmp_path: Path, base: str, devices: int, message: str | None
) -> None:
    text = f'kind = "system"\nbase = "{base}"\ndevices_per_node = {devices}\n'
    file = written(tmp_path / "mine.toml", text)
    if message is None:
        assert sw.system(base, 8, overrides=[file]).table["devices_per_node"] == devices
        return
    with pytest.raises(InvalidError, match=rf"mine\.toml: devices_per_node: {message}"):
        sw.system(base, 8, overrides=[file])


def test_nodes_of_the_catalog_fit_their_fabrics() -> None:
    for name in catalog.names("system"):
        check_node(name, catalog.load_system(name))


def test_fields_of_software_are_those_of_the_engine() -> None:
    assert sorted(name for name, _ in program_fields()) == list(software_field_names())


H100 = 'devices = ["h100-*"]\n'


def test_what_the_engine_refuses_in_an_override_names_its_file(tmp_path: Path) -> None:
    text = 'kind = "device"\nbase = "a100-sxm-80gb"\n[[tiers]]\nname = "hbm"\n'
    mine = written(tmp_path / "mine.toml", f'{text}bandwidth = "-5 GB/s"\n')
    with pytest.raises(
        InvalidError, match=rf"{re.escape(str(mine))}: tiers.hbm.bandwidth: got -5 GB/s"
    ):
        sw.system("dgx-a100-80gb", 8, overrides=[mine])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('host_time = "5 us"', "host_time: got '5 us'; allowed: host_time under .software.host"),
        ("vocabulary_multiples = 2", "got 2; allowed: vocabulary_multiple under .software.voc"),
        ("overlaps = []", r"overlaps: got \[\]; allowed: overlap \(nearest\)"),
        ("foo = 1", "foo: got 1; allowed: kind, name, title, base, aliases, sources, software"),
        ("[software]\nnorm = 5", "software.norm: got 5; allowed: norm under .software.layer"),
        ("[software.host]\nnorms = 5", r"software.host.norms: got 5; allowed: layer.norm \(n"),
        ("software.host = 5", "software.host: got 5; allowed: "),
        ("[software]\nzzz = 5", "software.zzz: got 5; allowed: one of 104 fields"),
        ("[software.host]\nhost_time = 0.2", "host.host_time: got 0.2; allowed: text with a unit"),
        ('[software.host]\nhost_time = "-5 us"', "host.host_time: got -5 us; allowed: a duration"),
        ("[software.vocabulary]\nvocabulary_multiple = 0", "multiple: got 0; allowed: 1"),
        ("[software.layer]\nnorm = 5", "software.layer.norm: got 5; allowed:"),
        ("sustained = 5", r"sustained: got 5; allowed: tables \[\[sustained\]\] with devices"),
        ("overlap = 5", r"overlap: got 5; allowed: tables \[\[overlap\]\]"),
        ("attention = 5", r"attention: got 5; allowed: tables \[\[attention\]\]"),
        ("attention = [5]", r"attention: got 5; allowed: tables \[\[attention\]\]"),
        ('[attention."h100"]\na = 0.5', r"attention: got \{'h100'.*; allowed: tables \[\[att"),
        ('[sustained]\nh100 = "3 TFLOP/s"', r"sustained: got \{'h100'.*; allowed: tables"),
        ('[overlap."zzz"]\na = 1', r"overlap: got \{'zzz'.*; allowed: tables"),
        ("[[overlap]]\ncommunication_units = 4", r"overlap.devices: got None; allowed: a list of"),
        ('[[overlap]]\ndevices = "h100-*"', r"overlap.devices: got 'h100-\*'; allowed: a list of"),
        (f"[[overlap]]\n{H100}", "overlap.communication_units: got None; allowed: a number of"),
        (f"[[overlap]]\n{H100}units = 4", "overlap.units: got 4; allowed: "),
        (f"[[overlap]]\n{H100}communication_units = -4", "communication_units: got -4; allowed: 0"),
        (f"[[products]]\n{H100}share = 0.8", "products.share: got 0.8; allowed: a table by"),
        (f"[[sustained]]\n{H100}", "sustained.rates: got None; allowed: a table by number format"),
        (f"[[sustained]]\n{H100}rates.bf16 = 9", "sustained.rates.bf16: got 9; allowed: text with"),
        (
            f'[[sustained]]\n{H100}rates.bf16 = "3 PFLOP/s"',
            "bf16: got 3.*; allowed: up to the peak",
        ),
        (f"[[attention]]\n{H100}tali = 2", "unknown name 'tali'; nearest: tail"),
        ('[[attention]]\ndevices = ["h1000"]', "attention.devices: got h1000; allowed: names of"),
    ],
)
def test_what_no_software_profile_holds_is_refused_when_its_file_is_loaded(
    tmp_path: Path, text: str, message: str
) -> None:
    file = written(tmp_path / "mine.toml", f'kind = "software"\nbase = "eager-llama"\n{text}\n')
    for call in (
        lambda: catalog.load_device("h100-sxm", [file]),
        lambda: catalog.load_entry("software", str(file)),
    ):
        with pytest.raises(InvalidError, match=rf"^{re.escape(str(file))}: .*{message}"):
            call()


def test_a_profile_may_name_a_user_s_own_device(tmp_path: Path) -> None:
    box = 'kind = "device"\nbase = "h100-sxm"\nname = "box"\n'
    device = written(tmp_path / "device.toml", box)
    text = '[[overlap]]\ndevices = ["box"]\ncommunication_units = 52\n'
    own = f'kind = "software"\nname = "ours"\nbase = "eager-llama"\n{text}'
    profile = written(tmp_path / "ours.toml", own)
    both = [device, profile]
    changed = catalog.with_software("ours", {}, catalog.load_device("box", both), both)[1]
    assert changed["communication_units"] == 52


def test_every_profile_of_the_catalog_passes_the_checks_of_a_user_s(tmp_path: Path) -> None:
    for name in catalog.software_names():
        source = catalog.layers.built_in_root() / "software" / f"{name}.toml"
        written(tmp_path / "software" / f"{name}.toml", source.read_text(encoding="utf-8"))
    assert catalog.names("software", [tmp_path]) == list(catalog.software_names())
    assert catalog.load_device("h100-sxm", [tmp_path]) == catalog.load_device("h100-sxm")
