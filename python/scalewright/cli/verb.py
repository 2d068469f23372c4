"""What does a verb of the command line add itself to?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import argparse


class Verbs(Protocol):
    """Where a verb adds its parser."""

    def add_parser(
        self, name: str, *, help: str, usage: str | None = None
    ) -> argparse.ArgumentParser:
        """Return a new parser under a name."""
        ...
