"""Which plan do Megatron-LM arguments ask for?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scalewright.export.layout import layer_split
from scalewright.export.megatron.plan_arguments import ORDERS, STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.export.megatron.options import Options

_LAYOUT = "pipeline-model-parallel-layout"
_EACH = "num-layers-per-virtual-pipeline-stage"
_CHUNKS = "num-virtual-stages-per-pipeline-rank"
_ENDS = ("account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split")
_FIRST_LAST = ("decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers")
_METHOD, _RECOMPUTED = "recompute-method", "recompute-num-layers"
_REPEATED = re.compile(r"(?:\(([^()]*)\)|(\w))\*(\d{1,4})")
_MOST_TEXT = 2**16


def read_plan(options: Options) -> dict[str, Any]:
    """Return the fields of the plan, `data` only where the devices are known.

    Raises:
        InvalidError: An argument is wrong, or arguments contradict one another.
    """
    tensor = options.count("tensor-model-parallel-size", 1)
    plan: dict[str, Any] = {
        "tensor": tensor,
        "pipeline": options.count("pipeline-model-parallel-size", 1),
        "context": options.count("context-parallel-size", 1),
        "expert": options.count("expert-model-parallel-size", 1),
        "micro_batch": options.count("micro-batch-size"),
        # Megatron-LM switches it off where there is one tensor rank
        "sequence_parallel": options.has("sequence-parallel") and tensor > 1,
    }
    if options.has("num-experts"):
        ranks = options.count("expert-tensor-parallel-size", tensor)
        plan["expert_tensor"] = 0 if ranks == tensor else ranks
    if options.devices is not None:
        ranks = tensor * plan["pipeline"] * plan["context"]
        if options.devices % ranks:
            allowed = f"sizes whose product ({ranks}) divides the {options.devices} devices"
            raise options.wrong(name="tensor-model-parallel-size", allowed=allowed)
        plan["data"] = options.devices // ranks
    plan |= _order(options, plan) | _schedule(options, plan["pipeline"])
    return plan | _recompute(options, plan) | _sharding(options, plan)


def _order(options: Options, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Read which axis lies inside of which, where that matters."""
    mapped = [order for order, switch in ORDERS.items() if switch and options.has(switch)]
    if not mapped or plan["pipeline"] == 1 or plan.get("data") == 1:
        return {}
    if plan["context"] > 1:
        allowed = f"1 with --{ORDERS[mapped[0]]}: a plan keeps context and data side by side"
        raise options.wrong(name="context-parallel-size", allowed=allowed)
    return {"axis_order": mapped[0]}


def _recompute(options: Options, plan: Mapping[str, Any]) -> dict[str, Any]:
    usual = "selective" if options.has("recompute-activations") else "none"
    kinds = {kind: kind for kind in ("selective", "full")} | {usual: usual}
    found = options.choice("recompute-granularity", kinds, usual)
    leading = options.count(_RECOMPUTED, 1)
    if options.text(_METHOD) == "block" and found == "full":
        ends = plan.get("first_layers", 0), plan.get("last_layers", 0)
        chunks = plan["interleave"]
        split = layer_split(options.count("num-layers"), plan["pipeline"], chunks, ends)
        if options.has(_LAYOUT) and leading >= min(split):
            options.drop(_RECOMPUTED)  # which stages are all of it depends on the layout
        return {"recompute": found, "recompute_layers": 0 if leading >= max(split) else leading}
    if options.text(_METHOD) == "block" or leading > 1:
        # how long the runs between two kept inputs are is nothing that a plan says
        options.drop(_METHOD, _RECOMPUTED)
    return {"recompute": found}


def _schedule(options: Options, pipeline: int) -> dict[str, Any]:
    chunks = _chunks(options, pipeline) if pipeline > 1 else 1
    interleaved = chunks > 1
    return _ends(options, pipeline, chunks) | {
        "interleave": chunks,
        "schedule": "interleaved" if interleaved else "1f1b",
        "overlap_pipeline": interleaved and not options.has("no-overlap-p2p-communication"),
    }


def _chunks(options: Options, pipeline: int) -> int:
    """Read how many virtual stages a rank has."""
    if options.has(_LAYOUT):
        return _layout_chunks(options, pipeline)
    if not options.has(_EACH):
        return options.count(_CHUNKS, 1)
    layers = options.count("num-layers") + sum(options.has(name) for name in _ENDS)
    chunks, rest = divmod(layers, pipeline * options.count(_EACH))
    if rest or not chunks:
        allowed = f"a number that with {pipeline} stages divides the {layers} layers"
        raise options.wrong(_EACH, allowed)
    return chunks


def _layout_chunks(options: Options, pipeline: int) -> int:
    """Count the virtual stages of a layout such as `Et|(tt|)*6L`."""
    text = options.text(_LAYOUT).replace(" ", "")
    while (found := _REPEATED.search(text)) and len(text) <= _MOST_TEXT:
        part = found[1] if found[1] is not None else found[2]
        if len(part) * int(found[3]) > _MOST_TEXT:
            break
        text = text[: found.start()] + part * int(found[3]) + text[found.end() :]
    chunks, rest = divmod(text.count("|") + 1, pipeline)
    if rest or _REPEATED.search(text):
        raise options.wrong(_LAYOUT, f"a multiple of the {pipeline} stages")
    options.drop(_LAYOUT)  # how many layers each stage has is the engine's to deal
    return chunks


def _ends(options: Options, pipeline: int, chunks: int) -> dict[str, Any]:
    """Read the layers of the ends; note arguments that deal them as no plan does."""
    layers = options.count("num-layers")
    first, middle, last = layer_split(layers, pipeline, chunks)
    if options.has(*_FIRST_LAST):
        given = [options.count(name) if options.has(name) else 0 for name in _FIRST_LAST]
        if chunks > 1 or pipeline == 1:
            # of several chunks it counts the layers of a rank, which all its chunks share
            options.drop(*_FIRST_LAST)
        elif layer_split(layers, pipeline, 1, (given[0], given[1])) != (first, middle, last):
            return {"first_layers": given[0], "last_layers": given[1]}
    elif options.has(*_ENDS):
        less = [int(options.has(name)) for name in _ENDS]
        if less != [middle - first, middle - last]:
            options.drop(*_ENDS)
    return {}


def _sharding(options: Options, plan: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "zero": _zero(options),
        "overlap_grad_reduce": options.has("overlap-grad-reduce"),
        "overlap_param_gather": options.has("overlap-param-gather"),
    }
    copies = options.count("num-distributed-optimizer-instances", 1)
    if copies > 1 and "data" in plan:
        ranks, rest = divmod(plan["data"] * plan["context"], copies)
        if rest or not ranks:
            allowed = f"a divisor of context x data = {plan['data'] * plan['context']}"
            raise options.wrong(name="num-distributed-optimizer-instances", allowed=allowed)
        found["zero_group"] = ranks
    elif copies > 1:
        options.drop("num-distributed-optimizer-instances")
    return found


def _zero(options: Options) -> int:
    plain = 1 if options.has("use-distributed-optimizer") else 0
    if options.has("use-torch-fsdp2"):
        return 2 if options.has("torch-fsdp2-no-reshard-after-forward") else 3
    if not options.has("use-megatron-fsdp", "use-custom-fsdp"):
        return plain
    strategies = {"no_shard": 0, "optim": 1} | {word: zero for zero, word in STRATEGIES.items()}
    return options.choice("data-parallel-sharding-strategy", strategies, "no_shard")
