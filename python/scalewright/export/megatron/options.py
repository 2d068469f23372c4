"""What does one Megatron-LM argument of a file say, and is that allowed?"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, TypeVar

from scalewright.errors import InvalidError
from scalewright.export.megatron.known import COUNTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.export.megatron.parsed_arguments import ParsedArguments

_MOST = 2**40
_MOST_DIGITS = 13
_SHOWN = 60
_Meaning = TypeVar("_Meaning")


class Options:
    """Arguments of one file with their types; whole numbers are checked at once."""

    def __init__(self, given: ParsedArguments) -> None:
        """Take what the file gives.

        Raises:
            InvalidError: A count is no count.
        """
        self._given = given
        self.where = given.where
        self.devices = given.devices
        self.unused: list[str] = []
        """Arguments that say what a plan cannot hold."""
        for name in COUNTS.intersection(given.values):
            self.count(name)

    def wrong(self, name: str, allowed: str) -> InvalidError:
        """Return the error that says what an argument holds and what it may hold."""
        words = self._given.values.get(name)
        got = "nothing" if not words else f"'{' '.join(words)[:_SHOWN]}'"
        return InvalidError(f"{self._given.where}: --{name}: got {got}; allowed: {allowed}")

    def drop(self, *names: str) -> None:
        """Note that these arguments, where given, say what a plan cannot hold."""
        self.unused += [f"--{name}" for name in names if name in self._given.values]

    def has(self, *names: str) -> bool:
        """Say whether any of the arguments is given."""
        return any(name in self._given.values for name in names)

    def text(self, name: str, default: str = "") -> str:
        """Return the words of an argument."""
        words = self._given.values.get(name)
        return default if words is None else " ".join(words)

    def count(self, name: str, default: int | None = None) -> int:
        """Return a whole number above 0.

        Raises:
            InvalidError: It holds something else, or is missing without a default.
        """
        if name not in self._given.values and default is not None:
            return default
        digits = self.text(name).split(" ")[0].replace("_", "")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS):
            raise self.wrong(name, "a whole number")
        if not 0 < int(digits) <= _MOST:
            raise self.wrong(name, f"1 to {_MOST}")
        return int(digits)

    def number(self, name: str, default: float) -> float:
        """Return a number from 0.

        Raises:
            InvalidError: It holds something else.
        """
        try:
            value = float(self.text(name, str(default)))
        except ValueError:
            value = -1.0
        if not (isfinite(value) and value >= 0):
            raise self.wrong(name, "a number, 0 or more")
        return value

    def choice(self, name: str, meanings: Mapping[str, _Meaning], default: str) -> _Meaning:
        """Return what an argument's word means.

        Raises:
            InvalidError: The word is unknown.
        """
        word = self.text(name, default)
        if word not in meanings:
            raise self.wrong(name, ", ".join(meanings))
        return meanings[word]
