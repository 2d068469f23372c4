"""What does a named software profile change in a training job and its device?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.catalog.loading import load_entry, names
from scalewright.catalog.merging import merged
from scalewright.catalog.software_effect import lay_over

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scalewright.catalog.toml_file import Table


def software_names(overrides: Sequence[str | Path] = ()) -> tuple[str, ...]:
    """Return the names of the software profiles of the catalog.

    Args:
        overrides: User files or directories that add to the catalog or change it.
    """
    return tuple(names("software", overrides))


def with_software(
    name: str,
    training: Mapping[str, Any],
    device: Mapping[str, Any],
    overrides: Sequence[str | Path] = (),
) -> tuple[Table, Table]:
    """Return a training job and its device as a named program uses them.

    The profile's `software` goes into the job; where it names the device, its own attention kernels
    take the place of the device's, and so do the units that its kernels lose beside a collective,
    the share of tested rates that its library of products reaches and rates that last at its site.

    Args:
        name: The profile, or the path of a TOML file; several joined by `+` are laid one over the
            other, as a program and the release of a library that it called.
        training: The fields of the job.
        device: The fields of the device.
        overrides: User files or directories that add to the catalog or change it.

    Raises:
        UnknownNameError: No profile has this name; says which come nearest.
    """
    changed = dict(device)
    software: Table = {}
    called: list[str] = []
    for part in _joined(name):
        profile = load_entry("software", part, overrides).table
        software = merged(software, profile.get("software", {}))
        called.append(str(profile["name"]))
        lay_over(changed, profile, device)
    return {**training, "software": {**software, "name": "+".join(called)}}, changed


def _joined(name: str) -> list[str]:
    """Return the profiles of a name that joins several by `+`: a program and its libraries."""
    return [name] if name.endswith(".toml") else name.split("+")
