//! How fast are computations dispatched if a controller waits for each one to be enqueued?

use super::dispatch_pace::{DispatchPace, Release, Resource};
use super::kind::Controller;
use super::program_placement::ProgramPlacement;

/// One controller enqueues a computation everywhere, gets its handle and goes on to the next.
///
/// A computation keeps the dispatch for `w_i = max(F_i + L + e, F'_i + s + 2 L) + L`; L: `latency`;
/// `F_i`: the controller's time for all islands and hosts; `F'_i`: for the islands alone; e: `prepare`;
/// s: `scheduler`. The devices run meanwhile: hidden where computations last longer.
pub(super) struct Sequential;

impl Controller for Sequential {
    fn name(&self) -> &'static str {
        "single_sequential"
    }

    fn source(&self) -> &'static str {
        "Barham et al. 2022 (Pathways), section 4.5, figure 4a, and section 5.1 (OpByOp)"
    }

    fn paced(&self, placed: &ProgramPlacement<'_>) -> DispatchPace {
        let mut paced = DispatchPace::running_ahead(&placed.graph);
        let costs = &placed.setting.costs;
        let [latency, message, scheduler] =
            [costs.latency, costs.message, costs.scheduler].map(crate::units::Seconds::value);
        let mut clock = 0.0;
        for (node, computation) in placed.launched() {
            let islands = placed.islands(computation.engine).len() as f64;
            let told = placed.notify_group_time(computation.engine, islands);
            let prepared = told + latency + costs.prepare.value();
            let ordered = islands * message + scheduler + 2.0 * latency;
            let enqueued = clock + prepared.max(ordered);
            clock = enqueued + latency;
            paced.releases.push(Release {
                node,
                start: enqueued + costs.enqueue.value(),
                rate: 0.0,
            });
        }
        for release in &mut paced.releases {
            release.rate = clock;
        }
        paced.loads = vec![(Resource::RoundTrip, clock)];
        paced
    }
}
