"""Which model and which machines does a name, a file or a table mean?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from scalewright import _engine
from scalewright.catalog import Entry, load_entry, names, usual_system, with_costs
from scalewright.catalog.toml_file import read_table
from scalewright.config import json_text, need, need_places
from scalewright.errors import ScalewrightError, UnknownNameError
from scalewright.planning.pickling import PickledByFields
from scalewright.planning.stamp import stamp

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from scalewright.catalog.layers import Kind

_PLAIN = "dgx-h100"


_ROOT = re.compile(r"^(?:(?:system|device|model)(?: [^.:]+)?\.)")
"""How the engine's paths start, which stands in no file."""
_MEMBER = re.compile(r"(?P<root>(?:system|device)\.)?(?P<list>[a-z_]+)\[(?P<place>\d+)\]")


@dataclass(frozen=True)
class Model(PickledByFields):
    """A model, as the engine reads it.

    Attributes:
        name: The catalog's name, or that of the file.
        table: Its fields.
        overridden: Dotted paths of the fields that user files changed.
        overrides: Those files and directories.
        left_out: Fields of its Hugging Face config that hold parts which are not priced.
    """

    name: str
    table: Mapping[str, object]
    overridden: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

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
class System(PickledByFields):
    """A number of devices of a system, as the engine reads them.

    Attributes:
        name: The catalog's name, or that of the file.
        devices: Devices of the cluster.
        table: Fields of the system.
        device: Fields of its device.
        overridden: Dotted paths of the constants that user files changed.
        overrides: Those files and directories.
    """

    name: str
    devices: int
    table: Mapping[str, Any]
    device: Mapping[str, Any]
    overridden: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

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

    def stamp(self) -> dict[str, object]:
        """Return what an answer about the system rests on."""
        return {
            **stamp(self.overrides),
            "overridden_constants": list(self.overridden),
            "system": self.name,
        }


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
    with _naming_files(made.overrides, made.table):
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
    entry = _system_entry(str(source), overrides)
    files = _files(source, overrides)
    with _naming_files(files):
        device = load_entry("device", str(entry.table.get("device", "")), overrides)
    changed = [f"system.{path}" for path in entry.overridden]
    changed += [f"device.{path}" for path in device.overridden]
    made = System(
        name=str(entry.table["name"]),
        devices=devices,
        # the file may spell the device by an alias
        table={**entry.table, "device": device.table["name"]},
        device=device.table,
        overridden=tuple(changed),
        overrides=files,
    )
    with _naming_files(files, made.table, made.device):
        _ = made.cluster
    return made


def check_entry(kind: Kind, name: str, overrides: Sequence[str | Path] = ()) -> None:
    """Refuse an entry of the catalog whose fields the engine does not take.

    Args:
        kind: What it describes; a software profile is checked where it is read.
        name: Its name, or the path of a TOML file.
        overrides: User files or directories that add to the catalog or change it.

    Raises:
        ScalewrightError: A field is wrong; says which, and which files were read.
    """
    if kind == "model":
        model(name, overrides=overrides)
    elif kind == "system":
        system(name, 1, overrides=overrides)
    elif kind == "device":
        table = load_entry("device", name, overrides).table
        # any fabric does: it is the device that is looked at
        plain: dict[str, Any] = {**load_entry("system", _PLAIN).table, "device": table["name"]}
        with _naming_files(_files(name, overrides), table):
            _ = System(_PLAIN, 1, plain, table).cluster


def _system_entry(name: str, overrides: Sequence[str | Path]) -> Entry:
    """Return a system; of the name of a device say which systems have it.

    Raises:
        UnknownNameError: Nothing has this name.
    """
    try:
        return load_entry("system", name, overrides)
    except UnknownNameError as unknown:
        try:
            device = load_entry("device", name, overrides).table["name"]
        except UnknownNameError:
            raise unknown from None
    having = [
        each
        for each in names("system", overrides)
        if load_entry("system", each, overrides).table.get("device") == device
    ]
    usual = usual_system(name)
    having.sort(key=lambda each: each != usual)
    allowed = f"a system of it, as {', '.join(having[:3])}" if having else "a system; none has it"
    message = f"system: got '{name:.60}', a device; allowed: {allowed}"
    raise UnknownNameError(message)


@contextmanager
def _naming_files(files: Sequence[str], *tables: Mapping[str, Any]) -> Generator[None]:
    """Name in an error the file of the user that holds the field: the engine sees one of all.

    Args:
        files: What the user brought.
        tables: The entries that were made of it, whose members the engine counts.
    """
    try:
        yield
    except ScalewrightError as error:
        if not files or any(file in str(error) for file in files):
            raise
        field, colon, rest = str(error).partition(": ")
        if colon:
            field = _with_key(_ROOT.sub("", _with_names(field, tables)), rest, tables)
        held = _holding(files, field)
        if colon and held:
            message = f"{held}: {field}: {rest}"
        else:
            message = f"{field}{colon}{rest}; read with {', '.join(files)}"
        raise type(error)(message) from error


def _with_names(field: str, tables: Iterable[Mapping[str, Any]]) -> str:
    """Return a path in which members of a list have their names, as `levels.nvswitch`."""
    found = _MEMBER.match(field)
    if found is None:
        return field
    for table in tables:
        members, place = table.get(found["list"]), int(found["place"])
        if isinstance(members, list) and place < len(cast("list[Any]", members)):
            name = cast("list[Mapping[str, Any]]", members)[place].get("name")
            if isinstance(name, str):
                return f"{found['root'] or ''}{found['list']}.{name}{field[found.end() :]}"
    return field


def _with_key(field: str, rest: str, tables: Iterable[Mapping[str, Any]]) -> str:
    """Return a path that ends at the key whose value was refused, as `matrix.bf16`.

    Of tables whose keys are formats the engine says only where they stand and what it got.
    """
    for table in tables:
        held: object = table
        for part in field.split("."):
            held = cast("Mapping[str, object]", held).get(part) if isinstance(held, dict) else None
        if not isinstance(held, dict):
            continue
        values = cast("dict[str, object]", held).items()
        wrong = [key for key, value in values if _is_got(value, rest)]
        if len(wrong) == 1:
            return f"{field}.{wrong[0]}"
    return field


def _is_got(value: object, rest: str) -> bool:
    if isinstance(value, dict):
        return rest.startswith("got an object with fields; ")
    return rest.startswith((f"got {value}; ", f"got {json.dumps(value)}; "))


def _holding(files: Sequence[str], field: str) -> str | None:
    """Return the one file that holds a field; None where several could."""
    if len(files) == 1 and files[0].endswith(".toml"):
        return files[0]
    first = re.split(r"[.\[]", field, maxsplit=1)[0]
    paths = [file for file in files if Path(file).is_file()]
    having = [file for file in paths if first in read_table(Path(file))]
    return having[0] if len(having) == 1 and len(paths) == len(files) else None


def _files(source: str | Path, overrides: Sequence[str | Path]) -> tuple[str, ...]:
    """List the user's files and directories that an entry was read from."""
    own = [str(source)] if str(source).endswith(".toml") else []
    return tuple(dict.fromkeys([*map(str, overrides), *own]))
