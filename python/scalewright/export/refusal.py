"""What is said where a framework has no setting for something that a plan needs?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Iterable


def refusal(framework: str, field: str, got: object, allowed: str) -> InvalidError:
    """Return the error that names the field, says what the framework allows and how to get it."""
    shown = str(got).lower() if isinstance(got, bool) else got
    remedy = " (plan again with --fix)" if field.startswith("plan.") else ""
    return InvalidError(f"{framework}: {field}: got {shown}; allowed: {allowed}{remedy}")


def refuse_any(framework: str, rules: Iterable[tuple[bool, str, object, str]]) -> None:
    """Refuse the first field whose rule is broken.

    Args:
        framework: Its name.
        rules: For each whether it is broken, the field, its value and what is allowed.

    Raises:
        InvalidError: A rule is broken.
    """
    for broken, field, got, allowed in rules:
        if broken:
            raise refusal(framework, field, got, allowed)
