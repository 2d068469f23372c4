//! Who tells devices what to run, and is that hidden behind what they run?
//!
//! A host's launch, a controller's messages, an island's scheduler and the input pipelines run
//! beside the devices; a step takes the longest of them once all queues are full, and the way
//! through all of them before the first one ends (`dispatch_pace`). One file per controller.

mod dispatch_pace;
mod graph;
mod kind;
mod multi_controller;
mod parallel;
mod program_placement;
mod programs;
mod sequential;
mod setting;
mod simulated;
mod synchronous;

pub use dispatch_pace::Resource;
pub use kind::Dispatch;
pub use setting::{Chain, Costs, DispatchSetting, Program, Stages, Transfers};
pub use simulated::simulate;

use crate::error::Result;
use crate::units::Seconds;
use dispatch_pace::{DispatchPace, Steps};
use program_placement::ProgramPlacement;
use serde::Serialize;

/// What a program costs under a controller.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DispatchCost {
    /// Who dispatches.
    pub controller: Dispatch,
    /// Where that is described.
    pub source: &'static str,
    /// Seconds from one step to the next once all queues are full.
    #[serde(rename = "step_time_s")]
    pub step: Seconds,
    /// From the first message to the end of the first step.
    #[serde(rename = "first_step_time_s")]
    pub first_step: Seconds,
    /// The step with data and dispatch for nothing and input ready.
    #[serde(rename = "computation_s")]
    pub computation: Seconds,
    /// What data between groups adds to it.
    #[serde(rename = "exposed_transfer_s")]
    pub exposed_transfer: Seconds,
    /// What the input pipelines add.
    #[serde(rename = "exposed_input_s")]
    pub exposed_input: Seconds,
    /// What dispatch adds: also what groups of devices lose that no longer work side by side.
    #[serde(rename = "exposed_dispatch_s")]
    pub exposed_dispatch: Seconds,
    /// Dispatch of a step that runs beside something else, on its busiest resource.
    #[serde(rename = "hidden_dispatch_s")]
    pub hidden_dispatch: Seconds,
    /// Dispatch of a step on its busiest resource.
    #[serde(rename = "dispatch_s")]
    pub dispatch: Seconds,
    /// What dispatch adds to the first step: no controller hides it.
    #[serde(rename = "first_exposed_dispatch_s")]
    pub first_exposed_dispatch: Seconds,
    /// Share of all devices' time in which they compute.
    pub utilization: f64,
    /// What a step waits for most.
    pub binds: Resource,
    /// Mean time of a computation from which dispatch is hidden, with data as it is; none where
    /// no computation is long enough, as under a controller that waits for each one's end.
    #[serde(rename = "hidden_from_s")]
    pub hidden_from: Option<Seconds>,
}

/// Steps of a program under a controller, in closed form: `O(computations x islands)`.
pub fn dispatched(kind: Dispatch, setting: &DispatchSetting) -> Result<DispatchCost> {
    let placed = ProgramPlacement::new(setting)?;
    let paced = kind.controller().paced(&placed);
    let hidden_from = hidden_from_duration(kind, &placed, &paced);
    let (resource, dispatch) = paced.heaviest();
    let ideal = DispatchPace::running_ahead(&placed.graph);
    let program = ideal.paths.whole;
    let computation = placed.graph.without_transfers().paths().whole;
    let with_input = Steps::new(ideal, &placed);
    let (fed, fed_first) = (with_input.period(), with_input.end(1));
    let steps = Steps::new(paced, &placed);
    let (step, first_step) = (steps.period(), steps.end(1));
    let [transfer, input, exposed] = [program - computation, fed - program, step - fed];
    // what runs beside the devices and lasts longer binds alone; what runs in turn with them adds up
    let in_turn = |resource, part: f64, beside: bool| {
        let weight = if beside && part > 0.0 {
            f64::INFINITY
        } else {
            part
        };
        (resource, weight)
    };
    let parts = [
        (Resource::Computation, computation),
        (Resource::Transfer, transfer),
        in_turn(Resource::Input, input, setting.prefetch > 0),
        in_turn(resource, exposed, kind != Dispatch::Synchronous),
    ];
    let larger = |a: (Resource, f64), b: (Resource, f64)| {
        let later = b.1 > a.1 || b.1 == f64::INFINITY;
        if later { b } else { a }
    };
    let busy: f64 = placed.launched().map(|(_, node)| node.seconds).sum();
    let groups = f64::from(placed.graph.groups);
    Ok(DispatchCost {
        controller: kind,
        source: kind.source(),
        step: Seconds::new(step),
        first_step: Seconds::new(first_step),
        computation: Seconds::new(computation),
        exposed_transfer: Seconds::new(transfer),
        exposed_input: Seconds::new(input),
        exposed_dispatch: Seconds::new(exposed),
        hidden_dispatch: Seconds::new((dispatch - exposed).max(0.0)),
        dispatch: Seconds::new(dispatch),
        first_exposed_dispatch: Seconds::new(first_step - fed_first),
        utilization: if step > 0.0 {
            busy / groups / step
        } else {
            0.0
        },
        binds: parts.into_iter().fold(parts[0], larger).0,
        hidden_from,
    })
}

/// Ends of the first `steps` steps, in closed form.
pub fn step_ends(kind: Dispatch, setting: &DispatchSetting, steps: u32) -> Result<Vec<Seconds>> {
    let placed = ProgramPlacement::new(setting)?;
    let steps_of = Steps::new(kind.controller().paced(&placed), &placed);
    let end = |step| Seconds::new(steps_of.end(step));
    Ok((1..=steps).map(end).collect())
}

/// Mean seconds of a computation at which the program takes as long as its dispatch.
///
/// `P(x) = D`; P: the program's longest way with computations x times as long, convex in x and
/// made of straight lines; D: the dispatch, which does not depend on them. Newton's steps from
/// above come down to the least such x and end there.
fn hidden_from_duration(
    kind: Dispatch,
    placed: &ProgramPlacement<'_>,
    paced: &DispatchPace,
) -> Option<Seconds> {
    let (_, dispatch) = paced.heaviest();
    let (count, total) = placed
        .launched()
        .fold((0.0, 0.0), |(count, total), (_, node)| {
            (count + 1.0, total + node.seconds)
        });
    let at = |scale: f64| placed.graph.scaled(scale);
    if kind == Dispatch::Synchronous {
        return None;
    }
    if dispatch <= 0.0 || at(0.0).0 >= dispatch {
        return Some(Seconds::ZERO);
    }
    if total <= 0.0 {
        return None;
    }
    let mut scale = dispatch * f64::from(placed.graph.groups) / total;
    for _ in 0..64 {
        let (time, slope) = at(scale);
        if slope <= 0.0 || time - dispatch <= 1e-13 * dispatch {
            break;
        }
        scale -= (time - dispatch) / slope;
    }
    Some(Seconds::new(scale * total / count))
}
