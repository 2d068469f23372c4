"""What does an override change in the entry that it builds on?

An override is a TOML file with `base = "dgx-a100-80gb"` and the changed fields alone:

    base = "dgx-a100-80gb"
    name = "my-cluster"          # left out: the base itself is changed

    [[levels]]
    name = "hdr-infiniband"      # the level of the base with this name
    bandwidth = "100 Gb/s"

Tables merge field by field. Arrays of tables merge by the `name` of their members; a member with
a new name goes to the end. Every other value replaces the one of the base.
"""

from __future__ import annotations

import copy
from typing import Any, cast

from scalewright.catalog.toml_file import Table, leaves

_NOT_CONSTANTS = ("name", "title", "aliases", "base", "sources")


def merged(base: Table, changes: Table) -> Table:
    """Return the base with the changes laid over it; both stay as they are."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if key != "base":
            result[key] = _laid_over(result.get(key), value)
    if changes.get("name", base.get("name")) != base.get("name") and "aliases" not in changes:
        # a spelling of the base must go on meaning the base
        result.pop("aliases", None)
    return result


def changed_constants(changes: Table) -> tuple[str, ...]:
    """List the dotted paths that an override sets, without names and sources."""
    paths = (path for path, _ in leaves(changes))
    kept = (
        path
        for path in paths
        if path.split(".")[0] not in _NOT_CONSTANTS
        # the name of a member says which member is meant
        and not (path.count(".") == 2 and path.endswith(".name"))  # noqa: PLR2004
    )
    return tuple(dict.fromkeys(kept))


def with_sources(entry: Table, paths: tuple[str, ...], changes: Table, file: str) -> Table:
    """Note the override as the source of every constant it changed, unless it names its own."""
    own = cast(Table, changes.get("sources", {}))
    noted = {path: f"override in {file}" for path in paths if not _covered(path, own)}
    return (
        {**entry, "sources": {**cast(Table, entry.get("sources", {})), **noted}} if noted else entry
    )


def _covered(path: str, sources: Table) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}.") for prefix in sources)


def _laid_over(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return merged(cast(Table, old), cast(Table, new))
    if _named_members(old) and _named_members(new):
        return _members_laid_over(cast(list[Table], old), cast(list[Table], new))
    return copy.deepcopy(new)


def _members_laid_over(old: list[Table], new: list[Table]) -> list[Table]:
    result = {member["name"]: member for member in old}
    for member in new:
        name = member["name"]
        result[name] = merged(result[name], member) if name in result else copy.deepcopy(member)
    return list(result.values())


def _named_members(value: Any) -> bool:
    if not (isinstance(value, list) and value):
        return False
    members = cast(list[Any], value)
    return all(isinstance(member, dict) and "name" in member for member in members)
