"""What do models on flash need and reach on one old GPU, beside what M2Cache's paper prints?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.planning import model, neuron_cache
from scalewright.planning import system as machines
from scalewright.reproductions.claims import by_kind, compared
from scalewright.reproductions.placement.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scalewright.planning import NeuronCache

Result = dict[str, Any]
_SYSTEM = "pc-rtx-3090"
_LINK_BYTES_PER_S = 64e9
_DRAM_BYTES, _FLASH_BYTES, _FLASH_BYTES_PER_S = 64e9, 1e12, 3.5e9
"""DRAM as printed; flash of a consumer's drive, which decides no row."""


def m2cache() -> Iterator[Result]:
    """Predict each figure."""
    return compared("m2cache", read("m2cache"), _predicted)


def _run(name: str, **asked: Any) -> NeuronCache:  # noqa: ANN401
    found = model(name)
    shape: Any = found.table
    inner = 3.0 * shape["layers"] * shape["hidden"] * shape["ffn"]
    return neuron_cache(
        machines(_SYSTEM, 1),
        layers=shape["layers"],
        ffn_parameters=inner,
        other_parameters=found.parameters()["total"] - inner,
        **asked,
    )


def _bound() -> tuple[float, Result]:
    far = {"far_bytes": _DRAM_BYTES, "copy_bytes_per_s": _LINK_BYTES_PER_S}
    found = _run("llama-13b", machine=far)
    return found.tokens_per_s or 0.0, found.plain()


def _large() -> NeuronCache:
    return _run(
        "llama2-70b",
        storage_bytes=_FLASH_BYTES,
        storage_bytes_per_s=_FLASH_BYTES_PER_S,
        machine={"far_bytes": _DRAM_BYTES},
    )


_predicted = by_kind(
    {
        "bound": _bound,
        "need": lambda: (_large().model_bytes / 2**30, _large().plain()),
        "fits_far": lambda: (float(_large().fits_far), _large().plain()),
        "fits": lambda: (float(_large().fits), _large().plain()),
    }
)
