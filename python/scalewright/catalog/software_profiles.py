"""What does a named software profile change in a training job and its device?"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog.layers import built_in_root
from scalewright.catalog.toml_file import Table, read_table
from scalewright.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Mapping


def software_names() -> tuple[str, ...]:
    """Return the names of the software profiles of the catalog."""
    return tuple(sorted(_profiles()))


def with_software(
    name: str, training: Mapping[str, Any], device: Mapping[str, Any]
) -> tuple[Table, Table]:
    """Return a training job and its device as a named program uses them.

    The profile's `software` goes into the job; where it names the device, its own attention kernels
    take the place of the device's.

    Raises:
        UnknownNameError: No profile has this name.
    """
    profile = _profiles().get(name)
    if profile is None:
        message = f"software: unknown name '{name}'; known: {', '.join(software_names())}"
        raise UnknownNameError(message)
    changed = dict(device)
    for kernels in profile.get("attention", ()):
        if any(fnmatchcase(str(device["name"]), pattern) for pattern in kernels["devices"]):
            own = {key: value for key, value in kernels.items() if key != "devices"}
            changed["attention"] = {**device.get("attention", {}), **own}
    return {**training, "software": profile["software"]}, changed


@cache
def _profiles() -> dict[str, Table]:
    folder = built_in_root() / "software"
    entries = (file for file in folder.iterdir() if file.name.endswith(".toml"))
    tables = (read_table(file) for file in entries)
    return {table["name"]: table for table in tables}
