"""A search of some seconds, and a program that carries it out in a process of its own."""

import json
import sys
from pathlib import Path
from typing import Any

import scalewright as sw

OPEN = {
    *("tensor", "context", "pipeline", "data", "micro_batch", "interleave", "schedule", "zero"),
    *("recompute", "sequence_parallel", "overlap_pipeline"),
}
FIX: dict[str, list[Any]] = {
    **{name: [value] for name, value in sw.Plan().to_dict().items() if name not in OPEN},
    "overlap_grad_reduce": [True, False],
    "overlap_param_gather": [True, False],
    "overlap_tensor": [True, False],
    "offload_optimizer": [True, False],
    "offload_activations": [0, 25, 50, 100],
    "tensor_chunks": [1, 2, 4],
}
"""Toggles that make a space of some thirty million plans; other fields are as in a plain plan."""


def long_search(**changes: Any) -> sw.Search:
    """Search the space, every plan of it."""
    asked = {"fix": FIX, "top": 5, "offload": "never", "method": "exhaustive", **changes}
    training = sw.Training(global_batch=1536, sequence=2048)
    return sw.search(sw.model("gpt3-175b"), sw.system("dgx-a100-80gb", 64), training, **asked)


def told(found: sw.Search) -> dict[str, Any]:
    """Everything that a search tells but how long it took."""
    answer = json.loads(json.dumps(found.to_dict()))
    return {name: value for name, value in answer.items() if name != "elapsed_s"}


def program(**changes: Any) -> list[str]:
    """A command that searches the space and prints what it is told."""
    # where the tests run in the background, what they start inherits that Ctrl-C is ignored
    code = (
        "import json, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"sys.path.insert(0, {str(Path(__file__).parent)!r}); "
        "from long_search import long_search, told; "
        f"print(json.dumps(told(long_search(**{changes!r}))))"
    )
    return [sys.executable, "-c", code]
