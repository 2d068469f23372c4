"""Are users' own Megatron-LM arguments understood, and wrong ones named?"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import megatron_scripts
import scalewright as sw
from scalewright import InvalidError, ScalewrightError
from scalewright.export import read_megatron
from scalewright.export.megatron.known import KNOWN, ignored
from scalewright.export.megatron.layer_pattern import (
    pattern_text,
    read_pattern,
    read_sparse,
    sparse_layers,
)
from scalewright.export.megatron.parsed_arguments import ParsedArguments

quick = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SHORT = (
    "torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 "
    "--num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 "
    "--micro-batch-size 4 --global-batch-size 128 --bf16 "
)

STAGES = "--pipeline-model-parallel-size 4 "
BLOCK = "--recompute-granularity full --recompute-method block --recompute-num-layers "


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def from_text(text: str, name: str = "job.sh") -> dict[str, Any]:
        path = tmp_path / name
        path.write_text(text)
        return read_megatron(path)

    return from_text


def test_a_gpt_script_of_arrays(read: Any) -> None:
    found = read(megatron_scripts.GPT)
    model, plan, training = found["model"], found["plan"], found["training"]
    assert (model["layers"], model["hidden"], model["ffn"]) == (96, 12288, 49152)
    assert (model["vocab"], model["padded_vocab"]) == (50257, 51200)
    assert (model["position"], model["max_positions"]) == ("learned", 2048)
    assert model["tied_embeddings"]
    assert model["ffn_bias"]
    assert sw.model(model).parameters()["total"] == pytest.approx(175e9, rel=0.01)
    assert found["devices"] == 1024
    axes = ("tensor", "pipeline", "context", "data", "micro_batch", "interleave", "zero")
    assert [plan[axis] for axis in axes] == [8, 16, 1, 8, 1, 1, 0]
    assert not plan["overlap_grad_reduce"]
    assert (training["precision"], training["gradient"]) == ("fp16", "fp16")
    assert (training["global_batch"], training["sequence"]) == (1536, 2048)
    assert training["dropout"]
    assert training["run_tokens"] == 500_000 * 1536 * 2048
    expected = ["--rampup-batch-size", "--weight-decay", "--lr", "--min-lr", "--vocab-file"]
    assert found["ignored"] == [*expected, "--split"]


def test_a_llama_script_of_texts_arithmetic_and_branches(read: Any) -> None:
    found = read(megatron_scripts.LLAMA)
    model, plan, training = found["model"], found["plan"], found["training"]
    assert sw.model(model).parameters()["total"] == sw.model("llama3-70b").parameters()["total"]
    assert found["devices"] == 256
    axes = ("tensor", "pipeline", "context", "data", "interleave", "zero")
    assert [plan[axis] for axis in axes] == [4, 4, 2, 8, 5, 1]
    assert (plan["schedule"], plan["recompute"]) == ("interleaved", "selective")
    assert plan["overlap_pipeline"]
    assert plan["sequence_parallel"]
    assert plan["overlap_param_gather"]
    assert (training["precision"], training["dropout"]) == ("fp8", False)
    assert found["ignored"] == ["--clip-grad"]


def test_lines_of_keys_and_values(read: Any) -> None:
    found = read(megatron_scripts.MIXTURE_YAML, "mixture.yaml")
    ours, theirs = sw.model(found["model"]), sw.model("deepseek-moe-16b")
    assert ours.parameters() == theirs.parameters()
    assert found["model"]["experts"]["first_dense_layers"] == 1
    assert found["devices"] == 64
    assert found["plan"]["data"] == 64
    assert found["plan"]["expert"] == 8
    assert not found["plan"]["overlap_grad_reduce"]
    assert "--lr" not in found["ignored"]


@pytest.mark.parametrize(
    "line",
    [
        "TP=2; P=$((TP * 2))",
        "TP=2; P=$(( ${TP} + $TP ))",
        "P=${PP:-4}",
        "Q=4; P=${PP:-${Q}}",
        "P=${A:-${B:-4}}",
        "export P='4'",
        'Q="4"; P="$Q"',
        "P=9 # or\nP=4 # better",
    ],
)
def test_variables_are_followed(read: Any, line: str) -> None:
    found = read(f"{line}\n{SHORT} --pipeline-model-parallel-size $P")
    assert found["plan"]["pipeline"] == 4


def test_arguments_alone_and_unknown_devices(read: Any) -> None:
    lines = SHORT.split("pretrain_gpt.py ")[1].replace(" --", "\n--")
    found = read(lines, "arguments.txt")
    assert found["devices"] is None
    assert "data" not in found["plan"]
    assert found["model"]["layers"] == 24


@pytest.mark.parametrize(
    ("added", "field", "value"),
    [
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "zero", 2),
        ("--use-custom-fsdp --data-parallel-sharding-strategy optim_grads_params", "zero", 3),
        ("--use-torch-fsdp2", "zero", 3),
        ("--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward", "zero", 2),
        ("--use-distributed-optimizer --num-distributed-optimizer-instances 4", "zero_group", 4),
        ("--sequence-parallel", "sequence_parallel", False),
        ("--recompute-granularity full --recompute-method uniform", "recompute", "full"),
        (BLOCK + "3", "recompute_layers", 3),
        (BLOCK + "24", "recompute_layers", 0),
        (STAGES + BLOCK + "5", "recompute_layers", 5),
        (STAGES + BLOCK + "6", "recompute_layers", 0),
        (STAGES + "--num-virtual-stages-per-pipeline-rank 3 " + BLOCK + "2", "recompute_layers", 0),
        (
            "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 3",
            "interleave",
            3,
        ),
        (
            STAGES + "--pipeline-model-parallel-layout 'Et*3|(ttt|)*6,ttt|L'",
            "interleave",
            None,
        ),
        (
            STAGES + "--pipeline-model-parallel-layout 'Ett|(tttt|)*5,tt|L'",
            "interleave",
            2,
        ),
    ],
)
def test_one_argument_more(read: Any, added: str, field: str, value: object) -> None:
    if value is None:
        with pytest.raises(InvalidError, match=r"job\.sh: --pipeline-model-parallel-layout"):
            read(SHORT + added)
        return
    assert read(SHORT + added)["plan"][field] == value


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("--hidden-size", "--hiden-size", "--hiden-size: unknown argument; nearest: --hidden-size"),
        ("--bf16", "--tensor-parallel-size 8", "nearest: --tensor-model-parallel-size"),
        ("--bf16", "--batch-size 8", "--batch-size: unknown argument; nearest: --micro-batch-size"),
        ("--bf16", "--hybrid-override-pattern M*", "pattern: got a hybrid's argument; allowed"),
        ("--bf16", "--linear-attention-freq 4", "freq: got a hybrid's argument; allowed"),
        ("--bf16", "--attention-output-gate", "gate: got a hybrid's argument; allowed"),
        ("--num-layers 24", "--num-layers many", "--num-layers: got 'many'; allowed: a whole"),
        ("--num-layers 24", "--num-layers ${L}", r"--num-layers: got '\$\{L\}'"),
        ("--num-layers 24", "--num-layers", "--num-layers: got nothing; allowed: a whole number"),
        ("--seq-length 1024 ", "", "--seq-length: got nothing"),
        ("--micro-batch-size 4 ", "", "--micro-batch-size: got nothing"),
        ("--vocab-size 50257 ", "", "--vocab-size: got nothing"),
        ("--bf16", "--tensor-model-parallel-size 3", "divides the 16 devices"),
        ("--bf16", "--optimizer lion", "--optimizer: got 'lion'; allowed: adam, sgd"),
        ("--bf16", "--fp4-format e2m1", "--fp4-format: got 'e2m1'"),
        ("--bf16", "--position-embedding-type mrope", "allowed: learned_absolute, rope, none"),
        ("--bf16", "--num-experts 8 --moe-layer-freq 5", "--moe-layer-freq: got '5'"),
        ("--bf16", "--num-experts 8 --moe-layer-freq [1]*9**9", "--moe-layer-freq: got"),
        (
            "--bf16",
            "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4",
            "--num-layers-per-virtual-pipeline-stage: got '4'",
        ),
    ],
)
def test_a_wrong_argument_is_named(read: Any, old: str, new: str, words: str) -> None:
    assert old in SHORT
    with pytest.raises(InvalidError, match=rf"job\.sh: .*{words}"):
        read(SHORT.replace(old, new))


ENDS = "--decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 6 "


def test_layers_of_the_ends_are_read(read: Any) -> None:
    found = read(SHORT + STAGES + ENDS)
    assert (found["plan"]["first_layers"], found["plan"]["last_layers"]) == (2, 6)
    assert found["ignored"] == []
    usual = read(SHORT + STAGES + ENDS.replace("2", "6"))
    assert not {"first_layers", "last_layers"} & set(usual["plan"])


def test_a_deal_of_layers_that_a_plan_cannot_hold_is_reported(read: Any) -> None:
    found = read(SHORT + STAGES + ENDS + "--num-virtual-stages-per-pipeline-rank 3")
    names = ["--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"]
    assert found["ignored"] == names


def test_the_order_of_axes_is_read_where_a_plan_has_it(read: Any) -> None:
    mapped = SHORT + STAGES + "--use-tp-pp-dp-mapping "
    assert read(mapped)["plan"]["axis_order"] == "tensor-pipeline-context-data"
    assert "axis_order" not in read(SHORT + "--use-tp-pp-dp-mapping")["plan"]
    with pytest.raises(InvalidError, match=r"--context-parallel-size: got '2'; allowed: 1 with"):
        read(mapped + "--context-parallel-size 2")


def test_megatrons_other_arguments_are_not_taken_for_misspelt_ones() -> None:
    others = """lr min-lr train-data-path tokenizer-model recompute-modules moe-router-group-topk
        moe-router-dtype moe-router-fusion moe-router-num-groups moe-aux-loss-coeff tp-comm-overlap
        overlap-p2p-communication-warmup-flush overlap-param-gather-with-optimizer-step log-interval
        num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 fp8-margin fp8-param-gather save load
        fp16-lm-cross-entropy attention-softmax-in-fp32 no-bias-gelu-fusion no-bias-swiglu-fusion
        no-position-embedding no-masked-softmax-fusion rotary-base rotary-percent norm-epsilon
        distributed-backend distributed-timeout-minutes ckpt-format dist-ckpt-format
        moe-grouped-gemm use-mcore-models moe-permute-fusion moe-token-dispatcher-type weight-decay
        moe-shared-expert-overlap no-align-grad-reduce no-align-param-gather wgrad-deferral-limit
        make-vocab-size-divisible-by vocab-file merge-file eval-interval save-interval use-sharp
        use-tp-pp-dp-mapping use-ring-exchange-p2p decoder-seq-length encoder-num-layers adam-eps
        sgd-momentum lr-decay-samples train-sync-interval kv-channels qk-l2-norm qk-clip""".split()  # noqa: SIM905
    given = ParsedArguments("job.sh", {name: ["1"] for name in others})
    assert ignored(given) == [f"--{name}" for name in others if name not in KNOWN]


@given(st.lists(st.integers(0, 1), min_size=1, max_size=130))
def test_a_pattern_of_layers_reads_back(marks: list[int]) -> None:
    assert read_pattern(pattern_text(marks)) == marks


@given(st.integers(1, 130), st.integers(0, 129), st.integers(1, 130))
def test_a_layout_of_sparse_layers_reads_back(layers: int, dense: int, every: int) -> None:
    marks = sparse_layers(layers, dense, every)
    found = read_sparse(marks)
    if not any(marks):
        assert found is None
        return
    assert found is not None
    read = (found.get("first_dense_layers", 0), found.get("every", 1))
    assert sparse_layers(layers, *read) == marks


@pytest.mark.parametrize(
    "text",
    ["", "5", "[2]", "[0]*-1", "[1]*10**9", "[[1]*9]*9", "__import__('os')", "(" * 4000,
     "[1]+" * 1000, "[True]", "([0]*65536)*65536", "[1]*[1]"],
)  # fmt: skip
def test_what_is_no_pattern_is_none(text: str) -> None:
    assert read_pattern(text) is None


words = st.sampled_from(
    [*sorted(f"--{name}" for name in KNOWN), "8", "=", "(", ")", "[", "${A", "$A", "A=", "A+=(",
     "'", '"', "\\", "\n", "#", "$((", "))", "<<E", "`", "${A[@]}", "1/0", ":", "true", "$(", "\0"]
)  # fmt: skip


@quick
@example(text="A=$A$A\n" * 40 + "x --num-layers $A")
@example(text="A=$((9**9**9)) --num-layers $((1/0))")
@example(text="A=" + "x" * 90_000 + "\nA=" + "$A" * 90_000 + "\n" + "$A " * 90_000)
@example(text="A=${A:-${A:-$A}}\n--num-layers $A")
@given(text=st.one_of(st.text(), st.lists(words, max_size=60).map(" ".join)))
def test_garbage_only_raises_our_errors(text: str, tmp_path: Path) -> None:
    path = tmp_path / "garbage.sh"
    for name, content in (("garbage.sh", text), ("garbage.yaml", text), ("g.sh", SHORT + text)):
        path = tmp_path / name
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
        try:
            found = read_megatron(path)
        except ScalewrightError as error:
            named = name in str(error)
        else:
            named = set(found) == {"model", "training", "plan", "devices", "ignored"}
        assert named


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"#" * 2**21, b""])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "missing.sh"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidError, match=r"missing\.sh"):
        read_megatron(path)
