"""How far does each constant move a step, drawn to a file?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError
from scalewright.report import quantities as q

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scalewright.planning import Sensitivity

# matplotlib is an extra, so its types are not at hand
_Axes = Any

_INK, _FAINT, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
# distinct without colour vision: Okabe and Ito's palette
_UP, _DOWN = "#0072b2", "#e69f00"
_FONT = {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none"}
_LEAST = 5e-5


def draw_tornado(found: Sensitivity, path: str | Path, most: int = 20) -> None:
    """Draw by how much each constant moves the step time, the largest effect on top.

    Args:
        found: What each constant does.
        path: A `.svg`, `.pdf` or `.png` file.
        most: Constants that are drawn.

    Raises:
        InvalidError: The file cannot be written.
    """
    matplotlib = import_module("matplotlib")
    figures = import_module("matplotlib.figure")
    step = found.step_time_s
    shown = [effect for effect in found.effects if _most(effect, step) >= _LEAST][:most]
    with matplotlib.rc_context(_FONT):
        height = 1.4 + 0.28 * max(len(shown), 1)
        figure = figures.Figure(figsize=(8.4, height), dpi=160, layout="constrained")
        axes = figure.add_subplot()
        _draw_bars(axes, shown, step)
        axes.set_xlabel(f"change of the step of {q.time(step)}, %")
        job = found.job
        title = f"{job.model.name} on {job.system.devices:,} devices of {job.system.name}"
        axes.set_title(title, loc="left", fontsize=11, color=_INK, fontweight="bold")
        try:
            figure.savefig(path)
        except OSError as error:
            message = f"picture: {path}: cannot be written: {error.strerror}"
            raise InvalidError(message) from error


def _most(effect: Mapping[str, Any], step: float) -> float:
    return max(abs(effect[side]["step_time_s"] / step - 1) for side in ("up", "down"))


def _draw_bars(axes: _Axes, shown: list[dict[str, Any]], step: float) -> None:
    places = list(range(len(shown)))
    for side, colour in (("up", _UP), ("down", _DOWN)):
        widths = [100 * (effect[side]["step_time_s"] / step - 1) for effect in shown]
        factors = {round(100 * (effect[side]["factor"] - 1)) for effect in shown}
        # a share that cannot grow so far has a factor of its own
        change = max(factors, key=abs, default=0)
        axes.barh(places, widths, color=colour, height=0.7, label=f"constant {change:+d}%")
    axes.axvline(0, color=_INK, linewidth=0.8)
    axes.set_yticks(places, [effect["name"] for effect in shown])
    axes.invert_yaxis()
    axes.grid(axis="x", color=_GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_FAINT)
    axes.tick_params(colors=_INK, length=0)
    if shown:
        axes.legend(loc="lower right", frameon=False)
