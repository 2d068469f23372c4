"""What do the constants do to a plan, and which plan is good whatever they are?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report import quantities as q
from scalewright.report.job import show_job, show_stamp
from scalewright.report.plans import plan_line
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Robust, Sensitivity

_LEAST = 5e-5
"""Below this a change of the step time is shown as nothing."""
_LASTING, _EFFICIENCY = "device.sustained.", "device.matmul.efficiency."
_SHOWN = 5
"""Plans of each list that are shown."""


def show_sensitivity(found: Sensitivity, screen: Console, most: int = 20) -> None:
    """Print what each constant does to a plan, the largest effect first."""
    values = found.values
    step = found.step_time_s
    show_job(found.job, screen)
    screen.print(f"plan: {plan_line(values['plan'])}")
    fits = "" if values["fits"] else " (does not fit)"
    memory = q.gib(values["peak_memory_bytes"])
    screen.print(f"step {q.time(step)}, memory {memory} GiB{fits}")
    searched = values["best"] is not None
    moving = [effect for effect in found.effects if _matters(effect, step)]
    shown = moving[:most]
    heading(screen, "What each constant does to the step time")
    rows = table("constant", "value", "change", "step", "change", "step", "elasticity")
    if searched:
        rows.add_column("best plan", justify="right", no_wrap=True)
    for effect in shown:
        cells = [effect["name"], _amount(effect["value"], effect["unit"])]
        for swing in (effect["up"], effect["down"]):
            cells += [_signed(swing["factor"] - 1), _moved(swing["step_time_s"] / step - 1)]
        cells.append(f"{effect['elasticity']:+.3f}")
        if searched:
            cells.append(_best_elasticity(effect))
        rows.add_row(*cells)
    screen.print(rows)
    rest = len(moving) - len(shown)
    still = len(found.effects) - len(moving)
    more = f"{rest} more move it less; " if rest else ""
    screen.print(f"{more}{still} of {len(found.effects)} constants do not move it")
    if bound := _bound(found.effects, step):
        screen.print(bound)
    rooms = [
        f"{effect['name']} {room}" for effect in found.effects if (room := _room(effect, values))
    ]
    screen.print(f"memory: {'; '.join(rooms) if rooms else 'no constant moves it'}")
    if searched:
        _show_changes(found, screen)
    show_stamp(found.job, screen)


def _matters(effect: Mapping[str, Any], step: float) -> bool:
    swings = (effect["up"], effect["down"])
    moved = any(abs(swing["step_time_s"] / step - 1) >= _LEAST for swing in swings)
    other = any(swing["best"] is not None and swing["best"]["changed"] for swing in swings)
    return moved or other


def _bound(effects: Sequence[Mapping[str, Any]], step: float) -> str:
    """Say which efficiencies gain nothing, since products run at the rate that lasts."""
    named = {str(effect["name"]): effect for effect in effects}
    lasting: list[str] = []
    held: dict[str, None] = {}
    for name, effect in named.items():
        own = name.replace(_LASTING, _EFFICIENCY)
        kernels = own if own in named else f"{_EFFICIENCY}other"
        if not (name.startswith(_LASTING) and _matters(effect, step) and kernels in named):
            continue
        if abs(named[kernels]["up"]["step_time_s"] / step - 1) < _LEAST:
            lasting.append(name)
            held[kernels] = None
    if not lasting:
        return ""
    return f"bound by {', '.join(lasting)}: a better {', '.join(held)} gains nothing"


def _room(effect: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Say what a constant does to the memory of a plan."""
    said: list[str] = []
    for swing in (effect["up"], effect["down"]):
        sign = _signed(swing["factor"] - 1)
        more = swing["peak_memory_bytes"] - values["peak_memory_bytes"]
        if swing["fits"] != values["fits"]:
            said.append(f"{sign}: {'fits' if swing['fits'] else 'does not fit'}")
        elif abs(more) >= 1:
            said.append(f"{sign}: {'+' if more > 0 else '-'}{q.size(abs(more))}")
    return ", ".join(said)


def _best_elasticity(effect: Mapping[str, Any]) -> str:
    elasticity = effect["best_elasticity"]
    if elasticity is None:
        return "none fits"
    swings = (effect["up"], effect["down"])
    signs = ["+" if swing["factor"] > 1 else "-" for swing in swings if swing["best"]["changed"]]
    other = f" (other at {' and '.join(signs)})" if signs else ""
    return f"{elasticity:+.3f}{other}"


def _show_changes(found: Sensitivity, screen: Console) -> None:
    """Print the plans that are best under some changes."""
    best = found.values["best"]
    changes = found.changes()
    heading(screen, "Where the best plan changes")
    screen.print(f"as the constants are ({q.time(best['step_time_s'])}): {plan_line(best['plan'])}")
    if not changes:
        screen.print("nowhere: it stays the best under each change alone")
    by_plan: dict[str, list[str]] = {}
    for name, factor, plan in changes:
        by_plan.setdefault(plan_line(plan), []).append(f"{name} {_signed(factor - 1)}")
    for plan, names in by_plan.items():
        screen.print(f"{', '.join(names)}: {plan}")


def show_robust(found: Robust, screen: Console) -> None:
    """Print how the pool fares under draws of the constants."""
    values = found.values
    drawn = f"{values['samples']:,} draws of {len(values['uncertain'])} constants"
    heading(screen, f"Robust choice: {len(found.plans):,} plans under {drawn}")
    bound = values["outside_bound_s"]
    screen.print(
        "the pool holds every legal plan that fits"
        if bound is None
        else "the pool holds the best plans of a search and its front; as the constants are, no "
        f"other plan beats {q.time(bound)}"
    )
    _show_uncertain(values["uncertain"], screen)
    near = len(found.always_near)
    screen.print(
        f"within {100 * values['tolerance']:.3g}% of the best in every draw: {near:,} plans"
    )
    screen.print()
    rows = table(
        "plan",
        "step",
        "least",
        "most",
        "mean",
        "95%",
        "worst",
        "is best",
        "is near",
        "fits",
        left=0,
    )
    for label, place in _chosen(found):
        risk = found.plans[place]
        least, most = risk["bounds_s"]
        rows.add_row(
            label,
            *(q.time(seconds) for seconds in (risk["step_time_s"], least, most)),
            *(_regret(risk[f"{name}_regret"]) for name in ("mean", "p95", "worst")),
            *(q.share(risk[f"{name}_probability"]) for name in ("best", "near", "fits")),
        )
    rows.columns[0].justify = "left"
    screen.print(rows)
    for label, place in _chosen(found):
        screen.print(f"{label}: {plan_line(found.plans[place]['plan'])}")
    if values["samples_without_plan"]:
        screen.print(f"in {values['samples_without_plan']:,} draws no plan of the pool fits")


def _chosen(found: Robust) -> list[tuple[str, int]]:
    """List the plans worth a row with what they are: nominal, robust, most often best."""
    values, plans = found.values, found.plans
    often = sorted(range(len(plans)), key=lambda at: -plans[at]["best_probability"])
    named = [("nominal best", 0)]
    for label, field in (
        ("least worst regret", "least_worst_regret"),
        ("least 95%", "least_p95_regret"),
    ):
        if values[field] is not None:
            named.append((label, plans.index(values[field])))
    named += [("often best", at) for at in often[:_SHOWN] if plans[at]["best_probability"] > 0]
    near = [at for at, plan in enumerate(plans) if plan["always_near"]]
    named += [("always near", at) for at in near[:_SHOWN]]
    labels: dict[int, str] = {}
    for label, at in named:
        before = labels.get(at)
        if before is None:
            labels[at] = label
        elif label not in {"often best", "always near"}:
            labels[at] = f"{before}, {label}"
    return [(f"{rank} {label}", at) for rank, (at, label) in enumerate(labels.items(), start=1)]


def _show_uncertain(rows: Sequence[Mapping[str, Any]], screen: Console) -> None:
    """Print the constants that are off by the same share in a line."""
    by_share: dict[float, list[str]] = {}
    for row in rows:
        by_share.setdefault(row["uncertainty"], []).append(row["name"])
    for share, names in sorted(by_share.items()):
        screen.print(f"known within a factor of {1 + share:.4g}: {', '.join(names)}")


def _regret(regret: float | None) -> str:
    return "no room" if regret is None else f"{regret:.2%}"


def _signed(share: float) -> str:
    return f"{share:+.0%}" if abs(share) >= 5e-3 else "0%"


def _moved(share: float) -> str:
    return f"{share:+.2%}" if abs(share) >= _LEAST else "0"


def _amount(value: float, unit: str) -> str:
    """Return a constant with its unit in powers of a thousand."""
    if unit == "s":
        return q.time(value)
    if unit.startswith(("bytes", "FLOP")):
        for least, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= least:
                return f"{value / least:.4g} {letter}{unit.replace('bytes', 'B')}"
    return f"{value:.4g} {unit}"
