"""How does a refusal name a field as its caller wrote it?"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scalewright.errors import ScalewrightError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping


@contextmanager
def named_as(names: Mapping[str, str]) -> Generator[None]:
    """Rename fields in the refusals of calls of the engine, which arranges arguments otherwise.

    Args:
        names: What the caller wrote by a pattern of the engine's path; all that match are applied,
            in order, at the start of a path.
    """
    try:
        yield
    except ScalewrightError as error:
        told = renamed(str(error), names)
        if told == str(error):
            raise
        raise type(error)(told) from error


def renamed(message: str, names: Mapping[str, str]) -> str:
    """Return a refusal with the paths before its first colon renamed."""
    paths, colon, rest = message.partition(": ")
    if not colon:
        return message
    found = paths.split(", ")
    for pattern, name in names.items():
        found = [re.sub(rf"^(?:{pattern})", name, path) for path in found]
    return f"{', '.join(dict.fromkeys(found))}: {rest}"
