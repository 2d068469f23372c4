"""Which system or device of a user's own file is meant, and which entries does that take?"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Overrides = tuple[str | Path, ...]


def meant(system: str | None, overrides: Sequence[str | Path]) -> tuple[str | None, Overrides]:
    """Return the name of a system or a device, and the entries among which it is found.

    A name stays as it is; a file joins the entries.

    Args:
        system: A catalog name or a TOML file; none where rows say it.
        overrides: User files or directories that add to the catalog or change it.
    """
    entries: Overrides = tuple(overrides)
    if system is None or not system.casefold().endswith(".toml"):
        return system, entries
    try:
        held = tomllib.loads(Path(system).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # whoever loads it says what is wrong
        return system, entries
    name = held.get("name", held.get("base"))
    if held.get("kind") not in {"device", "system"} or not isinstance(name, str):
        return system, entries
    return name, (*entries, system)
