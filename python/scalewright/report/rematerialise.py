"""What does each block of a stage keep, compute again or move, and how good is that?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.job import show_job_and_plan, show_overridden
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Job, Rematerialisation, StageRematerialisation


def show_rematerialisation(
    found: StageRematerialisation,
    job: Job,
    plan: Mapping[str, object],
    stage: int,
    screen: Console,
) -> None:
    """Print the answers, the policies of frameworks, and a line for each run of like blocks."""
    answer = found.answer
    # what is computed again or moved is found here, whatever the plan says
    show_job_and_plan(job, {**plan, "offload_activations": 0}, screen, ("recompute",))
    heading(screen, f"One micro-batch of stage {stage + 1}")
    shared = "" if found.in_flight == 1 else f", {found.in_flight} micro-batches in flight"
    screen.print(f"budget {q.size(found.budget_bytes)}{shared}")
    if found.link is not None:
        rates = (found.link["write_bytes_per_s"], found.link["read_bytes_per_s"])
        away, back = (f"{q.size(rate)}/s" for rate in rates)
        screen.print(f"host link {away} away, {back} back")
    screen.print(f"all passes once {q.time(answer.compute_s)}")
    screen.print()
    _show_answers(answer, screen)
    if answer.choice is not None:
        _show_blocks(found, screen)
    show_overridden(screen, job.model, job.system)


def _show_answers(answer: Rematerialisation, screen: Console) -> None:
    held = [way.peak_bytes for way in (answer.choice, answer.recompute) if way is not None]
    unit, size = _sizes([*held, *(policy.least_bytes for policy in answer.policies)])
    head = ("time", "over passes", "bound", "gap", f"needs at least, {unit}", f"holds, {unit}")
    rows = table("way", *head)
    over = _over(answer.compute_s)
    if answer.choice is not None:
        best = answer.choice
        bound, gap = q.time(best.bound_s), f"{best.relative_gap:.2%}"
        cells = (q.time(best.time_s), over(best.time_s), bound, gap, "", size(best.peak_bytes))
        rows.add_row("best block by block", *cells)
    if answer.recompute is not None:
        best = answer.recompute
        bound, gap = q.time(best.bound_s), f"{best.relative_gap:.2%}"
        sizes = size(best.least_bytes), size(best.peak_bytes)
        cells = (over(best.time_s), bound, gap, *sizes)
        rows.add_row("best recomputation of stretches", q.time(best.time_s), *cells)
    for policy in answer.policies:
        time = policy.time_s
        told = ("does not fit", "") if time is None else (q.time(time), over(time))
        needed = size(policy.least_bytes)
        rows.add_row(f"{_words(policy.retention)} everywhere", *told, "", "", needed, "")
    screen.print(rows)


def _sizes(amounts_bytes: Sequence[float]) -> tuple[str, Callable[[float], str]]:
    """Return the unit that suits the largest amount, and what writes an amount in it."""
    unit, length_bytes = q.size_unit(max(amounts_bytes))

    def size(amount_bytes: float) -> str:
        return f"{amount_bytes / length_bytes:,.2f}" if amount_bytes > 0 else "0"

    return unit, size


def _over(compute_s: float) -> Callable[[float], str]:
    """Return what says how much longer than the passes a time is."""

    def over(time_s: float) -> str:
        # sums in another order may differ in the last bits
        return q.share(max(time_s / compute_s - 1.0, 0.0)) if compute_s > 0 else ""

    return over


def _show_blocks(found: StageRematerialisation, screen: Console) -> None:
    choice = found.answer.choice
    if choice is None:
        return
    heading(screen, "Blocks")
    decided = list(zip(found.names, found.blocks, choice.blocks, strict=True))
    unit, size = _sizes([block["kept_bytes"] for block in found.blocks])
    amounts = (f"{what}, {unit}" for what in ("kept", "stays", "moves"))
    rows = table("blocks", "kind", "choice", "forward", "backward", *amounts, left=3)
    begin = 0
    while begin < len(decided):
        name, block, decision = decided[begin]
        end = begin + 1
        while end < len(decided) and (
            (decided[end][0], decided[end][2].retention) == (name, decision.retention)
            and decided[end][1] == block
        ):
            end += 1
        rows.add_row(
            str(begin) if end == begin + 1 else f"{begin} to {end - 1}",
            name.replace("_", " "),
            _words(decision.retention),
            q.time(block["forward_s"]),
            q.time(block["backward_s"]),
            size(block["kept_bytes"]),
            size(decision.held_bytes),
            size(decision.moved_bytes),
        )
        begin = end
    screen.print(rows)
    screen.print(
        f"computed again {q.time(choice.again_s)}, waits for the link {q.time(choice.wait_s)}, "
        f"moves {q.size(choice.moved_bytes)} each way; simulated {q.time(choice.simulated_s)}"
    )


def _words(retention: str) -> str:
    return retention.replace("_", " ")
