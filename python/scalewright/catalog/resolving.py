"""Which files describe entries of a kind, and which of them does a name mean?"""

from __future__ import annotations

import difflib
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.catalog.layers import FOLDERS, CatalogFile, Kind, built_in_files, override_places
from scalewright.catalog.merging import changed_constants
from scalewright.catalog.toml_file import text_field
from scalewright.catalog.user_files import user_files
from scalewright.errors import InvalidError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Sequence

_BEGINNING = 3
"""Letters of what may be the beginning of a name: `llama3` of `llama3-8b`."""
_SEPARATORS = re.compile(r"(?<=[0-9])([-_\s]+)(?=[0-9])|[-_\s]+")
# a version between dashes or underscores: `Llama_3_1_405B`, `nemotron-3-5-lightning`
_VERSION = re.compile(r"(?<![0-9.])([0-9])[-_\s]+([0-9])(?=[-_\s])")
_WHOLE: dict[Kind, tuple[str, ...]] = {
    "device": ("title", "vendor", "year", "matrix", "vector", "tiers", "launch_overhead", "power"),
    "system": ("title", "device", "devices_per_node", "levels"),
    "model": (
        *("family", "layers", "hidden", "heads", "vocab", "ffn"),
        *("position", "activation", "norm"),
    ),
    "software": (),
}
"""Fields without which an entry is none, and must be a change to another one."""


def catalog_files(kind: Kind, overrides: Sequence[str | Path] = ()) -> list[CatalogFile]:
    """List the files of one kind, lowest layer first.

    Raises:
        InvalidError: A file of the user is wrong, of whichever kind.
        UnknownNameError: One of them changes an entry that there is none of.
    """
    mine = [file for place in override_places(overrides) for file in _once(user_files(place))]
    found = list(built_in_files(kind))
    for each in FOLDERS:
        of_kind = [file for file in mine if file.kind == each]
        if of_kind:
            stacked = stack(list(built_in_files(each)), of_kind)
            found = stacked if each == kind else found
    return found


def _once(files: list[CatalogFile]) -> list[CatalogFile]:
    """Return the files of one place, of which no two may say the same of an entry.

    Which of two counts would hang on how files are called; only places have an order.

    Raises:
        InvalidError: Two have one name, or change one constant of an entry.
    """
    seen: dict[tuple[Kind, str], list[CatalogFile]] = {}
    for file in files:
        others = seen.setdefault((file.kind, normalised(file.name)), [])
        for other in others:
            tables = file.table(), other.table()
            both = set(changed_constants(tables[0])) & set(changed_constants(tables[1]))
            # two calibrations of a device each say on what theirs rests
            both = {path for path in both if not path.startswith("calibration.")}
            if all("name" in table for table in tables):
                message = f"{file.path}: name: got '{file.name:.60}', as {other.path} has"
                raise InvalidError(message + "; allowed: each name once in a directory")
            if both:
                message = f"{file.path}: {min(both)}: got it, as {other.path} has for {file.name}"
                raise InvalidError(message + "; allowed: each field once in a directory")
        others.append(file)
    return files


def stack(below: list[CatalogFile], above: Sequence[CatalogFile]) -> list[CatalogFile]:
    """Return files of one kind with those of the user on top, each under the name that it changes.

    Raises:
        InvalidError: A file is neither a whole entry nor a change to one.
        UnknownNameError: One of those above changes an entry that there is none of.
    """
    result = list(below)
    for file in above:
        meant = _found(file.name, result)
        _check_aliases(file, file.name if meant is None else meant.name, result)
        result.append(file if meant is None else replace(file, name=meant.name))
    for place in range(len(below), len(result)):
        _check_base(result[place], result, place)
    return result


def _check_aliases(file: CatalogFile, name: str, below: list[CatalogFile]) -> None:
    """Refuse an alias by which another entry is known: it would hide that one, or do nothing."""
    for alias in file.aliases():
        other = _found(alias, below)
        if other is not None and normalised(other.name) not in {
            normalised(name),
            normalised(file.name),
        }:
            message = (
                f"{file.path}: aliases: got '{alias:.60}', which means {other.name}; "
                "allowed: names that mean no other entry"
            )
            raise InvalidError(message)


def _check_base(file: CatalogFile, files: list[CatalogFile], place: int) -> None:
    table = file.table()
    if "base" in table:
        base_of(file, files)
        return
    missing = [field for field in _WHOLE[file.kind] if field not in table]
    if missing:
        close = _nearest(file.name, files[:place])
        near = f" (nearest: {', '.join(close)})" if close else ""
        allowed = (
            f"the {file.kind} that it changes{near}, or a whole one, with {', '.join(missing)}"
        )
        message = f"{file.path}: base: got nothing; allowed: {allowed}"
        raise InvalidError(message)


def base_of(file: CatalogFile, files: list[CatalogFile]) -> CatalogFile:
    """Return the file of the entry that an override changes.

    Raises:
        UnknownNameError: There is none.
    """
    wanted = text_field(file.path, file.table(), "base")
    below = files[: files.index(file)]
    # an override of the same name changes the entry of the layers below it
    own = _found(wanted, below)
    if own is not None and own.name == file.name:
        return own
    others = [other for other in files if other.name != file.name]
    return resolved(file.kind, wanted, others, f"{file.path}: base")


def resolved(
    kind: Kind, name: str, files: list[CatalogFile], where: str | None = None
) -> CatalogFile:
    """Find the topmost file of a name or of the name that an alias stands for.

    Args:
        kind: What all files describe.
        name: The name or alias.
        files: Where to look, lowest layer first.
        where: What the message calls the place of the name; the kind where left out.

    Raises:
        UnknownNameError: There is none; says which come nearest.
    """
    found = _found(name, files)
    if found is not None:
        return found
    close = _nearest(name, files)
    if kind == "model" and (Path(name) / "config.json").is_file():
        hint = f"a directory is written with a slash: ./{name}"
    elif close:
        hint = f"nearest: {', '.join(close)}"
    else:
        known = len({normalised(file.name) for file in files})
        hint = f"`scalewright catalog {FOLDERS[kind]}` lists the {known} that are known"
    message = f"{where or kind}: unknown name '{name:.60}'; {hint}"
    raise UnknownNameError(message)


def _found(name: str, files: list[CatalogFile]) -> CatalogFile | None:
    wanted = normalised(name)
    top = {normalised(file.name): file for file in files}
    if wanted in top:
        return top[wanted]
    for file in reversed(files):
        if any(normalised(alias) == wanted for alias in file.aliases()):
            return top[normalised(file.name)]
    return None


def _nearest(name: str, files: list[CatalogFile]) -> list[str]:
    """Return the names and aliases, at most three, that begin with a name or are spelt like it."""
    spelt = {normalised(file.name): file.name for file in files}
    for file in reversed(files):
        for alias in file.aliases():
            spelt.setdefault(normalised(alias), alias)
    wanted = normalised(name)
    begun = [key for key in spelt if key.startswith(wanted)] if len(wanted) >= _BEGINNING else []
    # `llama-30b` goes on with the number of `llama3`
    goes_on = wanted[-1:].isdigit()
    begun.sort(key=lambda key: (goes_on and key[len(wanted) :][:1].isdigit(), len(key), key))
    alike = difflib.get_close_matches(wanted, spelt, n=3, cutoff=0.6)
    return [spelt[key] for key in dict.fromkeys([*begun, *alike])][:3]


@lru_cache(maxsize=65_536)
def normalised(name: str) -> str:
    """Return the form in which names are compared: no case, spaces, dashes or underscores.

    One that parts two digits stays, as a dash: `GPT 28.3B` is not `gpt2-8.3b`. Within a version,
    as in `Llama_3_1_405B`, it is the point.
    """
    name = _VERSION.sub(r"\1.\2", name.strip())
    return _SEPARATORS.sub(lambda found: "-" if found[1] else "", name.casefold())
