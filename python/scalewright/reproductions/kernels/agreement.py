"""Do figures that one line prints of the same thing agree, as a time and a rate?

A printed figure stands for all that rounds to it: 0.0 GB/s may be anything below 0.05. Two figures
agree where these ranges come within a tenth of one another.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from scalewright.errors import InvalidError
from scalewright.reproductions.metrics import ungrouped

APART = 0.1
"""By how much of themselves figures of one line may differ beyond their rounding."""
_NUMBER = re.compile(r"(?P<whole>[0-9]*)\.?(?P<part>[0-9]*)(?:e(?P<power>[+-]?[0-9]{1,2}))?")


@dataclass(frozen=True)
class Printed:
    """What a printed figure may have been before it was rounded."""

    value: float
    least: float
    most: float

    def scaled(self, factor: float) -> Printed:
        """Return the figure times a number above zero."""
        return Printed(self.value * factor, self.least * factor, self.most * factor)

    def under(self, amount: float) -> Printed:
        """Return an amount above zero over the figure, as bytes over their time."""
        value, least, most = (
            amount / figure if figure > 0.0 else math.inf
            for figure in (self.value, self.most, self.least)
        )
        return Printed(value, least, most)

    def agrees(self, other: Printed) -> bool:
        """Say whether both may be one figure, but for a tenth."""
        return self.least <= other.most * (1.0 + APART) and other.least <= self.most * (1.0 + APART)


def printed(text: str) -> Printed | None:
    """Return a figure from 0 up as its digits give it; none where the text is no such figure."""
    found = _NUMBER.fullmatch(ungrouped(text.strip()).casefold())
    if found is None or not (found["whole"] or found["part"]):
        return None
    value = float(found[0])
    half = 0.5 * 10.0 ** (int(found["power"] or 0) - len(found["part"]))
    return Printed(value, max(value - half, 0.0), value + half)


def refuse_unlike(field: str, told: tuple[str, Printed], wanted: Printed, beside: str) -> None:
    """Refuse a figure that another one of its line contradicts.

    Args:
        field: The column of the figure.
        told: Its unit, and the figure.
        wanted: What the other figure makes of it, in the same unit.
        beside: The other figure, in words.

    Raises:
        InvalidError: They do not agree.
    """
    unit, figure = told
    if figure.agrees(wanted):
        return
    message = (
        f"{field}: got {figure.value:.6g} {unit} beside {beside}; allowed: about "
        f"{wanted.value:.4g} {unit}, as figures of one line agree within {APART:.0%}"
    )
    raise InvalidError(message)
