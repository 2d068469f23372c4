"""What do the columns of a row add to its model: rows of a vocabulary, adapters?"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalewright as sw
from scalewright import reproductions
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.reproductions.by_size import billions
from scalewright.reproductions.reading import Row
from scalewright.reproductions.shape import model_of

if TYPE_CHECKING:
    from pathlib import Path

CELLS = {
    "paper": "a table",
    "hardware": "DGX H100",
    "devices": "8",
    "model": "Llama 2 7B",
    "sequence": "4096",
    "global_batch": "32",
    "micro_batch": "1",
    "tensor": "1",
    "pipeline": "1",
    "zero": "1",
    "recompute": "none",
    "metric": "tokens_per_s",
    "value": "1",
}
ALL = {"query", "key", "value", "output", "up", "down"}


def model(**cells: str) -> dict[str, Any]:
    """Return the fields of the model that a row speaks of."""
    return model_of(Row("own.csv", 2, CELLS | cells))[0]


def priced(folder: Path, **cells: str) -> dict[str, Any]:
    """Return what a file of one row comes to."""
    file = folder / "own.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([list(CELLS | cells), list((CELLS | cells).values())])
    return reproductions.run(rows_path=file)["rows"][0]


def test_rows_of_the_table_stand_beside_the_vocabulary(tmp_path: Path) -> None:
    assert model(model="gpt2", padded_vocab="50304")["padded_vocab"] == 50304
    shape = {"layers": "12", "hidden": "768", "heads": "12", "model": "mine"}
    assert model(**shape, padded_vocab="51328")["padded_vocab"] == 51328
    assert "padded_vocab" not in model()
    # a head of more rows takes longer
    rates = [
        priced(tmp_path, model="gpt2", sequence="1024", vocab_rows=rows)["predicted"]
        for rows in ("50304", "100608")
    ]
    assert rates[1] < rates[0]


def test_a_rank_that_is_no_count_is_refused() -> None:
    for text in ("many", "-1", "1.5"):
        with pytest.raises(InvalidError, match="lora"):
            model(lora=text)


def test_adapters_lie_beside_all_products_of_a_layer() -> None:
    assert "lora" not in model()
    gated = model(lora="16")["lora"]
    assert gated["rank"] == 16
    assert set(gated["targets"]) == {*ALL, "gate"}
    assert set(model(model="gpt2", lora="8")["lora"]["targets"]) == ALL


def test_adapters_lie_where_the_row_says() -> None:
    first = model(lora="8", lora_targets="linear_qkv")["lora"]
    assert first["targets"] == ["query", "key", "value"]
    assert model(lora="8", lora_targets="qkv, down")["lora"]["targets"][-1] == "down"
    with pytest.raises(InvalidError, match=r"lora_targets: got 'linear_qkw'.*nearest: linear_qkv"):
        model(lora="8", lora_targets="linear_qkw")


def test_adapters_train_quicker_and_leaner_than_all_weights() -> None:
    """Frozen weights have neither gradients nor moments, and no product makes their gradients."""
    training = sw.Training(global_batch=32, sequence=4096)
    system = sw.system("dgx-h100", devices=8)
    whole, part = (
        sw.estimate(sw.model(fields), system, "zero=1", training)
        for fields in (model(), model(lora="16"))
    )
    assert part.step_time_s < whole.step_time_s
    assert part.peak_memory_bytes < whole.peak_memory_bytes


def test_a_row_of_adapters_is_priced_with_them(tmp_path: Path) -> None:
    whole, part = priced(tmp_path), priced(tmp_path, lora_rank="16")
    assert whole["status"] == part["status"] == "priced"
    assert part["predicted"] > whole["predicted"]


def test_a_mixture_of_every_other_layer_is_of_the_gpt_kind() -> None:
    """DeepSpeed-MoE (Rajbhandari et al. 2022, table 1) counts 52 billion parameters."""
    fields = model(
        model="GPT 1.3B+MoE-128",
        layers="24",
        hidden="2048",
        heads="16",
        experts="128 experts top-1 every other layer",
    )
    assert fields["experts"]["every"] == 2
    assert sw.model(fields).parameters()["total"] == pytest.approx(52e9, rel=0.02)
    with pytest.raises(InvalidError, match="moe: got '128 experts top-1' and ffn ''"):
        model(model="GPT", layers="24", hidden="2048", heads="16", experts="128 experts top-1")


@pytest.mark.parametrize("metric", ["mfu", "tokens_per_s_per_gpu", "gpu_hours_per_trillion_tokens"])
@pytest.mark.parametrize(("ranks", "taken"), [("1", 8), ("16", 16)])
def test_a_rate_per_device_stands_for_whole_nodes_where_no_count_is_said(
    tmp_path: Path, metric: str, ranks: str, taken: int
) -> None:
    cells = {"devices": "", "pipeline": ranks, "sequence": "", "global_batch": ""}
    row = priced(tmp_path, metric=metric, **cells)
    assert (row["status"], row["device_count"]) == ("searched", taken)
    assert f"{taken} devices taken: the row says no count" in row["note"]


def test_a_rate_of_all_devices_needs_their_count(tmp_path: Path) -> None:
    row = priced(tmp_path, devices="")
    assert row["status"] == "skipped"
    assert "devices: got nothing; allowed: a count" in row["reason"]


def test_a_model_cut_to_some_layers_is_the_rest_of_it() -> None:
    cut = model(model="llama-3.1-8B cut to 8 layers")
    assert cut["layers"] == 8
    assert {**cut, "layers": 32} == model(model="llama-3.1-8B") | {"layers": 32}
    assert model(model="llama-3.1-8B 8-layer proxy")["layers"] == 8
    assert model(model="DeepSeek-V3, cut to 4 layers")["experts"]["first_dense_layers"] == 3
    with pytest.raises(UnknownNameError, match="model: "):
        # all layers that are left would be dense
        model(model="DeepSeek-V3 cut to 3 layers")


def test_a_remark_may_say_which_model_another_is_like() -> None:
    assert model(model="dense 1.3B (OLMo-1B-like)") == model(model="OLMo-1B")
    assert model(model="Transformer 6.7B") == model(model="gpt3-6.7b")
    for other in ("Switch Transformer 6.7B", "Vision Transformer 6.7B"):
        with pytest.raises(UnknownNameError, match="model: "):
            model(model=other)


SHAPE = {"model": "mine", "layers": "24", "hidden": "2048", "heads": "32", "ffn": "8192"}


def test_parameters_tell_what_a_shape_leaves_open() -> None:
    plain, gated = model(**SHAPE), model(**SHAPE, parameters="1.71")
    assert (plain["activation"], gated["activation"]) == ("gelu", "swiglu")
    assert plain == model(**SHAPE, parameters="1.3")
    # no kind of such a shape is near
    assert plain == model(**SHAPE, parameters="5")


@pytest.mark.parametrize("said", [0.5, 1.0, 1.71, 3.0])
def test_a_shape_that_parameters_complete_has_as_many(said: float) -> None:
    by_row = Row("own.csv", 2, CELLS | SHAPE | {"parameters": str(said)})
    fields, notes = model_of(by_row)
    if any("parameters" in note for note in notes):
        assert billions(fields) == pytest.approx(said, rel=0.05)


@given(st.integers(1, 60), st.integers(2, 64), st.integers(0, 2))
def test_parameters_tell_the_width_of_experts(steps: int, experts: int, shared: int) -> None:
    text = f"{experts} experts top-2" + (f" + {shared} shared" if shared else "")
    shape = {"model": "mine", "layers": "8", "hidden": "1024", "heads": "16", "experts": text}
    told = model(**shape, ffn=str(64 * steps))
    found = model(**shape, parameters=repr(billions(told)))
    assert found["experts"] == told["experts"]


def test_a_family_and_parameters_name_a_model() -> None:
    assert model(model="Llama 2", parameters="7") == model(model="Llama 2 7B")
    assert model(model="Llama 2", parameters="70.0") == model(model="Llama 2 70B")


def test_parameters_that_are_not_the_models_are_said(tmp_path: Path) -> None:
    assert "the row says 70B parameters" in priced(tmp_path, params_B="70")["note"]
    assert "parameters" not in (priced(tmp_path, parameters="6700000000")["note"] or "")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Llama 2 7 B (LoRA)", "llama2-7b"),
        ("OLMo-1124 7B", "olmo2-7b"),
        ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-4k"),
        ("bert-large-uncased-whole-word-masking", "bert-large"),
        ("GPT-2 (config/train_gpt2.py)", "gpt2"),
    ],
)
def test_words_that_leave_the_shape_as_it_is_do_not_count(text: str, name: str) -> None:
    assert model(model=text) == model(model=name)


@pytest.mark.parametrize(("hidden", "heads"), [(4096, 32), (1664, 13), (768, 12), (96, 1)])
def test_heads_that_nobody_says_are_the_usual_ones(hidden: int, heads: int) -> None:
    shape = {"model": "mine", "layers": "4", "hidden": str(hidden)}
    assert model(**shape)["heads"] == heads


def test_adapters_of_a_known_paper_are_adapters_too(tmp_path: Path) -> None:
    known = priced(tmp_path, paper="NVIDIA Megatron-Bridge cards", model="Qwen3-8B (LoRA)")
    assert "adapters of rank 16" in known["note"]
    full = priced(tmp_path, paper="NVIDIA Megatron-Bridge cards", model="Qwen3-8B")
    assert known["parameters"] > full["parameters"]


def test_a_small_model_has_the_vocabulary_that_its_size_leaves_room_for() -> None:
    narrow = {"model": "mine", "layers": "6", "hidden": "384", "sequence": "128"}
    letters = model(**narrow, parameters="0.011")
    assert letters["heads"] == 6
    assert letters["vocab"] < 1000
    assert billions(letters) == pytest.approx(0.011, rel=0.02)
    # a usual vocabulary that fits comes first, and what is said stays
    assert model(**narrow, parameters="0.030")["vocab"] > 32000
    assert model(**narrow, parameters="0.011", vocab="5000")["vocab"] == 5000
    # a size for which the layers are too many keeps the usual one
    assert model(**narrow, parameters="0.001")["vocab"] == model(**narrow)["vocab"]


def test_a_remark_in_parentheses_names_the_model() -> None:
    assert model(model="deepseek2-16b (DeepSeek-V2-Lite)") == model(model="deepseek-v2-lite")
    assert model(model="nanochat d20 (561M)") == model(model="nanochat-d20")
    with pytest.raises(UnknownNameError, match="my-own"):
        model(model="my-own (of nobody)")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("GPT-2 (124M)", "gpt2"),
        ("GPT-2 (350M)", "gpt2-medium"),
        ("GPT-2 (774M)", "gpt2-large"),
        ("GPT-2 (1.5B)", "gpt2-xl"),
        ("DeepSeek-V3 (685B)", "deepseek-v3"),
        ("phi-4 (14B)", "phi-4"),
    ],
)
def test_a_size_in_parentheses_tells_which_of_a_family_is_meant(text: str, meant: str):
    model, _ = model_of(Row("own.csv", 2, {"model": text}))
    assert model["name"] == meant


def test_a_shape_of_a_family_whose_parts_are_gated_is_gated() -> None:
    shape = {"layers": "12", "hidden": "1024", "heads": "16", "vocab": "6792"}
    own = model(**shape, model="Qwen3 208M")
    assert (own["activation"], own["norm"], own["ffn"]) == ("swiglu", "rmsnorm", 2816)
    assert model(**shape, model="Llama-style", ffn="4096")["activation"] == "swiglu"
    for name in ("mine", "Llamaesque", "GPT like Llama"):
        assert model(**shape, model=name)["norm"] == "layernorm"


@pytest.mark.parametrize("hidden", ["2048", "4096", "12288"])
def test_a_named_kind_with_a_shape_of_its_own_keeps_the_ratio_of_its_widths(hidden: str) -> None:
    named = model(model="GPT-3", layers="48", hidden=hidden, heads="16")
    assert named["ffn"] == 4 * int(hidden)
    assert model(model="GPT-3", layers="48", hidden=hidden, heads="16", ffn="999")["ffn"] == 999
    assert (
        model(model="GPT-3", layers="48")["ffn"] == 4 * model(model="GPT-3", layers="48")["hidden"]
    )


def test_widths_and_keys_are_taken_that_alone_make_the_parameters() -> None:
    cells = {"model": "mine", "layers": "48", "hidden": "10752", "heads": "84", "kv_heads": "12"}
    wide = model(**cells, parameters="80", source="torchtitan")
    narrow = model(**cells, parameters="58", source="torchtitan")
    assert (wide["ffn"], narrow["ffn"]) == (4 * 10752, 28672)
    assert billions(wide) == pytest.approx(80.0, rel=0.05)
    few = model(
        model="mine",
        layers="18",
        hidden="2048",
        heads="16",
        ffn="2048",
        vocab="32000",
        parameters="0.481",
        source="MaxText",
        kv_heads="",
    )
    assert billions(few) == pytest.approx(0.481, rel=0.02)
    assert few["kv_heads"] == 4


@pytest.mark.parametrize("said", ["torchtitan", "MaxText", "trained with SwiGLU"])
def test_models_of_programs_that_have_gates_alone_are_gated(said: str) -> None:
    shape = {"model": "mine", "layers": "24", "hidden": "2048", "heads": "16", "parameters": "1.3"}
    assert model(**shape, source=said)["activation"] == "swiglu"
    assert model(**shape, source="Megatron-LM")["activation"] == "gelu"
    assert model(**shape, source=f"{said}, squared ReLU")["activation"] == (
        "swiglu" if "SwiGLU" in said else "gelu"
    )


@pytest.mark.parametrize(("size", "total"), [("1b", 1.137e9), ("3b", 3.043e9), ("7b", 7.327e9)])
def test_smaller_starcoders_are_not_of_the_second_version(size: str, total: float) -> None:
    fields = model(model=f"starcoder-{size}")
    assert sw.model(fields).parameters()["total"] == pytest.approx(total, rel=0.01)
    assert fields["kv_heads"] == 1


@pytest.mark.parametrize("words", ["no gradient accumulation", "without accumulation"])
def test_remarks_that_deny_accumulation_make_a_step_of_one_micro_batch(
    tmp_path: Path, words: str
) -> None:
    told = priced(tmp_path, global_batch="", source=f"a table; {words}, AdamW")
    same = priced(tmp_path, global_batch="", source="a table; AdamW", accumulation="1")
    assert told["predicted"] == same["predicted"]
    assert f"remarks of the row say '{words}'" in told["note"]
