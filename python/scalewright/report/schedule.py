"""How do pipeline schedules compare, and what does each device do in one of them?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.screen import heading, table
from scalewright.report.timeline_text import show_timelines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Schedule, ScheduleRule

_MOST_DRAWN = 3


def show_rules(rules: Iterable[ScheduleRule], screen: Console) -> None:
    """Print the schedules that can be run by their names."""
    rows = table("schedule", "chunks", "steps", "splits", "source")
    for column in rows.columns[2:]:
        column.justify = "left"
    rows.columns[0].no_wrap, rows.columns[4].no_wrap = True, False
    for rule in rules:
        splits = "yes" if rule.splits else "no"
        rows.add_row(rule.name, str(rule.chunks), steps(rule), splits, rule.source)
    screen.print(rows)
    screen.print(
        "chunks: model chunks per device where none are said; steps: flushed where the "
        "pipeline is empty between them, bypassed where a device does not wait for the others' "
        "optimizer, endless where there is no flush; splits: gradients of weights may run apart "
        "from those of inputs"
    )


def steps(rule: ScheduleRule) -> str:
    """Say how a schedule's steps follow one another."""
    if not rule.flushes:
        return "endless"
    return "bypassed" if rule.bypasses else "flushed"


def show_schedules(
    answers: Sequence[Schedule],
    refused: Mapping[str, str],
    title: Sequence[str],
    screen: Console,
) -> None:
    """Print a line for each schedule; of few also drawings, of a single one its devices.

    Args:
        answers: What the engine says of each, on like stages.
        refused: Why others cannot run, by name.
        title: What was asked, a line each; the first is the heading.
        screen: Where to print.
    """
    screen.print(title[0], style="bold")
    for line in title[1:]:
        screen.print(line)
    screen.print()
    _show_steps(answers, screen)
    for name, why in refused.items():
        screen.print(f"{name} cannot run here: {why}")
    if len(answers) == 1:
        _show_devices(answers[0], screen)
    if len(answers) <= _MOST_DRAWN:
        show_timelines([answer.timeline() for answer in answers], screen)


def _show_steps(answers: Sequence[Schedule], screen: Console) -> None:
    columns = {name: [shown(answer) for answer in answers] for name, shown in _COLUMNS.items()}
    if columns["makespan"] == columns["step"]:
        del columns["makespan"]
    # a column in which nothing is out of the ordinary tells nothing
    told = {
        name: cells
        for name, cells in columns.items()
        if name not in _ORDINARY or any(cell != _ORDINARY[name] for cell in cells)
    }
    for name in _FIRST_LEFT_OUT:
        wide = sum(max(map(len, (header, *cells))) + 2 for header, cells in told.items())
        if wide > screen.width:
            told.pop(name, None)
    rows = table(*told)
    rows.columns[0].no_wrap = True
    for cells in zip(*told.values(), strict=True):
        rows.add_row(*cells)
    screen.print(rows)
    notes = [f"{name}: {note}" for name, note in _NOTES.items() if name in told]
    screen.print("; ".join(notes), style="dim")


def _show_devices(answer: Schedule, screen: Console) -> None:
    heading(screen, "Devices")
    rows = table("device", "work", "sends", "idle", "in flight", "versions", "staleness", left=0)
    sends = answer.busy_s - answer.work_s
    for device in range(answer.stages):
        rows.add_row(
            str(device),
            q.time(float(answer.work_s[device])),
            q.time(max(float(sends[device]), 0.0)),
            q.time(max(float(answer.idle_s[device]), 0.0)),
            str(answer.in_flight[device]),
            str(answer.versions[device]),
            str(answer.staleness[device]),
        )
    screen.print(rows)
    chunk = "" if answer.virtual_stages == answer.stages else " of one virtual stage"
    screen.print(f"in flight: most activations held, in micro-batches{chunk}", style="dim")


def _maybe_time(seconds: float | None) -> str:
    return "" if seconds is None else q.time(seconds)


# on a narrow screen; JSON has them all
_FIRST_LEFT_OUT = ("bubble", "bound", "period", "staleness", "makespan", "chunks", "copies", "gap")
_COLUMNS: dict[str, Callable[[Schedule], str]] = {
    "schedule": lambda answer: answer.name,
    "chunks": lambda answer: str(answer.chunks),
    "step": lambda answer: _maybe_time(answer.interval_s),
    "makespan": lambda answer: q.time(answer.makespan_s),
    "simulated": lambda answer: _maybe_time(answer.simulated_s),
    # an exact bound is the makespan by another sum, and may lie above it in the last digit
    "bound": lambda answer: q.time(min(answer.lower_bound_s, answer.makespan_s)),
    "gap": lambda answer: "exact" if answer.bound_is_exact else q.share(answer.relative_gap),
    "period": lambda answer: _maybe_time(answer.period_s),
    "bubble": lambda answer: q.time(answer.bubble_s),
    "of ideal": lambda answer: q.share(answer.bubble_over_ideal),
    "held": lambda answer: f"{float(answer.activations.max()):.4g}",
    "versions": lambda answer: str(answer.versions.max()),
    "copies": lambda answer: str(answer.copies),
    "staleness": lambda answer: str(answer.staleness.max()),
}
_ORDINARY = {"simulated": "", "period": "", "versions": "1", "copies": "1", "staleness": "0"}
_NOTES = {
    "step": "from one step to the next",
    "makespan": "from a step's first operation to its last",
    "gap": "how much longer the makespan is than a bound that no timing can beat",
    "period": "what a micro-batch more adds",
    "of ideal": "time of a step that the device with most work is idle (bubble) over that work",
    "held": "most activations on a device, in micro-batches of a whole stage",
    "versions": "of a device's weights",
    "copies": "of each stage's weights",
    "staleness": "updates between a forward pass and its gradient",
}
