"""How long do training steps of PyTorch programs take on this GPU, and how much do they hold?

The runs are those of `program_runs.RUNS`: models of Hugging Face Transformers, blocks of torchtitan
and nanoGPT, eager and compiled, in pure bf16 and under autocast, with and without checkpoints. Each
is a step of forward and backward passes over random tokens, clipping and AdamW, launched as in
training.
"""

from __future__ import annotations

import gc
import math
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewright.calibration.program_models import model_of
from scalewright.calibration.program_runs import NANOGPT, NANOGPT_VOCAB, RUNS, TRANSFORMERS
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scalewright.calibration.program_runs import Run

DEVICE = "cuda"
_WARM_UP_S, _TIMED_S = 2.0, 2.0
_LEAST_STEPS, _MOST_STEPS = 3, 20
_RATE, _DECAY, _NORM = 1e-5, 0.1, 1.0


def timed_programs(
    torch: Any,  # noqa: ANN401 - PyTorch is an optional extra without types here
    system: str,
    most: int | None,
) -> Iterator[tuple[object, ...]]:
    """Yield two rows of `program_runs.COLUMNS` for each run that this GPU has the memory for.

    Args:
        torch: The module.
        system: The name of the device in the rows.
        most: Only the first so many runs; all where absent.

    Raises:
        InvalidError: Transformers is not installed.
    """
    try:
        library: Any = import_module("transformers")
    except ImportError as error:
        message = "transformers: cannot be imported; allowed: an installation of it"
        raise InvalidError(message) from error
    versions = f"PyTorch {torch.__version__}, transformers {library.__version__}"
    source = f"python -m scalewright.calibration.timing programs; {versions}"
    for run in RUNS[:most]:
        try:
            parameters, seconds, peak = _timed(torch, run)
        except torch.OutOfMemoryError:
            print(f"left out: {run}: this GPU has not the memory", file=sys.stderr)
            continue
        yield from run.rows(system, source, parameters, seconds, peak)


def _timed(torch: Any, run: Run) -> tuple[int, float, int]:  # noqa: ANN401
    """Return parameters, mean seconds of a step and the peak of allocated bytes."""
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()
    step, parameters = _step(torch, run)
    step()
    torch.cuda.synchronize()
    began, steps = time.perf_counter(), 0
    while steps < _LEAST_STEPS or time.perf_counter() - began < _WARM_UP_S:
        step()
        torch.cuda.synchronize()
        steps += 1
    each = (time.perf_counter() - began) / steps
    count = max(_LEAST_STEPS, min(_MOST_STEPS, math.ceil(_TIMED_S / each)))
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / count
    return parameters, seconds, int(torch.cuda.max_memory_allocated())


def _step(torch: Any, run: Run) -> tuple[Callable[[], None], int]:  # noqa: ANN401
    """Return a function that trains the model of a run by one step, and its parameters."""
    model = model_of(torch, run, DEVICE)
    fused = {"fused": True} if run.fused else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=_DECAY, **fused)
    vocab = NANOGPT_VOCAB if run.program == NANOGPT else run.shape.vocab
    size = (run.accumulation, run.micro_batch, run.sequence)
    tokens = torch.randint(vocab, size, device=DEVICE)

    def loss_of(logits: Any, targets: Any) -> Any:  # noqa: ANN401
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    loss = torch.compile(loss_of) if run.compiled else loss_of

    def step() -> None:
        for part in tokens:
            with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=run.autocast):
                if run.program == TRANSFORMERS:
                    missed = model(input_ids=part, labels=part).loss
                else:
                    missed = loss(model(part), part)
            missed.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, sum(weight.numel() for weight in model.parameters())
