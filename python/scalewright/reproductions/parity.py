"""How near do predicted step times come to measured ones, drawn to a file?"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError
from scalewright.reproductions.runs import counts
from scalewright.reproductions.target import check_target

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Result = dict[str, Any]
# matplotlib is an extra, so its types are not at hand
_Axes = Any

FORMATS = (".png", ".svg", ".pdf")
_INK, _GRID, _GUIDE = "#1f2933", "#e4e7eb", "#9aa5b1"
# distinct without colour vision: after Okabe and Ito's palette
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c6d31", "#555555")
_MARKS = ("o", "s", "^", "D")
_FONT = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "scalewright",
}
_GUIDES = ((0.10, "--"), (0.25, ":"))
_ROOM = 1.3
# inches: the figure's height, the square's margins left and below and its side, a column of names
_HEIGHT, _LEFT, _BELOW, _SIDE, _COLUMN = 6.0, 0.7, 0.54, 5.1, 3.6
# names in a column
_LINES = 33


def check_picture(path: str | Path) -> None:
    """Refuse a file that cannot be drawn to, before anything is computed.

    Raises:
        InvalidError: The file's ending is unknown, it cannot be written, or matplotlib is not
            installed.
    """
    check_target("picture", path, FORMATS)
    try:
        import_module("matplotlib")
    except ImportError as error:
        message = (
            f"picture: got {str(path)!r:.60}, but matplotlib is not installed; "
            "allowed: with the extra `plot`, as pip install 'scalewright[plot]'"
        )
        raise InvalidError(message) from error


def points_of(rows: Iterable[Result]) -> list[Result]:
    """Return a point for each run: its paper, measured and predicted step, whether searched."""
    points: dict[int, Result] = {}
    for row in rows:
        if not counts(row) or row["kind"] not in {"time", "rate"}:
            continue
        predicted = row["step_time_s"]
        point = {
            "paper": short(row["paper"]),
            "measured_s": predicted / row["time_ratio"],
            "predicted_s": predicted,
            "searched": row["status"] == "searched",
        }
        points.setdefault(row["run"], point)
    return list(points.values())


def draw_parity(rows: Iterable[Result], path: str | Path) -> None:
    """Draw predicted over measured step times, a point a run, coloured by paper.

    Runs of which plan fields were searched are hollow; lines mark 10% and 25% off.

    Args:
        rows: The rows of what `run` returned.
        path: A `.png`, `.svg` or `.pdf` file.

    Raises:
        InvalidError: No row has a step time to draw, or the file cannot be written.
    """
    check_picture(path)
    points = points_of(rows)
    if not points:
        message = "picture: got no priced row on the time of a step; allowed: one at least"
        raise InvalidError(message)
    matplotlib = import_module("matplotlib")
    figures = import_module("matplotlib.figure")
    with matplotlib.rc_context(_FONT):
        # beside the papers' lines there are those of the guides and what hollow marks mean
        names = len({point["paper"] for point in points}) + len(_GUIDES) + 2
        columns = -(-names // _LINES)
        width = _LEFT + _SIDE + _COLUMN * columns
        figure = figures.Figure(figsize=(width, _HEIGHT), dpi=150)
        place = (_LEFT / width, _BELOW / _HEIGHT, _SIDE / width, _SIDE / _HEIGHT)
        axes = figure.add_axes(place)
        _guides(axes, points)
        _scatter(axes, points)
        axes.set_xlabel("measured step, s")
        axes.set_ylabel("predicted step, s")
        title = f"{len(points):,} published runs, predicted and measured"
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=_INK)
        beside = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "ncols": columns}
        axes.legend(**beside, frameon=False, fontsize=7.5)
        try:
            figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)
        except OSError as error:
            message = f"picture: {path}: cannot be written: {error.strerror}"
            raise InvalidError(message) from error


def short(paper: str) -> str:
    """Return a paper's name without its title and address; all releases of a page are one."""
    head = re.split(r" \(|, ", paper)[0]
    part = re.search(r"vtrain-\w+$", paper)
    return f"{head}, {part[0]}" if part else head


def _guides(axes: _Axes, points: list[Result]) -> None:
    ends = [point[key] for point in points for key in ("measured_s", "predicted_s")]
    low, high = min(ends) / _ROOM, max(ends) * _ROOM
    axes.plot([low, high], [low, high], color=_INK, linewidth=1.0, label="equal")
    for share, style in _GUIDES:
        for side, factor in enumerate((1.0 + share, 1.0 / (1.0 + share))):
            label = None if side else f"{share:.0%} off"
            line = [low * factor, high * factor]
            axes.plot([low, high], line, style, color=_GUIDE, linewidth=1.0, label=label)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.grid(color=_GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK, which="both", length=0)


def _scatter(axes: _Axes, points: list[Result]) -> None:
    papers: dict[str, list[Result]] = {}
    for point in points:
        papers.setdefault(point["paper"], []).append(point)
    ordered = sorted(papers.items(), key=lambda item: -len(item[1]))
    for place, (paper, own) in enumerate(ordered):
        colour = _COLOURS[place % len(_COLOURS)]
        axes.scatter(
            [point["measured_s"] for point in own],
            [point["predicted_s"] for point in own],
            s=12,
            marker=_MARKS[place // len(_COLOURS) % len(_MARKS)],
            facecolors=["none" if point["searched"] else colour for point in own],
            edgecolors=colour,
            linewidths=0.8,
            label=f"{paper} ({len(own)})",
            # those with many points lie below the others
            zorder=3 + place / len(ordered),
        )
    if any(point["searched"] for point in points):
        label = "hollow: plan searched"
        axes.scatter([], [], s=16, facecolors="none", edgecolors=_INK, label=label)
