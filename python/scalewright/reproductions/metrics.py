"""Which metric and which unit do the words of a table mean?"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from scalewright.errors import UnknownNameError
from scalewright.reproductions.columns import plain
from scalewright.reproductions.conventions import book, spelt
from scalewright.reproductions.misspelt import near_word

if TYPE_CHECKING:
    from scalewright.reproductions.reading import Row

DEVICES = frozenset({"gpu", "gpus", "chip", "chips", "device", "devices", "card", "cards"}) | {
    *("dev", "accelerator", "hpu", "npu", "tpu", "xpu", "gcd", "p", "tgs")
}
SECONDS = frozenset({"s", "sec", "secs", "second", "seconds", "tps", "tgs", "wps"})
_HOURS = frozenset({"h", "hr", "hrs", "hour", "hours"})
_MILLISECONDS = frozenset({"ms", "msec", "milliseconds"})
_CLOCKS = (
    ("ms", _MILLISECONDS),
    ("min", frozenset({"min", "mins", "minute", "minutes"})),
    ("h", _HOURS),
    ("us", frozenset({"us", "\u00b5s", "\u03bcs", "microseconds"})),
    ("s", SECONDS),
)
"""Units of time and the words for them."""
TOKENS = frozenset({"token", "tokens", "tok", "toks", "tps", "tgs", "words", "wps"}) | {
    *("ktokens", "ktok", "mtokens", "mtok")
}
SEQUENCES = frozenset(
    {"seq", "seqs", "sequence", "sequences", "sample", "samples", "sentence", "sentences", "sents"}
)
STEPS = frozenset(
    {"step", "steps", "iteration", "iterations", "iter", "iters", "it", "batch", "minibatch"}
)
_TOLD_BY = sorted(
    {"time", "latency", "duration", "second", "seconds", "utilization", "utilisation", "memory"}
    | {"throughput", "performance", "speed", "token", "tokens", "step", "steps"}
    | {"iteration", "iterations", "sequence", "sequences", "sample", "samples", "batch"}
)
"""Words that tell metrics apart."""
_TIMES = frozenset({"time", "latency", "duration"})
_CLOCKED = frozenset({"time", "median", "mean", "average", "avg"})
"""What milliseconds of a run may be called where nothing says of what they are."""
_REMEMBERED = frozenset({"memory", "mem", "ram", "vram", "gram", "hbm"})
_MEMORY = _REMEMBERED | {
    *("peak", "max", "maximum", "highest", "gpu", "device", "per", "of", "in", "cuda", "torch"),
    *("used", "usage", "consumption", "footprint", "allocated", "reserved", "hip"),
    *("gib", "gb", "mib", "mb", "bytes", "rank"),
}
"""Words of a metric that is a device's memory at its fullest."""
_TAKEN = {"reserved": "reserved", "allocated": "allocated", "peak": "memory"}
"""Words beside bytes that make them a device's memory at its fullest, and how it was taken."""
_BYTES = {"gib": "GiB", "gb": "GB", "mib": "MiB", "mb": "MB"}
_SO_MANY = re.compile(
    r"_(?:[2-9]|[1-9][0-9]{1,5})_(?:gpus?|chips?|devices?|accelerators?|[nt]pus?)(?=_|$)"
)
"""A count of devices behind a rate, which is then the rate of so many."""
_WHOLE = frozenset({"aggregate", "aggr", "agg", "sum", "total", "cluster", "system", "overall"})
_USED = _REMEMBERED | {"utilization", "utilisation", "hfu", "mfu", "layer"}
OF_ONE = frozenset({"0-1", "0..1", "[0, 1]", "of 1", "ratio", "decimal", "fraction", "share"})
_RATES = frozenset({"throughput", "performance", "speed", "perf"})
_FLOPS = re.compile(r"(?P<scale>|g|t|p|e|tera|peta|giga|exa)flops?")
_EXA = frozenset({"eflop", "eflops", "exaflop", "exaflops"})
"""What no device does, but a job may."""
_SHORT_FLOPS = re.compile(r"(?<![a-z0-9])([gtp])f(?![a-z0-9])")
_NAMED_FLOPS = re.compile(r"(?<![a-z0-9])([gtp])f(?=_(?:s|per)(?:_|$))")
"""`TF/s per GPU` as a name: what is of a second or a device."""
_RUN = re.compile(r"(?:gpu|device)_hours_(?:per|for)_[0-9a-z]{1,16}_tokens$")
_SPACED = re.compile(r"[0-9]{1,3}(?:[\u00a0\u202f\u2009][0-9]{3}| 0[0-9]{2}){1,3}(?:\.[0-9]{1,9})?")
_SCALES = {"": "", "giga": "G", "tera": "T", "peta": "P", "exa": "E"}
_NOT_MEASURED = frozenset({"std", "stdev", "stddev", "deviation", "variance", "predicted"}) | {
    *("estimated", "ideal", "theoretical", "baseline", "increase", "improvement", "reduction"),
    *("loss", "saving", "savings", "overhead"),
    *("decode", "decoding", "prefill", "inference", "generation", "output", "serving", "rollout"),
    *("user", "users", "prompt", "generated", "target", "required", "expected"),
    *("watt", "watts", "joule", "joules", "kwh", "dollar", "dollars", "usd", "cost"),
}
"""Words of a heading that is no measured figure of a training run."""
_PARTS = frozenset({"bubble", "idle", "wait", "stall", "micro", "microbatch", "microstep"}) | {
    *("optimizer", "optimiser", "forward", "backward", "fwd", "bwd", "evaluation", "eval"),
    *("validation", "val", "communication", "comm", "comms", "loading", "dataloader", "checkpoint"),
}
"""Words of a heading whose time is that of a part of a step, or of another thing."""
SLOWER = _HOURS | {"min", "mins", "minute", "minutes", "day", "days"}
_OF_ONE_DEVICE = {
    "throughput": "tokens_per_s_per_gpu",
    "tokens_per_s": "tokens_per_s_per_gpu",
    "sequences_per_s": "sequences_per_s_per_gpu",
    "samples_per_s": "sequences_per_s_per_gpu",
    "aggregate_tflops": "tflops_per_gpu",
}
"""What a rate of a job is with a unit of one device."""
OF_SEVERAL = frozenset({"node", "replica", "server", "host", "day"})
"""What a rate may be of beside a device or the job."""
_SEVERAL_STEPS = re.compile(r"(?:^|_)(?!1_)[0-9]+k?_(?:steps|iterations|iters|batches)(?:_|$)")
"""`time per 100 steps`."""
_OF_COSTS = re.compile(r"[$€£]|(?:/ ?|_per_|_s_)[wj](?: |$)")
"""Rates of a dollar, a watt or a joule."""
_SEVERAL = re.compile(r"(?:[0-9]_|single_|one_)(?:node|server|host)")
_STEP_RATE = re.compile(
    r"(?<![a-z0-9])(?:it|iters?|iterations?|steps?)(?: ?/ ?|_per_| per )"
    r"s(?:ec(?:ond)?)?s?(?![a-z0-9])"
)

_OF_WORK = re.compile(
    r"(?:(?<![a-z])(?:m?s|m?secs?|(?:milli)?seconds?|time|latency|hours?)|flops?)"
    r"[ _]*(?:per|/)[ _]*(?:tokens?|tok|samples?|seqs?|sequences?|sentences?|iterations?|iters?"
    r"|steps?|batch|layer)(?![a-z])"
)
"""Seconds of a token or a sample, FLOPs of a step: no rates, and no time of a step."""
_HEADED = re.compile(r"([^\x00-\x7f]{2,12})_([a-z_]{1,20})")
"""A heading in Chinese, and its unit behind it."""
_OF_WHOM = re.compile(r"\s*(?:/|per\b)")
_STATISTIC = re.compile(
    r"\s*[(\uff08](?:median|mean|average|avg|\u4e2d\u4f4d\u6570|\u5e73\u5747\u503c?|\u5747\u503c)[)\uff09]\s*$"
)
"""A remark that a figure is a median or a mean, in Chinese, too."""
_EACH = DEVICES | SECONDS | {"per", "a", "each", "one"}
"""Words of a unit that tells of what a rate is, and not what it counts."""
_FIRM = frozenset({"step_time", "mfu", "hfu"})
"""Metrics of which no unit makes another one."""
_RATE_OF_ONE = re.compile(
    r"\b(?:rates?|throughput|tokens/s|samples/s|figures?) (?:is |are |were )?"
    r"(?:of (?:one|a|each|a single)|per|for each) (?:gpu|device|chip|card)\b"
)


def listed_metric(name: str) -> str | None:
    """Return the metric that a name is listed for, a unit behind one in Chinese left out."""
    if (known := spelt("metrics", name)) is not None:
        return str(known)
    found = _HEADED.fullmatch(name)
    timed = frozenset[str]().union(*(words for _, words in _CLOCKS))
    if found is None or not {*found[2].split("_")} <= timed | _BYTES.keys() | DEVICES | {"per"}:
        return None
    alone = spelt("metrics", found[1])
    return None if alone is None else str(alone)


def ungrouped(text: str) -> str:
    """Return a number without the marks between its groups of three digits; others stay."""
    if _SPACED.fullmatch(text):
        return re.sub(r"\s", "", text)
    return re.sub(r"(?<=[0-9])[,'\u2019_](?=[0-9]{3}(?![0-9]))", "", text)


def refuse_misspelt_metric(written: str) -> None:
    """Refuse a metric one of whose words is a letter away from one that metrics are told by.

    Raises:
        UnknownNameError: Says how it may have been meant.
    """
    name = plain(written)
    if listed_metric(name) is not None:
        return
    familiar = _familiar()
    for word in name.split("_"):
        if {word, word.removesuffix("s"), f"{word}s"} & familiar or not word.isalpha():
            continue
        if (near := near_word(word, _TOLD_BY)) is not None:
            meant = "_".join(near if part == word else part for part in name.split("_"))
            message = f"metric: unknown name '{written:.60}'; nearest: {meant}"
            raise UnknownNameError(message)


@cache
def _familiar() -> frozenset[str]:
    """Return every word that means something in a metric."""
    listed = (word for name in book()["metrics"] for word in name.split("_"))
    sets = (DEVICES, _TIMES, _MEMORY, _WHOLE, _USED, OF_ONE, _RATES, _NOT_MEASURED, _PARTS, _EACH)
    clocks = (words for _, words in _CLOCKS)
    return frozenset(listed).union(*sets, *clocks, SLOWER, OF_SEVERAL, TOKENS, SEQUENCES, STEPS)


def metric_of(row: Row) -> str:
    """Return the engine's name of a row's metric; the row's own where no other is meant."""
    written = row.text("metric").casefold()
    name = plain(_STATISTIC.sub("", written))
    if counts_steps(written, row.text("unit")) or _amount(written, row.text("unit")):
        return row.text("metric")
    if (own := _of_program(row, name)) is not None:
        return own
    listed = listed_metric(name)
    alone = metric_meant(name, "")
    if listed is None and alone in _FIRM:
        # a unit of another thing is refused beside it
        listed = alone
    meant = str(listed or metric_meant(name, row.text("unit")) or row.text("metric"))
    of_one = tells_devices(row.text("unit")) or _remarks_tell(row)
    return _OF_ONE_DEVICE.get(meant, meant) if of_one else meant


def _remarks_tell(row: Row) -> bool:
    """Say whether remarks say that a rate is of one device, as `rates of one GPU`."""
    said = f"{row.text('table')} | {row.text('source')}".casefold()
    return _RATE_OF_ONE.search(said) is not None


def tells_devices(unit: str) -> bool:
    """Say whether a unit is of one device, as `tokens/s/GPU`; one of all devices is the job's."""
    words = {*_plain(unit)}
    return bool(words & DEVICES) and "all" not in words


def _of_program(row: Row, name: str) -> str | None:
    """Return what a name means in the logs of the program that a row names, if it is one of its."""
    said = " ".join(row.text(c) for c in ("program", "framework", "paper", "source")).casefold()
    told = (own[name] for program, own in _own().items() if program in said and name in own)
    return next(told, None)


def _own() -> dict[str, dict[str, str]]:
    return book()["own_metrics"]


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
    name = _of_so_many(_NAMED_FLOPS.sub(r"\1flop", name))
    words = {*name.split("_"), *_plain(unit)}
    if _amount(name, unit):
        return None
    if _SEVERAL_STEPS.search(name) or _OF_COSTS.search(f"{name} {unit}".casefold()):
        return None
    if words & _NOT_MEASURED or (words & OF_SEVERAL and not _SEVERAL.search(name)):
        return None
    if words <= _MEMORY - _REMEMBERED and words & _BYTES.keys():
        taken = next((word for word in _TAKEN if word in words), None)
        if taken is not None:
            return f"peak_{_TAKEN[taken]}_per_gpu"
    meant = _of_use(words) if words & _USED else _of_rate(words)
    return None if meant == "step_time" and words & _PARTS else meant


def _of_so_many(name: str) -> str:
    """Say a count of devices as all of them, as in `tokens_s_8_gpu`, unless one is named, too."""
    left = _SO_MANY.sub("", name)
    if left == name or {*left.split("_")} & _USED:
        return name
    return left if {*left.split("_")} & DEVICES else f"{left}_all_devices"


def _amount(name: str, unit: str) -> bool:
    """Say whether words mean work, or the time of a part of a step, not a rate."""
    said = _OF_WORK.search(f"{name} {unit.casefold()}")
    # a step's own seconds are a metric
    return said is not None and not (
        "flop" not in said[0] and {*_plain(said[0].replace("_", " "))} & STEPS
    )


def _of_use(words: set[str]) -> str | None:
    """Return the metric of words on memory or utilisation."""
    used = bool(words & {"utilization", "utilisation"})
    if words & _REMEMBERED and words <= _MEMORY:
        return "peak_reserved_per_gpu" if "reserved" in words else "peak_memory_per_gpu"
    if words & {"layer", "memory"}:
        return None
    if "hfu" in words or (used and "hardware" in words):
        return "hfu"
    if "mfu" in words or (used and words & {"flop", "flops", "model"}):
        return "mfu"
    return _of_rate(words)


def _of_rate(words: set[str]) -> str | None:
    """Return the metric of words on a rate or a time."""
    own = bool(words & DEVICES) and "all" not in words
    timed = bool(words & (SECONDS | _RATES))
    if any(_FLOPS.fullmatch(word) for word in words):
        if words & {"peak", "gemm", "matmul", "attention", "kernel"}:
            return None
        whole = words & (_WHOLE | _EXA) or (words & DEVICES and "all" in words)
        return "aggregate_tflops" if whole and not own else "tflops_per_gpu"
    if timed and words & TOKENS:
        return "tokens_per_s_per_gpu" if own else "tokens_per_s"
    if timed and words & SEQUENCES:
        return "sequences_per_s_per_gpu" if own else "sequences_per_s"
    clocked = bool(words & (_TIMES | SECONDS | _MILLISECONDS))
    # nothing but a step of a run is told in milliseconds
    short = words & _MILLISECONDS and words & _CLOCKED and words <= _CLOCKED | _MILLISECONDS
    return "step_time" if (clocked and words & STEPS) or short else None


def unit_meant(metric: str, name: str, unit: str) -> str:
    """Return the engine's name of a unit, read from its own column or else from the metric's name.

    A unit that says nothing known stays as it is, so that the engine names those that it knows.
    """
    if _OF_WHOM.match(unit.casefold()) and {*_plain(unit)} <= _EACH and not metric.endswith("time"):
        unit = ""  # says of how many devices, as `per GPU`; the metric's name has the unit
    if metric in {"mfu", "hfu"}:
        return "share" if unit.casefold() in OF_ONE else unit
    words = _plain(unit) or ([] if unit.strip() else _NAMED_FLOPS.sub(r"\1flop", name).split("_"))
    rated = set(words) & (TOKENS | SEQUENCES)
    slower = set(words) & SLOWER and not set(words) & SECONDS
    if rated and unit and (slower or set(words) & OF_SEVERAL):
        return unit
    if set(words) & _HOURS and "_hours_" in metric and not set(words) & {"m", "million"}:
        return "K h" if words[0] in {"k", "thousand"} else "h"
    if (rate := next((m for w in words if (m := _FLOPS.fullmatch(w))), None)) is not None:
        scale = rate["scale"]
        return f"{_SCALES.get(scale, scale.upper())}FLOP/s"
    if set(words) & TOKENS:
        return f"{_scale({*words[:1], *name.split('_')})}tokens/s"
    if set(words) & SEQUENCES and metric.startswith("sequences_per_s"):
        return "sequences/s"
    if metric.endswith("time") and (timed := [n for n, of in _CLOCKS if of & set(words)]):
        return timed[0]
    if not unit and metric.startswith("peak_"):
        return next((_BYTES[word] for word in words if word in _BYTES), unit)
    return "B" if unit.casefold() in {"byte", "bytes"} else unit


def _scale(words: set[str]) -> str:
    """Return the thousands or millions that words count by."""
    if words & {"m", "million", "millions", "mtokens", "mtok"}:
        return "M "
    return "K " if words & {"k", "ktokens", "ktok", "thousand", "thousands", "x1000"} else ""


def _plain(text: str) -> list[str]:
    """Return the words of a unit; `TF/s` and `PF` are FLOPs, too."""
    spelt_out = _SHORT_FLOPS.sub(r"\1flop", text.casefold())
    letters = "".join(c if c.isalnum() else " " for c in spelt_out)
    return letters.split()
