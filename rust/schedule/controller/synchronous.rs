//! How fast are computations dispatched if a controller waits for each one to end (TensorFlow 1)?

use super::dispatch_pace::{DispatchPace, Release, Resource};
use super::kind::Controller;
use super::program_placement::ProgramPlacement;

/// One controller tells each host what to run and waits until it has run.
///
/// Between two computations lie the end's message back, the messages of the next one and the
/// launch: `o_i = 2 L + F_i + e + l`; L: `latency`; `F_i`: the controller's time for all hosts;
/// e: `prepare`; l: `enqueue`. Nothing of it is hidden.
pub(super) struct Synchronous;

impl Controller for Synchronous {
    fn name(&self) -> &'static str {
        "single_synchronous"
    }

    fn source(&self) -> &'static str {
        "Barham et al. 2022 (Pathways), section 2, figure 1b (TensorFlow 1)"
    }

    fn paced(&self, placed: &ProgramPlacement<'_>) -> DispatchPace {
        let costs = &placed.setting.costs;
        let launch = costs.prepare.value() + costs.enqueue.value() + costs.latency.value();
        let mut graph = placed.graph.clone();
        let (mut before, mut all, mut first) = (None, 0.0, 0.0);
        for (node, computation) in placed.launched() {
            let hosts = placed.notify_group_time(computation.engine, 0.0) + launch;
            let round_trip = hosts + costs.latency.value();
            all += round_trip;
            match before.replace(node) {
                Some(before) => {
                    let before = u32::try_from(before).unwrap_or(u32::MAX);
                    graph.nodes[node].inputs.push((before, round_trip));
                }
                None => first = hosts,
            }
        }
        let mut paced = DispatchPace::running_ahead(&graph);
        paced.gap = first + costs.latency.value();
        paced.releases.push(Release {
            node: 0,
            start: first,
            rate: 0.0,
        });
        paced.loads = vec![(Resource::RoundTrip, all)];
        paced
    }
}
