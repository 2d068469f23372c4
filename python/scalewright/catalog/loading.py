"""Given the name of a device, system, model or software profile: which fields does it have?"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.catalog.layers import CatalogFile, Kind, built_in_root, override_places
from scalewright.catalog.merging import changed_constants, merged, with_sources
from scalewright.catalog.resolving import base_of, catalog_files, normalised, resolved, stack
from scalewright.catalog.software_trial import try_profile
from scalewright.catalog.toml_file import Table, text_field
from scalewright.catalog.user_files import user_file
from scalewright.catalog.whole_entry import check_members, check_node, check_sources
from scalewright.config.huggingface import parts_left_out, read_config
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from importlib.resources.abc import Traversable

_HASH_DIGITS = 12


@dataclass(frozen=True)
class Entry:
    """An entry of the catalog and where it comes from."""

    kind: Kind
    table: Table
    """The fields, as the engine reads them."""
    file: str
    """The file that was read last."""
    overridden: tuple[str, ...]
    """Dotted paths of the constants that user files changed."""
    left_out: tuple[str, ...] = ()
    """Fields of a Hugging Face config that hold parts of the model which are not in the table."""


def load_device(name: str, overrides: Sequence[str | Path] = ()) -> Table:
    """Return the fields of a device.

    Args:
        name: Its catalog name, one of its aliases, or the path of a TOML file.
        overrides: User files or directories that add to the catalog or change it.

    Raises:
        UnknownNameError: Nothing has this name.
        InvalidError: A file is wrong.
    """
    return load_entry("device", name, overrides).table


def load_system(name: str, overrides: Sequence[str | Path] = ()) -> Table:
    """Return the fields of a system; see `load_device`."""
    return load_entry("system", name, overrides).table


def load_model(name: str, overrides: Sequence[str | Path] = ()) -> Table:
    """Return the fields of a model; see `load_device`.

    The name may also be the path of a Hugging Face `config.json` or of a directory that holds one,
    written with a slash, as `./my-model`.
    """
    return load_entry("model", name, overrides).table


def load_entry(kind: Kind, name: str, overrides: Sequence[str | Path] = ()) -> Entry:
    """Return an entry of the catalog with its origin; see `load_device`."""
    if kind == "model" and _is_config(name):
        return Entry(kind, read_config(name), name, (), parts_left_out(name))
    files = _checked_files(kind, overrides)
    if name.endswith(".toml"):
        files = stack(files, [user_file(Path(name), kind)])
        _try_profiles(files[-1:], files, overrides)
        return _entry(files[-1], files, ())
    return _entry(resolved(kind, name, files), files, ())


def _is_config(name: str) -> bool:
    # without a slash, a directory that is called like a model must not hide it
    return name.endswith(".json") or ("/" in name and Path(name).is_dir())


def names(kind: Kind, overrides: Sequence[str | Path] = ()) -> list[str]:
    """List the names of one kind in alphabetical order, without aliases."""
    return sorted({file.name for file in catalog_files(kind, overrides)})


def spelt_names(kind: Kind, overrides: Sequence[str | Path] = ()) -> dict[str, str]:
    """Return the names and aliases of one kind by the form in which they are compared."""
    files = catalog_files(kind, overrides)
    aliases = [alias for file in reversed(files) for alias in file.aliases()]
    return {normalised(name): name for name in [*aliases, *(file.name for file in files)]}


def catalog_hash(overrides: Sequence[str | Path] = ()) -> str:
    """Return 12 hexadecimal digits that change with any byte of the catalog or the overrides."""
    digest = _built_in_digest().copy()
    for place in override_places(overrides):
        _add(digest.update, _contents(place, place.name))
    return digest.hexdigest()[:_HASH_DIGITS]


@cache
def _built_in_digest():  # noqa: ANN202 - the type of a digest has no public name
    """Return the digest of the package's own files, which are read once, as their tables are."""
    digest = hashlib.sha256()
    _add(digest.update, _contents(built_in_root(), ""))
    return digest


def _add(update: Callable[[bytes], object], parts: Iterable[tuple[str, bytes]]) -> None:
    for label, content in sorted(parts):
        update(f"{label}\0{len(content)}\0".encode())
        update(content)


def _contents(place: Traversable, label: str) -> Iterator[tuple[str, bytes]]:
    if place.is_file():
        if place.name.endswith((".toml", ".csv")):
            yield label, place.read_bytes()
    elif place.name != "__pycache__":
        for member in place.iterdir():
            yield from _contents(member, f"{label}/{member.name}")


def _entry(file: CatalogFile, files: list[CatalogFile], seen: tuple[str, ...]) -> Entry:
    where = str(file.path)
    if where in seen:
        message = f"{where}: base: got a circle of files ({' -> '.join([*seen, where])})"
        raise InvalidError(message)
    table = file.table()
    if "base" not in table:
        text_field(file.path, table, "name")
        _check_sources(file, table, table)
        _check_whole(file, table)
        return Entry(file.kind, table, where, ())
    base = _entry(base_of(file, files), files, (*seen, where))
    check_members(where, base.table, table)
    changed = changed_constants(table)
    result = merged(base.table, table)
    if file.kind == "model":
        if changed and "source" not in table:
            # a model says its source in one line, not per field
            noted = f"{', '.join(changed)} by override in {Path(where).name}"
            result["source"] = "; ".join(filter(None, (result.get("source"), noted)))
    else:
        _check_sources(file, table, result)
        result = with_sources(result, changed, table, Path(where).name)
    _check_whole(file, result)
    overridden = tuple(dict.fromkeys((*base.overridden, *changed)))
    return Entry(file.kind, result, where, overridden)


def _checked_files(kind: Kind, overrides: Sequence[str | Path]) -> list[CatalogFile]:
    """List the files of one kind; profiles of the user are tried, whatever is asked for."""
    files = catalog_files(kind, overrides)
    profiles = files if kind == "software" else catalog_files("software", overrides)
    _try_profiles([file for file in profiles if not file.built_in], profiles, overrides)
    return files


def _try_profiles(
    mine: Sequence[CatalogFile], files: list[CatalogFile], overrides: Sequence[str | Path]
) -> None:
    profiles = [file for file in mine if file.kind == "software"]
    devices = names("device", overrides) if profiles else []
    for file in profiles:
        try_profile(str(file.path), _entry(file, files, ()).table, devices)


def _check_sources(file: CatalogFile, table: Table, entry: Table) -> None:
    """Refuse a source of a field that the entry has not; profiles also name tables and releases."""
    if not file.built_in and file.kind in ("device", "system"):
        check_sources(str(file.path), table.get("sources", {}), entry)


def _check_whole(file: CatalogFile, table: Table) -> None:
    """Check the parts of an entry against each other; a test does so for those of the package."""
    if file.kind == "system" and not file.built_in:
        check_node(str(file.path), table)
