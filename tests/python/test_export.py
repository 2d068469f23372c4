"""Exports: the winner as settings of frameworks, and Megatron-LM arguments read back."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalewright import errors, export
from scalewright.catalog import load_model

if TYPE_CHECKING:
    from pathlib import Path

MODELS = ["gpt3-175b", "llama3-8b", "qwen3-8b", "mixtral-8x7b", "deepseek-v3"]

GPT_SCRIPT = """#!/bin/bash
# Runs a GPT model
TP=8
PP=${PP:-16}
NNODES=128
GPUS_PER_NODE=8
GPT_MODEL_ARGS=(
    --num-layers 96   # layers
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
)
TRAINING_ARGS=(--micro-batch-size 1 --global-batch-size 1536 --bf16
    --lr 6.0e-5 --recompute-activations)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \\
    ${GPT_MODEL_ARGS[@]} ${TRAINING_ARGS[@]} \\
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \\
    --use-distributed-optimizer --overlap-grad-reduce --sequence-parallel
"""

LLAMA_SCRIPT = """
WORLD_SIZE=64
ARGS="--num-layers 80 --hidden-size 8192 --num-attention-heads 64 --ffn-hidden-size=28672 \\
 --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm \\
 --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear \\
 --seq-length 8192 --vocab-size 128256 --attention-dropout 0.0 --hidden-dropout 0.0"
PARALLEL="--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 \\
 --num-layers-per-virtual-pipeline-stage 5 --context-parallel-size 2"
python pretrain_gpt.py $ARGS $PARALLEL --global-batch-size 128 --micro-batch-size 1 --bf16
"""


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Plans that Megatron-LM can be told, not all of them legal for every model."""
    tensor = draw(st.sampled_from([1, 2, 4, 8]))
    pipeline = draw(st.sampled_from([1, 2, 4, 8]))
    interleave = draw(st.sampled_from([1, 2, 3])) if pipeline > 1 else 1
    zero = draw(st.integers(0, 3))
    return {
        "tensor": tensor,
        "context": draw(st.sampled_from([1, 2])),
        "pipeline": pipeline,
        "data": draw(st.sampled_from([1, 2, 16])),
        "expert": 1,
        "expert_tensor": 0,
        "micro_batch": draw(st.integers(1, 4)),
        "interleave": interleave,
        "schedule": "interleaved" if interleave > 1 else "1f1b",
        "zero": zero,
        "zero_group": 0,
        "recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "sequence_parallel": tensor > 1 and draw(st.booleans()),
        "overlap_grad_reduce": draw(st.booleans()),
        "overlap_param_gather": zero > 0 and draw(st.booleans()),
        "overlap_tensor": True,
        "overlap_pipeline": interleave > 1 and draw(st.booleans()),
    }


def training(**fields: object) -> dict[str, Any]:
    return {
        "global_batch": 768, "sequence": 2048, "precision": "bf16", "optimizer": "adam",
        "flash_attention": True, "dropout": False, **fields,
    }  # fmt: skip


def written(fmt: str, plan: dict[str, Any], model: str = "llama3-8b", **fields: object) -> str:
    estimate = {"plan": plan, "step_time_s": 1.5}
    return export.write(fmt, estimate, load_model(model), training(**fields))


def devices(plan: dict[str, Any]) -> int:
    return plan["tensor"] * plan["context"] * plan["pipeline"] * plan["data"]


@settings(deadline=None, max_examples=60, derandomize=True)
@given(plan=plans(), model=st.sampled_from(MODELS))
def test_megatron_arguments_read_back_to_the_same_plan(
    tmp_path_factory: pytest.TempPathFactory, plan: dict[str, Any], model: str
) -> None:
    layers = load_model(model)["layers"]
    if plan["interleave"] > 1 and layers % (plan["pipeline"] * plan["interleave"]):
        plan |= {"interleave": 1, "schedule": "1f1b", "overlap_pipeline": False}
    file = tmp_path_factory.mktemp("megatron") / "run.sh"
    file.write_text(written("megatron", plan, model))
    read = export.read_megatron(file)
    assert read["devices"] == devices(plan)
    assert read["plan"] == {k: v for k, v in plan.items() if k in read["plan"]}
    shape = load_model(model)
    same = ("layers", "hidden", "heads", "ffn", "position", "activation", "norm", "latent")
    assert {k: read["model"].get(k) for k in same} == {k: shape.get(k) for k in same}
    assert (read["model"].get("kv_heads") or shape["heads"]) == (
        shape.get("kv_heads") or shape["heads"]
    )
    assert read["training"]["global_batch"] == 768
    assert read["training"]["precision"] == "bf16"


def test_a_gpt_script_is_read(tmp_path: Path) -> None:
    file = tmp_path / "gpt.sh"
    file.write_text(GPT_SCRIPT)
    read = export.read_megatron(file)
    assert read["devices"] == 1024
    assert read["model"]["layers"] == 96
    assert read["model"]["padded_vocab"] == 51200
    assert read["plan"] == {
        "tensor": 8, "pipeline": 16, "context": 1, "expert": 1, "micro_batch": 1, "data": 8,
        "sequence_parallel": True, "interleave": 1, "schedule": "1f1b", "overlap_pipeline": False,
        "zero": 1, "overlap_grad_reduce": True, "overlap_param_gather": False,
        "recompute": "selective",
    }  # fmt: skip
    assert read["ignored"] == ["lr"]


def test_a_llama_script_is_read(tmp_path: Path) -> None:
    file = tmp_path / "llama.sh"
    file.write_text(LLAMA_SCRIPT)
    read = export.read_megatron(file)
    assert read["devices"] == 64
    assert read["model"]["kv_heads"] == 8
    assert read["model"]["ffn"] == 28672
    assert not read["model"]["tied_embeddings"]
    assert read["plan"]["interleave"] == 4
    assert read["plan"]["data"] == 2
    assert read["training"]["dropout"] is False


def test_arguments_as_key_and_value_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "num_layers: 24\nhidden-size: 2048\nnum_attention_heads: 16\nseq_length: 2048\n"
        "global_batch_size: 64\nfp16: true\nsequence_parallel: false\n"
    )
    read = export.read_megatron(file)
    assert read["model"]["hidden"] == 2048
    assert read["training"]["precision"] == "fp16"
    assert read["plan"]["sequence_parallel"] is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--num-layers 2", "--hidden-size: got nothing"),
        (GPT_SCRIPT.replace("--hidden-size 12288", "--hidden-size wide"), "got 'wide'"),
        (GPT_SCRIPT.replace("tensor-model-parallel-size", "tensor-model-paralel-size"), "nearest"),
        (GPT_SCRIPT.replace("TP=8", "TP=7"), "do not divide"),
        (GPT_SCRIPT.replace("--hidden-size 12288", "--hidden-size 0"), "1 or more"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "run.sh"
    file.write_text(text)
    with pytest.raises(errors.InvalidError, match=said) as caught:
        export.read_megatron(file)
    assert str(file) in str(caught.value)


@settings(deadline=None, max_examples=200)
@given(text=st.text(max_size=300) | st.binary(max_size=200))
def test_garbage_raises_only_our_errors(
    tmp_path_factory: pytest.TempPathFactory, text: str | bytes
) -> None:
    file = tmp_path_factory.mktemp("garbage") / "run.sh"
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    file.write_bytes(data + b" --num-layers")
    with pytest.raises(errors.ScalewrightError):
        export.read_megatron(file)


@settings(deadline=None, max_examples=80)
@given(plan=plans())
def test_torchtitan_files_parse_and_use_all_devices(plan: dict[str, Any]) -> None:
    plan["sequence_parallel"] = plan["tensor"] > 1
    job = tomllib.loads(written("torchtitan", plan))
    degrees = job["parallelism"]
    used = 1
    for name in ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel",
                 "context_parallel", "pipeline_parallel"):  # fmt: skip
        used *= degrees[f"{name}_degree"]
    assert used == devices(plan)
    assert job["activation_checkpoint"]["mode"] == plan["recompute"]


@settings(deadline=None, max_examples=80)
@given(plan=plans())
def test_deepspeed_batches_multiply_out(plan: dict[str, Any]) -> None:
    plan |= {"micro_batch": 2, "interleave": 1, "schedule": "1f1b", "overlap_pipeline": False}
    plan["recompute"] = "full" if plan["recompute"] == "selective" else plan["recompute"]
    plan["zero"] = min(plan["zero"], 1) if plan["pipeline"] > 1 else plan["zero"]
    text = written("deepspeed", plan)
    body = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
    config = json.loads(body)
    product = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"]
    assert product * plan["data"] == config["train_batch_size"] == 768
    assert config["zero_optimization"]["stage"] == plan["zero"]


def test_what_a_framework_lacks_is_refused() -> None:
    plan = {
        "tensor": 1, "context": 1, "pipeline": 4, "data": 2, "expert": 1, "expert_tensor": 0,
        "micro_batch": 1, "interleave": 1, "schedule": "gpipe", "zero": 0, "zero_group": 0,
        "recompute": "none", "sequence_parallel": False, "overlap_grad_reduce": True,
        "overlap_param_gather": True, "overlap_tensor": True, "overlap_pipeline": False,
    }  # fmt: skip
    for fmt in ("megatron", "deepspeed"):
        with pytest.raises(errors.InvalidError, match="schedule: got gpipe"):
            written(fmt, plan)
    with pytest.raises(errors.UnknownNameError, match="nearest: megatron"):
        written("megatrn", plan)
