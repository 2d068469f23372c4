"""How full is each tier over a step, and with what?"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scalewright.planning import Placement

# matplotlib is an extra, so its types are not at hand
_Axes = Any

_FORMATS = (".png", ".svg", ".pdf")
_GIB = 2.0**30
_INK, _FAINT, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
# distinct without colour vision: Okabe and Ito's palette, greys for what never moves
_COLOURS = {
    "weights": "#0072b2",
    "experts": "#56b4e9",
    "embeddings": "#8cc5e3",
    "gradients": "#d55e00",
    "optimizer": "#e69f00",
    "activations": "#009e73",
    "kv_cache": "#cc79a7",
    "logits": "#f0e442",
    "buckets": "#8c6d31",
    "workspace": "#a0a8b0",
    "fragmentation": "#c3c9cf",
    "reserve": "#dfe3e7",
    "other": "#52606d",
}
_FONT = {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none"}


def check_memory_picture(path: str) -> None:
    """Refuse a file that cannot be drawn to, before anything is computed.

    Raises:
        InvalidError: The file's ending is unknown, or matplotlib is not installed.
    """
    if Path(path).suffix.casefold() not in _FORMATS:
        allowed = f"a file that ends with {', '.join(_FORMATS)}"
        message = f"picture: got {path!r:.60}; allowed: {allowed}"
        raise InvalidError(message)
    try:
        import_module("matplotlib")
    except ImportError as error:
        message = (
            f"picture: got {path!r:.60}, but matplotlib is not installed; "
            "allowed: with the extra `plot`, as pip install 'scalewright[plot]'"
        )
        raise InvalidError(message) from error


def draw_memory(placement: Placement, path: str, title: str) -> None:
    """Draw the bytes of each tier that holds any over the instants of a step, stacked by class."""
    matplotlib = import_module("matplotlib")
    figures = import_module("matplotlib.figure")
    memory = placement.memory()
    capacities = {tier["name"]: tier["capacity_bytes"] for tier in placement.placed["tiers"]}
    shown = [name for name, lines in memory.items() if any(line.any() for line in lines.values())]
    with matplotlib.rc_context(_FONT):
        height = 1.0 + 2.5 * len(shown)
        figure = figures.Figure(figsize=(9.2, height), dpi=160, layout="constrained")
        grid = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for axes, name in zip(grid, shown, strict=True):
            _draw_tier(axes, name, memory[name], capacities[name])
        _mark_windows(grid, placement)
        grid[-1].set_xlabel("instant of the step, in the order in which the rank runs")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=_INK, fontweight="bold")
        try:
            figure.savefig(path)
        except OSError as error:
            message = f"picture: {path}: cannot be written: {error.strerror}"
            raise InvalidError(message) from error


def _draw_tier(axes: _Axes, name: str, lines: dict[str, Any], capacity: float) -> None:
    numpy = import_module("numpy")
    kinds = [kind for kind in _COLOURS if kind in lines and lines[kind].any()]
    heights: NDArray[np.float64] = numpy.array([lines[kind] / _GIB for kind in kinds])
    edges: NDArray[np.int64] = numpy.arange(heights.shape[1] + 1)
    below = numpy.zeros(heights.shape[1])
    for kind, height in zip(kinds, heights, strict=True):
        axes.stairs(
            below + height,
            edges,
            baseline=below,
            fill=True,
            color=_COLOURS[kind],
            label=kind.replace("_", " "),
        )
        below = below + height
    top = float(below.max())
    limit = capacity / _GIB
    if limit < 3.0 * top:
        axes.axhline(limit, color=_INK, linewidth=1.0, linestyle=(0, (4, 2)))
        axes.text(0, limit, f" {limit:,.0f} GiB hold", va="bottom", color=_INK, fontsize=8)
        top = max(top, limit)
    axes.set_ylim(0, top * 1.12)
    axes.set_xlim(0, edges[-1])
    axes.set_ylabel(f"{name}, GiB")
    axes.grid(axis="y", color=_GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False
    )


def _mark_windows(grid: Sequence[_Axes], placement: Placement) -> None:
    """Draw a faint line where a pass ends, if they are few enough to be told apart."""
    windows = placement.values.get("problem", {}).get("windows", [])
    if not 1 < len(windows) <= 64:
        return
    at = 0
    for window in windows[:-1]:
        at += window["instants"]
        for axes in grid:
            axes.axvline(at, color=_FAINT, linewidth=0.5, alpha=0.6)
    if len(windows) <= 12:
        start = 0
        for window in windows:
            label = window["name"].split(" of ")[0]
            grid[0].text(
                start + window["instants"] / 2, 1.01, label, ha="center", va="bottom",
                fontsize=7, color=_FAINT, transform=grid[0].get_xaxis_transform(),
            )  # fmt: skip
            start += window["instants"]
