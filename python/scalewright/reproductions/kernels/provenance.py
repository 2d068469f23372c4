"""What did a user's own files change in an entry of the catalog?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.catalog import load_entry
from scalewright.catalog.layers import Kind, override_places
from scalewright.catalog.resolving import catalog_files
from scalewright.catalog.toml_file import read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

EVERYTHING = "*"
"""Stands for all fields of an entry that is a user's own from the ground up."""


def changed_fields(kind: Kind, name: str, overrides: Sequence[str | Path] = ()) -> frozenset[str]:
    """Return the fields, at the top of the entry, that user files changed.

    What our tables say of fits holds for our constants alone. Where one of the user's files builds
    on no entry of ours, any other may build on it: then all fields count as theirs.
    """
    lone = name.endswith(".toml")
    if not lone and not override_places(overrides):
        return frozenset()
    files = catalog_files(kind, overrides)
    entry = load_entry(kind, name, overrides)
    if any(file.built_in and str(file.path) == entry.file for file in files):
        return frozenset()
    tables = [file.table() for file in files if not file.built_in]
    if lone:
        tables.append(read_table(Path(name)))
    if any("base" not in table for table in tables):
        return frozenset({EVERYTHING})
    return frozenset(path.partition(".")[0] for path in entry.overridden)
