//! The binding: how Python reaches the engine. One way in (`engine_call`), opaque handles, no arithmetic.

mod algorithm;
mod assign;
mod caches;
mod codesigning;
mod collectives;
mod compression;
mod controllers;
mod engine_call;
mod error;
mod input;
mod kernels;
mod offload;
mod pairs;
mod placements;
mod planning;
mod published;
mod rematerialising;
mod robustness;
mod schedules;
mod schedules_special;
mod searching;
mod serving;
mod timelines;
mod unlike;

use pyo3::prelude::*;

/// The compiled engine of Scalewright.
#[pymodule]
mod _engine {
    #[pymodule_export]
    use super::algorithm::{simulate_collective, simulate_msccl};
    #[pymodule_export]
    use super::assign::assign;
    #[pymodule_export]
    use super::caches::{
        cache_hits, cache_time, embedding_cache, expert_buffering, lru_curve, model_switching,
        neuron_cache, simulate_cache,
    };
    #[pymodule_export]
    use super::codesigning::codesign;
    #[pymodule_export]
    use super::collectives::{
        bus_factors, collective_choices, collective_lines, collective_times, uneven, version,
    };
    #[pymodule_export]
    use super::compression::exchange;
    #[pymodule_export]
    use super::controllers::controllers;
    #[pymodule_export]
    use super::input::{Cluster, Workload};
    #[pymodule_export]
    use super::kernels::kernel_times;
    #[pymodule_export]
    use super::offload::{largest_model, offload, offload_efficiency};
    #[pymodule_export]
    use super::pairs::pairs;
    #[pymodule_export]
    use super::placements::{memories, place_plan, place_tensors, retained};
    #[pymodule_export]
    use super::planning::{PyJob, estimate, estimate_many, explain};
    #[pymodule_export]
    use super::published::metric;
    #[pymodule_export]
    use super::rematerialising::{rematerialise, rematerialise_stage};
    #[pymodule_export]
    use super::robustness::{constants, robust, sensitivity};
    #[pymodule_export]
    use super::schedules::{mitigation_copies, schedule_rules, schedule_run};
    #[pymodule_export]
    use super::schedules_special::{
        frozen_layers, layer_relay, partition_layers, progressive_freezing, slice_times, swarm,
        swarm_utilization, token_slices,
    };
    #[pymodule_export]
    use super::searching::{PySearch, search};
    #[pymodule_export]
    use super::serving::{serving_blocks, serving_policy, serving_problem};
    #[pymodule_export]
    use super::timelines::simulate_step;
    #[pymodule_export]
    use super::unlike::search_unlike;
}
