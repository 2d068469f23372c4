"""How many dollars does a price of the catalog say?"""

from __future__ import annotations

import re

_PRICE = re.compile(r"\s*([0-9.eE+-]+)\s*([kM]?)USD\s*")
_TIMES = {"": 1.0, "k": 1e3, "M": 1e6}


def dollars(text: str) -> float:
    """Return the amount of a price that the engine reads: `30000 USD`, `30 kUSD`, `0.03 MUSD`.

    Raises:
        ValueError: It is none; the engine has refused it by then.
    """
    found = _PRICE.fullmatch(text)
    if found is None:
        message = f"price: got {text!r:.60}; allowed: dollars, as '30000 USD'"
        raise ValueError(message)
    return float(found[1]) * _TIMES[found[2]]
