"""Where do the embedding tables of recommendation models fit, beside what ZionEX's paper prints?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.planning import collective, embedding_cache
from scalewright.planning import system as machines
from scalewright.reproductions.claims import by_kind, compared
from scalewright.reproductions.placement.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scalewright.planning import EmbeddingCache

Result = dict[str, Any]
_SYSTEM, _DEVICES = "zionex", 128
_PARAMETERS, _WIDTH = 12e12, 128
_BUFFER_BYTES = 256e6
_COMPACT, _PLAIN = ("fp16", "row_wise_adagrad"), ("fp32", "adagrad")


def dlrm() -> Iterator[Result]:
    """Predict each figure."""
    return compared("dlrm", read("dlrm"), _predicted)


@cache
def _tables(dtype: str, optimizer: str, far: bool = True) -> EmbeddingCache:
    """Place the tables; look-ups and popularity are not printed, and no size needs them."""
    return embedding_cache(
        machines(_SYSTEM, _DEVICES),
        parameters=_PARAMETERS,
        width=_WIDTH,
        samples=65536,
        lookups_per_sample=1.0,
        exponent=1.0,
        dtype=dtype,
        optimizer=optimizer,
        machine=None if far else {"far_bytes": 0.0},
    )


def _size(dtype: str, optimizer: str) -> tuple[float, Result]:
    found = _tables(dtype, optimizer)
    return found.total_bytes / 1e12, {"row_bytes": found.row_bytes, "rows": found.rows}


def _fit(dtype: str, optimizer: str, far: bool = True) -> tuple[float, Result]:
    found = _tables(dtype, optimizer, far)
    rates = {level.name: level.hit_rate for level in found.levels}
    return float(found.fits), {"total_bytes": found.total_bytes, "hit_rates": rates}


def _all_to_all() -> tuple[float, Result]:
    found = collective("all_to_all", _BUFFER_BYTES, machines(_SYSTEM, _DEVICES))
    return float(found.algorithm_bandwidth_bytes_per_s) / 1e9, {"time_s": float(found.time_s)}


def _all_reduce() -> tuple[float, Result]:
    found = collective("all_reduce", _BUFFER_BYTES, machines(_SYSTEM, _DEVICES))
    return float(found.bus_bandwidth_bytes_per_s) / 1e9, {"time_s": float(found.time_s)}


_predicted = by_kind(
    {
        "fits": lambda: _fit(*_COMPACT),
        "plain": lambda: _size(*_PLAIN),
        "compact": lambda: _size(*_COMPACT),
        "plain_fits": lambda: _fit(*_PLAIN),
        "near_fits": lambda: _fit(*_COMPACT, far=False),
        "all_to_all": _all_to_all,
        "all_reduce": _all_reduce,
    }
)
