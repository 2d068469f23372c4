"""Can a figure, and can all that are printed of one run, be true?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scalewright.reproductions.columns import plain
from scalewright.reproductions.metrics import metric_of, tells_devices, unit_meant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scalewright.reproductions.reading import Row
    from scalewright.reproductions.setting import Setting

Result = dict[str, Any]
_APART = 3.0
"""How many times the steps that figures of a run mean may differ.

Their FLOPs are counted otherwise by up to a half, and a share may be of a peak twice as high.
"""


def contradictions(results: Sequence[Result]) -> dict[int, str]:
    """Say of which results the run has figures that cannot all be true, and which do not agree.

    Each figure of speed means a time of the step: the predicted one over the row's ratio. Figures
    of a run in the same metric are of several runs that the row does not tell apart.

    Returns:
        By place, why a row is refused.
    """
    runs: dict[object, list[int]] = {}
    for place, row in enumerate(results):
        if row["time_ratio"] is not None and row["kind"] in {"time", "rate"}:
            runs.setdefault((row["file"], row["run"]), []).append(place)
    refused: dict[int, str] = {}
    for places in runs.values():
        listed = sorted(places, key=lambda place: results[place]["time_ratio"])
        low, high = results[listed[0]], results[listed[-1]]
        if low["metric"] == high["metric"] or low["time_ratio"] * _APART >= high["time_ratio"]:
            continue
        middle = (low["time_ratio"] * high["time_ratio"]) ** 0.5
        for place in places:
            row = results[place]
            refused[place] = _contradiction(row, high if row["time_ratio"] < middle else low)
    return refused


def of_the_job(row: Row, devices: int, share: float) -> Row | None:
    """Return a row on FLOP/s as one on all devices where no single one can have been so quick.

    Args:
        row: The row, whose words do not say of how many devices its figure is.
        devices: The devices of its run.
        share: Share of one device's dense peak that the figure would be.

    Returns:
        The row with another metric; none where the figure may be of one device, or of nothing.
    """
    words = f"{row.text('metric')} {row.text('unit')}".replace("_", " ")
    if metric_of(row) != "tflops_per_gpu" or tells_devices(words):
        return None
    if not share > 1.0 >= share / devices:
        return None
    # the name of the metric may be what says its unit
    unit = unit_meant("tflops_per_gpu", plain(row.text("metric")), row.text("unit"))
    return replace(row, cells=row.cells | {"metric": "aggregate_tflops", "unit": unit})


def in_tf32(setting: Setting, share: float) -> Setting | None:
    """Return a setting in TF32 where no products in fp32 can have been as quick as a figure says.

    Libraries multiply fp32 tensors in TF32 where they may, as containers of NVIDIA's let them
    (TORCH_ALLOW_TF32_CUBLAS_OVERRIDE), and who reports such a run calls it fp32.

    Args:
        setting: What the row says of its run.
        share: Share of the device's dense peak that the figure would be.

    Returns:
        The setting; none where the figure may be of fp32, or the device has no TF32.
    """
    alone = setting.training.get("precision") == "fp32" and "tf32" in setting.device["matrix"]
    if setting.conventions.known or not alone or share <= 1.0:
        return None
    why = "products taken in tf32: those in fp32 are not as quick on this device"
    training = {**setting.training, "precision": "tf32"}
    return replace(setting, training=training, notes=(*setting.notes, why))


def _contradiction(row: Result, other: Result) -> str:
    own, others = (each["step_time_s"] / each["time_ratio"] for each in (row, other))
    got = f"value: got {_told(row)}, which is a step of {own:.3g} s"
    against = f"{_told(other)} of the same run on line {other['line']} is one of {others:.3g} s"
    return f"{got}; {against}; allowed: within {_APART:g} times"


def _told(row: Result) -> str:
    unit = f" {row['unit']}" if row["unit"] else ""
    return f"{row['published']:g}{unit} of {row['metric']}"
