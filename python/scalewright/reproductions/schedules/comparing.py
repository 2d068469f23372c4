"""What do all published results of schedules come to, and how far out is each table?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.reproductions.claims import summed
from scalewright.reproductions.schedules.chimera import chimera
from scalewright.reproductions.schedules.formulas import formulas
from scalewright.reproductions.schedules.freezing import freezing
from scalewright.reproductions.schedules.megatron import megatron
from scalewright.reproductions.schedules.relay import relay
from scalewright.reproductions.schedules.swarm import swarm
from scalewright.reproductions.schedules.terapipe import terapipe
from scalewright.reproductions.schedules.zero_bubble import zero_bubble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Result = dict[str, Any]
TABLES: dict[str, Callable[[], Iterator[Result]]] = {
    "formulas": formulas,
    "terapipe": terapipe,
    "megatron": megatron,
    "zero_bubble": zero_bubble,
    "chimera": chimera,
    "pipetransformer": freezing,
    "l2l": relay,
    "swarm": swarm,
}
"""What is compared, in the order in which it is shown."""


def run(progress: Callable[[int, int], object] | None = None) -> Result:
    """Predict every row.

    Returns:
        `rows`, each with its prediction or the reason for none, and a `summary` by table.

    Args:
        progress: Called with tables done and tables in all.
    """
    found: list[Result] = []
    for done, predict in enumerate(TABLES.values()):
        if progress is not None:
            progress(done, len(TABLES))
        found += predict()
    if progress is not None:
        progress(len(TABLES), len(TABLES))
    groups = [[row for row in found if row["table"] == table] for table in TABLES]
    lines = [summed(table, rows) for table, rows in zip(TABLES, groups, strict=True)]
    measured = [row for row in found if row["table"] != "formulas"]
    totals = {"measured": summed("all but formulas", measured), "all": summed("all", found)}
    return {"rows": found, "summary": {"by_table": lines, **totals}}
