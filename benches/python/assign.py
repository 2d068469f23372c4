"""What time do the engine and HiGHS take to place items on five tiers, and how near are they?

Run it as `python benches/python/assign.py [items [seconds]]`; HiGHS stops after so many (120).
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import scalewright as sw

if TYPE_CHECKING:
    from collections.abc import Callable

# bytes a second, and size as a part of all that is held: HBM down to flash
TIERS = ((3e12, 0.10), (9e11, 0.15), (6e10, 0.30), (2.5e10, 0.40), (6e9, 2.00))
WINDOWS = 3
LINK = 1.2e12
"""Bytes a second of the link that all tiers but the nearest share."""
GAP = 0.01


def world(items: int, layers: int = 20) -> dict[str, Any]:
    """Return items of power-law sizes, alike in each layer, that are read in three windows."""
    random = np.random.default_rng(1)
    kinds = -(-items // layers)
    drawn = 1e6 * np.maximum(random.random(kinds), 1e-4) ** (-1 / 1.2)
    sizes = np.resize(np.minimum(drawn, 1e9), items)
    reads = random.integers(0, 4, (items, WINDOWS)) * sizes[:, None]
    tiers, total = len(TIERS), float(sizes.sum())
    # a capacity for each tier; in each window a path for each tier, and the link
    uses = np.zeros((items, tiers, tiers + WINDOWS * (tiers + 1)))
    for tier, (rate, _) in enumerate(TIERS):
        uses[:, tier, tier] = sizes
        for window in range(WINDOWS):
            first = tiers + window * (tiers + 1)
            uses[:, tier, first + tier] = reads[:, window] / rate
            if tier:
                uses[:, tier, first + tiers] = reads[:, window] / LINK
    timed = np.repeat(np.arange(WINDOWS), tiers + 1)
    return {
        "items": np.full(items, tiers),
        "costs": np.zeros(items * tiers),
        "uses": uses.reshape(items * tiers, -1),
        "limits": [part * total for _, part in TIERS],
        "timed": (timed, np.zeros(timed.size)),
        "windows": (np.full(WINDOWS, total / TIERS[0][0]), np.ones(WINDOWS)),
    }


def timed(
    solve: Callable[..., sw.Assignment], asked: dict[str, Any]
) -> tuple[float, sw.Assignment]:
    """Return seconds of the processor, all threads together, and what was found."""
    start = time.process_time()
    found = solve(**asked)
    return time.process_time() - start, found


def main() -> None:
    """Print a line for each solver, divided and whole."""
    items = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    most_s = float(sys.argv[2]) if len(sys.argv) > 2 else 120.0
    model = world(items)
    for whole in (False, True):
        print(f"{items:,} items on {len(TIERS)} tiers, {'whole' if whole else 'divided'}")
        asked = model | {"whole": whole, "relative_gap": GAP}
        own_s, own = timed(sw.assign, asked)
        _line("engine", own_s, own)
        for method in ("choose",) if whole else ("simplex", "ipm"):
            try:
                extra = {"most_s": most_s, "method": method}
                other_s, other = timed(sw.assign_with_highs, asked | extra)
            except sw.InvalidError as error:
                print(f"  HiGHS, {method}: {error}")
                continue
            _line(f"HiGHS, {method}", other_s, other)
            print(f"  HiGHS, {method}, takes {other_s / own_s:,.1f} times as long")


def _line(name: str, seconds: float, found: sw.Assignment) -> None:
    print(
        f"  {name}: {seconds:.4f} s, objective {found.objective:.9g}, "
        f"bound {found.bound:.9g}, gap {found.relative_gap:.2e}, {found.nodes} nodes"
    )


if __name__ == "__main__":
    main()
