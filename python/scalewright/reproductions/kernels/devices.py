"""Which device does a row of timed kernels mean, and were its constants fitted to such rows?"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.catalog import load_device, load_system, usual_system, with_costs
from scalewright.catalog.layers import built_in_root
from scalewright.catalog.resolving import normalised
from scalewright.errors import InvalidError, UnknownNameError
from scalewright.reproductions.kernels.provenance import changed_fields
from scalewright.reproductions.kernels.rows import FOLDER
from scalewright.reproductions.machine import refuse_several
from scalewright.reproductions.misspelt import refuse_misspelt_hardware

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scalewright.catalog.toml_file import Table

_FILE = "devices.csv"
_SET_FILE = "constants_from.csv"
# fields of a request that name the format of products, and formats that stand for one another
_MULTIPLIED = ("a", "rows", "queries")
_NARROW = {
    "fp8": ("fp8",),
    "mxfp8": ("mxfp8", "fp8"),
    "nvfp4": ("nvfp4",),
    "mxfp4": ("mxfp4", "nvfp4"),
}
# the fields of a device that hold the constants of a kind
_CONSTANTS = {
    "gemm": {"launch_overhead", "matmul"},
    "attention_prefill": {"attention", "prefill"},
    "attention_decode": {"decode"},
    "attention_forward": {"attention", "training_attention"},
    "attention_backward": {"attention", "training_attention"},
    "moe": {"experts"},
}
_SMALLER = re.compile(r"laptop|notebook|mobile|max-q|maxq|max q")
"""Words of boards that have less of everything than the board whose name they bear."""
FITTED = frozenset[str]().union(*_CONSTANTS.values())
"""The fields of a device that hold constants of kernels."""
# fields that no kernel timed alone depends on
_APART = {
    "calibration",
    "communication_units",
    "die_area",
    "power",
    "price",
    "speed_spread",
    "year",
}


@dataclass(frozen=True)
class ResolvedDevice:
    """The device that a spelling means."""

    name: str
    table: Mapping[str, Any]
    """Its fields."""
    calibrated: frozenset[str]
    """Kinds of kernels to whose rows of this spelling the catalog's constants were fitted."""
    changed: frozenset[str] = frozenset()
    """Fields that a user's own files changed."""
    note: str = ""
    """For what the spelling was taken, where only words in it tell."""

    def is_ours(self, kind: str) -> bool:
        """Say whether kernels of a kind are priced with the constants that the package ships.

        Nobody knows to which rows those of a user were fitted. What files change of other kinds
        alone does not count.
        """
        return self.changed <= (FITTED - _CONSTANTS.get(kind, set())) | _APART

    def runs(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what libraries run where the device has no products in a narrow format.

        They keep weights and caches in it and multiply in 16 bits: vLLM's Marlin kernels (fp8 below
        compute capability 8.9, nvfp4 below 10), FlashInfer over caches in fp8.
        """
        matrix = self.table["matrix"]
        for field in _MULTIPLIED:
            formats = _NARROW.get(request.get(field, ""), tuple(matrix))
            if not any(name in matrix for name in formats):
                wide = "bf16" if "bf16" in matrix else "fp16"
                kept = {key: value for key, value in request.items() if key != "cast_from"}
                return {**kept, field: wide}
        return request

    def stand_in(self, request: Mapping[str, Any]) -> str:
        """Say in words whose constants stand in for a format of attention, if any do."""
        dtype = str(request.get("dtype", ""))
        if request["kernel"] != "training_attention" or dtype not in _NARROW:
            return ""
        known = dtype in self.table.get("training_attention", {})
        return "" if known else f"{self.name} tells of no attention in {dtype}: that of bf16 taken"


class Devices:
    """Finds the device that a row means; remembers those that it has loaded."""

    def __init__(self, only: str | None = None, overrides: Sequence[str | Path] = ()) -> None:
        """Take every row for a run on `only`, a device or a system, where one is given."""
        self._only = only
        self._overrides = overrides
        self._known: dict[str, ResolvedDevice] = {}

    def meant(self, spelling: str) -> ResolvedDevice:
        """Return the device of a row.

        Raises:
            ScalewrightError: The spelling is not known.
        """
        wanted = self._only or spelling
        if not wanted:
            message = "system: got nothing; allowed: a device, or --system NAME for all rows"
            raise InvalidError(message)
        if wanted not in self._known:
            self._known[wanted] = self._found(wanted)
        return self._known[wanted]

    def _found(self, wanted: str) -> ResolvedDevice:
        name, calibrated = _table().get(normalised(wanted), (wanted, frozenset[str]()))
        note = ""
        try:
            table = load_device(name, self._overrides)
        except UnknownNameError as unknown:
            refuse_several(name, tuple(self._overrides))
            refuse_misspelt_hardware(name, tuple(self._overrides), "system")
            try:
                system, by_words = self._system(name)
            except UnknownNameError:
                raise unknown from None
            name = str(system["device"])
            _refuse_smaller(wanted, name)
            note = f"system '{wanted:.60}' taken as {name}" if by_words else ""
            table = load_device(name, self._overrides)
        changed = changed_fields("device", name, self._overrides)
        return ResolvedDevice(str(table["name"]), with_costs(table), calibrated, changed, note)

    def _system(self, name: str) -> tuple[Table, bool]:
        """Return a system, and whether only words of the name tell which."""
        try:
            return load_system(name, self._overrides), False
        except UnknownNameError:
            # `h20_sxm`: the usual system of a device that is spelt in a way of its own
            if (usual := usual_system(name)) is None:
                raise
            return load_system(usual, self._overrides), True


def _refuse_smaller(wanted: str, name: str) -> None:
    """Refuse the board of a laptop, or one of less power, that is taken for its namesake.

    An RTX 3080 of a laptop has 48 of the 68 units, a third of the power and 0.6 of the bandwidth.

    Raises:
        UnknownNameError: It is one.
    """
    said = _SMALLER.search(wanted.casefold())
    if said is not None and said[0] not in name:
        got = f"system: got '{wanted:.60}', which is no {name}"
        message = f"{got}; allowed: a device of the catalog, or a file of its own with its rates"
        raise UnknownNameError(message)


@cache
def sources_of_constants() -> frozenset[tuple[str, str, str]]:
    """Return sources, devices and kinds where all rows of the source set the device's constants.

    Such rows judge nothing, whatever else is held out.
    """
    return frozenset(
        (row["source"], row["device"], kind)
        for row in _listed(_SET_FILE)
        for kind in row["kinds"].split()
    )


@cache
def _table() -> dict[str, tuple[str, frozenset[str]]]:
    return {
        normalised(row["spelling"]): (row["device"], frozenset(row["calibrated"].split()))
        for row in _listed(_FILE)
    }


def _listed(file: str) -> list[dict[str, str]]:
    """Return the rows of one of the package's own lists of kernels."""
    place = built_in_root()
    for part in (*FOLDER, file):
        place = place / part
    text = place.read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))
