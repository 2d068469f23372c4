"""What do caches over memory tiers save and cost where models are larger than memory?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text, need, need_count
from scalewright.planning.arguments import floats
from scalewright.planning.caching import popularity_field
from scalewright.planning.inputs import System

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_FIELDS = "fields by name, as in the list of this call"


@dataclass(frozen=True)
class ModelSwitching:
    """A batch of prompts served by a composition of models; no times where it does not fit."""

    fits: bool
    """Near and far memory hold all experts."""
    near_experts: int
    """Experts that near memory holds beside the router."""
    node_experts: int
    """Experts that near and far memory of the system hold."""
    nodes_all_near: int | None
    """Such systems that hold all experts near; None where not even one expert fits."""
    nodes: int | None
    """Such systems that hold all experts, near or far."""
    switch_s: float
    """Copy of one expert from far to near."""
    hit_rate: float | None
    """Prompts that find their expert near, in the long run."""
    router_s: float | None
    """The router, all prompts at once."""
    copy_s: float | None
    """Copies of a batch."""
    expert_s: float | None
    """One prompt by its expert."""
    total_s: float | None
    """The batch."""


def model_switching(
    system: System,
    experts: int,
    expert: Mapping[str, object],
    *,
    prompts: int = 1,
    router: Mapping[str, object] | None = None,
    popularity: ArrayLike = 0.0,
    policy: str = "lru",
    inclusive: bool = True,
    reserved_bytes: float = 0.0,
    copy_latency_s: float = 0.0,
    collective_s: float = 0.0,
    dtype: str = "bf16",
    machine: Mapping[str, float] | None = None,
) -> ModelSwitching:
    """Serve prompts by experts that are whole models: near memory caches those in far memory.

    All devices run one model at a time; the router takes all prompts at once, then each prompt's
    expert is copied unless it is near, and runs.

    Args:
        system: The machines: near memory is that of all devices, far memory that of the hosts.
        experts: Models to be served.
        expert: What a prompt asks of its expert: `parameters`, `input_tokens` (one pass), and,
            where given, `output_tokens` (a pass each), `weight_bytes` (else in `dtype`) and
            `decoder`: `layers`, `hidden`, `ffn`, `heads`, `fused`, by which launches,
            collectives and traffic between kernels that are not fused are counted.
        prompts: Prompts of a batch; each chooses its expert by itself.
        router: What a prompt asks of the router; none where left out.
        popularity: Weights of the experts, or the exponent of a Zipf law (0: all alike).
        policy: What near memory gives up: `lru`, `static`, `lfu`, `fifo`, `random` or `lifo`.
        inclusive: Far memory keeps copies of what is near.
        reserved_bytes: Near memory that no expert may take.
        copy_latency_s: What a copy takes beside its bytes.
        collective_s: A collective of one token's activations.
        dtype: Format of the arithmetic.
        machine: Figures in the place of the system's: `near_bytes`, `near_bytes_per_s`,
            `flops_per_s`, `launch_s`, `far_bytes`, `copy_bytes_per_s`.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need("inclusive", inclusive, bool, "True or False")
    asked: dict[str, object] = {
        "experts": need_count("experts", experts),
        "prompts": need_count("prompts", prompts),
        "popularity": _popularity(popularity, experts),
        "policy": policy,
        "inclusive": inclusive,
        "reserved_bytes": reserved_bytes,
        "copy_latency_s": copy_latency_s,
        "collective_s": collective_s,
        "dtype": dtype,
        "expert": _table("expert", expert),
    }
    if router is not None:
        asked["router"] = _table("router", router)
    return ModelSwitching(**_ask(_engine.model_switching, system, asked, machine))


def _ask(
    call: Any,  # noqa: ANN401 - a call of the engine
    system: System,
    asked: dict[str, object],
    machine: Mapping[str, float] | None,
) -> dict[str, Any]:
    need("system", system, System, "what scalewright.system(...) returns")
    if machine is not None:
        asked["machine"] = _table("machine", machine)
    return json.loads(call(system.cluster, json_text("request", asked)))


def _table(field: str, value: object) -> dict[str, object]:
    need(field, value, Mapping, _FIELDS)
    return dict(value)  # type: ignore[call-overload]


def _popularity(popularity: ArrayLike, objects: int) -> dict[str, Any]:
    law = popularity_field(popularity, objects)
    return law or {"measured": floats("popularity", popularity).tolist()}
