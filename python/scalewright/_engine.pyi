"""The compiled engine: opaque inputs, and few calls that do much."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Cluster",
    "Job",
    "Search",
    "Workload",
    "assign",
    "bus_factors",
    "cache_hits",
    "cache_time",
    "codesign",
    "collective_choices",
    "collective_lines",
    "collective_times",
    "constants",
    "controllers",
    "embedding_cache",
    "estimate",
    "estimate_many",
    "exchange",
    "expert_buffering",
    "explain",
    "frozen_layers",
    "kernel_times",
    "largest_model",
    "layer_relay",
    "lru_curve",
    "memories",
    "metric",
    "mitigation_copies",
    "model_switching",
    "neuron_cache",
    "offload",
    "offload_efficiency",
    "pairs",
    "partition_layers",
    "place_plan",
    "place_tensors",
    "progressive_freezing",
    "rematerialise",
    "rematerialise_stage",
    "retained",
    "robust",
    "schedule_rules",
    "schedule_run",
    "search",
    "search_unlike",
    "sensitivity",
    "serving_blocks",
    "serving_policy",
    "serving_problem",
    "simulate_cache",
    "simulate_collective",
    "simulate_msccl",
    "simulate_step",
    "slice_times",
    "swarm",
    "swarm_utilization",
    "token_slices",
    "uneven",
    "version",
]

@final
class Workload:
    """A model, read from the JSON text of its config."""

    def __new__(cls, json: str) -> Workload: ...
    def parameters(self) -> dict[str, int]:
        """Parameter counts by name; all but `padded_total` use the unpadded vocabulary."""

@final
class Cluster:
    """A number of devices of one system, read from JSON text."""

    def __new__(cls, json: str) -> Cluster: ...
    def levels(self) -> str:
        """Return the fabric levels, innermost first: a JSON list in SI units, with defaults."""

@final
class Job:
    """A model to be trained on a cluster: what stays the same while plans vary."""

    def __new__(
        cls, workload: Workload, cluster: Cluster, training: str, memory_margin: float = 0.0
    ) -> Job: ...

def estimate(job: Job, plan: str) -> str:
    """Price one plan.

    The JSON text holds `estimate`, or `illegal` with the rule that is broken.
    """

def explain(job: Job, plan: str) -> str:
    """Explain the terms of a plan's time: a JSON list of formula, inputs and source by term."""

def metric(job: Job, estimate: str, request: str) -> float:
    """Return the figure that a paper would print for an estimate of `estimate` or `search`.

    The request's JSON text holds `metric` (as `mfu`), `unit`, `flops` (`model`, `model_causal`,
    `model_ungated`, `model_hybrid`, `hardware`, `hardware_causal`, `hardware_layers`, `palm` or
    `parameters`), and optionally `recomputed` (`as_run` or `third_more`) and `peak`.
    """

@final
class Search:
    """A search of a job's plan space, which can be run in parts, here or elsewhere.

    Parts and incumbents are JSON text. Parts of other units, joined in any order, give what one
    walk of all of them finds.
    """

    def __new__(cls, job: Job, space: str, limits: str) -> Self:
        """List the units of a space and bound each."""

    @property
    def units(self) -> int:
        """Units, numbered from the one whose quickest plan may be quickest of all."""

    @property
    def waves(self) -> list[int]:
        """Where waves of units begin, and where the last one ends.

        Waves run in turn, each with those before as incumbent, leave the same counts anywhere.
        """

    fields: ClassVar[list[str]]
    """Names of the columns of `rows`."""

    names: ClassVar[dict[str, list[str]]]
    """Names that the numbers of `rows` stand for, by column, in their order."""

    def bound(self, first: int) -> float:
        """Return what no plan of the units from `first` on beats, in the objective's unit."""

    def run(
        self,
        first: int,
        last: int,
        incumbent: str | None = None,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> str:
        """Walk units from `first` up to but without `last`.

        The incumbent, any part, lets more be excluded; it changes counts but not what is found.
        """

    def merge(self, parts: list[str]) -> str:
        """Put parts of other units together."""

    def report(self, part: str, *, progress: Callable[[int, int], object] | None = None) -> str:
        """Return the answer that a part stands for, as `search` does.

        Where Ctrl-C comes meanwhile, what is known of it by then, with `stopped` true.
        """

    def rows(
        self, unit: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.float64]]:
        """Return every plan of a unit that fits: plan fields, seconds a step, bytes on a rank."""

def search(
    job: Job,
    space: str,
    limits: str,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> str:
    """Search a plan space. The JSON text holds the best plans, the front and the counts."""

def constants(cluster: Cluster) -> str:
    """Return the numbers of a cluster that pricing reads: a list of name, value, unit and kind."""

def sensitivity(
    job: Job,
    plan: str,
    space: str,
    asked: str,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> str:
    """Price a plan with each constant made larger, then smaller.

    The JSON text of what is asked holds `change`, a share, and `search`: whether the best plan of
    the space is searched anew each time.
    """

def robust(
    job: Job,
    space: str,
    asked: str,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> str:
    """Price the best plans of a space under draws of the constants, and say how each fares.

    The JSON text of what is asked holds `pool`, `samples`, `seed`, `tolerance` and `uncertainty`, a
    share by the name of a constant.
    """

def search_unlike(
    jobs: Sequence[Job],
    between: str | None,
    space: str,
    limits: str,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> str:
    """Search plans on groups of unlike devices, one job each, joined by a fabric level.

    The JSON text holds the best plans with their stages, and the counts.
    """

def codesign(
    job: Job,
    clusters: Sequence[Cluster],
    space: str,
    asked: str,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[str, NDArray[np.uint8], NDArray[np.float64]]:
    """Search the best plan of a space on every variant of a grid of machines.

    The JSON text of what is asked holds `grid` (`devices`, and `axes` of a `constant` and its
    `steps`), `budget`, `objective`, `top`, `front` and `method`. Returns the answer, what became of
    each variant, and a variants x measures array.
    """

def estimate_many(
    job: Job,
    columns: Sequence[str],
    rows: NDArray[np.int64],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.uint8]]:
    """Price many plans: `rows` has a plan per row and a plan field per column.

    Returns step times in seconds, bytes on the fullest rank, and a status by plan: 0 fits,
    1 does not fit, 2 breaks a rule (time and bytes are then infinite).
    """

def kernel_times(
    device: str, request: str, columns: dict[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Times in seconds of kernels of one kind on one device, an element for each shape.

    The JSON request holds `kernel` and its formats; one number in a column stands for all shapes.
    """

def collective_times(
    cluster: Cluster,
    request: str,
    buffer_bytes: NDArray[np.float64],
    ranks: NDArray[np.uint32],
    bandwidths: NDArray[np.float64] | None = None,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> NDArray[np.float64]:
    """Times in seconds of a collective, an element for each buffer.

    The JSON request holds `collective`, `stride`, `level`, `algorithms`, `forbid`, `protocol` and
    `in_place`. One number of ranks or one bandwidth stands for all buffers.
    """

def collective_choices(
    cluster: Cluster,
    request: str,
    buffer_bytes: NDArray[np.float64],
    ranks: NDArray[np.uint32],
    bandwidths: NDArray[np.float64] | None = None,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Winner, runner-up, limit and lower bound for each buffer, as arrays by name.

    The codes of `algorithm`, `protocol`, `runner_up`, `runner_up_protocol` and `binding` are places
    in `names`, those of `level` places in `levels`.
    """

def collective_lines(
    cluster: Cluster, request: str, ranks: int, bandwidth: float | None = None
) -> str:
    """All lines that compete on a group, and the sizes at which the winner changes, as JSON."""

def bus_factors(collective: str, ranks: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Bus bandwidth over algorithm bandwidth for each number of ranks, as in nccl-tests."""

def uneven(cluster: Cluster, stride: int, ranks: int, parts: NDArray[np.float64]) -> str:
    """An all-to-all of unequal parts, a row for each sender, as JSON."""

def exchange(cluster: Cluster, request: str) -> str:
    """Price a compressed or rarer exchange of a buffer against a plain all-reduce each step.

    The request's JSON text holds `ranks`, `stride`, `dtype`, `buffer_bytes`, and `payload`,
    `policy` or both; the answer's `steps`, `full_rounds`, `compressed_rounds`, `rounds_per_step`,
    `bits_per_element`, `sent_bytes`, `plain_sent_bytes`, `time_s`, `passes_time_s`, `worst_time_s`,
    `plain_time_s`, `losing_bytes`, `break_even_bytes` and `mixing`.
    """

def controllers(request: str) -> str:
    """Dispatch a step's program under controllers, all of them where none is named.

    The request's JSON text holds `controllers` and `setting`: `program`, `hosts`,
    `devices_per_host`, `islands`, `costs`, `transfers`, `input` and `prefetch`. The answer is a
    list, a controller each: times that end in `_s`, `utilization`, `binds`, `controller`, `source`.
    """

def simulate_collective(cluster: Cluster, request: str, ranks: int, buffer_bytes: float) -> str:
    """Run the one algorithm of a request on the links, all groups at once, beside its closed form.

    The JSON text holds `time_s`, `closed_form_s`, `transfers` and `busiest_link_share`.
    """

def pairs(
    request: str,
    bandwidths: NDArray[np.float64],
    latencies: NDArray[np.float64],
    ports_out: NDArray[np.float64],
    ports_in: NDArray[np.float64],
) -> str:
    """Run a collective over links given pair by pair, the fastest way.

    The matrices have a row for each sender, joined; ports are empty where unlimited. The request's
    JSON text holds `collective`, `ranks`, `buffer_bytes`, `algorithm`, `root` and `chain`; the
    answer's `time_s`, `algorithm`, `order`, `edges`, `is_exact`, `slowest_link`, `lower_bound_s`
    and `relative_gap`.
    """

def schedule_rules() -> str:
    """Every schedule as JSON text: its name, its source and what its rule says of it."""

def schedule_run(request: str) -> dict[str, Any]:
    """Run a schedule or an order over stage times.

    The request's JSON text holds `name`, `stages`, `micro_batches`, `chunks`, `window`, lists
    `forward_s`, `backward_s`, `weight_s`, `hidden_s` and `hop_s`, `sends`, `sizes`, `feedback_s`,
    `order`, `cut_stages`, `whole_backward` and `simulate`. The answer holds numbers, arrays by
    device in `devices` and by operation in `operations`, whose `work` is a place in `works`, and
    `order`, a text for each device.
    """

def simulate_msccl(cluster: Cluster, xml: str, buffer_bytes: float) -> str:
    """Run an MSCCL algorithm on the links of a cluster, rank `i` on device `i`.

    The JSON text holds `algorithm`, `collective`, `ranks`, `messages`, `sent_bytes`, `time_s`,
    `algorithm_bandwidth_bytes_per_s` and `busiest_link_share`.
    """

def version() -> str:
    """Return the engine's version."""

def partition_layers(request: str) -> str:
    """Cut layers into pipeline stages.

    The request's JSON text holds `layers`, `devices`, `links`, `micro_batches` and `permute`; the
    answer's `partition`, or `infeasible` with the reason.
    """

def token_slices(request: str) -> str:
    """Cut sequences into slices for a pipeline over tokens.

    The request's JSON text holds `tables` (`sequences`, `times_s`), `sequences`, `stages` and
    `epsilon_s`; the answer is `null` where no slicing is allowed.
    """

def slice_times(
    job: Job, plan: str, slices: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Forward and backward seconds of slices, each a pair of tokens and tokens in front.

    Three elements for each slice: on the first, an inner and the last virtual stage.
    """

def layer_relay(request: str) -> str:
    """Time a step on one device whose weights come from the host a layer at a time.

    The request's JSON text holds `layers`, `micro_batches`, `buffers` and `offload_inputs`.
    """

def memories(cluster: Cluster) -> str:
    """Return the memories that a device reaches: `lanes`, and `places` with what they cross."""

def retained(cell: str) -> str:
    """Return stability, energy of writes and refreshes of cells of a chosen retention, as JSON.

    The cell's JSON text holds `retention_s`, and may hold `stated_retention_s`,
    `write_j_per_byte` and `attempt_s`.
    """

def place_plan(
    job: Job, plan: str, wish: str, *, progress: Callable[[int, int], object] | None = None
) -> str:
    """Place the tensors of a plan's rank over memory tiers; the answer is JSON.

    The wish's JSON text may hold `objective`, `stage`, `whole`, `years`, `instants`,
    `relative_gap`, `nodes` and `tiers`.
    """

def place_tensors(
    request: str,
    cluster: Cluster | None = None,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> str:
    """Place given tensors over given tiers, or over those of a cluster's device.

    The request's JSON text holds `problem`, and without a cluster `tiers`, `paths`, `main`, `host`
    and `node_devices`; `relative_gap` and `nodes` say when the proof may stop.
    """

def rematerialise(request: str) -> str:
    """Find what a chain of given blocks should keep, compute again or move.

    The request's JSON text holds `blocks`, `budget_bytes`, `output_bytes`, `link`, `slots` and
    `width`.
    """

def rematerialise_stage(job: Job, plan: str, asked: str) -> str:
    """Find what a stage of a plan should keep, compute again or move to its host.

    The JSON text `asked` holds `stage`, `budget_bytes`, `offload`, `slots` and `width`.
    """

def simulate_step(
    job: Job, plan: str, *, progress: Callable[[int, int], object] | None = None
) -> dict[str, Any]:
    """Simulate a step of a plan task by task on one rank of each stage.

    `engines` holds stage and name of each resource, `labels` and `categories` names by number;
    `engine`, `label`, `category`, `micro_batch`, `virtual_stage`, `start_s` and `end_s` are arrays
    over tasks.
    """

def frozen_layers(request: str) -> list[int]:
    """Return the layers frozen in each epoch.

    The request's JSON text holds `freezable`, `alpha`, `epochs` and `every`.
    """

def progressive_freezing(request: str) -> str:
    """Time training in which layers freeze and pipelines shrink, against training without.

    The request's JSON text holds `layers`, `frozen`, `nodes`, `devices_per_node`, `pipeline`,
    `samples`, `batch`, `chunks`, `link`, `all_reduce`, `frozen_share`, `cache_s`, `transition_s`,
    `parts` and `schedule`.
    """

def swarm(request: str, *, progress: Callable[[int, int], object] | None = None) -> str:
    """Run a pipeline of unreliable, unlike peers.

    The request's JSON text holds `stages`, `trainers`, `in_flight`, `forward_share`, `delay_s`,
    `service`, `routing`, `failures_per_s`, `joins_per_s`, `join_speeds`, `rebalance_s`, `move_s`,
    `duration_s`, `runs` and `seed`.
    """

def swarm_utilization(request: str) -> float:
    """Return the share of the time in which a device computes that waits for its transfers.

    The request's JSON text holds `compute_s`, `bytes`, `bandwidth_bytes_per_s`, `latency_s` and
    `messages`.
    """

def mitigation_copies(mitigation: str, delays: Sequence[int]) -> list[int]:
    """Tensors of the weights' size that a stage holds against stale weights, by its delay."""

def cache_hits(
    request: str,
    capacities: NDArray[np.float64],
    weights: NDArray[np.float64],
    sizes: NDArray[np.float64],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, NDArray[np.float64]]:
    """Return expected hits for each capacity, as arrays by name.

    The JSON request holds `policy` and, where `weights` is empty, `popularity`. `sizes` may be
    empty.
    """

def simulate_cache(
    request: str,
    trace: NDArray[np.uint32],
    sizes: NDArray[np.uint64],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> str:
    """Run a trace of object numbers through an empty cache: counts and bytes as JSON.

    The JSON request holds `policy`, `capacity` and `seed`. `sizes` may be empty.
    """

def lru_curve(
    trace: NDArray[np.uint32], *, progress: Callable[[int, int], object] | None = None
) -> NDArray[np.uint64]:
    """Return hits of LRU with room for 0, 1, 2, .. objects, up to all of the trace."""

def model_switching(cluster: Cluster, request: str) -> str:
    """Serve prompts by experts that are whole models, copied from far memory when asked for."""

def serving_problem(workload: Workload, cluster: Cluster, asked: str) -> str:
    """Return the problem that a model on a device of a cluster poses, as JSON.

    The JSON request holds `prompt`, `generated` and whatever `scalewright.serving_problem` takes.
    """

def serving_blocks(problem: str) -> str:
    """Return the block of a problem that generates the most tokens in a second, as JSON."""

def serving_policy(problem: str, policy: str) -> str:
    """Return what a given block with given shares generates, as JSON."""

def assign(
    columns: dict[str, NDArray[Any]],
    limits: str,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Choose an option for each item at the least cost, where options share rows.

    The columns are `options` and `whole` by item, `cost` by option, `use_option`, `use_first`,
    `use_end` and `use_amount` by use in the order of options, `limit`, `timed_window` and
    `timed_base` by row, `window_floor` and `window_weight`. The JSON limits hold `relative_gap`
    and `nodes`.
    """

def expert_buffering(cluster: Cluster, request: str) -> str:
    """Compare static with dynamic gating of a mixture of experts, with buffers for experts."""

def embedding_cache(cluster: Cluster, request: str) -> str:
    """Look up rows of embedding tables in near memory, the hosts' memory and storage."""

def neuron_cache(cluster: Cluster, request: str) -> str:
    """Generate a token over caches of neurons and of layers."""

def cache_time(request: str) -> str:
    """Time a batch of accesses over levels of memory."""

def offload(job: Job, plan: str, scheme: str, *, tasks: bool = False) -> str:
    """Price a step with an offloading scheme, as JSON; `spans` are empty without `tasks`.

    The JSON text of the scheme holds its name under `scheme`, beside its own fields.
    """

def largest_model(job: Job, plan: str, scheme: str, growth: str) -> str:
    """Find the largest model that a scheme fits, as JSON; `growth` is `"layers"` or `"hidden"`."""

def offload_efficiency(request: str) -> float:
    """Return the share of the peak where traffic and arithmetic do not overlap.

    The request's JSON text holds `intensity_flops_per_byte`, `bandwidth_bytes_per_s` and
    `peak_flops_per_s`.
    """
