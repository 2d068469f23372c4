"""How does an answer leave: as JSON, as settings of a framework, with progress meanwhile?"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scalewright.config import json_text
from scalewright.errors import InvalidError
from scalewright.planning import explain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Generator

    from scalewright.planning import Estimate


def show_json(answer: dict[str, Any], explained: Estimate | None = None) -> None:
    """Print an answer as JSON, with the explanation of an estimate where one is given."""
    if explained is not None:
        answer = {**answer, "explanation": explain(explained)}
    print(json_text("answer", answer, indent=2))


def refuse_two_formats(options: argparse.Namespace) -> None:
    """Refuse JSON beside the settings of a framework: standard output holds one of them.

    Raises:
        InvalidError: Both were asked for.
    """
    if options.export and options.json:
        got = "--json: got it beside --export, which prints a file of another program"
        message = f"{got}; allowed: one of them"
        raise InvalidError(message)


def show_estimate_extras(priced: Estimate, options: argparse.Namespace) -> int:
    """Print what was asked for beside the tables: settings of a framework, or the explanation."""
    if options.export:
        from scalewright.export import write

        job = priced.job
        held = {**priced.values, "devices_per_node": job.system.table["devices_per_node"]}
        text = write(options.export, held, dict(job.model.table), job.training.to_dict())
        print(text, end="" if text.endswith("\n") else "\n")
        return 0 if priced.fits else 3
    from scalewright.report import console, show_explanation

    show_explanation(explain(priced), console())
    return 0


@contextmanager
def progress_bar(what: str) -> Generator[Callable[[int, int], None] | None]:
    """Show a bar on standard error where that is a terminal; yields what reports progress."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None, counts="")

        def report(done: int, total: int) -> None:
            shown = progress.tasks[0]
            if done < shown.completed:
                progress.reset(task)  # the next stage of the work begins
            rate = "" if shown.speed is None else f", {shown.speed:,.0f}/s"
            counts = f"{done:,} of {total:,}{rate}"
            progress.update(task, completed=done, total=total, counts=counts)

        yield report
