"""What shape do encoders (BERT) and encoder-decoders (T5) have?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.config.huggingface.widths import (
    MOST_LAYERS,
    PLAIN,
    Shape,
    Spelling,
    all_biases,
    widths,
)

if TYPE_CHECKING:
    from scalewright.config.fields import Fields

_T5 = Spelling(("num_layers",), ("d_model",), ("num_heads",))
_BERT_POSITIONS = 512
"""What a config leaves out that equals the library's default (transformers, BertConfig)."""
_T5_LAYERS = {"relu": "relu", "gelu": "gelu", "gated-gelu": "geglu", "gated-silu": "swiglu"}


def bert(fields: Fields) -> Shape:
    """Norms after each half, segments, and the pooler and heads of the pre-training checkpoint."""
    shape = widths(fields)
    hidden, vocab = shape["hidden"], shape["vocab"]
    fields.choice("position_embedding_type", {"absolute": "learned"}, "learned")
    square = hidden * hidden + hidden
    return (
        shape
        | all_biases()
        | {
            "family": "encoder",
            "ffn": fields.count("intermediate_size"),
            "max_positions": fields.count("max_position_embeddings", default=_BERT_POSITIONS),
            "segments": fields.count("type_vocab_size", default=2),
            "position": "learned",
            "activation": fields.choice("hidden_act", PLAIN, "gelu"),
            "norm": "layernorm",
            "tied_embeddings": fields.flag("tie_word_embeddings", default=True),
            "embedding_norm": True,
            "final_norm": False,
            "extra_parameters": {
                "pooler": square,
                "masked_language_head": square + 2 * hidden + vocab,
                "next_sentence_head": 2 * hidden + 2,
            },
        }
    )


def t5(fields: Fields) -> Shape:
    """Both stacks with a relative position bias and RMS norms, no projection with a bias."""
    fields.must_be("is_encoder_decoder", value=True, why="T5 has both stacks")
    shape = widths(fields, _T5, check=False)
    encoder = shape["layers"]
    return shape | {
        "family": "encoder_decoder",
        "layers": fields.count("num_decoder_layers", default=encoder, most=MOST_LAYERS),
        "encoder_layers": encoder,
        "head_dim": fields.count("d_kv"),
        "ffn": fields.count("d_ff"),
        "position": "relative",
        "relative_buckets": fields.count("relative_attention_num_buckets", default=32),
        "activation": fields.choice("feed_forward_proj", _T5_LAYERS, "relu"),
        "norm": "rmsnorm",
        "tied_embeddings": fields.flag("tie_word_embeddings", default=True),
    }
