"""Which override file lays fitted constants over a system of the catalog?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scalewright.calibration.constants import Constant

_MICRO = 1e6


def override_text(
    system: Mapping[str, Any],
    level: Mapping[str, Any],
    changes: Sequence[tuple[Constant, float]],
    source: str,
) -> str:
    """Return the TOML text of an override that changes constants of one level.

    Args:
        system: The table of the system that is changed.
        level: The level in full, before the change.
        changes: The constants and their new values.
        source: Where the new values come from, in a line.
    """
    name = str(level["name"])
    given = next(found for found in system["levels"] if found["name"] == name)
    own = {constant.path: value for constant, value in changes if len(constant.path) == 1}
    inner = {constant.path[1:]: value for constant, value in changes if len(constant.path) > 1}
    lines = [
        'kind = "system"',
        f"base = {_text(str(system['name']))}",
        "",
        "[[levels]]",
        f"name = {_text(name)}",
        *(f"{path[-1]} = {_value(path, value)}" for path, value in own.items()),
    ]
    if inner:
        if "library" not in given:
            # what goes by the level's kind in the catalog must be written in full here
            inner = {**dict(_leaves(level["library"])), **inner}
        lines += ["", "[levels.library]", *_library(inner)]
    lines += ["", "[sources]"]
    lines += [
        f"{_text(f'levels.{name}.{constant.name}')} = {_text(source)}" for constant, _ in changes
    ]
    return "\n".join(lines) + "\n"


def _library(values: Mapping[tuple[str, ...], float | bool]) -> Iterator[str]:
    """Write the lines of the protocols as tables in a line each, then the single figures."""
    for protocol in dict.fromkeys(path[0] for path in values if len(path) == 2):
        fields = ", ".join(
            f"{path[1]} = {_value(path, value)}"
            for path, value in values.items()
            if len(path) == 2 and path[0] == protocol
        )
        yield f"{protocol} = {{ {fields} }}"
    for path, value in values.items():
        if len(path) == 1:
            yield f"{path[0]} = {_value(path, value)}"


def _leaves(table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], float | bool]]:
    for key, value in table.items():
        if isinstance(value, dict):
            for path, inner in _leaves(value):  # pyright: ignore[reportUnknownArgumentType]
                yield (key, *path), inner
        elif value is not None:
            yield (key,), value


def _value(path: tuple[str, ...], value: float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if path[-1] in ("latency", "base"):
        return f'"{float(f"{value * _MICRO:.6g}")} us"'
    return str(float(f"{value:.6g}"))


def _text(text: str) -> str:
    """Return text in TOML's quotes, which read as those of JSON but for one letter."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
