"""Which timed kernels do a user's files hold, and on which device?"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from scalewright.calibration import own_system
from scalewright.calibration.left_out import grouped, none_left
from scalewright.errors import InvalidError, ScalewrightError
from scalewright.planning import kernel_times
from scalewright.reproductions.kernels.devices import Devices
from scalewright.reproductions.kernels.gemm import GEMM
from scalewright.reproductions.kernels.limits import too_quick
from scalewright.reproductions.kernels.rows import KernelRow, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scalewright.reproductions.kernels.devices import ResolvedDevice

_LINES_NAMED = 5
_COLUMNS = {"moe": "moe_dtype", "attention_prefill": "attn_dtype", "attention_decode": "attn_dtype"}
"""What a kind calls its format; `dtype` where it is none of these."""
_NO_FORMAT = re.compile(r"\w+: got \S+; allowed: (formats of .*)", re.DOTALL)
"""How the engine says that a device has no products in a format."""


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
    found: list[tuple[str, KernelRow]] = []
    wrong: list[str] = []
    systems: dict[str, None] = {}
    counts = Counter(PurePath(path).name for path in dict.fromkeys(paths))
    for path in dict.fromkeys(paths):
        for row in read(path):
            systems[row.system] = None
            if only is not None and only.casefold() not in row.system.casefold():
                continue
            if not isinstance(row, KernelRow):
                wrong.append(f"{path}, line {row.line}: {row.reason}")
            elif row.kind not in kinds:
                message = f"{path}: got rows of {row.kind}; allowed: {', '.join(kinds)}"
                raise InvalidError(message)
            else:
                # files of one name are told apart by their folders
                found.append((path, replace(row, file=path) if counts[row.file] > 1 else row))
    if only is not None and not found and not wrong:
        raise InvalidError(none_left(only, systems))
    if not found:
        raise InvalidError(_no_row(paths, wrong))
    devices = Devices(*own_system.meant(device, overrides))
    told = {row.system: devices.meant(row.system) for _, row in found}
    names = dict.fromkeys(entry.name for entry in told.values())
    if len(names) > 1:
        message = f"rows: got devices {', '.join(names)}; allowed: one (--only TEXT takes one)"
        raise InvalidError(message)
    one = next(iter(told.values()))
    rows = _that_run(found, one, wrong)
    if not rows:
        raise InvalidError(_no_row(paths, wrong))
    return rows, one.table, wrong


def _no_row(paths: Sequence[str], wrong: Sequence[str]) -> str:
    first = "; ".join(grouped(wrong)[:_LINES_NAMED])
    return f"{', '.join(paths)}: got no row that can be used; {first or 'no row at all'}"


def _that_run(
    found: Sequence[tuple[str, KernelRow]], meant: ResolvedDevice, wrong: list[str]
) -> list[KernelRow]:
    """Return the rows as the device runs them, and add to `wrong` those that it cannot have run."""
    kept: list[KernelRow] = []
    formats: dict[str, str] = {}
    for path, row in found:
        ran = meant.runs(row.shape.request)
        reason, _ = too_quick(row.shape, ran, meant.table, row.time_s)
        if not reason:
            key = f"{row.kind} {sorted(row.shape.request.items())}"
            if key not in formats:
                formats[key] = _no_format(row, ran, meant)
            reason = formats[key]
        if reason:
            wrong.append(f"{path}, line {row.line}: {reason}")
        else:
            kept.append(replace(row, shape=replace(row.shape, request=ran)))
    return kept


def _no_format(row: KernelRow, ran: Mapping[str, Any], meant: ResolvedDevice) -> str:
    """Return why no constants can be fitted to the format of a row; empty where they can be.

    Products that a device multiplies in 16 bits, their weights unpacked, have constants by the
    format of the weights; attention and experts would share those of kernels in 16 bits proper.
    """
    got = f"{_COLUMNS.get(row.kind, 'dtype')}: got {row.shape.dtype}"
    if ran != row.shape.request and row.kind != GEMM.name:
        allowed = f"what {meant.name} multiplies: {', '.join(meant.table['matrix'])}"
        return f"{got}, which runs as 16 bits and shares its constants; allowed: {allowed}"
    shape = {name: [value] for name, value in row.shape.numbers.items()}
    try:
        kernel_times(ran, meant.table, shape)
    except ScalewrightError as error:
        told = _NO_FORMAT.fullmatch(str(error))
        return f"{got}; allowed: {told[1]}" if told else ""
    return ""
