"""Are blocks of generated text what FlexGen's own linear program gives, or better?"""

import json
from pathlib import Path
from typing import Any

import pytest

import scalewright as sw
from flexgen_program import OPT, Shape, searched, seconds_a_sequence
from scalewright.catalog.layers import built_in_root
from scalewright.catalog.loading import load_device
from scalewright.catalog.toml_file import read_table
from scalewright.cli import main
from scalewright.errors import InvalidError, ScalewrightError, UnknownNameError
from scalewright.reproductions.placement.flexgen import flexgen

TEXT = {"prompt": 512, "generated": 32}


def problem(shape: Shape) -> dict[str, Any]:
    """Return FlexGen's machine and a model's layers as FlexGen counts them."""
    place = built_in_root() / "published" / "placement" / "flexgen.toml"
    layer = {
        "hidden": shape.hidden,
        "weights_bytes": shape.weights,
        "cache_bytes_per_token": 4.0 * shape.hidden,
        "state_bytes_per_token": 2.0 * shape.hidden,
        "inner_bytes_per_token": 2.0 * shape.inner,
        "score_bytes_per_query_and_key": 2.0 * shape.heads,
        "matmul_flops_per_token": shape.weights,
        "attention_flops_per_query_and_key": 4.0 * shape.hidden,
    }
    return {
        **read_table(place),
        "prompt": shape.prompt,
        "generated": shape.generated,
        "layers": shape.layers,
        "layer": layer,
    }


def seconds(block: sw.ServingBlock) -> float:
    return block.time_s / (block.batch * block.batches)


@pytest.mark.parametrize("name", OPT)
@pytest.mark.parametrize("at", [(1, 1), (4, 20), (32, 8), (34, 5), (48, 3), (8, 64)])
def test_a_block_is_as_flexgens_own_program_has_it(name: str, at: tuple[int, int]):
    own = seconds_a_sequence(OPT[name], *at)
    fixed = {"batch": [at[0]] * 2, "batches": [at[1]] * 2}
    block = sw.serving_blocks(problem=problem(OPT[name]) | fixed)
    assert block.fits == (own is not None)
    if own is not None:
        assert seconds(block) == pytest.approx(own, rel=1e-6)


@pytest.mark.parametrize("name", OPT)
def test_the_best_block_is_never_worse_than_flexgens_search(name: str):
    own, *_ = searched(OPT[name])
    block = sw.serving_blocks(problem=problem(OPT[name]))
    assert seconds(block) <= own * (1 + 1e-6)
    assert block.relative_gap is not None
    assert block.relative_gap <= 1e-7


def test_a_model_on_a_machine_of_the_catalog_is_placed():
    block = sw.serving_blocks("opt-30b", "gcp-t4", **TEXT)
    assert block.fits
    for shares in (block.weights, block.cache, block.states):
        assert sum(shares.values()) == pytest.approx(1.0)
        assert list(shares) == sorted(["gddr", "ddr", "nvme"])
    assert max(memory.total_bytes / memory.capacity_bytes for memory in block.memory) <= 1 + 1e-9
    again = sw.serving_blocks(problem=block.problem)
    assert again == block


def test_a_machine_whose_memories_share_a_switch_is_placed():
    block = sw.serving_blocks("opt-175b", "dgx-a100-80gb", **TEXT, batch=[1, 64])
    assert block.fits
    assert any("pcie-switch in" in lanes.lanes for lanes in block.lanes)


def test_the_policies_own_price_is_at_most_the_best():
    policy = {
        "batch": 48,
        "batches": 3,
        "weights": {"gddr": 0.1, "ddr": 0.9},
        "cache": {"ddr": 1.0},
        "states": {"ddr": 1.0},
    }
    given = sw.serving_blocks("opt-30b", "gcp-t4", **TEXT, policy=policy)
    best = sw.serving_blocks("opt-30b", "gcp-t4", **TEXT)
    assert given.most_tokens_per_s is None
    assert given.tokens_per_s <= best.tokens_per_s or not given.fits


def test_faster_flash_or_smaller_formats_generate_no_less():
    def tokens(**of: Any) -> float:
        return sw.serving_blocks("opt-175b", "gcp-t4", **TEXT, **of).tokens_per_s

    plain = tokens()
    assert tokens(cache="fp8") >= plain * (1 - 1e-6)
    assert tokens(weights="int8") >= plain * (1 - 1e-6)
    assert tokens(usable=1.0) >= plain * (1 - 1e-6)
    assert tokens(host_attention="5 GB/s") <= plain * (1 + 1e-6)


def test_where_nothing_fits_the_block_says_so(capsys: pytest.CaptureFixture[str]):
    block = sw.serving_blocks("gpt3-175b", "pc-rtx-3090", **TEXT)
    assert not block.fits
    assert block.most_tokens_per_s is None
    assert main(["serve-blocks", "gpt3-175b", "pc-rtx-3090"]) == 3
    assert "nothing fits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"attention": "nobody"}, "attention"),
        ({"prompt": 0}, "prompt"),
        ({"batch": [1, 2, 3]}, "batch"),
        ({"batch": [0, 2]}, "batch"),
        ({"usable": 2.0}, "usable"),
        ({"weights": "fp17"}, "weights"),
        ({"host_attention": "fast"}, "host_attention"),
    ],
)
def test_a_wrong_value_is_named(wrong: dict[str, Any], said: str):
    with pytest.raises(sw.ScalewrightError, match=said):
        sw.serving_blocks("opt-30b", "gcp-t4", **(TEXT | wrong))


def test_wrong_problems_and_policies_are_named():
    posed = sw.serving_problem("opt-30b", "gcp-t4", **TEXT)
    with pytest.raises(UnknownNameError, match="layers"):
        sw.serving_blocks(problem={**posed, "layer_count": 3})
    with pytest.raises(InvalidError, match="problem"):
        sw.serving_blocks("opt-30b", "gcp-t4", problem=posed)
    with pytest.raises(InvalidError, match="model, system"):
        sw.serving_blocks("opt-30b")
    with pytest.raises(sw.ScalewrightError, match="decoder"):
        sw.serving_blocks("bert-large", "gcp-t4", **TEXT)
    policy = {"batch": 1, "batches": 1, "cache": {"ddr": 1.0}, "states": {"ddr": 1.0}}
    for weights, said in (({"ddr": 0.9}, "policy.weights"), ({"dram": 1.0}, "ddr")):
        with pytest.raises(sw.ScalewrightError, match=said):
            sw.serving_blocks(problem=posed, policy={**policy, "weights": weights})


def test_the_command_says_what_python_says(capsys: pytest.CaptureFixture[str]):
    arguments = ["serve-blocks", "opt-30b", "gcp-t4", "--prompt", "512", "--generate", "32"]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    block = sw.serving_blocks("opt-30b", "gcp-t4", **TEXT)
    for field in ("batch", "batches", "time_s", "weights", "cache", "states"):
        assert told[field] == getattr(block, field)
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert f"{block.batches} batches of {block.batch} sequences" in shown
    assert all(home in shown for home in block.weights)
    named = ["serve-blocks", "--model", "opt-30b", "--system", "gcp-t4", *arguments[3:]]
    assert main(named) == 0
    assert capsys.readouterr().out == shown
    for wrong in (named[:3], arguments[:2], [*named, "opt-30b", "gcp-t4"]):
        assert main(wrong) == 2
        assert "allowed: a" in capsys.readouterr().err


def test_layers_quicker_than_their_kernels_start_are_said_to_be_too_fast(
    capsys: pytest.CaptureFixture[str],
):
    """The least of a layer is five kernels, whose starts the model leaves out."""
    small = ["serve-blocks", "gpt2", "dgx-a100-80gb", "--batch", "1", "--batches", "1"]
    assert main(small) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "too fast: decoding takes 12.06 us for a layer of a batch, but each of its 5" in said
    assert "takes 2.702 us to start, which is left out" in said
    assert main(["serve-blocks", "opt-30b", "gcp-t4"]) == 0
    assert "too fast" not in capsys.readouterr().out


def test_one_batch_is_said_as_one_and_much_memory_in_tib(
    capsys: pytest.CaptureFixture[str],
):
    assert main(["serve-blocks", "opt-30b", "gcp-t4", "--batches", "1", "--batch", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 batch of 1 sequence: ")
    assert "of 1.23 TiB" in shown


def test_a_user_s_own_machine_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    mine = tmp_path / "mine.toml"
    tier = '[[tiers]]\nname = "gddr"\ncapacity = "32 GiB"\n'
    mine.write_text(f'kind = "device"\nbase = "t4"\n{tier}')
    asked = ["serve-blocks", "opt-30b", "gcp-t4", "--json"]
    assert main([*asked, "--catalog", str(mine)]) == 0
    more = json.loads(capsys.readouterr().out)
    assert main(asked) == 0
    usual = json.loads(capsys.readouterr().out)
    assert more["tokens_per_s"] > usual["tokens_per_s"]
    assert more["catalog_hash"] != usual["catalog_hash"]
    assert usual["overridden_constants"] == []


def test_every_published_policy_is_priced_or_says_why_not():
    rows = list(flexgen())
    skipped = [row["what"] for row in rows if row["reason"] is not None]
    assert skipped
    assert all("4 bits" in what for what in skipped)
    priced = [row for row in rows if row["reason"] is None]
    assert all(row["predicted"] > 0 for row in priced)
    # no policy that fits beats the best block of the same model by the same constants
    names = {row["what"].split(":")[0] for row in priced}
    for name in names:
        of = {row["what"].split(": ")[1]: row for row in priced if row["what"].startswith(name)}
        own, best = of["FlexGen's own constants"], of["the best block by FlexGen's constants"]
        if own["details"]["fits"]:
            assert own["predicted"] <= best["predicted"] * (1 + 1e-6)


def test_layers_without_attention_cache_nothing():
    fields = sw.catalog.load_model("qwen3.5-27b") | {"name": "attending"}
    of = {key: fields[key] for key in fields if key not in ("attention_pattern", "state_space")}
    asked = sw.serving_problem(sw.model("qwen3.5-27b"), "dgx-h100", **TEXT)
    every = sw.serving_problem(sw.model(of), "dgx-h100", **TEXT)
    # one layer of four attends
    for part in ("cache_bytes_per_token", "attention_flops_per_query_and_key"):
        assert 4 * asked["layer"][part] == pytest.approx(every["layer"][part])
    # the others send what is convolved, and two numbers a head, to whoever scans
    scan = fields["state_space"]
    sent = scan["heads"] * (scan["head_dim"] + 2) + 2 * scan["groups"] * scan["state"]
    queries = every["layer"]["query_bytes_per_token"] + 3 * 2 * sent
    assert 4 * asked["layer"]["query_bytes_per_token"] == pytest.approx(queries)
    with pytest.raises(ScalewrightError, match=r"mamba2-2\.7b: got no layer that attends"):
        sw.serving_blocks("mamba2-2.7b", "dgx-h100", **TEXT)


def test_states_of_scans_are_held_for_each_sequence():
    posed = sw.serving_problem("nemotron-h-8b", "gcp-t4", **TEXT)
    # 24 of 52 layers: 128 heads of 64 with a state of 128, and three inputs of the convolution over
    # those and 2 x 8 x 128 more channels, in 16 bits
    state = 24 * (128 * 64 * 128 + 3 * (128 * 64 + 2 * 8 * 128)) * 2
    assert posed["layers"] * posed["layer"]["recurrent_bytes_per_sequence"] == pytest.approx(state)
    block = sw.serving_blocks(problem=posed)
    room = sum(home["capacity_bytes"] for home in posed["homes"])
    assert block.fits
    held = sum(memory.total_bytes for memory in block.memory if memory.phase == "decode")
    assert block.batch * block.batches * state <= held <= room
    assert (
        sw.serving_problem("opt-30b", "gcp-t4", **TEXT)["layer"]["recurrent_bytes_per_sequence"]
        == 0
    )


def test_latent_attention_expands_its_cache_in_a_prompt_only():
    posed = sw.serving_problem("deepseek-v2-lite", "dgx-a100-80gb", **TEXT)
    layer, compute = posed["layer"], posed["compute"]
    # 16 heads; keys of 128 + 64 and values of 128 in a prompt, a latent of 512 + 64 in generation
    assert layer["attention_flops_per_query_and_key"] == pytest.approx(2 * 16 * (192 + 128))
    token = compute["prefill_attention_flops_per_s"] * layer["cache_bytes_per_token"]
    token /= compute["device_attention_bytes_per_s"]
    assert token == pytest.approx(2 * 16 * (2 * 512 + 64))


def test_a_fused_kernel_keeps_no_scores_of_a_long_prompt(capsys: pytest.CaptureFixture[str]):
    long: dict[str, Any] = {"prompt": 32_768, "generated": 1024, "batch": 1}
    assert sw.serving_blocks("llama3-70b", "dgx-a100-80gb", **long).fits
    assert not sw.serving_blocks("llama3-70b", "dgx-a100-80gb", **long, flash_attention=False).fits
    asked = ["serve-blocks", "llama3-70b", "dgx-a100-80gb", "--prompt", "32768", "--batch", "1"]
    assert main([*asked, "--no-flash"]) == 3
    assert "nothing fits" in capsys.readouterr().out


def test_what_has_room_on_the_device_stays_there():
    block = sw.serving_blocks(
        "deepseek-v2-lite", "dgx-a100-80gb", prompt=8192, generated=64, batch=1, batches=64
    )
    assert block.relative_gap == pytest.approx(0.0, abs=1e-7)
    for shares in (block.weights, block.cache, block.states):
        assert shares["nvme"] == pytest.approx(0.0, abs=1e-6)
    assert block.weights["hbm"] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("batches", [1, 3])
def test_each_batch_reads_the_head_s_table_beside_the_layers(batches: int):
    model = sw.model("llama3-8b")
    asked = {"prompt": 128, "generated": 128, "batch": (1, 1), "batches": (batches, batches)}
    block = sw.serving_blocks("llama3-8b", "dgx-h100", **asked)
    # all parameters but the last norm and the embedding's table, of which a token reads a row
    table = (model.table["vocab"] + 1) * model.table["hidden"]
    bytes_read = 2.0 * (model.parameters()["total"] - table)
    hbm = next(tier for tier in load_device("h100-sxm")["tiers"] if tier["kind"] == "hbm")
    least = 128 * batches * bytes_read / (3.35e12 * hbm["efficiency"])
    assert least * (1 - 1e-9) <= block.time_s <= 1.02 * least
