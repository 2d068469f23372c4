"""What was asked, and what does the answer rest on?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.catalog import load_system, names
from scalewright.config import Plan, completed
from scalewright.report import quantities as q
from scalewright.report.plans import plan_line

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rich.console import Console

    from scalewright.planning import Job, Model, System, UnlikeSearch


def show_job(job: Job, screen: Console, recipes: Collection[str] | None = None) -> None:
    """Print what was asked; `recipes` are the precision recipes that a search chose from."""
    asked = job.to_dict()
    training = job.training
    screen.print(
        f"{asked['model']} ({q.count(job.model.parameters()['total'])} parameters) on "
        f"{job.system.devices:,} x {asked['device_title']} ({asked['system']})",
        style="bold",
    )
    show_uneven(job.system, screen)
    show_slice(job.system, screen)
    if job.model.left_out:
        parts = ", ".join(job.model.left_out)
        screen.print(f"left out of the model: {parts} (only what predicts text is priced)")
    state = "" if training.state == "fp32" else f"state in {training.state}, "
    attention = "" if training.flash_attention else ", plain attention"
    optimizer = "" if training.forward_only else f"{state}{training.optimizer}"
    said = ", ".join(filter(None, [" or ".join(recipes or [training.precision]), optimizer]))
    profile = (training.software or {}).get("name")
    screen.print(
        f"global batch {training.global_batch:,} x {training.sequence:,} tokens, "
        f"{said}{attention}"
        f"{', dropout' if training.dropout else ''}"
        f"{', forward only' if training.forward_only else ''}"
        f"{f', software {profile}' if profile else ''}"
        f"{f', memory margin {job.memory_margin:.1%}' if job.memory_margin else ''}"
    )


def show_uneven(system: System, screen: Console) -> None:
    """Print which units the devices do not fill, and which systems they would."""
    for level in system.table["levels"]:
        unit = level.get("devices")
        if unit and system.devices > unit and system.devices % unit:
            filled, left = divmod(system.devices, unit)
            screen.print(
                f"{system.devices:,} devices fill {filled:,} of {filled + 1:,} units of {unit:,} "
                f"({level['name']}), the last one has {left:,}: groups do not line up with units"
                f"{_filled(system)}"
            )


def show_slice(system: System, screen: Console) -> None:
    """Print where devices lie on a torus that they do not fill and that has no slice of them."""
    inside = 1
    for level in system.table["levels"]:
        unit = level.get("devices") or inside
        sliced = "block" in level and _has_box(level["dims"], system.devices / inside)
        by_rows = level["kind"] == "torus" and not sliced
        if by_rows and inside < system.devices < unit:
            left, corner = -(-system.devices // inside), list[int]()
            for dim in level["dims"]:
                corner.append(min(left, dim))
                left = -(-left // dim)
            screen.print(
                f"{system.devices:,} devices of the torus of {_sides(level['dims'])} "
                f"({level['name']}) are taken row by row, in a corner of {_sides(corner)}; a slice "
                f"of another shape is a system with `dims` of its own{_filled(system, whole=True)}"
            )
        inside = unit


def _has_box(dims: Sequence[int], units: float) -> bool:
    """Say whether some box of a torus has just so many units."""
    if not dims:
        return units == 1
    sides = (side for side in range(1, dims[0] + 1) if units % side == 0)
    return any(_has_box(dims[1:], units // side) for side in sides)


def _sides(dims: Sequence[int]) -> str:
    return " x ".join(map(str, dims))


def _filled(system: System, *, whole: bool = False) -> str:
    """Name the system of the catalog with the same devices and levels whose units they do fill.

    With `whole` it is one unit that they fill.
    """
    for name in names("system"):
        table = load_system(name)
        alike = table["device"] == system.table["device"] and _levels(table) == _levels(
            system.table
        )
        units = [level["devices"] for level in table["levels"] if "devices" in level]
        fill = system.devices in units if whole else all(system.devices % u == 0 for u in units)
        if alike and fill:
            return f"; `--system {name}` has units that fit"
    return ""


def _levels(table: Mapping[str, Any]) -> list[str]:
    return [level["name"] for level in table["levels"]]


def show_job_and_plan(
    job: Job, plan: Mapping[str, object], screen: Console, without: Collection[str] = ()
) -> None:
    """Print what was asked, and the plan with what follows from it, as `plan_line` has it."""
    show_job(job, screen)
    whole = {**Plan().to_dict(), **completed(plan, job.system.devices)}
    screen.print(f"plan: {plan_line(whole, without)}")


def show_overridden(
    screen: Console, *parts: Model | System | UnlikeSearch, always: bool = False
) -> None:
    """Print the constants that a user's files changed; where there are none only if `always`."""
    changed = dict.fromkeys(path for part in parts for path in part.overridden)
    if changed or always:
        screen.print(f"overridden constants: {', '.join(changed) or 'none'}")


def show_stamp(job: Job, screen: Console) -> None:
    """Print what the answer rests on."""
    stamp = job.stamp()
    screen.print()
    device = job.to_dict()["device"]
    if stamp["calibrated"]:
        screen.print(f"{device} is calibrated to: {stamp['calibration_basis']}")
    else:
        basis = f" ({stamp['calibration_basis']})" if stamp["calibration_basis"] else ""
        screen.print(f"{device} is not calibrated: its constants are data-sheet figures{basis}.")
    show_overridden(screen, job.model, job.system, always=True)
    screen.print(
        f"scalewright {stamp['engine_version']}, catalog {stamp['catalog_hash']}, "
        f"schema {stamp['schema_version']}"
    )
