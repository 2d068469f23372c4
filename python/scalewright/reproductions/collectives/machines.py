"""On which group of which system, and by which algorithms, did a measured collective run?"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog import load_system, names, usual_system
from scalewright.catalog.layers import built_in_root
from scalewright.catalog.resolving import normalised
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.planning import System, system
from scalewright.reproductions.kernels.devices import FITTED
from scalewright.reproductions.kernels.provenance import changed_fields
from scalewright.reproductions.misspelt import refuse_misspelt_hardware

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scalewright.reproductions.collectives.rows import CollectiveRow

_FILE = ("published", "collectives", "systems.csv")
# fields of systems and devices that no collective depends on
_APART = FITTED | {
    *("calibration", "die_area", "power", "price", "rent_per_device_hour", "year"),
    *("node_overhead_power", "power_usage_effectiveness"),
}
# words of what a source says of the algorithm, and what that leaves to compete; the first that fits
_ALGORITHMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"ring-like", ("ring",)),
    (r"^auto", ()),
    (r"one-?shot", ("one_shot",)),
    (r"two-?shot", ("two_shot",)),
    (r"mscclpp|msccl\+\+", ("one_shot", "two_shot")),
    (r"trt-?llm|custom", ("one_shot", "two_shot", "ring", "tree")),
    (r"hfreduce", ("host_reduce",)),
    (r"nvls *off", ("ring",)),
    (r"nvls", ("in_network",)),
    (r"^ring", ("ring",)),
    (r"^(double binary )?tree", ("tree",)),
)


@dataclass(frozen=True)
class _SystemSpelling:
    """What the table of systems says of one spelling."""

    system: str
    calibrated: bool
    """True where two thirds of these rows, and no others, may have fitted the constants."""
    note: str
    taken: str = ""
    """For which system a device's name was taken."""


@dataclass(frozen=True)
class Run:
    """A collective on a group of a system."""

    system: System
    collective: str
    ranks: int
    stride: int
    algorithms: tuple[str, ...]
    """What competes; none: what the fabric's library offers."""
    calibrated: bool
    """Whether two thirds of the rows of this spelling may have fitted the catalog's constants."""
    ours: bool
    """Whether these are the constants at work, and no files of a user changed them."""
    note: str
    """For what the row's name was taken, where it is another one."""


class Machines:
    """Finds the run that a row means; remembers the systems that it has loaded."""

    def __init__(self, only: str | None = None, overrides: Sequence[str | Path] = ()) -> None:
        """Take every row for a run on the system `only`, where one is given."""
        self._only = only
        self._overrides = overrides
        self._systems: dict[tuple[str, int], System] = {}
        self._changed: dict[str, frozenset[str]] = {}

    def run_of(self, row: CollectiveRow) -> Run:
        """Return what to price for a row.

        Raises:
            ScalewrightError: The system is not known, or has no group like this one.
        """
        found = (
            _found(row)
            if self._only is None
            else _SystemSpelling(self._only, calibrated=False, note="")
        )
        table = self._table(found.system)
        stride = _stride(row, table)
        devices = (row.ranks - 1) * stride + 1
        per_node = int(table["devices_per_node"])
        devices = -(-devices // per_node) * per_node if devices > per_node else devices
        machines = self._loaded(found.system, devices)
        algorithms = _algorithms(row.algorithm)
        if "ring" in algorithms and "tree" in algorithms and _reduces(machines):
            algorithms = (*algorithms, "in_network")
        return Run(
            system=machines,
            collective=row.collective,
            ranks=row.ranks,
            stride=stride,
            algorithms=algorithms,
            calibrated=found.calibrated,
            ours=self._ours(found.system, str(table["device"])),
            note=found.taken,
        )

    def _table(self, name: str) -> dict[str, Any]:
        """Return the fields of a system; of a device's name say which system it has."""
        try:
            return load_system(name, self._overrides)
        except UnknownNameError as error:
            if (usual := usual_system(name)) is None:
                raise
            message = f"system: got '{name:.60}', a device; allowed: a system of it, as {usual}"
            raise UnknownNameError(message) from error

    def _ours(self, name: str, device: str) -> bool:
        """Say whether no file of a user's own changed what collectives of a system depend on."""
        if name not in self._changed:
            of_system = changed_fields("system", name, self._overrides)
            of_device = changed_fields("device", device, self._overrides)
            self._changed[name] = of_system | of_device
        return self._changed[name] <= _APART

    def _loaded(self, name: str, devices: int) -> System:
        key = (name, devices)
        if key not in self._systems:
            self._systems[key] = system(name, devices, overrides=self._overrides)
        return self._systems[key]


def _stride(row: CollectiveRow, table: dict[str, Any]) -> int:
    """Return the distance between ranks where a run leaves devices of its nodes idle."""
    if row.nodes is None:
        return 1
    per_node = int(table["devices_per_node"])
    on_each, rest = divmod(row.ranks, row.nodes)
    first = table["levels"][0].get("devices", per_node)
    refuse_crowded(row.ranks, row.nodes, max(per_node, first))
    if row.nodes == 1:
        return 1
    if rest or on_each == 0 or (on_each < per_node and per_node % on_each):
        message = (
            f"nodes: got {row.nodes} for {row.ranks} ranks; allowed: a number that deals them to "
            f"nodes of {per_node} evenly"
        )
        raise InvalidError(message)
    # racks of many chassis count as one node where the first level joins them
    return 1 if on_each >= per_node or first > per_node else per_node // on_each


def refuse_crowded(ranks: int, nodes: int, per_node: int) -> None:
    """Refuse nodes that have fewer devices than ranks.

    Args:
        ranks: How many took part.
        nodes: On how many nodes.
        per_node: Devices of a node, or of what counts as one.

    Raises:
        InvalidError: They have.
    """
    if ranks > nodes * per_node:
        got = f"nodes: got {nodes} for {ranks} ranks"
        message = f"{got}; allowed: {-(-ranks // per_node)} or more, of {per_node} devices each"
        raise InvalidError(message)


def _reduces(machines: System) -> bool:
    return any(level.get("in_network_reduction") for level in machines.table["levels"])


def _algorithms(said: str) -> tuple[str, ...]:
    text = said.casefold()
    for pattern, names_ in _ALGORITHMS:
        if re.search(pattern, text):
            return names_
    return ()


def _found(row: CollectiveRow) -> _SystemSpelling:
    text, known = row.system, _table()
    if not text:
        message = (
            "system: got nothing; allowed: the name of a system, or --system NAME for all rows"
        )
        raise InvalidError(message)
    wanted = normalised(text)
    if wanted in known:
        entry = known[wanted]
        if not entry.system:
            message = f"system: '{text}' is not a system of the catalog: {entry.note}"
            raise UnknownNameError(message)
        return entry
    for name in names("system"):
        if normalised(name) == wanted:
            return _SystemSpelling(name, calibrated=False, note="")
    try:
        return _SystemSpelling(load_system(text)["name"], calibrated=False, note="")
    except UnknownNameError:
        pass
    refuse_misspelt_hardware(text, field="system")
    # inside a node the device says how it is joined; between nodes no text of a device does
    if row.nodes in (None, 1) and (usual := usual_system(text)) is not None:
        taken = f"system '{text:.60}' taken as {usual}"
        return _SystemSpelling(usual, calibrated=False, note="", taken=taken)
    message = (
        f"system: unknown name '{text}'; allowed: a name of the catalog or of "
        "published/collectives/systems.csv, or --system NAME for all rows"
    )
    raise UnknownNameError(message)


@cache
def _table() -> dict[str, _SystemSpelling]:
    place = built_in_root()
    for part in _FILE:
        place = place / part
    rows = csv.DictReader(io.StringIO(place.read_text(encoding="utf-8"), newline=""))
    return {
        normalised(row["spelling"]): _SystemSpelling(
            row["system"], row["rows"] == "calibrated", row["note"]
        )
        for row in rows
    }
