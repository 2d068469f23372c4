"""Which Megatron-LM arguments matter to a plan, and which of them does a misspelt one mean?"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from scalewright.export.megatron.parsed_arguments import ParsedArguments

_WORD = re.compile(r"\S+")

COUNTS = frozenset(
    _WORD.findall("""
    context-parallel-size decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers
    expert-model-parallel-size expert-tensor-parallel-size ffn-hidden-size global-batch-size
    hidden-size kv-channels kv-lora-rank make-vocab-size-divisible-by max-position-embeddings
    micro-batch-size moe-ffn-hidden-size moe-router-topk moe-shared-expert-intermediate-size
    num-attention-heads num-distributed-optimizer-instances num-experts num-layers
    num-layers-per-virtual-pipeline-stage num-query-groups num-virtual-stages-per-pipeline-rank
    padded-vocab-size pipeline-model-parallel-size q-lora-rank qk-head-dim qk-pos-emb-head-dim
    recompute-num-layers seq-length tensor-model-parallel-size train-iters train-samples
    v-head-dim vocab-size
    """)
)
"""Arguments with a whole number."""

WORDS = frozenset(
    _WORD.findall("""
    attention-backend attention-dropout data-parallel-sharding-strategy fp4-format fp8-format
    fp8-recipe hidden-dropout merge-file moe-expert-capacity-factor moe-layer-freq
    normalization optimizer pipeline-model-parallel-layout position-embedding-type
    recompute-granularity recompute-method softmax-type tokenizer-type transformer-impl
    window-attn-skip-freq window-size
    """)
)
"""Arguments with another value."""

SWITCHES = frozenset(
    _WORD.findall("""
    account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split
    accumulate-allreduce-grads-in-fp32 add-qkv-bias bf16 disable-bias-linear fp16
    grad-reduce-in-bf16 group-query-attention moe-router-enable-expert-bias
    moe-shared-expert-gate multi-latent-attention no-gradient-accumulation-fusion
    no-overlap-p2p-communication no-position-embedding overlap-grad-reduce overlap-param-gather
    qk-layernorm quick-geglu recompute-activations sequence-parallel squared-relu swiglu
    torch-fsdp2-no-reshard-after-forward untie-embeddings-and-output-weights use-custom-fsdp
    use-distributed-optimizer use-flash-attn use-legacy-models use-megatron-fsdp
    use-rotary-position-embeddings use-torch-fsdp2 use-tp-pp-dp-mapping
    """)
)
"""Arguments without a value."""

KNOWN = COUNTS | WORDS | SWITCHES

_NEIGHBOURS = frozenset(
    _WORD.findall("""
    decoder-num-layers decoder-seq-length encoder-num-layers encoder-seq-length
    moe-router-group-topk moe-router-num-groups overlap-moe-expert-parallel-comm
    overlap-p2p-communication-warmup-flush overlap-param-gather-with-optimizer-step
    recompute-modules rl-use-sequence-packing model-parallel-size batch-size
    pipeline-model-parallel-comm-backend num-layers-at-end-in-bf16 num-layers-at-start-in-bf16
    moe-shared-expert-overlap tokenizer-model use-sharp use-nccl-ub fp8-margin fp8-interval
    fp8-param-gather fp4-param-gather fp4-recipe no-bias-swiglu-fusion no-bias-gelu-fusion
    distribute-saved-activations
    """)
)
"""Megatron-LM's own arguments that read like those above but change no plan."""

_NEAR = 0.85
_REPLACED = {
    "batch-size": "micro-batch-size",
    "model-parallel-size": "tensor-model-parallel-size",
    "checkpoint-activations": "recompute-activations",
}
"""Arguments that Megatron-LM itself now refuses, and what took their place."""


_OF_HYBRIDS = (
    "attention-output-gate",
    "experimental-attention-variant",
    "hybrid-attention-ratio",
    "hybrid-layer-pattern",
    "hybrid-mlp-ratio",
    "hybrid-override-pattern",
    "is-hybrid-model",
    "linear-",
    "mamba-",
)
"""How arguments begin that change what mixes positions."""


def ignored(given: ParsedArguments) -> list[str]:
    """Return the arguments that do not matter.

    Raises:
        InvalidError: One of them is most likely misspelt or long gone; says which was meant. Or it
            is of a hybrid, which is not read.
    """
    others = [name for name in given.values if name not in KNOWN]
    for name in others:
        if name.startswith(_OF_HYBRIDS):
            allowed = "scripts of transformers; a hybrid is named with --model, or told in a file"
            message = f"{given.where}: --{name}: got a hybrid's argument; allowed: {allowed}"
            raise InvalidError(message)
        meant = _REPLACED.get(name) or _near(name)
        if meant:
            message = f"{given.where}: --{name}: unknown argument; nearest: --{meant}"
            raise InvalidError(message)
    return [f"--{name}" for name in others]


def _near(name: str) -> str | None:
    if name in _NEIGHBOURS:
        return None
    return next(iter(get_close_matches(name, sorted(KNOWN), n=1, cutoff=_NEAR)), None)
