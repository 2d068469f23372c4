"""Which model of the catalog does a paper's spelling of its model mean?"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from scalewright.catalog.layers import built_in_root

_FILE = "model_names.csv"


@dataclass(frozen=True)
class ModelSpelling:
    """How one source writes its model."""

    text: str
    """As written in the source."""
    model: str | None
    """Catalog name of the model; none where the catalog cannot hold it."""
    note: str
    """What to mind: what the row changes in the shape, or why there is no model."""


def model_spellings() -> dict[str, ModelSpelling]:
    """Return every known spelling of published models by its text."""
    text = (built_in_root() / _FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return {
        row["spelling"]: ModelSpelling(row["spelling"], row["model"] or None, row["note"])
        for row in rows
    }
