"""What do caches over memory tiers save and cost where models are larger than memory?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalewright import _engine
from scalewright.config import json_text, named_as, need, need_count, need_table, need_tables
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats
from scalewright.planning.caching import LAW_PATHS, popularity_field
from scalewright.planning.inputs import System
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

_FIELDS = "fields by name, as in the list of this call"
_LEVELS = "a list of tables with name, capacity_bytes and bytes_per_s"


@dataclass(frozen=True)
class ModelSwitching(Answer):
    """A batch of prompts served by a composition of models; no times where it does not fit.

    Attributes:
        fits: Near and far memory hold all experts.
        near_experts: Experts that near memory holds beside the router.
        node_experts: Experts that near and far memory of the system hold.
        nodes_all_near: Such systems that hold all experts near; None where not even one expert
            fits.
        nodes: Such systems that hold all experts, near or far.
        switch_s: Copy of one expert from far to near.
        hit_rate: Prompts that find their expert near, in the long run.
        router_s: The router, all prompts at once.
        copy_s: Copies of a batch.
        expert_s: One prompt by its expert.
        total_s: The batch.
    """

    fits: bool
    near_experts: int
    node_experts: int
    nodes_all_near: int | None
    nodes: int | None
    switch_s: float
    hit_rate: float | None
    router_s: float | None
    copy_s: float | None
    expert_s: float | None
    total_s: float | None


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
    return ModelSwitching(**_ask(_engine.model_switching, system, asked, machine), _rests_on=system)


@dataclass(frozen=True)
class Gating:
    """One way of gating; amounts of a device.

    Attributes:
        slots: Slots that a layer's experts work on.
        activation_bytes: Mask, inputs, inner activations and outputs of a layer's experts.
        experts_s: The layers with experts, of a batch.
        batch_s: A batch, what lies outside of experts included.
    """

    slots: float
    activation_bytes: float
    experts_s: float
    batch_s: float


@dataclass(frozen=True)
class ExpertBuffering(Answer):
    """Gating and buffers of a mixture of experts; amounts of a device.

    Attributes:
        fixed: As many slots for every expert, used or not.
        dynamic: As many tokens as chose it.
        speedup: Batches of dynamic gating in the time of one of static gating.
        static_bytes: Weights, all of the device's experts held.
        buffered_bytes: Weights with buffers.
        active_experts: Experts that a batch asks for in a layer, on the device whose are asked for
            most.
        hit_rate: Of them, those that the buffer holds, first requests left out.
        copy_s: Copies of the others a batch, hidden by nothing.
        least_copy_s: The least that a buffer of that size could copy, the future being known.
    """

    fixed: Gating
    dynamic: Gating
    speedup: float
    static_bytes: float
    buffered_bytes: float
    active_experts: float
    hit_rate: float
    copy_s: float
    least_copy_s: float

    @property
    def saved(self) -> float:
        """Return by which factor buffers make weights smaller."""
        return self.static_bytes / self.buffered_bytes


def expert_buffering(
    system: System,
    *,
    layers: int,
    experts: int,
    top_k: int,
    hidden: int,
    ffn: int,
    tokens: int,
    capacity: float,
    products: int = 2,
    other_parameters: float = 0.0,
    buffered: int | None = None,
    policy: str = "lifo",
    exponent: float = 0.0,
    all_to_all_bytes_per_s: float | None = None,
    dtype: str = "fp16",
    seed: int = 0,
    machine: Mapping[str, float] | None = None,
) -> ExpertBuffering:
    """Serve a mixture of experts, expert-parallel over all devices, with buffers for experts.

    Args:
        system: The machines: devices divide the experts, hosts hold what buffers do not.
        layers: Layers with experts.
        experts: Experts of a layer.
        top_k: Experts that a token meets.
        hidden: Width of the residual stream.
        ffn: Width of an expert.
        tokens: Tokens of a batch on each device.
        capacity: Slots that static gating gives each expert, over the tokens.
        products: Matrix products of an expert: 2, or 3 where it is gated.
        other_parameters: Elements outside of experts, which every device holds.
        buffered: Experts of a layer that a device holds; all of its own where left out.
        policy: What a full buffer gives up.
        exponent: Of the Zipf law by which tokens choose experts; 0 for all alike.
        all_to_all_bytes_per_s: Rate of a device in an all-to-all; left out: it costs nothing.
        dtype: Format of weights and activations.
        seed: Of the draws by which batches choose.
        machine: Figures in the place of the system's, as in `model_switching`.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    held = None if buffered is None else need_count("buffered", buffered)
    asked: dict[str, object] = {
        "layers": need_count("layers", layers),
        "experts": need_count("experts", experts),
        "top_k": need_count("top_k", top_k),
        "hidden": need_count("hidden", hidden),
        "ffn": need_count("ffn", ffn),
        "tokens": need_count("tokens", tokens),
        "products": _products(products),
        "capacity": capacity,
        "other_parameters": other_parameters,
        "buffered": held,
        "policy": policy,
        "exponent": exponent,
        "all_to_all_bytes_per_s": all_to_all_bytes_per_s,
        "dtype": dtype,
        "seed": seed,
    }
    need("system", system, System, "what scalewright.system(...) returns")
    own = -(-experts // system.devices)
    if held is not None and held > own:
        message = f"buffered: got {held}; allowed: 1 to {own}, the experts of a layer on a device"
        raise InvalidError(message)
    found = _ask(_engine.expert_buffering, system, asked, machine)
    ways = {way: Gating(**found.pop(way)) for way in ("fixed", "dynamic")}
    return ExpertBuffering(**ways, **found, _rests_on=system)


@dataclass(frozen=True)
class MemoryLevel:
    """What a level of memory does for a batch.

    Attributes:
        name: Name of the level.
        hit_rate: Accesses that this level or a nearer one serves, as a share of all.
        share: Accesses that this level serves, as a share of all.
        read_bytes: Bytes that are read from it.
        written_bytes: What comes in from farther levels, and changed objects that go back.
        time_s: How long it is busy.
    """

    name: str
    hit_rate: float
    share: float
    read_bytes: float
    written_bytes: float
    time_s: float


@dataclass(frozen=True)
class CacheTime(Answer):
    """A batch of accesses over levels of memory; no times where the last level is too small.

    Attributes:
        fits: The last level holds all objects.
        total_bytes: Bytes that are read from all levels.
        levels: The nearest first.
        time_s: Seconds that the reads take.
        access_s: The batch over its accesses.
        slowest: Name of the level that is busy the longest.
    """

    fits: bool
    total_bytes: float
    levels: tuple[MemoryLevel, ...]
    time_s: float | None
    access_s: float | None
    slowest: str | None


def cache_time(
    levels: Sequence[Mapping[str, object]],
    popularity: ArrayLike,
    *,
    object_bytes: float,
    accesses: float,
    objects: int | None = None,
    policy: str = "lru",
    written_share: float = 0.0,
    overlapped: bool = True,
) -> CacheTime:
    """Time a batch of independent accesses over levels of memory, each of which caches the next.

    Args:
        levels: From the nearest to the one that holds everything: `name`, `capacity_bytes`,
            `bytes_per_s`, and, where given, `latency_s` and accesses `in_flight` that share it.
        popularity: The exponent of a Zipf law over `objects` objects, or a weight for each object.
        object_bytes: Size of an object.
        accesses: Accesses of a batch.
        objects: Objects of a Zipf law.
        policy: What full levels give up.
        written_share: Share of accesses that change their object, which must go back.
        overlapped: Levels work beside one another.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need("overlapped", overlapped, bool, "True or False")
    asked = {
        "levels": need_tables("levels", levels, _LEVELS),
        "popularity": _popularity(popularity, objects),
        "object_bytes": object_bytes,
        "accesses": accesses,
        "policy": policy,
        "written_share": written_share,
        "overlapped": overlapped,
    }
    with named_as(LAW_PATHS):
        found = json.loads(_engine.cache_time(json_text("", asked)))
    return CacheTime(levels=_levels(found), **found)


@dataclass(frozen=True)
class EmbeddingCache(Answer):
    """Rows of embedding tables over memories; no rates where they do not fit.

    Attributes:
        fits: The farthest memory holds all rows.
        rows: Rows of all tables.
        row_bytes: A row with its optimizer state.
        total_bytes: Bytes of all tables.
        levels: `near`, `far` and `storage`.
        time_s: Look-ups of a batch, and updates where rows are trained.
        samples_per_s: Samples a second.
        slowest: The level that is busy the longest.
    """

    fits: bool
    rows: int
    row_bytes: float
    total_bytes: float
    levels: tuple[MemoryLevel, ...]
    time_s: float | None
    samples_per_s: float | None
    slowest: str | None


def embedding_cache(
    system: System,
    *,
    parameters: float,
    width: int,
    samples: int,
    lookups_per_sample: float,
    exponent: float,
    dtype: str = "fp16",
    optimizer: str = "none",
    policy: str = "lru",
    reserved_bytes: float = 0.0,
    storage: Mapping[str, float] | None = None,
    overlapped: bool = True,
    machine: Mapping[str, float] | None = None,
) -> EmbeddingCache:
    """Look up rows of embedding tables that near memory, hosts' memory and storage hold.

    Args:
        system: The machines; tables are spread evenly over all devices.
        parameters: Elements of all tables.
        width: Elements of a row.
        samples: Samples of a batch, over all devices.
        lookups_per_sample: Rows that a sample looks up.
        exponent: Of the Zipf law of rows.
        dtype: Format of the elements.
        optimizer: `none` (rows are read only), `sgd`, `row_wise_adagrad`, `adagrad` or `adam`.
        policy: What full memory gives up.
        reserved_bytes: Near memory that tables may not take.
        storage: Of all nodes together: `capacity_bytes`, `bytes_per_s`, and, where given,
            `latency_s` and `in_flight`.
        overlapped: Memories work beside one another.
        machine: Figures in the place of the system's, as in `model_switching`.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need("overlapped", overlapped, bool, "True or False")
    asked: dict[str, object] = {
        "parameters": parameters,
        "width": need_count("width", width),
        "samples": need_count("samples", samples),
        "lookups_per_sample": lookups_per_sample,
        "exponent": exponent,
        "dtype": dtype,
        "optimizer": optimizer,
        "policy": policy,
        "reserved_bytes": reserved_bytes,
        "overlapped": overlapped,
    }
    if storage is not None:
        asked["storage"] = _table("storage", storage)
    found = _ask(_engine.embedding_cache, system, asked, machine)
    return EmbeddingCache(levels=_levels(found), **found, _rests_on=system)


@dataclass(frozen=True)
class NeuronCache(Answer):
    """A token of a model on flash; no times where it does not fit.

    Attributes:
        model_bytes: Bytes of the model's weights.
        fits_near: Near memory holds the model.
        fits_far: Near memory and DRAM hold it.
        fits: They hold it with flash.
        far_share: Share of the layers that DRAM holds.
        hit_rate: Active neurons that near memory has.
        near_s: Near memory is read.
        copy_s: The link carries neurons.
        storage_s: Flash delivers layers.
        token_s: Seconds for a token.
        tokens_per_s: Tokens a second.
    """

    model_bytes: float
    fits_near: bool
    fits_far: bool
    fits: bool
    far_share: float
    hit_rate: float | None
    near_s: float | None
    copy_s: float | None
    storage_s: float | None
    token_s: float | None
    tokens_per_s: float | None


def neuron_cache(
    system: System,
    *,
    layers: int,
    ffn_parameters: float,
    other_parameters: float,
    active_share: float = 1.0,
    active_bits: float | None = None,
    repeated_share: float = 0.0,
    loaded_share: float = 1.0,
    storage_bytes: float = 0.0,
    storage_bytes_per_s: float = 0.0,
    reserved_bytes: float = 0.0,
    far_reserved_bytes: float = 0.0,
    dtype: str = "fp16",
    overlapped: bool = True,
    machine: Mapping[str, float] | None = None,
) -> NeuronCache:
    """Generate a token with an LRU cache of neurons near, of layers in DRAM, and all on flash.

    Args:
        system: One device and its host.
        layers: Layers.
        ffn_parameters: Elements of feed-forward networks, all layers.
        other_parameters: All others, which stay near.
        active_share: Share of neurons that a token uses.
        active_bits: Bits of their weights on average; those of `dtype` where left out.
        repeated_share: Share of them that the token before used too.
        loaded_share: Share of a layer's bytes that flash delivers where DRAM lacks the layer.
        storage_bytes: How much flash holds; 0: there is none.
        storage_bytes_per_s: Its rate.
        reserved_bytes: Near memory that weights may not take.
        far_reserved_bytes: DRAM that layers may not take.
        dtype: Format in which the model is kept.
        overlapped: Flash and link work ahead while layers compute.
        machine: Figures in the place of the system's, as in `model_switching`.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    need("overlapped", overlapped, bool, "True or False")
    asked: dict[str, object] = {
        "layers": need_count("layers", layers),
        "ffn_parameters": ffn_parameters,
        "other_parameters": other_parameters,
        "active_share": active_share,
        "active_bits": active_bits,
        "repeated_share": repeated_share,
        "loaded_share": loaded_share,
        "storage_bytes": storage_bytes,
        "storage_bytes_per_s": storage_bytes_per_s,
        "reserved_bytes": reserved_bytes,
        "far_reserved_bytes": far_reserved_bytes,
        "dtype": dtype,
        "overlapped": overlapped,
    }
    return NeuronCache(**_ask(_engine.neuron_cache, system, asked, machine), _rests_on=system)


def _products(products: object) -> int:
    count = need_count("products", products)
    if count not in {2, 3}:
        message = f"products: got {count}; allowed: 2, or 3 where experts are gated"
        raise InvalidError(message)
    return count


def _levels(found: dict[str, Any]) -> tuple[MemoryLevel, ...]:
    """Take the levels out of an answer."""
    return tuple(MemoryLevel(**level) for level in found.pop("levels"))


def _ask(
    call: Any,  # noqa: ANN401 - a call of the engine
    system: System,
    asked: dict[str, object],
    machine: Mapping[str, float] | None,
) -> dict[str, Any]:
    need("system", system, System, "what scalewright.system(...) returns")
    if machine is not None:
        asked["machine"] = _table("machine", machine)
    with named_as(LAW_PATHS):
        return json.loads(call(system.cluster, json_text("", asked)))


def _table(field: str, value: object) -> dict[str, object]:
    return need_table(field, value, _FIELDS)


def _popularity(popularity: ArrayLike, objects: int | None) -> dict[str, Any]:
    law = popularity_field(popularity, objects)
    return law or {"measured": floats("popularity", popularity).tolist()}
