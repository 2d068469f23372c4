"""How is wrong input refused in the words of the command line?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import argparse

_ROOTS = (
    *("codesign", "controllers.setting.costs", "limits", "plan", "rematerialise"),
    *("robust", "schedule", "sensitivity", "training", "wish"),
)
"""Where the engine reads fields; options of the same names set most of them."""
_FILES = {"software"}
"""Options that name an entry of the catalog, as those of model and system do."""
_BUDGET = "codesign.budget."
"""What an option holds by name; the name whose value is wrong follows it."""
_OPTIONS = {
    "limits.objective or limits.front": ("objective", "front"),
    "limits.top": ("top", "pool"),
    "space.dtype": ("dtypes",),
    "training.precision": ("precision", "dtypes"),
    "cluster.devices": ("devices",),
    "controllers.setting.input_s": ("input",),
    "controllers.setting.program.chain.seconds": ("computation",),
    "controllers.setting.transfers.between": ("transfer",),
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


def in_options(message: str, options: argparse.Namespace) -> str:
    """Return a refusal that names the option that was typed, where it names the engine's field."""
    path, colon, rest = message.partition(": ")
    field, of, place = re.sub(r"\[\d+\]$", "", path).partition(" of ")
    given = [name for name in _options_of(field) if _is_given(getattr(options, name, None))]
    if not colon or not given:
        return message
    refused = _REFUSED.match(rest)
    holding = (name for name in given if refused and _holds(getattr(options, name), refused[1]))
    option = next(holding, given[0]).replace("_", "-")
    inner = field.removeprefix(_BUDGET) if field.startswith(_BUDGET) else ""
    if inner and rest.startswith("got "):
        rest = f"{inner}: {rest}"
    return f"--{option}{of}{place}: {rest}"


def _options_of(field: str) -> tuple[str, ...]:
    """Return the options that may set a field of the engine."""
    if field in _OPTIONS:
        return _OPTIONS[field]
    for root in _ROOTS:
        if field.startswith(f"{root}."):
            name, deeper, _ = field.removeprefix(f"{root}.").partition(".")
            # what lies deeper in these is a field of a file, which no option sets
            return () if deeper and name in _FILES else _OPTIONS.get(name, (name,))
    return ()


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != []


def _holds(value: object, refused: str) -> bool:
    return refused in str(value).split(",")
