"""How does a plan read in a line, and how do several stand in a table?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.measure import Measurement

from scalewright.config import DTYPE, Plan
from scalewright.report import quantities as q
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from scalewright.planning import Estimate

_AXES = ("tensor", "pipeline", "data", "context", "expert")
_RARE = (
    "tensor_rows",
    "token_slices",
    *("tensor_chunks", "overlap_expert", "offload_optimizer", "offload_activations"),
    *("axis_order", "first_layers", "last_layers", "bare_last", "collectives"),
)
_ENDS = ("first", "last")
_UNLIMITED = 1000
_OVERLAPS = {
    "overlap_grad_reduce": True,
    "overlap_param_gather": True,
    "overlap_tensor": True,
}


def plan_line(plan: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """Return a plan as the fields that differ from the plainest plan.

    `without` may name `zero` and `recompute`, where something else than the plan says them.
    """
    parts = [f"{axis} {plan[axis]}" for axis in _AXES if plan[axis] > 1]
    if plan["tensor_rows"] > 1:
        parts.insert(1, f"tensor rows {plan['tensor_rows']}")
    parts.append(f"micro-batch {plan['micro_batch']}")
    schedule = plan["schedule"]
    if plan["pipeline"] > 1:
        chunks = f" x {plan['interleave']}" if plan["interleave"] > 1 else ""
        parts.append(f"{schedule}{chunks}")
    if plan["token_slices"] != Plan.token_slices:
        parts.append(f"token slices {plan['token_slices']}")
    often = {"zero": f"ZeRO {plan['zero']}", "recompute": f"recompute {_recomputed(plan)}"}
    parts += [words for field, words in often.items() if field not in without]
    if plan["sequence_parallel"]:
        parts.append("sequence parallel")
    if plan["tensor_chunks"] > 1:
        parts.append(f"{plan['tensor_chunks']} tensor chunks")
    if plan["overlap_expert"]:
        parts.append("overlap expert")
    if plan["offload_optimizer"]:
        parts.append("offload optimizer")
    if plan["offload_activations"] > 0:
        parts.append(f"offload {plan['offload_activations']}% of activations")
    parts += _placed(plan)
    parts += [f"no {name.replace('_', ' ')}" for name, on in _OVERLAPS.items() if plan[name] != on]
    return ", ".join(parts)


def found_line(found: Mapping[str, Any]) -> str:
    """Return a plan that was found, with its precision recipe where the space lists some."""
    recipe = f", {found[DTYPE]}" if DTYPE in found else ""
    return plan_line(found["plan"]) + recipe


def _recomputed(plan: Mapping[str, Any]) -> str:
    """Return what is computed again, with the layers that it is for where not for all."""
    layers, rest, experts = (plan[f"recompute_{what}"] for what in ("layers", "rest", "experts"))
    only: list[str] = []
    if layers:
        only.append(f"first {layers} layer{'s' * (layers > 1)}")
    if rest != Plan.recompute_rest:
        only.append(f"{rest} behind")
    if experts != Plan.recompute_experts:
        only.append(f"layers with experts {experts}")
    return plan["recompute"] + (f" ({', '.join(only)})" if only else "")


def _placed(plan: Mapping[str, Any]) -> list[str]:
    """Return where ranks lie, what the ends hold and how replicas sum, where not as usual."""
    order, ends = plan["axis_order"], [str(plan[f"{end}_layers"] or "even") for end in _ENDS]
    parts = [] if order == Plan.axis_order else [f"order {order}"]
    if plan["bare_last"]:
        ends[1] = "none"
    if ends != ["even", "even"]:
        parts.append("layers " + " ... ".join(ends))
    if plan["collectives"] != Plan.collectives:
        parts.append(f"all-reduce {plan['collectives']}")
    return parts


def show_plans(
    best: Sequence[Estimate], measured: Mapping[str, Sequence[str]], screen: Console
) -> None:
    """Print the best plans, a column for each field, or a line where the screen is narrow.

    `measured` is the column of what they have least of, where no other column holds it.
    """
    heading(screen, "Best plans")
    plans: list[Mapping[str, Any]] = [found.values["plan"] for found in best]
    recipes = [str(found.values.get(DTYPE, "")) for found in best]
    dtypes = {DTYPE: recipes} if any(recipes) else {}
    wide = _table(best, {**measured, **_fields(plans), **dtypes})
    unlimited = screen.options.update(max_width=_UNLIMITED)
    if Measurement.get(screen, unlimited, wide).maximum <= screen.width:
        screen.print(wide)
        return
    lines = [found_line(found.values) for found in best]
    narrow = _table(best, {**measured, "plan": lines})
    narrow.columns[-1].justify = "left"
    narrow.columns[-1].no_wrap = False
    screen.print(narrow)


def _table(best: Sequence[Estimate], fields: Mapping[str, Sequence[str]]) -> Table:
    unit, unit_s = q.time_unit(max(found.step_time_s for found in best))
    away = [found.values["offloaded"] for found in best]
    tiers = ["away, GiB"] if any(away) else []
    rows = table("rank", f"step, {unit}", "tokens/s", "MFU", "memory, GiB", *tiers, *fields)
    for rank, (found, *values) in enumerate(zip(best, *fields.values(), strict=True), start=1):
        rows.add_row(
            str(rank),
            f"{found.step_time_s / unit_s:,.3f}",
            f"{found.tokens_per_s:,.0f}",
            q.share(found.mfu),
            q.gib(found.peak_memory_bytes),
            *(_away(found) for _ in tiers),
            *values,
        )
    return rows


def _away(found: Estimate) -> str:
    """Return what lies in other tiers, of what is counted as memory."""
    offloaded = found.values["offloaded"]
    return "" if offloaded is None else q.gib(sum(line["bytes"] for line in offloaded["away"]))


def _fields(plans: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the columns of plans: no axis that all leave at 1, no rare field that all share."""
    names = [axis for axis in _AXES if any(plan[axis] > 1 for plan in plans)] or ["data"]
    names.append("micro_batch")
    if any(plan["pipeline"] > 1 for plan in plans):
        names += ["schedule", "interleave"]
    names += ["zero", "recompute", "sequence_parallel"]
    names += [name for name in _RARE if len({plan[name] for plan in plans}) > 1]
    plans = [{**plan, "recompute": _recomputed(plan)} for plan in plans]
    return {name.replace("_", " "): [_shown(plan[name]) for plan in plans] for name in names}


def _shown(value: object) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
