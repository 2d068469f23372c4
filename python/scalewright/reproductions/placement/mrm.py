"""How often do weights and KV caches write a cell of managed-retention memory, beside its paper?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.planning import place_tensors, retained
from scalewright.reproductions.claims import compared
from scalewright.reproductions.placement.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Result = dict[str, Any]
_YEARS = 5.0
_CAPACITY_BYTES = 80e9
_TOKEN_BYTES = 320 * 1024.0
_TOKENS_PER_S = 10_000.0


def mrm() -> Iterator[Result]:
    """Predict each figure."""
    kinds = {
        "weights": _weights,
        "cache": _cache,
        "stability": _stability,
        "lifetime": _lifetime,
        "worn": _worn,
    }
    return compared("mrm", read("mrm"), lambda row: kinds[row["kind"]](row))


def _tier(
    capacity: float, written: float, window_s: float, endurance: float = 1e30
) -> Mapping[str, Any]:
    """Return what a tier does that holds one tensor, so much of which is written in each window."""
    tensor = {
        "name": "data",
        "class": "kv_cache",
        "bytes": capacity,
        "uses": [{"at": 0, "written_bytes": written}],
    }
    tier = {
        "name": "mrm",
        "kind": "mrm",
        "capacity": capacity,
        "bandwidth": "1 PB/s",
        "endurance": endurance,
        "retention": "100 y",
    }
    placed = place_tensors([tensor], [{"compute_s": window_s}], tiers=[tier]).placed
    return placed["tiers"][0]


def _weights(row: Mapping[str, str]) -> tuple[float, Result]:
    found = _tier(_CAPACITY_BYTES, _CAPACITY_BYTES, float(row["argument"]))
    return found["writes_per_cell"] * _YEARS, {}


def _cache(row: Mapping[str, str]) -> tuple[float, Result]:
    written = float(row["argument"]) * _TOKEN_BYTES
    found = _tier(_CAPACITY_BYTES, written, 1.0)
    return found["writes_per_cell"] * _YEARS, {}


def _stability(row: Mapping[str, str]) -> tuple[float, Result]:
    found = retained(float(row["argument"]))
    return found.stability, {"refreshes_per_year": found.refreshes_per_year}


def _years(endurance: float) -> float:
    """Return the life of cells that take the cache's writes; weights are written far less."""
    found = _tier(_CAPACITY_BYTES, _TOKENS_PER_S * _TOKEN_BYTES, 1.0, endurance)
    return found["lifetime_years"]


def _lifetime(row: Mapping[str, str]) -> tuple[float, Result]:
    return _years(float(row["argument"])), {}


def _worn(row: Mapping[str, str]) -> tuple[float, Result]:
    years = _years(float(row["argument"]))
    return float(years < _YEARS), {"years": years}
