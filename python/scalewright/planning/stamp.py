"""What does an answer rest on: which engine, which catalog?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright import _engine
from scalewright.catalog import catalog_hash

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SCHEMA_VERSION = 1
"""Version of every JSON answer; it grows when a key changes its meaning or goes away."""


def stamp(overrides: Sequence[str | Path] = ()) -> dict[str, object]:
    """Return the versions of schema, engine and catalog (with its overrides)."""
    return {
        "schema_version": SCHEMA_VERSION,
        "engine_version": _engine.version(),
        "catalog_hash": catalog_hash(overrides),
    }
