"""Which metric, unit, number format and sharding do the words of a table mean?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scalewright.reproductions.columns import plain
from scalewright.reproductions.conventions import spelt

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

_DEVICES = frozenset({"gpu", "gpus", "chip", "chips", "device", "devices", "card", "cards"}) | {
    *("accelerator", "hpu", "npu", "tpu", "xpu", "gcd", "p", "tgs")
}
_SECONDS = frozenset({"s", "sec", "secs", "second", "seconds", "tps", "tgs", "wps"})
_HOURS = frozenset({"h", "hr", "hrs", "hour", "hours"})
_MILLISECONDS = frozenset({"ms", "msec", "milliseconds"})
_TOKENS = frozenset({"token", "tokens", "tok", "toks", "tps", "tgs", "words", "wps", "ktokens"})
_SEQUENCES = frozenset(
    {"seq", "seqs", "sequence", "sequences", "sample", "samples", "sentence", "sentences", "sents"}
)
_STEPS = frozenset(
    {"step", "steps", "iteration", "iterations", "iter", "iters", "it", "batch", "minibatch"}
)
_TIMES = frozenset({"time", "latency", "duration"})
_REMEMBERED = frozenset({"memory", "mem", "ram", "vram"})
_MEMORY = _REMEMBERED | {
    *("peak", "max", "maximum", "highest", "gpu", "device", "per", "of", "in", "cuda", "torch"),
    *("used", "usage", "consumption", "footprint", "allocated", "reserved", "hbm"),
    *("gib", "gb", "mib", "mb", "bytes"),
}
"""Words of a metric that is a device's memory at its fullest."""
_BYTES = {"gib": "GiB", "gb": "GB", "mib": "MiB", "mb": "MB"}
_WHOLE = frozenset({"aggregate", "aggr", "agg", "sum", "total", "cluster", "system", "overall"})
_OF_ONE = frozenset({"0-1", "0..1", "[0, 1]", "of 1", "ratio", "decimal"})
_RATES = frozenset({"throughput", "performance", "speed", "perf"})
_FLOPS = re.compile(r"(?P<scale>|g|t|p|e|tera|peta|giga|exa)flops?")
_RUN = re.compile(r"(?:gpu|device)_hours_(?:per|for)_[0-9a-z]{1,16}_tokens$")
_SCALES = {"": "", "giga": "G", "tera": "T", "peta": "P", "exa": "E"}
_STEP_RATE = re.compile(
    r"\b(?:it|iters?|iterations?|steps?)(?: ?/ ?|_per_| per )s(?:ec(?:ond)?)?\b"
)
_SHARDED = re.compile(r"(?:zero)?[-_ ]?(?:stage)?[-_ ]?([0-3])")
_OFFLOADING = {
    **dict.fromkeys(("zero-offload", "zero offload", "offload"), "2"),
    **dict.fromkeys(("zero-infinity", "zero infinity", "infinity"), "3"),
}
_OFFLOAD = re.compile(
    r"\b(?:with|and|to|chunks?|cpu|host|memory|optimizer|offload|offloaded|offloading)\b|[()]"
)
_GROUP = re.compile(r"(?:zero[-_ ]?([1-3])|fsdp|hsdp)\s{0,2}[=/(,]\s{0,2}([0-9]{1,6})\)?")
_SOME_LAYERS = re.compile(r"(?:full|block)[^0-9]{0,20}([0-9]{1,4})[^0-9]{0,20}")
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


_CHOICE = re.compile(r"\b(?:or|vs)\b|/")


def ungrouped(text: str) -> str:
    """Return a number without the commas between its groups of three digits; others stay."""
    return re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", text)


def metric_of(row: Row) -> str:
    """Return the engine's name of a row's metric; the row's own where no other is meant."""
    name = plain(row.text("metric"))
    if counts_steps(row.text("metric"), row.text("unit")):
        return row.text("metric")
    listed = spelt("metrics", name)
    return str(listed or metric_meant(name, row.text("unit")) or row.text("metric"))


def counts_steps(name: str, unit: str) -> bool:
    """Say whether words mean steps per second, for which there is no metric: no step's seconds."""
    return _STEP_RATE.search(f"{name} {unit}".casefold()) is not None


def metric_meant(name: str, unit: str) -> str | None:
    """Return the engine's name of the metric that words say, or none where they say no one.

    Args:
        name: The metric as the table heads it, in lower case with single underscores.
        unit: The unit of its column, as written.
    """
    if (run := _RUN.search(name)) is not None:
        return run[0]
    if counts_steps(name, unit):
        return None
    words = {*name.split("_"), *_plain(unit)}
    own = bool(words & _DEVICES)
    timed = bool(words & (_SECONDS | _RATES))
    used = bool(words & {"utilization", "utilisation"})
    if words & _REMEMBERED and words <= _MEMORY:
        return "peak_reserved_per_gpu" if "reserved" in words else "peak_memory_per_gpu"
    if words & {"layer", "memory"}:
        return None
    if "hfu" in words or (used and "hardware" in words):
        return "hfu"
    if "mfu" in words or (used and words & {"flop", "flops", "model"}):
        return "mfu"
    if any(_FLOPS.fullmatch(word) for word in words):
        return "aggregate_tflops" if words & _WHOLE and not own else "tflops_per_gpu"
    if timed and words & _TOKENS:
        return "tokens_per_s_per_gpu" if own else "tokens_per_s"
    if timed and words & _SEQUENCES:
        return "sequences_per_s_per_gpu" if own else "sequences_per_s"
    clocked = bool(words & (_TIMES | _SECONDS | _MILLISECONDS))
    return "step_time" if clocked and words & _STEPS else None


def unit_meant(metric: str, name: str, unit: str) -> str:
    """Return the engine's name of a unit, read from its own column or else from the metric's name.

    A unit that says nothing known stays as it is, so that the engine names those that it knows.
    """
    if metric in {"mfu", "hfu"}:
        return "share" if unit.casefold() in _OF_ONE else unit
    words = _plain(unit) or name.split("_")
    if set(words) & _HOURS and "_hours_" in metric and not set(words) & {"m", "million"}:
        return "K h" if words[0] in {"k", "thousand"} else "h"
    if (rate := next((m for w in words if (m := _FLOPS.fullmatch(w))), None)) is not None:
        scale = rate["scale"]
        return f"{_SCALES.get(scale, scale.upper())}FLOP/s"
    if set(words) & _TOKENS:
        return "K tokens/s" if words[0] in {"k", "ktokens", "thousand"} else "tokens/s"
    if set(words) & _SEQUENCES and metric.startswith("sequences_per_s"):
        return "sequences/s"
    if metric.endswith("time"):
        if set(words) & _MILLISECONDS:
            return "ms"
        if set(words) & _SECONDS:
            return "s"
    if not unit and metric.startswith("peak_"):
        return next((_BYTES[word] for word in words if word in _BYTES), unit)
    return unit


def format_meant(text: str) -> str | None:
    """Return the number format that a text names, master copies in fp32 beside it apart.

    Products in a narrow format leave parts of a model in 16 bits, which a text may name beside it;
    `or` and `/` are choices.
    """
    folded = "".join(c for c in text.casefold() if c.isalnum())
    found: set[str] = set()
    for meant, spellings in _FORMATS:
        for spelling in spellings:
            if spelling in folded:
                found.add(meant)
                folded = folded.replace(spelling, " ")
    if found & {"bf16", "fp16", "fp8", "mxfp8", "nvfp4"}:
        found -= {"fp32", "tf32"}
    elif "tf32" in found:
        found = {"tf32"}
    if len(found) > 1 and not _CHOICE.search(text.casefold()):
        found -= {"bf16", "fp16"}
        if len(found) > 1:
            # the format of most products comes first
            found = {min(found, key=lambda meant: _first(meant, text))}
    return found.pop() if len(found) == 1 else None


def _first(meant: str, text: str) -> int:
    folded = "".join(c for c in text.casefold() if c.isalnum())
    places = [folded.find(spelling) for spelling in dict(_FORMATS)[meant]]
    return min(place for place in places if place >= 0)


def without_offload(text: str) -> tuple[str, bool]:
    """Return a text on sharding without words on host memory, and whether it had them.

    ZeRO-Offload (Ren et al. 2021) shares gradients out, ZeRO-Infinity (Rajbhandari et al. 2021)
    weights, too.
    """
    folded = text.casefold().strip()
    if folded in _OFFLOADING:
        return _OFFLOADING[folded], True
    left = _OFFLOAD.sub(" ", folded).strip(" +,/&()-_")
    return (left, True) if left != folded and "offload" in folded else (text, False)


def sharding_meant(text: str) -> tuple[int, int] | None:
    """Return ZeRO's stage and the ranks that share, 0 for all; none where the text says no such.

    `zero1=8` and `FSDP=128` share among so many ranks.
    """
    # hpZ of ZeRO++ keeps a second copy of the weights' shards within a node
    folded = re.sub(r"\s*\+\s*hpz$|^deepspeed ", "", text.casefold().strip())
    if folded in {"ddp", "dp", "none", "no", "off", "false"}:
        return 0, 0
    if "distributed optimizer" in folded or folded == "distopt":
        return 1, 0
    if "shard_grad_op" in folded or folded == "zero-100b":
        # ZeRO-100B shards gradients and states (Rajbhandari et al. 2020, section 8)
        return 2, 0
    if stage := _SHARDED.fullmatch(folded):
        return int(stage[1]), 0
    if group := _GROUP.fullmatch(folded):
        return int(group[1] or 3), int(group[2])
    return None


def recomputation_meant(text: str) -> tuple[str, int] | None:
    """Return what is computed again and in how many layers of a stage, 0 for all of them.

    As Megatron-LM says it: `block 12` are twelve layers of each stage, `uniform 1` all of them;
    a list of its modules is `selective` where attention's core is among them. Norms, activation
    functions and up-projections are computed again in little time, which counts as none.
    """
    folded = text.casefold().strip()
    chosen = folded.removeprefix("selective").strip(" :(){}[]")
    if chosen and (policy := _of_modules(re.split(r"[\s,;+&/]+|\band\b", chosen))):
        return policy, 0
    words = _plain(folded)
    if words[:2] in (["gradient", "checkpointing"], ["activation", "checkpointing"]):
        off = {"off", "disabled", "no", "false"} & set(words)
        return "none" if off else "full", 0
    if {"vs", "versus", "or", "every"} & set(words):
        return None
    if words[:1] == ["selective"] or "sac" in words:
        return "selective", 0
    if words[:1] == ["uniform"]:
        return "full", 0
    if some := _SOME_LAYERS.fullmatch(folded):
        return "full", int(some[1])
    if words[:1] == ["full"] and not any(c.isdigit() for c in folded):
        return "full", 0
    if words[:1] in (["no"], ["without"]):
        return "none", 0
    return None


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
