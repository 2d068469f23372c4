"""How does a person read the published results of schedules beside the predictions?"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from scalewright.reproductions.claim_tables import show_summary, show_table

if TYPE_CHECKING:
    from rich.console import Console

Result = dict[str, Any]
_TITLES = {
    "formulas": "Formulas of papers beside the count over every operation",
    "terapipe": "TeraPipe: steps of pipelines over tokens on V100",
    "megatron": "Megatron-LM: interleaving and split sends",
    "zero_bubble": "Zero Bubble: schedules that split the backward pass",
    "chimera": "Chimera and others on Piz Daint",
    "l2l": "L2L: layers from the host",
    "pipetransformer": "PipeTransformer: layers that freeze",
    "swarm": "SWARM: devices that wait for slow networks",
}


def show(result: Result, console: Console) -> None:
    """Print what `run` made."""
    for table, rows in groupby(result["rows"], key=lambda row: row["table"]):
        show_table(_TITLES[table], list(rows), console)
        console.print()
    summary = result["summary"]
    lines = [*summary["by_table"], summary["measured"], summary["all"]]
    show_summary(lines, "table", console)
