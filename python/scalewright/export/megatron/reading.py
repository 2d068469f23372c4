"""Which model, training and plan do a user's own Megatron-LM arguments ask for?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalewright.errors import InvalidError
from scalewright.export.megatron.known import ignored
from scalewright.export.megatron.options import Options
from scalewright.export.megatron.parsed_arguments import given_arguments
from scalewright.export.megatron.reading_model import read_model
from scalewright.export.megatron.reading_plan import read_plan
from scalewright.export.megatron.reading_training import read_training


def read_megatron(path: str | Path) -> dict[str, Any]:
    """Read Megatron-LM arguments.

    Args:
        path: A shell script that starts `pretrain_gpt.py` (its variables, arrays and arithmetic
            are followed, nothing is run), or a file of `key: value` lines.

    Returns:
        `model`, `training` and `plan` as the engine reads them (`plan` without `data` where the
        devices are unknown), `devices` or none, and `ignored`: the arguments that were not used.

    Raises:
        InvalidError: The file cannot be read; an argument that matters is missing, misspelt or
            wrong. The message names the file and the argument.
    """
    given = given_arguments(path)
    unused = ignored(given)
    options = Options(given)
    for name in ("num-layers", "hidden-size", "num-attention-heads", "micro-batch-size"):
        if not options.has(name):
            raise options.wrong(name, "a whole number")
    plan = read_plan(options)
    model = {"name": Path(path).stem.strip() or "megatron", **read_model(options)}
    training = read_training(options, plan)
    return {
        "model": model,
        "training": training,
        "plan": plan,
        "devices": _devices(options),
        "ignored": [*unused, *options.unused],
    }


def _devices(options: Options) -> int | None:
    most = 2**32 - 1
    if options.devices is not None and options.devices > most:
        message = f"{options.where}: devices: got {options.devices}; allowed: 1 to {most}"
        raise InvalidError(message)
    return options.devices
