"""How long do the kernels of eager PyTorch beside products and attention take on this GPU?

Norms, rotations, activations, additions, losses: each forward and backward, alone, behind a wait
that the host uses to launch all repetitions, so that launches do not limit them.
`docs/eager-kernels.md` has the times of one H100, from which profiles of eager programs have
their passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COLUMNS = ("kernel", "format", "rows", "width", "forward_us", "backward_us")
DEVICE = "cuda"
_SIZES = ((8192, 4096), (8192, 2048), (4096, 2048))
_HEADS = (64, 128)
_LOGITS = ((8192, 32000), (4096, 128256), (8192, 50257))
_FORMATS = (("bf16", "bfloat16"), ("fp32", "float32"))
_REPEATS, _ROUNDS = 6, 3
_WAIT_CYCLES = 60_000_000
_MICRO = 1e3
"""Microseconds in a millisecond, the unit of events."""


def timed_passes(torch: Any, most: int | None) -> Iterator[tuple[object, ...]]:  # noqa: ANN401
    """Yield a row of `COLUMNS` for each kernel and size.

    Args:
        torch: The module.
        most: Only the first so many; all where absent.

    Raises:
        InvalidError: Transformers is not installed.
    """
    for case in [*_by_width(torch), *_losses(torch)][:most]:
        forward, backward = _times(torch, *case.make())
        row = (case.kernel, case.format, case.rows, case.width)
        yield (*row, f"{forward:.1f}", f"{backward:.1f}")


@dataclass(frozen=True)
class _Case:
    """A kernel to be timed, and what makes its function and its inputs."""

    kernel: str
    format: str
    rows: int
    width: int
    make: Callable[[], tuple[Any, list[Any]]]


def _library(part: str) -> Any:  # noqa: ANN401 - Transformers is no dependency
    try:
        return import_module(f"transformers.{part}")
    except ImportError as error:
        message = "transformers: cannot be imported; allowed: an installation of it"
        raise InvalidError(message) from error


def _by_width(torch: Any) -> Iterator[_Case]:  # noqa: ANN401
    nn = torch.nn
    llama, activations = _library("models.llama.modeling_llama"), _library("activations")
    modules: tuple[tuple[str, Any], ...] = (
        ("LlamaRMSNorm", llama.LlamaRMSNorm),
        ("torch.nn.RMSNorm", nn.RMSNorm),
        ("torch.nn.LayerNorm", nn.LayerNorm),
    )
    functions: tuple[tuple[str, Any, int], ...] = (
        ("addition", _sum, 2),
        ("silu and product", partial(_gated, torch), 2),
        ("torch.nn.functional.gelu", nn.functional.gelu, 1),
        ("NewGELUActivation", activations.NewGELUActivation(), 1),
    )
    for rows, width in _SIZES:
        for kind, name in _FORMATS:
            filled = partial(_filled, torch, 1, rows, width, name=name)
            for kernel, module in modules:
                make = partial(_module, torch, module, filled, width, name)
                yield _Case(kernel, kind, rows, width, make)
            for kernel, function, inputs in functions:
                make = partial(_function, function, [filled] * inputs)
                yield _Case(kernel, kind, rows, width, make)
        wide = partial(_filled, torch, 1, rows, width, name="float32")
        narrow = partial(_filled, torch, 1, rows, width)
        mixed = partial(_function, _sum, [wide, narrow])
        yield _Case("addition", "bf16 to fp32", rows, width, mixed)
        cast = partial(_function, partial(_narrow, torch), [wide])
        yield _Case("cast", "fp32 to bf16", rows, width, cast)
        for head in _HEADS:
            for kind, name in (("bf16", "bfloat16"), ("bf16, fp32 sines", "float32")):
                turn = partial(_rotation, torch, llama, rows, width, head, name)
                yield _Case(f"apply_rotary_pos_emb, head of {head}", kind, rows, width, turn)


def _losses(torch: Any) -> Iterator[_Case]:  # noqa: ANN401
    theirs = _library("loss.loss_utils").ForCausalLMLoss
    for rows, vocab in _LOGITS:
        targets = torch.randint(vocab, (1, rows), device=DEVICE)
        filled = partial(_filled, torch, 1, rows, vocab)
        moved = partial(theirs, labels=targets, vocab_size=vocab)
        plain = partial(_missed, torch, targets)
        for kernel, loss in (("ForCausalLMLoss", moved), ("cross_entropy of fp32 copy", plain)):
            yield _Case(kernel, "bf16", rows, vocab, partial(_function, loss, [filled]))


def _filled(torch: Any, *shape: int, name: str = "bfloat16", learns: bool = True) -> Any:  # noqa: ANN401
    made = torch.randn(*shape, device=DEVICE, dtype=getattr(torch, name))
    return made.requires_grad_(learns)


def _module(torch: Any, module: Any, filled: Any, width: int, name: str) -> tuple[Any, list[Any]]:  # noqa: ANN401
    return module(width).to(DEVICE, getattr(torch, name)), [filled()]


def _function(function: Any, inputs: list[Any]) -> tuple[Any, list[Any]]:  # noqa: ANN401
    return function, [make() for make in inputs]


def _rotation(
    torch: Any,  # noqa: ANN401
    llama: Any,  # noqa: ANN401
    rows: int,
    width: int,
    head: int,
    name: str,
) -> tuple[Any, list[Any]]:
    sines = [_filled(torch, 1, rows, head, name=name, learns=False) for _ in range(2)]

    def rotate(x: Any) -> Any:  # noqa: ANN401
        queries = x.transpose(1, 2)
        return llama.apply_rotary_pos_emb(queries, queries[:, :0], *sines)[0]

    return rotate, [_filled(torch, 1, rows, width // head, head)]


def _sum(left: Any, right: Any) -> Any:  # noqa: ANN401
    return left + right


def _gated(torch: Any, gate: Any, up: Any) -> Any:  # noqa: ANN401
    return torch.nn.functional.silu(gate) * up


def _narrow(torch: Any, x: Any) -> Any:  # noqa: ANN401
    return x.to(torch.bfloat16)


def _missed(torch: Any, targets: Any, logits: Any) -> Any:  # noqa: ANN401
    flat = logits.flatten(0, 1).float()
    return torch.nn.functional.cross_entropy(flat, targets.flatten())


def _times(torch: Any, run: Any, inputs: list[Any]) -> tuple[float, float]:  # noqa: ANN401
    learned = [*inputs, *(run.parameters() if isinstance(run, torch.nn.Module) else ())]
    return forward_and_backward(torch, lambda: run(*inputs), learned)


def forward_and_backward(
    torch: Any,  # noqa: ANN401
    run: Callable[[], Any],
    learned: list[Any],
) -> tuple[float, float]:
    """Return microseconds of a function's forward pass and of its backward pass to some tensors."""
    made = run()
    gradient = torch.randn_like(made) if made.dim() else None

    def both() -> None:
        torch.autograd.grad(run(), learned, gradient)

    forward = _median(torch, run)
    return forward, max(0.0, _median(torch, both) - forward)


def _median(torch: Any, run: Callable[[], object]) -> float:  # noqa: ANN401
    def repeated() -> None:
        for _ in range(_REPEATS):
            run()

    run()
    run()
    return median_behind_waits(torch, repeated, _ROUNDS, _WAIT_CYCLES) / _REPEATS


def median_behind_waits(
    torch: Any,  # noqa: ANN401
    launch: Callable[[], object],
    rounds: int,
    wait_cycles: int,
) -> float:
    """Return the median microseconds that the GPU takes for what a function launches.

    The GPU waits first, so that the host has launched it all by the time that the clock starts.

    Args:
        torch: The module.
        launch: Launches the work, without waiting for it.
        rounds: How often it is timed.
        wait_cycles: How long the GPU waits, in its clock's cycles.
    """
    torch.cuda.synchronize()
    times: list[float] = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(wait_cycles)
        start.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        times.append(float(start.elapsed_time(end)) * _MICRO)
    return sorted(times)[rounds // 2]
