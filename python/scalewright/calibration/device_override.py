"""Which override file lays fitted constants over a device of the catalog?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Path = tuple[str, ...]

_MICRO = ("us", 1e6)
_NANO = ("ns", 1e9)
_PICO = ("ps", 1e12)
_TERA = ("TFLOP/s", 1e-12)
_UNITS = {
    "launch_overhead": _MICRO,
    "split_overhead": _MICRO,
    "overhead": _MICRO,
    "cast_overhead": _MICRO,
    "depth_time": _NANO,
    "thin_depth_time": _NANO,
    "launch": _MICRO,
    "window": _MICRO,
    "cast_window": _MICRO,
    "narrow": _MICRO,
    "tiled_launch": _MICRO,
    "vector_launch": _MICRO,
    "tiled_block": _MICRO,
    "vector_block": _MICRO,
    "split": _MICRO,
    "head": _NANO,
    "expert": _NANO,
    "element": _PICO,
    "tiled_key": _PICO,
    "tiled_row": _PICO,
    "vector_key": _PICO,
    "routing": _PICO,
    "choice": _PICO,
    "unit_bandwidth": ("GB/s", 1e-9),
}


def override_text(
    device: str,
    changes: Mapping[str, Mapping[Path, float]],
    sources: Mapping[str, str],
    basis: str | None = None,
) -> str:
    """Return the TOML text of an override that changes constants of a device.

    Args:
        device: Its catalog name.
        changes: New values by their paths, by the name of what was fitted.
        sources: Where the values come from, by the same name.
        basis: What the device's constants rested on before, where that holds on beside these; none
            where these are all that was measured.
    """
    values = {path: value for found in changes.values() for path, value in found.items()}
    lines = ['kind = "device"', f"base = {_text(device)}"]
    lines += [
        f"{path[0]} = {_value(path, value)}" for path, value in values.items() if len(path) == 1
    ]
    for table in dict.fromkeys(path[:-1] for path in sorted(values, key=_order) if len(path) > 1):
        lines += ["", f"[{'.'.join(table)}]"]
        lines += [
            f"{path[-1]} = {_value(path, v)}" for path, v in values.items() if path[:-1] == table
        ]
    lines += ["", "[calibration]", *(["measured = true"] if basis is None else [])]
    rests = "; ".join(filter(None, (basis, *sources.values())))
    lines += [f"basis = {_text(rests)}", "", "[sources]"]
    for name, found in changes.items():
        lines += [f"{_text(place)} = {_text(sources[name])}" for place in _places(found)]
    return "\n".join(lines) + "\n"


def _order(path: Path) -> tuple[int, Path]:
    return len(path), path


def _places(values: Mapping[Path, float]) -> Iterator[str]:
    """List the dotted paths whose source is told."""
    return (".".join(path) for path in values)


def _value(path: Path, value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    unit = _TERA if path[0] == "sustained" else _UNITS.get(path[-1])
    if unit is None:
        return repr(float(f"{value:.6g}"))
    return f'"{float(f"{value * unit[1]:.6g}")} {unit[0]}"'


def _text(text: str) -> str:
    """Return text in TOML's quotes, which read as those of JSON but for one letter."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
