"""Where do the time and the memory of a plan go?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.report import quantities as q
from scalewright.report.prices import price_basis
from scalewright.report.screen import heading, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Estimate

_FEW_STEPS = 10.0
"""Below these a run is not said in whole steps."""
PHASES = ("forward", "backward", "recompute")
GROUPS = ("compute", "communication", "bubble", "optimizer")
CLASSES = (
    "weights",
    "gradients",
    "optimizer",
    "activations",
    "workspace",
    "fragmentation",
    "reserve",
    "total",
)


def show_time(priced: Estimate, screen: Console) -> None:
    """Print the terms of the step time by group and phase."""
    values = priced.values
    rows = table("term", "forward", "backward", "recompute", "step", "share", "hidden")
    step = values["step_time_s"]
    unit = q.time_unit(step)
    heading(screen, f"Where the time goes, {unit[0]}")
    for group in GROUPS:
        lines = [line for line in values["time"] if line["group"] == group]
        if not lines:
            continue
        names = list(dict.fromkeys(line["term"].split(".")[0] for line in lines))
        if len(names) > 1:
            spent, hidden = _sum(lines, "time_s"), _sum(lines, "hidden_s")
            rows.add_row(group, "", "", "", *_ends(spent, step, hidden, unit[1]), style="bold")
        for name in names:
            own = [line for line in lines if line["term"].split(".")[0] == name]
            rows.add_row(*_term_row(name if len(names) == 1 else f"  {name}", own, step, unit[1]))
    rows.add_row("step time", "", "", "", *_ends(step, step, 0.0, unit[1]), style="bold")
    screen.print(rows)


def _term_row(name: str, lines: Sequence[dict[str, Any]], step: float, unit_s: float) -> list[str]:
    phases: list[str] = []
    for phase in PHASES:
        found = [line for line in lines if line["term"].endswith(f".{phase}")]
        phases.append(f"{_sum(found, 'time_s') / unit_s:,.3f}" if found else "")
    label = name.replace("_", " ")
    return [label, *phases, *_ends(_sum(lines, "time_s"), step, _sum(lines, "hidden_s"), unit_s)]


def _ends(spent: float, step: float, hidden: float, unit_s: float) -> list[str]:
    covered = f"{hidden / unit_s:,.3f}" if hidden > 0 else ""
    return [f"{spent / unit_s:,.3f}", q.share(spent / step), covered]


def _sum(lines: Sequence[dict[str, Any]], field: str) -> float:
    return sum(line[field] for line in lines)


def show_memory(priced: Estimate, screen: Console, stages: str = "ends") -> None:
    """Print the memory of stages by tensor class: first, fullest and last, or all."""
    values = priced.values
    lines: list[dict[str, Any]] = values["memory"]
    heading(screen, "Memory of a device, GiB")
    fullest = max(range(len(lines)), key=lambda index: lines[index]["total_bytes"])
    shown = range(len(lines)) if stages == "all" else sorted({0, fullest, len(lines) - 1})
    names = {index: f"stage {index + 1} of {len(lines)}" for index in shown}
    if len(lines) > 1:
        names[fullest] += " (fullest)"
    if stages == "all":
        rows = table("", *CLASSES)
        for index, name in names.items():
            rows.add_row(name, *(q.gib(lines[index][f"{kind}_bytes"]) for kind in CLASSES))
    else:
        rows = table("", *names.values())
        for kind in CLASSES:
            amounts = (q.gib(lines[index][f"{kind}_bytes"]) for index in names)
            rows.add_row(kind, *amounts, style="bold" if kind == "total" else None)
    screen.print(rows)
    host = values["host_memory_bytes"]
    if host > 0:
        held = max(line["host_bytes"] for line in lines)
        screen.print(
            f"host memory: {q.gib(held)} GiB a device, {q.gib(host)} of "
            f"{q.gib(values['host_capacity_bytes'])} GiB in the fullest node"
        )
    capacity = values["memory_capacity_bytes"]
    left = capacity - values["peak_memory_bytes"]
    word = "free" if left >= 0 else "missing"
    if values["offloaded"] is not None:
        word = "to lie in other tiers"
    screen.print(f"usable: {q.gib(capacity)} GiB, {word}: {q.gib(abs(left))} GiB")


def show_offload(priced: Estimate, screen: Console) -> None:
    """Print what lies in tiers behind device memory, if anything has to."""
    offloaded = priced.values["offloaded"]
    if offloaded is None:
        return
    heading(screen, f"In other tiers on a rank of stage {offloaded['stage'] + 1}, GiB")
    tiers = list(dict.fromkeys(line["tier"] for line in offloaded["away"]))
    rows = table("class", *tiers)
    for kind in dict.fromkeys(line["class"] for line in offloaded["away"]):
        own = {line["tier"]: line["bytes"] for line in offloaded["away"] if line["class"] == kind}
        rows.add_row(kind.replace("_", " "), *(q.gib(own[t]) if t in own else "" for t in tiers))
    screen.print(rows)
    screen.print(
        f"their transfers add {q.time(offloaded['transfers_s'])} to a step; "
        "`scalewright place` shows every tensor and what would be worth buying"
    )


def show_price(priced: Estimate, screen: Console) -> None:
    """Print energy and price of a step and of the run, where its length is known."""
    values = priced.values
    heading(screen, "Energy and price")
    tokens = priced.job.training.global_batch * priced.job.training.sequence
    rows = table("", "time", "energy", "price", "tokens")
    rows.add_row(
        "step",
        q.time(values["step_time_s"]),
        q.energy(values["energy_j_per_step"]),
        q.dollars(values["cost_usd_per_step"]),
        q.count(tokens),
    )
    if values["run_steps"] is not None:
        rows.add_row(
            f"run of {_steps(values['run_steps'])} steps{_lost(priced.job.training.goodput)}",
            q.time(values["run_time_s"]),
            q.energy(values["run_energy_j"]),
            q.dollars(values["run_cost_usd"]),
            q.count(priced.job.training.run_tokens or 0),
        )
    screen.print(rows)
    screen.print(f"price: {price_basis(priced.job.system)}")


def _lost(goodput: float) -> str:
    """Say of a run in which share of its time steps count, where that is not all of it."""
    return f", goodput {goodput:.4g}" if goodput < 1.0 else ""


def _steps(steps: float) -> str:
    """Say of how many steps a run is."""
    return f"{steps:,.0f}" if steps >= _FEW_STEPS else f"{steps:.3g}"


def show_speed(priced: Estimate, screen: Console) -> None:
    """Print throughput and utilisation with their definitions."""
    values = priced.values
    heading(screen, "Speed")
    screen.print(
        f"step {q.time(values['step_time_s'])}, {values['tokens_per_s']:,.0f} tokens/s "
        f"({values['tokens_per_s_per_device']:,.1f} a device), "
        f"{q.rate(values['model_flops_per_s_per_device'])} of model arithmetic a device"
    )
    peak = q.rate(values["peak_flops_per_s_per_device"])
    screen.print(
        f"MFU {q.share(values['mfu'])} = model FLOPs / (step time x devices x dense peak of {peak})"
    )
    asked, engine = priced.job.training.precision, values["engine_format"]
    if engine not in {asked, None}:
        screen.print(f"the device has no {asked}: its products are priced as {engine}")
    counted = priced.job.model.parameters()
    frozen = counted["trained"] < counted["total"] and not priced.job.training.forward_only
    less = ", less those that frozen weights do not need" if frozen else ""
    screen.print(f"HFU {q.share(values['hfu'])} = the same with recomputed FLOPs added{less}")
    passes, factor = ("", 24) if priced.job.training.forward_only else ("3 x ", 72)
    screen.print(
        f"model FLOPs = {passes}the forward pass's matrix arithmetic, attention in full: "
        f"{factor} B s l h^2 (1 + s/6h + V/12lh) for the GPT family"
    )
    if frozen:
        trained = counted["trained"] / counted["total"]
        screen.print(
            f"MFU counts all weights as trained, of which {q.share(trained)} are: the device "
            "computes no gradients of the others"
        )
    elif values["mfu"] > 1.0:
        screen.print(
            "MFU above 100%: attention is counted in full, of which causal kernels do half"
        )


def show_band(band: Mapping[str, Any] | None, screen: Console) -> None:
    """Print between which times measured runs like this one lie."""
    if band is None:
        return
    ends = f"x{band['low_factor']:.2f} and x{band['high_factor']:.2f}"
    screen.print(
        f"measured runs like this one lie between {ends} of the predicted step, the middle one at "
        f"x{band['middle_factor']:.2f} ({band['share']:.0%} of them; from {band['runs']} runs of "
        f"{len(band['papers'])} papers, {band['same_device']} of them on this device)"
        + (
            ""
            if band["program_named"]
            else "; --software names a program: runs of known ones agree better"
        )
    )
