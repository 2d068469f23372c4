"""Which nodes and network does a row's text give the usual server of a device?

`V100, 4 per node, 100 Gb/s InfiniBand` names no machine of the catalog, so that the usual server of
the device stands for it. What the words say beside the device then counts before what such a
server has: how many devices share a node, and how much leaves it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from scalewright.reproductions.fabric_words import fabric_in

if TYPE_CHECKING:
    from scalewright.reproductions.fabric_words import Rate

_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_RATE = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([kMGT]?)(b|B)/s\s*")
_NEAR = 0.12
"""Shares of a rate within which two figures mean the same adapters, as 25 GB/s and 200 Gb/s do."""
_MOST_DEVICES = 16
_MOST_OF_A_DEVICE = 1.7e12
"""Above this many bits a second of one device the words speak of something else."""
_OWN_ADAPTER = 99e9
"""From this share of a device on, devices have adapters of their own."""
_ONE_PORT = 450e9
"""What a single adapter carries at most."""


def as_told(
    system: dict[str, Any], text: str, per_node: int | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a usual server as a row's words have it, and what to mind.

    Args:
        system: Fields of the usual server of a device.
        text: The hardware as the row has it.
        per_node: Devices of a node, as a column of its own says.
    """
    own = int(system["devices_per_node"])
    levels: list[dict[str, Any]] = system.get("levels", [])
    if not _may_be_told(levels, own):
        return system, ()
    told = fabric_in(text)
    count = per_node or told.devices_per_node or own
    if count > _MOST_DEVICES:
        count = own
    inside, network = dict(levels[0]), dict(levels[1])
    said: list[str] = []
    if count != own:
        said.append(f"nodes of {count} devices")
        inside["devices"] = count
        if inside.get("kind") == "mesh" and "nvlink" not in str(inside.get("name")):
            # each pair has links of its own; those of NVLink go to the devices that are there
            share = (count - 1) / (own - 1)
            inside["bandwidth"] = f"{_bits(inside['bandwidth']) * share / 8e9:.6g} GB/s"
        if (adapters := network.get("adapters")) is not None:
            network["adapters"] = min(adapters, count)
    if told.rate is not None:
        said += _joined(network, told.rate, count)
    if not said:
        return system, ()
    kept = [inside, network] if count > 1 else [network]
    if count == 1:
        network.pop("adapters", None)
    changed = {**system, "devices_per_node": count, "levels": kept}
    return changed, (f"{' and '.join(said)} taken, as the row says",)


def _may_be_told(levels: object, own: int) -> bool:
    """Say whether levels are links inside a node and one switched network of devices' parts."""
    if not isinstance(levels, list):
        return False
    both = cast("list[object]", levels)
    if len(both) != 2 or not all(isinstance(level, dict) for level in both):
        return False
    inside, network = cast("list[dict[str, Any]]", both)
    switched = network.get("kind") == "fat-tree" and "devices" not in network
    rates = [_bits(level.get("bandwidth")) for level in (inside, network)]
    return switched and inside.get("devices") == own and min(rates) > 0.0


def _joined(network: dict[str, Any], told: Rate, count: int) -> list[str]:
    """Give the network the rate that is told, where it is another one; say so."""
    usual = _bits(network["bandwidth"])
    share = told.bits_per_s if told.of_device else told.bits_per_s / count
    known = [share / usual]
    if not told.sure and usual > _OWN_ADAPTER:
        known.append(told.bits_per_s / usual)
    if share > _MOST_OF_A_DEVICE or any(abs(one - 1.0) < _NEAR for one in known):
        return []
    network["bandwidth"] = f"{share / 1e9:.6g} Gb/s"
    network.pop("adapters", None)
    single = not told.sure and told.bits_per_s < _ONE_PORT
    adapters = told.adapters or (1 if single else None)
    if adapters is not None and adapters < count:
        network["adapters"] = adapters
    return [f"{share * count / 1e9:g} Gb/s a node"]


def _bits(rate: object) -> float:
    """Read a rate of the catalog or of a user's file: text, or bytes a second; 0 where neither."""
    if isinstance(rate, (int, float)):
        return float(rate) * 8.0
    if (found := _RATE.fullmatch(str(rate))) is None:
        return 0.0
    try:
        number = float(found[1])
    except ValueError:
        return 0.0
    return number * _SCALES[found[2]] * (8.0 if found[3] == "B" else 1.0)
