"""How is a choice refused that a framework has no setting for?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping


def refuse(framework: str, field: str, value: object, allowed: str) -> NoReturn:
    """Raise the error that names the plan field that a framework cannot be told."""
    hint = "" if "." in field else " (plan again with --fix)"
    message = f"export {framework}: {field}: got {value}; allowed: {allowed}{hint}"
    raise InvalidError(message)


def per_replica(plan: Mapping[str, Any]) -> int:
    """Return the ranks over which weights of one stage are replicated or sharded."""
    return plan["data"] * plan["context"]


def layer_counts(layers: int, pipeline: int, interleave: int) -> tuple[int, int, int]:
    """Return the layers of the first, a middle and the last virtual stage.

    All get the same and the two ends share what is then too much, as the engine deals them.
    """
    stages = pipeline * interleave
    middle = -(-layers // stages)
    less = middle * stages - layers
    return middle - less // 2, middle, middle - (less + 1) // 2
