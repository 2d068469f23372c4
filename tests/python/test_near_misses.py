"""Is a name that is only like a known one refused with it, and a spelling that is known taken?"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalewright as sw
from scalewright.catalog import names
from scalewright.cli import main
from scalewright.reproductions import collectives, kernels
from scalewright.reproductions.metrics import refuse_misspelt_metric
from scalewright.reproductions.misspelt import refuse_misspelt_hardware, refuse_misspelt_model
from test_rows_in_words import priced

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from _pytest.capture import CaptureFixture

TRAINING = "dgx-a100-80gb,64,gpt3-6.7b,2048,512,2,1,4,bf16,step time,3.6,s"
HEADER = "system,devices,model,seq,global_batch,tp,pp,micro_batch,dtype,metric,value,unit"


def written(tmp_path: Path, *lines: str) -> str:
    file = tmp_path / "own.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"hardware": "dgx-a100-80gx"}, "unknown name 'dgx-a100-80gx'; nearest: dgx-a100-80gb"),
        ({"hardware": "DGX A100 80GX"}, "unknown name 'DGX A100 80GX'; nearest: dgx-a100-80gb"),
        ({"hardware": "h100_sxx"}, "unknown name 'h100_sxx'; nearest: h100-sxm"),
        ({"model": "gtp3-6.7b"}, "unknown name 'gtp3-6.7b'; nearest: gpt3-6.7b"),
        ({"metric": "step tme"}, "metric: unknown name 'step tme'; nearest: step_time"),
        ({"metric": "setp time"}, "metric: unknown name 'setp time'; nearest: step_time"),
        ({"metric": "tokns/s"}, "metric: unknown name 'tokns/s'; nearest: tokens_s"),
    ],
)
def test_a_row_with_a_misspelt_name_says_which_is_near(
    tmp_path: Path, cells: dict[str, str], reason: str
) -> None:
    (row,) = priced(tmp_path, cells)
    assert row["status"] == "skipped"
    assert reason in row["reason"]


@pytest.mark.parametrize(
    "cells",
    [
        {"hardware": "8x A100-SXM4-80GB x8"},
        {"hardware": "h100s"},
        {"hardware": "8h100"},
        {"hardware": "NVIDIA A100-SXM4-80GB x8"},
        {"model": "GPT 6.8B"},
        {"model": "gpt3-7.5b", "gbs": "128"},
        {"model": "LLaMA V2 7B"},
        {"metric": "step times"},
        {"metric": "sec/iter"},
        {"metric": "pflops_per_gpu", "value": "0.4", "unit": "PFLOP/s"},
    ],
)
def test_families_counts_and_plurals_are_no_misspellings(
    tmp_path: Path, cells: dict[str, str]
) -> None:
    (row,) = priced(tmp_path, cells)
    assert row["reason"] is None


@given(kind=st.sampled_from(["device", "system"]), data=st.data())
def test_known_names_are_never_misspelt(kind: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(names("device" if kind == "device" else "system")))
    for spelling in (name, name.upper(), name.replace("-", "_"), f"8x {name}", f"{name} x8"):
        refuse_misspelt_hardware(spelling)


@given(st.sampled_from(names("model")))
def test_known_models_are_never_misspelt(name: str) -> None:
    for spelling in (name, name.upper(), name.replace("-", "_")):
        refuse_misspelt_model(spelling)


@given(place=st.integers(0, 12), letter=st.sampled_from("qwz"))
def test_a_wrong_letter_in_a_long_name_is_refused_wherever_it_stands(
    place: int, letter: str
) -> None:
    name = "dgx-a100-80gb"
    wrong = name[:place] + letter + name[place + 1 :]
    with pytest.raises(sw.UnknownNameError, match=r"nearest: .*dgx-a100-80gb"):
        refuse_misspelt_hardware(wrong)


@given(st.text(max_size=80))
def test_any_text_is_refused_by_name_or_passed_on(text: str) -> None:
    for check in (refuse_misspelt_hardware, refuse_misspelt_model, refuse_misspelt_metric):
        with contextlib.suppress(sw.UnknownNameError):
            check(text)


def test_rows_of_kernels_and_collectives_do_so_too(tmp_path: Path) -> None:
    file = written(tmp_path, "system,gemm_dtype,k,m,n,latency_us", "h100_sxx,bf16,64,64,64,9")
    (row,) = kernels.run(None, file)["rows"]
    assert row["reason"] == "system: unknown name 'h100_sxx'; nearest: h100-sxm"
    file = written(tmp_path, "system,collective,ranks,bytes,time_us", "h100_sxx,all_reduce,8,8,40")
    (row,) = collectives.run(file)["rows"]
    assert row["reason"] == "system: unknown name 'h100_sxx'; nearest: h100-sxm"


def test_a_device_known_by_words_is_noted(tmp_path: Path) -> None:
    file = written(
        tmp_path, "system,gemm_dtype,k,m,n,latency_us", "my h20_sxm,bf16,4096,4096,64,90"
    )
    (row,) = kernels.run(None, file)["rows"]
    assert row["note"].startswith("system 'my h20_sxm' taken as h20")


def test_a_system_known_by_its_device_is_noted(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    head, run = "system,collective,ranks,bytes,time_us", "my H100 SXM,all_reduce,8,1048576,40"
    file = written(tmp_path, head, run)
    (row,) = collectives.run(file)["rows"]
    assert row["note"] == "system 'my H100 SXM' taken as dgx-h100"
    assert main(["reproduce", "--rows", file]) == 0
    assert f"noted 1 (own.csv:2): {row['note']}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([HEADER, TRAINING], 0),
        ([HEADER, TRAINING.replace("80gb", "80gx")], 2),
        ([HEADER, TRAINING, TRAINING.replace("80gb", "80gx")], 0),
        (["system,gemm_dtype,k,m,n,latency_us", "h100-sxm,bf16,4096,4096,4096,250"], 0),
        (["system,gemm_dtype,k,m,n,latency_us", "h100_sxx,bf16,4096,4096,4096,250"], 2),
        (["system,collective,ranks,bytes,time_us", "dgx-h100,all_reduce,8,1048576,40"], 0),
        (["system,collective,ranks,bytes,time_us", "dgx-h100,all_reduc,8,1048576,40"], 2),
    ],
)
def test_a_file_of_which_every_row_was_skipped_is_wrong_input(
    tmp_path: Path, capsys: CaptureFixture[str], lines: Sequence[str], status: int
) -> None:
    file = written(tmp_path, *lines)
    assert main(["reproduce", "--rows", file]) == status
    assert main(["reproduce", "--rows", file, "--json"]) == status
    assert capsys.readouterr().out


def test_text_says_for_what_a_name_was_taken(tmp_path: Path, capsys: CaptureFixture[str]) -> None:
    taken = TRAINING.replace("dgx-a100-80gb", "A100 SXM 80 GB NVLink")
    assert main(["reproduce", "--rows", written(tmp_path, HEADER, taken)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 hardware 'A100 SXM 80 GB NVLink' taken as dgx-a100-80gb" in shown


@pytest.mark.parametrize(
    "text",
    [
        *("H200 141G", "H200-141G", "L40S 48G", "A100-80G", "GB200 NVL36", "8x A100 80G"),
        *("V100 32G", "mi355", "MI325"),
    ],
)
def test_sizes_and_other_numbers_are_no_wrong_letters(text: str) -> None:
    refuse_misspelt_hardware(text)
