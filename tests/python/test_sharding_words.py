"""What do words on sharding, on host memory and on number formats mean in a row?"""

from __future__ import annotations

import pytest

from rows_to_read import priced, row
from scalewright.reproductions.machine import Machines
from scalewright.reproductions.setting import setting_of
from scalewright.reproductions.wording import format_meant, sharding_meant


@pytest.mark.parametrize(
    ("text", "stage", "group"),
    [
        ("ZeRO-1", 1, 0),
        ("stage 2", 2, 0),
        ("DDP", 0, 0),
        ("distributed optimizer", 1, 0),
        ("SHARD_GRAD_OP", 2, 0),
        ("z = 1", 1, 0),
        ("zero1=8", 1, 8),
        ("FSDP=16", 3, 16),
        ("FSDP (16)", 3, 16),
    ],
)
def test_words_for_sharding_say_a_stage_and_a_group(text, stage, group):
    assert sharding_meant(text) == (stage, group)
    space = setting_of(row(zero=text), Machines()).space
    assert space["zero"] == [stage]
    assert space.get("zero_group", [0]) == [group]


@pytest.mark.parametrize(
    ("text", "group"), [("FSDP8 (inside the node)", [8]), ("FSDP 16", [16]), ("FSDP2, HF", None)]
)
def test_a_number_behind_fsdp_is_a_group_unless_it_is_the_release(text, group):
    space = setting_of(row(zero=text, data="64"), Machines()).space
    assert space["zero"] == [3]
    assert space.get("zero_group") == group


@pytest.mark.parametrize("text", ["ZeRO", "DeepSpeed ZeRO", "sharded"])
def test_sharding_of_no_stage_leaves_the_stage_open(text):
    assert setting_of(row(zero=text), Machines()).space["zero"] == [1, 2, 3]


def test_hybrid_sharding_shards_within_a_node():
    assert setting_of(row(zero="HSDP"), Machines()).space["zero_group"] == [8]


@pytest.mark.parametrize(
    ("text", "stage", "offloaded"),
    [
        ("ZeRO-Offload", 2, True),
        ("ZeRO-Infinity", 3, True),
        ("zero3 + CPU offload", 3, True),
        ("stage 2 with CPU offload", 2, True),
        ("FSDP2 + CPU offload", 3, True),
        ("3 + chunk CPU offload", 3, True),
        ("zero3", 3, False),
    ],
)
def test_words_on_host_memory_say_where_the_state_lies(text, stage, offloaded):
    space = setting_of(row(zero=text), Machines()).space
    assert space["zero"] == [stage]
    assert space.get("offload_optimizer", [False]) == [offloaded]
    told = setting_of(row(zero=text, offload_optimizer="no"), Machines()).space
    assert told["offload_optimizer"] == [False]


def test_state_in_host_memory_lengthens_the_step_and_frees_the_device(tmp_path):
    whole = priced(tmp_path, zero="2")
    away = priced(tmp_path, zero="2", offload_optimizer="yes")
    kept = priced(tmp_path, zero="2", offload_activations="50%")
    assert away["step_time_s"] > whole["step_time_s"]
    assert kept["step_time_s"] >= whole["step_time_s"]
    wrong = priced(tmp_path, zero="2", offload_activations="half")
    assert "offload_activations: got 'half'; allowed: 0 to 100" in wrong["reason"]


def test_fsdp2_is_a_release_and_not_a_group_of_two():
    space = setting_of(row(zero="FSDP2"), Machines()).space
    assert (space["zero"], space.get("zero_group")) == ([3], None)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("torch.bfloat16", "bf16"),
        ("BF16+FP32 optimizer", "bf16"),
        ("FP8 (E4M3)", "fp8"),
        ("mxfp8", "mxfp8"),
        ("TF32", "tf32"),
        ("TF32 or BF16", "bf16"),
        ("bf16 or fp8", None),
        ("fp8/bf16", None),
        ("FP8 linears, bf16 lm_head", "fp8"),
        ("bf16 and fp16", None),
        ("NVFP4 projections, FP8 PV", "nvfp4"),
        ("mxfp8/nvfp4", None),
        ("int3", None),
    ],
)
def test_words_for_a_format_say_one_or_none(text, meant):
    assert format_meant(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("fp8 tensorwise + first/last bf16", "fp8"),
        ("BF16 (fp8=None)", "bf16"),
        ("bf16, fp8: off", "bf16"),
        ("fp8 = true", "fp8"),
        ("fp8/bf16", None),
    ],
)
def test_what_is_not_set_and_where_layers_stand_are_no_formats(text: str, meant: str | None):
    assert format_meant(text) == meant


@pytest.mark.parametrize("text", ["ZeRO-3", "DeepSpeed ZeRO-3", "stage 3", "ZeRO-3 (offload)"])
def test_the_third_stage_alone_leaves_ranks_for_data_only(text: str) -> None:
    blank = {"paper": "A page", "tensor": "", "pipeline": "", "zero": text}
    space = setting_of(row(**blank), Machines()).space
    assert space["tensor"] == space["pipeline"] == space["context"] == [1]
    told = setting_of(row(**blank | {"tensor": "2"}), Machines()).space
    assert told["tensor"] == [2]
    second = setting_of(row(**blank | {"zero": "ZeRO-2"}), Machines()).space
    assert second.get("tensor") != [1]
