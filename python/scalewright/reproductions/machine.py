"""On which system of the catalog, and on how many of its devices, did a published run go?"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog import load_device, load_system, names, spellings
from scalewright.catalog.loading import normalised
from scalewright.errors import InvalidError, UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

    from scalewright.reproductions.reading import Row

    Places = tuple[str | Path, ...]

_CORES = "Devices are cores"
_CORES_PER_CHIP = 2
_RACK = 72
_POWERS_OF_TWO = {"gb200-nvl72": "dgx-gb200", "gb300-nvl72": "dgx-gb300"}
"""Racks of which a job takes 64 devices where its own number does not fill them."""
# words that must all stand in the text, and the usual system of that device
_USUAL: tuple[tuple[tuple[str, ...], str], ...] = (
    (("gb300",), "gb300-nvl72"),
    (("gb200",), "gb200-nvl72"),
    (("b300",), "dgx-b300"),
    (("b200",), "dgx-b200"),
    (("gh200",), "alps"),
    (("h200",), "dgx-h200"),
    (("h20",), "h20-node"),
    (("h800",), "h800-cluster"),
    (("a800",), "a800-node"),
    (("h100", "pcie"), "h100-pcie-node"),
    (("h100",), "dgx-h100"),
    (("a100", "pcie", "80"), "a100-pcie-80gb-node"),
    (("a100", "40g"), "dgx-a100-40gb"),
    (("a100",), "dgx-a100-80gb"),
    (("a6000",), "a6000-node"),
    (("a10g",), "g5-48xlarge"),
    (("g5.48xlarge",), "g5-48xlarge"),
    (("a10",), "a10-node"),
    (("p5.48xlarge",), "p5"),
    (("p4de.24xlarge",), "p4de"),
    (("p4d.24xlarge",), "p4d-24xlarge"),
    (("p3dn.24xlarge",), "p3dn-24xlarge"),
    (("p3.16xlarge",), "p3-16xlarge"),
    (("v100", "32g"), "dgx-1-v100-32gb"),
    (("v100",), "dgx-1-v100"),
    (("l40s",), "l40s-node"),
    (("l20",), "l20-node"),
    (("rtx4090",), "rtx-4090-node"),
    (("mi300x",), "mi300x-node"),
    (("mi325x",), "mi325x-node"),
    (("mi355x",), "mi355x-node"),
    (("mi350x",), "mi350x-node"),
    (("mi250", "gcd"), "frontier-gcd"),
    (("mi250",), "mi250x"),
    (("frontier",), "frontier-gcd"),
    (("lumi",), "lumi-g"),
    (("910c",), "cloudmatrix-384"),
    (("910b3",), "atlas-800t-a2-b3"),
    (("910b",), "atlas-800t-a2"),
    (("ascend910",), "atlas-900"),
    (("v5p",), "tpu-v5p"),
    (("v5e",), "tpu-v5e"),
    (("v5litepod",), "tpu-v5e"),
    (("v6e",), "tpu-v6e"),
    (("trillium",), "tpu-v6e"),
    (("tpu7x",), "tpu7x"),
    (("v7x",), "tpu7x"),
    (("ironwood",), "tpu7x"),
    (("tpu", "v4"), "tpu-v4"),
    (("tpu", "v3"), "tpu-v3-pod"),
    (("tpu", "v2"), "tpu-v2-pod"),
    (("trainium2",), "trn2-ultraserver"),
    (("trn2",), "trn2-ultraserver"),
    (("neuroncore", "v2"), "trn1-32xlarge-cores"),
    (("trn1", "core"), "trn1-32xlarge-cores"),
    (("trn1n",), "trn1n-32xlarge"),
    (("trn1",), "trn1-32xlarge"),
    (("trainium",), "trn1-32xlarge"),
    (("gaudi3",), "gaudi3-node"),
    (("gaudi2",), "gaudi2-node"),
)


@dataclass(frozen=True)
class Machine:
    """A system and how many of its devices a run had."""

    system: dict[str, Any]
    device: dict[str, Any]
    devices: int
    notes: tuple[str, ...]


@dataclass
class Machines:
    """Systems and their devices, each read once."""

    overrides: Places = ()
    """User files or directories that add to the catalog or change it."""
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


def machine_of(row: Row, machines: Machines) -> Machine:
    """Return the machine of a row.

    Args:
        row: The row.
        machines: Where systems are found.

    Raises:
        ScalewrightError: The hardware is not one system of the catalog, or the count is missing.
    """
    text = row.text("hardware")
    if not text:
        message = f"{row.named('hardware')}: got nothing; allowed: a system, as 'DGX A100-80GB'"
        raise InvalidError(message)
    name, cores, notes = _system(text, machines.overrides)
    count = _devices(row)
    if notes and count > _RACK and count % _RACK and name in _POWERS_OF_TWO:
        name = _POWERS_OF_TWO[name]
        notes = (f"hardware '{text}' taken as {name}, which uses 64 devices of a rack",)
    system, device = machines.named(name)
    if cores:
        count = max(count // _CORES_PER_CHIP, 1)
    return Machine(system, device, count, notes)


def usual_system(text: str) -> str | None:
    """Return the usual system of the device that a text names, if it names one."""
    folded = "".join(text.casefold().replace("-", " ").split())
    for words, name in _USUAL:
        if all(word in folded for word in words):
            return name
    return None


def _devices(row: Row) -> int:
    if (count := row.count("devices")) is not None:
        return count
    degrees = [row.count(axis) for axis in ("tensor", "pipeline", "data", "context")]
    tensor, pipeline, data, context = degrees
    if tensor is None or pipeline is None or data is None:
        got = f"{row.named('devices')}: got nothing"
        message = f"{got}; allowed: a count, or tensor, pipeline and data degrees"
        raise InvalidError(message)
    return tensor * pipeline * data * (context or 1)


@cache
def _system(text: str, overrides: Places) -> tuple[str, bool, tuple[str, ...]]:
    """Find the system's name, whether devices are cores, and what to mind."""
    wanted = normalised(text)
    for spelling in spellings().values():
        if normalised(spelling.text) == wanted:
            if spelling.system is None:
                message = f"hardware: '{text}' is not one system of the catalog: {spelling.note}"
                raise UnknownNameError(message)
            return spelling.system, spelling.note.startswith(_CORES), ()
    for name in names("system", overrides):
        if normalised(name) == wanted:
            return name, False, ()
    try:
        return load_system(text, overrides)["name"], False, ()
    except UnknownNameError:
        pass
    if (name := usual_system(text)) is not None:
        return name, False, (f"hardware '{text}' taken as {name}",)
    close = ", ".join(names("system")[:4])
    message = f"hardware: unknown system '{text}'; known: {close} and {len(names('system'))} in all"
    raise UnknownNameError(message)
