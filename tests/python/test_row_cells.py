"""Do cells that say nothing, or much in a word, stand for what their sources mean?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scalewright.errors import InvalidError
from scalewright.reproductions.batches import of_tokens
from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.machine import Machines, memory_told
from scalewright.reproductions.metrics import unit_meant
from scalewright.reproductions.programs import with_program
from scalewright.reproductions.reading import Row, read_rows
from scalewright.reproductions.setting import Setting, setting_of
from scalewright.reproductions.units import bytes_of, in_seconds
from scalewright.reproductions.wording import (
    budgeted,
    mixes_any,
    recomputation_meant,
    remarks_pure_state,
    sharding_meant,
    without_offload,
    without_stored,
)
from test_rows_in_words import priced as rows_priced

if TYPE_CHECKING:
    from pathlib import Path

GIB, GB = 2.0**30, 1e9
RUN = {
    "hardware": "DGX H100",
    "devices": "64",
    "model": "llama2-7b",
    "sequence": "4096",
    "global_batch": "512",
    "dtype": "bf16",
    "metric": "step time",
    "value": "3",
    "unit": "s",
}


def priced(tmp_path: Path, **cells: str) -> dict[str, Any]:
    """Price a row of a page that nobody knows, which differs from the usual one in some cells."""
    return rows_priced(tmp_path, {"paper": "A page of 2024", **cells})[0]


def setting(**cells: str) -> Setting:
    return setting_of(Row("own.csv", 2, {**RUN, **cells}), Machines())


@pytest.mark.parametrize(
    "text", ["none stated", "Not stated", "not printed", "unspecified", "none given", "unreported"]
)
@pytest.mark.parametrize("column", ["recompute", "zero"])
def test_cells_that_say_that_nothing_is_said_say_nothing(
    tmp_path: Path, column: str, text: str
) -> None:
    file = tmp_path / "own.csv"
    file.write_text(f"model,{column},metric,value\nllama2-7b,{text},MFU,40\n", encoding="utf-8")
    (row,) = read_rows(file)
    assert row.text(column) == ""


@pytest.mark.parametrize("text", ["none", "no", "not used", "not FSDP"])
def test_denials_still_say_that_a_thing_is_not_there(tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.csv"
    file.write_text(f"model,zero,metric,value\nllama2-7b,{text},MFU,40\n", encoding="utf-8")
    (row,) = read_rows(file)
    assert row.text("zero") == text


@pytest.mark.parametrize("text", ["none (DDP)", "no (torch DDP)", "DDP", "off (ddp)"])
def test_ddp_beside_a_denial_shares_nothing(text: str) -> None:
    assert sharding_meant(text) == (0, 0)


def test_a_remark_behind_ddp_leaves_it_alone_and_ranks_share_data_only() -> None:
    assert sharding_meant("DDP (raw PyTorch baseline)") == (0, 0)
    for text in ("DDP (raw PyTorch baseline)", "DDP", "FSDP over 64 GPUs", "FSDP over all chips"):
        space = setting(zero=text).space
        degrees = [space[axis] for axis in ("tensor", "pipeline", "context", "data")]
        assert degrees == [[1], [1], [1], [64]]
    space = setting(zero="DDP", tensor="4").space
    assert (space["tensor"], space["data"]) == ([4], [16])


def test_flags_of_torchtitan_inside_a_sharding_tell_shards_and_copies() -> None:
    space = setting(zero="FSDP HYBRID_SHARD, dp_replicate=2, dp_shard=32").space
    assert (space["data"], space["zero"], space["zero_group"]) == ([64], [3], [32])
    assert setting(zero="FSDP, dp_shard=8", tensor="8").space["data"] == [8]


@pytest.mark.parametrize("text", ["none (FSDP)", "DDP (FSDP later)", "none (ZeRO-3 in the paper)"])
def test_another_sharding_beside_a_denial_is_not_understood(text: str) -> None:
    assert sharding_meant(text) is None


@pytest.mark.parametrize("text", ["stage 3 ZeRO", "2 ZeRO", "zero 3 zero", "ZeRO-3"])
def test_the_name_alone_moves_nothing(text: str) -> None:
    assert without_offload(text) == (text, False)


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("zero-3        zero-infinity", 3),
        ("ZeRO-3 with CPU offload (ZeRO-Infinity)", 3),
        ("ZeRO-3 + ZeRO-Infinity", 3),
        ("ZeRO-2 + ZeRO-Offload", 2),
        ("ZeRO-Infinity", 3),
        ("ZeRO-3 + CPU offload", 3),
    ],
)
def test_a_stage_and_the_name_of_its_offloading_are_one_sharding(text: str, stage: int) -> None:
    left, offloaded = without_offload(text)
    assert (sharding_meant(left), offloaded) == ((stage, 0), True)
    space = setting(zero=text).space
    assert (space["zero"], space["offload_optimizer"]) == ([stage], [True])


@pytest.mark.parametrize("text", ["zero-1   zero-infinity", "ZeRO-3 / ZeRO-Infinity", "ZeRO-3"])
def test_a_stage_that_the_name_contradicts_and_a_choice_are_left(text: str) -> None:
    assert without_offload(text) == (text, False)


@pytest.mark.parametrize("text", ["amp", "AMP", "mixed (amp)", "mixed precision (AMP)"])
@pytest.mark.parametrize(("device", "wanted"), [("DGX H100", "bf16"), ("DGX-1 V100", "fp16")])
def test_mixed_precision_is_in_the_16_bits_that_the_device_has(
    text: str, device: str, wanted: str
) -> None:
    assert setting(dtype=text, hardware=device).training["precision"] == wanted


@pytest.mark.parametrize("text", ["amp fp16", "mixed fp16", "fp16 (amp)", "fp32", "amplitude"])
def test_a_format_that_is_named_stays(text: str) -> None:
    assert not mixes_any(text)


@pytest.mark.parametrize(
    "remarks",
    [
        "FusedAdam with no fp32 master weights (moments in bf16), chunked cross entropy",
        "moments are stored in bfloat16",
        "AdamW with bf16 moments",
        "x" * 400 + "; moments kept in bf16",
    ],
)
def test_remarks_on_moments_and_weights_in_bf16_say_pure_state(remarks: str) -> None:
    assert remarks_pure_state(remarks)
    training = setting(source=remarks).training
    assert (training["state"], training["gradient"]) == ("bf16", "bf16")


@pytest.mark.parametrize(
    "remarks",
    [
        "moments in bf16, fp32 master weights",
        "weights kept in bf16",
        "weights are kept in bf16, fp32 Adam",
        "weights in fp32, moments in bf16",
        "moments in bf16, AdamW states fp32",
        "frozen base weights are kept in bf16, LoRA adapters trained",
        "activations kept in bf16",
        "weights gathered in bf16",
        "no fp32 master weights",
    ],
)
def test_remarks_on_other_things_or_wider_ones_do_not(remarks: str) -> None:
    assert not remarks_pure_state(remarks)


def facts(dtype: str, source: str, device: str = "h100-sxm") -> dict[str, Any]:
    """Return the facts of its software that a row is given."""
    row = Row("own.csv", 2, {"dtype": dtype, "source": source})
    found, _ = with_program(row, conventions_of(row), device, {"norm": "rmsnorm"})
    return found.training


@pytest.mark.parametrize(
    ("dtype", "source", "pure"),
    [
        ("bf16", "torchtune 0.4, full fine-tune", True),
        ("BFloat16", "torchtune, torch.compile", True),
        ("fp32", "torchtune 0.4", False),
        ("", "torchtune 0.4", False),
        ("bf16", "torchtitan", False),
        ("bf16", "not torchtune but axolotl", False),
    ],
)
def test_torchtune_trains_in_bf16_alone_where_it_says_bf16(
    dtype: str, source: str, pure: bool
) -> None:
    told = facts(dtype, source)
    assert (told.get("state") == told.get("gradient") == "bf16") == pure


@pytest.mark.parametrize(
    ("source", "flash"),
    [
        ("2026; bf16 with unfused attention, no torch.compile", False),
        ("2026; Megatron-LM without fused attention", False),
        ("2026; no unfused attention", None),
        ("2026; fused attention, unfused cross-entropy", None),
    ],
)
def test_unfused_attention_keeps_its_scores_in_memory(source: str, flash: bool | None) -> None:
    for device in ("h100-sxm", "tpu-v5e"):
        assert facts("bf16", source, device).get("flash_attention") is flash


@pytest.mark.parametrize("unit", ["us", "\u00b5s", "\u03bcs", "microseconds"])
def test_a_step_in_microseconds_is_read_in_seconds(tmp_path: Path, unit: str) -> None:
    row = priced(tmp_path, metric="iteration time", value="4,500,000", unit=unit)
    assert (row["published"], row["reason"]) == (pytest.approx(4.5), None)


@pytest.mark.parametrize(
    ("value", "unit"), [("4500", "ms"), ("4.5 s", "us"), ("fast", "us"), ("45", "us/token")]
)
def test_other_figures_stay_in_their_unit(value: str, unit: str) -> None:
    assert in_seconds(value, unit) == {}


@pytest.mark.parametrize("unit", ["per GPU", "/GPU", "per device", "each GPU"])
def test_a_unit_may_tell_no_more_than_of_whom_a_rate_is(tmp_path: Path, unit: str) -> None:
    if unit == "each GPU":
        assert unit_meant("tokens_per_s_per_gpu", "tokens_s", unit) == unit
        return
    row = priced(tmp_path, metric="tokens/s", value="9000", unit=unit)
    wanted = priced(tmp_path, metric="tokens/s/GPU", value="9000", unit="")
    assert row["predicted"] == pytest.approx(wanted["predicted"])


def test_a_unit_of_one_device_makes_no_time_of_nothing(tmp_path: Path) -> None:
    assert "unit" in priced(tmp_path, metric="step time", value="3", unit="per GPU")["reason"]


@pytest.mark.parametrize(
    ("metric", "told"),
    [("foo", "allowed: step time, tokens/s"), ("itertion time", "nearest: iteration_time")],
)
def test_a_metric_that_nobody_knows_is_told_some_that_are(
    tmp_path: Path, metric: str, told: str
) -> None:
    reason = priced(tmp_path, metric=metric, value="3", unit="")["reason"]
    assert f"metric: unknown name '{metric}'" in reason
    assert told in reason


def test_a_figure_that_is_no_number_is_refused_as_what_it_is(tmp_path: Path) -> None:
    assert "got 'nan'; allowed: one number" in priced(tmp_path, value="nan")["reason"]
    assert "got nothing; allowed: one number" in priced(tmp_path, value="-")["reason"]


@pytest.mark.parametrize(
    ("hardware", "metric", "value", "unit", "reason"),
    [
        (
            "DGX H100",
            "peak memory",
            "600",
            "GB",
            "got 600 GB of peak memory; allowed: up to 80 GiB",
        ),
        ("DGX H100", "peak memory", "600000", "MiB", "allowed: up to 80 GiB"),
        ("DGX H100", "peak_reserved_per_gpu", "95", "GiB", "allowed: up to 80 GiB"),
        ("DGX H100", "memory (GB)", "600", "", "got 600"),
        ("DGX H100", "peak memory", "85.9", "GB", None),
        ("DGX H100", "peak memory", "79.6", "GiB", None),
        ("DGX H100", "peak memory", "70000", "MiB", None),
        ("DGX H100", "activation_memory_per_gpu", "114", "GiB", None),
        ("GH200 144GB HBM3e", "peak memory", "128", "GB", None),
        ("GH200 144GB HBM3e", "peak memory", "228", "GB", "the device's memory"),
    ],
)
def test_more_memory_than_a_device_has_is_refused(
    tmp_path: Path, hardware: str, metric: str, value: str, unit: str, reason: str | None
) -> None:
    cells = {"metric": metric, "value": value, "unit": unit, "hardware": hardware}
    row = priced(tmp_path, **cells)
    assert (row["reason"] is None) == (reason is None), row["reason"]
    assert reason is None or reason in row["reason"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("80 GiB", 80 * GIB),
        ("183359 MiB", 183359 * 2.0**20),
        ("5e9", 5e9),
        ("3 B", 3.0),
        ("x", None),
    ],
)
def test_bytes_of_a_text(text: str, wanted: float | None) -> None:
    assert bytes_of(text) == wanted


@pytest.mark.parametrize(
    ("text", "own", "told"),
    [
        ("NVIDIA GH200 144G HBM3e", 95.6 * GIB, [144 * GB]),
        ("GH200 144 GB", 95.6 * GIB, [144 * GB]),
        ("GH200 96GB", 95.6 * GIB, []),
        ("GH200 480GB", 95.6 * GIB, []),
        ("H100 80 GB, 900 GB/s NVLink, 200 GB host memory", 80 * GIB, []),
        ("8x A100, 100 GB/s", 80 * GIB, []),
        ("4x 100G Ethernet, A100", 80 * GIB, []),
        ("MI250X 64 GB a GCD", 128 * GIB, []),
        ("V100-16GB", 32 * GIB, [16 * GB]),
        ("H100 with 40 GB per process", 80 * GIB, []),
    ],
)
def test_a_board_of_another_memory_is_told_from_rates_and_hosts(
    text: str, own: float, told: list[float]
) -> None:
    assert memory_told(text, own) == told


def test_a_row_on_a_board_of_another_memory_says_so() -> None:
    notes = setting(hardware="NVIDIA GH200 144G HBM3e").notes
    assert any("tells 144 GB; gh200-96gb-680w has 95.6 GiB" in note for note in notes)
    assert not any("has 95.6" in note for note in setting(hardware="GH200 96GB").notes)


def test_maxtext_computes_again_what_its_own_policy_does_not_name() -> None:
    assert setting(recompute="custom", program="MaxText").space["recompute"] == ["full"]


@pytest.mark.parametrize(
    ("column", "text", "read"),
    [
        ("sequence", "1048576 (1M)", 1048576),
        ("sequence", "4096 (4K)", 4096),
        ("sequence", "4000 (4k)", 4000),
        ("ffn", "5120 (4x)", 5120),
        ("ffn", "16,384 (4\u00d7)", 16384),
    ],
)
def test_a_number_that_is_said_twice_is_read_once(column: str, text: str, read: int) -> None:
    assert Row("own.csv", 2, {column: text}).count(column) == read


@pytest.mark.parametrize("text", ["4096 (8k)", "4096 (1M)", "1048576 (128K)"])
def test_numbers_that_contradict_each_other_are_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="sequence"):
        Row("own.csv", 2, {"sequence": text}).count("sequence")


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("xla_fsdp_grad_ckpt", "full"),
        ("gradient_checkpointing", "full"),
        ("custom (context=offload)", "full"),
        ("remat_policy=custom", "full"),
        ("--recompute-activations", "selective"),
        ("\u5168\u91cf\u91cd\u8ba1\u7b97", "full"),
        ("\u6fc0\u6d3b\u68c0\u67e5\u70b9", "full"),
        ("\u9009\u62e9\u6027\u91cd\u8ba1\u7b97", "selective"),
        ("\u65e0\u91cd\u8ba1\u7b97", "none"),
    ],
)
def test_flags_and_words_for_recomputation_say_a_policy(text: str, policy: str) -> None:
    assert recomputation_meant(text) == (policy, 0)


@pytest.mark.parametrize(
    ("text", "policies"),
    [
        ("memory budget 1.0", ["none"]),
        ("activation_memory_budget=0", ["full"]),
        ("memory_budget=0.9", ["none", "selective", "full"]),
        ("memory budget 9", None),
        ("a budget of 0.5", None),
    ],
)
def test_a_budget_of_activations_leaves_what_lies_between_all_and_none(
    text: str, policies: list[str] | None
) -> None:
    assert budgeted(text) == policies


@pytest.mark.parametrize("text", ["custom kernels", "xla_fsdp", "ckpt_every_hour"])
def test_other_flags_say_nothing_of_recomputation(text: str) -> None:
    assert recomputation_meant(text) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("data_parallel_shard_degree -1", (3, 0)),
        ("data_parallel_shard_degree = 8", (3, 8)),
        ("dp_shard=4", (3, 4)),
        ("dp_shard=1", (0, 0)),
    ],
)
def test_the_shard_degree_of_torchtitan_is_a_group_of_fsdp(
    text: str, meant: tuple[int, int]
) -> None:
    assert sharding_meant(text) == meant


def test_a_stage_keeps_as_much_whatever_the_batch_of_a_micro_batch_that_is_said(
    tmp_path: Path,
) -> None:
    run = {"metric": "peak memory", "value": "60", "unit": "GiB", "zero": "3"}
    loose = priced(tmp_path, gbs="", **run)
    assert loose["predicted"] == priced(tmp_path, gbs="64", **run)["predicted"]
    assert "got nothing" in priced(tmp_path, gbs="", mbs="", **run)["reason"]


@pytest.mark.parametrize(
    ("column", "text", "read"),
    [
        ("pipeline", "PP(1)", 1),
        ("tensor", "TP(8)", 8),
        ("tensor", "TP8", 8),
        ("vocab", "334k", 334000),
        ("vocab", "~50.3K", 50300),
    ],
)
def test_degrees_and_vocabularies_are_counted_as_they_are_written(
    column: str, text: str, read: int
) -> None:
    assert Row("own.csv", 2, {column: text}).count(column) == read


@pytest.mark.parametrize("text", ["TP(8", "TP 8)", "XP(8)"])
def test_half_a_pair_of_parentheses_is_no_degree(text: str) -> None:
    with pytest.raises(InvalidError, match="tensor"):
        Row("own.csv", 2, {"tensor": text}).count("tensor")


@pytest.mark.parametrize("policy", ["none", "full", "selective"])
def test_the_name_of_a_setting_before_recomputation_says_no_more(policy: str) -> None:
    for name in ("remat_policy=", "recompute_granularity: ", "activation_checkpoint.mode = "):
        assert recomputation_meant(f"{name}{policy}") == (policy, 0)
    assert recomputation_meant("remat_policy=minimal_offloaded") is None


@pytest.mark.parametrize("text", ["minimal", "remat_policy=minimal", "remat_policy: minimal"])
def test_products_that_stay_are_not_run_again(text: str) -> None:
    assert setting(recompute=text).space["recompute"] == ["selective"]


@pytest.mark.parametrize("text", ["--activation_checkpoint.mode full", "AC=full", "--ac full"])
def test_flags_of_torchtitan_say_what_is_run_again(text: str) -> None:
    assert recomputation_meant(text) == ("full", 0)


@pytest.mark.parametrize(
    ("column", "text", "count"),
    [
        ("micro_batch", "bs=4/gpu", 4),
        ("micro_batch", "PDB 8", 8),
        ("micro_batch", "16 per device", 16),
        ("micro_batch", "LBS=1", 1),
        ("layers", "24 hidden layers", 24),
        ("heads", "10 q heads", 10),
        ("kv_heads", "8 (Grouped Query Attention, 4:1 ratio)", 8),
        ("vocab", "21128 tokens", 21128),
        ("vocab", "50,304 = 393x128", 50304),
        ("vocab", "50,304 (GPT-2 tokenizer)", 50304),
    ],
)
def test_a_count_has_its_name_before_it_or_what_it_counts_behind(
    column: str, text: str, count: int
) -> None:
    assert Row("own.csv", 2, {column: text}).count(column) == count


@pytest.mark.parametrize(
    ("column", "text", "why"),
    [
        ("micro_batch", "\u03bcb=2", "a size or a number of micro-batches"),
        ("micro_batch", "4 per node", "got '4 per node'"),
        ("global_batch", "8K", "thousands of 1,000 or 1,024"),
        ("sequence", "max\u957f\u5ea6512", "a length that no sequence exceeds"),
        ("vocab", "50,304 = 393x129", "got '50,304 = 393x129'"),
        ("layers", "seq 24", "got 'seq 24'"),
    ],
)
def test_a_count_that_may_be_another_one_is_refused_with_the_reason(
    column: str, text: str, why: str
) -> None:
    with pytest.raises(InvalidError, match=why):
        Row("own.csv", 2, {column: text}).count(column)


def test_a_layer_of_each_virtual_stage_is_one() -> None:
    assert recomputation_meant("block, 1 layer per virtual stage") == ("full", 1)


@pytest.mark.parametrize("text", ["Scan, host-offload", "scan over layers", "Scanned layers"])
def test_layers_under_a_scan_say_nothing_of_recomputation(text: str) -> None:
    assert without_stored(text) == ("", "offload" in text)
    assert without_stored(f"full, {text.split(',')[0]}")[0].startswith("full")


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("parameters and optimizer states in CPU memory", "3"),
        ("weights, gradients and optimizer states held in host DRAM", "3"),
        ("optimizer states kept in host memory", ""),
    ],
)
def test_state_in_host_memory_is_offloaded(text: str, stage: str) -> None:
    assert without_offload(text) == (stage, True)


@pytest.mark.parametrize("text", ["optimizer states in fp32", "activations in CPU memory"])
def test_state_elsewhere_is_not(text: str) -> None:
    assert without_offload(text) == (text, False)


@pytest.mark.parametrize(("devices", "said"), [("64", "of those that fit"), ("8", "none fits")])
def test_an_open_batch_is_said_to_fit_only_where_it_does(
    tmp_path: Path, devices: str, said: str
) -> None:
    row = priced(
        tmp_path,
        model="llama2-70b",
        hardware="A100",
        devices=devices,
        **dict.fromkeys(("gbs", "mbs", "dp", "tp", "pp"), ""),
        metric="TFLOP/s/GPU",
        value="120",
        unit="",
        source="torchtitan",
    )
    taken = next(note for note in row["note"].split("; ") if note.startswith("global batch of"))
    assert said in taken
    assert ("does not fit" in row["note"]) == (said == "none fits")


@pytest.mark.parametrize(
    ("column", "text", "meant"),
    [
        ("layers", "n_layer = 6", 6),
        ("hidden", "n_embd=384", 384),
        ("heads", "n_head: 6", 6),
        ("global_batch", "batch 8", 8),
        ("sequence", "seq_len = 1,024", 1024),
    ],
)
def test_the_name_of_a_setting_before_its_count_is_no_part_of_it(
    column: str, text: str, meant: int
) -> None:
    assert Row("own.csv", 2, {column: text}).count(column) == meant


@pytest.mark.parametrize(("column", "text"), [("layers", "n_embd = 384"), ("hidden", "depth 8")])
def test_a_setting_of_another_column_is_no_count(column: str, text: str) -> None:
    with pytest.raises(InvalidError):
        Row("own.csv", 2, {column: text}).count(column)


@pytest.mark.parametrize(
    ("text", "sequences"), [("8192 tokens", "2"), ("8K tokens", "2"), ("6000 tokens", None)]
)
def test_a_micro_batch_of_tokens_is_of_whole_sequences(text: str, sequences: str | None) -> None:
    made = of_tokens(Row("own.csv", 2, {"sequence": "4096", "micro_batch": text}))
    assert made.text("micro_batch") == (sequences or text)


@pytest.mark.parametrize("text", ["1 million", "1M", "1m tokens", "1048576"])
def test_a_million_tokens_of_a_sequence_are_a_power_of_two(text: str) -> None:
    assert Row("own.csv", 2, {"sequence": text}).count("sequence") == 2**20


@pytest.mark.parametrize("text", ["ckpt", "checkpointing", "checkpointed"])
def test_short_words_of_checkpoints_are_full_recomputation(text: str) -> None:
    assert recomputation_meant(text) == recomputation_meant("full")


@pytest.mark.parametrize("text", ["ZeRO-3 + TP", "ZeRO-3, TP", "ZeRO-3 & TP + PP"])
def test_a_sharding_beside_degrees_of_other_columns_is_that_sharding(text: str) -> None:
    degrees = {"tensor": "2", "pipeline": "2"}
    spaces = [setting(zero=said, **degrees).space for said in (text, "ZeRO-3")]
    assert spaces[0] == spaces[1]
    assert spaces[0]["zero"] == [3]


@pytest.mark.parametrize("told", ["grad_accum 3, spilling to system RAM", "spilled to host memory"])
def test_a_run_that_spilled_is_not_priced_as_one_that_fit(tmp_path: Path, told: str) -> None:
    found = priced(tmp_path, source=told)
    assert "spill" in found["reason"]
    assert not priced(tmp_path, source="no spilling to system RAM").get("reason")


def test_a_batch_that_micro_batches_do_not_make_names_both(tmp_path: Path) -> None:
    cells = {"devices": "1", "tp": "", "pp": "", "dp": "", "gbs": "72", "mbs": "16"}
    reason = priced(tmp_path, **cells)["reason"]
    assert "got 72; allowed: a multiple of 16, which is data 1 x micro-batch 16" in reason
