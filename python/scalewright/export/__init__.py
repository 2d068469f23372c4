"""How are a plan's settings written for a training framework, and how are a user's own read?"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from scalewright.errors import UnknownNameError
from scalewright.export import deepspeed, megatron, torchtitan
from scalewright.export.megatron_arguments import read_megatron

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FORMATS", "read_megatron", "write"]

FORMATS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str]] = {
    "megatron": megatron.settings,
    "torchtitan": torchtitan.settings,
    "deepspeed": deepspeed.settings,
}
"""Writers by the name of their framework."""


def write(
    fmt: str, estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> str:
    """Write a priced plan as settings of a framework.

    Args:
        fmt: `megatron`, `torchtitan` or `deepspeed`.
        estimate: The engine's estimate; its `plan` is written.
        model: The model in the Transformer schema.
        training: The training job.

    Returns:
        The text of a file that the framework reads.

    Raises:
        UnknownNameError: No such framework.
        InvalidError: The framework has no setting for a choice of the plan.
    """
    if fmt not in FORMATS:
        near = get_close_matches(fmt, FORMATS, n=1)
        hint = f"nearest: {near[0]}" if near else f"known: {', '.join(FORMATS)}"
        message = f"export: unknown format '{fmt}'; {hint}"
        raise UnknownNameError(message)
    return FORMATS[fmt](estimate, model, training)
