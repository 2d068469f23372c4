"""What does dispatch cost under each controller, and what binds?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.screen import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from scalewright.planning import Controller


def show_controllers(answers: Sequence[Controller], screen: Console) -> None:
    """Print a line for each controller."""
    times = ("step", "exposed", "hidden", "first exposed")
    rows = table("controller", *times, "devices", "hidden from", "binds")
    rows.columns[-1].justify = "left"
    for answer in answers:
        hidden_from = answer.hidden_from_s
        rows.add_row(
            answer.controller.replace("_", " "),
            q.time(answer.step_time_s),
            q.time(answer.exposed_dispatch_s),
            q.time(answer.hidden_dispatch_s),
            q.time(answer.first_exposed_dispatch_s),
            q.share(answer.utilization),
            "never" if hidden_from is None else q.time(hidden_from),
            answer.binds.replace("_", " "),
        )
    screen.print(rows)
    screen.print(
        "exposed, hidden: dispatch of a step that the devices wait for, and that runs beside them; "
        "first exposed: what the first step waits; hidden from: a computation's least time"
    )
