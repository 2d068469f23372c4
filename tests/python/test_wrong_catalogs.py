"""Is a wrong file of one's own refused with its name, its field and what is near, once?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalewright as sw
from scalewright.catalog import load_entry, names
from scalewright.planning.inputs import check_entry
from test_bad_input import refusal as refused

if TYPE_CHECKING:
    from pathlib import Path

JOB = ["--devices", "8", "--global-batch", "8", "--sequence", "2048"]
DEVICE = 'kind = "device"\nbase = "h100-sxm"\nname = "mine"\n'
SYSTEM = 'kind = "system"\nbase = "dgx-h100"\nname = "mine"\n'
MODEL = 'kind = "model"\nbase = "llama2-7b"\nname = "mine"\n'
PROFILE = 'kind = "software"\nbase = "torchtitan-compile"\nname = "mine"\n'
CIRCLE = "".join(
    f'[[paths]]\nname = "{name}"\nbandwidth = "1 GB/s"\nbehind = "{behind}"\n'
    for name, behind in ("ab", "ba")
)
RATE = '[[levels]]\nname = "nvswitch"\nbandwidth = "450 GB"\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (SYSTEM + RATE, 'levels.nvswitch.bandwidth: got "450 GB"'),
        (SYSTEM + "devices_per_nod = 8", "nearest: devices_per_node"),
        (SYSTEM + 'device = "h100x"', "device: unknown name 'h100x'; nearest: H100"),
        (DEVICE + 'launch_overhead = "2 GB"', 'launch_overhead: got "2 GB"'),
        (DEVICE + '[[tiers]]\nname = "hbm"\ncapacty = "2 GB"', "nearest: capacity"),
        (MODEL + "hiden = 64", "own.toml: hiden: unknown name 'hiden'; nearest: hidden"),
        (MODEL + "family = 5", "own.toml: family: got 5; allowed: decoder, encoder"),
        (MODEL + 'layers = "32"', 'own.toml: layers: got "32"; allowed: a whole number'),
        (DEVICE + "[matrix]\nbf17 = '1 TFLOP/s'", "own.toml: matrix: unknown name 'bf17'"),
        (DEVICE + "[matrix]\nbf16 = 'fast'", 'own.toml: matrix.bf16: got "fast"; allowed: a comp'),
        (DEVICE + "[matrix]\nbf16 = '-1 TFLOP/s'", "own.toml: matrix.bf16: got -1 TFLOP/s; allow"),
        (DEVICE + "[matrix]\nbf16 = '0 TFLOP/s'", "own.toml: matrix.bf16: got 0; allowed: 1e-30"),
        (DEVICE + "[sustained]\nbf16 = 'fast'", 'own.toml: sustained.bf16: got "fast"; allowed'),
        (DEVICE + "[matmul.efficiency]\nbf16 = 'x'", 'own.toml: matmul.efficiency.bf16: got "x"'),
        (DEVICE + "tiers = 5", "own.toml: tiers: got 5; allowed: a list"),
        (DEVICE + "[[tiers]]\ncapacity = '1 GB'", "own.toml: tiers[0].name: got nothing; allowed"),
        (SYSTEM + CIRCLE, "own.toml: paths.a.behind: got a circle (a behind b behind a); allowed:"),
        (SYSTEM + CIRCLE.replace('"b"', '"c"', 1), "paths.a.behind: unknown name 'c'; known: "),
        (SYSTEM + '[host]\nmemory = "0 GiB"', "own.toml: host.memory: got 0; allowed: 1e-30"),
        (SYSTEM + '[host]\nmemory_bandwidth = "0 GB/s"', "host.memory_bandwidth: got 0"),
        (SYSTEM + '[host]\nlink_bandwidth = "0 GB/s"', "own.toml: host.link_bandwidth: got 0"),
        (SYSTEM + "[host]\nlink_efficiency = 0", "own.toml: host.link_efficiency: got 0"),
        (SYSTEM + "[host]\nmemory_efficiency = 1.5", "own.toml: host.memory_efficiency: got 1.5"),
        (DEVICE.replace("sxm", "sxn"), "base: unknown name 'h100-sxn'; nearest: h100-sxm"),
        (DEVICE.replace('"h100-sxm"', "5"), "base: got 5; allowed: a name"),
        (SYSTEM + RATE + RATE, "levels: got the name 'nvswitch' twice; allowed: each once"),
        (DEVICE + 2 * '[[tiers]]\nname = "hbm"\n', "tiers: got the name 'hbm' twice"),
        (DEVICE + 'aliases = ["H200"]', "aliases: got 'H200', which means h200-sxm"),
        (DEVICE + 'aliases = ["h100-sxm"]', "aliases: got 'h100-sxm', which means h100-sxm"),
        (DEVICE + '[sources]\nlaunch_overhed = "x"', "(nearest: launch_overhead)"),
        (
            SYSTEM + '[sources]\n"levels.nvswich.latency" = "x"',
            "(nearest: levels.nvswitch.latency)",
        ),
        (PROFILE + "[software.layr]\nx = 1", "software.layr: got {'x': 1}; allowed: [software.lay"),
    ],
)
def test_the_catalog_refuses_what_an_estimate_refuses_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(content, encoding="utf-8")
    shown = refused(capsys, "catalog", "mine", "--catalog", str(file))
    assert message in shown
    assert shown.count(str(file)) == 1
    assert shown.count(message) == 1


def test_an_estimate_names_the_field_of_a_file_and_not_an_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(SYSTEM + RATE, encoding="utf-8")
    asked = ["estimate", "--model", "llama2-7b", "--system", "mine", "--catalog", str(file), *JOB]
    shown = refused(capsys, *asked)
    assert "--system" not in shown
    assert f"{file}: levels.nvswitch.bandwidth: got" in shown


def test_a_model_s_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(MODEL + "heads = 33", encoding="utf-8")
    for asked in ({"source": str(file)}, {"source": "mine", "overrides": [file]}):
        with pytest.raises(sw.InvalidError, match=r"own\.toml: heads: got 33"):
            sw.model(**asked)  # pyright: ignore[reportArgumentType]


def test_a_system_may_spell_its_device_by_an_alias(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(SYSTEM + 'device = "H100"', encoding="utf-8")
    made = sw.system("mine", 8, overrides=[file])
    assert made.table["device"] == made.device["name"] == "h100-sxm"


def test_the_name_of_a_device_is_no_system(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        sw.UnknownNameError, match="got 'h100-sxm', a device; allowed: a system of it, as"
    ):
        sw.system("h100-sxm", 8)
    asked = ["estimate", "--model", "llama2-7b", "--system", "h100-sxm", *JOB]
    assert "a device; allowed: a system of it, as dgx-h100" in refused(capsys, *asked)


def test_files_of_one_directory_do_not_contradict_each_other(tmp_path: Path) -> None:
    first, second = tmp_path / "1.toml", tmp_path / "2.toml"
    first.write_text(DEVICE, encoding="utf-8")
    second.write_text(DEVICE, encoding="utf-8")
    with pytest.raises(sw.InvalidError, match=r"2\.toml: name: got 'mine', as .*1\.toml has"):
        load_entry("device", "mine", [tmp_path])
    # places have an order, so one may change the other
    assert load_entry("device", "mine", [first, second]).table["name"] == "mine"
    change = 'kind = "device"\nbase = "h100-sxm"\n'
    first.write_text(change + 'launch_overhead = "3 us"\n', encoding="utf-8")
    second.write_text(change + 'launch_overhead = "4 us"\n', encoding="utf-8")
    with pytest.raises(sw.InvalidError, match=r"launch_overhead: got it, as .* has for h100-sxm"):
        load_entry("device", "h100-sxm", [tmp_path])
    rests = '[calibration]\nbasis = "own"\n'
    first.write_text(change + 'launch_overhead = "3 us"\n' + rests, encoding="utf-8")
    second.write_text(change + '[power]\nlimit = "500 W"\n' + rests, encoding="utf-8")
    entry = load_entry("device", "h100-sxm", [tmp_path])
    assert {"launch_overhead", "power.limit"} <= set(entry.overridden)


@given(st.sampled_from(names("device")))
def test_every_device_of_the_catalog_is_taken(name: str) -> None:
    check_entry("device", name)


def test_an_alias_of_an_entry_s_own_is_no_other_one(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    changed = 'kind = "device"\nbase = "h100-sxm"\naliases = ["H100", "the box"]\n'
    file.write_text(changed, encoding="utf-8")
    assert load_entry("device", "the box", [file]).table["name"] == "h100-sxm"
