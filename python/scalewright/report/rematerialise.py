"""What does each block of a stage keep, compute again or move, and how good is that?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from scalewright.planning import Rematerialisation, StageRematerialisation


def show_rematerialisation(found: StageRematerialisation, title: str, screen: Console) -> None:
    """Print the answers, the policies of frameworks, and a line for each run of like blocks."""
    answer = found.answer
    screen.print(title, style="bold")
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


def _show_answers(answer: Rematerialisation, screen: Console) -> None:
    rows = table("way", "time", "over passes", "bound", "gap", "needs at least", "holds")
    over = _over(answer.compute_s)
    if answer.choice is not None:
        best = answer.choice
        bound, gap = q.time(best.bound_s), f"{best.gap:.2%}"
        cells = (q.time(best.time_s), over(best.time_s), bound, gap, "", q.size(best.peak_bytes))
        rows.add_row("best block by block", *cells)
    if answer.recompute is not None:
        best = answer.recompute
        bound, gap, least = q.time(best.bound_s), f"{best.gap:.2%}", q.size(best.least_bytes)
        cells = (over(best.time_s), bound, gap, least, q.size(best.peak_bytes))
        rows.add_row("best recomputation of stretches", q.time(best.time_s), *cells)
    for policy in answer.policies:
        time = policy.time_s
        told = ("does not fit", "") if time is None else (q.time(time), over(time))
        least = q.size(policy.least_bytes)
        rows.add_row(f"{_words(policy.retention)} everywhere", *told, "", "", least, "")
    screen.print(rows)


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
    rows = table(
        "blocks", "kind", "choice", "forward", "backward", "kept", "stays", "moves", left=3
    )
    decided = list(zip(found.names, found.blocks, choice.blocks, strict=True))
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
            q.size(block["kept_bytes"]),
            q.size(decision.held_bytes),
            q.size(decision.moved_bytes),
        )
        begin = end
    screen.print(rows)
    screen.print(
        f"computed again {q.time(choice.again_s)}, waits for the link {q.time(choice.wait_s)}, "
        f"moves {q.size(choice.moved_bytes)} each way; simulated {q.time(choice.simulated_s)}"
    )


def _words(retention: str) -> str:
    return retention.replace("_", " ")
