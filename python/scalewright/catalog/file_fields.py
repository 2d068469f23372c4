"""Are the fields of a user's file of the kinds that an entry can hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from scalewright.catalog.toml_file import named_members
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
    for field in ("name", "base"):
        if not isinstance(table.get(field, ""), str):
            raise wrong(path, field, table[field], "a name")
    _check_members(path, table)
    if not is_list_of_text(table.get("aliases", [])):
        raise wrong(path, "aliases", table["aliases"], "a list of names")
    for field in TABLES[kind]:
        if field in table and not isinstance(table[field], dict):
            raise wrong(path, field, table[field], f"a table, as [{field}]")
    if kind != "model":
        for field, value, example in bare_numbers(table):
            raise wrong(path, field, value, f"text with a unit, as '{example}'")


def _check_members(path: Path, table: Table) -> None:
    """Refuse two members of one name in an array of tables: the later would hide the other."""
    for field, value in table.items():
        seen: set[object] = set()
        for member in named_members(value) or []:
            name = str(member["name"])
            if name in seen:
                message = f"{path}: {field}: got the name '{name:.60}' twice; allowed: each once"
                raise InvalidError(message)
            seen.add(name)


def is_list_of_text(value: object) -> bool:
    """Say whether a value is a list of nothing but text."""
    if not isinstance(value, list):
        return False
    return all(isinstance(member, str) for member in cast("list[object]", value))


def wrong(path: Path, field: str, got: object, allowed: str) -> InvalidError:
    """Return the error that says what a field of a file holds and what it may hold."""
    return InvalidError(f"{path}: {field}: got {got!r:.60}; allowed: {allowed}")
