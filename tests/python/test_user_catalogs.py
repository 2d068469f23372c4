"""Does every file that a user lays over the catalog change what it names, or get refused?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import scalewright as sw
from scalewright import catalog
from scalewright.catalog.resolving import _WHOLE
from scalewright.errors import InvalidError, ScalewrightError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

SLOWER = '[sustained]\nbf16 = "300 TFLOP/s"\n'


def written(place: Path, text: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


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
