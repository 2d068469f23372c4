"""On which system of the catalog, and on how many of its devices, did a published run go?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog import (
    is_usual_server,
    load_device,
    load_system,
    names,
    spellings,
    usual_system,
)
from scalewright.catalog.resolving import normalised
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.reproductions.fabric import as_told
from scalewright.reproductions.fabric_words import fabric_in
from scalewright.reproductions.misspelt import refuse_misspelt_hardware
from scalewright.reproductions.units import bytes_of
from scalewright.reproductions.wide import counted_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scalewright.reproductions.reading import Row
    from scalewright.reproductions.setting import Setting

    Places = tuple[str | Path, ...]

_PARTS = re.compile(r"[+,;/&|\u2192]|\b(?:and|or|vs|versus|with)\b", re.IGNORECASE)
_JOINED = re.compile(r"\+|\b(?:and|vs|versus)\b", re.IGNORECASE)
_COUNT = re.compile(r"^\s{0,4}[0-9]{1,6}\s{0,2}[x\u00d7*]?\s{1,4}|^\s{0,4}[0-9]{1,6}[x\u00d7*]")
_LONGEST = 200
_SHORTEST = 2
"""Letters of the shortest name of a device, as T4."""
_CORES = "Devices are cores"
_CORES_PER_CHIP = 2
_COUNTED_BY_CORES = re.compile(r"tpu[ -]?v(?:[2-4]|5p)[ -]([0-9]{1,5})\b(.{0,100})")
"""A slice whose name counts cores, of chips that have two, as v3-256."""
_SLICE = re.compile(r"\bv(2|3|4|5p|5e|5litepod|6e)-([0-9]{1,5})(?![0-9.x-])")
_BY_CHIPS = {"5e", "5litepod", "6e"}
_NAMES = {1080, 2080, 3060, 3070, 3080, 3090, 4060, 4070, 4080, 4090, 5060, 5070, 5080, 5090, 6000}
"""Numbers that are names of boards."""
_BOARD = re.compile(
    r"(?<![a-z0-9.x\u00d7])([0-9]{2,3}) ?(?:gi?b|g(?= ?hbm))"
    r"(?![a-z/]| ?(?:/|per|of|host|cpu|ram|dram|ddr|lpddr))(?!.*\bgcd)"
)
"""The memory of a board, as `144G HBM3e` and `(96 GB)`; no rate, and none of a host."""
_GIGA, _ROUNDED, _OF_A_BOARD = 1e9, 0.13, 3.0
"""How far a size may be from a device's own, and how many times it a board of its kind may have."""
_RACK = 72
_POWERS_OF_TWO = {
    "gb200-nvl72": "dgx-gb200",
    "gb300-nvl72": "dgx-gb300",
    "vr200-nvl72": "dgx-vr200",
}
"""Racks of which a job takes 64 devices where its own number does not fill them."""
_SIXTEEN = 16
_OF_SIXTEEN = {"dgx-1-v100": "dgx-2", "dgx-1-v100-32gb": "dgx-2"}
"""Machines of a device with eight a node, and those that have sixteen."""
_HALVES = {
    "trn1-32xlarge": "trn1-32xlarge-cores",
    "aurora-cards": "aurora",
    "dragonfly-frontier": "frontier-gcd",
    "mi250x": "frontier-gcd",
    "mi250-node": "mi250-dies",
}
"""Systems of boards that programs see as two devices each, and the same systems by those."""
_HALF = re.compile(r"(?<![a-z0-9])(?:tiles?|gcds?|neuron ?cores?)(?![a-z0-9])")
"""What such halves are called."""


@dataclass(frozen=True)
class Machine:
    """A system and how many of its devices a run had."""

    system: dict[str, Any]
    device: dict[str, Any]
    devices: int
    notes: tuple[str, ...]


@dataclass
class Machines:
    """Systems and their devices, each read once, and the settings of rows, each understood once."""

    overrides: Places = ()
    """User files or directories that add to the catalog or change it."""
    settings: dict[object, Setting] = field(default_factory=dict[object, "Setting"])
    """Settings by what rows say of their runs; nobody may change one."""
    _read: dict[str, tuple[dict[str, Any], dict[str, Any]]] = field(
        default_factory=dict[str, tuple[dict[str, Any], dict[str, Any]]]
    )

    def named(self, system: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fields of a system and of its device, which nobody may change.

        Raises:
            ScalewrightError: A file of the catalog is wrong.
        """
        if system not in self._read:
            fields = load_system(system, self.overrides)
            self._read[system] = fields, load_device(fields["device"], self.overrides)
        return self._read[system]


def machine_of(row: Row, machines: Machines, usual: Callable[[int], int] | None = None) -> Machine:
    """Return the machine of a row.

    Args:
        row: The row.
        machines: Where systems are found.
        usual: How many devices a row stands for that says no count, from those of a node.

    Raises:
        ScalewrightError: The hardware is not one system of the catalog, or the count is missing.
    """
    text = row.text("hardware")
    if not text:
        message = f"{row.named('hardware')}: got nothing; allowed: a system, as 'DGX A100-80GB'"
        raise InvalidError(message)
    name, cores, notes = _system(text, machines.overrides)
    name, system, notes = _told_otherwise(row, machines, name, notes)
    device = machines.named(name)[1]
    per_node = row.told("per_node")
    own = per_node or system["devices_per_node"]
    count = _devices(row, own)
    said = count is not None
    if count is None:
        count, told = _in_words(text, name, own, machines.overrides)
        notes += told
    if count is None and usual is not None:
        count = usual(system["devices_per_node"])
        notes = (*notes, f"{count} devices taken: the row says no count")
    count = _needed(row, count)
    if (halves := _of_halves(row, count, own, name)) is not None:
        notes = (*notes, f"{count} are the two parts of each device of {name}, which ranks count")
        name = halves
        system, device = machines.named(name)
        own = system["devices_per_node"]
    notes += _unlike_counts(row, count, own, name, in_words=said and not cores)
    if notes and count > _RACK and count % _RACK and name in _POWERS_OF_TWO:
        name = _POWERS_OF_TWO[name]
        notes = (f"hardware '{text}' taken as {name}, which uses 64 devices of a rack",)
        system, device = machines.named(name)
    if notes and _says_cores(text, count):
        cores, notes = True, (*notes, f"devices are cores, {_CORES_PER_CHIP} a chip")
    if cores:
        count = max(count // _CORES_PER_CHIP, 1)
    return Machine(system, device, count, (*notes, *_unlike_memory(text, device)))


def _told_otherwise(
    row: Row, machines: Machines, name: str, notes: tuple[str, ...]
) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """Return a system as a row's words and columns have it, where it is a device's usual server."""
    text, per_node, fabric = row.text("hardware"), row.told("per_node"), row.text("fabric")
    system, _ = machines.named(name)
    if (notes or per_node or fabric) and is_usual_server(text) and name == usual_system(text):
        # a spelling that is known has been read; its columns have not
        words = f"{text}, {fabric}" if notes else fabric
        if (larger := _larger(name, words, per_node)) is not None:
            name, notes = larger, (f"hardware '{text}' taken as {larger}",)
            system, _ = machines.named(name)
        system, told = as_told(system, words, per_node)
        notes += told
    if fabric and fabric_in(fabric).rate is None:
        notes += (f"{row.named('fabric')} '{fabric:.40}' tells no rate: that of {name} taken",)
    return name, system, notes


def _larger(system: str, words: str, per_node: int | None) -> str | None:
    """Return the machine of sixteen devices where words or a column say that nodes have as many."""
    count = per_node or fabric_in(words).devices_per_node
    return _OF_SIXTEEN.get(system) if count == _SIXTEEN else None


def _needed(row: Row, count: int | None) -> int:
    """Return a count of devices, or refuse a row that has none."""
    if count is None:
        got = f"{row.named('devices')}: got nothing"
        message = f"{got}; allowed: a count, or tensor, pipeline and data degrees"
        raise InvalidError(message)
    return count


def _of_halves(row: Row, count: int, per_node: int, system: str) -> str | None:
    """Return the system by halves of devices where a row names those, or its ranks are of them."""
    nodes = row.told("nodes")
    named = _HALF.search(row.text("hardware").casefold()) is not None
    twice = nodes is not None and 2 * nodes * per_node == count
    return _HALVES.get(system) if named or twice else None


def _unlike_counts(
    row: Row, count: int, per_node: int, system: str, *, in_words: bool
) -> tuple[str, ...]:
    """Say where words of hardware, or nodes, count other devices than the row."""
    notes: list[str] = []
    text = row.text("hardware")
    counted = int(counted_in(text).get("devices", count)) if in_words else count
    if counted != count and counted not in _NAMES:
        notes.append(f"'{text}' counts {counted} devices, the row {count}, which are taken")
    nodes = row.told("nodes")
    if nodes is not None and nodes * per_node != count:
        told = f"{nodes} nodes of {per_node} devices of {system} are not the {count} devices"
        notes.append(f"{told} of the row, which are taken")
    return tuple(notes)


def _unlike_memory(text: str, device: dict[str, Any]) -> tuple[str, ...]:
    """Say where words of hardware tell a memory that the device has not, as another board does."""
    capacity = str(device["tiers"][-1]["capacity"])
    own = bytes_of(capacity)
    unlike = memory_told(text, own) if own is not None else []
    if not unlike:
        return ()
    return (f"'{text:.40}' tells {unlike[0] / _GIGA:g} GB; {device['name']} has {capacity}",)


def memory_told(text: str, own: float) -> list[float]:
    """Return the bytes that words of hardware tell of a board which are not a device's own."""
    said = [float(size) * _GIGA for size in _BOARD.findall(text.casefold())]
    if any(abs(size / own - 1.0) <= _ROUNDED for size in said):
        return []
    return [size for size in said if own / _OF_A_BOARD < size < own * _OF_A_BOARD]


def _in_words(
    text: str, system: str, per_node: int, overrides: Places
) -> tuple[int | None, tuple[str, ...]]:
    """Return how many devices the words of hardware count, and say so."""
    if (count := chips_of_slice(text)) is not None:
        return count, (f"{count} devices taken, which the slice's name counts",)
    if (said := _counted(text, system, overrides)) is None:
        return None, ()
    devices, nodes = said.get("devices"), said.get("nodes")
    count = int(devices) if devices else int(nodes or 1) * per_node
    return count, (f"{count} devices taken, as '{text}' counts",)


def chips_of_slice(text: str) -> int | None:
    """Return the chips of a slice of TPUs that words of hardware name."""
    if (slices := _SLICE.search(text.casefold())) is None:
        return None
    # names of v5e and v6e count chips, those before cores of which a chip has two
    return max(int(slices[2]) // (1 if slices[1] in _BY_CHIPS else _CORES_PER_CHIP), 1)


def _counted(text: str, system: str, overrides: Places) -> dict[str, str] | None:
    """Return the devices or nodes that the words of hardware count, if they do.

    A number may be a name, as in `4090 (24 GB)`: what is left has to have the same device.
    """
    said = counted_in(text)
    if not said or ("hardware" in said and said["hardware"] != text):
        try:
            alone = _system(said.get("hardware", ""), overrides)[0]
        except UnknownNameError:
            return None
        devices = {load_system(name, overrides)["device"] for name in (alone, system)}
        return said if len(devices) == 1 else None
    return said


def _says_cores(text: str, count: int) -> bool:
    """Say whether a slice named by its cores is said to have as many cores as a row devices."""
    found = _COUNTED_BY_CORES.search(text.casefold())
    return found is not None and int(found[1]) == count and "core" in found[2]


def _devices(row: Row, per_node: int) -> int | None:
    if (count := row.count("devices")) is not None:
        return count
    degrees = [row.count(axis) for axis in ("tensor", "pipeline", "data", "context")]
    tensor, pipeline, data, context = degrees
    if tensor is None or pipeline is None or data is None:
        if (nodes := row.count("nodes")) is not None:
            return nodes * per_node
        return None
    ranks = tensor * pipeline * data * (context or 1)
    chips = chips_of_slice(row.text("hardware"))
    # ranks may be cores
    return chips if chips is not None and ranks == chips * _CORES_PER_CHIP else ranks


@cache
def _system(text: str, overrides: Places) -> tuple[str, bool, tuple[str, ...]]:
    """Find the system's name, whether devices are cores, and what to mind."""
    wanted = normalised(text)
    for spelling in spellings().values():
        # `a100_40gb` is a source's own code, `A100 40GB` anybody's words
        code = "_" in spelling.text and spelling.text != text
        if normalised(spelling.text) == wanted and not code:
            if spelling.system is None:
                message = f"hardware: '{text}' is not one system of the catalog: {spelling.note}"
                raise UnknownNameError(message)
            return spelling.system, spelling.note.startswith(_CORES), ()
    for name in names("system", overrides):
        if normalised(name) == wanted:
            return name, False, ()
    refuse_several(text, overrides)
    try:
        return load_system(text, overrides)["name"], False, ()
    except UnknownNameError as error:
        unknown = error
    refuse_misspelt_hardware(text, overrides)
    found = _system_of(text, overrides)
    if found is None or found in names("system"):
        # a user's own device comes before words that its name shares with others
        found = usual_system(text) or found
    if found is not None:
        return found, False, (f"hardware '{text}' taken as {found}",)
    message = f"hardware: {unknown}"
    raise UnknownNameError(message)


def refuse_several(text: str, overrides: Places) -> None:
    """Refuse hardware that is two kinds of device, as `H100 + A100`.

    Raises:
        UnknownNameError: Parts of the text name devices of unlike peaks, or any two that `and`,
            `vs` or a plus joins.
    """
    found: dict[tuple[Any, ...], str] = {}
    # `A100, 80GB` may say one device twice; what joins two says two
    joined = _JOINED.search(text) is not None
    for part in _PARTS.split(text[:_LONGEST]):
        name = _COUNT.sub("", part).strip()
        if len(name) < _SHORTEST:
            continue
        try:
            device = load_device(name, overrides)
        except UnknownNameError:
            continue
        rates = tuple(sorted(device.get("matrix", {}).items()))
        found.setdefault((str(device["name"]),) if joined else rates, name)
    if len(found) > 1:
        message = f"hardware: got '{text:.60}', {' and '.join(found.values())}; allowed: one kind"
        raise UnknownNameError(message)


def _system_of(text: str, overrides: Places) -> str | None:
    """Return the plain server of a device, or the first system that has it."""
    try:
        device = load_device(text, overrides)["name"]
    except UnknownNameError:
        return None
    having = [
        n for n in names("system", overrides) if load_system(n, overrides)["device"] == device
    ]
    plain = f"{device}-node"
    return plain if plain in having else next(iter(having), None)
