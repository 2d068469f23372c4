"""How long does a training step of a small GPT take on this GPU, as rows for `calibrate step`?

The step is what the profile `eager-gpt-2026` describes, which the rows name: PyTorch runs it
operation by operation, with its kernels for layer norm, GELU and causal attention, sums gradients
by autograd, clips them and updates by AdamW over lists of tensors, all in 16 bits. Nothing is
recomputed. Small shapes tell the pace of the host, large ones the rate of products that lasts.
PyTorch before 2026 takes slower attention on Hopper, which that profile does not know.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COLUMNS = (
    "system",
    "devices",
    "layers",
    "hidden",
    "heads",
    "ffn",
    "vocab",
    "seq",
    "global_batch",
    "micro_batch",
    "tp",
    "pp",
    "cp",
    "dp",
    "ep",
    "zero",
    "recompute",
    "seq_parallel",
    "dtype",
    "metric",
    "value",
    "unit",
)
PROFILE = "eager-gpt-2026"
"""The software profile of the script."""
TIMED_COLUMNS = (*COLUMNS, "software_profile")
_VOCAB = 32000
_HEAD = 128
_WIDE = 4
_LAYERS = (2, 4)
_WIDTHS = (1024, 2048, 4096, 8192)
_SEQUENCES = (1024, 4096)
_MICRO_BATCHES = (1, 4)
_MICRO_BATCHES_A_STEP = (1, 4)
_NORM = 1.0
_STEPS = 10
# clocks and power settle before steps count
_WARM_UP_S = 3.0
_MILLI = 1e-3


@dataclass(frozen=True)
class StepShape:
    """One training step to be timed."""

    layers: int
    hidden: int
    sequence: int
    micro_batch: int
    global_batch: int

    @property
    def work(self) -> int:
        """What orders shapes: tokens of a step by elements of its layers."""
        return self.global_batch * self.sequence * self.layers * self.hidden**2

    def row(self, system: str, dtype: str, seconds: float) -> tuple[object, ...]:
        """Return the cells of `COLUMNS` for a step on one device that took so long."""
        model = (self.layers, self.hidden, self.hidden // _HEAD, _WIDE * self.hidden, _VOCAB)
        batch = (self.sequence, self.global_batch, self.micro_batch)
        plan = (1, 1, 1, 1, 1, 0, "none", "no")
        figure = ("iteration_time", f"{seconds:.6g}", "s")
        return (system, 1, *model, *batch, *plan, dtype, *figure)


def step_shapes() -> list[StepShape]:
    """List the steps to time, the cheapest first."""
    found = [
        StepShape(layers, hidden, sequence, micro, micro * times)
        for layers in _LAYERS
        for hidden in _WIDTHS
        for sequence in _SEQUENCES
        for micro in _MICRO_BATCHES
        for times in _MICRO_BATCHES_A_STEP
    ]
    return sorted(found, key=lambda shape: shape.work)


def timed_steps(
    torch: Any,  # noqa: ANN401 - PyTorch is an optional extra without types here
    system: str,
    dtype: str,
    most: int | None,
) -> Iterator[tuple[object, ...]]:
    """Yield a row of `TIMED_COLUMNS` for each step that this GPU has the memory for.

    Args:
        torch: The module.
        system: The name of the device in the rows.
        dtype: `bfloat16` or `float16`.
        most: Only the first so many shapes; all where absent.
    """
    for shape in step_shapes()[:most]:
        try:
            seconds = _seconds(torch, _step(torch, shape, getattr(torch, dtype)))
        except torch.cuda.OutOfMemoryError:
            print(f"left out: {shape}: this GPU has not the memory", file=sys.stderr)
            continue
        finally:
            torch.cuda.empty_cache()
        yield *shape.row(system, f"pure {dtype}", seconds), PROFILE


def _step(torch: Any, shape: StepShape, dtype: Any) -> Callable[[], None]:  # noqa: ANN401
    """Return a function that trains a model of a shape by one step."""
    model = _model(torch, shape).to(device="cuda", dtype=dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    size = (shape.global_batch, shape.sequence + 1)
    tokens = torch.randint(_VOCAB, size, device="cuda")
    place = torch.arange(shape.sequence, device="cuda")

    def step() -> None:
        for part in tokens.split(shape.micro_batch):
            logits = model(part[:, :-1], place).float()
            targets = part[:, 1:].reshape(-1)
            torch.nn.functional.cross_entropy(logits.view(-1, _VOCAB), targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def _model(torch: Any, shape: StepShape) -> Any:  # noqa: ANN401
    """Build a GPT: learned positions, layer norms, biases, GELU, output tied to the table."""
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.heads = shape.hidden // _HEAD
            self.norms = nn.ModuleList(nn.LayerNorm(shape.hidden) for _ in range(2))
            self.entering = nn.Linear(shape.hidden, 3 * shape.hidden)
            self.leaving = nn.Linear(shape.hidden, shape.hidden)
            self.wide = nn.Linear(shape.hidden, _WIDE * shape.hidden)
            self.narrow = nn.Linear(_WIDE * shape.hidden, shape.hidden)

        def forward(self, x: Any) -> Any:  # noqa: ANN401
            batch, length, width = x.shape
            mixed = self.entering(self.norms[0](x)).view(batch, length, 3, self.heads, _HEAD)
            query, key, value = mixed.permute(2, 0, 3, 1, 4)
            attend = nn.functional.scaled_dot_product_attention
            seen = attend(query, key, value, is_causal=True)
            x = x + self.leaving(seen.transpose(1, 2).reshape(batch, length, width))
            return x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.table = nn.Embedding(_VOCAB, shape.hidden)
            self.positions = nn.Embedding(shape.sequence, shape.hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(shape.layers))
            self.norm = nn.LayerNorm(shape.hidden)

        def forward(self, tokens: Any, place: Any) -> Any:  # noqa: ANN401
            x = self.table(tokens) + self.positions(place)
            for layer in self.layers:
                x = layer(x)
            return nn.functional.linear(self.norm(x), self.table.weight)

    return Model()


def _seconds(torch: Any, step: Callable[[], None]) -> float:  # noqa: ANN401
    """Return the mean time of a step, launched as in training and not captured."""

    def took(steps: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(steps):
            step()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) * _MILLI

    warm = 0.0
    while warm < _WARM_UP_S:
        warm += took(_STEPS)
    return took(_STEPS) / _STEPS
