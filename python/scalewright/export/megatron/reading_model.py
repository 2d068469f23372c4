"""Which shape do Megatron-LM arguments give a model?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.export.megatron.layer_pattern import read_pattern, read_sparse, sparse_layers
from scalewright.export.megatron.model_arguments import (
    NORMS,
    POSITIONS,
    VOCABULARY_BLOCK,
    padded,
)

if TYPE_CHECKING:
    from scalewright.export.megatron.options import Options

_TOKENIZERS = {"GPT2BPETokenizer": 50_257, "Llama2Tokenizer": 32_000}
"""Tokens of the tokenizers that have but one vocabulary."""
_GATED_BLOCK = 64
"""Megatron-LM's own width of a gated layer is a multiple of this."""


def read_model(options: Options) -> dict[str, Any]:
    """Return the fields of the model.

    Raises:
        InvalidError: An argument is wrong, or says what the fields cannot hold.
    """
    bias = not options.has("disable-bias-linear")
    model: dict[str, Any] = {
        "family": "decoder",
        "layers": options.count("num-layers"),
        "hidden": options.count("hidden-size"),
        "heads": options.count("num-attention-heads"),
        "ffn": _width(options),
        **_vocabulary(options),
        **_positions(options),
        "activation": _activation(options),
        "norm": options.choice("normalization", {v: k for k, v in NORMS.items()}, "LayerNorm"),
        "tied_embeddings": not options.has("untie-embeddings-and-output-weights"),
        "qkv_bias": bias or options.has("add-qkv-bias"),
        "output_bias": bias,
        "ffn_bias": bias,
    }
    return model | _attention(options) | _window(options, model["layers"]) | _experts(options)


def _width(options: Options) -> int:
    hidden = options.count("hidden-size")
    gated = _GATED_BLOCK * (8 * hidden // (3 * _GATED_BLOCK))
    return options.count("ffn-hidden-size", gated if options.has("swiglu") else 4 * hidden)


def _activation(options: Options) -> str:
    switches = {"swiglu": "swiglu", "squared-relu": "relu2", "quick-geglu": "geglu"}
    return next((meant for name, meant in switches.items() if options.has(name)), "gelu")


def _vocabulary(options: Options) -> dict[str, int]:
    """Read the vocabulary and the rows that it is padded to."""
    if options.has("vocab-size"):
        vocab = options.count("vocab-size")
    else:
        usual = "GPT2BPETokenizer" if options.has("merge-file") else ""
        tokenizer = options.text("tokenizer-type", usual)
        if tokenizer not in _TOKENIZERS:
            raise options.wrong(
                name="vocab-size", allowed="a whole number; the tokenizer does not tell it"
            )
        vocab = _TOKENIZERS[tokenizer]
    block = options.count("make-vocab-size-divisible-by", VOCABULARY_BLOCK)
    rows = padded(vocab, block, options.count("tensor-model-parallel-size", 1))
    rows = options.count("padded-vocab-size", rows)
    return {"vocab": vocab} | ({"padded_vocab": rows} if rows != vocab else {})


def _positions(options: Options) -> dict[str, Any]:
    usual = "none" if options.has("no-position-embedding") else "learned_absolute"
    if options.has("use-rotary-position-embeddings"):
        usual = "rope"
    position = options.choice(
        "position-embedding-type", {v: k for k, v in POSITIONS.items()}, usual
    )
    if position != "learned":
        return {"position": position}
    return {"position": position, "max_positions": options.count("max-position-embeddings")}


def _attention(options: Options) -> dict[str, Any]:
    found: dict[str, Any] = {}
    heads, hidden = options.count("num-attention-heads"), options.count("hidden-size")
    if options.has("multi-latent-attention"):
        latent = {
            "kv_rank": options.count("kv-lora-rank", 32),
            "nope_dim": options.count("qk-head-dim", 128),
            "rope_dim": options.count("qk-pos-emb-head-dim", 64),
            "value_dim": options.count("v-head-dim", 128),
        }
        if options.has("q-lora-rank"):
            latent["query_rank"] = options.count("q-lora-rank")
        # latent attention has widths and groups of its own, and is priced with its norms
        options.drop("kv-channels", "group-query-attention")
        return {"latent": latent}
    if options.has("group-query-attention") and options.count("num-query-groups", 1) != heads:
        found["kv_heads"] = options.count("num-query-groups", 1)
    if options.has("kv-channels") and options.count("kv-channels") * heads != hidden:
        found["head_dim"] = options.count("kv-channels")
    if options.has("qk-layernorm"):
        found["qk_norm"] = True
    sinks = {"vanilla": 0, "off-by-one": 0, "learnable": heads * options.count("num-layers")}
    if count := options.choice("softmax-type", sinks, "vanilla"):
        found["extra_parameters"] = {"attention_sinks": count}
    return found


def _window(options: Options, layers: int) -> dict[str, Any]:
    if not options.has("window-size"):
        return {}
    before = options.text("window-size").strip("() ").replace(",", " ").split()
    if len(before) != 2 or not before[0].isdecimal() or len(before[0]) > 9 or before[1] != "0":
        raise options.wrong(name="window-size", allowed="'W,0' with the W positions before each")
    window = {"sliding_window": int(before[0]) + 1}
    text = options.text("window-attn-skip-freq")
    if not text:
        return window | {"attention_pattern": ["sliding"]}
    if text.isdecimal():
        # every N-th layer sees all
        marks = [int((i + 1) % options.count("window-attn-skip-freq") != 0) for i in range(layers)]
    else:
        marks = read_pattern(text) or []
    if len(marks) != layers:
        raise options.wrong(
            name="window-attn-skip-freq", allowed=f"a number, or a list for {layers} layers"
        )
    if not any(marks):
        return {}
    kinds = ["sliding" if mark else "full" for mark in marks]
    periods = (p for p in range(1, layers + 1) if layers % p == 0)
    period = next(p for p in periods if kinds[:p] * (layers // p) == kinds)
    return window | {"attention_pattern": kinds[:period]}


def _experts(options: Options) -> dict[str, Any]:
    if not options.has("num-experts"):
        return {}
    experts: dict[str, Any] = {
        "experts": options.count("num-experts"),
        "top_k": options.count("moe-router-topk", 2),
        "expert_ffn": options.count("moe-ffn-hidden-size", _width(options)),
        **_layout(options),
    }
    if options.has("moe-shared-expert-intermediate-size"):
        experts["shared_ffn"] = options.count("moe-shared-expert-intermediate-size")
        if options.has("moe-shared-expert-gate"):
            experts["shared_gate"] = True
    if options.has("moe-router-enable-expert-bias"):
        experts["router_bias"] = True
    if options.has("moe-expert-capacity-factor"):
        experts["capacity_factor"] = options.number("moe-expert-capacity-factor", 1.0)
    return {"experts": experts}


def _layout(options: Options) -> dict[str, int]:
    """Read which layers are sparse.

    A number N makes the first layer of every N sparse, where the schema has the last: the layers
    cost the same, whichever of them it is.
    """
    layers = options.count("num-layers")
    text = options.text("moe-layer-freq", "1")
    if text.isdecimal():
        every = options.count("moe-layer-freq", 1)
        marks = sparse_layers(layers, 0, every) if layers % every == 0 else []
    else:
        marks = read_pattern(text) or []
    found = read_sparse(marks) if len(marks) == layers else None
    if found is None:
        allowed = (
            f"a divisor of the {layers} layers, or a list for them: some dense ones, then every "
            "n-th sparse"
        )
        raise options.wrong(name="moe-layer-freq", allowed=allowed)
    return found
