"""Which constants of a fabric level can a benchmark of collectives tell?

Two of a level's constants stay as they are, since others stand for them: `latency` times
`low_latency_128.step` is what a step takes, and `efficiency` times `simple.share` what bandwidth
reaches. `busy_share` speaks of jobs whose groups all run at once, which a benchmark does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Path = tuple[str, ...]
Level = dict[str, Any]


@dataclass(frozen=True)
class Constant:
    """A constant of a level and the values that it may take."""

    path: Path
    """Keys from the level's table down."""
    least: float
    """Lower bound; a constant of the catalog that is lower, as 0, starts here."""
    most: float
    """Upper bound."""
    seconds: bool = False
    """True for a time."""

    @property
    def name(self) -> str:
        """The dotted path within the level."""
        return ".".join(self.path)

    def of(self, level: Mapping[str, Any]) -> float:
        """Return the value that a level has."""
        value: Any = level
        for key in self.path:
            value = value[key]
        return float(value)


def constants(level: Mapping[str, Any], *, innermost: bool) -> list[Constant]:
    """List what may be fitted of a level, read in full by the engine.

    Args:
        level: The level.
        innermost: True where no level lies inside it: only there is a rank's own part copied.
    """
    found = [
        _share("efficiency"),
        Constant(("latency",), 1e-9, 1.0, seconds=True),
        *_line("low_latency"),
        *_line("low_latency_128")[::2],
        _line("simple")[0],
        _line("simple")[1],
    ]
    if level.get("in_network_reduction"):
        found += _line("in_network")
    if innermost:
        found.append(Constant(("library", "own_part"), 1e-3, 1e3))
    found += [_share("library", "pairwise_share"), Constant(("library", "issue"), 1e-3, 1e3)]
    return found


def _line(protocol: str) -> tuple[Constant, Constant, Constant]:
    path = ("library", protocol)
    return (
        Constant((*path, "base"), 1e-8, 1.0, seconds=True),
        Constant((*path, "step"), 1e-3, 1e4),
        _share(*path, "share"),
    )


def _share(*path: str) -> Constant:
    return Constant(path, 1e-4, 1.0)


def changed(level: Level, which: Sequence[Constant], values: Sequence[float]) -> Level:
    """Return the level with other values of some constants."""
    result = dict(level)
    for constant, value in zip(which, values, strict=True):
        table = result
        for key in constant.path[:-1]:
            table[key] = dict(table[key])
            table = table[key]
        table[constant.path[-1]] = float(value)
    return result
