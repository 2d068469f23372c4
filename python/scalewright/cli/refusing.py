"""How is wrong input refused in the words of the command line?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn, cast

if TYPE_CHECKING:
    import argparse

_ROOTS = ("plan", "training")
"""Arguments whose fields are options of the same names."""
_FILES = {"software"}
"""Options that name an entry of the catalog, as those of model and system do."""
_HOLDING = {
    "budget": "budget",
    "constants": "vary",
    "fix": "fix",
    "objective": "objective",
    "space": "fix",
}
"""Options that hold values by name, by the argument that they become."""
_PLACED = {"collective", "name", "names", "pattern", "plan", "plans", "schedule", "within"}
"""Arguments that are typed without a name, in some verb at least."""
_SETTING = ("fix", "set")
"""Options whose texts are `field=value`."""
_UNKNOWN = {"field", "plan field"}
"""What a name is called that is none of the fields."""
_OPTIONS = {
    "fix.dtype": ("dtypes",),
    "space.dtype": ("dtypes",),
    "cluster": ("ray",),
    "device": ("chips",),
    "devices": ("devices", "counts"),
    "system": ("system", "systems", "group", "between"),
    "top": ("top", "pool"),
    "training.precision": ("precision", "dtypes"),
    "input_s": ("input",),
    "program.groups": ("groups",),
    "rows": ("rows", "all_plans"),
    "program.seconds": ("computation",),
    "transfers.between": ("transfer",),
    "backward_s": ("backward",),
    "budget_bytes": ("budget",),
    "feedback_s": ("feedback",),
    "forward_s": ("forward",),
    "generated": ("generate",),
    "groups": ("group",),
    "hidden_s": ("hidden",),
    "hop_s": ("send",),
    "tiers": ("tier",),
    "weight_s": ("weight",),
    "width_in": ("width",),
}
"""Options that set a field under another name."""
_REFUSED = re.compile(r"(?:got|unknown name) ['\"]?([^;'\"]*)")


def refuse(option: str, given: object, allowed: str) -> NoReturn:
    """Refuse an option, which a person types as `--option`.

    Raises:
        InvalidError: Always.
    """
    from scalewright.errors import InvalidError

    got = "it" if given is True else f"{given!r:.60}"
    message = f"--{option.replace('_', '-')}: got {got}; allowed: {allowed}"
    raise InvalidError(message)


def refuse_set_aside(options: argparse.Namespace, fields: tuple[str, ...], why: str) -> None:
    """Refuse options of a plan that would change nothing; a plan that is given whole may say them.

    Raises:
        InvalidError: One of them was typed.
    """
    for field in fields:
        if (given := getattr(options, field)) is not None:
            refuse(field, given, f"nothing: {why}")


def in_options(message: str, options: argparse.Namespace) -> str:
    """Return a refusal that names the option that was typed, where it names the engine's field."""
    path, colon, rest = message.partition(": ")
    found = _REFUSED.match(rest)
    if not colon or (found is None and "; allowed: " not in rest):
        return message
    refused = found[1] if found else ""
    whole, of, place = path.partition(" of ")
    for field in whole.split(", "):
        names = _options_of(re.sub(r"\[\d+\]$", "", field))
        given = [name for name in names if _is_given(getattr(options, name, None))]
        if given:
            holding = (name for name in given if _holds(getattr(options, name), refused))
            option = next(holding, given[0])
            inner = _inner(field, refused) if option in _HOLDING.values() else ""
            return f"{_dashed(option)}{of}{place}: {inner}{rest}"
    if missing := re.match("got (?:nothing|None)(?=;)", rest):
        for name in _options_of(path):
            if getattr(options, name, ...) is None:
                return f"{_dashed(name)}: got nothing{rest[missing.end() :]}"
    for option in _SETTING:
        if _sets(getattr(options, option, None), path, refused):
            inner = "" if " " in path or path == "field" else f"{path}: "
            return f"{_dashed(option)}: {inner}{rest}"
    return message


def _dashed(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _sets(texts: object, field: str, refused: str) -> bool:
    """Say whether one of `field=value` texts sets a field, or has a name that was refused."""
    if not isinstance(texts, list):
        return False
    names = [str(text).partition("=")[0].strip() for text in cast("list[object]", texts)]
    return field in names or (field in _UNKNOWN and refused in names)


def _options_of(field: str) -> tuple[str, ...]:
    """Return the options that may set a field of the engine."""
    first, _, deeper = field.partition(".")
    if first in _ROOTS:
        name, _, deeper = deeper.partition(".")
        # what lies deeper in these is a field of a file, which no option sets
        alone = () if deeper and name in _FILES else (name,)
        return _OPTIONS.get(f"{first}.{name}", alone)
    own = _OPTIONS.get(field, () if deeper or first in _PLACED else (field,))
    return (*own, _HOLDING[first]) if first in _HOLDING else own


def _inner(field: str, refused: str) -> str:
    """Return the name whose value is wrong, of an option that holds several."""
    name = re.sub(r"(\[\d+\])?(\.(factor|value))?$", "", field.partition(".")[2])
    return f"{name}: " if name and name != refused else ""


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != []


def _holds(value: object, refused: str) -> bool:
    return refused in re.split(r"[^\w.+-]+", str(value))
