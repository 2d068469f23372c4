"""Are the fields of a user's file of the kinds that an entry can hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from scalewright.catalog.units import bare_numbers
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from pathlib import Path

    from scalewright.catalog.layers import Kind
    from scalewright.catalog.toml_file import Table

TABLES: dict[Kind, tuple[str, ...]] = {
    "device": (
        *("matrix", "sustained", "product_share", "matmul", "attention", "training_attention"),
        *("prefill", "decode", "experts", "power", "calibration", "sources"),
    ),
    "system": ("host", "price", "sources"),
    "model": (),
    "software": ("software", "sources"),
}
"""Fields that are tables; the engine would take a list for the values of one, in order."""


def check_fields(path: Path, kind: Kind, table: Table) -> None:
    """Refuse what an entry of a kind cannot hold, before anyone asks for it.

    Raises:
        InvalidError: A table or the aliases are something else, or a number lacks its unit.
    """
    aliases: object = table.get("aliases", [])
    if not (isinstance(aliases, list) and _all_text(cast("list[object]", aliases))):
        raise _wrong(path, "aliases", aliases, "a list of names")
    for field in TABLES[kind]:
        if field in table and not isinstance(table[field], dict):
            raise _wrong(path, field, table[field], f"a table, as [{field}]")
    if kind in ("device", "system"):
        for field, value, example in bare_numbers(table):
            raise _wrong(path, field, value, f"text with a unit, as '{example}'")


def _all_text(values: list[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _wrong(path: Path, field: str, got: object, allowed: str) -> InvalidError:
    return InvalidError(f"{path}: {field}: got {got!r:.60}; allowed: {allowed}")
