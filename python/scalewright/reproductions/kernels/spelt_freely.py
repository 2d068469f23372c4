"""What does a row of attention or of a mixture say in the columns of a report, not of a tool?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.errors import InvalidError
from scalewright.reproductions.kernels import attention, attention_training, moe
from scalewright.reproductions.kernels.kind import WARM, Kind, Shape, count, short

if TYPE_CHECKING:
    from collections.abc import Mapping

_MASKS = {
    **dict.fromkeys(("true", "1", "yes", "causal"), "causal"),
    **dict.fromkeys(("false", "0", "no", "none", "full", "non-causal", "no_mask"), "none"),
}
_DECODES = {"decode", "decoding", "generation"}
_PASSES = {"": "fwd", "prefill": "fwd", "fwd": "fwd", "forward": "fwd"} | dict.fromkeys(
    ("bwd", "backward"), "bwd"
)
_FORMATS = ("attn_dtype", "dtype", "data_type", "precision", "format", "q_dtype")


def _attention(cells: Mapping[str, str]) -> Shape:
    """Return a pass over whole sequences, or new positions over a cache.

    Queries and keys of one number are the former, one query and more keys the latter, and so are
    keys alone. A length alone is that of sequences where a mask or a pass is told.
    """
    cells = dict(cells)
    if cells.get("ckv") and cells.get("kpe"):
        width = count("ckv", cells) + count("kpe", cells)
        cells |= {"head_dim": f"{width:.0f}", "value_dim": cells["ckv"], "kv_heads": "1"}
    told = cells.get("pass", "").casefold()
    masked = bool(cells.get("causal"))
    queries, keys, length = (cells.get(name, "") for name in ("queries", "keys", "length"))
    if cells.get("drafts") and not queries:
        # some count all new tokens of a sequence, some those beside the first
        got = f"drafts: got '{short(cells['drafts'])}' and no seqlen_q"
        message = f"{got}; allowed: seqlen_q, how many new tokens a sequence has"
        raise InvalidError(message)
    if length and (queries or told in _DECODES or cells.get("ckv")):
        keys, length = keys or length, ""
    if length or (queries and not keys) or (keys and queries == keys and told not in _DECODES):
        if not (masked or told):
            message = "causal: got nothing beside one length; allowed: True or False"
            raise InvalidError(message)
        return _whole(cells, length or queries, told)
    if not keys:
        message = "seqlen: got nothing; allowed: seqlen, seqlen_q or seqlen_k, a number from 1"
        raise InvalidError(message)
    return _over_cache(cells, queries or "1", keys)


def _whole(cells: Mapping[str, str], length: str, told: str) -> Shape:
    mask = _MASKS.get(cells.get("causal", "true" if told == "prefill" else "").casefold())
    if mask is None:
        message = f"causal: got '{short(cells.get('causal', ''))}'; allowed: True or False"
        raise InvalidError(message)
    if told not in _PASSES:
        message = f"pass: got '{short(told)}'; allowed: forward, backward, prefill, decode"
        raise InvalidError(message)
    return attention_training.shape(
        {
            "data_type": cells["dtype"],
            "profile_pass": _PASSES[told],
            "attn_mask": mask,
            "batch_size": cells["batch"],
            "q_seqlen": length,
            "num_q_heads": cells["heads"],
            "num_kv_heads": cells.get("kv_heads") or cells["heads"],
            "head_dim_qk": cells["head_dim"],
            "head_dim_vo": cells.get("value_dim", ""),
            "sliding_window_size": cells.get("window", ""),
        }
    )


def _over_cache(cells: Mapping[str, str], queries: str, keys: str) -> Shape:
    new = count("seqlen_q", {"seqlen_q": queries})
    seen = count("seqlen_k", {"seqlen_k": keys})
    latent = bool(cells.get("value_dim")) and cells["value_dim"] != cells["head_dim"]
    if new >= seen or not (new == 1.0 or latent):
        got = f"seqlen_q: got {new:.0f} beside {seen:.0f} keys"
        message = f"{got}; allowed: as many, or 1 over a cache (more of one that is latent)"
        raise InvalidError(message)
    return attention.shape(
        {
            "attn_dtype": cells["dtype"],
            "kv_cache_dtype": cells.get("kv_dtype") or "auto",
            "batch_size": cells["batch"],
            "isl": queries,
            "step": f"{seen - new:.0f}",
            "num_heads": cells["heads"],
            "num_key_value_heads": cells.get("kv_heads") or cells["heads"],
            "head_dim": cells["head_dim"],
            "value_dim": cells.get("value_dim", ""),
            "window_size": cells.get("window", ""),
            WARM: cells.get(WARM, ""),
            "source": cells.get("source", ""),
        }
    )


def _mixture(cells: Mapping[str, str]) -> Shape:
    """Return the experts of a mixture whose gates are drawn, as benchmarks of libraries draw them.

    vLLM's call `N` what a rank holds of the width of experts, which tensor parallelism parts.
    """
    cells = dict(cells)
    if cells.get("local") and not cells.get("inter_size"):
        ranks = count("moe_tp_size", cells, 1.0)
        cells["inter_size"] = f"{count('local', cells) * ranks:.0f}"
    return moe.shape({"distribution": "random", **cells})


def _named(*stems: str, of: str) -> tuple[str, ...]:
    """Return how a size of queries or of keys is spelt: `seqlen_q`, `q_seqlen`, `q_len`."""
    return tuple(name for stem in stems for name in (f"{stem}_{of}", f"{of}_{stem}"))


_LENGTHS = ("seqlen", "seq_len", "len", "seq", "s", "sequence_length")
_HEADS = ("num_heads", "heads", "nheads", "n_heads", "h", "nhead")
_WIDTHS = ("head_dim", "headdim", "d", "hdim")

ATTENTION_FREE = Kind(
    name="attention",
    spellings={
        "dtype": _FORMATS,
        "kv_dtype": ("kv_cache_dtype", "kv_dtype", "cache_dtype"),
        "batch": ("batch", "batch_size", "b", "bs", "num_seqs", "z", "n_batch"),
        "heads": (
            *(*_HEADS, *_named(*_HEADS, of="q"), "num_q_heads", "num_qo_heads", "n_q_heads"),
            *("num_attention_heads", "num_query_heads", "attention_heads", "n_head"),
        ),
        "kv_heads": (
            *(*_named(*_HEADS, of="kv"), *_named(*_HEADS, of="k"), "num_kv_heads"),
            *("n_kv_heads", "num_key_value_heads", "hkv", "kv_head", "num_k_heads"),
        ),
        "head_dim": (*_WIDTHS, *_named(*_WIDTHS, of="qk"), "d_head", "dim_head", "head_size"),
        "value_dim": (*_named(*_WIDTHS, of="v"), "dv", "value_dim", "head_dim_vo"),
        "ckv": ("head_dim_ckv", "kv_lora_rank"),
        "kpe": ("head_dim_kpe", "qk_rope_head_dim"),
        "queries": (
            *(*_named(*_LENGTHS, of="q"), *_named(*_LENGTHS, of="qo"), "len_query", "sq"),
            *("query_len", "seqlens_q", "num_queries"),
        ),
        "keys": (
            *(*_named(*_LENGTHS, of="k"), *_named(*_LENGTHS, of="kv"), "mean_sk", "skv"),
            *("context_len", "context_length", "ctx_len", "cache_len", "cache_seqlen"),
            "ctx",
        ),
        "drafts": ("mtp", "num_draft_tokens"),
        "length": ("seqlen", "seq_len", "sequence_length", "n_ctx", "seq", "n", "s"),
        "causal": ("causal", "is_causal", "mask", "attn_mask"),
        "pass": ("pass", "mode", "direction", "phase", "stage", "profile_pass"),
        "window": ("window_size", "window", "sliding_window"),
        WARM: (WARM,),
    },
    needed=frozenset({"dtype", "batch", "heads"}),
    either=(frozenset({"head_dim", "ckv"}), frozenset({"queries", "keys", "length"})),
    rated=True,
    free=True,
    shape=_attention,
)
"""Attention of one kernel, whose lengths say whether it is of whole sequences or over a cache."""
MOE_FREE = Kind(
    name="moe",
    spellings={
        "moe_dtype": ("moe_dtype", "dtype", "precision", "data_type", "format"),
        "num_tokens": ("num_tokens", "tokens", "m", "n_tokens", "batch_size", "batch", "bs", "b"),
        "hidden_size": ("hidden_size", "hidden", "model_dim", "d_model", "hidden_dim"),
        "inter_size": (
            *("inter_size", "intermediate_size", "moe_intermediate_size", "inter_dim"),
            *("moe_inter_size", "intermediate", "expert_ffn", "ffn_hidden_size"),
        ),
        "local": ("n",),
        "topk": ("topk", "top_k", "num_experts_per_tok", "experts_per_token"),
        "num_experts": ("num_experts", "experts", "e", "n_experts", "expert"),
        "moe_tp_size": ("moe_tp_size", "tp", "tp_size"),
        "moe_ep_size": ("moe_ep_size", "ep", "ep_size"),
        "distribution": ("distribution",),
        "gated": ("gated",),
        WARM: (WARM,),
    },
    needed=frozenset({"moe_dtype", "num_tokens", "hidden_size", "topk", "num_experts"}),
    either=(frozenset({"inter_size", "local"}),),
    free=True,
    shape=_mixture,
)
"""The experts of a mixture as one call."""
