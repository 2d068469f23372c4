"""Where do weights, cache and states lie, how many tokens a second is that, and what binds?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q
from scalewright.report.screen import table

if TYPE_CHECKING:
    from rich.console import Console

    from scalewright.planning import Model, ServingBlock, System

_WORTH = 1e-6
"""Below this a price is rounding."""
_LEAST_KERNELS = 5
"""Of a layer: products into attention, out of it, into and out of the feed-forward half, and
attention itself; norms and sums come on top, unless they are fused."""


def show_serving(block: ServingBlock, model: Model, system: System, screen: Console) -> None:
    """Print a block: its size and rate, shares by memory, and what binds."""
    if not block.fits:
        screen.print("nothing fits; the smallest block with everything where there is most room:")
    counts = f"{q.number(block.batches, 'batch')} of {q.number(block.batch, 'sequence')}"
    rate = f"{q.figures(block.tokens_per_s, 4)} tokens/s"
    screen.print(f"{counts}: {rate}, {q.time(block.time_s)} for all")
    if block.most_tokens_per_s is not None and block.relative_gap is not None:
        most = f"{q.figures(block.most_tokens_per_s, 4)} tokens/s"
        screen.print(
            f"no block generates more than {most}: gap {block.relative_gap:.1e}, "
            f"{q.number(block.programs, 'linear program')}"
        )
    screen.print(_shares(block))
    screen.print()
    screen.print(_lanes(block))
    screen.print(
        "worth: the part by which the time falls for each part by which memory grows or lanes are "
        "faster"
    )
    # where each part of a layer is one by itself, it may have fewer kernels
    if "layer_pattern" not in model.table:
        _show_starts(block, system, screen)


def _show_starts(block: ServingBlock, system: System, screen: Console) -> None:
    """Say where a token's layer is quicker than the device can start its kernels."""
    from scalewright.planning import constants

    held = {constant["name"]: constant["value"] for constant in constants(system)}
    launch_s = held.get("device.launch_overhead", 0.0)
    layer_s = block.layer_s[1] / block.batches
    if layer_s < _LEAST_KERNELS * launch_s:
        screen.print(
            f"too fast: decoding takes {q.time(layer_s)} for a layer of a batch, but each of its "
            f"{_LEAST_KERNELS} kernels or more takes {q.time(launch_s)} to start, which is left out"
        )


def _shares(block: ServingBlock):  # noqa: ANN202 - a table
    rows = table("memory", "weights", "cache", "by host", "states", "prefill", "decode", "worth")
    for tier in dict.fromkeys(memory.tier for memory in block.memory):
        phases = [memory for memory in block.memory if memory.tier == tier]
        filled = (f"{q.size(of.total_bytes)} of {q.size(of.capacity_bytes)}" for of in phases)
        rows.add_row(
            tier,
            *(
                q.share(shares.get(tier, 0.0))
                for shares in (block.weights, block.cache, block.cache_by_host, block.states)
            ),
            *filled,
            _worth(sum(of.worth for of in phases)),
        )
    return rows


def _lanes(block: ServingBlock):  # noqa: ANN202 - a table
    rows = table("lanes of one layer", "phase", "time", "worth")
    for lanes in block.lanes:
        names = ", then ".join(lanes.lanes)
        rows.add_row(names, lanes.phase, q.time(lanes.time_s), _worth(lanes.worth))
    return rows


def _worth(worth: float) -> str:
    return q.share(worth) if worth > _WORTH else ""
