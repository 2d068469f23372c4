"""How much worse do predictions of timed kernels get without a term of the kernels' cost?"""

from __future__ import annotations

import copy
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scalewright.reproductions.ablation import set_field
from scalewright.reproductions.kernels.comparing import LONG_S, prepared, price

if TYPE_CHECKING:
    from collections.abc import Callable

    from scalewright.reproductions.kernels.devices import ResolvedDevice

Result = dict[str, Any]
_CHANGED = 1e-3
"""A change of a kernel's time below this share is none."""
_NEAR = 1.5
_GEMM, _PREFILL, _DECODE, _EXPERTS = "gemm", "attention_prefill", "attention_decode", "moe"
_FORWARD, _BACKWARD = "attention_forward", "attention_backward"
_PRODUCTS = ("matmul", "matmul.families.*", "matmul.weight_only.*")


@dataclass(frozen=True)
class KernelSwitch:
    """A term of the cost of kernels and the values of a device that leave it out."""

    name: str
    kinds: tuple[str, ...]
    """The kinds of kernels that have it."""
    values: tuple[tuple[str, Any], ...]
    """Values by dotted field; a field that is absent stays so."""


def _of_products(name: str, field: str, value: object) -> KernelSwitch:
    return KernelSwitch(name, (_GEMM,), tuple((f"{part}.{field}", value) for part in _PRODUCTS))


def _of_decode(name: str, *values: tuple[str, object]) -> KernelSwitch:
    return KernelSwitch(name, (_DECODE,), tuple((f"decode.*.{f}", value) for f, value in values))


def _of_prefill(name: str, *values: tuple[str, object]) -> KernelSwitch:
    return KernelSwitch(name, (_PREFILL,), tuple((f"prefill.*.{f}", value) for f, value in values))


def _of_attention(name: str, *values: tuple[str, object]) -> KernelSwitch:
    parts = ("attention", "prefill.*.attention")
    paths = tuple((f"{part}.{f}", value) for part in parts for f, value in values)
    return KernelSwitch(name, (_PREFILL,), paths)


def _of_training(name: str, *values: tuple[str, object]) -> KernelSwitch:
    paths = tuple((f"training_attention.*.*.{f}", value) for f, value in values)
    return KernelSwitch(name, (_FORWARD, _BACKWARD), paths)


def _of_experts(name: str, *values: tuple[str, object]) -> KernelSwitch:
    return KernelSwitch(name, (_EXPERTS,), tuple((f"experts.*.{f}", value) for f, value in values))


SWITCHES = (
    KernelSwitch("start of kernels", (_GEMM,), (("launch_overhead", "0 s"),)),
    KernelSwitch(
        "sustained share of the matrix peak",
        (_GEMM,),
        (("matmul.efficiency.*", 1.0), ("matmul.weight_only.*.efficiency", 1.0)),
    ),
    KernelSwitch(
        "waves of tiles, least time of a step of depth",
        (_GEMM,),
        (("matmul.units", 1), *((f"{part}.depth_time", "0 s") for part in _PRODUCTS)),
    ),
    _of_products("least time of a step of depth", "depth_time", "0 s"),
    _of_products("edges of tiles", "tile_overhead", 0.0),
    _of_products("fill and drain of tiles", "depth_overhead", 0.0),
    _of_products("throttling in long products", "throttle", 0.0),
    _of_products("sum of split products", "split_overhead", "0 s"),
    _of_products("sustained share of memory bandwidth", "memory_efficiency", 1.0),
    _of_products("writing beside reading", "store_cost", 1.0),
    _of_products("sustained share of cache bandwidth", "cache_efficiency", 1.0),
    KernelSwitch("residence in caches", (_GEMM, _PREFILL, _DECODE, _EXPERTS), (("tiers", -1),)),
    KernelSwitch(
        "casts before products",
        (_GEMM,),
        (("matmul.families.*.cast_overhead", "0 s"), ("matmul.families.*.cast_efficiency", 1.0)),
    ),
    KernelSwitch(
        "integer products' own start",
        (_GEMM,),
        (("matmul.families.*.overhead", "0 s"), ("matmul.weight_only.*.overhead", "0 s")),
    ),
    _of_attention("sustained share of the matrix peak", ("forward_efficiency", 1.0)),
    _of_attention("short sequences", ("score_overhead", 0.0), ("key_overhead", 0.0)),
    _of_attention("last wave of blocks", ("tail", 0.0)),
    _of_attention("wide heads", ("wide", 1.0)),
    _of_training("sustained share of the matrix peak", ("efficiency", 1.0)),
    _of_training("exponentials of scores", ("score_overhead", 0.0)),
    _of_training("start and end of blocks", ("key_overhead", 0.0)),
    _of_training("last wave of blocks", ("tail", 0.0)),
    _of_training("wide heads", ("wide", 1.0)),
    _of_training("masked tiles of sliding windows", ("window", "0 s")),
    KernelSwitch(
        "hidden keys that are computed",
        (_BACKWARD,),
        (("training_attention.*.*.skips_hidden", True),),
    ),
    _of_prefill("start of kernels", ("launch", "0 s")),
    _of_prefill("rotation and writing of keys", ("element", "0 s"), ("head", "0 s")),
    _of_prefill("sliding windows and narrow heads", ("window", "0 s"), ("narrow", "0 s")),
    _of_prefill("a cache narrower than the queries", ("cast_window", "0 s"), ("cast", 1.0)),
    _of_decode("start of kernels", ("tiled_launch", "0 s"), ("vector_launch", "0 s")),
    _of_decode("start of blocks", ("tiled_block", "0 s"), ("vector_block", "0 s")),
    _of_decode("time of keys", ("tiled_key", "0 s"), ("tiled_row", "0 s"), ("vector_key", "0 s")),
    _of_decode("rate of a unit", ("unit_bandwidth", "1 PB/s")),
    _of_decode("sum of split keys", ("split", "0 s")),
    _of_decode("sustained share of memory bandwidth", ("bandwidth_share", 1.0)),
    _of_decode("what each element of the queries takes", ("element", "0 s")),
    _of_decode("choice by filled units", ("least_occupancy", 0.0)),
    _of_experts("start of kernels", ("launch", "0 s")),
    _of_experts("sustained share of the matrix peak", ("efficiency", 1.0)),
    _of_experts("edges of tiles", ("tile_overhead", 0.0)),
    _of_experts("fill and drain of tiles", ("depth_overhead", 0.0)),
    _of_experts("last wave of tiles", ("tail", 0.0)),
    _of_experts("start of each expert", ("expert", "0 s")),
    _of_experts("scores and choices of the router", ("routing", "0 s"), ("choice", "0 s")),
    _of_experts("passes over rows", ("pass_overhead", 0.0)),
    _of_experts("sustained share of memory bandwidth", ("bandwidth_share", 1.0)),
    _of_experts("tiles for the average expert", ("tiles_by_average", False)),
)


def kernel_ablation(progress: Callable[[int, int], object] | None = None) -> Result:
    """Price held-out kernels of the package again with each term left out.

    Args:
        progress: Called with terms done and terms in all.

    Returns:
        `base` by kind, and `terms`: kind, name, the kernels that it changes, and the same errors
        without it.
    """
    rows = [row for row in prepared() if row["part"] == "held_out"]
    base = _priced(rows)
    kinds = sorted({row["kind"] for row in rows})
    terms: list[Result] = []
    for done, switch in enumerate(SWITCHES):
        if progress is not None:
            progress(done, len(SWITCHES))
        chosen = [row for row in base if row["kind"] in switch.kinds]
        less = _priced(chosen, switch)
        for kind in switch.kinds:
            pairs = [p for p in zip(chosen, less, strict=True) if p[0]["kind"] == kind]
            changed = sum(
                abs(own["predicted_s"] / row["predicted_s"] - 1.0) > _CHANGED for row, own in pairs
            )
            if changed:
                figures = _figures([own for _, own in pairs])
                terms.append({"kind": kind, "term": switch.name, "changed": changed, **figures})
    if progress is not None:
        progress(len(SWITCHES), len(SWITCHES))
    own = {kind: _figures([row for row in base if row["kind"] == kind]) for kind in kinds}
    return {"base": own, "terms": terms}


def kernel_ablation_table(found: Result) -> str:
    """Return what `kernel_ablation` found as text and table."""
    lines = [
        "### Timed kernels\n",
        "Held-out kernels of the package (`docs/kernels.md`) priced again without one term: the "
        "mean and median error of those of 20 us and more, and how many shorter ones are within a "
        "factor of 1.5. The other constants stay as they were fitted with the term; fitted again "
        "without it they would make up for a part.\n",
        "| kind | without | kernels changed | mean error | change | median | brief within 1.5x |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, base in found["base"].items():
        lines.append(f"| {kind} | (nothing) | {_cells(base, base, base['rows'])} |")
        own = [term for term in found["terms"] if term["kind"] == kind]
        for term in sorted(own, key=lambda term: -term["mean_abs_error"]):
            cells = _cells(term, base, term["changed"])
            lines.append(f"| {kind} | {term['term']} | {cells} |")
    return "\n".join(lines)


def _cells(own: Result, base: Result, changed: int) -> str:
    change = own["mean_abs_error"] - base["mean_abs_error"]
    brief = own["brief_share_within_1_5"]
    told = (
        f"{changed:,}",
        f"{own['mean_abs_error']:.1%}",
        "" if own is base else f"{change:+.1%}",
        f"{own['median_abs_error']:.1%}",
        "" if brief is None else f"{brief:.1%}",
    )
    return " | ".join(told)


def _priced(rows: list[Result], switch: KernelSwitch | None = None) -> list[Result]:
    """Return rows with their predictions, by devices without a term."""
    devices: dict[str, ResolvedDevice] = {}
    priced: list[Result] = []
    for row in rows:
        meant: ResolvedDevice = row["meant"]
        if meant.name not in devices:
            devices[meant.name] = meant if switch is None else _without(meant, switch)
        own = {"meant": devices[meant.name], "predicted_s": None, "error": None, "reason": None}
        priced.append(row | own)
    price(priced)
    return [row for row in priced if row["error"] is not None]


def _without(meant: ResolvedDevice, switch: KernelSwitch) -> ResolvedDevice:
    table = copy.deepcopy(dict(meant.table))
    for path, value in switch.values:
        set_field(table, path.split("."), value)
    return replace(meant, table=table)


def _figures(rows: list[Result]) -> Result:
    long = [abs(row["error"]) for row in rows if row["measured_s"] >= LONG_S]
    brief = [1.0 + row["error"] for row in rows if row["measured_s"] < LONG_S]
    near = sum(1.0 / _NEAR <= ratio <= _NEAR for ratio in brief)
    return {
        "rows": len(rows),
        "mean_abs_error": statistics.fmean(long) if long else None,
        "median_abs_error": statistics.median(long) if long else None,
        "brief_share_within_1_5": near / len(brief) if brief else None,
    }
