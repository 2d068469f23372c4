"""How is a plan written for a training framework, and how are a user's own arguments read?"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from scalewright.errors import UnknownNameError
from scalewright.export import deepspeed, torchtitan
from scalewright.export.megatron import read_megatron, script
from scalewright.export.refusal import refuse_any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["FORMATS", "read_megatron", "write"]

FORMATS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str]] = {
    "megatron": script,
    "torchtitan": torchtitan.job_file,
    "deepspeed": deepspeed.configuration,
}
"""What writes an estimate, a model and a training, by the name of the framework."""


def write(
    fmt: str, estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> str:
    """Write a priced plan as settings of a framework.

    Args:
        fmt: `megatron` (shell script), `torchtitan` (TOML job file) or `deepspeed` (JSON below
            comment lines that hold the launch arguments).
        estimate: The engine's estimate, whose `plan` is written; with `devices_per_node` of the
            system, which is 8 where it is left out.
        model: The fields of the model.
        training: The fields of the training.

    Raises:
        UnknownNameError: No such format; says which comes nearest.
        InvalidError: The framework lacks a setting for something that the plan or the model needs.
    """
    if fmt not in FORMATS:
        close = get_close_matches(fmt, FORMATS, n=1)
        listed = f"nearest: {close[0]}" if close else f"known: {', '.join(FORMATS)}"
        message = f"export format: unknown name '{fmt:.60}'; {listed}"
        raise UnknownNameError(message)
    refuse_any(fmt, _unwritten(estimate["plan"]))
    return FORMATS[fmt](estimate, model, training)


def _unwritten(plan: Mapping[str, Any]) -> list[tuple[bool, str, object, str]]:
    """Return the rules for fields that no format writes yet."""
    plainest = {
        "tensor_rows": 1,
        "token_slices": 1,
        "tensor_chunks": 1,
        "overlap_expert": False,
        "offload_optimizer": False,
        "offload_activations": 0,
        "bare_last": False,
        "collectives": "auto",
    }
    return [
        (plan[field] != plain, f"plan.{field}", plan[field], f"{plain}".lower())
        for field, plain in plainest.items()
    ]
