"""Does the engine take every value of a software profile, on every device that it names?"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.catalog.layers import built_in_files
from scalewright.catalog.software_effect import BY_DEVICE, lay_over, names_device
from scalewright.errors import InvalidError, ScalewrightError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalewright.catalog.layers import Kind
    from scalewright.catalog.toml_file import Table

_MODEL, _SYSTEM, _DEVICE = "gpt2", "dgx-h100", "h100-sxm"


def try_profile(where: str, profile: Table, devices: Sequence[str]) -> None:
    """Hand a profile to the engine as a small job would.

    Args:
        where: What messages call its file.
        profile: Its fields, with those of its base.
        devices: Names of all devices, those of the user too.

    Raises:
        InvalidError: A value is none that a program can have, or a table names no device.
    """
    for field in BY_DEVICE:
        for table in profile.get(field, ()):
            if not any(names_device(table, name) for name in devices):
                got = ", ".join(table["devices"])
                message = f"{where}: {field}.devices: got {got}; allowed: names of devices"
                raise InvalidError(message)
    named = [name for name in _built_in("device") if _names(profile, name)]
    for name in (_DEVICE, *named):
        try:
            _try_on(profile, name)
        except ScalewrightError as error:
            message = f"{where}: {str(error).removeprefix('training.')}"
            raise InvalidError(message) from error


def _names(profile: Table, device: str) -> bool:
    tables = (table for field in BY_DEVICE for table in profile.get(field, ()))
    return any(names_device(table, device) for table in tables)


def _try_on(profile: Table, name: str) -> None:
    device = _built_in("device")[name]
    changed = dict(device)
    lay_over(changed, profile, device)
    system = {**_built_in("system")[_SYSTEM], "device": name}
    cluster = _engine.Cluster(json.dumps({"system": system, "device": changed, "devices": 8}))
    model = _engine.Workload(json.dumps(_built_in("model")[_MODEL]))
    software = {**profile.get("software", {}), "name": str(profile["name"])}
    job = {"global_batch": 8, "sequence": 128, "precision": "fp32", "software": software}
    _engine.Job(model, cluster, json.dumps(job))


@cache
def _built_in(kind: Kind) -> dict[str, dict[str, Any]]:
    """Return the whole entries of the package: what a user lays over them is checked elsewhere."""
    tables = (file.table() for file in built_in_files(kind))
    return {str(table["name"]): table for table in tables if "base" not in table}
