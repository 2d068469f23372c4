"""Which degrees, batches and boards does a row have that names its program or chips alone?"""

from __future__ import annotations

from typing import Any

import pytest

from scalewright.errors import InvalidError
from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.machine import Machines, machine_of
from scalewright.reproductions.programs import with_program
from scalewright.reproductions.reading import Row
from scalewright.reproductions.setting import setting_of

BARE = {
    "paper": "A page of 2025",
    "hardware": "DGX H100",
    "devices": "8",
    "model": "llama3-8b",
    "sequence": "8192",
    "metric": "memory",
    "value": "60",
    "unit": "GiB",
}


def test_torchtitan_shares_weights_among_all_ranks_and_does_not_accumulate() -> None:
    row = Row("own.csv", 2, {**BARE, "program": "torchtitan", "micro_batch": "2"})
    setting = setting_of(row, Machines())
    degrees = [setting.space[axis] for axis in ("tensor", "pipeline", "context", "data", "zero")]
    assert degrees == [[1], [1], [1], [8], [3]]
    assert setting.batches == (16,)
    told = Row("own.csv", 2, {**row.cells, "tensor": "2", "global_batch": "64"})
    assert (setting_of(told, Machines()).space["data"], setting_of(told, Machines()).batches) == (
        [4],
        (64,),
    )


@pytest.mark.parametrize("said", ["torchtitan", "PyTorch of our own"])
def test_memory_without_a_batch_of_any_kind_is_not_priced(said: str) -> None:
    with pytest.raises(InvalidError, match="global_batch"):
        setting_of(Row("own.csv", 2, {**BARE, "program": said}), Machines())


def test_trainers_of_hugging_face_models_have_no_tensor_or_pipeline_ranks() -> None:
    cells = {**BARE, "metric": "tokens/s", "unit": "", "zero": "3"}
    spaces = {
        said: setting_of(Row("own.csv", 2, {**cells, "program": said}), Machines()).space
        for said in ("XTuner", "axolotl", "Megatron-LM, converted by Hugging Face Trainer")
    }
    assert spaces["XTuner"]["tensor"] == spaces["XTuner"]["pipeline"] == [1]
    assert spaces["XTuner"]["recompute"] == ["full"]
    assert spaces["axolotl"]["tensor"] == [1]
    assert "recompute" not in spaces["axolotl"]
    assert "tensor" not in spaces["Megatron-LM, converted by Hugging Face Trainer"]


@pytest.mark.parametrize(
    ("norm", "profile"), [("rmsnorm", "torchtitan-compile"), ("layernorm", "compiled-gpt")]
)
def test_nanochat_is_compiled(norm: str, profile: str) -> None:
    row = Row("own.csv", 2, {"paper": "A page", "program": "nanochat"})
    model: dict[str, Any] = {"norm": norm}
    told, _ = with_program(row, conventions_of(row), "a100-sxm-80gb", model)
    assert told.software == profile


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        ({"hardware": "TPU v3-32", "tensor": "8", "data": "4"}, {"tensor": [4], "data": [4]}),
        ({"hardware": "TPU v3-32", "data": "32", "tensor": "1"}, {"tensor": [1], "data": [16]}),
        ({"hardware": "TPU v3-32", "tensor": "4", "data": "4"}, {"tensor": [4], "data": [4]}),
        ({"hardware": "TPU v4-32", "tensor": "4", "data": "4"}, {"tensor": [4], "data": [4]}),
        ({"hardware": "TPU v7", "devices": "64", "zero": "FSDP=128"}, {"zero": [3]}),
    ],
)
def test_ranks_of_cores_are_counted_by_chips(
    cells: dict[str, str], wanted: dict[str, list[int]]
) -> None:
    run = {column: text for column, text in BARE.items() if column not in {"hardware", "devices"}}
    row = Row("own.csv", 2, {**run, "global_batch": "256", "pipeline": "1", **cells})
    space = setting_of(row, Machines()).space
    assert {field: space[field] for field in wanted} == wanted
    assert "zero_group" not in space


def test_tiles_that_the_hardware_names_are_halves_of_boards() -> None:
    for hardware, name in (("SunSpot (PVC, 12 tiles a node)", "aurora"), ("PVC", "aurora-cards")):
        row = Row("own.csv", 2, {"hardware": hardware, "devices": "12"})
        assert machine_of(row, Machines()).system["name"] == name


@pytest.mark.parametrize(
    ("cells", "device", "hidden"),
    [
        ({"program": "Megatron-LM"}, "h100-sxm", False),
        ({"program": "Megatron-LM", "source": "overlap grad-reduce"}, "h100-sxm", None),
        ({"program": "Megatron-LM", "source": "no overlap-grad-reduce"}, "h100-sxm", False),
        ({"program": "Megatron-LM", "zero": "FSDP"}, "h100-sxm", None),
        ({"program": "Megatron-LM"}, "mi300x", None),
        ({"program": "NeMo"}, "h100-sxm", None),
        ({"paper": "MLPerf v5.1", "program": "Megatron-LM"}, "h100-sxm", None),
        ({"program": "GPT-NeoX"}, "a100-sxm-80gb", False),
        ({"program": "PyTorch of our own"}, "h100-sxm", None),
    ],
)
def test_reductions_of_gradients_are_hidden_where_the_program_does_so_unasked(
    cells: dict[str, str], device: str, hidden: bool | None
) -> None:
    row = Row("own.csv", 2, {"paper": "A page of 2025", **cells})
    space = with_program(row, conventions_of(row), device, {"norm": "rmsnorm"})[0].space
    assert space.get("overlap_grad_reduce") == (None if hidden is None else [hidden])


@pytest.mark.parametrize(("words", "hidden"), [("", [False]), ("AsyncTP", None)])
def test_tensor_ranks_of_torchtitan_wait_unless_they_are_asynchronous(
    words: str, hidden: list[bool] | None
) -> None:
    row = Row("own.csv", 2, {"paper": "torchtitan (2025)", "table": words})
    space = with_program(row, conventions_of(row), "h100-sxm", {"norm": "rmsnorm"})[0].space
    assert space.get("overlap_tensor") == hidden


@pytest.mark.parametrize(
    ("program", "paper", "again"),
    [
        ("MaxText", "A page", ["full"]),
        ("Levanter", "A page", ["full"]),
        ("TRL", "A page of 2026", ["full"]),
        ("TRL", "A page of 2024", None),
        ("LLaMA-Factory", "A page", ["full"]),
        ("torchtitan", "A page", ["selective", "full"]),
        ("axolotl", "A page", None),
    ],
)
def test_layers_are_computed_again_where_the_program_does_so_unasked(
    program: str, paper: str, again: list[str] | None
) -> None:
    device = "tpu-v5p" if program in {"MaxText", "Levanter"} else "h100-sxm"
    row = Row("own.csv", 2, {"paper": paper, "program": program})
    space = with_program(row, conventions_of(row), device, {"norm": "rmsnorm"})[0].space
    assert space.get("recompute") == again


def test_what_is_like_a_program_is_not_that_program() -> None:
    row = Row("own.csv", 2, {"paper": "PyTorch, Megatron-style buckets of gradients"})
    told, _ = with_program(row, conventions_of(row), "h100-sxm", {"norm": "rmsnorm"})
    assert told.software == "eager-llama"
