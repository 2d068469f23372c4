"""Which experts does a row give its model, however it says them?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright.errors import InvalidError, UnknownNameError
from scalewright.reproductions.mixtures import mixture_said, says_mixture, with_layers
from scalewright.reproductions.reading import Row
from scalewright.reproductions.shape import model_of
from scalewright.reproductions.widths import with_widths

CELLS = {"paper": "a table", "model": "mine", "sequence": "4096"}
SHAPE = {"layers": "8", "hidden": "1024", "heads": "16", "ffn": "704"}


def row(**cells: str) -> Row:
    """Return a row of a user's file."""
    return Row("own.csv", 2, CELLS | cells)


def model(**cells: str) -> dict[str, Any]:
    """Return the fields of the model that a row speaks of."""
    return model_of(row(**cells))[0]


@pytest.mark.parametrize(
    "said",
    [
        {"experts": "64 experts top-6"},
        {"experts": "64 routed, 6 active"},
        {"experts": "64E top6"},
        {"experts": "6 of 64 experts"},
        {"experts": "6 out of 64"},
        {"experts": "64", "top_k": "6"},
        {"experts": "yes", "expert_count": "64", "top_k": "6"},
        {"expert_count": "64", "top_k": "6"},
    ],
)
def test_one_mixture_however_it_is_said(said: dict[str, str]) -> None:
    assert model(**SHAPE, **said)["experts"] == {"experts": 64, "top_k": 6, "expert_ffn": 704}


@pytest.mark.parametrize(
    ("said", "width"),
    [
        ("64 experts top-6 + 2 shared", 2 * 704),
        ("64 experts, top-6, plus one shared expert", 704),
        ("64 experts top-6 + shared expert of 5120", 5120),
    ],
)
def test_shared_experts_have_their_width(said: str, width: int) -> None:
    assert model(**SHAPE, experts=said)["experts"]["shared_ffn"] == width


@pytest.mark.parametrize("said", [{"experts": "no"}, {"expert_count": "1"}, {"experts": "dense"}])
def test_a_model_without_experts_is_dense(said: dict[str, str]) -> None:
    assert not says_mixture(row(**said))
    assert model(**SHAPE, **said) == model(**SHAPE)


@pytest.mark.parametrize(
    ("said", "experts", "chosen"),
    [
        ("256 routed + 1 shared, top-8, 3 of 61 layers dense", 256, 8),
        ("256 experts top-8 (node-limited to 4 of 8 groups)", 256, 8),
        ("1 out of 2 layers; 16 experts; top-1", 16, 1),
        ("8 experts/GPU", None, None),
        ("16 experts per GPU", None, None),
        ("top-8 experts of 256", 256, 8),
        ("6 experts active out of 64", 64, 6),
        ("64 experts, 6 experts per token", 64, 6),
        ("4 experts per device, 128 experts top-8", 128, 8),
        ("1,024 experts top-8", 1024, 8),
        ("21B total 3.6 active, 32 experts top-4", 32, 4),
        ("9" * 5000, None, None),
    ],
)
def test_numbers_of_other_things_are_no_experts(
    said: str, experts: int | None, chosen: int | None
) -> None:
    found = mixture_said(row(experts=said))
    assert (found.experts, found.top_k) == (experts, chosen)


@pytest.mark.parametrize("said", ["64+2", "128 (8 active)", "-1", "9" * 5000])
def test_a_column_of_counts_that_holds_none_is_refused(said: str) -> None:
    with pytest.raises(InvalidError, match="expert_count: got"):
        model(**SHAPE, expert_count=said, top_k="2")


@given(st.integers(1, 400), st.integers(1, 400))
def test_a_named_mixture_has_the_experts_that_its_row_says(count: int, chosen: int) -> None:
    own = model(model="Mixtral 8x7B")
    told, notes = model_of(row(model="Mixtral 8x7B", expert_count=str(count), top_k=str(chosen)))
    if chosen > count or (count, chosen) == (8, 2):
        assert told == own
        return
    assert told == {**own, "experts": {**own["experts"], "experts": count, "top_k": chosen}}
    assert any("as the row says" in note for note in notes)


def test_counts_that_include_shared_experts_are_the_models_own() -> None:
    own = model(model="DeepSeek-V3")
    assert model(model="DeepSeek-V3", expert_count="257", top_k="9") == own
    assert model(model="DeepSeek-V3", experts="256 routed + 1 shared, top-8, 37B active") == own
    assert mixture_said(row(experts="37B active")).top_k is None


def test_remarks_tell_the_capacity_of_experts() -> None:
    column = model(model="Mixtral 8x7B", capacity_factor="1.25")
    assert column["experts"]["capacity_factor"] == 1.25
    assert model(model="Mixtral 8x7B", source="capacity factor 1.25 (dropping)") == column
    assert model(model="Mixtral 8x7B", source="capacity_factor=2", capacity_factor="1.25") == column
    of_experts = "8 experts top-2, dropped, capacity factor 1.25"
    assert model(model="Mixtral 8x7B", experts=of_experts) == column
    for none in ("no capacity factor", "capacity 2"):
        assert "capacity_factor" not in model(model="Mixtral 8x7B", source=none)["experts"]
    assert model(model="Llama 2 7B", source="capacity factor 2").get("experts") is None


@pytest.mark.parametrize("text", ["2816 dense, 384 expert", "2,816 (dense) / 384 per expert"])
def test_a_cell_of_two_widths_tells_that_of_dense_layers_from_that_of_experts(text: str) -> None:
    told = model(**SHAPE | {"ffn": text}, experts="64 routed, top-6, first layer dense")
    apart = model(**SHAPE | {"ffn": "2816"}, experts="64 experts top-6", expert_ffn="384")
    assert (told["ffn"], told["experts"]["expert_ffn"]) == (2816, 384)
    assert told == {**apart, "experts": {**apart["experts"], "first_dense_layers": 1}}


@pytest.mark.parametrize(
    ("said", "layers"), [("first 3 layers are dense", 3), ("first two layers dense", 2)]
)
def test_words_count_the_layers_without_experts(said: str, layers: int) -> None:
    assert mixture_said(row(experts=f"64 experts top-6, {said}")).dense == layers
    assert mixture_said(row(experts="64 experts top-6, dense")).dense is None


@given(st.integers(2, 64), st.integers(1, 64))
def test_an_upcycled_model_has_experts_as_wide_as_its_parts(count: int, chosen: int) -> None:
    own = model(model="Llama 3 8B")
    cells = {"model": f"Llama 3-8B E{count}T{chosen}"}
    if chosen > count:
        with pytest.raises(UnknownNameError):
            model(**cells)
        return
    experts = {"experts": count, "top_k": chosen, "expert_ffn": own["ffn"]}
    assert model(**cells) == {**own, "experts": experts}


def test_a_capacity_factor_has_a_short_name() -> None:
    column = model(model="Mixtral 8x7B", capacity_factor="4")
    assert model(model="Mixtral 8x7B", source="CF 4, top-2") == column
    assert "capacity_factor" not in model(model="Mixtral 8x7B", source="cf. 4")["experts"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("61 layers (3 dense + 58 MoE)", {"layers": "61", "dense_layers": "3"}),
        ("4 layers + MTP", {"layers": "4", "prediction_layers": "1"}),
        ("40 decoder layers (vs 126)", {"layers": "40"}),
        ("24 blocks", {"layers": "24"}),
        # parts that do not make the whole tell nothing
        ("61 layers (3 dense + 57 MoE)", {"layers": "61"}),
        ("28 (1 dense + 27 MoE)", {"layers": "28", "dense_layers": "1"}),
    ],
)
def test_a_count_of_layers_is_told_from_what_stands_beside_it(
    text: str, said: dict[str, str]
) -> None:
    cells = with_layers(row(layers=text)).cells
    assert {c: t for c, t in cells.items() if c not in CELLS} == said


@pytest.mark.parametrize("text", ["4 or 8 layers", "layers 4", "12 + 12 layers", "0 layers"])
def test_other_words_of_layers_stay(text: str) -> None:
    assert with_layers(row(layers=text)) == row(layers=text)


def test_columns_come_before_what_a_cell_of_layers_says() -> None:
    said = with_layers(row(layers="61 layers (3 dense + 58 MoE)", dense_layers="1"))
    assert said.text("dense_layers") == "1"


@pytest.mark.parametrize("words", ["latent size 512", "LatentMoE 512", "latent width = 512"])
def test_words_tell_the_width_of_what_is_sent_to_experts(words: str) -> None:
    plain = model(**SHAPE, experts="64 experts top-6")
    latent = model(**SHAPE, experts=f"64 experts top-6, {words}")
    assert latent == {**plain, "experts": {**plain["experts"], "latent_width": 512}}
    # no width that presses nothing
    assert model(**SHAPE, experts="64 experts top-6, latent size 1024") == plain


def test_of_keys_of_two_kinds_of_layers_those_of_most_are_taken() -> None:
    two, notes = model_of(row(**SHAPE, kv_heads="8 (local), 4 (global)"))
    assert two == model(**SHAPE, kv_heads="8")
    assert any("8 taken" in note for note in notes)
    with pytest.raises(InvalidError, match="kv_heads"):
        model(**SHAPE, kv_heads="8, 4")


def test_a_width_among_words_is_the_number_they_stand_beside() -> None:
    gated = model(**SHAPE | {"ffn": "704 (SwiGLU)", "vocab": "1000"})
    assert gated["ffn"] == 704
    assert gated["activation"] == "swiglu"
    plain = model(**SHAPE | {"ffn": "GELU 4,096", "vocab": "1000"})
    assert (plain["ffn"], plain["activation"]) == (4096, "gelu")
    assert model(**SHAPE | {"ffn": "4 x hidden"})["ffn"] == 4 * 1024
    assert model(**SHAPE | {"ffn": "3.5d"})["ffn"] == 3584
    assert with_widths(row(**SHAPE | {"ffn": "many"})).text("ffn") == "many"


@pytest.mark.parametrize(("hidden", "ratio", "width"), [(2048, 4, 5632), (1024, 4, 2816)])
def test_a_hidden_ratio_makes_the_width_of_its_programs_code(hidden: int, ratio: int, width: int):
    shape = SHAPE | {"hidden": str(hidden), "ffn": f"hidden_ratio {ratio}"}
    made = model(**shape)
    assert (made["ffn"], made["activation"]) == (width, "swiglu")


@pytest.mark.parametrize("said", ["18432 dense, 2048 MoE", "18,432 dense, 2,048 expert"])
def test_two_widths_in_a_cell_are_of_dense_layers_and_of_experts(said: str) -> None:
    shape = SHAPE | {"ffn": said, "experts": "64 experts top-6"}
    made = model(**shape)
    assert (made["ffn"], made["experts"]["expert_ffn"]) == (18432, 2048)


def test_a_proxy_is_its_model_with_the_shape_of_its_row() -> None:
    whole = model(model="DeepSeek-V3")
    proxy = model(
        model="DeepSeek-V3 proxy: num_layers=4 + mtp_num_layers=1", layers="4", hidden="7168"
    )
    assert proxy["layers"] == 4
    assert proxy["latent"] == whole["latent"]
    assert proxy["experts"]["experts"] == whole["experts"]["experts"]
    assert proxy["prediction_layers"] == 1
    with pytest.raises(InvalidError, match="a proxy whose layers or width"):
        model(model="DeepSeek-V3 (proxy)")


def test_what_a_row_denies_a_named_mixture_it_has_not() -> None:
    said = "256 experts, top-k 8, moe_layer_freq=1, no shared expert"
    own, bare = (model(model="DeepSeek-V3", experts=text)["experts"] for text in ("", said))
    assert own["shared_ffn"] > 0
    assert own["first_dense_layers"] == 3
    assert (bare["shared_ffn"], bare["first_dense_layers"]) == (0, 0)
    assert {key: bare[key] for key in ("experts", "top_k", "expert_ffn")} == {
        key: own[key] for key in ("experts", "top_k", "expert_ffn")
    }


@pytest.mark.parametrize(
    "said", ["moe_mlp 1408", "moe_ffn_hidden_size=1408", "expert width 1408", "expert ffn: 1,408"]
)
def test_the_width_of_an_expert_may_stand_among_words_on_experts(said: str) -> None:
    cells = {**SHAPE, "ffn": "", "parameters": "9"}
    words = model(**cells, experts=f"8 experts, top-2, {said}")
    assert words == model(**cells, experts="8 experts, top-2", expert_ffn="1408")
    own = model(**cells, experts=f"8 experts, top-2, {said}", expert_ffn="640")
    assert own["experts"]["expert_ffn"] == 640


@pytest.mark.parametrize("said", ["shared expert ffn_1408", "nonexpert mlp_1408"])
def test_other_widths_are_not_those_of_an_expert(said: str) -> None:
    assert model(**SHAPE, experts=f"8 experts, top-2, {said}")["experts"]["expert_ffn"] == 704


def test_experts_have_no_gates_where_that_alone_makes_the_parameters_of_a_row() -> None:
    shape = {**SHAPE, "layers": "24", "ffn": "4096", "vocab": "50304"}
    fields = {**shape, "experts": "64 experts, top-2"}
    assert model(**fields)["activation"] == "swiglu"
    assert model(**fields, parameters="13")["activation"] != "swiglu"
    assert model(**fields, parameters="19.5")["activation"] == "swiglu"
    assert model(**fields, parameters="13", source="SwiGLU")["activation"] == "swiglu"
