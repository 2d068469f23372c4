"""Which commands, word by word, does a text in the shell's language hold?

Only its grammar of words: quotes, comments, continued lines, arrays in brackets. What the words
mean is for `shell` to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_SEPARATORS = "\n;|&"
_CLOSING = {"{": "}", "(": ")"}


@dataclass(frozen=True)
class Piece:
    """A part of a word that is quoted in one way."""

    text: str
    quote: str = ""
    """`'`, `"` or nothing."""


@dataclass
class Word:
    """What stands between blanks."""

    pieces: list[Piece] = field(default_factory=list[Piece])
    items: list[Word] | None = None
    """Words in the brackets of an array, where the word ends in one: `NAME=( ... )`."""


def commands(text: str) -> list[list[Word]]:
    """Return the commands of a script, without comments and here-documents."""
    return _Scanner(_without_heredocs(text.replace("\r\n", "\n"))).commands()


def _without_heredocs(text: str) -> str:
    kept: list[str] = []
    end: str | None = None
    for line in text.split("\n"):
        if end is not None:
            end = None if line.strip() == end else end
            continue
        kept.append(line)
        found = None if line.lstrip().startswith("#") else _HEREDOC.search(line)
        end = found[2] if found else None
    return "\n".join(kept)


class _Scanner:
    """A place in a text that moves on as words are read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def commands(self) -> list[list[Word]]:
        found: list[list[Word]] = [[]]
        while self._at < len(self._text):
            if self._blank():
                continue
            if self._text[self._at] in _SEPARATORS + "()":
                self._at += 1
                found.append([])
            else:
                found[-1].append(self._word())
        return [command for command in found if command]

    def _blank(self) -> bool:
        """Step over blanks, a continued line or a comment."""
        here = self._text[self._at]
        if here in " \t":
            self._at += 1
        elif self._text.startswith("\\\n", self._at):
            self._at += 2
        elif here == "#":
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
        else:
            return False
        return True

    def _word(self) -> Word:
        word = Word()
        plain: list[str] = []
        while self._at < len(self._text):
            here = self._text[self._at]
            if here in " \t)" + _SEPARATORS or self._text.startswith("\\\n", self._at):
                break
            if here == "(":
                if "".join(plain).endswith("=") and word.items is None:
                    word.items = self._items()
                break
            if here in "'\"":
                word.pieces += [Piece("".join(plain)), Piece(self._quoted(here), here)]
                plain.clear()
            else:
                plain.append(self._plain(here))
        word.pieces = [*word.pieces, Piece("".join(plain))]
        return word

    def _plain(self, here: str) -> str:
        """Return the next character, or the whole of a `${...}`, `$(...)` or backquoted part."""
        start = self._at
        if here == "\\":
            self._at += 2
            return self._text[start + 1 : self._at]
        following = self._text[start + 1 : start + 2]
        if here == "$" and following in _CLOSING:
            self._at = self._closed(start + 1, following, _CLOSING[following])
        elif here == "`":
            end = self._text.find("`", start + 1)
            self._at = len(self._text) if end < 0 else end + 1
        else:
            self._at += 1
        return self._text[start : self._at]

    def _closed(self, start: int, opening: str, closing: str) -> int:
        """Return the place after the bracket that closes the one at `start`."""
        depth = 0
        for place in range(start, len(self._text)):
            depth += (self._text[place] == opening) - (self._text[place] == closing)
            if depth == 0:
                return place + 1
        return len(self._text)

    def _quoted(self, quote: str) -> str:
        start = self._at + 1
        place = start
        while place < len(self._text) and self._text[place] != quote:
            place += 2 if quote == '"' and self._text[place] == "\\" else 1
        self._at = place + 1
        inner = self._text[start:place]
        return inner.replace("\\\n", " ") if quote == '"' else inner

    def _items(self) -> list[Word]:
        """Return the words in the brackets of an array."""
        self._at += 1
        items: list[Word] = []
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._text[self._at] in _SEPARATORS + "(":
                self._at += 1
            elif not self._blank():
                items.append(self._word())
        self._at += 1
        return items
