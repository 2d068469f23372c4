"""Which value does a field of a JSON object hold, and is it allowed?"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST = 2**24
"""No width, count or vocabulary of a real model comes near this."""

_LONGEST_REPR = 60
_Meaning = TypeVar("_Meaning")


class Fields:
    """The fields of one JSON object, read with their types and limits."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        """Wrap the object `values`, which error messages call `where`."""
        self._values = values
        self._where = where

    def wrong(self, field: str, allowed: str) -> InvalidError:
        """Return the error that says what the field holds and what it may hold."""
        got = _shown(self._values[field]) if field in self._values else "nothing"
        return InvalidError(f"{self._where}: {field}: got {got}; allowed: {allowed}")

    def has(self, field: str) -> bool:
        """Say whether the field holds anything but null."""
        return self._values.get(field) is not None

    def count(
        self, *names: str, default: int | None = None, least: int = 1, most: int = MOST
    ) -> int:
        """Return a whole number that is known under any of the names.

        Raises:
            InvalidError: It is missing without a default, no whole number, out of limits, or two
                spellings contradict each other.
        """
        held = [name for name in names if self.has(name)]
        allowed = f"a whole number from {least} to {most}"
        if not held:
            if default is None:
                raise self.wrong(names[0], allowed)
            return default
        found = [self._whole(name, allowed, least, most) for name in held]
        if len(set(found)) > 1:
            raise self.wrong(held[1], f"{found[0]}, as {held[0]} says")
        return found[0]

    def optional_count(self, *names: str, least: int = 1) -> int | None:
        """Return a whole number, or none where the field is absent or null."""
        if any(self.has(name) for name in names):
            return self.count(*names, least=least)
        return None

    def _whole(self, field: str, allowed: str, least: int, most: int) -> int:
        value = self._values[field]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(field, allowed)
        return value

    def ratio(self, field: str, default: float) -> float:
        """Return a positive finite number."""
        value = self._values.get(field)
        if value is None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST:
            return value
        raise self.wrong(field, f"a number above 0, at most {MOST}")

    def flag(self, field: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._values.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(field, "true or false")
        return value

    def must_be(self, field: str, *, value: bool, why: str) -> None:
        """Refuse the other value of a flag, which the schema cannot express."""
        if self.flag(field, default=value) is not value:
            raise self.wrong(field, f"{str(value).lower()} ({why})")

    def choice(
        self, field: str, meanings: Mapping[str, _Meaning], default: _Meaning | None = None
    ) -> _Meaning:
        """Return what the field's word means."""
        value = self._values.get(field)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or value not in meanings:
            raise self.wrong(field, ", ".join(sorted(meanings)))
        return meanings[value]

    def text(self, field: str) -> str:
        """Return a text that is not empty."""
        value = self._values.get(field)
        if not isinstance(value, str) or not value:
            raise self.wrong(field, "a text")
        return value

    def items(self, field: str) -> Sequence[object] | None:
        """Return a list, or none where the field is absent or null."""
        value = self._values.get(field)
        if value is not None and not isinstance(value, list):
            raise self.wrong(field, "a list")
        return cast("list[object] | None", value)

    def inner(self, field: str) -> Fields | None:
        """Return the object that the field holds, or none where it is absent or null."""
        value = self._values.get(field)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(field, "an object")
        return Fields(cast("dict[str, object]", value), f"{self._where}: {field}")

    def with_fallback(self, outer: Fields, field: str) -> Fields:
        """Return these fields, with one taken from `outer` where it is absent here."""
        if self.has(field) or not outer.has(field):
            return self
        return Fields({**self._values, field: outer._values[field]}, self._where)

    def with_defaults(self, defaults: Mapping[str, object]) -> Fields:
        """Return these fields, with `defaults` where they are absent or null."""
        missing = {key: value for key, value in defaults.items() if not self.has(key)}
        return Fields({**self._values, **missing}, self._where)

    def without(self, field: str) -> Fields:
        """Return these fields but one."""
        rest = {key: value for key, value in self._values.items() if key != field}
        return Fields(rest, self._where)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_REPR else f"{text[:_LONGEST_REPR]}..."
