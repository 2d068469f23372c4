"""What was asked, and what does the answer rest on?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.report import quantities as q

if TYPE_CHECKING:
    from rich.console import Console

    from scalewright.planning import Job


def show_job(job: Job, screen: Console) -> None:
    """Print what was asked."""
    asked = job.to_dict()
    training = job.training
    screen.print(
        f"{asked['model']} ({q.count(job.model.parameters()['total'])} parameters) on "
        f"{job.system.devices:,} x {asked['device_title']} ({asked['system']})",
        style="bold",
    )
    if job.model.left_out:
        parts = ", ".join(job.model.left_out)
        screen.print(f"left out of the model: {parts} (only what predicts text is priced)")
    state = "" if training.state == "fp32" else f"state in {training.state}, "
    attention = "" if training.flash_attention else ", plain attention"
    profile = (training.software or {}).get("name")
    screen.print(
        f"global batch {training.global_batch:,} x {training.sequence:,} tokens, "
        f"{training.precision}, {state}{training.optimizer}{attention}"
        f"{', dropout' if training.dropout else ''}"
        f"{', forward only' if training.forward_only else ''}"
        f"{f', software {profile}' if profile else ''}"
        f"{f', memory margin {job.memory_margin:.1%}' if job.memory_margin else ''}"
    )


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
    changed = [*job.model.overridden, *job.system.overridden]
    screen.print(f"overridden constants: {', '.join(changed) if changed else 'none'}")
    screen.print(
        f"scalewright {stamp['engine_version']}, catalog {stamp['catalog_hash']}, "
        f"schema {stamp['schema_version']}"
    )
