"""What runs when on which engine of which device, as pictures and traces read it?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CATEGORIES = (
    "forward",
    "backward",
    "input",
    "weight",
    "local",
    "compute",
    "collective",
    "send",
    "offload",
    "other",
)
"""Kinds of spans; pictures and traces have a colour for each."""

# times that differ by less are the same but for rounding
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Span:
    """Something that occupies an engine for a time.

    Attributes:
        name: What a person reads on pointing at it, as `forward of micro-batch 0 on stage 3`.
        category: One of `CATEGORIES`.
        start_s: Second at which it begins.
        end_s: Second at which it ends.
        label: What stands inside its box where there is room, as `0`.
        shade: 0 for the full colour of its category, 1 and more for lighter ones: chunk or
            direction.
        args: More to tell about it: names to numbers or texts.
    """

    name: str
    category: str
    start_s: float
    end_s: float
    label: str = ""
    shade: int = 0
    args: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class Row:
    """An engine of a device with its spans, earliest first.

    Spans do not overlap, unless they run together: then they start and end alike.

    Attributes:
        device: Rows of one device stand together.
        engine: What runs the spans.
        spans: What runs, by rising start.
    """

    device: str
    engine: str
    spans: tuple[Span, ...]

    def groups(self) -> Iterator[tuple[Span, ...]]:
        """Return spans that run together, each other one alone."""
        first = 0
        for at in range(1, len(self.spans) + 1):
            if at == len(self.spans) or not _alike(self.spans[at], self.spans[first]):
                yield self.spans[first:at]
                first = at


@dataclass(frozen=True, slots=True)
class Flow:
    """What goes from one span to another: places are those of a row and of a span in it.

    Attributes:
        name: What the arrow stands for.
        source: The span from which it leads.
        target: The span to which it leads.
    """

    name: str
    source: tuple[int, int]
    target: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Engines of devices and what runs on them, in seconds from a common start.

    Attributes:
        title: Heading.
        rows: One for each engine.
        flows: Arrows between spans.
        shades: What the shades of colour mean, the full one first, as `chunk 0`; none where all are
            full.
        note: What else stands beside the title, as `bubble 37.5% of ideal`.
    """

    title: str
    rows: tuple[Row, ...]
    flows: tuple[Flow, ...] = ()
    shades: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse times that are none, spans that overlap, and categories that no picture knows."""
        for row in self.rows:
            for at, span in enumerate(row.spans):
                wrong = _wrong(span, row.spans[at - 1] if at else None)
                if wrong:
                    message = f"timeline: {row.device}, {row.engine}, {span.name}: {wrong}"
                    raise InvalidError(message)

    @property
    def end_s(self) -> float:
        """Return the end of the last span."""
        return max((span.end_s for row in self.rows for span in row.spans), default=0.0)

    @property
    def spans(self) -> int:
        """Return how many spans there are."""
        return sum(len(row.spans) for row in self.rows)


def joined(title: str, parts: Mapping[str, Timeline]) -> Timeline:
    """Return timelines as one, with their names before those of their devices."""
    rows: list[Row] = []
    flows: list[Flow] = []
    for name, part in parts.items():
        first = len(rows)
        rows += [Row(f"{name}: {row.device}", row.engine, row.spans) for row in part.rows]
        for flow in part.flows:
            (source, at), (target, then) = flow.source, flow.target
            flows.append(Flow(flow.name, (first + source, at), (first + target, then)))
    return Timeline(title, tuple(rows), tuple(flows))


def _alike(one: Span, other: Span) -> bool:
    return (one.start_s, one.end_s) == (other.start_s, other.end_s)


def _wrong(span: Span, before: Span | None) -> str:
    """Say what is wrong with a span that stands behind another one; nothing where all is well."""
    start, end = span.start_s, span.end_s
    if not 0.0 <= start <= end < math.inf:
        return f"got {start} to {end} s; allowed: a start of 0 or more, an end not before it"
    if span.category not in CATEGORIES:
        return f"category: got {span.category!r:.60}; allowed: {', '.join(CATEGORIES)}"
    if before is None or _alike(before, span):
        return ""
    if start < before.end_s - _SAME * before.end_s:
        ended = f"it starts at {start} s, before {before.name} ends at {before.end_s} s"
        return f"{ended}; allowed: one after the other, or the same times for both"
    return ""
