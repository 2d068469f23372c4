"""What program is taken to have run a row that names none?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows_to_read import GPT, LLAMA, MIXTURE, taken
from scalewright import catalog
from scalewright.catalog.layers import built_in_root
from scalewright.catalog.toml_file import read_table
from scalewright.errors import InvalidError
from scalewright.reproductions.adapters import adapted
from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.guesses import of_usual_length
from scalewright.reproductions.machine import Machines, machine_of
from scalewright.reproductions.pricing import Pricing, uneven
from scalewright.reproductions.programs import with_program
from scalewright.reproductions.reading import Row, shipped_rows
from scalewright.reproductions.setting import setting_of

BOOK = read_table(built_in_root() / "programs.toml")["programs"]
BOARDS = read_table(built_in_root() / "programs.toml")["boards"]
AGES = read_table(built_in_root() / "habits.toml")["ages"]
LENGTHS = read_table(built_in_root() / "habits.toml")["lengths"]


@pytest.mark.parametrize("place", range(len(BOOK)))
def test_every_class_has_a_condition_a_source_and_a_profile_of_the_catalog(place: int) -> None:
    entry = BOOK[place]
    assert {"named", "zero", "devices", "until"} & set(entry)
    assert len(entry["source"]) > 20
    for profile in filter(None, str(entry.get("software", "")).split("+")):
        assert profile in catalog.software_names()
    assert not {word for words in entry.get("says", ()) for word in words if word.lower() != word}
    devices = entry.get("devices", ())
    for pattern in BOARDS[devices] if isinstance(devices, str) else devices:
        stem = pattern.partition("[")[0].rstrip("*-")
        assert any(name.startswith(stem) for name in catalog.names("device")), pattern
    assert entry.get("norm", "rmsnorm") in {"rmsnorm", "layernorm"}


def facts(
    cells: dict[str, str], device: str, model: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the facts of software that a row is given."""
    row = Row("own.csv", 2, cells)
    return with_program(row, conventions_of(row), device, model or LLAMA)[0].training


@pytest.mark.parametrize("place", range(len(AGES)))
def test_every_age_has_a_year_facts_and_a_source(place: int) -> None:
    age = AGES[place]
    assert 2015 < age["until"] < 2026
    assert age["training"]
    assert len(age["means"]) > 20
    assert len(age["source"]) >= len("As above")
    later = [one["until"] for one in AGES[place + 1 :]]
    assert all(age["until"] <= until for until in later), "the first that holds counts"


def test_nothing_is_taken_to_be_older_than_what_it_needs() -> None:
    old = facts({"paper": "Doe et al. 2021"}, "a100-sxm-80gb", GPT)
    assert old["flash_attention"] is False
    assert old["dropout"] is True
    assert "dropout" not in facts({"paper": "Doe et al. 2021"}, "a100-sxm-80gb", LLAMA)
    assert facts({"paper": "Doe (arXiv 2210.01234)"}, "a100-sxm-80gb")["flash_attention"] is False
    assert facts({"paper": "Doe et al. 2023"}, "a100-sxm-80gb", GPT) == {}
    row = Row("own.csv", 2, {"paper": "Doe et al. 2022"})
    told, _ = with_program(row, conventions_of(row), "a100-sxm-80gb", GPT)
    assert told.space["recompute"] == ["none", "full"], "selective recomputation came that May"
    assert facts({"paper": "Doe"}, "a100-sxm-80gb", GPT) == {}
    # a later source than the paper may report a later program
    assert facts({"paper": "Doe 2021", "source": "README of 2024"}, "a100-sxm-80gb") == {}
    assert taken({"paper": "Doe et al. 2021"}, "tpu-v3") == "xla"
    assert taken({"paper": "Doe et al. 2021", "zero": "FSDP"}, "a100-sxm-80gb") == (
        "eager-llama-fsdp"
    )


@pytest.mark.parametrize("year", ["2021", "2023"])
def test_the_year_of_a_row_that_names_no_software_goes_into_its_job(year: str) -> None:
    cells = {"paper": f"Doe {year}", "hardware": "DGX A100 80GB", "devices": "64"}
    cells |= {"model": "gpt3-6.7b", "sequence": "2048", "global_batch": "256", "tensor": "4"}
    cells |= {"pipeline": "1", "metric": "tokens_per_s", "value": "1", "zero": "1"}
    setting = setting_of(Row("own.csv", 2, cells), Machines())
    said = any("scores in memory" in note for note in setting.notes)
    assert said == (year == "2021")
    assert setting.training.get("flash_attention", True) is (year != "2021")
    assert (setting.space.get("sequence_parallel") == [False]) == (year == "2021")


def test_a_board_of_volta_or_before_is_of_its_time_where_no_year_is_said() -> None:
    assert facts({"paper": "Doe"}, "v100-sxm-16gb", GPT)["flash_attention"] is False
    assert facts({"paper": "Doe"}, "tpu-v3", GPT)["flash_attention"] is False
    assert facts({"paper": "Doe et al. 2024"}, "v100-sxm-16gb", GPT) == {}
    row = Row("own.csv", 2, {"paper": "Doe"})
    _, said = with_program(row, conventions_of(row), "v100-sxm-16gb", GPT)
    assert any("no year is said, on v100-sxm-16gb 2022" in note for note in said)


def test_a_program_that_the_row_names_comes_before_its_sharding_and_device() -> None:
    fsdp = {"paper": "A page", "zero": "FSDP"}
    assert taken(fsdp, "h100-sxm") == "eager-llama-fsdp"
    assert taken(fsdp, "h100-sxm", GPT) == "eager-gpt-fsdp"
    assert taken({**fsdp, "framework": "JAX"}, "h100-sxm") == "xla-gpu"
    assert taken({**fsdp, "framework": "JAX"}, "tpu-v5e") == "xla-flash"
    assert taken(
        {**fsdp, "source": "foundation-model-stack/fms-fsdp README.md"}, "a100-sxm-80gb"
    ) == ("fms-fsdp-2024")
    assert taken({**fsdp, "program": "Megatron-LM 2024"}, "h100-sxm") == "megatron-eager"


def test_without_a_name_the_sharding_the_device_or_the_year_tells_a_class() -> None:
    assert taken({"paper": "A page", "zero": "ZeRO-1"}, "tpu-v4") == "xla-flash"
    assert taken({"paper": "A page of 2023"}, "h100-sxm") == "hopper-2023"
    assert taken({"paper": "A page of 2023, again in 2024"}, "h100-sxm") == "eager-llama"
    assert taken({"paper": "Megatron-LM in 2024"}, "h100-sxm") == "megatron-eager"
    assert taken({"paper": "A page of 2026"}, "h100-sxm") == "eager-llama-2026"
    assert taken({"paper": "A page of 2026", "tensor": "8"}, "h100-sxm") is None
    flash = {"paper": "A page", "program": "FA2", "tensor": "8"}
    assert taken(flash, "h100-sxm") == "flash-attention-2"
    assert taken({"paper": "A page of 2023"}, "a100-sxm-80gb") == "eager-llama"
    assert taken({"paper": "A page (arXiv 2311.01234)"}, "h100-sxm") == "hopper-2023"
    assert taken({"paper": "Megatron-LM in 2023"}, "h100-sxm", GPT) == (
        "hopper-2023+megatron-deepspeed-2022"
    )
    assert taken({"paper": "Megatron-LM in 2023"}, "h100-sxm") == (
        "hopper-2023+megatron-2023-llama"
    )
    assert taken({"paper": "Megatron-LM in 2023"}, "a100-sxm-80gb") == "megatron-2023-llama"
    assert taken({"paper": "Megatron-LM in 2023"}, "a100-sxm-80gb", GPT) == (
        "megatron-deepspeed-2022"
    )
    # 2,048 tokens are no year
    assert taken({"paper": "A page of 2023", "source": "seq 2048"}, "h100-sxm") == "hopper-2023"
    assert taken({"paper": "A page of 2023", "zero": "FSDP"}, "h100-sxm") == "eager-llama-fsdp"
    later = {"paper": "A page of 2026", "zero": "FSDP2"}
    assert taken(later, "h100-sxm") == "eager-llama-fsdp-2026"
    assert taken({"paper": "A page of 2023 (arXiv 2401.01234)"}, "h100-sxm") == "eager-llama"
    compiled = {"paper": "A page", "zero": "FSDP", "program": "torch.compile"}
    assert taken(compiled, "h100-sxm") == "torchtitan-compile"
    assert taken(compiled | {"program": "no torch.compile"}, "h100-sxm") == "eager-llama-fsdp"
    release = {"paper": "A page", "source": "release 2023.0412"}
    assert taken(release, "h100-sxm") == taken({"paper": "A page"}, "h100-sxm") == "eager-llama"
    assert taken({"paper": "A page", "zero": "ZeRO-1", "tensor": "8"}, "h100-sxm") is None
    shared = {"paper": "A page", "program": "DeepSpeed", "zero": "3"}
    assert taken(shared, "h100-sxm") == "eager-llama+deepspeed-zero3-llama"
    assert taken(shared, "h100-sxm", GPT) == "eager-gpt+deepspeed-zero3"
    assert taken({**shared, "zero": "2"}, "h100-sxm") == "eager-llama"
    # others share weights, too
    assert taken({"paper": "A page", "program": "FSDP", "zero": "3"}, "h100-sxm") == "eager-llama"
    assert taken(shared, "tpu-v4") == "xla-flash"


@pytest.mark.parametrize(
    ("words", "device", "profile"),
    [
        ("", "h100-sxm", "megatron-bridge-eager"),
        ("DeepEP", "h100-sxm", "megatron-bridge-deepep-eager+megatron-bridge-unpaired"),
        ("DeepEP, 1f1b overlap", "h100-sxm", "megatron-bridge-deepep-eager"),
        ("HybridEP, EP overlap", "h200-sxm", "megatron-bridge-hybridep+megatron-core-paired"),
        ("paged stash, full CG", "gb300", "megatron-bridge-full-graph"),
        ("paged stash, full CG", "h100-sxm", "megatron-bridge-eager"),
        ("", "gb200", "megatron-bridge-eager-grace"),
        ("", "gh200-96gb", "megatron-bridge-eager-grace"),
        ("", "b300-sxm", "megatron-bridge-eager"),
        ("Megatron-Bridge's recipes", "gb200", "megatron-bridge-grace"),
        ("NeMo 26.02", "b300-sxm", "megatron-bridge-partial"),
        ("", "a100-sxm-80gb", "megatron-bridge-eager"),
    ],
)
def test_words_tell_how_megatron_core_moves_tokens(words: str, device: str, profile: str) -> None:
    cells = {"paper": "A page", "table": words, "program": "Megatron-LM"}
    assert taken(cells, device, MIXTURE) == profile
    # dense models have no tokens to move
    eager = "megatron-eager-grace" if device.startswith("g") else "megatron-eager"
    dense = None if "full CG" in cells["table"] else eager
    assert taken(cells, device, LLAMA) == dense
    row = Row("own.csv", 2, cells)
    assert with_program(row, conventions_of(row), device, MIXTURE)[0].flops == "model_causal"


def test_a_model_with_kernels_of_its_own_comes_before_other_mixtures() -> None:
    cells = {"paper": "A page", "program": "Megatron-LM"}
    assert taken(cells, "h100-sxm", {**MIXTURE, "name": "gpt-oss-120b"}) == (
        "megatron-bridge-gpt-oss-again"
    )


@pytest.mark.parametrize("entry", LENGTHS)
def test_long_sequences_of_mixtures_fill_a_micro_batch(entry: dict[str, Any]) -> None:
    assert len(entry["source"]) > 20
    for sequence, micro in ((entry["beyond"], None), (entry["beyond"] + 1, [1])):
        cells = {"paper": "A page", "program": "Megatron-LM", "sequence": str(sequence)}
        row = Row("own.csv", 2, cells)
        space = with_program(row, conventions_of(row), "h100-sxm", MIXTURE)[0].space
        assert space.get("micro_batch") == micro


@given(layers=st.integers(1, 200), pipeline=st.integers(1, 16), interleave=st.integers(1, 8))
def test_layers_that_do_not_divide_lie_evenly_between_the_ends(
    layers: int, pipeline: int, interleave: int
) -> None:
    count = pipeline * interleave
    ends = uneven({"pipeline": [pipeline], "interleave": [interleave]}, layers)
    most = -(-layers // count)
    if layers % count == 0 or count == 1 or most * (count - 2) >= layers:
        assert ends is None
        return
    assert ends is not None
    left = layers - most * (count - 2)
    for first in ends["first_layers"]:
        assert left - first in ends["last_layers"]
        assert 0 <= left - first <= most


def test_a_row_of_an_unknown_paper_is_priced_where_layers_do_not_divide() -> None:
    cells = {"paper": "A page", "hardware": "DGX H100", "model": "llama2-7b"}
    cells |= {"sequence": "4096", "tensor": "1", "pipeline": "2"}
    cells |= {"devices": "16", "global_batch": "256", "micro_batch": "1", "interleave": "3"}
    cells |= {"metric": "tokens_per_s", "value": "1", "recompute": "full"}
    result = Pricing().price(setting_of(Row("own.csv", 2, cells), Machines()))
    assert any("do not divide" in note for note in result.notes)
    plan = result.fields()["plan"]
    assert plan["first_layers"] + plan["last_layers"] == 32 - 6 * 4


def test_a_name_is_a_word_and_not_a_part_of_one() -> None:
    unnamed = taken({"paper": "A page"}, "h100-sxm")
    assert taken({"paper": "Relaxed constraints"}, "h100-sxm") == unnamed != "pax-te"
    assert taken({"paper": "A paxml page"}, "h100-sxm") == "pax-te"
    named = {"paper": "A page of automodel"}, {"paper": "A page of automodels"}
    assert taken(named[0], "h100-sxm", MIXTURE) != taken(named[1], "h100-sxm", MIXTURE)


def test_nothing_is_taken_where_the_row_or_its_paper_says_the_program() -> None:
    named = Row("own.csv", 2, {"paper": "A page", "zero": "FSDP", "software": "nemo-2024"})
    assert with_program(named, conventions_of(named), "h100-sxm", LLAMA)[1] == ()
    for row in shipped_rows()[:400]:
        conventions = conventions_of(row)
        if conventions.known:
            assert with_program(row, conventions, "h100-sxm", LLAMA) == (conventions, ())


def test_what_was_taken_is_said_and_goes_into_the_job() -> None:
    cells = {"paper": "A page", "hardware": "DGX H100", "devices": "64", "model": "llama2-7b"}
    cells |= {"sequence": "4096", "global_batch": "256", "tensor": "1", "pipeline": "1"}
    cells |= {"metric": "tokens_per_s", "value": "1", "zero": "FSDP"}
    setting = setting_of(Row("own.csv", 2, cells), Machines())
    assert setting.training["software"]["name"] == "eager-llama-fsdp"
    assert "the row says 'FSDP': software taken as eager-llama-fsdp" in setting.notes
    own = setting_of(Row("own.csv", 2, {**cells, "software": "fms-fsdp-2024"}), Machines())
    assert own.training["software"]["name"] == "fms-fsdp-2024"
    assert not any("software taken" in note for note in own.notes)
    plain = setting_of(Row("own.csv", 2, {**cells, "zero": "1", "tensor": "8"}), Machines())
    assert "software" not in plain.training
    assert any("default software" in note for note in plain.notes)


def test_a_class_changes_plan_fields_only_where_the_row_leaves_them_open() -> None:
    cells = {"paper": "Pax", "hardware": "DGX H100", "devices": "64", "model": "gpt3-5b"}
    cells |= {"sequence": "2048", "global_batch": "256", "tensor": "1", "pipeline": "1"}
    cells |= {"metric": "tokens_per_s", "value": "1", "zero": "FSDP"}
    space = setting_of(Row("own.csv", 2, cells), Machines()).space
    assert space["overlap_param_gather"] == space["overlap_grad_reduce"] == [False]
    assert space["zero"] == [3]


@pytest.mark.parametrize(
    ("cells", "flops"),
    [
        ({"paper": "Doe 2021", "metric": "tflops_per_gpu", "recompute": "full"}, "hardware"),
        ({"paper": "Doe 2021", "metric": "tflops_per_gpu", "recompute": "none"}, "model"),
        ({"paper": "Doe 2021", "metric": "mfu", "recompute": "full"}, "model"),
        ({"paper": "Doe 2023", "metric": "tflops_per_gpu", "recompute": "full"}, "model"),
        ({"paper": "Doe", "metric": "tflops_per_gpu", "recompute": "full"}, "model"),
    ],
)
def test_recomputed_layers_count_as_authors_of_the_year_counted_them(
    cells: dict[str, str], flops: str
) -> None:
    row = Row("own.csv", 2, cells)
    assert with_program(row, conventions_of(row), "a100-sxm-80gb", GPT)[0].flops == flops


def test_a_container_says_the_year_of_what_it_holds() -> None:
    fp8 = {"paper": "A page", "program": "NeMo", "dtype": "FP8"}
    assert taken(fp8, "h100-sxm") == "megatron-eager"
    assert taken({**fp8, "source": "container nemo:24.07"}, "h100-sxm") == "nemo-2024"
    assert taken({**fp8, "source": "NeMo 25.04"}, "h100-sxm") == "megatron-eager"
    assert taken({**fp8, "source": "pytorch 2.4"}, "h100-sxm") == "megatron-eager"
    assert taken({**fp8, "dtype": "BF16", "source": "NeMo 24.07"}, "h100-sxm") == "megatron-eager"


def test_words_beside_a_sharding_tell_compiled_and_fused_programs() -> None:
    fsdp = {"paper": "A page", "zero": "FSDP2"}
    assert taken({**fsdp, "source": "with torch.compile"}, "h100-sxm") == "torchtitan-compile"
    assert taken({**fsdp, "program": "torchtitan"}, "h100-sxm") == "torchtitan-eager"
    assert taken({**fsdp, "source": "FSDP, fused rmsnorm"}, "a100-sxm-80gb") is None
    assert taken({**fsdp, "pipeline": "1"}, "h100-sxm") == "eager-llama-fsdp"
    assert taken({**fsdp, "pipeline": "16"}, "h100-sxm") is None
    assert taken({"paper": "InternLM/xtuner README"}, "a100-sxm-80gb") == "eager-llama"


def test_tensor_ranks_that_are_open_may_be_one_where_they_would_share_sequences() -> None:
    cells = {"paper": "A page", "program": "Megatron-LM", "hardware": "DGX B200", "devices": "8"}
    cells |= {"model": "qwen3-30b-a3b", "sequence": "4096", "global_batch": "64", "expert": "8"}
    cells |= {"micro_batch": "1", "metric": "tokens_per_s", "value": "1", "pipeline": "1"}
    space = setting_of(Row("own.csv", 2, cells), Machines()).space
    assert space["sequence_parallel"] == [False, True]
    fixed = setting_of(Row("own.csv", 2, {**cells, "tensor": "2"}), Machines()).space
    assert fixed["sequence_parallel"] == [True]
    alone = Pricing().price(setting_of(Row("own.csv", 2, {**cells, "tensor": "1"}), Machines()))
    either = Pricing().price(setting_of(Row("own.csv", 2, cells), Machines()))
    assert either.fields()["step_time_s"] <= alone.fields()["step_time_s"]


def test_what_a_program_does_unasked_gives_way_where_nothing_fits_so() -> None:
    cells = {"paper": "A page", "program": "Megatron-LM", "hardware": "DGX H100", "devices": "8"}
    cells |= {"model": "llama2-7b", "sequence": "4096", "global_batch": "64", "zero": "1"}
    cells |= {"metric": "tokens_per_s", "value": "1", "tensor": "1", "pipeline": "1"}

    def taken(**more: str) -> tuple[str, bool]:
        setting = setting_of(Row("own.csv", 2, {**cells, **more}), Machines())
        found = Pricing().price(setting).fields()
        return found["plan"]["recompute"], found["fits"]

    assert taken(micro_batch="1") == ("none", True)
    assert taken(micro_batch="8") == ("full", True)
    # what the row itself says stands, and so does the plan nearest to fitting
    assert taken(micro_batch="8", recompute="none") == ("none", False)
    assert taken(micro_batch="8", sequence="65536") == ("full", False)


def test_a_rate_without_a_sequence_is_priced_at_a_usual_length_and_a_time_is_refused() -> None:
    cells = {"paper": "A page", "hardware": "DGX H100", "devices": "8", "model": "llama2-7b"}
    cells |= {"metric": "tokens_per_s_per_gpu", "value": "1", "global_batch": "64"}
    setting = setting_of(Row("own.csv", 2, cells), Machines())
    assert setting.training["sequence"] == 4096
    assert any("4,096 tokens taken" in note for note in setting.notes)
    short = setting_of(Row("own.csv", 2, {**cells, "model": "gpt3-6.7b"}), Machines())
    assert short.training["sequence"] == catalog.load_model("gpt3-6.7b")["max_positions"]
    early = setting_of(Row("own.csv", 2, {**cells, "table": "of 2022"}), Machines())
    assert early.training["sequence"] == 2048
    stacks = setting_of(Row("own.csv", 2, {**cells, "model": "t5-large"}), Machines())
    assert stacks.training["sequence"] == 512
    with pytest.raises(InvalidError, match="tokens per sequence"):
        setting_of(Row("own.csv", 2, {**cells, "metric": "iteration_time"}), Machines())


def test_recipes_of_nemo_reduce_in_bf16_and_megatron_lm_in_fp32() -> None:
    assert facts({"paper": "A page", "program": "NeMo 25.09"}, "b200-sxm")["gradient"] == "bf16"
    assert facts({"paper": "MLPerf Training v5.1"}, "gb300")["gradient"] == "bf16"
    assert "gradient" not in facts({"paper": "A page", "program": "Megatron-LM"}, "b200-sxm")
    assert "gradient" not in facts({"paper": "A page", "program": "NeMo"}, "a100-sxm-80gb")


def test_a_row_that_says_lora_has_adapters_and_frozen_weights() -> None:
    cells = {"paper": "A page", "hardware": "DGX H100", "devices": "8", "model": "llama2-70b"}
    cells |= {"sequence": "8192", "global_batch": "8", "metric": "tokens_per_s", "value": "1"}
    plain = setting_of(Row("own.csv", 2, cells), Machines())
    learnt = setting_of(Row("own.csv", 2, {**cells, "table": "LoRA"}), Machines())
    assert '"lora"' not in plain.model
    assert '"lora"' in learnt.model
    assert any("adapters of rank 16" in note for note in learnt.notes)
    own = setting_of(Row("own.csv", 2, {**cells, "table": "LoRA", "lora": "8"}), Machines())
    assert not any("adapters of rank" in note for note in own.notes)


def test_remarks_tell_the_rank_of_adapters_and_beside_what_they_lie() -> None:
    cells = {"paper": "A page, LoRA", "model": "llama2-70b"}
    remarks = {"source": "a recipe; LoRA rank 64 on attention only; bf16"}
    told, notes = adapted(Row("own.csv", 2, cells | remarks))
    assert told.text("lora") == "64"
    assert told.text("lora_targets") == "linear_qkv, linear_proj"
    assert "rank 64 on those of attention" in notes[0]
    # several ranks are compared, and a column comes first
    several, _ = adapted(Row("own.csv", 2, cells | {"source": "LoRA rank 8, LoRA rank 64"}))
    assert (several.text("lora"), several.text("lora_targets")) == ("16", "")
    own, _ = adapted(Row("own.csv", 2, cells | remarks | {"lora_targets": "all"}))
    assert own.text("lora_targets") == "all"


@pytest.mark.parametrize("dtype", ["FP8", "NVFP4", "BF16"])
def test_narrow_weights_are_cast_once_a_step_on_blackwell(dtype: str) -> None:
    cells = {"paper": "A page", "program": "Megatron-LM", "dtype": dtype}
    narrow = "" if dtype == "BF16" else "megatron-bridge+"
    assert taken(cells, "b200-sxm") == f"{narrow}megatron-eager"
    assert taken(cells, "gb200") == f"{narrow}megatron-eager-grace"
    assert taken({**cells, "source": "2025"}, "h100-sxm") == "megatron-eager"


@pytest.mark.parametrize("words", ["dgxc-benchmarking", "NVIDIA performance summary", "DGX Cloud"])
def test_hosts_of_nvidia_issue_kernels_quicker_than_those_of_others(words: str) -> None:
    cells = {"paper": "A page", "program": "Megatron-LM", "dtype": "BF16"}
    for device, profile in (("h100-sxm", "megatron-eager"), ("gb200", "megatron-eager-grace")):
        assert taken(cells, device) == profile
        assert taken({**cells, "source": words}, device) == f"{profile}-tuned"
    fp8 = {**cells, "dtype": "FP8", "source": words}
    assert taken(fp8, "b200-sxm") == "megatron-bridge+megatron-eager-tuned"
    # nothing is said where no such profile is taken
    row = Row("own.csv", 2, {"paper": "A page", "framework": "JAX", "source": words})
    said = with_program(row, conventions_of(row), "h100-sxm", LLAMA)[1]
    assert said
    assert not any("hosts" in note for note in said)


@pytest.mark.parametrize("dtype", ["FP8", "NVFP4", "BF16"])
def test_a_host_that_replays_graphs_has_nothing_to_issue(dtype: str) -> None:
    cells = {"paper": "A page", "program": "Megatron-LM", "dtype": dtype}
    alone = None if dtype == "BF16" else "megatron-bridge"
    assert taken({**cells, "paper": "MLPerf v5.1"}, "gb300") == alone
    assert taken({**cells, "table": "CUDA graphs"}, "b200-sxm") == alone
    assert taken({**cells, "table": "no CUDA graphs"}, "b200-sxm") != alone


@pytest.mark.parametrize("words", ["without FlashAttention", "no flash attention"])
def test_a_row_that_says_so_keeps_its_scores_in_memory(words: str) -> None:
    assert facts({"paper": "A page", "table": words}, "a100-sxm-80gb")["flash_attention"] is False
    assert "flash_attention" not in facts({"paper": "A page", "table": "all"}, "a100-sxm-80gb")


@pytest.mark.parametrize(
    ("cells", "interleave"),
    [
        ({"pipeline": "8"}, [1]),
        ({"pipeline": "16", "program": "Megatron-LM"}, [1]),
        ({"pipeline": "8", "program": "NeMo"}, None),
        ({"pipeline": "8", "table": "interleaved 1F1B"}, None),
        ({"pipeline": "8", "interleave": "3"}, None),
        ({"pipeline": "1"}, None),
        ({"program": "NeMo"}, None),
        ({}, [1]),
    ],
)
def test_a_pipeline_of_which_no_virtual_stages_are_told_has_one_stage_a_rank(
    cells: dict[str, str], interleave: list[int] | None
) -> None:
    row = Row("own.csv", 2, {"paper": "A page", **cells})
    space = with_program(row, conventions_of(row), "a100-sxm-80gb", LLAMA)[0].space
    assert space.get("interleave") == interleave


@pytest.mark.parametrize(
    ("hardware", "devices", "chips"),
    [
        ("TPU v3-256 (cores)", 256, 128),
        ("TPU v3-8 (8 cores)", 8, 4),
        ("TPU v3-256 (cores)", 128, 128),
        ("TPU v4-256 (128 chips)", 128, 128),
    ],
)
def test_cores_of_a_slice_that_is_named_by_them_are_two_a_chip(
    hardware: str, devices: int, chips: int
) -> None:
    cells = {"hardware": hardware, "devices": str(devices)}
    machine = machine_of(Row("own.csv", 2, cells), Machines())
    assert machine.devices == chips
    assert any("cores" in note and "chip" in note for note in machine.notes) == (chips < devices)


def test_mics_shares_weights_within_a_node() -> None:
    cells = {"paper": "A page", "hardware": "DGX A100 80GB", "devices": "64", "tensor": "1"}
    cells |= {"model": "llama2-7b", "sequence": "4096", "global_batch": "64", "pipeline": "1"}
    cells |= {"metric": "tokens_per_s", "value": "1", "zero": "MiCS (within a node)"}
    space = setting_of(Row("own.csv", 2, cells), Machines()).space
    assert (space["zero"], space["zero_group"]) == ([3], [8])


@pytest.mark.parametrize(
    ("words", "model", "profile"),
    [
        ("PyTorch DDP, torch.compile", LLAMA, "torchtitan-compile"),
        ("PyTorch DDP, no torch.compile", LLAMA, "eager-llama"),
        ("Hugging Face Trainer, torch.compile off", LLAMA, "eager-llama"),
        ("OLMo-core", LLAMA, "torchtitan-compile"),
        ("axolotl, OLMo 2 7B", LLAMA, "eager-llama"),
        ("picotron", LLAMA, "nanotron-2024"),
        ("Hugging Face Transformers, autocast", LLAMA, "eager-llama+llama-autocast"),
        ("Hugging Face, no autocast", LLAMA, "eager-llama"),
        ("PyTorch and Transformer Engine, fp8_autocast", LLAMA, "eager-llama"),
        ("Hugging Face, Liger", LLAMA, "eager-llama+liger"),
        ("Hugging Face, without Liger", LLAMA, "eager-llama"),
        ("Hugging Face of 2026", LLAMA, "eager-llama-2026"),
        ("nanoGPT", GPT, "compiled-gpt"),
        ("train_gpt2cu of llm.c", GPT, "llm-c"),
        ("the PyTorch program beside llm.c", GPT, "eager-gpt"),
        ("https://huggingface.co/maker/model", GPT | {"name": "gpt2-xl"}, "eager-gpt"),
        ("https://huggingface.co/docs/x", GPT | {"name": "gpt2-xl"}, "eager-gpt2"),
        ("nanoGPT, no torch.compile", GPT, "eager-gpt"),
        ("PyTorch of 2026", GPT, "eager-gpt-2026"),
        ("PyTorch, autocast", GPT, "eager-gpt+gpt-autocast"),
        ("Hugging Face", GPT | {"name": "gpt2-xl"}, "eager-gpt2"),
        ("Hugging Face, autocast", GPT | {"name": "gpt2-xl"}, "eager-gpt2+gpt2-autocast"),
        ("Breadth of large transformers", GPT | {"name": "gpt2-xl"}, "eager-gpt"),
    ],
)
def test_words_tell_what_pytorch_ran_unless_they_deny_it(
    words: str, model: dict[str, Any], profile: str | None
) -> None:
    assert taken({"paper": "A page", "program": words}, "a100-sxm-80gb", model) == profile


def test_an_fsdp_program_that_is_named_keeps_the_degrees_of_fsdp() -> None:
    cells = {"paper": "A page", "program": "OLMo-core", "zero": "FSDP"}
    row = Row("own.csv", 2, cells)
    told, _ = with_program(row, conventions_of(row), "h100-sxm", LLAMA)
    assert told.software == "torchtitan-compile"
    assert told.space["tensor"] == told.space["pipeline"] == [1]


def test_torchax_computes_layers_again_unless_the_row_denies_the_program() -> None:
    spaces = []
    for words in ("torchax, scan over layers", "our own program (no torchax)"):
        row = Row("own.csv", 2, {"paper": "A page", "source": words})
        told, _ = with_program(row, conventions_of(row), "tpu-v6e", LLAMA)
        spaces.append(told.space)
    assert spaces[0]["recompute"] == ["full"]
    assert spaces[0]["pipeline"] == spaces[0]["context"] == [1]
    assert spaces[1].get("recompute") != ["full"]


def test_maxtext_of_fixed_capacity_sends_tokens_by_products() -> None:
    cells = {"paper": "A page", "program": "MaxText", "source": "capacity factor 1.25"}
    assert taken(cells, "mi355x", MIXTURE) == "maxtext-gpu-narrow+maxtext-gpu-dropping"
    assert taken(cells, "mi355x", LLAMA) == "maxtext-gpu-narrow"
    assert taken({**cells, "source": "dropless"}, "mi355x", MIXTURE) == "maxtext-gpu-narrow"


def test_a_program_that_is_named_tells_the_length_that_a_row_leaves_out() -> None:
    rows = [
        Row("own.csv", 2, {"paper": "A page", "metric": "tokens/s", "source": said})
        for said in ("nanochat, depth 26", "no nanochat, a program of our own")
    ]
    lengths = [of_usual_length(row, LLAMA)[0].text("sequence") for row in rows]
    assert lengths == ["2048", "4096"]
    said = {"paper": "A page of 2022", "metric": "TFLOPS", "source": "paddle2.3, PaddleNLP"}
    for name, length in (("gpt3-175b", "1024"), ("ernie", "2048")):
        row, _ = of_usual_length(Row("own.csv", 2, said), {**GPT, "name": name})
        assert row.text("sequence") == length


@pytest.mark.parametrize(("year", "fused"), [("2023", False), ("2025", None)])
def test_fsdp_of_pytorch_on_tpus_had_no_fused_attention_at_first(
    year: str, fused: bool | None
) -> None:
    cells = {"paper": f"A page of {year}", "program": "PyTorch/XLA FSDP", "zero": "3"}
    assert facts(cells, "tpu-v4", GPT).get("flash_attention") is fused


@pytest.mark.parametrize(("name", "length"), [("tinyllama-1.1b", "2048"), ("llama3-8b", "4096")])
def test_a_model_tells_the_length_of_its_own_training_whatever_ran_it(
    name: str, length: str
) -> None:
    row = Row("own.csv", 2, {"paper": "A page", "metric": "tokens/s"})
    assert of_usual_length(row, {**LLAMA, "name": name})[0].text("sequence") == length


def test_norms_that_run_again_leave_products_and_attention() -> None:
    cells = {"paper": "A page", "program": "Megatron-LM"}
    row = Row("own.csv", 2, {**cells, "source": "layer norm, GeLU and dropout recomputed"})
    told, _ = with_program(row, conventions_of(row), "a100-80gb-sxm", GPT)
    assert "repeated-norms" in (told.software or "").split("+")
    assert told.space["recompute"] == ["selective"]
    assert "repeated-norms" not in (taken(cells, "a100-80gb-sxm", GPT) or "")


def test_megatron_deepspeed_on_lumi_has_no_fused_attention() -> None:
    cells = {"paper": "A page", "source": "Megatron-DeepSpeed on LUMI"}
    assert taken(cells, "mi250x-gcd", GPT) == "bigscience-rocm-2023"
    assert facts(cells, "mi250x-gcd", GPT)["flash_attention"] is False
    assert taken({**cells, "source": "Megatron-DeepSpeed"}, "mi250x-gcd", GPT) != (
        "bigscience-rocm-2023"
    )


def test_fairseq_sends_tokens_to_experts_by_products() -> None:
    cells = {"paper": "A page", "program": "fairseq"}
    assert taken(cells, "a100-80gb-sxm", MIXTURE) == "eager-gpt+gshard-masks"
    assert "gshard-masks" not in (taken(cells, "a100-80gb-sxm", GPT) or "")


def test_steps_are_nine_tenths_of_a_paper_s_whole_run() -> None:
    def goodput(metric: str, paper: str = "Doe et al. 2024") -> float | None:
        return facts({"paper": paper, "metric": metric}, "h100-sxm").get("goodput")

    for metric in ("gpu_hours_for_500000m_tokens", "training_time_for_100000m_tokens"):
        assert goodput(metric) == 0.9
        assert goodput(metric, paper="") is None, "the user's own rows say what they timed"
    for metric in ("days_for_300B_tokens", "tokens_per_s", "training_time_for_99000m_tokens"):
        assert goodput(metric) is None
