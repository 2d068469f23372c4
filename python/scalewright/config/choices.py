"""Which field and which value does a `field=value` text mean?"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from scalewright.config.kinds import need
from scalewright.errors import InvalidError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterable

_FLAGS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
_MOST_DIGITS = 20


def field_name(text: str, known: Iterable[str]) -> str:
    """Return the name of a field, dashes and underscores alike.

    Raises:
        UnknownNameError: No field has this name; says which come nearest.
    """
    names = list(known)
    need("plan field", text, str, "the name of a plan field")
    wanted = text.strip().lower().replace("-", "_")
    if wanted in names:
        return wanted
    close = difflib.get_close_matches(wanted, names, n=2, cutoff=0.5)
    listed = f"nearest: {', '.join(close)}" if close else f"known: {', '.join(names)}"
    message = f"plan field: unknown name '{text}'; {listed}"
    raise UnknownNameError(message)


def one_value(field: str, kind: str, text: str) -> int | bool | str:
    """Return the value that `text` writes for a field of type `kind`.

    Raises:
        InvalidError: The text is no value of that type.
    """
    if kind == "str" or (kind == "Slices" and not text.isdecimal()):
        return text
    if kind == "bool":
        if text.lower() not in _FLAGS:
            message = f"{field}: got '{text}'; allowed: true, false"
            raise InvalidError(message)
        return _FLAGS[text.lower()]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
        message = f"{field}: got '{text:.60}'; allowed: a whole number"
        raise InvalidError(message)
    return int(text)
