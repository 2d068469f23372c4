"""What is taken of programs that a row names, by their year, their compiler and their words?"""

from __future__ import annotations

import pytest

from rows_to_read import GPT, LLAMA, MIXTURE, taken
from scalewright import catalog
from scalewright.errors import InvalidError
from scalewright.reproductions.adapters import adapted
from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.guesses import of_usual_length
from scalewright.reproductions.machine import Machines
from scalewright.reproductions.programs import with_program
from scalewright.reproductions.reading import Row
from scalewright.reproductions.setting import setting_of


@pytest.mark.parametrize(
    ("words", "name", "profile"),
    [
        ("torchtitan (2025)", "deepseek-v3", "torchtitan-experts-eager+efficient-attention"),
        ("torchtitan (2025)", "qwen3-30b-a3b", "torchtitan-experts-eager"),
        ("torchtitan (2025), model compiled", "qwen3-30b-a3b", "torchtitan-experts-2025"),
        ("torchtitan (2026)", "deepseek-v3", "torchtitan-experts"),
        ("PyTorch 2.7 (2026)", "qwen3-30b-a3b", "eager-llama-fsdp"),
        ("PyTorch 2.10 (2026)", "qwen3-30b-a3b", "eager-llama-fsdp-2026"),
    ],
)
def test_programs_of_mixtures_go_by_their_year_and_their_compiler(
    words: str, name: str, profile: str
) -> None:
    cells = {"paper": "A page", "source": words, "zero": "FSDP2"}
    assert taken(cells, "h100-sxm", MIXTURE | {"name": name}) == profile


@pytest.mark.parametrize(
    ("device", "cells", "profile"),
    [
        ("a100-sxm-80gb", {}, "eager-llama"),
        ("a100-sxm-80gb", {"paper": "A page of 2026"}, "eager-llama-2026"),
        ("mi300x", {"tensor": "1", "pipeline": "1"}, "eager-llama"),
        ("a100-sxm-80gb", {"tensor": "8"}, None),
        ("h100-sxm", {"pipeline": "4"}, "flash-attention-2"),
        ("a100-sxm-80gb", {"source": "trained with Fast-LLM"}, None),
        ("h100-sxm", {"source": "LiBai of OneFlow"}, "flash-attention-2"),
        ("ascend-910b1", {}, None),
        ("trainium2", {}, None),
        ("tpu-v5p", {}, "xla-flash"),
    ],
)
def test_a_program_that_nobody_names_is_pytorchs_where_one_of_it_could_run_so(
    device: str, cells: dict[str, str], profile: str | None
) -> None:
    assert taken({"paper": "A page of 2024", **cells}, device) == profile


def test_steps_of_ones_own_are_of_no_program_unless_they_say_so() -> None:
    assert taken({"paper": "own"}, "a100-sxm-80gb") is None  # what a file is called
    assert taken({"source": "a remark"}, "a100-sxm-80gb") is None


def test_models_with_layer_norms_of_a_program_that_nobody_names_run_their_kernels() -> None:
    assert taken({"paper": "A page of 2024"}, "a100-sxm-80gb", GPT) == "eager-gpt"


def test_deepseek_trains_by_its_own_program() -> None:
    cells = {"paper": "DeepSeek-AI 2024", "pipeline": "16"}
    assert taken(cells, "h800-sxm", MIXTURE) == "hai-llm-2024"


def test_a_model_that_has_the_name_of_a_program_names_none() -> None:
    cells = {"paper": "A page of 2024", "source": "Mistral-Nemo-12B, a recipe"}
    nemo = {**cells, "source": "NeMo, a recipe"}
    assert taken(cells, "h100-sxm") == taken({**cells, "source": "a recipe"}, "h100-sxm")
    assert taken(nemo, "h100-sxm") != taken(cells, "h100-sxm")


@pytest.mark.parametrize(("name", "tokens"), [("llama3-8b", "8192"), ("llama2-7b", "4096")])
def test_the_length_of_a_shipped_configuration_is_that_of_its_models(
    name: str, tokens: str
) -> None:
    row = Row("own.csv", 2, {"paper": "A page", "metric": "tokens/s", "source": "torchtitan"})
    assert of_usual_length(row, catalog.load_model(name))[0].text("sequence") == tokens


@pytest.mark.parametrize("said", ["compile", "per-layer compile", "compiled blocks"])
def test_layers_compiled_under_fsdp_are_of_the_compiler(said: str) -> None:
    cells = {"paper": "A page of 2026", "zero": "FSDP2", "source": said}
    assert taken(cells, "h100-sxm") == "torchtitan-compile"
    for denied in (f"no {said}", f"{said}=no", f"{said} not stated"):
        assert taken({**cells, "source": denied}, "h100-sxm") != "torchtitan-compile"


def test_attention_of_a_name_like_a_programs_names_none() -> None:
    cells = {"paper": "A page of 2024", "source": "Lightning Attention-2, a comparison"}
    assert taken(cells, "h100-sxm") == taken({**cells, "source": "a comparison"}, "h100-sxm")
    assert taken({**cells, "source": "Lightning 2.1"}, "h100-sxm") == "eager-llama"


@pytest.mark.parametrize("sharding", ["ZeRO-3 Offload", "ZeRO-Infinity", "ZeRO-Offload"])
def test_offloading_of_deepspeed_is_of_pytorch(sharding: str) -> None:
    cells = {"paper": "A page of 2024", "zero": sharding}
    assert taken(cells, "h100-sxm") == "eager-llama"


def test_a_compile_behind_a_plus_is_the_compiler() -> None:
    compiled = taken({"source": "PyTorch eager + compile, batch 8"}, "h100-sxm", GPT)
    assert compiled == taken({"source": "torch.compile, batch 8"}, "h100-sxm", GPT)
    assert compiled != taken({"source": "PyTorch eager, batch 8"}, "h100-sxm", GPT)


def test_remarks_on_a_rank_of_adapters_are_of_the_run() -> None:
    one = {"source": "a report: LoRA rank/alpha 32, one document per step"}
    several = {"source": "LoRA rank 8, and LoRA rank 32"}
    denied = {"source": "full training, no LoRA"}
    assert adapted(Row("own.csv", 2, one))[0].text("lora") == "32"
    for cells in (several, denied):
        assert not adapted(Row("own.csv", 2, cells))[0].text("lora")


def test_the_program_of_a_report_is_not_of_papers_on_its_model() -> None:
    own, other = (
        conventions_of(Row("own.csv", 2, {"paper": paper, "model": "DeepSeek-V3"}))
        for paper in ("DeepSeek-V3 (arXiv 2412.19437)", "DeepSeek-V3 on 256 B300, UCCL vs NCCL")
    )
    assert own.known
    assert not other.known
    assert other.software is None


@pytest.mark.parametrize(
    ("said", "profile"),
    [
        ("torchtitan (2026)", "torchtitan-eager-2026"),
        ("torchtitan (2026), compiled", "torchtitan-compile-2026"),
        ("torchtitan (2026), compile off", "torchtitan-eager-2026"),
        ("torchtitan (2025), no compile", "torchtitan-eager+fused-adamw"),
        ("torchtitan (2025), AsyncTP", "torchtitan-compile+fused-adamw"),
        ("torchtitan (2024)", "torchtitan-eager"),
    ],
)
def test_torchtitan_is_compiled_where_its_row_says_so_and_as_old_as_that(
    said: str, profile: str
) -> None:
    assert taken({"paper": said}, "h100-sxm") == profile


@pytest.mark.parametrize(
    ("dtype", "profile"),
    [("FP8", "torchtitan-compile"), ("float8", "torchtitan-compile"), ("bf16", "torchtitan-eager")],
)
def test_torchtitan_compiles_what_multiplies_narrow_formats(dtype: str, profile: str) -> None:
    assert taken({"paper": "torchtitan (2024)", "dtype": dtype}, "h100-sxm") == profile


def test_maxtext_takes_its_batch_of_a_device_in_one_step() -> None:
    cells = {"hardware": "TPU v4", "devices": "4", "model": "llama2-7b", "sequence": "2048"}
    figure = {"metric": "step time", "value": "1", "unit": "s", "zero": "FSDP over 4 chips"}
    run = {**cells, **figure, "micro_batch": "8"}
    told = setting_of(Row("own.csv", 2, {**run, "program": "MaxText"}), Machines())
    assert told.batches == (32,)
    with pytest.raises(InvalidError, match="global_batch"):
        setting_of(Row("own.csv", 2, {**run, "program": "JAX of our own"}), Machines())


@pytest.mark.parametrize(
    ("device", "peak"), [("max-1550-stack", "298.2 TFLOP/s"), ("h100-sxm", "bf16")]
)
def test_mfu_is_of_the_peak_that_the_program_counts_with(device: str, peak: str) -> None:
    for metric, counted in (("MFU", peak), ("tokens/s", None)):
        row = Row("own.csv", 2, {"paper": "torchtitan (2026)", "metric": metric})
        conventions, _ = with_program(row, conventions_of(row), device, LLAMA)
        assert (conventions.peak or None) == counted
