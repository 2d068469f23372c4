"""What shape do the relatives of GPT have: layer norms or ungated feed-forward layers?"""

from __future__ import annotations

from scalewright.config.fields import Fields
from scalewright.config.huggingface.widths import (
    PLAIN,
    Shape,
    Spelling,
    all_biases,
    key_value_heads,
    widths,
)

_GPT2 = Spelling(
    ("n_layer", "num_hidden_layers"), ("n_embd", "hidden_size"), ("n_head", "num_attention_heads")
)
_BLOOM = Spelling(
    ("n_layer", "num_hidden_layers"), ("hidden_size", "n_embed"), ("n_head", "num_attention_heads")
)
_FALCON = Spelling(
    ("num_hidden_layers", "n_layer"), ("hidden_size",), ("num_attention_heads", "n_head")
)
_MPT = Spelling(("n_layers",), ("d_model",), ("n_heads",))
_MPT_NORMS = {
    "layernorm": "layernorm",
    "low_precision_layernorm": "layernorm",
    "rmsnorm": "rmsnorm",
    "low_precision_rmsnorm": "rmsnorm",
}
_OPT_POSITION_OFFSET = 2


def gpt2(fields: Fields) -> Shape:
    """Learned positions, biases everywhere, tied head."""
    shape = widths(fields, _GPT2)
    return (
        shape
        | all_biases()
        | {
            "ffn": fields.count("n_inner", default=4 * shape["hidden"]),
            "max_positions": fields.count("n_positions", "max_position_embeddings"),
            "position": "learned",
            "activation": fields.choice("activation_function", PLAIN, "gelu"),
            "norm": "layernorm",
            "tied_embeddings": fields.flag("tie_word_embeddings", default=True),
        }
    )


def gptj(fields: Fields) -> Shape:
    """Rotary positions, one norm before attention and feed-forward, a head with a bias."""
    shape = widths(fields, _GPT2)
    return shape | {
        "ffn": fields.count("n_inner", default=4 * shape["hidden"]),
        "position": "rotary",
        "activation": fields.choice("activation_function", PLAIN, "gelu"),
        "norm": "layernorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=False),
        "ffn_bias": True,
        "parallel_block": True,
        "extra_parameters": {"head_bias": shape["vocab"]},
    }


def gpt_neox(fields: Fields) -> Shape:
    """Rotary positions and biases; the parallel block has a norm for each of its halves."""
    shape = widths(fields)
    parallel = fields.flag("use_parallel_residual", default=True)
    attention_bias = fields.flag("attention_bias", default=True)
    return shape | {
        "ffn": fields.count("intermediate_size"),
        "position": "rotary",
        "activation": fields.choice("hidden_act", PLAIN, "gelu"),
        "norm": "layernorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=False),
        "qkv_bias": attention_bias,
        "output_bias": attention_bias,
        "ffn_bias": True,
        "parallel_block": parallel,
        "extra_parameters": _second_norms(shape) if parallel else {},
    }


def opt(fields: Fields) -> Shape:
    """Learned positions with two unused rows; the projected embedding of OPT-350M is refused."""
    shape = widths(fields)
    if fields.count("word_embed_proj_dim", default=shape["hidden"]) != shape["hidden"]:
        raise fields.wrong(
            field="word_embed_proj_dim", allowed=f"{shape['hidden']}, as hidden_size says"
        )
    fields.must_be("do_layer_norm_before", value=True, why="norms lie before the layers")
    fields.must_be("layer_norm_elementwise_affine", value=True, why="norms are trained")
    fields.must_be("_remove_final_layer_norm", value=False, why="the head reads a norm")
    return (
        shape
        | all_biases(value=fields.flag("enable_bias", default=True))
        | {
            "ffn": fields.count("ffn_dim"),
            "max_positions": fields.count("max_position_embeddings") + _OPT_POSITION_OFFSET,
            "position": "learned",
            "activation": fields.choice("activation_function", PLAIN, "relu"),
            "norm": "layernorm",
            "tied_embeddings": fields.flag("tie_word_embeddings", default=True),
        }
    )


def bloom(fields: Fields) -> Shape:
    """Linear position bias, biases everywhere, a norm on the embedding."""
    shape = widths(fields, _BLOOM)
    return (
        shape
        | all_biases()
        | {
            "ffn": fields.count("n_inner", default=4 * shape["hidden"]),
            "position": "alibi",
            "activation": "gelu",
            "norm": "layernorm",
            "tied_embeddings": fields.flag("tie_word_embeddings", default=True),
            "embedding_norm": True,
        }
    )


def mpt(fields: Fields) -> Shape:
    """Linear position bias; a norm without bias has the parameters and traffic of rmsnorm."""
    shape = widths(fields, _MPT)
    attention = fields.inner("attn_config") or Fields({}, "attn_config")
    attention.must_be("qk_ln", value=False, why="no norm over all heads at once")
    attention.must_be("alibi", value=True, why="positions enter as a linear bias")
    biases = not fields.flag("no_bias", default=True)
    norm = fields.choice("norm_type", _MPT_NORMS, "layernorm")
    multi_query = attention.choice(
        "attn_type",
        {
            "multihead_attention": False,
            "grouped_query_attention": False,
            "multiquery_attention": True,
        },
        default=False,
    )
    return (
        shape
        | all_biases(value=biases)
        | {
            "kv_heads": 1
            if multi_query
            else key_value_heads(attention, shape["heads"], "kv_n_heads"),
            "ffn": max(1, int(fields.ratio("expansion_ratio", 4.0) * shape["hidden"])),
            "position": "alibi",
            "activation": "gelu",
            "norm": norm if biases else "rmsnorm",
            "tied_embeddings": fields.flag("tie_word_embeddings", default=True),
        }
    )


def falcon(fields: Fields) -> Shape:
    """Multi-query attention beside the feed-forward layer; the 40B form has two norms there."""
    shape = widths(fields, _FALCON)
    heads = shape["heads"]
    grouped = fields.flag("new_decoder_architecture", default=False)
    parallel = grouped or fields.flag("parallel_attn", default=True)
    multi_query = fields.flag("multi_query", default=True)
    single = 1 if multi_query else heads
    norms = fields.count("num_ln_in_parallel_attn", default=2 if grouped else 1, most=2)
    biases = all_biases(value=fields.flag("bias", default=False))
    return (
        shape
        | biases
        | {
            "kv_heads": key_value_heads(fields, heads, "num_kv_heads") if grouped else single,
            "ffn": fields.count("ffn_hidden_size", default=4 * shape["hidden"]),
            "position": "alibi" if fields.flag("alibi", default=False) else "rotary",
            "activation": fields.choice("activation", PLAIN, "gelu"),
            "norm": "layernorm",
            "tied_embeddings": fields.flag("tie_word_embeddings", default=True),
            "parallel_block": parallel,
            "extra_parameters": _second_norms(shape) if parallel and norms == 2 else {},
        }
    )


def nemotron(fields: Fields) -> Shape:
    """Rotary positions, grouped queries, an ungated squared ReLU."""
    shape = widths(fields)
    attention_bias = fields.flag("attention_bias", default=False)
    return shape | {
        "kv_heads": key_value_heads(fields, shape["heads"]),
        "ffn": fields.count("intermediate_size"),
        "position": "rotary",
        "activation": fields.choice("hidden_act", PLAIN, "relu2"),
        "norm": "layernorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=False),
        "qkv_bias": attention_bias,
        "output_bias": attention_bias,
        "ffn_bias": fields.flag("mlp_bias", default=False),
    }


def _second_norms(shape: Shape) -> dict[str, int]:
    """Gain and bias of the norm that a parallel block of the schema does not have."""
    return {"second_norms": 2 * shape["layers"] * shape["hidden"]}
