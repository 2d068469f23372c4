"""Which figures stand for those that no entry of the catalog says?"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, cast

from scalewright.catalog.toml_file import read_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scalewright.catalog.toml_file import Table


def defaults() -> Table:
    """Return the figures of the file, with which the engine was built, and the `sources` of tables.

    A field that an entry says itself wins. Tables that no entry can change are marked in the file,
    `catalog/defaults.toml`.
    """
    table = read_table(files("scalewright.catalog") / "defaults.toml")
    return {**_figures(table), "sources": dict(_sources(table))}


def _figures(table: Table) -> Table:
    return {
        name: _figures(cast("Table", value)) if isinstance(value, dict) else value
        for name, value in table.items()
        if name != "source"
    }


def _sources(table: Table, path: str = "") -> Iterator[tuple[str, str]]:
    if "source" in table:
        yield path.rstrip("."), str(table["source"])
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _sources(cast("Table", value), f"{path}{name}.")
