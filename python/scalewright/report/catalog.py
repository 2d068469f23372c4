"""What does the catalog hold, and where does each figure come from?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console


def show_names(listing: Mapping[str, Sequence[Mapping[str, str]]], screen: Console) -> None:
    """Print the names of each kind with their titles."""
    for kind, members in listing.items():
        heading(screen, f"{kind} ({len(members)})")
        rows = table("name", "what it is", left=2)
        rows.columns[0].no_wrap = True
        rows.columns[0].min_width = max((len(member["name"]) for member in members), default=0)
        for member in members:
            rows.add_row(member["name"], member["title"])
        screen.print(rows)


def show_entry(entry: Mapping[str, Any], screen: Console) -> None:
    """Print the fields of an entry, each with its source."""
    fields: Mapping[str, Any] = entry["fields"]
    heading(screen, f"{entry['kind']} {entry['name']}: {fields.get('title', '')}".rstrip(": "))
    sources: Mapping[str, str] = fields.get("sources", {})
    rows = table("field", "value", "source", left=3)
    for path, value in _leaves(fields):
        # a profile's sources name its figures without the tables that hold them
        figure = path.rpartition(".")[2] if path.startswith("software.") else ""
        rows.add_row(path, str(value), _source(path, sources) or sources.get(figure, ""))
    screen.print(rows)
    if "parameters" in entry:
        counts = entry["parameters"].items()
        parts = [f"{name.replace('_', ' ')} {count:,}" for name, count in counts]
        screen.print(f"parameters: {', '.join(parts)}")
    if entry["overridden_constants"]:
        screen.print(f"overridden constants: {', '.join(entry['overridden_constants'])}")


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            if path or key not in ("sources", "name", "title"):
                yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        members = cast("list[object]", value)
        if members and isinstance(members[0], dict):
            for member in cast("list[dict[str, object]]", members):
                label, told = _label(member)
                named = f"{path}.{label}"
                for key, inner in member.items():
                    if key != told:
                        yield from _leaves(inner, f"{named}.{key}")
        else:
            yield path, ", ".join(str(member) for member in members)
    else:
        yield path, value


def _label(member: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a member of a list is called, and the field that says so."""
    if isinstance(member.get("devices"), list):
        return ", ".join(str(name).removesuffix("-*") for name in member["devices"]), "devices"
    return str(member.get("name", "")), "name"


def _source(path: str, sources: Mapping[str, str]) -> str:
    """Return the source of the longest prefix of `path` that has one."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        found = sources.get(".".join(parts[:end]))
        if found is not None:
            return found
    # one source may speak for several devices, named by the first
    return sources.get(path.split(",")[0], "")
