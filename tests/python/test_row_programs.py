"""What do a row's words say of kernels, formats and adapters of its program?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rows_to_read import MIXTURE, priced, taken
from scalewright.errors import InvalidError
from scalewright.reproductions.adapters import adapted
from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.naming import model_named, vocabulary_of
from scalewright.reproductions.reading import Row

if TYPE_CHECKING:
    from pathlib import Path

MEMORY = {"metric": "memory", "unit": "GiB"}


@pytest.mark.parametrize(
    ("cell", "unit", "used"), [("62/80", "GiB", 62.0), ("62 / 80 GB", "", 62.0)]
)
def test_memory_before_a_stroke_is_what_is_used(
    tmp_path: Path, cell: str, unit: str, used: float
) -> None:
    assert priced(tmp_path, metric="memory", value=cell, unit=unit)["published"] == used


def test_a_stroke_elsewhere_tells_no_figure(tmp_path: Path) -> None:
    assert priced(tmp_path, value="62/80")["predicted"] is None
    assert priced(tmp_path, **MEMORY, value="90/80")["predicted"] is None


def test_gram_is_a_devices_memory(tmp_path: Path) -> None:
    assert priced(tmp_path, metric="GRAM", value="18GB", unit="")["kind"] == "memory"


def test_fused_updates_are_quicker_and_hold_no_lists(tmp_path: Path) -> None:
    eager = {"source": "PyTorch, eager", "devices": "8", "zero": "fsdp"}
    fused = eager | {"source": "PyTorch, eager, fused AdamW"}
    assert taken({"metric": "tokens/s", **fused}, "h100-sxm").endswith("+fused-adamw")
    slow, quick = priced(tmp_path, **eager), priced(tmp_path, **fused)
    assert quick["predicted"] > slow["predicted"]
    denied = priced(tmp_path, **eager | {"source": "PyTorch, eager, no fused AdamW"})
    assert denied["predicted"] == slow["predicted"]


def test_transformers_made_scores_in_memory_until_they_took_fused_attention(
    tmp_path: Path,
) -> None:
    run = {"devices": "8", "zero": "fsdp"}
    for source, scores in (
        ("HF Trainer, 2023", True),
        ("HF Trainer, 2023, FlashAttention-2", False),
        ("HF Trainer, 2025", False),
    ):
        note = str(priced(tmp_path, **run, source=source)["note"])
        assert ("scores in memory" in note) == scores


def test_deepspeed_adds_up_gradients_in_the_format_of_the_weights(tmp_path: Path) -> None:
    run = {"devices": "8", "zero": "zero-2", "metric": "memory", "unit": "GiB", "value": "60"}
    wide = priced(tmp_path, **run, source="PyTorch")
    narrow = priced(tmp_path, **run, source="DeepSpeed")
    assert "gradients in bf16" in str(narrow["note"])
    assert narrow["predicted"] < wide["predicted"]
    staged = priced(tmp_path, **run | {"pipeline": "2"}, source="DeepSpeed")
    assert "gradients in bf16" not in str(staged["note"])


def test_a_share_that_counts_what_runs_again_is_of_all_products(tmp_path: Path) -> None:
    run = {"metric": "MFU", "unit": "%", "value": "50", "recompute": "full"}
    model = priced(tmp_path, **run)
    again = priced(tmp_path, **run, source="the MFU counts the forward pass again")
    assert again["predicted"] / model["predicted"] == pytest.approx(4 / 3, rel=0.03)


def test_products_called_fp32_are_of_tf32_where_they_are_too_quick(tmp_path: Path) -> None:
    wide = {"dtype": "fp32", "hardware": "DGX A100", "devices": "8", "recompute": "full"}
    slow = priced(tmp_path, **wide, value="200")
    assert "tf32" not in str(slow["note"])
    quick = priced(tmp_path, **wide, value="1500")
    assert "products taken in tf32" in str(quick["note"])
    assert quick["predicted"] > 2 * slow["predicted"]
    old = priced(tmp_path, **wide | {"hardware": "DGX-1 V100"}, value="1500")
    assert "tf32" not in str(old["note"])


@pytest.mark.parametrize(
    ("remarks", "targets"),
    [
        ("LoRA r=8 on q_proj and v_proj; bf16", "q_proj, v_proj"),
        ("LoRA rank 16 on q_proj, k_proj, v_proj and o_proj", "q_proj, k_proj, v_proj, o_proj"),
        ("LoRA r=8; tables of q_proj", ""),
    ],
)
def test_adapters_lie_beside_the_modules_that_remarks_name(remarks: str, targets: str) -> None:
    told, _ = adapted(Row("own.csv", 2, {"model": "llama2-7b", "source": remarks}))
    assert told.text("lora_targets") == targets


def test_fewer_adapters_leave_less_to_learn(tmp_path: Path) -> None:
    run = {"model": "llama2-7b (LoRA)", **MEMORY, "value": "20", "devices": "1", "zero": "0"}
    some = priced(tmp_path, **run, source="LoRA r=512 on q_proj and v_proj")
    every = priced(tmp_path, **run, source="LoRA r=512")
    assert some["predicted"] < every["predicted"]


def test_weights_of_four_bits_are_qloras(tmp_path: Path) -> None:
    run = {"model": "llama2-7b (LoRA)", "dtype": "4-bit"}
    assert "QLoRA" in str(priced(tmp_path, **run)["note"])
    assert "QLoRA" in str(priced(tmp_path, **run | MEMORY, value="9")["reason"])


def test_a_mixture_with_a_dense_models_name_has_the_shape_of_its_row(tmp_path: Path) -> None:
    shape = {"layers": "24", "hidden": "2048", "heads": "16", "ffn": "5504"}
    run = {"model": "qwen1.5_14B_MoE (8*1.8B)", "moe": "8 experts, top-2", "vocab": "151936"}
    found = priced(tmp_path, **run, **shape)
    assert "the mixture of the row's shape taken" in str(found["note"])
    assert found["predicted"] > priced(tmp_path, model="qwen1.5-14b")["predicted"]


def test_a_size_that_no_catalog_has_reads_its_familys_tokens() -> None:
    assert vocabulary_of("Llama 3 300M") == vocabulary_of("llama3-8b") == 128256
    assert vocabulary_of("Qwen3-style 2.9B") == 151936
    # without a version, or with one of several vocabularies, nothing is told
    assert vocabulary_of("Llama 300M") is None


def test_conventions_of_a_page_are_not_those_of_pages_with_longer_names() -> None:
    for paper in ("FlagPerf", "swiss-ai Megatron-LM"):
        assert conventions_of(Row("own.csv", 2, {"paper": paper})).known
        assert not conventions_of(Row("own.csv", 2, {"paper": f"{paper} README"})).known


def test_state_of_litgpts_benchmark_is_in_bf16(tmp_path: Path) -> None:
    run = {"devices": "1", "zero": "0", "global_batch": "1", **MEMORY, "value": "64"}
    pure = priced(tmp_path, **run, source="benchmark_litgpt.py, compiler thunder")
    assert pure["predicted"] < priced(tmp_path, **run, source="PyTorch")["predicted"] / 1.5


def test_one_device_leaves_nothing_to_search(tmp_path: Path) -> None:
    run = {"devices": "1", "global_batch": "1", "tensor": "", "pipeline": "", "zero": ""}
    assert priced(tmp_path, **run, source="PyTorch")["status"] == "priced"
    # which layers run again is still open
    assert priced(tmp_path, **run, source="PyTorch", recompute="")["status"] == "searched"


def test_one_replica_shares_and_sends_nothing(tmp_path: Path) -> None:
    run = {"devices": "8", "tensor": "8", "sequence_parallel": "yes", "overlap_tensor": "yes"}
    found = priced(tmp_path, **run | {"zero": ""})
    assert (found["plan"]["zero"], found["plan"]["data"]) == (0, 1)
    assert found["predicted"] == priced(tmp_path, **run | {"zero": "1"})["predicted"]


def test_ranks_along_sequences_have_replicas_of_the_weights(tmp_path: Path) -> None:
    run = {"devices": "8", "tensor": "1", "context": "8", "data": "1", "zero": ""}
    found = priced(tmp_path, **run)
    assert found["status"] == "searched", "whether they share is open"
    assert found["plan"]["zero"] > 0


def test_as_many_replicas_as_devices_leave_no_other_ranks(tmp_path: Path) -> None:
    run = {"devices": "8", "data": "8", "tensor": "", "pipeline": "", "zero": "zero-3"}
    plan = priced(tmp_path, **run, source="DeepSpeed")["plan"]
    assert (plan["tensor"], plan["pipeline"], plan["context"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("Qwen3 30B A3B Thinking 2507", "qwen3-30b-a3b"),
        # what is no month is no release
        ("Qwen3-4B-Instruct-2513", None),
        ("Qwen3-4B-Instruct-1807", None),
    ],
)
def test_the_month_of_a_release_is_no_version(name: str, model: str | None) -> None:
    assert model_named(name) == model


@pytest.mark.parametrize("tokenizer", ["GPT-2", "GPT-2 BPE", "gpt2 tokenizer"])
def test_a_tokenizer_tells_how_many_tokens_it_knows(tokenizer: str) -> None:
    assert Row("own.csv", 2, {"vocab": tokenizer}).count("vocab") == 50257
    with pytest.raises(InvalidError):
        Row("own.csv", 2, {"vocab": f"not {tokenizer[-3:]}"}).count("vocab")


def test_runs_with_and_without_something_are_of_both_kinds(tmp_path: Path) -> None:
    both = {"paper": "A model with and without FlashAttention"}
    for remarks, scores in (
        ("FlashAttention", False),
        ("the T x T matrix in memory", True),
        ("without FlashAttention", True),
    ):
        note = str(priced(tmp_path, **both, source=remarks)["note"])
        assert ("scores in memory" in note) == scores


def test_a_row_may_say_in_which_format_its_gradients_travel(tmp_path: Path) -> None:
    run = MEMORY | {"devices": "8", "zero": "1", "value": "60"}
    recipe = priced(tmp_path, **run, source="Megatron-Bridge, 2025")
    for words, gradients in (
        ("grad_reduce_in_fp32", "gradients reduced in fp32"),
        ("grad_reduce_in_fp32=False", "gradients reduced in bf16"),
        ("main grads bf16", "gradients in bf16"),
    ):
        found = priced(tmp_path, **run, source=f"Megatron-Bridge, 2025, {words}")
        assert gradients in str(found["note"])
        assert (found["predicted"] > recipe["predicted"]) == ("fp32" in gradients)
    wide = priced(tmp_path, **run, source="Megatron-LM, 2025")
    narrow = priced(tmp_path, **run, source="Megatron-LM, 2025, bf16 main grads")
    assert narrow["predicted"] < wide["predicted"]


TRILLIUM = {
    "hardware": "TPU v6e-256",
    "devices": "256",
    "model": "Mixtral 8x7B",
    "moe": "8 experts top-2, capacity factor 1.25",
    "global_batch": "3072",
    "micro_batch": "12",
    "tensor": "",
    "pipeline": "",
    "zero": "ici_fsdp_parallelism -1",
    "recompute": "remat_policy custom",
}


def test_experts_of_fixed_capacity_are_reached_by_products_with_masks() -> None:
    cells = {"metric": "tokens/s", "source": "MaxText, sparse_matmul=False"}
    assert taken(cells, "tpu-v6e", MIXTURE) == "maxtext-dropping"
    assert taken(cells, "tpu-v6e") != "maxtext-dropping"
    dropless = cells | {"source": "MaxText, sparse_matmul=True"}
    assert taken(dropless, "tpu-v6e", MIXTURE) != "maxtext-dropping"


def test_a_degree_of_minus_one_takes_all_ranks_of_a_slice(tmp_path: Path) -> None:
    plan = priced(tmp_path, **TRILLIUM, source="MaxText, sparse_matmul=False")["plan"]
    assert (plan["data"], plan["tensor"], plan["expert"], plan["zero"]) == (256, 1, 1, 3)


def test_a_custom_policy_is_what_the_tensors_it_names_make_of_it(tmp_path: Path) -> None:
    program = "MaxText, sparse_matmul=False"
    named = "query_proj, key_proj and value_proj offloaded to the host"
    kept = priced(tmp_path, **TRILLIUM, source=f"{program}, {named}")["plan"]
    assert (kept["recompute"], kept["offload_activations"]) == ("selective", 100)
    unnamed = priced(tmp_path, **TRILLIUM, source=program)["plan"]
    assert (unnamed["recompute"], unnamed["offload_activations"]) == ("full", 0)


@pytest.mark.parametrize("device", ["h100-sxm", "b200-sxm"])
def test_a_row_that_names_flashattention_2_ran_it(device: str) -> None:
    cells = {"metric": "tokens/s", "zero": "FSDP"}
    plain = taken(cells | {"source": "PyTorch, 2026"}, device)
    assert taken(cells | {"source": "PyTorch, FA2, 2026"}, device) == f"{plain}+flash-attention-2"
    for others in ("FA2 and FA3", "no FA2", "FlashAttention"):
        assert taken(cells | {"source": f"PyTorch, {others}, 2026"}, device) == plain


def test_flashattention_2_is_slower_on_blackwell_than_kernels_made_for_it(tmp_path: Path) -> None:
    run = {"hardware": "8x B200", "devices": "8", "zero": "FSDP", "sequence": "32768"}
    old = priced(tmp_path, **run, global_batch="8", source="PyTorch, FlashAttention-2, 2026")
    new = priced(tmp_path, **run, global_batch="8", source="PyTorch, 2026")
    assert old["predicted"] < 0.8 * new["predicted"]
