"""Do the catalog's models have the published parameter counts, as the engine counts them?"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import scalewright as sw
from scalewright import catalog
from scalewright._engine import Workload
from scalewright.catalog.layers import PUBLISHED_TOTALS, built_in_root
from scalewright.catalog.resolving import normalised
from scalewright.errors import InvalidError

FAMILIES = {
    file.name.removesuffix(".toml"): tomllib.loads(file.read_text())
    for file in (built_in_root() / "models").iterdir()
}
MODELS = {name: table for family in FAMILIES.values() for name, table in family.items()}
CHECKPOINTS = {n: t["checkpoint_parameters"] for n, t in MODELS.items() if PUBLISHED_TOTALS[0] in t}
PRINTED = {n: t["printed_parameters"] for n, t in MODELS.items() if PUBLISHED_TOTALS[1] in t}
# these papers give the padded vocabulary, V = 51,200, as the model's own
PADDED_PAPERS = {*FAMILIES["megatron"], "megatron-162b"}
ROOT = Path(__file__).parents[2]
UNITS = {"M": 10**6, "B": 10**9}
REQUIRED = """
    gpt2 gpt2-medium gpt2-large gpt2-xl
    gpt3-125m gpt3-350m gpt3-760m gpt3-1.3b gpt3-2.7b gpt3-6.7b gpt3-13b gpt3-175b
    megatron-1.7b megatron-3.6b megatron-7.5b megatron-18b megatron-22b megatron-39b megatron-76b
    megatron-145b megatron-310b megatron-530b megatron-1t megatron-8.3b mt-nlg-530b
    palm-8b palm-62b palm-540b llama-7b llama-13b llama-30b llama-65b
    llama2-7b llama2-13b llama2-70b llama3-8b llama3-70b llama3-405b llama3.2-1b llama3.2-3b
    mpt-125m mpt-350m mpt-760m mpt-1b mpt-3b mpt-7b mpt-13b mpt-30b mpt-70b
    mixtral-8x7b mixtral-8x22b mistral-7b
    deepseek-v2 deepseek-v2-lite deepseek-v3 deepseek-moe-16b
    qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b qwen2.5-14b qwen2.5-32b qwen2.5-72b
    qwen3-0.6b qwen3-1.7b qwen3-4b qwen3-8b qwen3-14b qwen3-32b qwen3-30b-a3b qwen3-235b-a22b
    opt-125m opt-1.3b opt-2.7b opt-6.7b opt-13b opt-30b opt-66b opt-175b
    bloom-560m bloom-1b1 bloom-1b7 bloom-3b bloom-7b1 bloom-176b
    gemma-2b gemma-7b gemma2-2b gemma2-9b gemma2-27b gemma3-1b gemma3-4b gemma3-12b gemma3-27b
    bert-base bert-large t5-small t5-base t5-large t5-3b t5-11b
    gpt-oss-20b gpt-oss-120b nemotron-4-15b nemotron-4-340b
    nemotron-h-8b nemotron-3-nano-30b-a3b nemotron-3-super-120b-a12b nemotron-3-ultra-550b-a55b
    mamba2-2.7b granite-4.0-h-small
    qwen3-next-80b-a3b qwen3.5-0.8b qwen3.5-2b qwen3.5-4b qwen3.5-9b qwen3.5-27b qwen3.5-35b-a3b
    qwen3.5-122b-a10b qwen3.5-397b-a17b
    gpt-neo-1.3b gpt-neo-2.7b pythia-410m pythia-1.4b pythia-2.8b pythia-6.9b pythia-12b
    roberta-base roberta-large megatron-bert-3.9b bert-48 mt5-xl mt5-xxl lamda-137b turing-nlg-17b
    falcon-180b bloomberggpt-50b galactica-120b jurassic-1-178b xglm-7.5b cerebras-gpt-13b
    qwen-7b qwen-14b qwen-72b qwen1.5-14b qwen1.5-72b qwen1.5-110b qwen2-7b qwen2-72b yi-6b yi-34b
    baichuan-13b baichuan2-7b baichuan2-13b chatglm-6b chatglm3-6b glm-130b glm-4-9b glm-4.5
    internlm-20b internlm2-20b aquila-33b aquila2-34b aquila2-70b deepseek-llm-67b
    deepseek-coder-33b moonlight-16b-a3b ernie-4.5-300b-a47b minicpm-2b seed-oss-36b
    codellama-34b codellama-70b tinyllama-1.1b open-llama-3b solar-10.7b redpajama-incite-7b
    phi-1.5 phi-2 phi-3-mini phi-3-medium phi-3.5-moe phi-4 starcoder-15b starcoder2-15b codegen-16b
    olmo-7b olmo2-13b olmo2-32b olmoe-1b-7b stablelm-3b smollm2-1.7b smollm3-3b dbrx
    mistral-nemo-12b mistral-small-24b mistral-large-123b ministral-8b codestral-22b
    command-r command-r-plus granite-3-8b
"""


def parameters(name):
    return Workload(json.dumps(catalog.load_model(name))).parameters()


def test_the_catalog_holds_the_models_that_papers_plan_with():
    assert set(REQUIRED.split()) <= set(catalog.names("model"))
    assert set(catalog.names("model")) == set(MODELS)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_engine_reads_every_model_and_its_source_is_said(name):
    entry = catalog.load_model(name)
    assert entry["name"] == name == name.lower()
    assert len(entry["source"]) > 20
    counted = parameters(name)
    parts = sum(counted[part] for part in ("embedding", "layers", "head", "extra"))
    assert counted["total"] == parts
    assert counted["total"] <= counted["padded_total"]


def test_enough_models_have_an_exact_total():
    assert len(CHECKPOINTS) >= 25
    assert len(PRINTED) >= 15


@pytest.mark.parametrize("name", sorted(CHECKPOINTS))
def test_count_is_that_of_the_checkpoint(name):
    assert parameters(name)["total"] == CHECKPOINTS[name]


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_count_is_the_printed_one_to_its_digits(name):
    digits, unit = re.fullmatch(r"([\d.]+)([MB])", PRINTED[name]).groups()
    decimals = len(digits.partition(".")[2])
    step = UNITS[unit] // 10**decimals
    printed = round(float(digits) * 10**decimals)
    counted = parameters(name)["padded_total" if name in PADDED_PAPERS else "total"]
    # papers round, and some cut off
    assert printed in {(counted + step // 2) // step, counted // step}


def test_experts_that_a_token_skips_are_not_active():
    # DeepSeek-V3 report, section 2: 671B of which 37B are active
    counted = parameters("deepseek-v3")
    assert round(counted["total"] / 1e9) == 671
    assert int(counted["active_per_token"] / 1e9) == 37
    # technical reports of Nemotron 3: 31.6B with 3.6B active, 120.6B with 12.7B active
    assert round(parameters("nemotron-3-nano-30b-a3b")["active_per_token"] / 1e8) == 36
    assert int(parameters("nemotron-3-super-120b-a12b")["active_per_token"] / 1e8) == 127
    # Mixtral of Experts, section 1: 47B of which 13B are active
    counted = parameters("mixtral-8x7b")
    assert round(counted["total"] / 1e9) == 47
    assert round(counted["active_per_token"] / 1e9) == 13
    # cards of DBRX: 132B of which 36B are active; Phi-3.5-MoE: 42B and 6.6B; OLMoE: 7B and 1B
    assert int(parameters("dbrx")["active_per_token"] / 1e9) == 36
    assert round(parameters("phi-3.5-moe")["active_per_token"] / 1e8) == 66
    assert round(parameters("olmoe-1b-7b")["active_per_token"] / 1e9) == 1


def test_names_and_aliases_are_unique():
    spellings = [s for n in MODELS for s in (n, *MODELS[n].get("aliases", []))]
    twice = {s for s, count in Counter(map(normalised, spellings)).items() if count > 1}
    assert not twice


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("GPT-3", "gpt3-175b"),
        ("llama-3.1-405b", "llama3-405b"),
        ("llama3.3-70b", "llama3-70b"),
        ("Llama_2_70B", "llama2-70b"),
        ("deepseek-r1", "deepseek-v3"),
        ("bloom", "bloom-176b"),
    ],
)
def test_aliases_resolve(alias, name):
    assert catalog.load_model(alias)["name"] == name


def test_published_totals_are_no_fields_of_the_shape():
    assert not set(PUBLISHED_TOTALS) & catalog.load_model("gpt3-175b").keys()
    assert not set(PUBLISHED_TOTALS) & catalog.load_model("gpt2").keys()


def test_an_override_changes_a_model_and_says_so(tmp_path):
    file = tmp_path / "deep.toml"
    file.write_text('kind = "model"\nbase = "llama3-8b"\nname = "deep"\nlayers = 64\n')
    entry = catalog.load_entry("model", "deep", [file])
    assert entry.overridden == ("layers",)
    assert entry.table["source"].endswith("; layers by override in deep.toml")
    layers = Workload(json.dumps(entry.table)).parameters()["layers"]
    assert layers == 2 * parameters("llama3-8b")["layers"]


def test_published_spellings_name_models_of_the_catalog():
    spellings = catalog.model_spellings()
    assert spellings["Llama 3 405B"].model == "llama3-405b"
    for text, spelling in spellings.items():
        assert spelling.text == text
        # what the catalog cannot hold says why
        assert spelling.model in MODELS or (spelling.model is None and spelling.note)


def test_a_config_file_stands_for_a_model(tmp_path, monkeypatch):
    config = Path(__file__).parent / "configs" / "gpt2.json"
    folder = tmp_path / "gpt2-xl"
    folder.mkdir()
    (folder / "config.json").write_text(config.read_text())
    for name in (str(config), str(folder), str(folder / "config.json")):
        assert catalog.load_model(name)["hidden"] == 768
    monkeypatch.chdir(tmp_path)
    assert catalog.load_model("./gpt2-xl")["hidden"] == 768
    # a directory that is called like a model does not hide it
    assert catalog.load_model("gpt2-xl")["hidden"] == 1600
    folder.rename(tmp_path / "ours")
    with pytest.raises(sw.UnknownNameError, match=r"a directory is written with a slash: \./ours$"):
        catalog.load_model("ours")
    with pytest.raises(InvalidError, match=r"absent\.json: cannot be read"):
        catalog.load_model("absent.json")


def test_layers_of_an_encoder_are_counted_before_they_are_listed():
    fields = {"family": "encoder_decoder", "layers": 2, "encoder_layers": 2**40, "hidden": 64}
    shape = {"heads": 4, "ffn": 256, "vocab": 1000, "position": "rotary"}
    with pytest.raises(sw.ScalewrightError, match=r"encoder_layers: got \d+; allowed: 1 to"):
        sw.model({"name": "deep", "activation": "gelu", "norm": "rmsnorm", **fields, **shape})


def _fields(struct: str) -> dict[str, bool]:
    """Return the fields of a struct of the engine's model, and whether each must be given."""
    text = (ROOT / "rust" / "workload" / "transformer" / "config.rs").read_text()
    body = text.partition(f"pub struct {struct} {{")[2].partition("\n}")[0]
    found, optional = {}, False
    for line in map(str.strip, body.splitlines()):
        if line.startswith("#[serde(default"):
            optional = True
        elif named := re.match(r"pub (\w+):", line):
            found[named[1]] = not optional
            optional = False
    return found


@pytest.mark.parametrize(
    ("struct", "head"),
    [
        ("Transformer", "| field | required | default | meaning |"),
        ("LatentAttention", "| field of `latent` |"),
        ("MixtureOfExperts", "| field of `experts` |"),
        ("Lora", "| field of `lora` |"),
    ],
)
def test_the_page_lists_the_fields_of_a_model(struct: str, head: str) -> None:
    """All that the engine reads and nothing else, and which of them a whole entry must have."""
    page = (ROOT / "docs" / "catalog.md").read_text().partition("## Fields of a model")[2]
    rows = page.partition(head)[2].partition("\n\n")[0].splitlines()
    told = {
        name: "yes" in row.split("|")[2]
        for row in rows
        if row.startswith("| `")
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert told == _fields(struct)


def test_the_model_of_the_page_is_a_whole_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "catalog.md").read_text().partition("## Fields of a model")[2]
    path = tmp_path / "mine.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert 7.2e9 < sw.model(str(path)).parameters()["total"] < 7.3e9
