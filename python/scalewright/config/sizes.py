"""Which buffer sizes does a text such as `1K:16G:2` or `1M,64M` mean?"""

from __future__ import annotations

import re

from scalewright.errors import InvalidError

_SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([A-Za-z]*)\s*", re.ASCII)
# a bare letter is a power of 1,024, as in nccl-tests; MB and the like are powers of 1,000
_UNITS = {
    "": 1,
    "b": 1,
    **{
        spelling: 1024**power
        for power, letter in enumerate("kmgt", 1)
        for spelling in (letter, f"{letter}ib")
    },
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}
_MOST_SIZES = 4096
_MOST_BYTES = 2**60
_ALLOWED = "sizes as 1K,1M,16G, or FIRST:LAST:FACTOR as 1K:16G:2"


def buffer_sizes(text: str) -> list[int]:
    """Return the sizes in bytes, smallest first.

    Args:
        text: Sizes with commas between them, or `first:last:factor` (the factor is 2 where it is
            left out). K, M, G and T are powers of 1,024, as in nccl-tests.

    Raises:
        InvalidError: The text is neither, or names no size or too many.
    """
    if ":" not in text:
        return sorted({_bytes(part, text) for part in text.split(",")})
    parts = text.split(":")
    if len(parts) > 3:
        raise _refused(text)
    first, last = _bytes(parts[0], text), _bytes(parts[1], text)
    try:
        factor = float(parts[2]) if len(parts) == 3 else 2.0
    except ValueError:
        raise _refused(text) from None
    if not (first <= last and 1.001 <= factor <= 1e18):
        raise _refused(text)
    found: dict[int, None] = {}
    size = float(first)
    while size <= last * (1 + 1e-12):
        found[round(size)] = None
        size *= factor
        if len(found) > _MOST_SIZES:
            raise _refused(text, f"; at most {_MOST_SIZES} of them")
    return list(found)


def _bytes(part: str, text: str) -> int:
    found = _SIZE.fullmatch(part)
    unit = None if found is None else _UNITS.get(found[2].casefold())
    if found is None or unit is None:
        raise _refused(text)
    value = round(float(found[1]) * unit)
    if not 1 <= value <= _MOST_BYTES:
        raise _refused(text, "; from 1 byte to 2^60")
    return value


def _refused(text: str, more: str = "") -> InvalidError:
    return InvalidError(f"sizes: got {text!r:.60}; allowed: {_ALLOWED}{more}")
