"""Which entries do a user's files and directories hold, and is every one of them read?"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from scalewright.catalog.file_fields import check_fields
from scalewright.catalog.layers import FOLDERS, CatalogFile, Kind
from scalewright.catalog.software_fields import check_profile
from scalewright.catalog.toml_file import Table, read_table, text_field
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDERS = ", ".join(FOLDERS.values())


def user_files(place: Path) -> list[CatalogFile]:
    """List the entries of a file, or of a directory: in its folders and at its top.

    Raises:
        InvalidError: A file is wrong, the directory holds none, or TOML where none is read.
    """
    if place.is_file():
        return [user_file(place)]
    found = list(_in_folders(place))
    for member in _members(place):
        if member.name in FOLDERS.values():
            continue
        if _is_toml(member):
            found.append(user_file(member))
        else:
            _refuse_unread(member, _nearest_folder(member.name))
    if not found:
        message = f"{place}: got a directory without TOML files; allowed: one with some"
        raise InvalidError(message)
    return found


def user_file(path: Path, kind: Kind | None = None, why: str = "") -> CatalogFile:
    """Return the entry of one file, which says its `kind` or is of the one that is asked for.

    Args:
        path: The file.
        kind: What it must be; none where it says so itself.
        why: What the message adds about where that kind comes from.

    Raises:
        InvalidError: The file is wrong.
    """
    table = read_table(path)
    said = kind if kind is not None and "kind" not in table else _kind(path, table)
    if kind is not None and said != kind:
        message = f"{path}: kind: got {said!r}; allowed: {kind}{why}"
        raise InvalidError(message)
    check_fields(path, said, table)
    if said == "software":
        check_profile(path, table)
    # an override that only changes another entry may leave its own name out
    name = text_field(path, table, "name" if "name" in table else "base")
    return CatalogFile(said, name, path, built_in=False)


def _kind(path: Path, table: Table) -> Kind:
    said = table.get("kind")
    for kind in FOLDERS:
        if said == kind:
            return kind
    message = f"{path}: kind: got {said!r:.60}; allowed: {', '.join(FOLDERS)}"
    raise InvalidError(message)


def _in_folders(place: Path) -> Iterator[CatalogFile]:
    for kind, folder in FOLDERS.items():
        for member in _members(place / folder):
            if _is_toml(member):
                yield user_file(member, kind, ", as its folder says")
            else:
                _refuse_unread(member, f"files in {place / folder} itself")


def _members(folder: Path) -> list[Path]:
    """List what lies in a folder, without what tools hide there."""
    if not folder.is_dir():
        return []
    members = (path for path in folder.iterdir() if not path.name.startswith((".", "__")))
    return sorted(members, key=lambda path: path.name)


def _is_toml(path: Path) -> bool:
    return path.suffix.casefold() == ".toml" and path.is_file()


def _refuse_unread(member: Path, allowed: str) -> None:
    """Refuse a folder that holds TOML files which nobody would read."""
    if member.is_dir() and any(_is_toml(path) for path in member.rglob("*")):
        message = f"{member}: got a folder of TOML files that is not read; allowed: {allowed}"
        raise InvalidError(message)


def _nearest_folder(name: str) -> str:
    close = difflib.get_close_matches(name.casefold(), FOLDERS.values(), n=1, cutoff=0.6)
    return f"{_FOLDERS} (nearest: {close[0]})" if close else _FOLDERS
