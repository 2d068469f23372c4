"""Which model and which machines does a name, a file or a table mean?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.catalog import load_entry, with_costs
from scalewright.config import json_text, need, need_places
from scalewright.errors import ScalewrightError
from scalewright.planning.sent import Sent

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Model(Sent):
    """A model, as the engine reads it."""

    name: str
    table: Mapping[str, object]
    """Its fields."""
    overridden: tuple[str, ...] = ()
    """Dotted paths of the fields that user files changed."""
    overrides: tuple[str, ...] = ()
    """Those files and directories."""
    left_out: tuple[str, ...] = ()
    """Fields of its Hugging Face config that hold parts which are not priced."""

    @cached_property
    def text(self) -> str:
        """Return the fields as JSON text, as the engine reads them."""
        return json_text("model", dict(self.table))

    @cached_property
    def workload(self) -> _engine.Workload:
        """Return the engine's handle."""
        return _engine.Workload(self.text)

    def parameters(self) -> dict[str, int]:
        """Return parameter counts by name; all but `padded_total` use the unpadded vocabulary."""
        return self.workload.parameters()


@dataclass(frozen=True)
class System(Sent):
    """A number of devices of a system, as the engine reads them."""

    name: str
    devices: int
    table: Mapping[str, Any]
    """Fields of the system."""
    device: Mapping[str, Any]
    """Fields of its device."""
    overridden: tuple[str, ...] = ()
    """Dotted paths of the constants that user files changed."""
    overrides: tuple[str, ...] = ()
    """Those files and directories."""

    @cached_property
    def text(self) -> str:
        """Return devices and system as JSON text, as the engine reads them."""
        parts = {
            "devices": self.devices,
            "device": with_costs(self.device),
            "system": with_costs(self.table),
        }
        return json_text("system", parts)

    @cached_property
    def cluster(self) -> _engine.Cluster:
        """Return the engine's handle."""
        return _engine.Cluster(self.text)


def model(
    source: str | Path | Mapping[str, object], *, overrides: Sequence[str | Path] = ()
) -> Model:
    """Return a model that the engine has read and checked.

    Args:
        source: A catalog name, the path of a Hugging Face `config.json` or of a TOML file, or the
            fields themselves.
        overrides: User files or directories that add to the catalog or change it.

    Raises:
        UnknownNameError: Nothing has this name; says which come nearest.
        ScalewrightError: A file or a field is wrong.
    """
    need("model", source, (str, Path, Mapping), "a name, a path, or the fields of a model")
    need_places(overrides)
    if not isinstance(source, (str, Path)):
        made = Model(str(source.get("name", "model")), dict(source))
    else:
        entry = load_entry("model", str(source), overrides)
        paths = tuple(f"model.{path}" for path in entry.overridden)
        files = _files(source, overrides)
        made = Model(str(entry.table["name"]), entry.table, paths, files, entry.left_out)
    _ = made.workload
    return made


def system(source: str | Path, devices: int, *, overrides: Sequence[str | Path] = ()) -> System:
    """Return so many devices of a system that the engine has read and checked.

    Args:
        source: A catalog name or the path of a TOML file.
        devices: Devices of the job, filled node by node.
        overrides: User files or directories that add to the catalog or change it.

    Raises:
        UnknownNameError: Nothing has this name; says which come nearest.
        ScalewrightError: A file or a field is wrong, or there are not so many devices.
    """
    need("system", source, (str, Path), "a name or the path of a TOML file")
    need_places(overrides)
    entry = load_entry("system", str(source), overrides)
    device = load_entry("device", str(entry.table.get("device", "")), overrides)
    changed = [f"system.{path}" for path in entry.overridden]
    changed += [f"device.{path}" for path in device.overridden]
    made = System(
        name=str(entry.table["name"]),
        devices=devices,
        table=entry.table,
        device=device.table,
        overridden=tuple(changed),
        overrides=_files(source, overrides),
    )
    try:
        _ = made.cluster
    except ScalewrightError as error:
        if not made.overrides:
            raise
        # the engine sees one table, whoever wrote its parts
        message = f"{error}; read with {', '.join(made.overrides)}"
        raise type(error)(message) from error
    return made


def _files(source: str | Path, overrides: Sequence[str | Path]) -> tuple[str, ...]:
    """List the user's files and directories that an entry was read from."""
    own = [str(source)] if str(source).endswith(".toml") else []
    return tuple(dict.fromkeys([*map(str, overrides), *own]))
