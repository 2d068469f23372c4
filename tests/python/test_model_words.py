"""Which model do the words of a name mean, and when are two names one?"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright.catalog import load_model, names
from scalewright.catalog.resolving import normalised
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.reproductions.by_size import billions
from scalewright.reproductions.guesses import unlike_size
from scalewright.reproductions.naming import model_named, model_of_word, model_within
from scalewright.reproductions.reading import Row
from scalewright.reproductions.shape import model_of


def test_no_two_entries_have_names_that_compare_alike() -> None:
    for kind in ("model", "device", "system"):
        forms = [normalised(name) for name in names(kind)]
        assert len(set(forms)) == len(forms)


def test_a_dash_between_digits_counts() -> None:
    assert normalised("GPT 28.3B") != normalised("gpt2-8.3b")
    assert normalised("LLaMA 2-7B") == normalised("llama2 7b") == normalised("llama_2_7b")
    row = Row("own.csv", 2, {"model": "GPT 28.3B", "layers": "62", "hidden": "6144", "heads": "48"})
    assert model_of(row)[0]["ffn"] == 4 * 6144
    assert load_model("gpt2 8.3b")["ffn"] == 12288


def test_dashes_in_a_version_are_its_point() -> None:
    assert load_model("Llama_3_1_405B")["name"] == load_model("llama3.1-405b")["name"]
    assert load_model("Nemotron_3_5_Lightning")["name"] == "nemotron-3.5-lightning"
    assert normalised("llama-3-8b") == "llama3-8b"


@given(st.text(alphabet="ab1 2-_.", max_size=20))
def test_the_form_of_a_form_is_itself(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("FlagAlpha/Llama2-Chinese-13b-Chat", "llama2-13b"),
        ("linly-ai/chinese-llama-2-7b", "llama2-7b"),
        ("Yi-34B-200K", "yi-34b"),
        ("Llama-Guard-3-8B", "llama3-8b"),
    ],
)
def test_a_tuning_has_the_shape_of_what_it_began_with(text: str, model: str) -> None:
    meant, notes = model_of(Row("own.csv", 2, {"model": text}))
    assert meant["name"] == model
    assert any(model in note for note in notes)


@pytest.mark.parametrize(
    "text", ["DeepSeek-R1-Distill-Qwen-7B", "70B (Llama)", "DLRM 12T", "GEMM", "EfficientNet-B2"]
)
def test_a_name_of_two_families_or_none_means_no_model(text: str) -> None:
    assert model_within(text) is None


def test_strange_words_change_no_name_of_the_catalog() -> None:
    for name, word in itertools.product(names("model")[::7], ("chinese", "tuned")):
        if (meant := model_named(name)) is not None:
            assert model_within(f"{word}-{name}") in {meant, None}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("BERT-Base pretrain", "bert-base"),
        ("HuggingFace BERT-Large Ph1 pre-training", "bert-large"),
        ("BERT (base) masked language modelling", "bert-base"),
        ("GPT-2 medium (HF)", "gpt2-medium"),
        ("Megatron BERT-large", None),
        ("bert_large_squad", "bert-large"),
        ("bert-base-uncased question answering", "bert-base"),
        ("gpt2 medium, wikitext", "gpt2-medium"),
        ("gpt2 medium wikitext", "gpt2-medium"),
        ("bert-basement", None),
        ("a bert-base encoder", None),
        ("llama-7b", None),
    ],
)
def test_a_size_in_a_word_tells_a_model_whatever_its_task(text: str, meant: str | None):
    assert model_of_word(text) == meant


PLAIN = {"model": "mine", "layers": "12", "hidden": "768", "heads": "12", "vocab": "50304"}


def built(**cells: str) -> dict[str, Any]:
    """Return the model that a row's shape makes."""
    return model_of(Row("own.csv", 2, {**PLAIN, **cells}))[0]


@pytest.mark.parametrize("word", ["SwiGLU", "swiglu MLP", "GeGLU"])
def test_remarks_say_that_feed_forward_parts_are_gated(word: str) -> None:
    told = built(ffn="3072", source=f"a log; {word}")
    assert told["activation"] != built(ffn="3072")["activation"] == "gelu"
    assert told["ffn"] == 3072


def test_remarks_say_that_feed_forward_parts_have_no_gates() -> None:
    assert built(ffn="2048")["activation"] != "gelu"
    assert built(ffn="2048", source="squared ReLU")["activation"] == "gelu"


@pytest.mark.parametrize(
    ("said", "tied"),
    [
        ("tied embeddings", True),
        ("untied embeddings", False),
        ("not tied embeddings", False),
        ("embeddings and LM head tied", True),
    ],
)
@pytest.mark.parametrize("ffn", ["2048", "3072"])
def test_remarks_say_whether_the_head_reads_the_embedding(said: str, tied: bool, ffn: str) -> None:
    assert built(ffn=ffn, source=said)["tied_embeddings"] == tied


def test_a_size_without_tables_is_the_models_own() -> None:
    whole = built(ffn="3072")
    body = (billions(whole) - 768 * 50304 * (1 if whole.get("tied_embeddings") else 2) / 1e9) * 1e3
    cells = {"ffn": "3072", "parameters": f"{body / 1e3:.4f}"}
    said = Row("own.csv", 2, {**PLAIN, **cells, "source": "non-embedding parameters"})
    meant, notes = model_of(said)
    assert meant == whole
    assert not any("parameters" in note for note in notes)
    assert unlike_size(said, whole) == ()
    assert unlike_size(Row("own.csv", 2, {**PLAIN, **cells}), whole) != ()


def named(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the model that a name alone means, and what to mind."""
    return model_of(Row("own.csv", 2, {"model": text}))


def test_the_sign_of_times_is_the_letter_x() -> None:
    assert named("Mixtral 8\u00d77B")[0] == named("Mixtral 8x7B")[0]


@pytest.mark.parametrize("text", ["llama3.1-405b, {} layers", "llama3.1-405b ({} layers)"])
def test_fewer_layers_behind_a_name_are_all_that_ran(text: str) -> None:
    whole = load_model("llama3.1-405b")
    cut, notes = named(text.format(40))
    assert cut == {**whole, "layers": 40}
    assert notes == ("cut to 40 layers, as its name says",)


def test_more_layers_behind_a_name_are_no_cut() -> None:
    with pytest.raises(UnknownNameError):
        named("gpt2, 24 layers")


@pytest.mark.parametrize("name", ["GLM-5.1", "GLM-5.2", "zai-org/GLM-5.2"])
def test_versions_of_one_shape_are_one_model(name: str) -> None:
    assert model_of(Row("own.csv", 2, {"model": name}))[0]["name"] == "glm-5"


@pytest.mark.parametrize("name", ["Pure GDN 1B", "Mamba-2 like", "RWKV", "a gated DeltaNet"])
def test_a_shape_whose_layers_are_no_attention_is_not_priced_as_attention(name: str) -> None:
    shape = {"layers": "16", "hidden": "2048", "heads": "16", "ffn": "5632", "vocab": "32000"}
    assert model_of(Row("own.csv", 2, {"model": "mine", **shape}))[0]["layers"] == 16
    with pytest.raises(InvalidError, match="mix positions without it"):
        model_of(Row("own.csv", 2, {"model": name, **shape}))


def test_a_model_of_letters_has_few_tokens() -> None:
    shape = {"layers": "6", "hidden": "384", "heads": "6"}
    letters, words = (
        model_of(Row("own.csv", 2, {"model": name, **shape}))[0]["vocab"]
        for name in ("baby GPT (shakespeare_char)", "baby GPT")
    )
    assert letters < 256 < words
    told = {"model": "a char-level GPT", **shape, "vocab": "96"}
    assert model_of(Row("own.csv", 2, told))[0]["vocab"] == 96


def test_a_size_without_its_letter_is_known_where_no_other_model_has_it() -> None:
    assert model_of(Row("own.csv", 2, {"model": "BLOOM-176"}))[0]["name"] == "bloom-176b"
    with pytest.raises(UnknownNameError, match="BLOOM-175"):
        model_of(Row("own.csv", 2, {"model": "BLOOM-175"}))
