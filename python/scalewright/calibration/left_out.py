"""Which lines of files are left out, and why, where there are too many to list?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LINE = re.compile(r"(.*), line ([0-9]+): (.*)", re.DOTALL)
_LINES_NAMED = 5
_SYSTEMS_NAMED = 8


def grouped(wrong: Sequence[str]) -> list[str]:
    """Return one text for all lines of a file that are wrong in the same way: the first of them.

    Args:
        wrong: Texts such as `timed.csv, line 5: k: got 'x'; allowed: ...`; what stands before
            `: got` tells the way.
    """
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for text in wrong:
        found = _LINE.fullmatch(text)
        place, line, reason = found.groups() if found else (text, "", "")
        key = place, re.split(r": got |[0-9]", reason, maxsplit=1)[0]
        groups.setdefault(key, []).append((line, text))
    return [_text(lines) for lines in groups.values()]


def none_left(only: str, systems: Iterable[str]) -> str:
    """Say that the rows which a user wants are none of those that files hold."""
    spelt = [name or "nothing" for name in dict.fromkeys(systems)]
    more = ["..."] if len(spelt) > _SYSTEMS_NAMED else []
    told = ", ".join([*spelt[:_SYSTEMS_NAMED], *more])
    return f"--only: got '{only:.60}', which leaves no row; allowed: part of a system here: {told}"


def _text(lines: Sequence[tuple[str, str]]) -> str:
    first, *others = lines
    if not others:
        return first[1]
    named = [line for line, _ in others[:_LINES_NAMED]]
    more = ["..."] if len(others) > _LINES_NAMED else []
    said = "is 1 more, line" if len(others) == 1 else f"are {len(others):,} more, lines"
    return f"{first[1]} (so {said} {', '.join([*named, *more])})"
