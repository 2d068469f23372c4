"""Which JSON text does a value become, and can it be written as JSON at all?"""

from __future__ import annotations

import json

from scalewright.errors import InvalidError


def json_text(what: str, value: object, indent: int | None = None) -> str:
    """Return `value` as JSON text.

    Raises:
        InvalidError: It holds a number that is not finite, or something that JSON cannot hold.
    """
    try:
        return json.dumps(value, allow_nan=False, indent=indent)
    except (ValueError, TypeError, RecursionError) as error:
        message = f"{what}: cannot be written as JSON ({error}); allowed: text, finite numbers"
        raise InvalidError(message) from error
