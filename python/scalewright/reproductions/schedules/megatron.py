"""What do interleaving and split sends gain, beside what Megatron-LM and torchtitan print?"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from scalewright.config import Plan, Training
from scalewright.errors import UnknownNameError
from scalewright.planning import collective, model, schedule, slice_times
from scalewright.planning import system as machines
from scalewright.reproductions.claims import compared
from scalewright.reproductions.schedules.rows import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Result = dict[str, Any]
_BATCHES = (12, 24, 36, 48, 60)
"""Of figures 12 and 18."""
_STAGES, _TENSOR, _SEQUENCE = 12, 8, 2048
_CHUNKS = (2, 4, 8)
"""What eight layers a stage can be cut into; the paper does not print which."""
_ELEMENT_BYTES = 2


def megatron() -> Iterator[Result]:
    """Predict each gain."""
    return compared("megatron", read("megatron"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    kind = row["kind"]
    if kind not in _KINDS:
        message = f"kind: got '{kind}'; allowed: {', '.join(_KINDS)}"
        raise UnknownNameError(message)
    return _KINDS[kind]()


def _gains(split: bool) -> dict[int, float]:
    """Return how much faster the best interleaved step is than 1F1B, by batch."""
    return {batch: _step(batch, 1, True) / _best(batch, split) for batch in _BATCHES}


def _best(batch: int, split: bool) -> float:
    return min(_step(batch, chunks, split) for chunks in _CHUNKS)


def _interleaving() -> tuple[float, Result]:
    gains = _gains(split=True)
    return max(gains.values()), {"gain_by_batch": gains}


def _closing() -> tuple[float, Result]:
    gains = _gains(split=True)
    listed = list(gains.values())
    falls = all(late < early for early, late in pairwise(listed))
    return float(falls), {"gain_by_batch": gains}


def _split_sends() -> tuple[float, Result]:
    gains = {batch: _best(batch, False) / _best(batch, True) for batch in _BATCHES}
    return max(gains.values()), {"gain_by_batch": gains}


def _default_ahead() -> tuple[float, Result]:
    batch = _BATCHES[-1]
    default = _step(batch, 1, False)
    ahead = all(default < _step(batch, chunks, False) for chunks in _CHUNKS)
    return float(ahead), {"default_s": default, "interleaved_s": _best(batch, False)}


_KINDS: dict[str, Callable[[], tuple[float, Result]]] = {
    "interleaving": _interleaving,
    "closing": _closing,
    "split_sends": _split_sends,
    "default_ahead": _default_ahead,
}


@cache
def _step(batch: int, chunks: int, split: bool) -> float:
    """Return the exact step of GPT-3 175B on 96 A100 with one sequence a micro-batch.

    Senders wait: Megatron-LM of 2021 waits for its sends before it computes on. Where a send is
    `split`, each tensor rank sends its part of the tensor, and the receivers gather the parts.
    """
    import numpy as np

    gpt, on = model("gpt3-175b"), machines("selene", _STAGES * _TENSOR)
    name = "1f1b" if chunks == 1 else "interleaved"
    plan = Plan(
        tensor=_TENSOR,
        pipeline=_STAGES,
        interleave=chunks,
        schedule=name,
        recompute="full",
        overlap_tensor=False,
    )
    job = Training(batch, _SEQUENCE, precision="fp16", flash_attention=False, dropout=True)
    passes = slice_times(gpt, on, plan, job, [(_SEQUENCE, 0)])
    first, inner, last = np.stack([passes.forward_s[0], passes.backward_s[0]], axis=1)
    between = _STAGES * chunks - 2
    forward, backward = np.array([first, *[inner] * between, last]).T
    hidden: Any = gpt.table["hidden"]
    whole = float(_SEQUENCE * hidden * _ELEMENT_BYTES)
    part = whole / _TENSOR if split else whole
    hop = collective("send_receive", part, on, 2, stride=_TENSOR).time_s
    if split:
        hop = hop + collective("all_gather", whole, on, _TENSOR).time_s
    return schedule(
        name,
        stages=_STAGES,
        micro_batches=batch,
        chunks=chunks if chunks > 1 else None,
        forward_s=forward,
        backward_s=backward,
        hop_s=float(hop),
        sends="blocking",
    ).makespan_s
