"""In which blocks does one device generate text with a model that is too large for its memory?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, cast

from scalewright import _engine
from scalewright.config import json_text, need
from scalewright.errors import InvalidError
from scalewright.planning.arguments import known_names
from scalewright.planning.inputs import Model, System
from scalewright.planning.inputs import model as read_model
from scalewright.planning.inputs import system as read_system
from scalewright.planning.stamp import Answer, stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    Counts = int | Sequence[int]


@dataclass(frozen=True)
class Served:
    """A model that a device of a system generates text with.

    Attributes:
        model: The model.
        system: The machines.
    """

    model: Model
    system: System

    def stamp(self) -> dict[str, object]:
        """Return what an answer rests on."""
        files = dict.fromkeys([*self.system.overrides, *self.model.overrides])
        return {
            **stamp(tuple(files)),
            "overridden_constants": [*self.model.overridden, *self.system.overridden],
            "model": self.model.name,
            "system": self.system.name,
        }


@dataclass(frozen=True)
class FilledMemory:
    """What a memory holds at most in a phase.

    Attributes:
        tier: Name of the memory.
        phase: `prefill` or `decode`.
        total_bytes: What it holds.
        capacity_bytes: What it may hold.
        worth: The part by which the block's seconds fall for each part by which this memory grows,
            at this batch and number of batches; 0 where it does not bind.
    """

    tier: str
    phase: str
    total_bytes: float
    capacity_bytes: float
    worth: float


@dataclass(frozen=True)
class BusyLanes:
    """How long lanes are busy for one layer in a phase.

    Attributes:
        lanes: Their names; those of more than one run one after another.
        phase: `prefill` or `decode`.
        time_s: Of one layer: of all prompts, or of a token for every sequence.
        worth: The part by which the block's seconds fall for each part by which these lanes are
            faster.
    """

    lanes: tuple[str, ...]
    phase: str
    time_s: float
    worth: float


@dataclass(frozen=True)
class ServingBlock(Answer):
    """A block of sequences that generate together, and where its tensors lie.

    Attributes:
        fits: False where it does not fit; of a search: where no block fits.
        batch: Sequences of a batch on the device.
        batches: Batches of a block, all of which a layer's weights serve before the next layer
            comes.
        time_s: Until all sequences of the block have all their tokens.
        tokens_per_s: Generated tokens in a second.
        most_tokens_per_s: Proven: no block and no shares generate more; None for a policy that was
            given.
        relative_gap: How far `tokens_per_s` may be below that, as a part of it.
        layer_s: Seconds of one layer while prompts are read, and of one layer for each token.
        weights: Share of the weights by memory.
        cache: Share of the keys and values, and of the states of scans, by memory.
        cache_by_host: Of it, what the host attends to.
        states: Share of the hidden states between layers by memory.
        memory: Every memory in each phase.
        lanes: Every group of lanes that is busy, in each phase.
        programs: Linear programs that were solved.
        boxes: Boxes of batches and numbers of batches that were looked at.
        problem: What was solved; `serving_blocks(problem=...)` takes it, changed or not.
    """

    fits: bool
    batch: int
    batches: int
    time_s: float
    tokens_per_s: float
    most_tokens_per_s: float | None
    relative_gap: float | None
    layer_s: tuple[float, float]
    weights: Mapping[str, float]
    cache: Mapping[str, float]
    cache_by_host: Mapping[str, float]
    states: Mapping[str, float]
    memory: tuple[FilledMemory, ...]
    lanes: tuple[BusyLanes, ...]
    programs: int
    boxes: int
    problem: Mapping[str, Any]


def serving_problem(
    model: Model | str,
    system: System | str,
    *,
    prompt: int,
    generated: int,
    weights: str = "fp16",
    cache: str = "fp16",
    usable: float = 0.9,
    attention: str = "either",
    flash_attention: bool = True,
    host_attention: float | str | None = None,
    batch: Counts | None = None,
    batches: Counts | None = None,
    relative_gap: float = 1e-7,
) -> dict[str, Any]:
    """Return the problem that generating text with a model on one device of a system poses.

    Args:
        model: A catalog name or what `scalewright.model` returns; a decoder.
        system: A catalog name, of which one device works, or what `scalewright.system` returns.
        prompt: Tokens of each prompt.
        generated: Tokens generated for each prompt.
        weights: Format of the weights.
        cache: Format of keys and values.
        usable: Share of each memory that may be filled.
        attention: Who attends to cache outside the device: `host`, `device` or `either`.
        flash_attention: The device attends by a fused kernel, which keeps no scores in memory;
            without it the scores of a batch's whole prompts lie there at once.
        host_attention: Cache that the host attends to in a second, in bytes or as "12 GB/s"; as
            fast as its memory is read where left out.
        batch: Sequences of a batch, or the fewest and the most; any where left out.
        batches: Batches of a block, or the fewest and the most.
        relative_gap: Relative gap to the proven bound at which the search ends.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    model, system = _read(model, system)
    asked: dict[str, object] = {
        "prompt": prompt,
        "generated": generated,
        "weights": weights,
        "cache": cache,
        "usable": usable,
        "attention": attention,
        "flash_attention": flash_attention,
        "host_attention": host_attention,
        "relative_gap": relative_gap,
    }
    for field, counts in (("batch", batch), ("batches", batches)):
        if counts is not None:
            asked[field] = _range(field, counts)
    text = json_text("", asked)
    return json.loads(_engine.serving_problem(model.workload, system.cluster, text))


def serving_blocks(
    model: Model | str | None = None,
    system: System | str | None = None,
    *,
    problem: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    **asked: Any,  # noqa: ANN401 - the options of serving_problem
) -> ServingBlock:
    """Find the block and the places of its tensors that generate the most tokens in a second.

    A model's weights, keys and values, and hidden states lie in shares on the device, in the host's
    memory and beyond; loads, stores and compute of a layer run side by side (Sheng et al. 2023).
    The answer is exact: its bound holds for every batch, number of batches and share.

    Args:
        model: A catalog name or what `scalewright.model` returns.
        system: A catalog name or what `scalewright.system` returns.
        problem: In the place of model and system: what `serving_problem` returns, changed or not.
        policy: `batch`, `batches` and shares by memory in `weights`, `cache` and `states`: priced
            as it is, and nothing is searched.
        asked: `prompt`, `generated` and whatever else `serving_problem` takes.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    rests_on = None
    if problem is None:
        if model is None or system is None:
            message = "model, system: got nothing; allowed: both, or a problem"
            raise InvalidError(message)
        _check_asked(asked)
        rests_on = Served(*_read(model, system))
        problem = serving_problem(rests_on.model, rests_on.system, **asked)
    elif model is not None or system is not None or asked:
        message = "problem: got more beside it; allowed: a problem, or a model and a system"
        raise InvalidError(message)
    need("problem", problem, Mapping, "what scalewright.serving_problem(...) returns")
    text = json_text("problem", dict(problem))
    if policy is None:
        found = json.loads(_engine.serving_blocks(text))
    else:
        need("policy", policy, Mapping, "batch, batches, weights, cache and states")
        found = json.loads(_engine.serving_policy(text, json_text("policy", dict(policy))))
    return _block(found, problem, rests_on)


def _read(model: Model | str, system: System | str) -> tuple[Model, System]:
    """Return a model, and a system of one device where it is named."""
    if not isinstance(model, Model):
        model = read_model(model)
    return model, system if isinstance(system, System) else read_system(system, 1)


def _check_asked(asked: Mapping[str, object]) -> None:
    """Refuse arguments that `serving_problem` does not take, and a lack of those it needs.

    Raises:
        UnknownNameError: It takes no argument of a name.
        InvalidError: One that it needs is missing.
    """
    taken = signature(serving_problem).parameters
    options = [name for name, of in taken.items() if of.kind is of.KEYWORD_ONLY]
    known_names("asked", asked, options)
    for name in options:
        if taken[name].default is Parameter.empty and name not in asked:
            message = f"{name}: got nothing; allowed: a number of tokens, or a problem"
            raise InvalidError(message)


def _block(
    found: dict[str, Any], problem: Mapping[str, Any], rests_on: Served | None
) -> ServingBlock:
    memory = tuple(FilledMemory(**of) for of in found.pop("memory"))
    busy: list[dict[str, Any]] = found.pop("lanes")
    lanes = tuple(BusyLanes(lanes=tuple(of.pop("lanes")), **of) for of in busy)
    layer_s = tuple(found.pop("layer_s"))
    return ServingBlock(
        **found, memory=memory, lanes=lanes, layer_s=layer_s, problem=problem, _rests_on=rests_on
    )


def _range(field: str, counts: object) -> list[int]:
    """Return the fewest and the most.

    Raises:
        InvalidError: There are more or fewer than two.
    """
    if isinstance(counts, int) and not isinstance(counts, bool):
        return [counts, counts]
    if isinstance(counts, (list, tuple)) and len(cast("list[Any]", counts)) == 2:
        return list(cast("list[int]", counts))
    message = f"{field}: got {counts!r:.60}; allowed: a count, or the fewest and the most"
    raise InvalidError(message)
