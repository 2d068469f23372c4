"""How long does a collective take between ranks whose links all differ, and in which order?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scalewright import _engine
from scalewright.config import json_text, need, need_count
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats, spread
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CollectiveOnLinks(Answer):
    """The fastest way found to run a collective over links that are each pair's own.

    Attributes:
        name: Which collective.
        buffer_bytes: The buffer as nccl-tests counts it.
        ranks: How many ranks.
        time_s: Time until the last rank is done.
        algorithm: `ring`, `tree`, `direct` or `point_to_point`.
        order: Ranks round the ring, or along the chain; empty for other algorithms.
        edges: Links of the tree, sender first: those of the sum, then those of the broadcast.
        is_exact: True where no order and no tree of the algorithms that may be used is faster.
        slowest_link: The link whose own messages take longest, from and to.
        lower_bound_s: What no algorithm whatever can beat.
        relative_gap: How much longer than the bound it takes, as a share of it; None where only
            the bound is 0.
    """

    name: str
    buffer_bytes: float
    ranks: int
    time_s: float
    algorithm: str
    order: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    is_exact: bool
    slowest_link: tuple[int, int]
    lower_bound_s: float
    relative_gap: float | None


def collective_on_links(
    name: str,
    buffer_bytes: float,
    bandwidth_bytes_per_s: ArrayLike,
    latency_s: ArrayLike = 0.0,
    *,
    port_out_bytes_per_s: ArrayLike | None = None,
    port_in_bytes_per_s: ArrayLike | None = None,
    algorithm: str | None = None,
    root: int = 0,
    chain: Sequence[int] = (),
) -> CollectiveOnLinks:
    """Return what a collective costs over links given pair by pair, and how it should run.

    A ring is ordered so that its slowest hop is as fast as can be, proven up to 14 ranks; a tree
    and its root weigh rate against depth. What stands on the diagonals is not read.

    Args:
        name: `all_reduce`, `reduce_scatter`, `all_gather`, `all_to_all`, `broadcast`, `reduce`,
            `send_receive` or `barrier`.
        buffer_bytes: The buffer as nccl-tests counts it.
        bandwidth_bytes_per_s: A square matrix: rates from the row's rank to the column's; 0 where
            they have no link. Both directions of a pair work at once.
        latency_s: Seconds from sending to arrival: likewise, or one number for all.
        port_out_bytes_per_s: What each rank can send over all its links together: a list, or one
            number for all; no limit where left out.
        port_in_bytes_per_s: What each rank can receive, likewise.
        algorithm: `ring`, `tree` or `direct`; the fastest where left out.
        root: The root of a broadcast or reduction.
        chain: Ranks of a send and receive, each to the next; all in order where left out.

    Raises:
        ScalewrightError: A value is wrong, or the links leave a rank out; says which.
    """
    import numpy as np

    need("name", name, str, "a collective, as all_reduce")
    need("algorithm", algorithm, (str, type(None)), "ring, tree, direct or None")
    need("chain", chain, (list, tuple), "a list of ranks")
    root = need_count("root", root, 0)
    ranks_of = [need_count(f"chain[{place}]", rank, 0) for place, rank in enumerate(chain)]
    rates = floats("bandwidth_bytes_per_s", bandwidth_bytes_per_s)
    if rates.ndim != 2 or rates.shape[0] != rates.shape[1]:
        message = f"bandwidth_bytes_per_s: got shape {rates.shape}; allowed: ranks x ranks"
        raise InvalidError(message)
    ranks = rates.shape[0]
    none = np.empty(0)
    ports = [
        none if given is None else spread(field, given, (ranks,))
        for field, given in (
            ("port_out_bytes_per_s", port_out_bytes_per_s),
            ("port_in_bytes_per_s", port_in_bytes_per_s),
        )
    ]
    size = spread("buffer_bytes", buffer_bytes, ()).item()
    asked = {
        "collective": name,
        "ranks": ranks,
        "buffer_bytes": size,
        "algorithm": algorithm,
        "root": root,
        "chain": ranks_of,
    }
    latencies = spread("latency_s", latency_s, (ranks, ranks)).ravel()
    text = json_text("", asked)
    found = json.loads(_engine.pairs(text, np.ascontiguousarray(rates).ravel(), latencies, *ports))
    for field in ("order", "slowest_link"):
        found[field] = tuple(found[field])
    found["edges"] = tuple((sender, receiver) for sender, receiver in found["edges"])
    return CollectiveOnLinks(name=name, buffer_bytes=size, ranks=ranks, **found)
