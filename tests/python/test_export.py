"""Do exports say the plan in the words of each framework, and do Megatron-LM's read back alike?"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import scalewright as sw
from scalewright import InvalidError, UnknownNameError
from scalewright.cli import main
from scalewright.export import read_megatron, write
from scalewright.export.layout import layer_split, partly_recomputed, plan_split, wide_axes
from scalewright.planning import estimate_job

MODELS = ["gpt3-175b", "llama3-70b", "qwen3-8b", "mixtral-8x7b", "deepseek-v3", "nemotron-4-15b"]
SEQUENCE = 2048
INSIDE = "pipeline-tensor-context-data"
TABLES: dict[str, dict[str, Any]] = {}

quick = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def table(name: str) -> dict[str, Any]:
    if name not in TABLES:
        TABLES[name] = dict(sw.model(name).table)
    return TABLES[name]


def shaped(model: dict[str, Any]) -> tuple[Any, ...]:
    """Everything that a shape says, through the engine's own counts and its fields' defaults."""
    fields = ("layers", "hidden", "heads", "vocab", "position", "activation", "norm", "latent")
    switches = ("tied_embeddings", "qkv_bias", "output_bias", "ffn_bias", "qk_norm")
    experts = {"every": 1, "shared_ffn": 0, "first_dense_layers": 0, "router_bias": False}
    held = model.get("experts")
    return (
        [model.get(field) for field in fields],
        [model.get(field, False) for field in switches],
        model.get("kv_heads") or model["heads"],
        model.get("head_dim") or model["hidden"] // model["heads"],
        {**experts, **held} if held else None,
        sw.model(model).parameters()["total"],
    )


def plan(**fields: Any) -> dict[str, Any]:
    # an answer's plan says all of its fields
    return {"overlap_pipeline": False, **sw.Plan(**fields).to_dict()}


def estimate(**fields: Any) -> dict[str, Any]:
    return {"plan": plan(**fields), "step_time_s": 1.5}


def training(**fields: Any) -> dict[str, Any]:
    return sw.Training(**{"global_batch": 512, "sequence": SEQUENCE, **fields}).to_dict()


@st.composite
def plans(draw: st.DrawFn, model: dict[str, Any]) -> dict[str, Any]:
    tensor = draw(st.sampled_from([1, 2, 4, 8]))
    pipeline = draw(st.sampled_from([1, 1, 2, 4, 8]))
    interleave = draw(st.integers(1, 5)) if pipeline > 1 else 1
    context, data = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2, 4, 16]))
    zero = draw(st.sampled_from([0, 1] if pipeline > 1 else [0, 1, 2, 3]))
    experts = model.get("experts")
    reduce = draw(st.booleans())
    orders = ["tensor-context-data-pipeline", "tensor-pipeline-context-data"]
    ends = st.sampled_from([0, 0, 1, 3, 6]) if interleave == 1 < pipeline else st.just(0)
    recompute = draw(st.sampled_from(["none", "selective", "full"]))
    leading = draw(st.sampled_from([0, 1, 2, 5])) if recompute == "full" else 0
    return plan(
        axis_order=draw(st.sampled_from(orders)) if context == 1 and not experts else orders[0],
        first_layers=draw(ends),
        last_layers=draw(ends),
        tensor=tensor,
        context=context,
        pipeline=pipeline,
        data=data,
        expert=draw(st.sampled_from([1, 2, 4])) if experts else 1,
        expert_tensor=draw(st.sampled_from([0, 1])) if experts else 0,
        micro_batch=draw(st.sampled_from([1, 2, 4])),
        interleave=interleave,
        schedule="interleaved" if interleave > 1 else "1f1b",
        zero=zero,
        zero_group=data // 2 if zero and data > 1 and draw(st.booleans()) else 0,
        recompute=recompute,
        recompute_layers=leading,
        sequence_parallel=tensor > 1 and (bool(experts) or draw(st.booleans())),
        overlap_grad_reduce=reduce,
        overlap_param_gather=zero > 0 and reduce and draw(st.booleans()),
        overlap_pipeline=interleave > 1 and (pipeline == 2 or draw(st.booleans())),
    )


trainings = st.builds(
    training,
    precision=st.sampled_from(["bf16", "fp8", "mxfp8"]),
    gradient=st.sampled_from(["fp32", "bf16"]),
    fused_gradients=st.booleans(),
    optimizer=st.sampled_from(["adam", "sgd"]),
    flash_attention=st.booleans(),
    dropout=st.booleans(),
    run_tokens=st.sampled_from([None, 1e6 * SEQUENCE]),
)


def complete(read: dict[str, Any], layers: int) -> dict[str, Any]:
    """A plan in normal form: what means the same is written the same."""
    full = {**plan(), **read}
    if full["expert_tensor"] == full["tensor"]:
        full["expert_tensor"] = 0
    order = "tensor-context-data-pipeline"
    if wide_axes(full, full["axis_order"]) == wide_axes(full, order):
        full["axis_order"] = order
    ends = layer_split(layers, full["pipeline"], full["interleave"])
    split = plan_split(full, layers)
    full["recompute_layers"] = partly_recomputed(full, layers)
    full["first_layers"], full["last_layers"] = (0, 0) if split == ends else (split[0], split[2])
    return full


@quick
@given(data=st.data())
def test_megatron_arguments_read_back_as_the_plan_they_were_written_from(
    data: st.DataObject, tmp_path: Path
) -> None:
    name = data.draw(st.sampled_from(MODELS))
    chosen, trained = data.draw(plans(table(name))), data.draw(trainings)
    devices = chosen["data"] * chosen["tensor"] * chosen["pipeline"] * chosen["context"]
    system = sw.system("dgx-b200", devices)
    try:
        job = sw.Job(sw.model(name), system, sw.Training(**trained))
        priced = estimate_job(job, chosen)
    except InvalidError:
        assume(False)  # not a legal plan
        raise
    path = tmp_path / "job.sh"
    path.write_text(write("megatron", dict(priced.values), table(name), trained))
    found = read_megatron(path)
    layers = table(name)["layers"]
    assert complete(found["plan"], layers) == complete(chosen, layers)
    assert training(**found["training"]) == trained
    assert shaped(found["model"]) == shaped(table(name))
    assert found["devices"] == devices
    assert set(found["ignored"]) <= {"--ckpt-format", "--moe-grouped-gemm", *DISPATCH}
    again = sw.Job(sw.model(found["model"]), system, sw.Training(**found["training"]))
    padded = (found["model"].get("padded_vocab"), table(name).get("padded_vocab"))
    if padded[0] == padded[1]:
        assert estimate_job(again, found["plan"]).step_time_s == priced.step_time_s


DISPATCH = {"--moe-token-dispatcher-type", "--moe-router-score-function"}


@given(layers=st.integers(1, 130), pipeline=st.integers(2, 16), chunks=st.integers(1, 4))
def test_the_ends_of_a_pipeline_are_written_as_they_were_dealt(
    layers: int, pipeline: int, chunks: int
) -> None:
    first, middle, last = layer_split(layers, pipeline, chunks)
    assert first + last + middle * (pipeline * chunks - 2) == layers
    assume(last >= 1 and (chunks == 1 or middle - last <= 1))
    kind = "interleaved" if chunks > 1 else "1f1b"
    fields = {"pipeline": pipeline, "interleave": chunks, "schedule": kind}
    model = {**table("gpt3-175b"), "layers": layers}
    text = write("megatron", estimate(**fields, overlap_pipeline=chunks > 1), model, training())
    said = dict(re.findall(r"--((?:decoder|account)\S+)(?: (\d+))?$", text, re.MULTILINE))
    if chunks > 1:
        ends = "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"
        assert [end in said for end in ends] == [first < middle, last < middle]
    elif said:
        ends = "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"
        assert [int(said[end]) for end in ends] == [first, last]
    else:
        assert layers % pipeline == 0
    toml = tomllib.loads(
        write("torchtitan", estimate(**fields, zero=3, data=2), model, training())
    )["parallelism"]
    less = [toml[f"pipeline_parallel_{end}_stage_less_layers"] for end in ("first", "last")]
    assert less == [middle - first, middle - last]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"schedule": "gpipe", "pipeline": 4}, "plan.schedule: got gpipe; allowed: 1f1b"),
        ({"zero": 3, "pipeline": 4}, "plan.zero: got 3"),
        ({"zero": 1, "overlap_grad_reduce": False}, "plan.overlap_grad_reduce: got false"),
        ({"tensor": 2, "overlap_tensor": False}, "plan.overlap_tensor: got false"),
        (
            {
                "pipeline": 2,
                "interleave": 2,
                "schedule": "interleaved",
                "overlap_pipeline": False,
            },
            "plan.overlap_pipeline: got false",
        ),
        ({"context": 2048}, "plan.context: got 2048"),
        (
            {"tensor": 2, "pipeline": 4, "data": 2, "axis_order": INSIDE},
            "plan.axis_order: got pipeline-tensor-context-data; allowed: tensor-context-data-",
        ),
        (
            {
                "pipeline": 4,
                "interleave": 2,
                "schedule": "interleaved",
                "overlap_pipeline": True,
                "first_layers": 4,
                "last_layers": 4,
            },
            "plan.first_layers: got 4; allowed: 0 with chunks",
        ),
        (
            {"recompute": "full", "recompute_layers": 4, "recompute_rest": "selective"},
            "plan.recompute_rest: got selective; allowed: none, since Megatron-LM has one",
        ),
        (
            {"recompute": "full", "recompute_experts": "none"},
            "plan.recompute_experts: got none; allowed: same, since Megatron-LM has one",
        ),
        (
            {"recompute": "selective", "recompute_layers": 4},
            "plan.recompute_layers: got 4; allowed: 0 with selective",
        ),
    ],
)
def test_what_megatron_cannot_run_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=f"^Megatron-LM: {re.escape(words)}"):
        write("megatron", estimate(**fields), table("llama3-70b"), training())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"position": "alibi"}, "position"),
        ({"activation": "geglu"}, "activation"),
        ({"family": "encoder"}, "family"),
        ({"parallel_block": True}, "parallel_block"),
        ({"output_bias": True}, "biases"),
        ({"lora": {"rank": 8, "targets": ["query"]}}, "lora"),
        ({"extra_parameters": {"pooler": 1}}, "extra_parameters"),
        ({"prediction_layers": 1}, "prediction_layers"),
    ],
)
def test_what_megatron_cannot_build_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError, match=f"Megatron-LM: model.{field}"):
        write("megatron", estimate(), {**table("llama3-70b"), **change}, training())


@pytest.mark.parametrize(
    ("system", "devices", "each"),
    [("gb200-nvl72", 72, 4), ("dgx-2", 32, 16), ("dgx-h100", 72, 8), ("dgx-h100", 12, 4)],
)
def test_nodes_start_as_many_processes_as_they_have_devices(
    system: str, devices: int, each: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many on all nodes: of 12 devices in nodes of 8, four."""
    job = ["--model", "gpt2", "--system", system, "--devices", str(devices)]
    job += ["--precision", "fp16", "--global-batch", str(devices), "--sequence", "1024"]
    assert main(["estimate", *job, "--export", "megatron"]) == 0
    said = capsys.readouterr().out
    assert f"GPUS_PER_NODE={each}\nNNODES={devices // each}\n" in said
    assert main(["estimate", *job, "--export", "deepspeed"]) == 0
    said = capsys.readouterr().out
    assert f"--num_nodes {devices // each} --num_gpus {each} " in said


def test_norms_and_constants_of_a_model_are_asked_for() -> None:
    """Megatron-LM builds latent attention without norms unless told: it would be another model."""
    for name, normed, rotary in (
        ("deepseek-v3", True, True),
        ("qwen3-8b", True, True),
        ("llama3-70b", False, True),
        ("gpt3-175b", False, False),
    ):
        text = write("megatron", estimate(), table(name), training())
        assert ("    --qk-layernorm\n" in text) == normed
        assert ("base of rotary positions" in text) == rotary


def test_leading_layers_are_a_block_and_all_layers_are_units_of_one() -> None:
    def said(layers: int) -> list[str]:
        fields = {"pipeline": 4, "recompute": "full", "recompute_layers": layers}
        text = write("megatron", estimate(**fields), table("llama3-70b"), training())
        return re.findall(r"--recompute-(?:method|num-layers) \S+", text)

    assert said(3) == ["--recompute-method block", "--recompute-num-layers 3"]
    assert said(0) == said(20) == ["--recompute-method uniform", "--recompute-num-layers 1"]


@pytest.mark.parametrize("fmt", ["torchtitan", "deepspeed"])
@pytest.mark.parametrize(
    "fields",
    [
        {"recompute_layers": 4},
        {"recompute_layers": 4, "recompute_rest": "selective"},
        {"recompute_experts": "selective"},
    ],
    ids=str,
)
def test_other_frameworks_compute_the_same_again_in_all_layers(
    fmt: str, fields: dict[str, Any]
) -> None:
    words = rf"plan.{list(fields)[-1]}: got .*; allowed: (0|none|same), since"
    with pytest.raises(InvalidError, match=words):
        write(fmt, estimate(recompute="full", **fields), table("llama3-8b"), training())


@pytest.mark.parametrize("fmt", ["megatron", "torchtitan", "deepspeed"])
@pytest.mark.parametrize("model", ["nemotron-3-nano-30b-a3b", "granite-4.0-h-small"])
def test_hybrids_are_refused(fmt: str, model: str) -> None:
    with pytest.raises(InvalidError, match=r"(?i)state_space|layer_pattern"):
        write(fmt, estimate(data=8, zero=1), table(model), training())


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown name 'megatorn'; nearest: megatron"):
        write("megatorn", estimate(), table("llama3-70b"), training())


@pytest.mark.parametrize("zero_group", [0, 8])
def test_torchtitan_degrees_multiply_to_the_devices(zero_group: int) -> None:
    fields = {"tensor": 8, "pipeline": 4, "context": 2, "data": 16, "sequence_parallel": True}
    priced = estimate(**fields, zero=3, zero_group=zero_group, micro_batch=2)
    found = tomllib.loads(write("torchtitan", priced, table("llama3-70b"), training()))
    degrees = found["parallelism"]
    shard, copies = (degrees[f"data_parallel_{k}_degree"] for k in ("shard", "replicate"))
    assert shard * 2 == (zero_group or 32)
    assert shard * copies == 16
    assert degrees["tensor_parallel_degree"] == 8
    assert degrees["pipeline_parallel_schedule"] == "1F1B"
    assert degrees["fsdp_reshard_after_forward"] == "always"
    assert found["training"]["local_batch_size"] == 512 // 16
    assert degrees["pipeline_parallel_microbatch_size"] == 2


def test_torchtitan_says_what_differs_from_the_plan() -> None:
    text = write(
        "torchtitan",
        estimate(data=8, zero=1, recompute="selective"),
        table("llama3-8b"),
        training(precision="fp8"),
    )
    found = tomllib.loads(text)
    assert found["model"]["converters"] == ["quantize.linear.float8"]
    assert found["training"]["local_batch_size"] == 1
    assert found["parallelism"]["fsdp_reshard_after_forward"] == "never"
    assert "# zero = 1" in text
    assert "# recompute = selective" in text


@pytest.mark.parametrize(
    ("fields", "job", "field"),
    [
        ({"tensor": 2, "data": 4}, {}, "plan.sequence_parallel"),
        ({"tensor": 4, "tensor_rows": 2, "data": 2}, {}, "plan.tensor_rows"),
        ({"tensor": 2, "data": 4, "sequence_parallel": True}, {}, "plan.zero"),
        ({"context": 4, "data": 4, "zero": 3, "zero_group": 2}, {}, "plan.zero_group"),
        ({"data": 2, "pipeline": 2, "zero": 3, "axis_order": INSIDE}, {}, "plan.axis_order"),
        ({"pipeline": 4, "zero": 3, "first_layers": 23}, {}, "plan.first_layers"),
        ({"data": 4, "collectives": "ring"}, {}, "plan.collectives"),
        ({"data": 4}, {"precision": "fp16"}, "training.precision"),
        ({"data": 4}, {"optimizer": "adafactor"}, "training.optimizer"),
    ],
)
def test_what_torchtitan_cannot_run_is_refused(
    fields: dict[str, Any], job: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidError, match=f"^torchtitan: {re.escape(field)}: got"):
        write("torchtitan", estimate(**fields), table("llama3-70b"), training(**job))


def deepspeed(text: str) -> dict[str, Any]:
    lines = text.splitlines()
    body = [line for line in lines if not line.startswith("#")]
    assert lines[len(lines) - len(body) :] == body, "comments below the configuration"
    return json.loads("\n".join(body))


def test_deepspeed_batches_multiply_and_hybrid_groups_shard() -> None:
    priced = estimate(data=16, micro_batch=2, zero=3, zero_group=8, overlap_param_gather=False)
    text = write("deepspeed", priced, table("llama3-8b"), training(precision="fp16"))
    found = deepspeed(text)
    steps = found["gradient_accumulation_steps"]
    assert steps * found["train_micro_batch_size_per_gpu"] * 16 == found["train_batch_size"] == 512
    assert found["fp16"] == {"enabled": True}
    zero = found["zero_optimization"]
    assert (zero["stage"], zero["mics_shard_size"]) == (3, 8)
    assert zero["stage3_prefetch_bucket_size"] == 0
    assert "--no-pipeline-parallel" in text
    assert "--num_nodes 2 --num_gpus 8" in text


@pytest.mark.parametrize(
    ("model", "fields", "field"),
    [
        ("llama3-8b", {"pipeline": 2, "zero": 2}, "plan.zero"),
        ("llama3-8b", {"pipeline": 2, "schedule": "gpipe"}, "plan.schedule"),
        ("llama3-8b", {"data": 8, "zero": 2, "zero_group": 4}, "plan.zero_group"),
        ("llama3-8b", {"data": 8, "pipeline": 2, "axis_order": INSIDE}, "plan.axis_order"),
        ("llama3-8b", {"pipeline": 4, "last_layers": 5}, "plan.last_layers"),
        ("llama3-8b", {"data": 8, "collectives": "tree"}, "plan.collectives"),
        ("mixtral-8x7b", {"data": 8}, "model"),
    ],
)
def test_what_deepspeed_cannot_run_is_refused(
    model: str, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidError, match=f"(?i)^DeepSpeed: {re.escape(field)}: got"):
        write("deepspeed", estimate(**fields), table(model), training())
