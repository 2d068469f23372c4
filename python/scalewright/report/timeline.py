"""What runs when, drawn to a file: a row for each engine, a box for each span?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError
from scalewright.planning import CATEGORIES
from scalewright.report import quantities as q
from scalewright.report.timeline_page import Page, note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scalewright.planning import Row, Span, Timeline

# matplotlib is an extra, so its types are not at hand
_Axes = Any
_Figure = Any
_Patch = Any
_Colour = tuple[float, float, float]

FORMATS = (".svg", ".pdf", ".png")
WIDTH_IN = 7.2
"""Text width of a page of two columns."""

INK, _IDLE = "#1f2933", "#eceff1"
# distinct without colour vision: after Okabe and Ito's palette
COLOURS = {
    "forward": "#56b4e9",
    "backward": "#e69f00",
    "input": "#d55e00",
    "weight": "#009e73",
    "local": "#cc79a7",
    "compute": "#56b4e9",
    "collective": "#cc79a7",
    "send": "#f0e442",
    "offload": "#8c6d31",
    "other": "#999999",
}
CATEGORY_NAMES = {
    "input": "input gradient",
    "weight": "weight gradient",
    "local": "local loss, backward",
}
_FONT = {
    "font.family": "sans-serif",
    "font.size": 8,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    # the same picture gives the same file
    "svg.hashsalt": "scalewright",
}
_NUMBER_SIZES = (6.5, 6.0, 5.5, 5.0, 4.5)
_LETTER = 0.64
"""Width of a digit over the size of the font."""
_LIGHTEST = 0.6
# a shape of very many rectangles takes long to fill
_MOST_TOGETHER = 2000


def check_picture(path: str | Path) -> None:
    """Refuse a file that cannot be drawn to, before anything is computed.

    Raises:
        InvalidError: The file's ending is unknown, or matplotlib is not installed.
    """
    if Path(path).suffix.casefold() not in FORMATS:
        message = f"picture: got {str(path)!r:.60}; allowed: a file that ends with "
        raise InvalidError(message + ", ".join(FORMATS))
    try:
        import_module("matplotlib")
    except ImportError as error:
        message = (
            f"picture: got {str(path)!r:.60}, but matplotlib is not installed; "
            "allowed: with the extra `plot`, as pip install 'scalewright[plot]'"
        )
        raise InvalidError(message) from error


def draw_timelines(
    timelines: Sequence[Timeline], path: str | Path, *, width_in: float = WIDTH_IN
) -> None:
    """Draw timelines below one another, on one scale of time, to a `.svg`, `.pdf` or `.png` file.

    Args:
        timelines: One or more.
        path: The file.
        width_in: Width of the picture in inches, 3 to 60; letters keep their size.

    Raises:
        InvalidError: There is nothing to draw, the width or the file's ending is wrong, or
            matplotlib is not installed.
    """
    check_picture(path)
    if not (3.0 <= width_in <= 60.0):
        message = f"width_in: got {width_in!r:.60}; allowed: 3 to 60 inches"
        raise InvalidError(message)
    if not any(timeline.spans and timeline.end_s > 0.0 for timeline in timelines):
        message = "picture: got no spans that take any time; allowed: one or more"
        raise InvalidError(message)
    matplotlib = import_module("matplotlib")
    figures = import_module("matplotlib.figure")
    entries = _entries(timelines)
    page = Page(width_in, timelines, [name for _, name in entries])
    unit, unit_s = q.time_unit(max(timeline.end_s for timeline in timelines))
    until = max(timeline.end_s for timeline in timelines) / unit_s
    with matplotlib.rc_context(_FONT):
        figure = figures.Figure(figsize=(width_in, page.height_in), dpi=200)
        for number, timeline in enumerate(timelines):
            axes = figure.add_axes(page.place(number))
            _draw(axes, timeline, _TimeScale(number, unit_s, page.points(), until))
            _label(axes, timeline, number, page)
            if number < len(timelines) - 1:
                axes.tick_params(axis="x", bottom=False, labelbottom=False)
            else:
                axes.set_xlabel(f"time, {unit}", color=INK, labelpad=2)
        _legend(figure, entries, page)
        _save(figure, path)


@dataclass(frozen=True)
class _TimeScale:
    """The scale of a timeline."""

    number: int
    unit_s: float
    points: tuple[float, float]
    until: float
    """End of the scale, in units."""

    def wide(self, units: float) -> float:
        """Return so many units of time in points."""
        return units / self.until * self.points[0]


@dataclass(frozen=True, slots=True)
class _DrawnSpan:
    """A span as it is drawn: times in units, rows counted from the top."""

    span: Span
    left: float
    right: float
    top: float
    bottom: float


def _draw(axes: _Axes, timeline: Timeline, frame: _TimeScale) -> None:
    rows, end = timeline.rows, timeline.end_s / frame.unit_s
    inset = 0.06 if frame.points[1] > 7 else 0.03
    idle = [(0.0, end, row + inset, row + 1 - inset) for row in range(len(rows))]
    axes.add_artist(_rectangles(idle, facecolor=_IDLE, linewidth=0, zorder=1))
    boxes = [box for at, row in enumerate(rows) for box in _boxes(at, row, frame.unit_s, inset)]
    shown: dict[tuple[str, int], list[_DrawnSpan]] = defaultdict(list)
    for box in boxes:
        shown[box.span.category, box.span.shade].append(box)
    edge = _edge(boxes, frame)
    for (category, shade), group in shown.items():
        fill = shaded(category, shade, len(timeline.shades))
        for part in range(0, len(group), _MOST_TOGETHER):
            some = group[part : part + _MOST_TOGETHER]
            edges = [(box.left, box.right, box.top, box.bottom) for box in some]
            patch = _rectangles(edges, facecolor=fill, zorder=2, **edge)
            patch.set_gid(f"spans-{frame.number}-{category}-{shade}-{part}")
            axes.add_artist(patch)
    _numbers(axes, boxes, frame, len(timeline.shades))
    axes.axvline(end, color=INK, linewidth=0.7, zorder=3, clip_on=False)
    axes.set_xlim(0.0, frame.until)


def _rectangles(edges: Sequence[tuple[float, float, float, float]], **style: object) -> _Patch:
    """Return rectangles, each given by left, right, top and bottom, as a single shape."""
    import numpy as np

    paths, patches = import_module("matplotlib.path"), import_module("matplotlib.patches")
    left, right, top, bottom = np.array(edges).T
    corners = np.stack(
        [left, top, right, top, right, bottom, left, bottom, left, top], axis=1
    ).reshape(-1, 5, 2)
    return patches.PathPatch(paths.Path.make_compound_path_from_polys(corners), **style)


def _edge(boxes: Sequence[_DrawnSpan], frame: _TimeScale) -> dict[str, object]:
    """Return how boxes are set apart: by white lines where they are wide enough."""
    widths = sorted(frame.wide(box.right - box.left) for box in boxes if box.right > box.left)
    # the narrowest tenth rules, not a single short one
    usual = widths[len(widths) // 10] if widths else 0.0
    if usual < 2.5:
        # boxes of less than a pixel must mix, not jump to the nearest one
        return {"linewidth": 0, "snap": usual > 1.0}
    return {"edgecolor": "white", "linewidth": 0.5 if usual > 5 else 0.25}


def _boxes(at: int, row: Row, unit_s: float, inset: float) -> Iterator[_DrawnSpan]:
    """Give each span its box; those that run together share the height of the row."""
    for group in row.groups():
        left, right = group[0].start_s / unit_s, group[0].end_s / unit_s
        # what takes no time can run beside nothing
        lanes = len(group) if left < right else 1
        height = (1 - 2 * inset) / lanes
        for lane, span in enumerate(group):
            top = at + inset + (lane % lanes) * height
            yield _DrawnSpan(span, left, right, top, top + height)


def _numbers(axes: _Axes, boxes: Sequence[_DrawnSpan], frame: _TimeScale, shades: int) -> None:
    """Write labels where all of a category fit, in one size for all."""
    fitting: dict[float, set[str]] = {}
    for size in _NUMBER_SIZES:
        narrow = {box.span.category for box in boxes if not _fits(box, size, frame)}
        fitting[size] = {box.span.category for box in boxes} - narrow
    most = max(len(categories) for categories in fitting.values())
    size = next(size for size, categories in fitting.items() if len(categories) == most)
    for box in boxes:
        if box.span.category in fitting[size] and box.span.label:
            fill = shaded(box.span.category, box.span.shade, shades)
            axes.text(
                (box.left + box.right) / 2,
                (box.top + box.bottom) / 2,
                box.span.label,
                fontsize=size,
                color=INK if is_bright(fill) else "white",
                ha="center",
                va="center_baseline",
                clip_on=True,
                zorder=4,
            )


def _fits(box: _DrawnSpan, size: float, frame: _TimeScale) -> bool:
    wide, high = frame.wide(box.right - box.left), (box.bottom - box.top) * frame.points[1]
    return wide >= len(box.span.label) * _LETTER * size + 0.7 and high >= 0.95 * size


def shaded(category: str, shade: int, shades: int) -> _Colour:
    """Return the colour of a category in one of so many shades, the first full."""
    text = COLOURS[category]
    red, green, blue = (int(text[at : at + 2], 16) / 255 for at in (1, 3, 5))
    light = _LIGHTEST * min(shade / max(shades - 1, 1), 1.0)
    return red + (1 - red) * light, green + (1 - green) * light, blue + (1 - blue) * light


def is_bright(colour: _Colour) -> bool:
    """Say whether dark letters are read better on a colour (relative luminance of WCAG 2)."""
    red, green, blue = (part**2.2 for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2


def _label(axes: _Axes, timeline: Timeline, number: int, page: Page) -> None:
    names = page.names[number]
    axes.set_ylim(len(names), 0)
    pad = 4.0 if not page.is_narrow else 15.0
    style = {"loc": "left", "color": INK}
    size = 9 * page.shrunk
    axes.set_title(timeline.title, fontsize=size, fontweight="bold", pad=pad, **style)
    place = {"x": 0, "ha": "left"} if page.is_narrow else {"x": 1, "ha": "right"}
    axes.annotate(
        note(timeline),
        (place["x"], 1),
        xycoords="axes fraction",
        xytext=(0, 4),
        textcoords="offset points",
        ha=place["ha"],
        fontsize=8 * page.shrunk,
        color=INK,
    )
    every = 1 if len(names) <= 20 else 4 if len(names) <= 40 else 8
    ticks = range(0, len(names), every)
    size = 7 if len(names) > 10 else 8
    axes.set_yticks([at + 0.5 for at in ticks], names[::every], fontsize=size)
    if all(name.isdecimal() for name in names):
        axes.set_ylabel("device", color=INK)
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=INK, length=2.5, pad=2)
    axes.tick_params(axis="y", length=0)


def _entries(timelines: Sequence[Timeline]) -> list[tuple[_Patch, str]]:
    """Return what the legend says: a patch, or one for each shade, and a name."""
    patches = import_module("matplotlib.patches")

    def patch(colour: _Colour | str) -> _Patch:
        return patches.Patch(facecolor=colour, edgecolor="none")

    rows = [row for timeline in timelines for row in timeline.rows]
    present = {span.category for row in rows for span in row.spans}
    entries: list[tuple[_Patch, str]] = [
        (patch(COLOURS[name]), CATEGORY_NAMES.get(name, name))
        for name in CATEGORIES
        if name in present
    ]
    entries.append((patch(_IDLE), "idle"))
    first = next(name for name in CATEGORIES if name in present)
    for shades in dict.fromkeys(timeline.shades for timeline in timelines if timeline.shades):
        swatches = tuple(patch(shaded(first, at, len(shades))) for at in range(len(shades)))
        names = ", ".join(shades) if len(shades) <= 2 else f"{shades[0]} to {shades[-1]}"
        entries.append((swatches, names))
    return entries


def _legend(figure: _Figure, entries: Sequence[tuple[_Patch, str]], page: Page) -> None:
    handlers = import_module("matplotlib.legend_handler")
    figure.legend(
        *zip(*entries, strict=True),
        loc="upper left",
        bbox_to_anchor=(page.left_in / page.width_in, 1.0 - 0.04 / page.height_in),
        ncols=page.columns,
        labelspacing=0.4,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        handlelength=1.3,
        handleheight=0.9,
        handletextpad=0.4,
        columnspacing=1.2,
        labelcolor=INK,
        handler_map={tuple: handlers.HandlerTuple(ndivide=None, pad=0.15)},
    )


def _save(figure: _Figure, path: str | Path) -> None:
    fmt = Path(path).suffix.casefold()[1:]
    nothing = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(path, format=fmt, metadata=nothing.get(fmt, {}))
