"""Which words do the commands of a shell script come to, its variables filled in?

Assignments are followed in the order of the lines; conditions and loops are not run, so of two
branches the later assignment counts. Nothing is executed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scalewright.export.shell_arithmetic import whole_number
from scalewright.export.shell_words import Piece, Word, commands

if TYPE_CHECKING:
    from collections.abc import Iterable

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_ARITHMETIC = re.compile(r"\$\(\((.*?)\)\)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$\{(?P<braced>\w+)(?:\[[@*]\])?(?::?[-=](?P<default>[^{}]*))?\}|\$(?P<bare>[A-Za-z_]\w*|\d)"
)
_NAME = re.compile(r"\b[A-Za-z_]\w*")
_DECLARATIONS = {"export", "declare", "local", "readonly", "typeset"}
_NESTED = re.compile(r"\$\{\w+:?[-=][^{}]*\$\{")
_MOST_NESTED = 4
_MOST_TEXT = 2**22


class Script:
    """Commands and variables of a script."""

    def __init__(self, text: str) -> None:
        """Read the script."""
        self.variables: dict[str, list[str]] = {}
        """Words of each variable at the end of the script."""
        self.commands: list[list[str]] = []
        """Words of each command, in order."""
        self._left = _MOST_TEXT
        for command in commands(text):
            words = list(self._after_assignments(command))
            if words:
                self.commands.append(words)

    @property
    def too_long(self) -> bool:
        """Say whether the variables came to so much text that not all was read."""
        return self._left < 0

    def number(self, name: str) -> int | None:
        """Return the whole number that a variable holds, if it does."""
        words = self.variables.get(name, [])
        digits = words[0] if len(words) == 1 else ""
        return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 12 else None

    def _after_assignments(self, command: list[Word]) -> Iterable[str]:
        """Keep the assignments at the head of a command and return its other words."""
        head = True
        for word in command:
            first = word.pieces[0].text
            if head and (found := _ASSIGNMENT.match(first)):
                self._assign(found, word)
            elif not (head and first in _DECLARATIONS):
                head = False
                yield from self._expanded(word)

    def _assign(self, found: re.Match[str], word: Word) -> None:
        if word.items is not None:
            value = [text for item in word.items for text in self._expanded(item)]
        else:
            rest = Piece(word.pieces[0].text[found.end() :], word.pieces[0].quote)
            joined = "".join(self._filled(piece) for piece in [rest, *word.pieces[1:]])
            value = joined.split()
        earlier = self.variables.get(found[1], []) if found[2] else []
        self._left -= sum(map(len, earlier))
        self.variables[found[1]] = [*earlier, *value] if self._left >= 0 else []

    def _expanded(self, word: Word) -> list[str]:
        """Return the words that one word becomes; a variable may hold several."""
        pieces = [piece for piece in word.pieces if piece.text or piece.quote]
        text = "".join(self._filled(piece) for piece in pieces)
        holds_variables = any("$" in piece.text for piece in pieces if piece.quote != "'")
        several = holds_variables or " --" in text or text.startswith("--")
        return text.split() if several else [text] if pieces else []

    def _filled(self, piece: Piece) -> str:
        if piece.quote == "'" or "$" not in piece.text:
            return piece.text
        text = _ARITHMETIC.sub(self._calculated, piece.text)
        # what a variable holds is filled already: a second pass is for defaults within defaults
        for _ in range(_MOST_NESTED):
            nested = _NESTED.search(text)
            text = self._substituted(text)
            if not nested:
                break
        return text

    def _substituted(self, text: str) -> str:
        """Return the text with its variables filled in, nothing once that grows too long."""
        parts: list[str] = []
        end = 0
        for found in _VARIABLE.finditer(text):
            value = self._value(found)
            self._left -= len(value)
            if self._left < 0:
                return ""
            parts += [text[end : found.start()], value]
            end = found.end()
        return "".join([*parts, text[end:]])

    def _value(self, found: re.Match[str]) -> str:
        """Return a variable's text; one that the script does not set stays as it is written."""
        words = self.variables.get(found["braced"] or found["bare"])
        if words is not None:
            return " ".join(words)
        default = found["default"]
        return found[0] if default is None else default.strip("\"'")

    def _calculated(self, found: re.Match[str]) -> str:
        """Return the result of arithmetic, or its text where that needs what is not set."""
        # within arithmetic a name needs no dollar
        filled = self._substituted(_NAME.sub(r"${\g<0>}", self._substituted(found[1])))
        number = whole_number(filled)
        return found[0] if number is None else str(number)
