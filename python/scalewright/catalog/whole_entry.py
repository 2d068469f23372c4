"""Do the parts of an entry fit together once an override lies over its base?"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from scalewright.catalog.toml_file import leaves, named_members
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from pathlib import Path

    from scalewright.catalog.toml_file import Table

_WITH_KINDS = ("tiers", "levels")


def check_members(where: str | Path, base: Table, changes: Table) -> None:
    """Refuse a change to a tier or level that the base does not have; a new one says its `kind`.

    Raises:
        InvalidError: There is none of this name; says which there are.
    """
    for field in _WITH_KINDS:
        known = [str(member["name"]) for member in named_members(base.get(field)) or []]
        for member in named_members(changes.get(field)) or []:
            name = str(member["name"])
            if known and name not in known and "kind" not in member:
                close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
                near = f" (nearest: {close[0]})" if close else ""
                allowed = f"{', '.join(known)}{near}, or a new one with its kind"
                message = f"{where}: {field}: got the name '{name:.60}'; allowed: {allowed}"
                raise InvalidError(message)


def check_sources(where: str | Path, sources: Table, entry: Table) -> None:
    """Refuse the source of a field that an entry does not have.

    Raises:
        InvalidError: There is no such field; says which comes nearest.
    """
    paths = [path for path, _ in leaves({k: v for k, v in entry.items() if k != "sources"})]
    for key in sources:
        if not any(path == key or path.startswith(f"{key}.") for path in paths):
            close = difflib.get_close_matches(key, paths, n=1, cutoff=0.6)
            near = f" (nearest: {close[0]})" if close else ""
            message = f"{where}: sources: got '{key:.60}'; allowed: fields of the entry{near}"
            raise InvalidError(message)


def check_node(where: str | Path, system: Table) -> None:
    """Refuse a node that cuts through units of the fabric: no multiple of one, and no part.

    Raises:
        InvalidError: `devices_per_node` and the `devices` of a level contradict each other.
    """
    node = _count(system.get("devices_per_node"))
    for level in named_members(system.get("levels")) or []:
        unit = _count(level.get("devices"))
        if node is None or unit is None:
            continue  # the engine says what is wrong with it
        if node % unit and unit % node:
            field = f"levels.{level['name']}.devices"
            allowed = f"a multiple or a divisor of {unit}, as {field} says"
            message = f"{where}: devices_per_node: got {node}; allowed: {allowed}"
            raise InvalidError(message)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
