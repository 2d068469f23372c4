"""What is asked of the engine, and what it answers: models, systems, plans, estimates."""

from scalewright.planning.answers import Comparison, Estimate, Search
from scalewright.planning.asking import (
    FRONT,
    allowed_values,
    compare,
    estimate,
    estimate_job,
    explain,
    search,
    search_job,
)
from scalewright.planning.assigning import Assignment, assign
from scalewright.planning.cache_uses import (
    CacheTime,
    EmbeddingCache,
    ExpertBuffering,
    Gating,
    MemoryLevel,
    ModelSwitching,
    NeuronCache,
    cache_time,
    embedding_cache,
    expert_buffering,
    model_switching,
    neuron_cache,
)
from scalewright.planning.caching import CacheHits, CacheRun, cache_hits, lru_curve, simulate_cache
from scalewright.planning.codesigning import FATES, MEASURES, Codesign, codesign, codesign_job
from scalewright.planning.collectives import (
    Collective,
    Crossover,
    collective,
)
from scalewright.planning.compression import Exchange, averaging, compressed_all_reduce
from scalewright.planning.controllers import (
    Controller,
    controller,
    controllers,
)
from scalewright.planning.freezing import (
    FreezingEpoch,
    ProgressiveFreezing,
    frozen_layers,
    progressive_freezing,
)
from scalewright.planning.highs import assign_with_highs
from scalewright.planning.inputs import Model, System, model, system
from scalewright.planning.job import Job
from scalewright.planning.kernels import kernel_times
from scalewright.planning.links import CollectiveOnLinks, collective_on_links
from scalewright.planning.many import Prices, estimate_many
from scalewright.planning.offloading import (
    LargestModel,
    Offload,
    TierUse,
    largest_model,
    offload,
    offload_efficiency,
)
from scalewright.planning.partitioning import NoPartition, Partition, PartitionStage, partition
from scalewright.planning.placing import (
    Placement,
    Retained,
    memories,
    place,
    place_job,
    place_tensors,
    retained,
)
from scalewright.planning.relaying import LayerRelay, layer_relay
from scalewright.planning.rematerialising import (
    BlockChoices,
    Decision,
    Policy,
    Recomputation,
    Rematerialisation,
    StageRematerialisation,
    rematerialise,
    rematerialise_job,
    rematerialise_stage,
)
from scalewright.planning.robustness import (
    Robust,
    Sensitivity,
    constants,
    robust,
    robust_job,
    sensitivity,
    sensitivity_job,
    uncertainty_of,
)
from scalewright.planning.schedule_answer import Operations, Schedule, ScheduleRule
from scalewright.planning.schedules import schedule, schedules
from scalewright.planning.serving import (
    BusyLanes,
    FilledMemory,
    ServingBlock,
    serving_blocks,
    serving_problem,
)
from scalewright.planning.simulation import (
    SimulatedCollective,
    SimulatedMsccl,
    simulate_collective,
    simulate_msccl,
)
from scalewright.planning.slice_pricing import SliceTimes, slice_times
from scalewright.planning.slicing import SlicedPart, TokenSlices, token_slices
from scalewright.planning.stamp import SCHEMA_VERSION, stamp
from scalewright.planning.step import SimulatedStep, simulate_job, simulate_step
from scalewright.planning.swarming import Swarm, SwarmStage, swarm, swarm_utilization
from scalewright.planning.timeline import CATEGORIES, Flow, Row, Span, Timeline, joined
from scalewright.planning.uneven import UnevenAllToAll, uneven_all_to_all
from scalewright.planning.unlike import UnlikeSearch, search_unlike
from scalewright.planning.why_not import WhyNot, why_not, why_not_job

__all__ = [
    "CATEGORIES",
    "FATES",
    "FRONT",
    "MEASURES",
    "SCHEMA_VERSION",
    "Assignment",
    "BlockChoices",
    "BusyLanes",
    "CacheHits",
    "CacheRun",
    "CacheTime",
    "Codesign",
    "Collective",
    "CollectiveOnLinks",
    "Comparison",
    "Controller",
    "Crossover",
    "Decision",
    "EmbeddingCache",
    "Estimate",
    "Exchange",
    "ExpertBuffering",
    "FilledMemory",
    "Flow",
    "FreezingEpoch",
    "Gating",
    "Job",
    "LargestModel",
    "LayerRelay",
    "MemoryLevel",
    "Model",
    "ModelSwitching",
    "NeuronCache",
    "NoPartition",
    "Offload",
    "Operations",
    "Partition",
    "PartitionStage",
    "Placement",
    "Policy",
    "Prices",
    "ProgressiveFreezing",
    "Recomputation",
    "Rematerialisation",
    "Retained",
    "Robust",
    "Row",
    "Schedule",
    "ScheduleRule",
    "Search",
    "Sensitivity",
    "ServingBlock",
    "SimulatedCollective",
    "SimulatedMsccl",
    "SimulatedStep",
    "SliceTimes",
    "SlicedPart",
    "Span",
    "StageRematerialisation",
    "Swarm",
    "SwarmStage",
    "System",
    "TierUse",
    "Timeline",
    "TokenSlices",
    "UnevenAllToAll",
    "UnlikeSearch",
    "WhyNot",
    "allowed_values",
    "assign",
    "assign_with_highs",
    "averaging",
    "cache_hits",
    "cache_time",
    "codesign",
    "codesign_job",
    "collective",
    "collective_on_links",
    "compare",
    "compressed_all_reduce",
    "constants",
    "controller",
    "controllers",
    "embedding_cache",
    "estimate",
    "estimate_job",
    "estimate_many",
    "expert_buffering",
    "explain",
    "frozen_layers",
    "joined",
    "kernel_times",
    "largest_model",
    "layer_relay",
    "lru_curve",
    "memories",
    "model",
    "model_switching",
    "neuron_cache",
    "offload",
    "offload_efficiency",
    "partition",
    "place",
    "place_job",
    "place_tensors",
    "progressive_freezing",
    "rematerialise",
    "rematerialise_job",
    "rematerialise_stage",
    "retained",
    "robust",
    "robust_job",
    "schedule",
    "schedules",
    "search",
    "search_job",
    "search_unlike",
    "sensitivity",
    "sensitivity_job",
    "serving_blocks",
    "serving_problem",
    "simulate_cache",
    "simulate_collective",
    "simulate_job",
    "simulate_msccl",
    "simulate_step",
    "slice_times",
    "stamp",
    "swarm",
    "swarm_utilization",
    "system",
    "token_slices",
    "uncertainty_of",
    "uneven_all_to_all",
    "why_not",
    "why_not_job",
]
