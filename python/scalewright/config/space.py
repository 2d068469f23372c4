"""Which values may a search choose from?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from scalewright.config.choices import field_name, one_value
from scalewright.config.kinds import need, plain
from scalewright.config.plan import FIELDS as PLAN_FIELDS
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALLOWED = "a value or a list of values by plan field"
DTYPE = "dtype"
"""The field of a space, none of a plan, that lists precision recipes of the job."""
FIELDS = {**PLAN_FIELDS, DTYPE: "str"}


def pinned_fields(texts: Iterable[str]) -> dict[str, list[int | bool | str]]:
    """Read `field=value,value` texts: the values that a search may give these fields.

    Raises:
        InvalidError: A text is not of this form, or names a field twice.
        UnknownNameError: A field does not exist.
    """
    pinned: dict[str, list[int | bool | str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals:
            message = f"fix: got '{text}'; allowed: field=value or field=value,value"
            raise InvalidError(message)
        field = field_name(name, FIELDS)
        if field in pinned:
            message = f"fix: {field}: given twice"
            raise InvalidError(message)
        kind = FIELDS[field]
        pinned[field] = [one_value(field, kind, value.strip()) for value in values.split(",")]
    return pinned


def space(fix: Mapping[str, Any], listed: Mapping[str, Any] | None = None) -> dict[str, list[Any]]:
    """Return the plan space in which each named field takes its listed values alone.

    Args:
        fix: A value or a list of values by field.
        listed: The same, as a space file holds it; `fix` narrows its lists.

    Raises:
        InvalidError: A field is fixed to what its list does not hold.
        UnknownNameError: A field does not exist.
    """
    need("fix", fix, Mapping, _ALLOWED)
    fixed = {field_name(name, FIELDS): _listed(value) for name, value in fix.items()}
    if listed is None:
        return fixed
    need("space", listed, Mapping, _ALLOWED)
    found = {field_name(name, FIELDS): _listed(value) for name, value in listed.items()}
    for name, values in fixed.items():
        beyond = [value for value in values if name in found and not _holds(found[name], value)]
        if beyond:
            allowed = f"of the space's own {', '.join(map(str, found[name]))}"
            message = f"fix: {name}: got {beyond[0]!r:.60}; allowed: {allowed}"
            raise InvalidError(message)
    return {**found, **fixed}


def _holds(values: list[Any], value: object) -> bool:
    """Say whether a value is listed; 1 is another value than true."""
    return any(one == value and isinstance(one, bool) == isinstance(value, bool) for one in values)


def _listed(value: object) -> list[Any]:
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [plain(one) for one in cast("Iterable[Any]", value)]
    # an array of NumPy lists its values; a single number of it is one
    tolist = getattr(value, "tolist", None)
    found = tolist() if callable(tolist) else value
    return cast("list[Any]", found) if isinstance(found, list) else [found]
