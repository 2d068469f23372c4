"""Do config files give the catalog's shapes, and does wrong input give a clear error?"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scalewright as sw
from scalewright import catalog
from scalewright._engine import Workload
from scalewright.cli import main
from scalewright.config.huggingface import FAMILIES, read_config
from scalewright.errors import InvalidError, ScalewrightError, UnknownNameError

CONFIGS = sorted((Path(__file__).parent / "configs").glob("*.json"))
PARSED = {path.name.removesuffix(".json"): json.loads(path.read_text()) for path in CONFIGS}
IDENTITY = {"name", "source", "aliases"}


def shape_of(entry):
    return {key: value for key, value in entry.items() if key not in IDENTITY}


def read(tmp_path, config):
    path = tmp_path / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return read_config(path)


def test_every_family_has_a_config():
    # gemma3 names the vision models whose text part is gemma3_text
    assert {config["model_type"] for config in PARSED.values()} == set(FAMILIES)


def test_the_page_lists_every_model_type_that_is_read():
    page = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text()
    _, _, rest = page.partition("| family | `model_type` |\n|---|---|\n")
    rows = [row.split("|")[2] for row in rest[: rest.index("\n\n")].splitlines()]
    told = [name.strip(" `") for row in rows for name in row.split(",")]
    assert sorted(told) == sorted(FAMILIES)


@pytest.mark.parametrize("name", PARSED)
def test_config_gives_the_entry_of_the_catalog(name):
    config = read_config(Path(__file__).parent / "configs" / f"{name}.json")
    assert config["name"] == name
    # modules that predict a token further are columns of the rows that train them, not of the entry
    told = {} if name != "deepseek-v3" else {"prediction_layers": 1}
    assert shape_of(config) == shape_of(catalog.load_model(name)) | told
    assert Workload(json.dumps(config)).parameters()["total"] > 0


def test_directory_is_read_and_names_the_model(tmp_path):
    folder = tmp_path / "My-Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(PARSED["llama-7b"]))
    for path in (folder, folder / "config.json", str(folder)):
        assert read_config(path)["name"] == "my-model"


def test_null_and_absent_head_dim_mean_hidden_over_heads(tmp_path):
    expected = shape_of(read(tmp_path, PARSED["llama2-70b"]))
    for head_dim in (None, 128):
        assert shape_of(read(tmp_path, PARSED["llama2-70b"] | {"head_dim": head_dim})) == expected
    wider = read(tmp_path, PARSED["llama2-70b"] | {"head_dim": 256})
    assert wider["head_dim"] == 256


def test_window_starts_above_max_window_layers(tmp_path):
    used = {"use_sliding_window": True, "max_window_layers": 26}
    shape = read(tmp_path, PARSED["qwen2.5-7b"] | used)
    assert shape["attention_pattern"] == ["full"] * 26 + ["sliding"] * 2
    assert shape["sliding_window"] == 131_072


def test_layer_types_come_before_the_family_rule(tmp_path):
    text = dict(PARSED["gemma3-1b"], layer_types=["sliding_attention", "full_attention"] * 13)
    assert read(tmp_path, text)["attention_pattern"] == ["sliding", "full"]
    text["layer_types"] = ["full_attention"] * 26
    assert "attention_pattern" not in read(tmp_path, text)


@pytest.mark.parametrize(
    ("changes", "first_dense", "every"),
    [
        ({"mlp_only_layers": [0, 1, 2]}, 3, 1),
        ({"decoder_sparse_step": 2}, 0, 2),
        ({"decoder_sparse_step": 3, "mlp_only_layers": [2]}, 3, 3),
    ],
)
def test_rhythm_of_sparse_layers(tmp_path, changes, first_dense, every):
    experts = read(tmp_path, PARSED["qwen3-30b-a3b"] | changes)["experts"]
    assert experts.get("first_dense_layers", 0) == first_dense
    assert experts.get("every", 1) == every


def test_model_without_sparse_layers_is_dense(tmp_path):
    changes = {"mlp_only_layers": list(range(48))}
    assert "experts" not in read(tmp_path, PARSED["qwen3-30b-a3b"] | changes)
    assert "experts" not in read(tmp_path, PARSED["deepseek-v3"] | {"n_routed_experts": None})


def test_delta_rules_have_the_experts_of_their_family_unless_told(tmp_path):
    for name, usual in (("qwen3-next-80b-a3b", 512), ("qwen3.5-122b-a10b", 256)):
        for absent in ({"num_experts": None}, {}):
            config = {k: v for k, v in PARSED[name].items() if k != "num_experts"} | absent
            assert read(tmp_path, config)["experts"]["experts"] == usual
    dense = PARSED["qwen3-next-80b-a3b"] | {"num_experts": 0, "intermediate_size": 7}
    shape = read(tmp_path, dense)
    assert "experts" not in shape
    assert shape["ffn"] == 7


def test_dense_layers_among_delta_rules_need_their_width(tmp_path):
    config = PARSED["qwen3-next-80b-a3b"] | {"mlp_only_layers": [0], "intermediate_size": None}
    with pytest.raises(InvalidError, match=r"config\.json: intermediate_size: got None"):
        read(tmp_path, config)
    unused = PARSED["qwen3-next-80b-a3b"] | {"intermediate_size": 0}
    assert read(tmp_path, unused)["ffn"] == 0


def test_layers_with_a_delta_rule_follow_the_list_or_the_interval(tmp_path):
    config = PARSED["qwen3.5-4b"]
    every_second = read(tmp_path, config | {"full_attention_interval": 2})["attention_pattern"]
    assert every_second == ["state_space", "full"]
    listed = ["full_attention"] * 32
    assert "state_space" not in read(tmp_path, config | {"layer_types": listed})
    with pytest.raises(InvalidError, match=r"layer_types: got .* allowed: 32 times one of linear"):
        read(tmp_path, config | {"layer_types": ["sliding_attention"] * 32})
    with pytest.raises(InvalidError, match="linear_num_key_heads: got 5; allowed: a divisor"):
        read(tmp_path, config | {"linear_num_key_heads": 5})


def test_modules_that_predict_a_token_further_are_read_and_priced(tmp_path):
    config = PARSED["deepseek-v3"]
    shape = read(tmp_path, config)
    without = read(tmp_path, config | {"num_nextn_predict_layers": 0})
    assert shape == without | {"prediction_layers": 1}
    totals = [Workload(json.dumps(one)).parameters()["total"] for one in (shape, without)]
    assert totals[0] > totals[1]
    told = {"num_nextn_predict_layers": 2, "mtp_hybrid_override_pattern": "*E"}
    hybrid = read(tmp_path, PARSED["nemotron-3-nano-30b-a3b"] | told)
    assert (hybrid["prediction_layers"], hybrid["prediction_pattern"]) == (2, "*E")
    with pytest.raises(InvalidError, match="num_nextn_predict_layers: got -1; allowed: a whole"):
        read(tmp_path, config | {"num_nextn_predict_layers": -1})


def test_parts_of_a_model_that_are_not_priced_are_said(tmp_path, capsys):
    path = tmp_path / "config.json"
    config = {"model_type": "llava", "text_config": PARSED["llama-7b"], "vision_config": {"a": 1}}
    path.write_text(json.dumps(config | {"audio_config": {"b": 2}}))
    machines, training = sw.system("dgx-h100", 8), sw.Training(8, 128)
    priced = sw.estimate(sw.model(path), machines, "zero=3", training)
    assert priced.to_dict()["left_out"] == ["vision_config", "audio_config"]
    command = ["estimate", "--model", str(path), "--system", "dgx-h100", "--devices", "8"]
    assert main([*command, "--global-batch", "8", "--sequence", "128", "--plan", "zero=3"]) == 0
    assert "left out of the model: vision_config, audio_config" in capsys.readouterr().out
    path.write_text(json.dumps(PARSED["qwen3.5-4b"] | {"mtp_num_hidden_layers": 1}))
    assert sw.model(path).left_out == ("mtp_num_hidden_layers",)
    path.write_text(json.dumps(PARSED["llama-7b"]))
    assert sw.model(path).left_out == ()
    assert "left_out" not in sw.estimate(sw.model(path), machines, "zero=3", training).to_dict()


def test_positions_of_bert_that_equal_the_library_s_default_may_be_left_out(tmp_path):
    config = PARSED["bert-base"]
    short = {key: value for key, value in config.items() if key != "max_position_embeddings"}
    assert read(tmp_path, short) == read(tmp_path, config | {"max_position_embeddings": 512})


def test_deepseek_layer_frequency(tmp_path):
    changes = {"first_k_dense_replace": 3, "moe_layer_freq": 2}
    experts = read(tmp_path, PARSED["deepseek-v3"] | changes)["experts"]
    # layers 4, 6, 8, ... are sparse
    assert (experts["first_dense_layers"], experts["every"]) == (3, 2)


def test_biases_are_read(tmp_path):
    shape = read(tmp_path, PARSED["llama-7b"] | {"attention_bias": True, "mlp_bias": True})
    assert (shape["qkv_bias"], shape["output_bias"], shape["ffn_bias"]) == (True, True, True)


@pytest.mark.parametrize("name", PARSED)
def test_each_needed_field_is_missed_by_name(tmp_path, name):
    config = PARSED[name]
    needed = {"vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "n_layer"}
    if config["model_type"] == "gemma3_text":
        # the family's own vocabulary stands in for one that is left out
        needed.remove("vocab_size")
    if config["model_type"] == "qwen3_next":
        # none of its layers is dense
        needed.remove("intermediate_size")
    for field in needed & config.keys():
        with pytest.raises(InvalidError, match=rf"config\.json: {field}: got nothing; allowed: "):
            read(tmp_path, {key: value for key, value in config.items() if key != field})


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "llama-7b",
            {"num_attention_heads": 33},
            "num_attention_heads: got 33; allowed: a divisor",
        ),
        (
            "llama2-70b",
            {"num_key_value_heads": 7},
            "num_key_value_heads: got 7; allowed: a divisor",
        ),
        ("llama2-70b", {"num_key_value_heads": 128}, "num_key_value_heads: got 128; allowed: a wh"),
        ("llama-7b", {"hidden_size": -4096}, "hidden_size: got -4096; allowed: a whole number"),
        ("llama-7b", {"hidden_size": 4096.0}, "hidden_size: got 4096.0; allowed: a whole number"),
        ("llama-7b", {"hidden_size": True}, "hidden_size: got True; allowed: a whole number"),
        ("llama-7b", {"vocab_size": 10**30}, "vocab_size: got 10{30}; allowed: a whole number"),
        ("llama-7b", {"num_hidden_layers": 10**6}, "num_hidden_layers: got 1000000; allowed"),
        ("llama-7b", {"hidden_act": "tanh"}, "hidden_act: got 'tanh'; allowed: gelu"),
        ("llama-7b", {"hidden_act": ["silu"]}, r"hidden_act: got \['silu'\]; allowed: gelu"),
        ("llama-7b", {"tie_word_embeddings": "no"}, "tie_word_embeddings: got 'no'; allowed: true"),
        ("bloom-176b", {"n_embed": 1024}, "n_embed: got 1024; allowed: 14336, as hidden_size says"),
        (
            "mixtral-8x7b",
            {"num_experts_per_tok": 9},
            "num_experts_per_tok: got 9; allowed: at most",
        ),
        ("opt-6.7b", {"word_embed_proj_dim": 512}, "word_embed_proj_dim: got 512; allowed: 4096"),
        ("opt-6.7b", {"do_layer_norm_before": False}, "do_layer_norm_before: got False"),
        (
            "mpt-7b",
            {"attn_config": {"alibi": False}},
            "attn_config: alibi: got False; allowed: true",
        ),
        ("mpt-7b", {"attn_config": 3}, "attn_config: got 3; allowed: an object"),
        ("mpt-7b", {"expansion_ratio": -1}, "expansion_ratio: got -1; allowed: a number above 0"),
        (
            "gemma3-1b",
            {"layer_types": ["full_attention"]},
            "layer_types: got .*; allowed: 26 times",
        ),
        ("qwen3-30b-a3b", {"mlp_only_layers": [0, 2]}, "mlp_only_layers: got .*; allowed: sparse"),
        ("qwen3-30b-a3b", {"mlp_only_layers": ["0"]}, "mlp_only_layers: got .*; allowed: layers"),
        ("deepseek-v3", {"topk_method": "best"}, "topk_method: got 'best'; allowed: greedy"),
        ("t5-small", {"is_encoder_decoder": False}, "is_encoder_decoder: got False; allowed: true"),
        ("gemma3-4b", {"text_config": []}, r"text_config: got \[\]; allowed: an object"),
        ("gemma3-4b", {"text_config": {}}, "text_config: num_hidden_layers: got nothing"),
    ],
)
def test_wrong_field_is_named_with_what_is_allowed(tmp_path, name, changes, message):
    with pytest.raises(InvalidError, match=message):
        read(tmp_path, PARSED[name] | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "got a list; allowed: a JSON object"),
        ("null", "got a NoneType; allowed: a JSON object"),
        ("{", "not valid JSON"),
        ("", "not valid JSON"),
        ('{"hidden_size": NaN}', "hidden_size: got NaN; allowed: finite numbers"),
        ('{"rope": {"factors": [1, -Infinity]}}', "factors: got -Infinity; allowed: f"),
        ('{"initializer_range": 1e400}', "initializer_range: got Infinity; allowed"),
        ('{"hidden_size": ' + "9" * 9999 + "}", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("{}", "model_type: got nothing; allowed: a text"),
        ('{"model_type": 3}', "model_type: got 3; allowed: a text"),
    ],
)
def test_wrong_file_is_refused(tmp_path, text, message):
    with pytest.raises(InvalidError, match=message):
        read(tmp_path, text)


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "binary.json", "a\0b"):
        with pytest.raises(InvalidError):
            read_config(path)


def test_unknown_family_gives_the_nearest(tmp_path):
    with pytest.raises(
        UnknownNameError, match="unknown family 'lama'; nearest: llama; known: bert"
    ):
        read(tmp_path, {"model_type": "lama"})


JSON_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 2, -1, 10**9, 10**40, 1e308, "silu", "gelu", "", "full_attention"])
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
FIELD = st.sampled_from(sorted({field for config in PARSED.values() for field in config}))
FUZZ = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def read_or_refuse(tmp_path, config):
    try:
        shape = read(tmp_path, config)
    except ScalewrightError as error:
        refusal = str(error)
    else:
        # what is read, the engine's JSON can say
        text = json.dumps(shape, allow_nan=False)
        assert json.loads(text) == shape
        with contextlib.suppress(InvalidError):
            assert Workload(text).parameters()["total"] > 0
        return
    assert "config.json: " in refusal


@FUZZ
@given(name=st.sampled_from(sorted(PARSED)), changes=st.dictionaries(FIELD, JSON_VALUE, max_size=4))
def test_mutated_configs_are_read_or_refused(tmp_path, name, changes):
    read_or_refuse(tmp_path, PARSED[name] | changes)


@FUZZ
@given(
    model_type=st.sampled_from(sorted(FAMILIES)),
    config=st.dictionaries(FIELD, JSON_VALUE, max_size=12),
)
def test_random_configs_are_read_or_refused(tmp_path, model_type, config):
    read_or_refuse(tmp_path, {**config, "model_type": model_type})


@FUZZ
@given(value=JSON_VALUE)
def test_random_json_is_read_or_refused(tmp_path, value):
    read_or_refuse(tmp_path, value if not isinstance(value, str) else json.dumps(value))
