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
from typing import cast

from scalewright.catalog.toml_file import Table, leaves, named_members

# fields that say what an entry is, not how fast it is
_LABELS = ("name", "title", "aliases", "base", "sources")


def merged(base: Table, changes: Table) -> Table:
    """Return the base with the changes laid over it; both stay as they are."""
    # deeper down `base` is a field like any other: the start-up time of a protocol
    result = _merged_fields(base, {key: value for key, value in changes.items() if key != "base"})
    if changes.get("name", base.get("name")) != base.get("name") and "aliases" not in changes:
        # a spelling of the base must go on meaning the base
        result.pop("aliases", None)
    return result


def changed_constants(changes: Table) -> tuple[str, ...]:
    """List the dotted paths that an override sets, without labels and sources."""
    constants = {key: value for key, value in changes.items() if key not in _LABELS}
    members = {
        f"{key}.{member['name']}.name"
        for key, value in constants.items()
        for member in named_members(value) or []
    }
    paths = dict.fromkeys(path for path, _ in leaves(constants))
    # the name of a member says which member is meant
    return tuple(path for path in paths if path not in members)


def with_sources(entry: Table, paths: tuple[str, ...], changes: Table, file: str) -> Table:
    """Note the override as the source of every constant it changed, unless it names its own."""
    own: Table = changes.get("sources", {})
    noted = {path: f"override in {file}" for path in paths if not _covered(path, own)}
    return {**entry, "sources": {**entry.get("sources", {}), **noted}} if noted else entry


def _covered(path: str, sources: Table) -> bool:
    # sources of a software profile name its figures without the tables that hold them
    figure = path.rpartition(".")[2] if path.startswith("software.") else None
    return any(path == key or path.startswith(f"{key}.") or figure == key for key in sources)


def _merged_fields(base: Table, changes: Table) -> Table:
    result = copy.deepcopy(base)
    for key, value in changes.items():
        result[key] = _laid_over(result.get(key), value)
    return result


def _laid_over(old: object, new: object) -> object:
    old_members, new_members = named_members(old), named_members(new)
    if isinstance(old, dict) and isinstance(new, dict):
        return _merged_fields(cast("Table", old), cast("Table", new))
    if old_members is None or new_members is None:
        return copy.deepcopy(new)
    result = {member["name"]: member for member in old_members}
    for member in new_members:
        name = member["name"]
        known = name in result
        result[name] = _merged_fields(result[name], member) if known else copy.deepcopy(member)
    return list(result.values())
