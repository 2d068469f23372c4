"""Prints how well a device's kernels are predicted with the constants of its nearest relative."""

from __future__ import annotations

import copy
import math
import statistics
import sys
from typing import TYPE_CHECKING, Any

from scalewright.planning import kernel_times
from scalewright.reproductions.kernels.devices import Devices
from scalewright.reproductions.kernels.rows import KernelRow, shipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Table = dict[str, Any]
RELATIVES = (
    ("h100_sxm", "h200_sxm"),
    ("h200_sxm", "h100_sxm"),
    ("b200_sxm", "gb200"),
    ("gb200", "b200_sxm"),
    ("gb300", "gb200"),
    # of another generation: there is none nearer
    ("a100_sxm", "h100_sxm"),
    ("h100_sxm", "a100_sxm"),
    ("b200_sxm", "h100_sxm"),
    ("l40s", "a100_sxm"),
)
KINDS = ("gemm", "attention_prefill", "attention_decode", "moe")
_LONG_S = 20e-6
_TAKEN = ("launch_overhead", "attention", "prefill", "decode", "experts")


def main() -> int:
    """Print the table."""
    devices = Devices()
    rows = [row for row in shipped() if isinstance(row, KernelRow)]
    print(f"| device | with constants of | {' | '.join(KINDS)} |")
    print(f"|---|---|{'---:|' * len(KINDS)}")
    for spelling, relative in RELATIVES:
        own, other = devices.meant(spelling), devices.meant(relative)
        table = taken_over(dict(own.table), dict(other.table))
        told = [
            cell(ratios([r for r in rows if r.system == spelling and r.kind == kind], table))
            for kind in KINDS
        ]
        print(f"| {own.name} | {other.name} | {' | '.join(told)} |")
    return 0


def taken_over(own: Table, other: Table) -> Table:
    """Return a device with another's constants, as the catalog takes them over."""
    table = {**own, **{key: other[key] for key in _TAKEN if key in other}}
    matmul = copy.deepcopy(other["matmul"])
    matmul["units"] = own["matmul"]["units"]
    scale = sustained_share(own, other)
    matmul["efficiency"] = {k: min(v * scale, 1.0) for k, v in matmul["efficiency"].items()}
    return {**table, "matmul": matmul}


def sustained_share(own: Table, other: Table) -> float:
    """Return what a share of the peak becomes: at the power limit the rate grows as its root."""
    power = number(own["power"]["peak"]) / number(other["power"]["peak"])
    peak = number(own["matrix"]["bf16"]) / number(other["matrix"]["bf16"])
    return math.sqrt(power) / peak if same_generation(own, other) else 1.0


def number(quantity: str) -> float:
    """Return the number of a quantity; both devices give it in the same unit."""
    return float(quantity.split()[0])


def same_generation(own: Table, other: Table) -> bool:
    """Say whether two devices multiply the same formats on as many units, but for cut ones."""
    units = own["matmul"]["units"] / other["matmul"]["units"]
    return set(own["matrix"]) == set(other["matrix"]) and 0.5 <= units <= 2.0


def ratios(rows: Sequence[KernelRow], table: Table) -> list[float]:
    """Return predicted over measured times of kernels of 20 us and more."""
    lots: dict[str, list[KernelRow]] = {}
    for row in rows:
        if row.time_s >= _LONG_S:
            lots.setdefault(repr(sorted(row.shape.request.items())), []).append(row)
    found: list[float] = []
    for lot in lots.values():
        shapes = {name: [row.shape.numbers[name] for row in lot] for name in lot[0].shape.numbers}
        times = kernel_times(lot[0].shape.request, table, shapes).tolist()
        found += [time / row.time_s for time, row in zip(times, lot, strict=True)]
    return found


def cell(found: Iterable[float]) -> str:
    """Return the median size of the error, and the median with its sign."""
    errors = [ratio - 1.0 for ratio in found]
    if not errors:
        return ""
    return f"{statistics.median(map(abs, errors)):.1%} ({statistics.median(errors):+.1%})"


if __name__ == "__main__":
    sys.exit(main())
