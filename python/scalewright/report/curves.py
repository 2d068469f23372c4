"""How does bus bandwidth grow with size, drawn to a file?"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError
from scalewright.report import quantities as q
from scalewright.report.collective import line_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.planning import Collective

# matplotlib is an extra, so its types are not at hand
_Axes = Any
_Figure = Any

_GIGA = 1e9
_FORMATS = (".png", ".svg", ".html")
_INK, _FAINT, _GRID = "#1f2933", "#7b8794", "#e4e7eb"
_WINNER = "#0b6e99"
# distinct without colour vision: Okabe and Ito's palette
_OTHERS = ("#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c6d31", "#999999")
_MOST_ABOVE = 1.75
_FONT = {"font.family": "sans-serif", "font.size": 10, "svg.fonttype": "none"}


@dataclass(frozen=True)
class Drawing:
    """What is drawn."""

    title: str
    subtitle: str
    winner: Collective
    """Many sizes, of whatever wins."""
    others: Mapping[str, Collective]
    """The same sizes by one algorithm alone, by its name."""


def check_plot(path: str) -> None:
    """Refuse a file that cannot be drawn to, before anything is computed.

    Raises:
        InvalidError: The file's ending is unknown, or matplotlib is not installed.
    """
    if Path(path).suffix.casefold() not in _FORMATS:
        message = f"picture: got {path!r:.60}; allowed: a file that ends with {', '.join(_FORMATS)}"
        raise InvalidError(message)
    try:
        import_module("matplotlib")
    except ImportError as error:
        message = (
            f"picture: got {path!r:.60}, but matplotlib is not installed; "
            "allowed: with the extra `plot`, as pip install 'scalewright[plot]'"
        )
        raise InvalidError(message) from error


def draw(drawing: Drawing, path: str) -> None:
    """Draw busbw against size: winner, competitors, lower bound, and where the winner changes."""
    matplotlib = import_module("matplotlib")
    figures = import_module("matplotlib.figure")
    with matplotlib.rc_context(_FONT):
        figure = figures.Figure(figsize=(9.2, 5.4), dpi=160, layout="constrained")
        axes = figure.add_subplot()
        _curves(axes, drawing)
        _crossovers(axes, drawing.winner)
        _frame(axes, drawing)
        _save(figure, path, drawing.title)


def _curves(axes: _Axes, drawing: Drawing) -> None:
    winner = drawing.winner
    sizes, busbw = winner.buffer_bytes, winner.bus_bandwidth_bytes_per_s / _GIGA
    # a pale band under the thin lines: each stays visible where it wins
    band = {"linewidth": 7, "alpha": 0.28, "solid_capstyle": "butt", "zorder": 1.5}
    axes.plot(sizes, busbw, color=_WINNER, label="fastest at each size", **band)
    for at, (name, other) in enumerate(drawing.others.items()):
        axes.plot(
            sizes,
            other.bus_bandwidth_bytes_per_s / _GIGA,
            color=_OTHERS[at % len(_OTHERS)],
            linewidth=1.5,
            label=name.replace("_", " "),
        )
    # the bound's bandwidth: the same bytes in the least time that there can be
    bound = busbw * (1 + winner.relative_gap)
    dashes = {"linestyle": (0, (5, 3)), "linewidth": 1.3}
    axes.plot(sizes, bound, color=_INK, label="what no algorithm can beat", **dashes)
    highest = float(busbw.max())
    axes.set_ylim(0, 1.27 * max(highest, min(float(bound.max()), _MOST_ABOVE * highest)))


def _crossovers(axes: _Axes, winner: Collective) -> None:
    sizes = winner.buffer_bytes
    inside = [c for c in winner.crossovers() if float(sizes[0]) < c.bytes < float(sizes[-1])]
    names = [line_name(inside[0].before), *(line_name(c.after) for c in inside)] if inside else []
    edges = [float(sizes[0]), *(c.bytes for c in inside), float(sizes[-1])]
    for crossover in inside:
        axes.axvline(crossover.bytes, color=_FAINT, linewidth=0.8, linestyle=":", zorder=1)
        axes.annotate(
            q.size(crossover.bytes),
            (crossover.bytes, 0.64),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-3, 0),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="center",
            fontsize=7.5,
            color=_FAINT,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
        )
    for name, left, right in zip(names, edges, edges[1:], strict=False):
        # each stretch bears the name of its winner, upright where it is narrow
        narrow = right / left < (float(sizes[-1]) / float(sizes[0])) ** 0.16
        axes.text(
            (left * right) ** 0.5,
            0.985,
            name,
            transform=axes.get_xaxis_transform(),
            rotation=90 if narrow else 0,
            ha="center",
            va="top",
            fontsize=8.5,
            color=_INK,
        )


def _frame(axes: _Axes, drawing: Drawing) -> None:
    tickers = import_module("matplotlib.ticker")
    sizes = drawing.winner.buffer_bytes
    axes.set_xscale("log", base=2)
    axes.set_xlim(float(sizes[0]), float(sizes[-1]))
    axes.xaxis.set_major_locator(tickers.LogLocator(base=2, numticks=11))
    axes.xaxis.set_major_formatter(tickers.FuncFormatter(_size))
    axes.xaxis.set_minor_locator(tickers.NullLocator())
    axes.set_xlabel("size of the buffer", color=_INK)
    axes.set_ylabel("bus bandwidth, GB/s", color=_INK)
    axes.grid(visible=True, color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors=_INK, length=3)
    axes.set_title(drawing.title, loc="left", fontsize=13, color=_INK, pad=26, fontweight="bold")
    axes.text(0, 1.025, drawing.subtitle, transform=axes.transAxes, fontsize=9.5, color=_FAINT)
    # at the small sizes, where all curves are low
    place = {"loc": "center left", "bbox_to_anchor": (0.01, 0.5)}
    axes.legend(fontsize=9, labelcolor=_INK, edgecolor="none", framealpha=0.85, **place)


def _size(amount_bytes: float, _: object = None) -> str:
    """Return a power of two without decimals."""
    number, _, unit = q.size(amount_bytes).partition(" ")
    return f"{number.removesuffix('.00')} {unit}"


def _save(figure: _Figure, path: str, title: str) -> None:
    ending = Path(path).suffix.casefold()
    if ending != ".html":
        figure.savefig(path, format=ending[1:])
        return
    drawn = StringIO()
    figure.savefig(drawn, format="svg")
    image = drawn.getvalue()
    page = (
        "<!DOCTYPE html>\n<html lang='en'>\n<head><meta charset='utf-8'>"
        f"<title>{escape(title)}</title>\n"
        "<style>body{margin:2rem;background:#fff}svg{max-width:100%;height:auto}</style></head>\n"
        f"<body>\n{image[image.index('<svg') :]}</body>\n</html>\n"
    )
    Path(path).write_text(page, encoding="utf-8")
