"""Which degrees, batches and shards do the words and columns of a row say?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright import reproductions
from scalewright.reproductions.layout import degrees_in

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "model,system,gpus,seq,dtype"
RUN = "Llama 2 7B,DGX H100,16,4096,bf16"
degrees = st.integers(1, 64)


def priced(folder: Path, head: str, *lines: str) -> list[dict[str, Any]]:
    """Return what a table comes to."""
    file = folder / "table.csv"
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("TP2 x DP8", {"tensor": "2", "data": "8", "pipeline": "1", "context": "1"}),
        ("FP8 MoE + EP4-TP4", {"expert": "4", "tensor": "4", "pipeline": "1", "context": "1"}),
        ("tp=4, pp=8, cp 2", {"tensor": "4", "pipeline": "8", "context": "2"}),
        ("PP2 VPP4", {"pipeline": "2", "interleave": "4", "tensor": "1", "context": "1"}),
        ("FSDP2", {"zero": "fsdp2", "tensor": "1", "pipeline": "1", "context": "1"}),
        ("TP4 FSDP", {"tensor": "4", "zero": "fsdp", "pipeline": "1", "context": "1"}),
        ("TP2 then TP4, DP8", {"data": "8", "pipeline": "1", "context": "1"}),
        ("EP8", {"expert": "8"}),
        ("1D parallelism", {}),
        ("ring", {}),
        ("t4p2d8", {"tensor": "4", "pipeline": "2", "data": "8", "context": "1"}),
        ("(t=8,p=2)", {"tensor": "8", "pipeline": "2", "context": "1"}),
        ("4-way tensor, 2-way pipeline", {"tensor": "4", "pipeline": "2", "context": "1"}),
        ("tensor parallel size 4", {"tensor": "4", "pipeline": "1", "context": "1"}),
        ("TP/PP/DP = 8/4/2", {"tensor": "8", "pipeline": "4", "data": "2", "context": "1"}),
        ("TP-PP 8-4-2", {}),
        ('{"tp": 8, "pp": 4}', {"tensor": "8", "pipeline": "4", "context": "1"}),
        ("MP8 DP4", {"tensor": "8", "data": "4", "pipeline": "1", "context": "1"}),
        ("ZeRO-3", {"zero": "zero-3", "tensor": "1", "pipeline": "1", "context": "1"}),
        ("data parallel", {"tensor": "1", "pipeline": "1", "context": "1"}),
        ("dp_shard=8", {"shards": "8", "tensor": "1", "pipeline": "1", "context": "1"}),
        ("4-4-4", {}),
        ("2TP 4PP 8DP", {"tensor": "2", "pipeline": "4", "data": "8", "context": "1"}),
        ("TP4 (not FSDP)", {"tensor": "4", "pipeline": "1", "context": "1"}),
        ("TP 2/4", {"pipeline": "1", "context": "1"}),
        ("DDP + ZeRO-2", {"zero": "zero-2", "tensor": "1", "pipeline": "1", "context": "1"}),
        ("Ulysses SP=8 + ZeRO-3", {"zero": "zero-3"}),
        ("tp8.5", {}),
    ],
)
def test_a_layout_in_words_says_degrees(text: str, wanted: dict[str, str]) -> None:
    assert degrees_in(text) == wanted


def test_degrees_in_columns_come_before_those_in_words(tmp_path: Path) -> None:
    head = "model,system,gpus,seq,gbs,mbs,dtype,Layout,TP,MFU"
    words, column = priced(
        tmp_path,
        head,
        "Llama 2 7B,DGX H100,16,4096,64,1,bf16,TP2 x PP1 x DP8,,40",
        "Llama 2 7B,DGX H100,16,4096,64,1,bf16,TP2 x PP1,4,40",
    )
    assert (words["plan"]["tensor"], words["plan"]["data"]) == (2, 8)
    assert (column["plan"]["tensor"], column["plan"]["data"]) == (4, 4)


@given(degrees, degrees, degrees)
def test_spellings_of_one_layout_agree(tensor: int, pipeline: int, data: int) -> None:
    t, p, d = tensor, pipeline, data
    spelt = [
        f"TP{t} PP{p} DP{d}",
        f"tp{t}pp{p}dp{d}",
        f"t{t}-p{p}-d{d}",
        f"TP={t}, PP={p}, DP={d}",
        f"(DP, TP, PP) = ({d}, {t}, {p})",
        f"{t}-way tensor, {p}-way pipeline, {d}-way data parallelism",
    ]
    wanted = {"tensor": str(t), "pipeline": str(p), "data": str(d), "context": "1"}
    assert [degrees_in(text) for text in spelt] == [wanted] * len(spelt)


def test_a_heading_names_the_degrees_of_its_cells(tmp_path: Path) -> None:
    (row,) = priced(tmp_path, f"{HEAD},gbs,TP-PP-DP,MFU", f"{RUN},64,2-4-2,40")
    plan = row["plan"]
    assert (plan["tensor"], plan["pipeline"], plan["data"]) == (2, 4, 2)


def test_a_layout_without_a_degree_is_passed_over_and_said(tmp_path: Path) -> None:
    (row,) = priced(tmp_path, f"{HEAD},gbs,layout,MFU", f"{RUN},64,4-4-1,40")
    assert "layout '4-4-1' says no degree that is known" in row["note"]
    assert row["status"] == "searched"


def test_a_layout_unlike_its_columns_is_said_and_theirs_are_taken(tmp_path: Path) -> None:
    head = f"{HEAD},gbs,layout,tp,pp,MFU"
    told, same = priced(tmp_path, head, f"{RUN},64,TP2 PP2,4,2,40", f"{RUN},64,TP4 PP2,4,2,40")
    assert told["plan"]["tensor"] == same["plan"]["tensor"] == 4
    assert "tensor 4 taken, its own column: layout 'TP2 PP2' says 2" in told["note"]
    assert "its own column" not in same["note"]


def test_steps_that_make_another_batch_are_said(tmp_path: Path) -> None:
    head = f"{HEAD},gbs,mbs,GAS,tp,pp,cp,MFU"
    told, same = priced(tmp_path, head, f"{RUN},64,1,16,2,1,1,40", f"{RUN},64,1,8,2,1,1,40")
    assert told["step_time_s"] == same["step_time_s"]
    assert "global batch 64 taken: micro-batch 1 x accumulation 16 x data 8 are 128" in told["note"]
    assert "accumulation" not in same["note"]


@pytest.mark.parametrize("heading", ["gradient_accumulation_steps", "GAS", "num_microbatches"])
def test_accumulation_and_micro_batch_make_the_batch(tmp_path: Path, heading: str) -> None:
    tail = "mbs,tp,pp,recompute,MFU"
    (told,) = priced(tmp_path, f"{HEAD},gbs,{tail}", f"{RUN},64,1,2,1,none,40")
    (made,) = priced(tmp_path, f"{HEAD},{heading},{tail}", f"{RUN},8,1,2,1,none,40")
    assert made["status"] == told["status"]
    assert made["step_time_s"] == pytest.approx(told["step_time_s"])


@pytest.mark.parametrize("cell", ["262144", "0.262144M", "262144 tokens"])
def test_tokens_of_a_batch_are_sequences_of_their_length(tmp_path: Path, cell: str) -> None:
    tail = "mbs,tp,pp,recompute,MFU"
    (told,) = priced(tmp_path, f"{HEAD},gbs,{tail}", f"{RUN},64,1,2,1,none,40")
    (made,) = priced(tmp_path, f"{HEAD},tokens per batch,{tail}", f"{RUN},{cell},1,2,1,none,40")
    assert made["step_time_s"] == pytest.approx(told["step_time_s"])


def test_shards_and_replicas_are_data_ranks(tmp_path: Path) -> None:
    head = f"{HEAD},gbs,mbs,tp,pp,dp_shard,dp_replicate,MFU"
    (row,) = priced(tmp_path, head, f"{RUN},64,1,1,1,8,2,40")
    plan = row["plan"]
    assert (plan["data"], plan["zero"], plan["zero_group"]) == (16, 3, 8)


@pytest.mark.parametrize(
    ("cell", "count"),
    [("64 GPUs", 64), ("8 nodes", 64), ("64x H100", 64), ("8x8", 64), ("8 nodes, 64 GPUs", 64)],
)
def test_a_count_may_name_what_it_counts(tmp_path: Path, cell: str, count: int) -> None:
    head = "model,system,devices,seq,gbs,mbs,tp,pp,dtype,metric,value"
    (row,) = priced(tmp_path, head, f'Llama 2 7B,DGX H100,"{cell}",4096,64,1,1,1,bf16,MFU,40')
    assert row["device_count"] == count


def test_ranks_that_are_halves_of_devices_are_counted_as_such(tmp_path: Path) -> None:
    head = "model,system,devices,seq,dtype,gbs,mbs,tp,pp,dp,MFU"
    whole, halves = priced(
        tmp_path,
        head,
        "Llama 2 7B,trn1.32xlarge,4 nodes,4096,bf16,256,1,8,1,8,20",
        "Llama 2 7B,trn1.32xlarge,4 nodes,4096,bf16,256,1,8,1,16,20",
    )
    assert (whole["system"], whole["device_count"]) == ("trn1-32xlarge", 64)
    assert (halves["system"], halves["device_count"]) == ("trn1-32xlarge-cores", 128)
    assert "two parts of each device" in halves["note"]


def test_nodes_and_devices_that_differ_are_said(tmp_path: Path) -> None:
    head = "model,system,nodes,gpus per node,gpus,seq,gbs,mbs,tp,pp,dtype,MFU"
    said, made = priced(
        tmp_path,
        head,
        "Llama 2 7B,DGX H100,4,8,16,4096,64,1,2,1,bf16,40",
        "Llama 2 7B,DGX H100,4,4,,4096,64,1,2,1,bf16,40",
    )
    assert "4 nodes of 8 devices of dgx-h100 are not the 16 devices" in said["note"]
    assert made["device_count"] == 16
    assert "nodes of" not in made["note"]


@pytest.mark.parametrize("hardware", ["H100 + A100", "64x H100 and 64x A100", "V100/A100"])
def test_two_kinds_of_device_are_no_machine(tmp_path: Path, hardware: str) -> None:
    head = "model,system,gpus,seq,gbs,dtype,MFU"
    (row,) = priced(tmp_path, head, f"Llama 2 7B,{hardware},16,4096,64,bf16,40")
    assert row["status"] == "skipped"
    assert "allowed: one kind" in row["reason"]


def test_a_share_of_the_peak_is_at_most_all_of_it(tmp_path: Path) -> None:
    over, rate = priced(
        tmp_path,
        f"{HEAD},gbs,mbs,tp,pp,metric,value,unit",
        f"{RUN},64,1,2,1,MFU,140,%",
        f"{RUN},64,1,2,1,tflops_per_gpu,1400,TFLOP/s",
    )
    assert "got 140 % of MFU; allowed: up to 100" in over["reason"]
    assert "of the dense peak" in rate["note"]


def test_mixed_precision_says_a_format_or_none(tmp_path: Path) -> None:
    head = "model,system,gpus,seq,gbs,mbs,tp,pp,Mixed Precision,MFU"
    run = "Llama 2 7B,DGX H100,16,4096,64,1,2,1"
    found = priced(tmp_path, head, *(f"{run},{cell},40" for cell in ("bf16", "yes", "no")))
    assert [row["dtype"] for row in found] == ["bf16", "bf16", "fp32"]


@pytest.mark.parametrize(
    ("hardware", "count"),
    [("TPU v4-64", 32), ("TPU v3-8", 4), ("TPU v5e-256", 256), ("TPU v6e-64", 64)],
)
def test_the_name_of_a_slice_counts_its_devices(tmp_path: Path, hardware: str, count: int) -> None:
    head = "model,system,seq,gbs,mbs,dtype,metric,value"
    (row,) = priced(tmp_path, head, f"Llama 2 7B,{hardware},4096,256,1,bf16,MFU,40")
    assert row["device_count"] == count


@pytest.mark.parametrize(
    ("cell", "recompute"),
    [
        ("gradient checkpointing on", "full"),
        ("Gradient checkpointing", "full"),
        ("activation checkpointing: off", "none"),
        ("DeepSpeed activation checkpointing", "full"),
    ],
)
def test_checkpointing_may_be_on_or_off(tmp_path: Path, cell: str, recompute: str) -> None:
    head = f"{HEAD},gbs,mbs,tp,pp,zero,recompute,MFU"
    (row,) = priced(tmp_path, head, f"{RUN},64,1,2,1,DeepSpeed ZeRO Stage 1,{cell},40")
    assert (row["plan"]["recompute"], row["plan"]["zero"]) == (recompute, 1)


def test_checkpointing_of_a_part_is_not_taken_for_all(tmp_path: Path) -> None:
    head = f"{HEAD},gbs,mbs,tp,pp,recompute,MFU"
    (row,) = priced(tmp_path, head, f"{RUN},64,1,2,1,partial activation checkpointing,40")
    assert row["status"] == "skipped"
    assert "recompute: got 'partial activation" in row["reason"]


def test_a_remark_behind_a_length_is_none_of_its_digits(tmp_path: Path) -> None:
    head = "model,system,gpus,seq,gbs,mbs,tp,pp,MFU"
    told, most = priced(
        tmp_path,
        head,
        "Llama 2 7B,DGX H100,16,4K (packed),64,1,2,1,40",
        "Llama 2 7B,DGX H100,16,4K (max),64,1,2,1,40",
    )
    assert told["status"] == "searched"
    assert "seq: got '4K (max)'" in most["reason"]


@pytest.mark.parametrize(
    ("hardware", "count"),
    [("8x DGX H100", 64), ("H100 x 64", 64), ("8x p5.48xlarge", 64), ("16x H100 GPUs", 16)],
)
def test_a_count_may_stand_with_the_machine(tmp_path: Path, hardware: str, count: int) -> None:
    (row,) = priced(tmp_path, "model,GPU,seq,gbs,mbs,MFU", f"Llama 2 7B,{hardware},4096,64,1,40")
    assert row["device_count"] == count


@pytest.mark.parametrize("mark", [":", "/", " & ", "\u2192"])
def test_degrees_under_a_heading_have_any_marks_between_them(tmp_path: Path, mark: str) -> None:
    told, short = priced(
        tmp_path,
        f"{HEAD},gbs,TP/PP/DP,MFU",
        f"{RUN},64,{mark.join('242')},40",
        f"{RUN},64,{mark.join('24')},40",
    )
    assert [told["plan"][axis] for axis in ("tensor", "pipeline", "data")] == [2, 4, 2]
    assert "says no degree" in short["note"]


@pytest.mark.parametrize("text", ["no FSDP", "FSDP off", "without distributed optimizer"])
def test_what_a_row_denies_it_does_not_have(tmp_path: Path, text: str) -> None:
    head = "model,system,gpus,seq,gbs,mbs,tp,pp,zero,recompute,dtype,MFU"
    run = "Llama 2 7B,DGX H100,16,4096,64,1,8,1"
    denied, two = priced(
        tmp_path,
        head,
        f"{run},{text},no SAC,BF16 (not FP8),40",
        f"{run},ZeRO-1 vs FSDP,none,bf16,40",
    )
    assert (denied["plan"]["zero"], denied["plan"]["recompute"]) == (0, "none")
    assert denied["dtype"] == "bf16"
    assert "allowed: one sharding" in two["reason"]


def test_none_is_one_of_a_degree_alone(tmp_path: Path) -> None:
    head = "model,system,gpus,seq,gbs,mbs,tp,pp,MFU"
    fine, length, batch = priced(
        tmp_path,
        head,
        "Llama 2 7B,DGX H100,16,4096,64,1,none,0,40",
        "Llama 2 7B,DGX H100,16,none,64,1,1,1,40",
        "Llama 2 7B,DGX H100,16,4096,none,1,1,1,40",
    )
    assert (fine["plan"]["tensor"], fine["plan"]["pipeline"]) == (1, 1)
    assert "seq: got 'none'" in length["reason"]
    assert "gbs: got 'none'" in batch["reason"]


def test_a_table_without_a_machine_is_none_of_vtrains(tmp_path: Path) -> None:
    head = "model,cluster name,gpus,tp,seq,gbs,step time (s)"
    (row,) = priced(tmp_path, head, "Llama 2 7B,DGX H100,64,1,4096,512,3")
    assert "hardware: got nothing" in row["reason"]


@pytest.mark.parametrize(
    ("heading", "seconds"),
    [("step time (min)", 120.0), ("step time (ms)", 0.002), ("step time (s)", 2.0)],
)
def test_a_heading_says_the_unit_of_its_cells(tmp_path: Path, heading: str, seconds: float) -> None:
    (row,) = priced(tmp_path, f"{HEAD},gbs,mbs,tp,pp,{heading}", f"{RUN},64,1,2,1,2")
    assert row["step_time_s"] / row["time_ratio"] == pytest.approx(seconds)


def test_micro_batches_of_a_device_and_no_degree_mean_data_alone(tmp_path: Path) -> None:
    head = "model,system,gpus,seq,mbs,GAS,zero,dtype,MFU"
    (row,) = priced(tmp_path, head, "Llama 2 7B,DGX H100,16,4096,1,4,3,bf16,40")
    plan = row["plan"]
    assert (plan["tensor"], plan["pipeline"], plan["data"]) == (1, 1, 16)


def test_a_batch_that_nobody_says_is_one_that_somebody_trains_with(tmp_path: Path) -> None:
    # 64 sequences a device would be 268 M tokens on 2,048 devices, but 8 M on 64
    head = "model,system,gpus,seq,tp,pp,metric,value"
    many, few, long = priced(
        tmp_path,
        head,
        "Llama 2 7B,DGX H100,2048,2048,1,1,MFU,40",
        "Llama 2 7B,DGX H100,64,2048,1,1,MFU,40",
        "Llama 2 7B,DGX H100,2048,16384,1,1,MFU,40",
    )

    noted = [re.search(r"global batch of (\d+) taken", row["note"]) for row in (many, few, long)]
    # two sequences a device are tried, however many tokens they have
    assert [int(each[1]) for each in noted if each] == [8192, 4096, 4096]
    assert {row["status"] for row in (many, few, long)} == {"searched"}
