"""Does a user's software profile have the fields of one, each where it belongs?"""

from __future__ import annotations

import difflib
from functools import cache
from typing import TYPE_CHECKING, cast

from scalewright.catalog.file_fields import is_list_of_text, wrong
from scalewright.catalog.layers import built_in_files
from scalewright.catalog.software_effect import BY_DEVICE
from scalewright.catalog.toml_file import leaves

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scalewright.catalog.toml_file import Table
    from scalewright.errors import InvalidError

_LABELS = ("kind", "name", "title", "base", "aliases", "sources")
_ONLY = {"overlap": "communication_units", "products": "share", "sustained": "rates"}
"""The one field beside `devices` of a table that has no other."""


@cache
def software_field_names() -> tuple[str, ...]:
    """Return the fields of a profile as `TABLE.FIELD`: some profile of the catalog sets each."""
    found = {
        path
        for file in built_in_files("software")
        for path, _ in leaves(file.table().get("software", {}))
    }
    return tuple(sorted(found))


def check_profile(path: Path, table: Table) -> None:
    """Refuse fields that no profile has, and tables of another form.

    Raises:
        InvalidError: Says where a field belongs, or which come nearest.
    """
    known = (*_LABELS, "software", *BY_DEVICE)
    for field, value in table.items():
        if field not in known:
            raise _misplaced(path, field, value) or _unknown(path, field, value, known)
    software: Table = table.get("software", {})
    tables = sorted({name.partition(".")[0] for name in software_field_names()})
    for field, value in software.items():
        close = difflib.get_close_matches(field, tables, n=1, cutoff=0.6)
        if field not in tables and isinstance(value, dict) and close:
            got = cast("Table", value)
            raise wrong(path, f"software.{field}", got, f"[software.{close[0]}] (nearest)")
    for field, value in leaves(software):
        if field not in software_field_names():
            error = _misplaced(path, f"software.{field}", software.get(field, value), exact=True)
            raise error or _unknown(path, f"software.{field}", value, software_field_names())
    for field in BY_DEVICE:
        _check_tables(path, field, table.get(field, []))


def _misplaced(
    path: Path, field: str, value: object, *, exact: bool = False
) -> InvalidError | None:
    """Return the error for a field of `[software]` in another place; `exact`: none if misspelt."""
    close = _nearest(field, software_field_names(), most=1, cutoff=1.0 if exact else 0.8)
    if not close:
        return None
    table, _, known = close[0].partition(".")
    return wrong(path, field, value, f"{known} under [software.{table}]")


def _check_tables(path: Path, field: str, tables: object) -> None:
    form = f"tables [[{field}]] with devices = ['h100-*']"
    if not isinstance(tables, list):
        raise wrong(path, field, tables, form)
    for table in cast("list[object]", tables):
        if not isinstance(table, dict):
            raise wrong(path, field, table, form)
        _check_table(path, field, cast("Table", table))


def _check_table(path: Path, field: str, table: Table) -> None:
    devices = table.get("devices")
    if not (devices and is_list_of_text(devices)):
        raise wrong(path, f"{field}.devices", devices, "a list of names, as ['h100-*']")
    only = _ONLY.get(field)
    if only is None:
        return
    for name, value in table.items():
        if name not in ("devices", only):
            raise _unknown(path, f"{field}.{name}", value, ("devices", only))
    value = table.get(only)
    if field == "overlap":
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise wrong(path, f"{field}.{only}", value, "a number of compute units")
    elif not isinstance(value, dict):
        raise wrong(path, f"{field}.{only}", value, "a table by number format, as { bf16 = ... }")


def _unknown(path: Path, field: str, value: object, known: Iterable[str]) -> InvalidError:
    listed = list(known)
    close = _nearest(field, listed, most=2, cutoff=0.6)
    near = f"{', '.join(close)} (nearest)" if close else _some(listed)
    return wrong(path, field, value, near)


def _nearest(field: str, known: Iterable[str], *, most: int, cutoff: float) -> list[str]:
    """Return the dotted names whose last part comes nearest to that of a field."""
    by_last = {name.rpartition(".")[2]: name for name in known}
    last = field.rpartition(".")[2]
    if last in by_last:
        return [by_last[last]]
    return [by_last[name] for name in difflib.get_close_matches(last, by_last, most, cutoff)]


def _some(names: list[str]) -> str:
    if len(names) <= 20:
        return ", ".join(names)
    return f"one of {len(names)} fields, listed in docs/software.md"
