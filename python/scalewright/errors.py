"""What can go wrong: the exceptions that Scalewright raises on purpose."""

from __future__ import annotations


class ScalewrightError(Exception):
    """An input that cannot be used, said so that the reader can mend it."""

    def __str__(self) -> str:
        """Return the message; halves of surrogate pairs, which no screen takes, as escapes."""
        return super().__str__().encode("utf-8", "backslashreplace").decode("utf-8")


class InvalidError(ScalewrightError, ValueError):
    """A field holds a value that is not allowed."""


class UnknownNameError(ScalewrightError, KeyError):
    """A name that is not in the catalog or not a member of a closed set."""

    def __str__(self) -> str:
        """Return the message itself; a plain KeyError would show its repr."""
        text = str(self.args[0]) if self.args else ""
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


class NoPlanError(ScalewrightError, IndexError):
    """A plan of an answer that has none."""


class CancelledError(ScalewrightError):
    """Long work was stopped by its caller."""
