"""Are rows of timed kernels read as what they say, however a report spells its columns?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import scalewright as sw
from scalewright.cli import main
from scalewright.errors import InvalidError
from scalewright.reproductions.kernels import holds_kernels, run

if TYPE_CHECKING:
    from pathlib import Path

CANONICAL = {
    "decode": "system,batch_size,isl,step,num_heads,num_key_value_heads,head_dim,attn_dtype,"
    "kv_cache_dtype,value_dim,latency_us",
    "forward": "system,data_type,attn_mask,batch_size,q_seqlen,num_q_heads,num_kv_heads,"
    "head_dim_qk,profile_pass,time_ms",
    "moe": "system,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,"
    "distribution,latency_us",
}


def read(folder: Path, head: str, *lines: str) -> list[dict[str, Any]]:
    """Return what a file of kernels comes to that is recognised by its columns."""
    file = folder / "timed.csv"
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    assert holds_kernels(file)
    return run(rows_path=file)["rows"]


def same(folder: Path, first: tuple[str, str], *others: tuple[str, str]) -> None:
    """Check that rows of several tables are one kernel that took one time."""
    (wanted,) = read(folder, *first)
    assert wanted["reason"] is None
    for head, line in others:
        (found,) = read(folder, head, line)
        for field in ("kind", "device", "dtype", "numbers", "predicted_s"):
            assert found[field] == wanted[field], (head, field, found["reason"])
        assert found["measured_s"] == pytest.approx(wanted["measured_s"], rel=1e-3)


@pytest.mark.parametrize(
    ("heading", "cell"),
    [
        ("MNK", "64x2048x7168"),
        ("M\u00d7N\u00d7K", "64\u00d72048\u00d77168"),
        ("MxKxN", "64 x 7168 x 2048"),
        ('"(M, K, N)"', '"(64, 7168, 2048)"'),
        ("KNM", "7168 2048 64"),
    ],
)
def test_the_heading_of_one_cell_of_sides_says_their_order(
    tmp_path: Path, heading: str, cell: str
) -> None:
    usual = ("system,dtype,m,n,k,latency_us", "h100-sxm,bf16,64,2048,7168,20")
    same(tmp_path, usual, (f"system,dtype,{heading},latency_us", f"h100-sxm,bf16,{cell},20"))


def test_sides_in_no_order_are_read_where_they_are_alike_alone(tmp_path: Path) -> None:
    cells = ("4096 x 4096 x 4096", "4096", "1x4096x4096", "4096x4096")
    lines = [f"h100-sxm,bf16,{cell},210" for cell in cells]
    alike, side, unlike, two = read(tmp_path, "system,dtype,shape,latency_us", *lines)
    assert alike["numbers"] == side["numbers"]
    assert alike["error"] == side["error"] is not None
    for row in (unlike, two):
        assert "allowed: three numbers, unlike ones below their order as MxNxK" in row["reason"]


@pytest.mark.parametrize(
    ("spelt", "format_"),
    [
        ("f32", "fp32"),
        ("float", "fp32"),
        ("torch.float", "fp32"),
        ("single", "fp32"),
        ("f16", "fp16"),
        ("TF32", "tf32"),
        ("FP8 row-wise", "fp8"),
        ("fp8_w8a8", "fp8"),
        ("fp8 (e4m3)", "fp8"),
        ("FP8 block-wise", "fp8_block"),
        ("int8_w8a8", "sq"),
        ("int8_w8a16", "int8_wo"),
        ("INT4 weight-only", "int4_wo"),
        ("int4_w4a16", "int4_wo"),
    ],
)
def test_formats_are_the_same_however_they_are_spelt(
    tmp_path: Path, spelt: str, format_: str
) -> None:
    head = "system,dtype,m,n,k,latency_us"
    known, other = read(
        tmp_path, head, *(f"l40s,{d},8192,8192,8192,90000" for d in (format_, spelt))
    )
    assert other["predicted_s"] == known["predicted_s"] is not None


@pytest.mark.parametrize(
    ("heading", "figure"),
    [
        ("us", "210"),
        ("tuned \u00b5s", "210"),
        ("GPU Time (us)", "210"),
        ("median time (ms)", "0.21"),
        ("Time (sec)", "2.1e-4"),
        ("TeraFLOPS", "654.5"),
        ("TF/s", "654.5"),
        ("TOPS", "654.5"),
    ],
)
def test_figures_are_read_by_the_unit_of_their_heading(
    tmp_path: Path, heading: str, figure: str
) -> None:
    (row,) = read(tmp_path, f"gpu,dtype,m,n,k,{heading}", f"H100,bf16,4096,4096,4096,{figure}")
    assert row["measured_s"] == pytest.approx(210e-6, rel=1e-3)


def test_of_two_times_that_nothing_tells_apart_none_is_taken(tmp_path: Path) -> None:
    line = "H100,bf16,4096,4096,4096,210,999"
    file = tmp_path / "two.csv"
    file.write_text(f"gpu,dtype,m,n,k,cutlass (us),triton (us)\n{line}\n", encoding="utf-8")
    with pytest.raises(sw.InvalidError, match=r"times 'cutlass \(us\)' and 'triton \(us\)'"):
        run(rows_path=file)
    (row,) = read(tmp_path, "gpu,dtype,m,n,k,latency (us),triton (us)", line)
    assert row["measured_s"] == pytest.approx(210e-6)


@pytest.mark.parametrize("heading", ["batch", "B", "batch_count", "batch_size"])
def test_many_products_of_one_call_are_not_read_as_one(tmp_path: Path, heading: str) -> None:
    head = f"gpu,dtype,{heading},m,n,k,latency_us"
    rows = read(tmp_path, head, *(f"H100,bf16,{b},256,4096,4096,210" for b in (1, 16)))
    assert [row["numbers"]["batch"] for row in rows] == [1.0, 16.0]
    assert rows[1]["predicted_s"] > 3.0 * rows[0]["predicted_s"]


@pytest.mark.parametrize("groups", ["groups", "num_groups", "#Groups", "E", "num_experts"])
@pytest.mark.parametrize("each", ["m_per_group", "expected_m_per_group", "M / group"])
def test_rows_of_a_group_are_not_those_of_all_groups(
    tmp_path: Path, groups: str, each: str
) -> None:
    line = "H100,bf16,16,256,4096,4096,210"
    usual = ("gpu,dtype,batch,m,n,k,latency_us", line)
    same(tmp_path, usual, (f"gpu,dtype,{groups},{each},n,k,latency_us", line))
    (row,) = read(tmp_path, f"gpu,dtype,{groups},m,n,k,latency_us", line)
    assert "allowed: m_per_group, as m may be that of all of them" in row["reason"]


def test_sides_beside_chosen_experts_are_no_product_of_all_tokens(tmp_path: Path) -> None:
    head, line = "gpu,dtype,E,topk,M,N,K,latency_us", "H20,fp8,256,8,64,256,7168,300"
    (row,) = read(tmp_path, head, line)
    assert "topk: got '8' beside m, n and k; allowed: num_tokens, hidden_size" in row["reason"]


def test_only_the_column_of_a_benchmark_that_casts_says_that_a_cast_is_timed(
    tmp_path: Path,
) -> None:
    def priced(head: str, line: str) -> float:
        (row,) = read(
            tmp_path, f"system,{head},m,n,k,latency_us", f"h100-sxm,{line},256,4096,4096,20"
        )
        return row["predicted_s"]

    bare = priced("gemm_dtype,cast", "fp8,no")
    assert priced("dtype", "fp8") == priced("precision", "fp8") == bare
    assert priced("gemm_dtype", "fp8") == priced("dtype,cast", "fp8,yes") > 1.1 * bare


FREE_DECODE = [
    (
        "gpu,dtype,batch,heads,kv_heads,head_dim,kv_len,time (us)",
        "h100-sxm,bf16,64,32,8,128,4096,410",
    ),
    ("GPU,dtype,B,H_q,H_kv,D,s_q,s_k,us", "h100-sxm,bf16,64,32,8,128,1,4096,410"),
    (
        "device,precision,batch_size,seqlen,seqlen_q,nheads_q,nheads_kv,headdim,Latency (ms)",
        "h100-sxm,bf16,64,4096,1,32,8,128,0.41",
    ),
    (
        "device,dtype,mode,bs,num_qo_heads,num_kv_heads,head_dim,seq_len,kv_cache_dtype,us",
        "h100-sxm,bf16,decode,64,32,8,128,4096,bf16,410",
    ),
    ("gpu,dtype,batch,ctx,nhead,kv_heads,head_dim,us", "h100-sxm,bf16,64,4096,32,8,128,410"),
]


def test_one_query_over_many_keys_is_decoding_however_it_is_spelt(tmp_path: Path) -> None:
    line = "h100-sxm,64,1,4095,32,8,128,bf16,bf16,,410"
    same(tmp_path, (CANONICAL["decode"], line), *FREE_DECODE)


FREE_FORWARD = [
    ("gpu,dtype,B,H,N,D,causal,ms", "h100-sxm,bf16,4,32,8192,128,True,5"),
    (
        "gpu,dtype,batch,nheads,seqlen_q,seqlen_k,headdim,causal,ms",
        "h100-sxm,bf16,4,32,8192,8192,128,1,5",
    ),
    ("gpu,dtype,bs,num_heads,seq_len,head_dim,mode,ms", "h100-sxm,bf16,4,32,8192,128,prefill,5"),
]


def test_as_many_queries_as_keys_are_a_pass_over_whole_sequences(tmp_path: Path) -> None:
    line = "h100-sxm,bf16,causal,4,8192,32,32,128,fwd,5"
    same(tmp_path, (CANONICAL["forward"], line), *FREE_FORWARD)
    head = FREE_FORWARD[0][0]
    full, told = (
        read(tmp_path, head.replace("ms", "pass,ms"), f"h100-sxm,bf16,4,32,8192,128,{words},9")[0]
        for words in ("False,fwd", "False,bwd")
    )
    assert full["kind"] == "attention_forward"
    assert told["kind"] == "attention_backward"
    assert told["predicted_s"] > 2.0 * full["predicted_s"]


@pytest.mark.parametrize(
    ("head", "cells", "said"),
    [
        ("seqlen", "4096", "causal: got nothing beside one length"),
        ("seqlen_q,seqlen_k", "2048,4096", "seqlen_q: got 2048 beside 4096 keys"),
        ("seqlen,causal", "4096,maybe", "causal: got 'maybe'"),
        ("seqlen,pass,causal", "4096,sideways,True", "pass: got 'sideways'"),
        ("seqlen_k,d_v", "4096,64", "value_dim: got 64 beside keys 128 wide"),
    ],
)
def test_attention_of_which_a_row_tells_too_little_is_refused(
    tmp_path: Path, head: str, cells: str, said: str
) -> None:
    line = f"H100,bf16,4,32,128,{cells},5"
    (row,) = read(tmp_path, f"gpu,dtype,batch,heads,head_dim,{head},ms", line)
    assert said in row["reason"]


def test_only_unmasked_forward_attention_is_timed_by_its_rate(tmp_path: Path) -> None:
    """Of a mask some count all products, some half of them."""
    flops = 4 * 4 * 32 * 8192**2 * 128
    lines = [f"H100,bf16,4,32,8192,128,{mask},{flops / 9e-3 / 1e12}" for mask in ("False", "True")]
    full, half = read(tmp_path, "gpu,dtype,batch,heads,seqlen,head_dim,causal,TFLOPS", *lines)
    assert full["measured_s"] == pytest.approx(9e-3)
    assert "latency_us: got ''" in half["reason"]


def test_a_latent_cache_is_read_once_for_keys_and_values(tmp_path: Path) -> None:
    """At 0.215 ms a kernel moves 604 MB of latent keys, and could not move twice as much."""
    line = "H100,128,1,4095,16,1,576,bf16,bf16,512,215"
    head = "gpu,dtype,b,s_q,mean_sk,h_q,h_kv,d,dv,causal,us"
    parts = "gpu,dtype,batch_size,seqlen,num_qo_heads,head_dim_ckv,head_dim_kpe,us"
    same(
        tmp_path,
        (CANONICAL["decode"], line),
        (head, "H100,bf16,128,1,4096,16,1,576,512,True,215"),
        (parts, "H100,bf16,128,4096,16,512,64,215"),
    )
    (twice,) = read(tmp_path, CANONICAL["decode"], line.replace(",512,", ",576,"))
    assert "to move 1.208 GB" in twice["reason"]


def test_queries_of_several_tokens_share_a_latent_key_as_more_heads_do(tmp_path: Path) -> None:
    head = "gpu,dtype,b,s_q,s_k,h_q,h_kv,d,dv,us"
    two, heads, more = read(
        tmp_path,
        head,
        "H100,bf16,128,2,4096,16,1,576,512,300",
        "H100,bf16,128,1,4096,32,1,576,512,300",
        "H100,bf16,128,2,4096,32,1,576,512,300",
    )
    assert two["kind"] == "attention_decode"
    assert two["predicted_s"] == heads["predicted_s"]
    # a block takes 64 queries, however few there are
    assert more["predicted_s"] == pytest.approx(heads["predicted_s"], rel=0.1)


FREE_MOE = [
    ("GPU,dtype,E,N,topk,hidden_size,tp,M,tuned (us)", "h100-sxm,bf16,64,704,6,2048,2,256,300"),
    (
        "gpu,precision,num_experts,moe_intermediate_size,top_k,hidden,tokens,tp_size,ms",
        "h100-sxm,bf16,64,1408,6,2048,256,2,0.3",
    ),
]


def test_experts_are_one_mixture_however_its_columns_are_spelt(tmp_path: Path) -> None:
    """`N` is what a rank holds of their width; reports draw their gates by chance."""
    line = "h100-sxm,bf16,256,2048,1408,6,64,2,random,300"
    same(tmp_path, (CANONICAL["moe"], line), *FREE_MOE)


@pytest.mark.parametrize(
    "head",
    [
        "model,gpus,dtype,batch_size,heads,head_dim,seq_len,time_s",
        "layers,dtype,batch,num_heads,head_dim,seq_len,causal,time (s)",
        "gpu,dtype,experts,topk,hidden,ffn_hidden_size,batch_size,global_batch,time_s",
        "gpu,dtype,batch,heads,head_dim,seq_len,step_time_ms",
    ],
)
def test_sizes_of_training_steps_are_no_kernels(tmp_path: Path, head: str) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(f"{head}\n" + "1," * head.count(",") + "1\n", encoding="utf-8")
    assert not holds_kernels(file)


@pytest.mark.parametrize("name", ["RTX 4090 Laptop GPU", "RTX 3070 Mobile", "RTX 2080 Ti Max-Q"])
def test_the_board_of_a_laptop_is_not_taken_for_its_namesake(tmp_path: Path, name: str) -> None:
    (row,) = read(tmp_path, "gpu,dtype,m,n,k,us", f"{name},fp16,4096,4096,4096,2000")
    assert row["error"] is None
    assert f"system: got '{name}', which is no rtx-" in row["reason"]


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA RTX 3080 Laptop", "rtx-3080-laptop"),
        ("NVIDIA GeForce RTX 4090D", "rtx-4090-d"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-max-q"),
        ("AMD Instinct MI250X", "mi250x-gcd"),
        ("MI250", "mi250-gcd"),
        ("Intel(R) Data Center GPU Max 1550", "max-1550-stack"),
        ("Tesla V100S-PCIE-32GB", "v100s-pcie-32gb"),
        ("H20-3e", "h20-141gb"),
        ("A800 PCIe", "a100-pcie-80gb"),
        ("TitanX Pascal", "titan-x"),
    ],
)
def test_a_kernel_runs_on_the_board_or_die_that_is_named(
    tmp_path: Path, name: str, device: str
) -> None:
    (row,) = read(tmp_path, "gpu,dtype,m,n,k,us", f"{name},fp16,4096,4096,4096,99000")
    assert (row["device"], row["note"]) == (device, None)


def test_new_tokens_of_a_sequence_are_not_taken_from_a_count_of_drafts(tmp_path: Path) -> None:
    head = "gpu,dtype,batch,ctx,nhead,mtp,head_dim_ckv,head_dim_kpe,us"
    line = "h100-sxm,bf16,64,4096,32,4,512,64,410"
    (row,) = read(tmp_path, head, line)
    assert row["predicted_s"] is None
    assert "seqlen_q" in row["reason"]
    (told,) = read(tmp_path, f"{head},s_q", f"{line},4")
    (one,) = read(tmp_path, f"{head},s_q", f"{line},1")
    assert told["predicted_s"] > one["predicted_s"]


def test_a_lone_rate_counts_whosever_it_is_and_peaks_do_not(tmp_path: Path) -> None:
    line = "h100-sxm,bf16,4096,4096,4096"
    usual = read(tmp_path, "gpu,dtype,m,n,k,tflops", f"{line},600")
    assert read(tmp_path, "gpu,dtype,m,n,k,cuBLAS TFLOPS", f"{line},600") == usual
    named = read(tmp_path, "gpu,dtype,m,n,k,peak TFLOPS,aten TFLOP/s", f"{line},989,600")
    assert named == usual
    with pytest.raises(InvalidError, match="rates 'cuBLAS TFLOPS' and 'Triton TFLOPS'"):
        read(tmp_path, "gpu,dtype,m,n,k,cuBLAS TFLOPS,Triton TFLOPS", f"{line},600,500")


def test_rows_of_no_kernel_under_one_system_say_that_columns_lack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "timed.csv"
    file.write_text("size,elapsed,dtype\n4096,0.01,float32\n")
    assert main(["reproduce", "--rows", str(file), "--system", "m4-max"]) == 2
    assert "timed.csv lacks columns" in capsys.readouterr().err
