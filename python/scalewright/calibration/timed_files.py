"""Which timed kernels do a user's files hold, and on which device?"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError
from scalewright.reproductions.kernels.devices import Devices
from scalewright.reproductions.kernels.gemm import GEMM
from scalewright.reproductions.kernels.rows import KernelRow, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_LINES_NAMED = 5


def timed_kernels(
    paths: Sequence[str],
    device: str | None = None,
    *,
    kinds: Sequence[str] = (GEMM.name,),
    only: str | None = None,
    overrides: Sequence[str | Path] = (),
) -> tuple[list[KernelRow], Mapping[str, Any], list[str]]:
    """Return the rows, the fields of their device, and what is wrong with lines left out.

    Args:
        paths: CSV files with `latency_us`, the columns of a kind, and perhaps `system`.
        device: The device, or a system of it, of all rows whatever they say; may be left out where
            they say the same one.
        kinds: The kinds that are wanted.
        only: Take only the rows whose `system` contains this.
        overrides: User files or directories that add to the catalog or change it.

    Raises:
        ScalewrightError: A file cannot be read, holds other kernels, or rows of several devices.
    """
    found: list[KernelRow] = []
    wrong: list[str] = []
    counts = Counter(PurePath(path).name for path in dict.fromkeys(paths))
    for path in dict.fromkeys(paths):
        for row in read(path):
            if only is not None and only.casefold() not in row.system.casefold():
                continue
            if not isinstance(row, KernelRow):
                wrong.append(f"{path}, line {row.line}: {row.reason}")
            elif row.kind not in kinds:
                message = f"{path}: got rows of {row.kind}; allowed: {', '.join(kinds)}"
                raise InvalidError(message)
            else:
                # files of one name are told apart by their folders
                found.append(replace(row, file=path) if counts[row.file] > 1 else row)
    if not found:
        first = "; ".join(wrong[:_LINES_NAMED])
        message = f"{', '.join(paths)}: got no row that can be used; {first or 'no row at all'}"
        raise InvalidError(message)
    devices = Devices(device, overrides)
    meant = {row.system: devices.meant(row.system) for row in found}
    names = dict.fromkeys(entry.name for entry in meant.values())
    if len(names) > 1:
        message = f"rows: got devices {', '.join(names)}; allowed: one (--only TEXT takes one)"
        raise InvalidError(message)
    return found, next(iter(meant.values())).table, wrong
