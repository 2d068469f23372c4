"""Which catalog files exist, and in which layer does each lie?

A layer is a directory with the folders `devices`, `systems`, `models` and `software`, or one TOML
file that says its `kind`. Layers stack: the built-in catalog lies at the bottom, then the
directories and files of the environment variable SCALEWRIGHT_CATALOG, then the ones of the call.
"""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from scalewright.catalog.toml_file import Table, read_table
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.resources.abc import Traversable

Kind = Literal["device", "system", "model", "software"]
FOLDERS: dict[Kind, str] = {
    "device": "devices",
    "system": "systems",
    "model": "models",
    "software": "software",
}
PUBLISHED_TOTALS = ("checkpoint_parameters", "printed_parameters")
ENVIRONMENT_VARIABLE = "SCALEWRIGHT_CATALOG"


@dataclass(frozen=True)
class CatalogFile:
    """A file that describes one device, system, model or software profile."""

    kind: Kind
    name: str
    path: Traversable
    built_in: bool
    member: Table | None = field(default=None, compare=False)
    """Its table in a file of many models, already read."""

    def table(self) -> Table:
        """Return the entry's fields; a lone file's `kind` says what it is and is none of them.

        Where the file spells its name as an alias, the name is the one that the alias stands for.
        """
        table = deepcopy(self._read())
        return {**table, "name": self.name} if "name" in table else table

    def aliases(self) -> list[str]:
        """Return its other names."""
        return self._read().get("aliases", [])

    def _read(self) -> Table:
        if self.member is not None:
            return self.member
        if self.built_in:
            return _packaged(self.path)
        return {key: value for key, value in read_table(self.path).items() if key != "kind"}


def override_places(overrides: Iterable[str | Path]) -> list[Path]:
    """List the user's directories and files, lowest layer first; each must exist."""
    listed = os.environ.get(ENVIRONMENT_VARIABLE, "")
    places = [Path(part) for part in listed.split(os.pathsep) if part]
    places.extend(Path(place) for place in overrides)
    for place in places:
        if not place.exists():
            message = f"catalog override: got '{place}'; allowed: an existing file or directory"
            raise InvalidError(message)
    return places


def built_in_root() -> Traversable:
    """Return the directory of the catalog that comes with the package."""
    return files("scalewright.catalog")


@cache
def built_in_files(kind: Kind) -> tuple[CatalogFile, ...]:
    """List the files of one kind that come with the package."""
    folder = built_in_root() / FOLDERS[kind]
    if not folder.is_dir():
        return ()
    paths = sorted((p for p in folder.iterdir() if p.name.endswith(".toml")), key=lambda p: p.name)
    if kind == "model":
        return tuple(file for path in paths for file in _models_of(path))
    return tuple(
        CatalogFile(kind, path.name.removesuffix(".toml"), path, built_in=True) for path in paths
    )


@cache
def _packaged(path: Traversable) -> Table:
    """Read a file of the package once: looking up one name goes through the aliases of all."""
    return read_table(path)


def _models_of(path: Traversable) -> list[CatalogFile]:
    """List the models of a family: each table of the file is one, under its name."""
    return [
        CatalogFile("model", name, path, built_in=True, member=_without_totals(name, table))
        for name, table in read_table(path).items()
    ]


def _without_totals(name: str, table: Table) -> Table:
    """Leave out the published totals, which stand beside the fields to be checked against."""
    shape = {key: value for key, value in table.items() if key not in PUBLISHED_TOTALS}
    return {"name": name, **shape}
