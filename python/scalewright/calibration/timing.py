"""How long do products, attention and training steps take on this GPU, as CSV for `calibrate`?

`python -m scalewright.calibration.timing gemm --out gemm.csv` needs PyTorch (the extra `torch`)
and a GPU. Each kernel runs under CUDA events after a warm-up, behind a wait in which the host
launches it; as many copies of the weights as fill the cache take turns, up to five, so that weights
come from main memory as in a model. `gemm --warm` leaves them in the cache and says so in a column
`warm`: products are priced with weights from memory, so `calibrate` and `reproduce` leave out such
rows. `step` times whole training steps instead (`step_timing`), `programs` those of programs in use
(`program_timing`, for `reproduce --rows`), `passes` kernels beside products (`pass_timing`); these
two need Transformers as well.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalewright.calibration.pass_timing import COLUMNS as _PASS_COLUMNS
from scalewright.calibration.pass_timing import (
    forward_and_backward,
    median_behind_waits,
    timed_passes,
)
from scalewright.calibration.program_runs import COLUMNS as _PROGRAM_COLUMNS
from scalewright.calibration.program_timing import timed_programs
from scalewright.calibration.step_timing import TIMED_COLUMNS as _STEP_COLUMNS
from scalewright.calibration.step_timing import timed_steps
from scalewright.errors import InvalidError, ScalewrightError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_GEMM_COLUMNS = ("system", "gemm_dtype", "m", "n", "k", "latency_us")
_ATTENTION_COLUMNS = (
    "gpu_name",
    "data_type",
    "attn_mask",
    "batch_size",
    "q_seqlen",
    "num_q_heads",
    "num_kv_heads",
    "head_dim_qk",
    "head_dim_vo",
    "sliding_window_size",
    "profile_pass",
    "time_ms",
)
_ROWS = (1, 16, 64, 256, 1024, 2048, 4096, 8192)
_EDGES = (128, 512, 1024, 2048, 4096, 7168, 8192, 12288, 16384)
_SEQUENCES = (128, 512, 1024, 2048, 4096, 8192, 16384)
_HEADS = ((8, 8, 64), (16, 2, 128), (32, 8, 128), (32, 32, 128), (64, 8, 128))
_BATCHES = (1, 4, 16)
_DTYPES = {"bfloat16": "bfloat16", "float16": "float16"}
_MOST_ELEMENTS = 2**30
_MOST_COPIES = 5
_WARM_UP, _REPEATS = 3, 10
_WAIT_CYCLES = 1_000_000
"""Half a millisecond and more, in which a host launches a graph."""
_BOTH_FORMATS = ("programs", "passes")
"""Kinds that say themselves in which formats they are timed."""
_WARM = "warm"
"""The column that says that weights stayed in the cache."""
_MICRO = 1e3
"""Microseconds in a millisecond, the unit of events."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Time kernels and write the file; returns 0, or 2 with a message where that cannot be."""
    parser = argparse.ArgumentParser(
        prog="python -m scalewright.calibration.timing",
        description="time kernels or steps on this GPU as CSV for `scalewright calibrate`",
    )
    parser.add_argument("what", choices=tuple(_KINDS), help="what to time")
    parser.add_argument("--out", required=True, metavar="FILE.csv", help="file to write")
    parser.add_argument("--dtype", choices=tuple(_DTYPES), default="bfloat16", help="format")
    parser.add_argument(
        "--system", default="", metavar="NAME", help="name of the device in the file"
    )
    parser.add_argument("--warm", action="store_true", help="leave weights in the cache (gemm)")
    parser.add_argument("--shapes", type=int, metavar="N", help="only the first N shapes")
    options = parser.parse_args(arguments)
    try:
        if options.shapes is not None and options.shapes < 1:
            message = f"shapes: got {options.shapes}; allowed: 1 or more"
            raise InvalidError(message)
        _refuse_idle(options)
        torch = _torch()
        timed, columns = _KINDS[options.what]
        columns = (*columns, _WARM) if options.warm else columns
        with Path(options.out).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            for row in timed(torch, options):
                writer.writerow(row)
                file.flush()
    except ScalewrightError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"out: {options.out}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"stopped; {options.out} has what was timed", file=sys.stderr)
        return 130
    return 0


def _refuse_idle(options: argparse.Namespace) -> None:
    """Refuse options that change nothing of what is timed.

    Raises:
        InvalidError: One was given.
    """
    idle = (
        ("dtype", "bfloat16", options.what in _BOTH_FORMATS),
        (_WARM, False, options.what != "gemm"),
    )
    for name, usual, alone in idle:
        if alone and (got := getattr(options, name)) != usual:
            message = f"{name}: got {got}; allowed for {options.what}: {usual}"
            raise InvalidError(message)


def _torch() -> Any:  # noqa: ANN401 - PyTorch is an optional extra without types here
    try:
        torch: Any = import_module("torch")
    except ImportError as error:
        message = (
            "torch: cannot be imported; allowed: an installation of PyTorch (scalewright[torch])"
        )
        raise InvalidError(message) from error
    if not torch.cuda.is_available():
        message = "torch: got no GPU; allowed: a machine with one"
        raise InvalidError(message)
    return torch


def shapes() -> list[tuple[int, int, int]]:
    """List rows, columns and depths of the products to time, the cheapest first."""
    found = [
        (m, n, k)
        for m in _ROWS
        for n in _EDGES
        for k in _EDGES
        if max(m * n, m * k, n * k) <= _MOST_ELEMENTS
    ]
    return sorted(found, key=math.prod)


def copies(weight_bytes: float, cache_bytes: float, *, warm: bool) -> int:
    """Return how many copies of its weights a timed product goes round."""
    return 1 if warm else max(1, min(_MOST_COPIES, math.ceil(cache_bytes / weight_bytes)))


def _gemm(torch: Any, options: argparse.Namespace) -> Iterator[tuple[object, ...]]:  # noqa: ANN401
    system, cache = _device(torch, options)
    dtype = getattr(torch, _DTYPES[options.dtype])
    told = ("yes",) if options.warm else ()
    for m, n, k in shapes()[: options.shapes]:
        left = torch.randn((m, k), dtype=dtype, device="cuda")
        count = copies(2.0 * n * k, cache, warm=options.warm)
        weights = [torch.randn((n, k), dtype=dtype, device="cuda") for _ in range(count)]

        def products(left: Any = left, weights: Any = weights) -> None:  # noqa: ANN401
            for weight in weights:
                torch.nn.functional.linear(left, weight)

        time = _microseconds(torch, products)
        if time is not None:
            yield system, options.dtype, m, n, k, f"{time / count:.4f}", *told


def _attention(torch: Any, options: argparse.Namespace) -> Iterator[tuple[object, ...]]:  # noqa: ANN401
    system, _ = _device(torch, options)
    dtype = getattr(torch, _DTYPES[options.dtype])
    settings = [(b, s, h) for b in _BATCHES for s in _SEQUENCES for h in _HEADS]
    for batch, sequence, (heads, kv_heads, width) in settings[: options.shapes]:
        shape = (sequence, width)
        try:
            made = [
                torch.randn((batch, n, *shape), dtype=dtype, device="cuda")
                for n in (heads, kv_heads, kv_heads)
            ]
            query, keys, values = (x.requires_grad_() for x in made)

            def attend(query: Any = query, keys: Any = keys, values: Any = values) -> Any:  # noqa: ANN401
                return torch.nn.functional.scaled_dot_product_attention(
                    query, keys, values, is_causal=True, enable_gqa=True
                )

            times = forward_and_backward(torch, attend, [query, keys, values])
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            print("a shape is left out: this GPU has not the memory", file=sys.stderr)
            continue
        before = (
            system,
            options.dtype,
            "top_left",
            batch,
            sequence,
            heads,
            kv_heads,
            width,
            width,
            0,
        )
        for name, time in zip(("fwd", "bwd"), times, strict=True):
            yield *before, name, f"{time / _MICRO:.6f}"


def _steps(torch: Any, options: argparse.Namespace) -> Iterator[tuple[object, ...]]:  # noqa: ANN401
    system, _ = _device(torch, options)
    return timed_steps(torch, system, options.dtype, options.shapes)


def _programs(torch: Any, options: argparse.Namespace) -> Iterator[tuple[object, ...]]:  # noqa: ANN401
    system, _ = _device(torch, options)
    return timed_programs(torch, system, options.shapes)


def _passes(torch: Any, options: argparse.Namespace) -> Iterator[tuple[object, ...]]:  # noqa: ANN401
    return timed_passes(torch, options.shapes)


def _device(torch: Any, options: argparse.Namespace) -> tuple[str, float]:  # noqa: ANN401
    """Return the name of the device in the file and the bytes of its cache."""
    properties = torch.cuda.get_device_properties(0)
    return options.system or str(properties.name), float(getattr(properties, "L2_cache_size", 0))


def _microseconds(torch: Any, run: Callable[[], None]) -> float | None:  # noqa: ANN401
    """Return the median time of a run, or none where this GPU has not the memory."""
    try:
        return _median(torch, run)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        print("a shape is left out: this GPU has not the memory", file=sys.stderr)
        return None


def _median(torch: Any, run: Callable[[], None]) -> float:  # noqa: ANN401
    """Return the median time of a run, captured once so that launches do not limit it."""
    for _ in range(_WARM_UP):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return median_behind_waits(torch, graph.replay, _REPEATS, _WAIT_CYCLES)


_KINDS = {
    "gemm": (_gemm, _GEMM_COLUMNS),
    "attention": (_attention, _ATTENTION_COLUMNS),
    "step": (_steps, _STEP_COLUMNS),
    "programs": (_programs, _PROGRAM_COLUMNS),
    "passes": (_passes, _PASS_COLUMNS),
}

if __name__ == "__main__":
    sys.exit(main())
