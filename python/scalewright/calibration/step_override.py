"""Which override files lay constants that steps told over a device, its systems, its software?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scalewright.calibration import device_override

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.calibration.step_constants import StepConstant

    Values = Mapping[StepConstant, float]

_MICRO = 1e6


def override_texts(values: Values, source: str, basis: str) -> dict[str, str]:
    """Return the TOML text of each override by a name: `device`, or the kind and its entry.

    Args:
        values: New values of the constants that were fitted.
        source: Where they come from, in a line.
        basis: What the constants of the device rest on already.
    """
    found: dict[str, str] = {}
    for entry in dict.fromkeys(constant.entry for constant in values):
        own = {c: value for c, value in values.items() if c.entry == entry}
        kind, name = entry
        if kind == "device":
            changes = {"steps": {c.path: value for c, value in own.items()}}
            found[kind] = device_override.override_text(name, changes, {"steps": source}, basis)
        elif kind == "system":
            found[f"{kind}.{name}"] = _system(name, own, source)
        else:
            found[f"{kind}.{name}"] = _software(name, own, source)
    return found


def _system(name: str, values: Values, source: str) -> str:
    lines = ['kind = "system"', f"base = {_text(name)}"]
    for constant, value in values.items():
        _, level, field = constant.path
        lines += ["", "[[levels]]", f"name = {_text(level)}", f"{field} = {value!r}"]
    lines += ["", "[sources]"]
    lines += [f"{_text('.'.join(constant.path))} = {_text(source)}" for constant in values]
    return "\n".join(lines) + "\n"


def _software(name: str, values: Values, source: str) -> str:
    """A profile that the catalog has is changed; another one begins."""
    constant, value = next(iter(values.items()))
    heads = [f"base = {_text(name)}"]
    if not constant.known:
        heads = [f"name = {_text(name)}", 'title = "Software of measured steps"']
    pace = float(f"{value * _MICRO:.6g}")
    lines = ['kind = "software"', *heads, "", "[software.host]", f'host_time = "{pace} us"']
    lines += ["", "[sources]", f"host_time = {_text(source)}"]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Return text in TOML's quotes, which read as those of JSON but for one letter."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
