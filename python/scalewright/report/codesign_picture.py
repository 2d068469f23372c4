"""How does the best plan change over a grid of machines, drawn to a file?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scalewright.planning import Codesign

# matplotlib is an extra, so its types are not at hand
_Axes = Any
_Figure = Any

_INK, _FAINT, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
# distinct without colour vision: Okabe and Ito's palette
_BEST = "#e69f00"
_FONT = {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none"}
_UNITS = {
    "time": "step, s",
    "memory": "memory, bytes",
    "energy": "energy of a step, J",
    "dollars": "USD a step",
    "devices": "devices",
    "watts": "power at the limit, W",
    "capital": "capital, USD",
    "mm2": "silicon, mm2",
}
_MOST_WRITTEN = 12
"""Cells along an edge up to which each says its value."""


def draw_codesign(
    found: Codesign, path: str | Path, *, measure: str = "time", against: str | None = None
) -> None:
    """Draw a heat map of a measure over two axes of a grid, or a scatter of two measures.

    A grid in which two axes vary is drawn as a heat map; others, and any where `against` is given,
    as a scatter of all variants in which those of the front stand out.

    Args:
        found: What the grid holds.
        path: A `.svg`, `.pdf` or `.png` file.
        measure: What is drawn, of `MEASURES`.
        against: The measure along the scatter's horizontal axis (`watts`).

    Raises:
        InvalidError: The measure does not exist, or the file cannot be written.
    """
    matplotlib = import_module("matplotlib")
    figures = import_module("matplotlib.figure")
    varied = [place for place, (_, labels) in enumerate(found.axes) if len(labels) > 1]
    with matplotlib.rc_context(_FONT):
        figure = figures.Figure(figsize=(8.4, 5.0), dpi=160, layout="constrained")
        axes = figure.add_subplot()
        if len(varied) == 2 and against is None:
            _draw_map(figure, axes, found, measure, varied)
        else:
            _draw_scatter(axes, found, measure, against or "watts")
        job = found.job
        title = f"{job.model.name} on variants of {job.system.name}: {_UNITS[measure]}"
        axes.set_title(title, loc="left", fontsize=11, color=_INK, fontweight="bold")
        axes.tick_params(colors=_INK, length=0)
        try:
            figure.savefig(path)
        except OSError as error:
            message = f"picture: {path}: cannot be written: {error.strerror}"
            raise InvalidError(message) from error


def _draw_map(
    figure: _Figure, axes: _Axes, found: Codesign, measure: str, varied: Sequence[int]
) -> None:
    import numpy as np

    (down, rows), (across, columns) = (found.labels()[place] for place in varied)
    cells = found.column(measure).reshape(len(rows), len(columns))
    # what has no plan stays empty
    shown = np.ma.masked_invalid(cells)
    colours = axes.imshow(shown, aspect="auto", cmap="cividis", origin="lower")
    axes.set_xticks(range(len(columns)), list(columns))
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_xlabel(across)
    axes.set_ylabel(down)
    axes.spines[:].set_visible(False)
    figure.colorbar(colours, ax=axes, label=_UNITS[measure], shrink=0.9)
    if max(len(rows), len(columns)) > _MOST_WRITTEN:
        return
    middle = float((shown.max() + shown.min()) / 2) if shown.count() else 0.0
    for row, column in np.ndindex(cells.shape):
        value = float(cells[row, column])
        text = f"{value:.4g}" if np.isfinite(value) else "none"
        ink = _INK if value > middle else "white"
        axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)


def _draw_scatter(axes: _Axes, found: Codesign, measure: str, against: str) -> None:
    across, up = found.column(against).ravel(), found.column(measure).ravel()
    axes.scatter(across, up, s=12, color=_FAINT, label="variant with its best plan")
    chosen = [variant["index"] for variant in found.front or found.best[:1]]
    label = "front" if found.front else "best"
    axes.scatter(across[chosen], up[chosen], s=26, color=_BEST, label=label, zorder=3)
    axes.set_xlabel(_UNITS[against])
    axes.set_ylabel(_UNITS[measure])
    axes.grid(color=_GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
