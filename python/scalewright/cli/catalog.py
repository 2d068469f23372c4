"""`scalewright catalog`: what is known, and where does each figure come from?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from scalewright.catalog.layers import Kind
    from scalewright.cli.verb import Verbs

KINDS: dict[str, Kind] = {
    "devices": "device",
    "systems": "system",
    "models": "model",
    "software": "software",
}


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("catalog", help="list devices, systems, models, software; show one")
    parser.add_argument(
        "what",
        nargs="?",
        metavar="devices|systems|models|software|defaults|NAME",
        help="what to list, or the entry to show (lists everything)",
    )
    parser.add_argument(
        "--catalog", action="append", default=[], metavar="DIR|FILE", help="your own entries"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the listing or the entry."""
    from scalewright.cli.refusing import refuse

    what, overrides = options.what, options.catalog
    if what is None or what in KINDS:
        answer = _listing([what] if what else list(KINDS), overrides)
    elif what == "defaults":
        if overrides:
            refuse("catalog", overrides[0], "nothing: no file changes the defaults")
        answer = {"entries": [_defaults()]}
    else:
        answer = {"entries": entries(what, overrides)}
    if options.json:
        from scalewright.cli.output import show_json
        from scalewright.planning import stamp

        show_json({**stamp(overrides), **answer})
        return 0
    from scalewright.report import console, show_entry, show_names

    screen = console()
    if "entries" in answer:
        for found in answer["entries"]:
            show_entry(found, screen)
    else:
        show_names(answer, screen)
    return 0


def entries(name: str, overrides: Sequence[str]) -> list[dict[str, Any]]:
    """Return every entry of this name, of whichever kind.

    Raises:
        UnknownNameError: There is none.
    """
    from scalewright.catalog import load_entry
    from scalewright.errors import UnknownNameError
    from scalewright.planning.inputs import check_entry

    found: list[dict[str, Any]] = []
    unknown: list[str] = []
    for kind in KINDS.values():
        try:
            entry = load_entry(kind, name, overrides)
        except UnknownNameError as error:
            unknown.append(str(error))
        else:
            if overrides or name.endswith(".toml"):
                check_entry(kind, name, overrides)
            found.append(
                {
                    "kind": kind,
                    "name": entry.table["name"],
                    "fields": entry.table,
                    "overridden_constants": list(entry.overridden),
                    **({"parameters": _parameters(entry.table)} if kind == "model" else {}),
                }
            )
    if not found:
        # one wrong file is refused for every kind
        near = dict.fromkeys([text for text in unknown if "nearest" in text] or unknown)
        raise UnknownNameError("; ".join(near))
    return found


def _defaults() -> dict[str, Any]:
    """Return what stands for figures that no entry says."""
    from scalewright.catalog.defaults import defaults

    title = "figures that no entry says"
    fields = {"title": title, **defaults()}
    return {"kind": "catalog", "name": "defaults", "fields": fields, "overridden_constants": []}


def _parameters(table: dict[str, Any]) -> dict[str, int]:
    from scalewright.planning import model

    return model(table).parameters()


def _listing(kinds: list[str], overrides: Sequence[str]) -> dict[str, Any]:
    """Return names and titles; each file is read once, the topmost wins."""
    from scalewright.catalog.resolving import catalog_files

    listing: dict[str, Any] = {}
    for kind in kinds:
        titles = {file.name: _title(file.table()) for file in catalog_files(KINDS[kind], overrides)}
        listing[kind] = [{"name": name, "title": titles[name]} for name in sorted(titles)]
    return listing


def _title(table: dict[str, Any]) -> str:
    changes = f"changes {table['base']}" if "base" in table else ""
    return str(table.get("title") or table.get("source") or changes)
