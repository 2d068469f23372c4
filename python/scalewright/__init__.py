"""Scalewright plans AI training clusters: time, memory, energy and price, and the best plan."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalewright._engine import version
    from scalewright.config import Plan, Training
    from scalewright.errors import CancelledError, InvalidError, ScalewrightError, UnknownNameError
    from scalewright.planning import (
        CacheHits,
        CacheRun,
        Collective,
        CollectiveOnLinks,
        Comparison,
        Controller,
        Crossover,
        Estimate,
        Exchange,
        Flow,
        FreezingEpoch,
        Job,
        LayerRelay,
        Model,
        ModelSwitching,
        NoPartition,
        Operations,
        Partition,
        PartitionStage,
        Prices,
        ProgressiveFreezing,
        Row,
        Schedule,
        ScheduleRule,
        Search,
        SimulatedCollective,
        SimulatedMsccl,
        SimulatedStep,
        SlicedPart,
        SliceTimes,
        Span,
        Swarm,
        SwarmStage,
        System,
        Timeline,
        TokenSlices,
        UnevenAllToAll,
        averaging,
        cache_hits,
        collective,
        collective_on_links,
        compare,
        compressed_all_reduce,
        controller,
        controllers,
        estimate,
        estimate_many,
        explain,
        frozen_layers,
        layer_relay,
        model,
        model_switching,
        partition,
        progressive_freezing,
        schedule,
        schedules,
        search,
        simulate_cache,
        simulate_collective,
        simulate_msccl,
        simulate_step,
        slice_times,
        swarm,
        swarm_utilization,
        system,
        token_slices,
        uneven_all_to_all,
    )

__all__ = [
    "CacheHits",
    "CacheRun",
    "CancelledError",
    "Collective",
    "CollectiveOnLinks",
    "Comparison",
    "Controller",
    "Crossover",
    "Estimate",
    "Exchange",
    "Flow",
    "FreezingEpoch",
    "InvalidError",
    "Job",
    "LayerRelay",
    "Model",
    "ModelSwitching",
    "NoPartition",
    "Operations",
    "Partition",
    "PartitionStage",
    "Plan",
    "Prices",
    "ProgressiveFreezing",
    "Row",
    "ScalewrightError",
    "Schedule",
    "ScheduleRule",
    "Search",
    "SimulatedCollective",
    "SimulatedMsccl",
    "SimulatedStep",
    "SliceTimes",
    "SlicedPart",
    "Span",
    "Swarm",
    "SwarmStage",
    "System",
    "Timeline",
    "TokenSlices",
    "Training",
    "UnevenAllToAll",
    "UnknownNameError",
    "averaging",
    "cache_hits",
    "collective",
    "collective_on_links",
    "compare",
    "compressed_all_reduce",
    "controller",
    "controllers",
    "estimate",
    "estimate_many",
    "explain",
    "frozen_layers",
    "layer_relay",
    "model",
    "model_switching",
    "partition",
    "progressive_freezing",
    "schedule",
    "schedules",
    "search",
    "simulate_cache",
    "simulate_collective",
    "simulate_msccl",
    "simulate_step",
    "slice_times",
    "swarm",
    "swarm_utilization",
    "system",
    "token_slices",
    "uneven_all_to_all",
    "version",
]

# names that do not live in `scalewright.planning`; all are loaded at first use, so that
# `import scalewright` stays quick
_HOMES = {
    "CancelledError": "scalewright.errors",
    "InvalidError": "scalewright.errors",
    "Plan": "scalewright.config",
    "ScalewrightError": "scalewright.errors",
    "Training": "scalewright.config",
    "UnknownNameError": "scalewright.errors",
    "version": "scalewright._engine",
}


def __getattr__(name: str) -> object:
    """Load a public name at first use."""
    if name not in __all__:
        message = f"module 'scalewright' has no attribute '{name}'"
        raise AttributeError(message)
    value = getattr(import_module(_HOMES.get(name, "scalewright.planning")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted(__all__)
