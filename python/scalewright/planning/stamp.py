"""How does an answer leave as plain values, and what does it rest on: which engine and catalog?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from scalewright import _engine
from scalewright.catalog import catalog_hash
from scalewright.config.kinds import plain

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_VERSION = 2
"""Version of every JSON answer; it grows when a key changes its meaning or goes away."""


def stamp(overrides: Sequence[str | Path] = ()) -> dict[str, object]:
    """Return the versions of schema, engine and catalog (with its overrides)."""
    return {
        "schema_version": SCHEMA_VERSION,
        "engine_version": _engine.version(),
        "catalog_hash": catalog_hash(overrides),
    }


class Basis(Protocol):
    """What was asked about, as a system or a job."""

    def stamp(self) -> dict[str, object]:
        """Return what its answers rest on."""
        ...


@dataclass(frozen=True)
class Answer:
    """An answer whose fields, and what they rest on, leave together.

    It rests on the system or the job that was asked about, or on nothing where it follows from the
    arguments alone. `left_out` names fields that no JSON holds.
    """

    _rests_on: Basis | None = field(default=None, kw_only=True, repr=False, compare=False)

    left_out = ()

    def stamp(self) -> dict[str, object]:
        """Return the versions of schema, engine and catalog, and what was asked about."""
        return stamp() if self._rests_on is None else self._rests_on.stamp()

    def plain(self) -> dict[str, Any]:
        """Return the fields alone, ready for JSON."""
        kept = (of.name for of in fields(self) if of.name not in ("_rests_on", *self.left_out))
        return {name: plain_values(getattr(self, name)) for name in kept}

    def to_dict(self) -> dict[str, Any]:
        """Return the stamped answer, ready for JSON."""
        return {**self.stamp(), **self.plain()}


def plain_values(value: object) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return tables, lists, texts and numbers; None for a number without end."""
    if isinstance(value, Answer):
        return value.plain()
    if is_dataclass(value) and not isinstance(value, type):
        return {of.name: plain_values(getattr(value, of.name)) for of in fields(value)}
    for method in ("_asdict", "tolist"):
        if hasattr(value, method):
            return plain_values(getattr(value, method)())
    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        return {str(key): plain_values(inner) for key, inner in table.items()}
    if isinstance(value, range):
        return [value.start, value.stop]
    if isinstance(value, (list, tuple)):
        return [plain_values(inner) for inner in cast("Sequence[object]", value)]
    number = plain(value)
    return None if isinstance(number, float) and not math.isfinite(number) else number
