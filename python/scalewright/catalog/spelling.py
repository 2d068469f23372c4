"""Which system of the catalog does a paper's spelling of its hardware mean?"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from scalewright.catalog.layers import built_in_root

_FILE = "hardware_names.csv"


@dataclass(frozen=True)
class Spelling:
    """How one source writes its hardware."""

    text: str
    """As written in the source."""
    system: str | None
    """Catalog name of the system; none where the text does not mean one cluster."""
    device: str | None
    """Catalog name of the device, where it is known."""
    devices_per_node: int | None
    """Devices in one chassis."""
    note: str
    """What to mind: cores or chips, limits of the match, or why there is no system."""


def spellings() -> dict[str, Spelling]:
    """Return every known spelling of published hardware by its text."""
    text = (built_in_root() / _FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return {row["spelling"]: _spelling(row) for row in rows}


def _spelling(row: dict[str, str]) -> Spelling:
    count = row["devices_per_node"]
    return Spelling(
        text=row["spelling"],
        system=row["system"] or None,
        device=row["device"] or None,
        devices_per_node=int(count) if count else None,
        note=row["note"],
    )
