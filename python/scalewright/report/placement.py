"""Where does each class of tensors lie, what binds, and what would be worth buying?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report import quantities as q
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Placement

_GIGA = 1e9
_UNITS = {"per_s": ("s", q.time), "per_j": ("J", None), "per_usd": ("USD", None)}


def show_placement(placement: Placement, screen: Console, *, tensors: bool = False) -> None:
    """Print where everything lies, the proof, what binds, and what fixed rules come to."""
    values = placement.values
    if not placement.feasible:
        screen.print(placement.lacks())
        return
    placed = placement.placed
    heading(screen, f"Placement of a rank of stage {values.get('stage', 0) + 1}")
    _show_proof(values, placed, screen)
    heading(screen, "Where each class lies while it is not in use, GiB")
    lying = placement.bytes_by_class()
    used = [t for t in placement.tiers if any(line[t] >= 1.0 for line in lying.values())]
    rows = table("class", *used, "all")
    for kind, line in lying.items():
        amounts = (q.gib(line[tier]) if line[tier] >= 1.0 else "" for tier in used)
        rows.add_row(kind.replace("_", " "), *amounts, q.gib(sum(line.values())))
    screen.print(rows)
    _show_live(values["live"], screen)
    if tensors:
        _show_tensors(placement, screen)
    _show_tiers(placed, screen, placement)
    _show_rules(placed["rules"], placed["objective_value"], screen, placement)


def _show_proof(values: Mapping[str, Any], placed: Mapping[str, Any], screen: Console) -> None:
    free = placed["transfer_free_s"]
    rows = table("", "", left=2)
    step = f"{q.time(placed['step_time_s'])}; {q.time(free)} with no transfer in its way"
    rows.add_row("step", step)
    objective, bound = (
        _amount(placed[name], values) for name in ("objective_value", "objective_bound")
    )
    rows.add_row(
        "objective",
        f"{objective}; proven to be at least {bound} (gap {placed['relative_gap']:.2g})",
    )
    rows.add_row(
        "energy of moving and keeping bytes", f"{q.figures(placed['memory_energy_j'], 4)} J a step"
    )
    rows.add_row("price of the memory that is filled", q.dollars(placed["memory_usd"]))
    screen.print(rows)


def _amount(value: float, values: Mapping[str, Any]) -> str:
    """Return an objective in its unit, where it has one."""
    weights = values.get("problem", {}).get("objective_weights", {})
    used = [name for name, weight in weights.items() if weight]
    if len(used) == 1 and weights[used[0]] == 1.0:
        unit, shown = _UNITS[used[0]]
        return shown(value) if shown else f"{q.figures(value, 4)} {unit}"
    return f"{value:,.6g}"


def _show_live(live: Mapping[str, Any], screen: Console) -> None:
    peak, summed = live["peak_bytes"], live["sum_of_peaks_bytes"]
    screen.print(
        f"Alive at the fullest instant ({live['peak_instant']}): {q.size(peak)}, wherever it lies; "
        f"each class at its own peak would be {q.size(summed)}."
    )


def _show_tensors(placement: Placement, screen: Console) -> None:
    heading(screen, "Tensors, percent in each tier")
    rows = table("tensor", "GiB", *placement.tiers)
    for tensor in placement.placed["tensors"]:
        shares = (f"{share:.0%}" if share > 0 else "" for share in tensor["shares"])
        rows.add_row(tensor["name"], q.gib(tensor["bytes"]), *shares)
    screen.print(rows)


def _show_tiers(placed: Mapping[str, Any], screen: Console, placement: Placement) -> None:
    heading(screen, "Tiers and paths: what binds, and what more of it is worth a step")
    rows = table("", "a device's part", "used", "more of it is worth", "wears out in")
    for tier in placed["tiers"]:
        used = tier["peak_bytes"] / tier["capacity_bytes"]
        years = tier["lifetime_years"]
        rows.add_row(
            tier["name"],
            q.size(tier["capacity_bytes"]),
            f"{used:.0%}",
            _worth(tier["value_per_byte"] * _GIGA, "GB", placement),
            "" if years is None else f"{q.figures(years, 3)} years",
        )
    step = placed["step_time_s"]
    for lane in placed["lanes"]:
        if lane["busy_s"] > 0.0:
            bus = lane["name"] in placement.tiers
            rows.add_row(
                f"{lane['name']} bus" if bus else lane["name"],
                f"{q.figures(lane['rate_bytes_per_s'] / _GIGA, 4)} GB/s",
                f"{lane['busy_s'] / step:.0%}" if step > 0.0 else "",
                _worth(lane["value_per_byte_per_s"] * _GIGA, "GB/s", placement),
                "",
            )
    screen.print(rows)


def _worth(value: float, unit: str, placement: Placement) -> str:
    # what is smaller than this is rounding of the solver
    if value <= 1e-9 * abs(placement.objective):
        return ""
    return f"{_amount(value, placement.values)} for each {unit}"


def _show_rules(
    rules: Sequence[Mapping[str, Any]], best: float, screen: Console, placement: Placement
) -> None:
    if not rules:
        return
    heading(screen, "Fixed rules on the same step")
    rows = table("rule", "objective", "over the best", "step", "fits")
    for rule in rules:
        missing = rule["missing"]
        over = (
            f"{q.figures(rule['objective_value'] / best, 3)} x" if best > 0 and not missing else ""
        )
        lack = max(missing, key=lambda short: short["missing_bytes"], default=None)
        rows.add_row(
            rule["name"],
            _amount(rule["objective_value"], placement.values),
            over,
            q.time(rule["step_time_s"]),
            "yes" if lack is None else f"no: {_lack(lack)}",
        )
    screen.print(rows)


def _lack(lack: Mapping[str, Any]) -> str:
    room = q.size(lack["missing_bytes"])
    # what wears out has room, and is written too much
    worn = lack["what"].startswith("endurance of ")
    return f"wears out, {room} a step too many" if worn else f"{room} missing"
