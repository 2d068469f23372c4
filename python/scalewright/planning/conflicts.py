"""Which fields that a user fixed leave no plan, and which of them would have to be left open?"""

from __future__ import annotations

import json
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scalewright.planning.job import Job

_LIMITS = json.dumps({"top": 1, "front": [], "offload": "never"})
_GROWTH = 4
_MOST = 256
"""Sets that are tried in the search for a smaller one than the first that is found."""


def conflict(job: Job, allowed: Mapping[str, list[Any]], *, legal: bool) -> dict[str, Any] | None:
    """Return which fixed fields leave no plan together; none where no plan runs without them.

    `fields` holds the values of a set from which no field can be left out; `smallest` says that no
    set of fewer fields conflicts. `leave_open` names each fixed field without which the others
    leave some plan.

    Args:
        job: What is planned.
        allowed: The values by fixed field, which leave no plan.
        legal: Whether a legal plan is wanted (where there is none), or one that fits.
    """
    tried: dict[frozenset[str], bool] = {}

    def runs(names: Iterable[str]) -> bool:
        key = frozenset(names)
        if key not in tried:
            tried[key] = _some_plan(job, _only(allowed, key), legal=legal)
        return tried[key]

    if not allowed or not runs(()):
        return None
    doors = [name for name in allowed if runs(set(allowed) - {name})]
    least, smallest = _least(list(allowed), doors, runs)
    fields = {name: values for name, values in allowed.items() if name in least}
    return {
        "fields": fields,
        "smallest": smallest,
        "leave_open": doors,
    }


def _least(
    names: list[str], doors: list[str], runs: Callable[[Iterable[str]], bool]
) -> tuple[set[str], bool]:
    """Return fewest names that leave no plan, and whether they are known to be fewest.

    Every set without plans holds all `doors`: without one of those the others leave some.
    """
    found, others = set(names), [name for name in names if name not in doors]
    for name in others:
        if not runs(found - {name}):
            found -= {name}
    left = _MOST
    for size in range(len(found) - len(doors)):
        left -= comb(len(others), size)
        if left < 0:
            return found, False
        for more in combinations(others, size):
            if not runs({*doors, *more}):
                return {*doors, *more}, True
    return found, True


def _only(allowed: Mapping[str, list[Any]], names: Iterable[str]) -> dict[str, list[Any]]:
    return {name: allowed[name] for name in names}


def _some_plan(job: Job, allowed: Mapping[str, list[Any]], *, legal: bool) -> bool:
    """Say whether a space holds a plan, in growing steps, so that the first one ends the walk."""
    search = _engine.Search(job.handle, json_text("space", allowed), _LIMITS)
    first, step = 0, 1
    while first < search.units:
        last = min(first + step, search.units)
        found = json.loads(search.report(search.run(first, last)))
        if found["best"] or (legal and found["plans_legal"]):
            return True
        first, step = last, step * _GROWTH
    return False
