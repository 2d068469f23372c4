"""Which shell script starts Megatron-LM's `pretrain_gpt.py` with a plan?

Argument names as in Megatron-LM's `megatron/training/arguments.py`, core release 0.14.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from scalewright.export.layout import devices, node_devices, title, unsaid
from scalewright.export.megatron.model_arguments import VOCABULARY_BLOCK, model_arguments, padded
from scalewright.export.megatron.plan_arguments import STRATEGIES, plan_arguments
from scalewright.export.megatron.training_arguments import training_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scalewright.export.megatron.model_arguments import Arguments


def script(
    estimate: Mapping[str, Any], model: Mapping[str, Any], training: Mapping[str, Any]
) -> str:
    """Return the script.

    Raises:
        InvalidError: Megatron-LM lacks a setting for something that plan or model need.
    """
    plan = estimate["plan"]
    groups = {
        "MODEL_ARGS": model_arguments(model, training, plan["tensor"]),
        "PARALLEL_ARGS": plan_arguments(plan, model, training),
        "TRAINING_ARGS": training_arguments(plan, model, training),
    }
    each = node_devices(estimate)
    lines = [
        "#!/bin/bash",
        f"# {title(estimate, model)}",
        *[f"# {note}" for note in _notes(plan, model, groups["MODEL_ARGS"])],
        *_environment(plan),
        f"GPUS_PER_NODE={each}",
        f"NNODES={devices(plan) // each}",
    ]
    for name, arguments in groups.items():
        lines += ["", f"{name}=(", *[f"    {_line(*item)}" for item in arguments.items()], ")"]
    lines += [
        "",
        'torchrun --nproc-per-node "$GPUS_PER_NODE" --nnodes "$NNODES" \\',
        '    --node-rank "${NODE_RANK:-0}" --master-addr "${MASTER_ADDR:-localhost}" \\',
        '    --master-port "${MASTER_PORT:-6000}" pretrain_gpt.py \\',
        "    " + " ".join(f'"${{{name}[@]}}"' for name in groups) + ' "$@"',
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, value: object) -> str:
    return f"--{name}" if value is True else f"--{name} {shlex.quote(str(value))}"


def _environment(plan: Mapping[str, Any]) -> list[str]:
    """Return the setting on which overlap of tensor and context collectives rests."""
    wide = plan["tensor"] > 1 or plan["context"] > 1
    if wide and plan["zero"] not in STRATEGIES:
        return ["export CUDA_DEVICE_MAX_CONNECTIONS=1"]
    return []


def _notes(plan: Mapping[str, Any], model: Mapping[str, Any], arguments: Arguments) -> list[str]:
    """Return what the reader should know: what is left to do and what differs from the estimate."""
    notes = [unsaid(model)]
    block = arguments.get("make-vocab-size-divisible-by", VOCABULARY_BLOCK)
    rows = padded(model["vocab"], int(str(block)), plan["tensor"])
    if rows != (model.get("padded_vocab") or model["vocab"]):
        notes.append(f"Megatron-LM pads the vocabulary to {rows} rows; priced without.")
    if model["activation"] == "relu":
        notes.append("Megatron-LM knows ReLU squared only; the price is the same.")
    return notes
