"""What do zero-bubble schedules and interleaving gain, beside what Zero Bubble measured?"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from scalewright.config import Training
from scalewright.planning import Model, estimate, model
from scalewright.planning import system as machines
from scalewright.reproductions.claims import compared
from scalewright.reproductions.schedules.rows import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Result = dict[str, Any]
_SYSTEM, _SEQUENCE = "dgx-a100-80gb", 1024


def zero_bubble() -> Iterator[Result]:
    """Predict rates of 1F1B and gains over it.

    ZB-1p and ZB-2p are found by search under the activations of 1F1B and twice those; ZB-H1 and
    ZB-H2, made by hand for the same two limits, stand for them.
    """
    return compared("zero_bubble", read("zero_bubble"), _predicted)


def _predicted(row: Mapping[str, str]) -> tuple[float, Result]:
    names = ("layers", "hidden", "heads", "micro_batch", "stages", "micro_batches")
    shape = tuple(int(row[name]) for name in names)
    step, details = _step(row["schedule"], shape)
    if row["kind"] == "gain":
        return _step("1f1b", shape)[0] / step, details
    _, _, _, micro_batch, stages, micro_batches = shape
    return micro_batch * micro_batches / stages / step, details


@cache
def _step(name: str, shape: tuple[int, ...]) -> tuple[float, Result]:
    layers, hidden, heads, micro_batch, stages, micro_batches = shape
    table = {
        **model("gpt3-1.3b").table,
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "ffn": 4 * hidden,
    }
    plan: dict[str, object] = {
        "pipeline": stages,
        "micro_batch": micro_batch,
        "schedule": name,
        # all runs, as examples/pretrain_zero_bubble.sh in sail-sg/zero-bubble-pipeline-parallelism
        # sets them: --no-overlap-p2p-communication, one layer a chunk, fp16, and Megatron's
        # dropout, which it turns off in tests of numbers alone; the paper's sizes hold one table
        "overlap_pipeline": False,
    }
    if name == "interleaved":
        # one layer a chunk, the ends with one less
        plan["interleave"] = -(-layers // stages)
    job = Training(micro_batch * micro_batches, _SEQUENCE, precision="fp16", dropout=True)
    on = machines(_SYSTEM, stages)
    found = estimate(Model("gpt", table), on, plan, job)
    return found.step_time_s, {"step_time_s": found.step_time_s, "fits": found.fits}
