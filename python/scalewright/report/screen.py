"""Where do tables go, and how do they look?"""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TextIO, cast

from rich.console import Console
from rich.table import Table

_PIPE_WIDTH = 160


class _Screen(Console):
    """A console that leaves a closed pipe to the command line, which exits quietly."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _Plain(io.TextIOBase):
    """A pipe whose lines end with their last letter; tables pad them to the full width."""

    def __init__(self, pipe: TextIO) -> None:
        """Write to `pipe`."""
        self._pipe = pipe

    def write(self, text: str) -> int:
        return self._pipe.write(re.sub(r" +$", "", text, flags=re.MULTILINE))

    def flush(self) -> None:
        self._pipe.flush()


def console() -> Console:
    """Return the screen: colours on a terminal, plain wide text in a pipe."""
    if sys.stdout.isatty():
        return _Screen(highlight=False, markup=False, emoji=False)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and len(columns) < 5 else _PIPE_WIDTH
    return _Screen(
        file=cast("TextIO", _Plain(sys.stdout)),
        width=max(width, 80),
        highlight=False,
        markup=False,
        emoji=False,
        color_system=None,
        force_terminal=False,
    )


def table(*columns: str, left: int = 1) -> Table:
    """Return an empty table whose first columns hold text and whose others hold numbers."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(columns):
        made.add_column(name, justify="left" if index < left else "right", no_wrap=index >= left)
    return made


def heading(screen: Console, text: str) -> None:
    """Print the title of a section."""
    screen.print()
    screen.print(text, style="bold")
