"""Which number format, sharding and recomputation do the words of a table mean?"""

from __future__ import annotations

import re

from scalewright.reproductions.layout import without_denied

_ADAPTERS = re.compile(r"\bq?lora\b|\b(?:4|16)[- ]?bits?\b|\bbnb\b|\bnf4\b")
"""What says of a format that products are in 16 bits, whatever holds the weights."""
_REMARK = re.compile(r" ?\((?![^()]*[0-9])[^()]*\)$")
"""A remark without a number behind a stage, as `0 (DDP)`."""
_OTHER_REMARK = re.compile(r" ?\((?![^()]*(?:[0-9]|fsdp|zero|shard))[^()]*\)$")
"""One that names no sharding, as `DDP (PyTorch's own)`."""
_LIBRARIES = {"deepspeed", "megatron", "fsdp", "pytorch", "torch", "fairscale", "composer"}
"""Whose checkpointing recomputes every layer."""
_FLAG = re.compile(
    r"(?:(?:xla|fsdp|torch|use|enable|full|deepspeed) ){0,3}"
    r"(?:grad(?:ient)?s?|act(?:ivation)?s?) (?:ckpt|checkpoint(?:s|ing)?)"
    r"|ckpt|checkpoint(?:ing|ed)"
)
"""Words of flags of programs, as `xla_fsdp_grad_ckpt`."""
_CUSTOM = re.compile(r"(?:remat_policy[ =:]{1,3})?custom(?: ?\([^()]{0,80}\))?")
"""MaxText's policy whose tensors are computed again unless it is told (configs/base.yml)."""
_SCORES_AGAIN = ["recompute", "activations"]
"""Megatron-LM's flag, which makes the granularity selective (megatron/training/arguments.py)."""
_PRODUCTS_STAY = "minimal"
"""MaxText's checkpoint_dots_with_no_batch_dims (MaxText/layers/models.py)."""
_CHINESE = (
    ("none", re.compile(r"(?:无|不开|关闭?|不)(?:激活)?(?:重计算|检查点|重算)")),
    ("selective", re.compile(r"选择性?(?:激活)?(?:重计算|检查点|重算)")),
    ("full", re.compile(r"(?:完全|全量?|开启?)?(?:激活|梯度)?(?:重计算|检查点|重算)")),
)
"""Words for recomputation and checkpoints of activations in Chinese."""
_SETTING = re.compile(
    r"(?:--)?(?:remat_policy|recompute_granularity|activation_checkpoint(?:ing)?[._]mode"
    r"|ac(?:_mode)?)[ =:]{1,3}(?=none$|full$|selective$|minimal$)"
)
"""The name of a program's setting before what it is set to."""
_BUDGET = re.compile(
    r"(?:activation[ _-])?memory[ _-]budget(?: of)? ?[=:]? ?(1(?:\.0{0,3})?|0?\.[0-9]{1,4}|0)"
)
"""Which share of activations torch.compile may keep, 1 being all that it would by itself."""
_SCANNED = re.compile(r"(?:layers )?scan(?:ned)?(?: (?:over )?layers)?")
"""How JAX compiles layers once, which tells nothing of recomputation."""
_NAMED = 3
_OPTIMIZER = re.compile(r" optimi[sz]er$")
_STORED = re.compile(
    r"[\s,;+&]*\b(?:with |and |no )?(?:(?:cpu|host|activations?)[- ])*offload(?:ing|ed)?\b"
    r"(?: on| off| to (?:the )?(?:cpu|host)(?: memory)?)?",
    re.IGNORECASE,
)
"""What a cell on recomputation says of activations in host memory."""
_COUNTED = re.compile(r" ?\([^()]*flops?\b[^()]*\)$")
"""A remark on how FLOPs are counted."""
_SHARDED = re.compile(r"(?:zero|z)?[-_ ]?(?:stage)?[-_ ]?(?:= ?)?([0-3])")
_OFFLOADING = {
    **dict.fromkeys(("zero-offload", "zero offload", "offload"), "2"),
    **dict.fromkeys(("zero-infinity", "zero infinity", "infinity"), "3"),
}
_NAMED_TOO = re.compile(
    r"((?:zero[- ]?|stage )?3) (?:[+,&] ?)?zero[- ]infinity"
    r"|((?:zero[- ]?|stage )?[1-3]) (?:[+,&] ?)?zero-?"
)
"""A stage and the name of the library that moves its state, words on host memory apart."""
_OFFLOADED = re.compile(
    r"\b(?:cpu|host)[- ]offload(?:ing)? of (?:the )?(?:(?:parameters|params|weights)(?: and|,) )?"
    r"(?:the )?(?:optimi[sz]er|adam)\b|"
    r"\boptimi[sz]er(?: states?)?(?: and [a-z]+)?,? (?:is |are |was |were )?offloaded\b|"
    r"\boffload(?:s|ed|ing) (?:of )?(?:the )?optimi[sz]er\b"
)
_IN_HOST = re.compile(
    r"(?P<weights>(?:weights|param(?:eter)?s)(?:,| and) )?(?:gradients(?:,| and) )?"
    r"optimi[sz]er(?: states?)? (?:(?:are |is )?(?:kept |held |stored |living )?)?"
    r"(?:in|on) (?:the )?(?:cpu|host)(?: memory| ram| dram)?"
)
"""Where state lies, as `parameters and optimizer states in CPU memory`."""
_OFFLOAD = re.compile(
    r"\b(?:with|and|to|chunks?|cpu|host|memory|optimizer|(?:super)?offload|offloaded|offloading)\b"
    r"|[()]"
)
_GROUP = re.compile(
    r"(?:zero[-_ ]?([1-3])\s{0,2}[=(,]|(?:fsdp|hsdp)\s{0,2}[=/(,])\s{0,2}([0-9]{1,6})\)?"
)
_AMONG = re.compile(
    r"(?:(?:zero[-_ ]?|stage )?([1-3])\b.*|mics.*|hsdp.*|fsdp.*)"
    r"\b(?:shard|partition)(?:ing)? group (?:of |size (?:of )?)?([0-9]{1,6})\b.*"
)
_SOME_LAYERS = re.compile(
    r"(?:full|block|partial)[^0-9]{0,30}([0-9]{1,4})[^0-9]{0,32}"
    r"|(?:the )?(?:first )?([0-9]{1,4}) layers?(?: (?:per|in each|of each|of a|a) [a-z ]{4,20})?"
)
# parts of a layer that take passes over memory or few products to compute again
_SMALL_PARTS = frozenset({"norm", "norms", "layernorm", "rmsnorm", "act", "activation"}) | {
    *("moe_act", "mla_up_proj", "swiglu")
}
_CORES = frozenset({"core_attn", "core_attention", "attn", "attention", "sdpa"})
_FORMATS = (
    ("nvfp4", ("nvfp4",)),
    ("mxfp8", ("mxfp8", "fp8mx")),
    ("fp8", ("fp8", "float8")),
    ("bf16", ("bf16", "bfloat16")),
    ("fp16", ("fp16", "float16")),
    ("tf32", ("tf32",)),
    ("fp32", ("fp32", "float32")),
)


_PURE = re.compile(
    r"\bpure[ _-]?(?:b?f(?:p|loat)?16|bf16)\b"
    r"|(?<![a-z0-9])(?:b?f(?:p|loat)?16|bf16)[ ,(_-]{1,2}(?:true|pure)(?![a-z])"
)
_PURE_STATE = re.compile(
    r"\bpure[ _-]?(?:bf16|fp16)\b"
    r"|\b(?:bf16|bfloat16) (?:adamw?|(?:optimi[sz]er )?(?:states?|moments))\b"
    r"|\bmaster[ -](?:weights|param(?:eter)?s) (?:are |were )?(?:kept )?in (?:bf16|bfloat16)\b"
    r"|\bmoments (?:are |were )?(?:kept |stored |held )?in (?:bf16|bfloat16)\b"
)
_WIDE_STATE = re.compile(
    r"(?:fp32|float32)[ _-](?:master|optimi[sz]er|adamw?|states?|weights|moments|copy|copies)"
    r"|\b(?:master|optimi[sz]er|adamw?|states?|weights|moments|copy|copies)\b[a-z ]{0,24}"
    r" (?:fp32|float32)\b"
)
_AMP = re.compile(r"(?:(?:automatic )?mixed(?: precision)?[ ,:]{0,2})?\(?amp\)?")
_CHOICE = re.compile(r"\b(?:or|vs|versus)\b|/(?!last\b)|\u2192|->")
_SET_TO_NONE = re.compile(
    r"\b[a-z][\w.-]{0,40}(?: ?[=:] ?|\s+is\s+)(?:none|null|no|off|false|disabled|0)\b"
)
"""An option that is not set, as `BF16 (fp8=None)`."""
_OFF = re.compile(r"(?:no|not|without|w/o)\b.*|.*\b(?:off|disabled)\b\)?")


def format_meant(text: str) -> str | None:
    """Return the number format that a text names, master copies in fp32 beside it apart.

    Products in a narrow format leave parts of a model in 16 bits, which a text may name beside it;
    `or` and `/` are choices.
    """
    if not _CHOICE.search(text.casefold()):
        text = without_denied(_SET_TO_NONE.sub(" ", text.casefold()))
    found = _formats_in(text)
    if not found and _ADAPTERS.search(text.casefold()):
        return "bf16"
    if found & {"bf16", "fp16", "fp8", "mxfp8", "nvfp4"}:
        found -= {"fp32", "tf32"}
    elif "tf32" in found:
        found = {"tf32"}
    if len(found) > 1 and not _CHOICE.search(text.casefold()):
        found -= {"bf16", "fp16"}
        if "mxfp8" in found:
            found.discard("fp8")  # of which it is a kind
        if len(found) > 1:
            # the format of most products comes first
            found = {min(found, key=lambda meant: (_first(meant, text), meant))}
    if not found and _ADAPTERS.search(text.casefold()):
        return "bf16"
    return found.pop() if len(found) == 1 else None


def mixes_any(text: str) -> bool:
    """Return whether a text says 16 bits and not which, as `mixed (amp)`."""
    return _AMP.fullmatch(text.casefold().strip()) is not None


def _formats_in(text: str) -> set[str]:
    """Return the formats that a text names, each spelling once."""
    folded = "".join(c for c in text.casefold() if c.isalnum())
    found: set[str] = set()
    for meant, spellings in _FORMATS:
        for spelling in spellings:
            if spelling in folded:
                found.add(meant)
                folded = folded.replace(spelling, " ")
    return found


def is_pure(text: str) -> bool:
    """Return whether a text says that weights and optimizer state are in 16 bits, too."""
    folded = without_denied(text).casefold()
    return _PURE.search(folded) is not None and _WIDE_STATE.search(folded) is None


def remarks_pure_state(remarks: str) -> bool:
    """Return whether remarks say that the optimizer's state is in 16 bits, as `bf16 AdamW`."""
    folded = "; ".join(without_denied(part) for part in remarks.split(";"))
    return _PURE_STATE.search(folded) is not None and _WIDE_STATE.search(folded) is None


def remarks_offload(remarks: str) -> bool:
    """Return whether remarks say that the optimizer's state lies in host memory."""
    return _OFFLOADED.search(without_denied(remarks).casefold()) is not None


def _first(meant: str, text: str) -> int:
    folded = "".join(c for c in text.casefold() if c.isalnum())
    places = [folded.find(spelling) for spelling in dict(_FORMATS)[meant]]
    return min(place for place in places if place >= 0)


def without_offload(text: str) -> tuple[str, bool]:
    """Return a text on sharding without words on host memory, and whether it had them.

    ZeRO-Offload (Ren et al. 2021) shares gradients out, ZeRO-Infinity (Rajbhandari et al. 2021)
    weights, too.
    """
    folded = re.sub(r" ?\((?:nvme|cpu|ssd)\)$", "", text.casefold().strip())
    if folded in _OFFLOADING:
        return _OFFLOADING[folded], True
    if (held := _IN_HOST.fullmatch(folded)) is not None:
        return ("3" if held["weights"] else ""), True
    named = _NAMED_TOO.fullmatch(" ".join(_OFFLOAD.sub(" ", folded).split()))
    if named is not None and ("offload" in folded or "infinity" in folded):
        return named[1] or named[2], True
    left = _OFFLOAD.sub(" ", folded).strip(" +,/&()-_")
    return (left, True) if left != folded and "offload" in folded else (text, False)


def denied(text: str) -> bool:
    """Say whether a text denies what it names, as `no FSDP` and `selective (off)`."""
    return _OFF.fullmatch(text.casefold().strip()) is not None


_OF_TORCHTITAN = re.compile(
    r"(?:data_parallel_shard_degree|dp_shard(?:_degree)?)[ =:]{1,3}(-1|[0-9]{1,6})"
)
"""torchtitan's flag for the ranks that share weights, -1 for all that are left."""
_UNSHARED = re.compile(r"d?dp|no_shard|(?:none|no|off|false)(?: ?\((?:[a-z]+ )?d?dp\))?")
"""Every rank holds all, as data ranks of DDP do."""
_DISTRIBUTED = {"distopt", "distributedoptimizer", "distributedfusedadam"}
"""Names of optimizers whose state is shared, as Megatron-LM's and Apex's."""


def sharding_meant(text: str) -> tuple[int, int] | None:
    """Return ZeRO's stage and the ranks that share, 0 for all; none where the text says no such.

    `zero1=8`, `FSDP=128` and `MiCS (shard group 128)` share among so many ranks.
    """
    # hpZ of ZeRO++ keeps a second copy of the weights' shards within a node
    folded = re.sub(r"\s*\+\s*hpz$|^deepspeed[ _-]", "", text.casefold().strip())
    if denied(folded) or _UNSHARED.fullmatch(_OTHER_REMARK.sub("", folded)):
        return 0, 0
    folded = without_denied(folded)
    if flag := _OF_TORCHTITAN.fullmatch(folded):
        return (0, 0) if flag[1] == "1" else (3, max(int(flag[1]), 0))
    if folded in {"zero++", "zero plus plus"}:
        return 3, 0
    if re.sub(r"[ _-]", "", folded) in _DISTRIBUTED or "distributed optimizer" in folded:
        return 1, 0
    if "shard_grad_op" in folded or folded == "zero-100b":
        # ZeRO-100B shards gradients and states (Rajbhandari et al. 2020, section 8)
        return 2, 0
    if stage := _SHARDED.fullmatch(_OPTIMIZER.sub("", _REMARK.sub("", folded))):
        return int(stage[1]), 0
    if group := _GROUP.fullmatch(folded) or _AMONG.fullmatch(folded):
        return int(group[1] or 3), int(group[2])
    return None


def recomputation_meant(text: str) -> tuple[str, int] | None:
    """Return what is computed again and in how many layers of a stage, 0 for all of them.

    As Megatron-LM says it: `block 12` or `12 layers` are twelve of each stage, `uniform 1` all of
    them; a list of its modules is `selective` where attention's core is among them. Norms,
    activation functions and up-projections are computed again in little time, which counts as none.
    """
    folded = _SETTING.sub("", _COUNTED.sub("", text.casefold().strip()))
    if denied(folded) or folded == "none":
        return "none", 0
    chosen = folded.removeprefix("selective").strip(" :(){}[]")
    modules = _of_modules(re.split(r"[\s,;+&/]+|\band\b", chosen)) if chosen else None
    if policy := modules or _of_a_flag(folded):
        return policy, 0
    words = _plain(folded)
    if words[:2] in (["gradient", "checkpointing"], ["activation", "checkpointing"]):
        off = {"off", "disabled", "no", "false"} & set(words)
        return "none" if off else "full", 0
    if {"vs", "versus", "or", "every", "except"} & set(words) or {"full", "selective"} <= set(
        words
    ):
        return None
    if words[:1] == ["selective"] or "sac" in words:
        return "selective", 0
    if words[:1] == ["uniform"]:
        return "full", 0
    if some := _SOME_LAYERS.fullmatch(folded):
        return "full", int(some[1] or some[2])
    if words[:1] == ["full"] and not any(c.isdigit() for c in folded):
        return "full", 0
    if words[:1] in (["no"], ["without"]):
        return "none", 0
    # whose checkpointing it is, as `DeepSpeed activation checkpointing`
    named = len(words) == _NAMED and words[0] in _LIBRARIES
    return ("full", 0) if named and words[1:] == ["activation", "checkpointing"] else None


def budgeted(text: str) -> list[str] | None:
    """Return the policies between which a budget of activations lies; none where none is told.

    The compiler runs what is cheapest again until the rest fits: at 1 nothing more than it would
    anyway, at 0 all of a layer, between them anything.
    """
    found = _BUDGET.fullmatch(text.casefold().strip())
    if found is None:
        return None
    share = float(found[1])
    return ["none"] if share == 1.0 else ["full"] if share == 0.0 else ["none", "selective", "full"]


def is_custom(text: str) -> bool:
    """Say whether a policy is one whose tensors are told elsewhere, if anywhere."""
    return _CUSTOM.fullmatch(text.casefold().strip()) is not None


def _of_a_flag(folded: str) -> str | None:
    """Return what a program's flag, or a word in Chinese, says of recomputation; else none."""
    if _FLAG.fullmatch(" ".join(_plain(folded))) or _CUSTOM.fullmatch(folded):
        return "full"
    if folded == _PRODUCTS_STAY or _plain(folded) == _SCORES_AGAIN:
        return "selective"
    return next((policy for policy, said in _CHINESE if said.fullmatch(folded)), None)


def without_stored(text: str) -> tuple[str, bool]:
    """Return what a text says of recomputation, and whether the host keeps activations by it.

    `activation checkpointing, offload` is recomputation whose inputs lie in host memory.
    """
    left = _STORED.sub(" ", text).strip(" ,;+&")
    left = "" if _SCANNED.fullmatch(left.casefold()) else left
    return left, _STORED.search(without_denied(text)) is not None


def _of_modules(words: list[str]) -> str | None:
    """Return the policy of a list of modules; none where one is not known to be small."""
    modules = {word for word in words if word}
    small = set(_SMALL_PARTS)
    if modules & {"moe_act", "mla_up_proj"}:
        small.add("mlp")  # in a mixture of experts, that of its few dense layers
    if not modules <= small | _CORES:
        return None
    return "selective" if modules & _CORES else "none"


def _plain(text: str) -> list[str]:
    letters = "".join(c if c.isalnum() else " " for c in text.casefold())
    return letters.split()
