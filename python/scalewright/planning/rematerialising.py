"""What should a chain of blocks keep, compute again or move away, and is that proven?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scalewright import _engine
from scalewright.config import completed, json_text, named_as, need, need_count, plan_fields
from scalewright.errors import InvalidError
from scalewright.planning.job import Job
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalewright.config import Training
    from scalewright.planning.asking import AnyPlan
    from scalewright.planning.inputs import Model, System

SLOTS, WIDTH = 500, 512
"""Slots of a budget, and choices followed side by side, where nothing is said."""


class BlockPass(NamedTuple):
    """A pass and its block.

    Attributes:
        name: `forward`, `forward_keep_input`, `forward_keep_all`, `forward_keep_part` or
            `backward`.
        block: The block, from 0.
    """

    name: str
    block: int


@dataclass(frozen=True)
class Recomputation:
    """The best schedule of a chain that only computes again, whole stretches if need be.

    Attributes:
        time_s: Seconds of all passes with those that run again.
        bound_s: What no such schedule beats.
        relative_gap: How much longer it takes than the bound, as a share of it; 0 where it is
            proven best.
        peak_bytes: Most bytes held.
        least_bytes: The least budget in which any such schedule runs.
        operations: Passes in order, each with its block.
    """

    time_s: float
    bound_s: float
    relative_gap: float
    peak_bytes: float
    least_bytes: float
    operations: tuple[BlockPass, ...]


@dataclass(frozen=True)
class Decision:
    """What becomes of one block's kept tensors; spans are starts and ends in seconds.

    Attributes:
        retention: `keep`, `partial`, `recompute`, `swap`, `swap_partial` or `swap_input`.
        held_bytes: What of them stays.
        moved_bytes: What of them leaves and comes back.
        forward_s: The forward pass.
        backward_s: With what is computed again.
        write_s: What leaves; none where nothing does.
        read_s: What comes back; likewise.
    """

    retention: str
    held_bytes: float
    moved_bytes: float
    forward_s: tuple[float, float]
    backward_s: tuple[float, float]
    write_s: tuple[float, float] | None
    read_s: tuple[float, float] | None


@dataclass(frozen=True)
class BlockChoices:
    """The best choice for each block by itself.

    Attributes:
        time_s: Seconds of all passes with what is computed again and waited for.
        simulated_s: The same passes and copies as simulated tasks: the witness of `time_s`.
        bound_s: What no such choice beats.
        relative_gap: How much longer it takes than the bound, as a share of it; 0 where it is
            proven best.
        peak_bytes: Most bytes held.
        again_s: Passes run again.
        wait_s: Passes wait for the link.
        moved_bytes: What leaves and comes back.
        blocks: What becomes of each block, in order.
    """

    time_s: float
    simulated_s: float
    bound_s: float
    relative_gap: float
    peak_bytes: float
    again_s: float
    wait_s: float
    moved_bytes: float
    blocks: tuple[Decision, ...]


@dataclass(frozen=True)
class Policy:
    """One retention for all blocks that it is open to; the others keep all.

    Attributes:
        retention: As in `Decision`.
        time_s: None where it does not fit in the budget.
        least_bytes: The least budget that it fits in.
    """

    retention: str
    time_s: float | None
    least_bytes: float


@dataclass(frozen=True)
class Rematerialisation(Answer):
    """What a chain should keep, compute again or move within a budget.

    Attributes:
        compute_s: All passes, each once: what no answer beats.
        recompute: None where the budget is too small to compute again alone.
        choice: None where no choice block by block fits.
        policies: Each retention for all blocks that it is open to.
    """

    compute_s: float
    recompute: Recomputation | None
    choice: BlockChoices | None
    policies: tuple[Policy, ...]


@dataclass(frozen=True)
class StageRematerialisation(Answer):
    """The chain of one stage of a plan, one micro-batch long, and what it should do.

    Attributes:
        stage: The stage, from 0.
        names: Names of the blocks.
        blocks: Their times and sizes, as `rematerialise` takes them.
        budget_bytes: Bytes that a rank of the stage may keep.
        output_bytes: What the stage hands on.
        link: Rates to the host and back.
        in_flight: Micro-batches that share the memory which the plan leaves.
        answer: What its ranks keep, compute again and move.
    """

    stage: int
    names: tuple[str, ...]
    blocks: tuple[dict[str, Any], ...]
    budget_bytes: float
    output_bytes: float
    link: dict[str, float] | None
    in_flight: int
    answer: Rematerialisation


def rematerialise(
    blocks: Sequence[Mapping[str, object]],
    budget_bytes: float,
    *,
    link: Mapping[str, float] | None = None,
    output_bytes: float = 0.0,
    slots: int = SLOTS,
    width: int = WIDTH,
) -> Rematerialisation:
    """Find what a chain of blocks should keep, compute again or move in a memory budget.

    Two questions are answered. The best schedule that only computes again may run whole stretches
    of blocks anew from an input that was kept. The best choice block by block keeps a block's
    tensors, computes it again from its input, or, with a link, moves them away and back beside the
    passes. Each answer has a bound, and is proven best where its gap is 0.

    Args:
        blocks: In the order of the forward pass, each with `forward_s`, `backward_s`,
            `input_bytes`, `kept_bytes` (all that its backward pass reads, the input included) and,
            where there are any, `forward_working_bytes`, `backward_working_bytes`, `partial` (a way
            to keep only `kept_bytes` for `again_s` more) and `repeats`: False where a block is
            never computed again.
        budget_bytes: Memory for kept tensors, gradients between blocks and working sets.
        link: `write_bytes_per_s` and `read_bytes_per_s` of a link to a farther memory.
        output_bytes: The chain's output; 0 where the last block is the loss.
        slots: Slots into which the budget is cut for recomputation alone; more narrow its gap.
        width: Choices that are followed side by side; more narrow the gap of choices.

    Raises:
        ScalewrightError: A value is wrong, or nothing runs in the budget; says the least budget.
    """
    need("blocks", blocks, (list, tuple), "a list of blocks")
    asked = {
        "blocks": [_fields(f"blocks[{place}]", block) for place, block in enumerate(blocks)],
        "budget_bytes": budget_bytes,
        "output_bytes": output_bytes,
        "link": None if link is None else _fields("link", link),
        "slots": need_count("slots", slots),
        "width": need_count("width", width),
    }
    return _answer(json.loads(_engine.rematerialise(json_text("", asked))))


def rematerialise_stage(
    model: Model,
    system: System,
    plan: AnyPlan,
    training: Training,
    *,
    stage: int = 0,
    budget_bytes: float | str | None = None,
    offload: bool = True,
    slots: int = SLOTS,
    width: int = WIDTH,
) -> StageRematerialisation:
    """Find what a stage of a plan should keep, compute again or move to its host.

    The chain is one micro-batch through the blocks of the stage, at the prices of `estimate`:
    without sends, and without the traffic of sharded weights. Layers may be computed again, whole
    or selectively; embedding and head never are. What the plan says of `recompute` and
    `offload_activations` is left aside.

    Args:
        model: What `scalewright.model` returns.
        system: What `scalewright.system` returns.
        plan: The plan, as in `estimate`; one chunk a stage.
        training: Batch, sequence, formats.
        stage: Pipeline stage, from 0.
        budget_bytes: Memory for one micro-batch, as a number or as `"20 GiB"`; left out, an equal
            share for each micro-batch in flight of what the plan leaves.
        offload: Whether tensors may move to host memory; False where the system has none.
        slots: See `rematerialise`.
        width: See `rematerialise`.

    Raises:
        ScalewrightError: A value is wrong, the plan breaks a rule, or nothing runs in the budget.
    """
    return rematerialise_job(
        Job(model, system, training),
        plan,
        stage=stage,
        budget_bytes=budget_bytes,
        offload=offload,
        slots=slots,
        width=width,
    )


def rematerialise_job(
    job: Job,
    plan: AnyPlan,
    *,
    stage: int = 0,
    budget_bytes: float | str | None = None,
    offload: bool = True,
    slots: int = SLOTS,
    width: int = WIDTH,
) -> StageRematerialisation:
    """Find what a stage of a plan should keep for a job; see `rematerialise_stage`."""
    need("offload", offload, bool, "True or False")
    asked = {
        "stage": need_count("stage", stage, 0),
        "budget_bytes": budget_bytes,
        "offload": offload,
        "slots": need_count("slots", slots),
        "width": need_count("width", width),
    }
    chosen = json_text("plan", completed(plan_fields(plan), job.system.devices))
    text = json_text("", asked)
    left = "memory of the device that the plan leaves to a micro-batch"
    with named_as({} if budget_bytes is not None else {"budget_bytes": left}):
        try:
            found = json.loads(_engine.rematerialise_stage(job.handle, chosen, text))
        except InvalidError as error:
            # the engine refuses offload itself for one reason alone: tensors have nowhere to go
            raise (_no_host(job) if str(error).startswith("offload: ") else error) from error
    chain = found["chain"]
    return StageRematerialisation(
        stage=stage,
        names=tuple(found["names"]),
        blocks=tuple(chain["blocks"]),
        budget_bytes=chain["budget_bytes"],
        output_bytes=chain["output_bytes"],
        link=chain["link"],
        in_flight=found["in_flight"],
        answer=_answer(found["answer"]),
        _rests_on=job,
    )


def _no_host(job: Job) -> InvalidError:
    """Return the refusal of moves to a host that is not there, with what to do."""
    system = job.system
    return InvalidError(
        f"offload: got true, but system {system.name} has no [host] with memory, memory_bandwidth "
        "and link_bandwidth, to which tensors could move; allowed: false (--no-offload), or a "
        "system file that gives it one"
    )


def _fields(field: str, value: Mapping[str, object]) -> dict[str, object]:
    """Return a mapping's fields.

    Raises:
        InvalidError: It is none.
    """
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        message = f"{field}: got {value!r:.60}; allowed: fields with their values"
        raise InvalidError(message)
    return dict(value)


def _answer(found: dict[str, Any]) -> Rematerialisation:
    again, choice = found["recompute"], found["choice"]
    if again is not None:
        passes = tuple(
            BlockPass(passed["pass"], passed["block"]) for passed in again.pop("operations")
        )
        again = Recomputation(operations=passes, **again)
    if choice is not None:
        blocks = tuple(_decision(block) for block in choice.pop("blocks"))
        choice = BlockChoices(blocks=blocks, **choice)
    policies = tuple(Policy(**policy) for policy in found["policies"])
    return Rematerialisation(found["compute_s"], again, choice, policies)


def _decision(found: dict[str, Any]) -> Decision:
    copies = [found[name] and _span(found[name]) for name in ("write", "read")]
    return Decision(
        found["retention"],
        found["held_bytes"],
        found["moved_bytes"],
        _span(found["forward"]),
        _span(found["backward"]),
        *copies,
    )


def _span(found: dict[str, float]) -> tuple[float, float]:
    return found["start_s"], found["end_s"]
