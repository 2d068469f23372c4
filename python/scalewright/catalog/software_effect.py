"""What do the tables of one software profile change in a device that they name?"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from scalewright.catalog.merging import merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scalewright.catalog.toml_file import Table

BY_DEVICE = ("attention", "training_attention", "overlap", "products", "sustained")
"""Arrays of tables of a profile, each of which names its `devices` by patterns."""


def lay_over(changed: Table, profile: Mapping[str, Any], device: Mapping[str, Any]) -> None:
    """Put a profile's own constants of a device into `changed`, a copy of it.

    Its attention kernels take the place of the device's, and so do the units that its kernels lose
    beside a collective, the share of tested rates that its library of products reaches and rates
    that last at its site.
    """
    for own in _of_device(profile.get("attention", ()), device):
        changed["attention"] = {**device.get("attention", {}), **own}
        # what was timed are kernels of other programs
        changed.pop("training_attention", None)
    for own in _of_device(profile.get("training_attention", ()), device):
        kernels = changed.get("training_attention", {})
        changed["training_attention"] = merged(kernels, own) if kernels else own
    for own in _of_device(profile.get("overlap", ()), device):
        changed["communication_units"] = own["communication_units"]
    for own in _of_device(profile.get("products", ()), device):
        changed["product_share"] = own["share"]
    for own in _of_device(profile.get("sustained", ()), device):
        changed["sustained"] = {**device.get("sustained", {}), **own["rates"]}


def names_device(table: Mapping[str, Any], name: str) -> bool:
    """Say whether one of the patterns of a table names a device."""
    return any(fnmatchcase(name, pattern) for pattern in table["devices"])


def _of_device(tables: Iterable[Table], device: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the tables whose patterns name a device, without the patterns."""
    for table in tables:
        if names_device(table, str(device["name"])):
            yield {key: value for key, value in table.items() if key != "devices"}
