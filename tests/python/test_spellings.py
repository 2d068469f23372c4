"""Does a row mean the same under the spellings of other tables?"""

from __future__ import annotations

import pytest

from rows_to_read import priced, row
from scalewright.catalog import names, usual_system
from scalewright.catalog.layers import built_in_root
from scalewright.errors import InvalidError
from scalewright.reproductions.layout import degrees_in
from scalewright.reproductions.machine import Machines, machine_of
from scalewright.reproductions.metrics import metric_meant, metric_of, ungrouped, unit_meant
from scalewright.reproductions.naming import model_named, model_of_size, nearest_models
from scalewright.reproductions.setting import setting_of


@pytest.mark.parametrize(
    ("heading", "unit", "meant", "size"),
    [
        ("Training step time (seconds per step)", "", "step_time", "s"),
        ("Time per Global Step (s)", "", "step_time", "s"),
        ("ms/iter", "", "step_time", "ms"),
        ("s/it", "", "step_time", "s"),
        ("Tokens/sec/GPU", "", "tokens_per_s_per_gpu", "tokens/s"),
        ("token/gpu/sec", "token/gpu/sec", "tokens_per_s_per_gpu", "tokens/s"),
        ("TGS", "", "tokens_per_s_per_gpu", "tokens/s"),
        ("HIP mem", "GiB", "peak_memory_per_gpu", "GiB"),
        ("TFLOPs (all gpus)", "", "aggregate_tflops", "TFLOP/s"),
        ("throughput", "tokens/s (all GPUs)", "tokens_per_s", "tokens/s"),
        ("单步耗时 (中位数)", "s", "step_time", "s"),
        ("峰值显存", "GB", "peak_memory_per_gpu", "GB"),
        ("dt", "ms", "step_time", "ms"),
        ("throughput", "tokens/s/GPU", "tokens_per_s_per_gpu", "tokens/s"),
        ("Throughput (tokens/sec)", "", "tokens_per_s", "tokens/s"),
        ("tokens_per_s", "K tokens/s", "tokens_per_s", "K tokens/s"),
        ("seq/sec", "seq/sec", "sequences_per_s", "sequences/s"),
        ("samples/second", "", "sequences_per_s", "sequences/s"),
        ("samples/s/GPU", "", "sequences_per_s_per_gpu", "sequences/s"),
        ("H800 GPU hours per trillion tokens", "", "gpu_hours_per_trillion_tokens", "h"),
        ("gpu_hours_per_1T_tokens", "K GPU hours", "gpu_hours_per_1t_tokens", "K h"),
        ("Model TFLOPs/sec/GPU", "", "tflops_per_gpu", "TFLOP/s"),
        ("Training Model TFLOPS", "TFLOPS", "tflops_per_gpu", "TFLOP/s"),
        ("TFLOP/s/device", "", "tflops_per_gpu", "TFLOP/s"),
        ("aggregate PFLOPs", "", "aggregate_tflops", "PFLOP/s"),
        ("Model FLOPs utilization (MFU)", "%", "mfu", "%"),
        ("hardware utilisation", "%", "hfu", "%"),
        ("peak_memory_gib", "GiB", "peak_memory_per_gpu", "GiB"),
        ("Max GPU memory used", "GB", "peak_memory_per_gpu", "GB"),
        ("HBM used per GPU", "GB", "peak_memory_per_gpu", "GB"),
        ("Peak reserved memory (GiB)", "GiB", "peak_reserved_per_gpu", "GiB"),
        ("Peak memory (MiB)", "", "peak_memory_per_gpu", "MiB"),
        ("peak GB", "", "peak_memory_per_gpu", "GB"),
        ("Peak reserved (GiB)", "", "peak_reserved_per_gpu", "GiB"),
        ("host memory", "GB", "host memory", "GB"),
        # what says too little stays what it is, and the engine names what it knows
        ("time to train", "h", "time to train", "h"),
        ("layer_forward_time", "ms", "layer_forward_time", "ms"),
        ("peak_memory_per_gpu", "GB", "peak_memory_per_gpu", "GB"),
        ("days_for_300b_tokens", "days", "days_for_300b_tokens", "days"),
    ],
)
def test_words_of_a_heading_say_the_metric_and_its_unit(heading, unit, meant, size):
    name = "_".join("".join(c if c.isalnum() else " " for c in heading.casefold()).split())
    assert metric_of(row(metric=heading, unit=unit)) == meant
    assert unit_meant(meant, name, unit) == size


def test_a_rate_of_one_device_is_no_rate_of_the_job(tmp_path):
    own = priced(tmp_path, metric="throughput", unit="tokens/s/GPU")["predicted"]
    job = priced(tmp_path, metric="throughput", unit="tokens/s")["predicted"]
    assert job == pytest.approx(64 * own)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("LLaMA V2 7B", "llama2-7b"),
        ("Meta-Llama-3.1-8B-Instruct", "llama3-8b"),
        ("Nemotron-340B", "nemotron-4-340b"),
        ("Qwen3 MoE 30B", "qwen3-30b-a3b"),
        ("GPT 5B", "gpt3-5b"),
        ("DeepSeek V3 671B", "deepseek-v3"),
        ("Mixtral 8x7B Instruct v0.1", "mixtral-8x7b"),
        ("Kimi K2 1T", "kimi-k2"),
        ("Vicuna-13B", "llama-13b"),
        ("GPT-3 XL 1.3B", "gpt3-1.3b"),
        ("GPT 22B", "megatron-22b"),
        ("CodeLlama-34b-hf", "codellama-34b"),
        ("Code Llama 34B", "codellama-34b"),
        ("OLMo 2 13B", "olmo2-13b"),
        ("OLMo 7B", "olmo-7b"),
        ("Qwen1.5-110B-Chat", "qwen1.5-110b"),
        ("DeepSeek-Coder-33B", "deepseek-coder-33b"),
        ("Phi-2 2.7B", "phi-2"),
        ("Command R 35B", "command-r"),
        ("StarCoder 15.5B", "starcoder-15b"),
        # another size, another version or no size is another model
        ("DeepSeek V3 16B", None),
        ("Llama 4 70B", None),
        ("GPT 127M", None),
        ("Llama 3", None),
        ("7B", None),
        ("", None),
    ],
)
def test_a_name_means_the_model_of_its_family_version_and_size(text, model):
    assert model_named(text) == model


def test_every_name_of_the_catalog_that_has_a_size_means_its_own_model():
    for name in names("model"):
        assert model_named(name) in {name, None}


def test_a_guessed_model_is_said_and_the_hubs_owner_is_no_part_of_its_name(tmp_path):
    guessed = priced(tmp_path, model="LLaMA V2 7B")
    assert "taken as llama2-7b" in str(guessed["note"])
    assert priced(tmp_path, model="meta-llama/Llama-2-7b")["predicted"] == guessed["predicted"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Snowflake Arctic", "beside a whole dense layer"),
        ("GLaM 64B/64E", "ungated experts"),
        ("OPT-350M", "narrower than the stream"),
        ("Switch-C", "in the encoder"),
    ],
)
def test_a_model_that_the_schema_cannot_hold_is_refused_with_the_reason(tmp_path, text, why):
    assert why in str(priced(tmp_path, model=text)["reason"])


@pytest.mark.parametrize(
    ("text", "model", "what"),
    [
        ("Chinchilla 70B", "chinchilla-70b", "relative positions"),
        ("Llama-4-Scout-17B-16E", "llama4-scout", "within chunks"),
        ("Apertus 8B", "apertus-8b", "xIELU"),
    ],
)
def test_what_is_left_out_of_a_model_is_said_beside_its_price(tmp_path, text, model, what):
    found = priced(tmp_path, model=text)
    assert what in str(found["note"])
    assert found["predicted"] == priced(tmp_path, model=model)["predicted"]


def test_an_unknown_model_is_refused_with_the_nearest_names(tmp_path):
    reason = str(priced(tmp_path, model="Llama2 33b")["reason"])
    assert "Llama2 33b" in reason
    assert "nearest: " in reason
    assert nearest_models("Llama2 33b")
    assert nearest_models("") == []


@pytest.mark.parametrize(
    ("text", "sequences"),
    [
        ("512", 512),
        ("4M tokens", 1024),
        ("4,194,304 tokens", 1024),
        ("524K tokens", 128),
        ("512K tokens", 128),
        ("1,000k tokens", None),
    ],
)
def test_a_batch_may_be_said_in_tokens(text, sequences):
    wanted = row(global_batch=text)
    if sequences is None:
        with pytest.raises(InvalidError, match="global_batch"):
            setting_of(wanted, Machines())
    else:
        assert setting_of(wanted, Machines()).batches == (sequences,)


@pytest.mark.parametrize(
    ("batch", "metric", "taken"),
    [
        ("63", "tokens_per_s", 64),
        ("63", "step_time", None),
        ("1601", "step_time", 1600),
        ("50", "tokens_per_s", None),
    ],
)
def test_a_batch_that_nothing_divides_is_the_nearest_that_does(tmp_path, batch, metric, taken):
    unit = "s" if metric == "step_time" else "tokens/s"
    told = priced(tmp_path, global_batch=batch, metric=metric, unit=unit)
    if taken is None:
        assert "a multiple of 64" in str(told["reason"])
    else:
        assert f"global batch of {taken} taken: {batch} does not divide" in str(told["note"])


def test_a_rounded_batch_does_not_decide_how_many_replicas_there_are(tmp_path):
    open_degrees = {"tensor": "", "pipeline": "", "metric": "tokens_per_s", "unit": "tokens/s"}
    told = [priced(tmp_path, global_batch=batch, **open_degrees) for batch in ("1000", "1024")]
    assert told[0]["predicted"] == told[1]["predicted"]
    assert "few replicas divide 1000" in str(told[0]["note"])


def test_a_rate_without_a_batch_is_searched_and_a_time_is_refused(tmp_path):
    assert (
        priced(tmp_path, global_batch="", metric="MFU", unit="%", value="40")["status"]
        == "searched"
    )
    refused = priced(tmp_path, global_batch="", metric="step_time", unit="s")
    assert "global_batch" in str(refused["reason"])


def test_a_model_that_no_entry_holds_is_priced_by_the_shape_of_its_row(tmp_path):
    assert "not in the catalog" in str(priced(tmp_path, model="GLaM 64B/64E")["reason"])
    shape = {"layers": "64", "hidden": "8192", "heads": "128"}
    told = priced(tmp_path, model="GLaM 64B/64E", **shape)
    assert told["status"] == "priced"
    assert "not in the catalog" in str(told["note"])


@pytest.mark.parametrize(
    ("text", "policy", "layers"),
    [
        ("block 12", "full", 12),
        ("full (first 8 layers)", "full", 8),
        ("uniform 1", "full", 0),
        ("selective core_attn", "selective", 0),
        ("Full AC", "full", 0),
        ("per-op SAC", "selective", 0),
        ("no recompute", "none", 0),
        ("core_attn layernorm", "selective", 0),
        ("norm, act", "none", 0),
        ("selective (mla_up_proj, mlp)", "none", 0),
    ],
)
def test_recomputation_of_some_layers_is_read(text, policy, layers):
    space = setting_of(row(recompute=text), Machines()).space
    assert space["recompute"] == [policy]
    assert space["recompute_layers"] == [layers]


@pytest.mark.parametrize(
    "text", ["4 of 8 blocks, 2 full", "full, every 2", "full vs none", "moe layernorm"]
)
def test_what_recomputes_by_no_known_word_is_refused(tmp_path, text):
    assert "block 4" in str(priced(tmp_path, recompute=text)["reason"])


def test_a_utilisation_of_one_and_of_a_hundred_are_the_same(tmp_path):
    cells = ({"unit": "0-1", "value": "0.4"}, {"unit": "%", "value": "40"})
    errors = [priced(tmp_path, metric="MFU", **cell)["time_ratio"] for cell in cells]
    assert errors[0] == pytest.approx(errors[1])


def test_memory_of_a_device_is_its_peak(tmp_path):
    told = priced(tmp_path, metric="memory_per_gpu", unit="GiB", value="60")
    assert (told["status"], told["kind"]) == ("priced", "memory")


def test_a_sequence_of_8k_has_8192_tokens(tmp_path):
    told = [priced(tmp_path, sequence=text)["predicted"] for text in ("8K", "8192")]
    assert told[0] == told[1]


def test_a_degree_that_a_run_does_without_is_one():
    assert setting_of(row(context="none"), Machines()).space["context"] == [1]


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("8x H100 80GB", "dgx-h100"),
        ("Gaudi 2", "gaudi2-node"),
        ("v6e-256", "tpu-v6e"),
        ("p5.48xlarge", "p5"),
        ("A100 40 GB", "dgx-a100-40gb"),
        ("NVIDIA GH200", "alps"),
        ("A800-SXM4-80GB", "a800-node"),
        ("NVIDIA RTX A6000", "a6000-node"),
        ("NVIDIA A10G", "g5-48xlarge"),
        ("NVIDIA A10", "a10-node"),
        ("A100 80GB", "dgx-a100-80gb"),
        ("NVIDIA L20", "l20-node"),
        ("TPU7x-128", "tpu7x"),
        ("AMD Instinct MI250X", "mi250x"),
        ("MI250X GCDs", "frontier-gcd"),
        ("LUMI-G, 64 nodes", "lumi-g"),
        ("Ascend 910B2", "atlas-800t-a2"),
        ("Atlas 800T A2, 8x 910B3", "atlas-800t-a2-b3"),
        ("Ascend 910", "atlas-900"),
        ("4x trn1n.32xlarge", "trn1n-32xlarge"),
        ("AWS Trainium", "trn1-32xlarge"),
        ("4xT4", "t4-node"),
        ("NVIDIA-T4 16GB", "t4-node"),
        ("Tesla P100 16GB", "p100-node"),
        ("Piz Daint, P100", "piz-daint"),
        ("A100-PCIe-40GB", "a100-pcie-40gb-node"),
        ("NVIDIA L4", "l4-node"),
        ("L40S", "l40s-pcie-node"),
        ("8xL40", "l40-node"),
        ("H100 NVL 94GB", "h100-nvl-node"),
        ("H200 NVL 141GB", "h200-nvl-node"),
        ("8x A800, PCIe 4.0", "a800-node"),
        ("A800-PCIE-80GB", "a800-pcie-80gb-node"),
        ("MI300A, 4 per node", "mi300a-node"),
        ("Azure Maia 100", "maia-100-node"),
        ("NVIDIA Quadro P4000", None),
        ("H100 SXM, NVLink", "dgx-h100"),
        ("Tesla V100-PCIE-32GB", "v100-pcie-32gb-node"),
        ("Perlmutter A100-40GB", "perlmutter"),
        ("p4d.24xlarge, 8 A100", "p4d-24xlarge"),
        ("V100 (DGX-2)", "dgx-2"),
        ("8x RTX 3090", "rtx-3090-node"),
        ("Graphcore IPU-POD", "ipu-pod64"),
        ("GPT4 on an abacus", None),
        ("abacus", None),
        ("V100", "dgx-1-v100"),
        ("a3-megagpu-8g", "gcp-a3-mega"),
        ("a3-ultragpu-8g", "dgx-h200"),
        ("AWS p5en.48xlarge", "dgx-h200"),
        ("Azure NC A100 v4", "a100-pcie-80gb-node"),
        ("NVIDIA GH200 480GB", "gh200-server"),
        ("NVIDIA GH200 120GB", "alps"),
        ("V100 16GB with 100 Gb/s InfiniBand", "dgx-1-v100"),
        ("A100, inter-node bandwidth 100 Gb/s", "dgx-a100-80gb"),
        ("A100-80GB with 200 Gb/s InfiniBand", "dgx-a100-80gb"),
        ("V100 cluster with 2048 GPUs", "dgx-1-v100"),
        ("A100 40GB 200Gb/s HDR", "dgx-a100-40gb"),
        ("A100 80 GB 300W", "dgx-a100-80gb"),
        ("a 100 Gb/s cluster of V100-32GB", "dgx-1-v100-32gb"),
        ("A100-80GB, 64 GPUs", "dgx-a100-80gb"),
        ("A100 40GB, 64 GB RAM, 4 per node", "dgx-a100-40gb"),
        ("V100 16GB, 32 GPUs", "dgx-1-v100"),
        ("H100 SXM 80GB, PCIe 5.0 host link", "dgx-h100"),
        ("A100 80GB, PCIe 4.0 x16, NVLink 600 GB/s", "dgx-a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb-node"),
        ("8 A100 linked via PCI-E", "a100-pcie-40gb-node"),
        ("A100 80GB, PCI-E 4.0 x16", "dgx-a100-80gb"),
        ("16 Max 1550", "aurora-cards"),
        ("8x GB 200", "gb200-nvl72"),
        ("MI-300X", "mi300x-node"),
        ("Jean Zay, 4x H100 per node", "dgx-h100"),
        ("ABCI 3.0, 8x H200", "dgx-h200"),
        ("H100 SXM 96GB HBM2e, 500 W limit", "torchtitan-h100"),
        ("GCP A3, 8x H100 per VM", "gcp-a3"),
        ("Atlas 900 A2 PODc, 64 NPUs", "atlas-800t-a2"),
        ("16x v4-128, 275 TFLOP/s per chip", "tpu-v4"),
        ("Jean Zay, V100", "jean-zay-v100"),
        ("Vera Rubin NVL72", "vr200-nvl72"),
        ("VRNVL72", "vr200-nvl72"),
        ("8x Rubin", "vr200-nvl72"),
        ("HGX B100", "hgx-b100"),
        ("AMD MI455X", "helios-mi455x"),
        ("8x MI355", "mi355x-node"),
        ("AMD MI325", "mi325x-node"),
        ("AWS Trainium3", "trn3-ultraserver"),
        ("2x RTX 4070 Ti SUPER", "rtx-4070-ti-super-node"),
        ("RTX 4070 Ti 12GB", "rtx-4070-ti-node"),
        ("RTX 4060 Ti 8 GB", "rtx-4060-ti-8gb-node"),
        ("RTX 4060 Ti, 128 GB RAM", "rtx-4060-ti-16gb-node"),
        ("RTX4060", "rtx-4060-node"),
        ("4x RTX 3060 12GB", "rtx-3060-node"),
        ("NVIDIA GeForce RTX 3050 Laptop GPU (4 GiB)", "laptop-rtx-3050"),
        ("GeForce RTX 3080 Ti", "rtx-3080-ti-node"),
        ("RTX 3080 10GB", "rtx-3080-node"),
        ("RTX 3080 12GB", "rtx-3080-12gb-node"),
        ("GTX 1080Ti", "gtx-1080-ti-node"),
        ("RTX PRO 5000 Blackwell", "rtx-pro-5000-node"),
        ("RTX A4000", "rtx-a4000-node"),
        ("NVIDIA A2", "a2-node"),
        ("1 x RTX A4500", "rtx-a4500-node"),
        ("RTX 2000 Ada Generation", "rtx-2000-ada-node"),
        ("4090-48G", "rtx-4090-48gb-node"),
        ("8x RTX 4090, 48 GB host memory", "rtx-4090-node"),
    ],
)
def test_a_device_in_a_text_means_its_usual_system(text, system):
    assert usual_system(text) == system


def test_every_usual_system_is_in_the_catalog_and_can_be_meant():
    lines = (built_in_root() / "usual_systems.csv").read_text(encoding="utf-8").splitlines()[1:]
    known = set(names("system"))
    for words, system, _ in (line.split(",") for line in lines):
        assert system in known
        # an earlier, wider line would hide this one
        assert usual_system(words.replace("=", "")) == system


def test_a_device_of_a_users_file_means_a_system_that_has_it(tmp_path):
    (tmp_path / "devices").mkdir()
    (tmp_path / "systems").mkdir()
    device = '[sources]\n"power.peak" = "test"\n[power]\npeak = "300 W"\n'
    own = 'kind = "device"\nbase = "a10"\nname = "b77x"\naliases = ["H100 77X"]\n'
    (tmp_path / "devices" / "b77x.toml").write_text(own + device)
    node = 'kind = "system"\nbase = "a10-node"\nname = "lab"\naliases = []\ndevice = "b77x"\n'
    (tmp_path / "systems" / "lab.toml").write_text(node)
    found = machine_of(row(hardware="H100 77X"), Machines((tmp_path,)))
    assert found.system["name"] == "lab"
    assert found.notes


@pytest.mark.parametrize(
    ("hardware", "devices", "system"),
    [
        ("GB200", "64", "gb200-nvl72"),
        ("GB200", "144", "gb200-nvl72"),
        ("GB200", "512", "dgx-gb200"),
        ("VR200", "256", "dgx-vr200"),
    ],
)
def test_a_job_of_racks_takes_64_devices_where_its_number_does_not_fill_them(
    hardware, devices, system
):
    assert machine_of(row(hardware=hardware, devices=devices), Machines()).system["name"] == system


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("GPT-style 6.7B", "gpt3-6.7b"),
        ("GPT-2 architecture 13B", "gpt3-13b"),
        ("LLaMA-style 7B", "llama-7b"),
        ("GPT 500M", None),
        ("Llama2 33b", None),
        ("RetNet 6.7B", None),
    ],
)
def test_a_kind_and_a_size_mean_the_nearest_shape_of_the_kind(name, meant):
    assert model_of_size(name, None) == meant


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1,234,567", "1234567"),
        ("7,866", "7866"),
        ("4,5", "4,5"),
        ("1.000,5", "1.000,5"),
        ("5,0000", "5,0000"),
    ],
)
def test_commas_group_thousands_alone(text, wanted):
    assert ungrouped(text) == wanted


@pytest.mark.parametrize(
    ("name", "unit"), [("iterations/s", ""), ("throughput", "it/s"), ("steps_per_s", "")]
)
def test_steps_per_second_are_no_seconds_per_step(name, unit):
    assert metric_meant(name, unit) is None


@pytest.mark.parametrize("text", ["TP4PP2", "TP4xPP2", "tp4 pp2", "TP=4xPP=2"])
def test_degrees_need_no_blank_between_them(text):
    assert (degrees_in(text)["tensor"], degrees_in(text)["pipeline"]) == ("4", "2")


@pytest.mark.parametrize(
    ("name", "unit", "meant"),
    [
        ("tokens_s_8_gpu", "", "tokens_per_s"),
        ("tokens_s_1_gpu", "", "tokens_per_s_per_gpu"),
        ("tokens_s_gpu", "", "tokens_per_s_per_gpu"),
        ("median_ms", "", "step_time"),
        ("mean", "ms", "step_time"),
        ("median_kernel_ms", "", None),
        ("peak_allocated_rank", "GiB", "peak_allocated_per_gpu"),
        ("rank", "GiB", None),
    ],
)
def test_counts_of_devices_and_statistics_beside_a_figure(name: str, unit: str, meant: str | None):
    assert metric_meant(name, unit) == meant


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("NVIDIA GeForce RTX 4060 Laptop GPU (8188 MiB)", "laptop-rtx-4060"),
        ("NVIDIA GeForce RTX 4060", "rtx-4060-node"),
    ],
)
def test_words_of_a_board_or_of_a_clouds_machine(text: str, system: str) -> None:
    assert usual_system(text) == system


@pytest.mark.parametrize(
    ("metric", "meant"),
    [
        ("\u5355\u6b65\u8017\u65f6 (ms)", "step_time"),
        ("\u541e\u5410\u91cf (TFLOP/s/GPU)", "tflops_per_gpu"),
        ("\u663e\u5b58 (GB)", "peak_memory_per_gpu"),
        ("Throughput (batch/elapse)", "sequences_per_s"),
        ("Percentage of theoretical peak FLOPS", "percent_of_peak"),
    ],
)
def test_a_heading_in_chinese_keeps_its_meaning_with_its_unit(metric: str, meant: str) -> None:
    assert metric_of(row(metric=metric, unit="")) == meant


def test_a_heading_in_chinese_with_words_of_another_thing_is_no_metric() -> None:
    for metric in ("\u663e\u5b58 (price)", "\u5355\u6b65\u8017\u65f6 per token"):
        assert metric_of(row(metric=metric, unit="")) == metric


@pytest.mark.parametrize("text", ["CSCS Clariden", "Clariden"])
def test_systems_are_known_by_the_names_of_their_sisters(text: str) -> None:
    assert usual_system(text) == "alps"
    assert usual_system("Sunspot (Max 1550), 28N x 12") == "aurora"


def test_the_x_that_ends_a_name_counts_no_devices():
    found = machine_of(row(hardware="Max 1100", devices="2"), Machines())
    assert (found.devices, found.notes) == (2, ())
