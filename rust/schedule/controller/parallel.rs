//! How fast are computations dispatched if a controller tells all hosts of a step's program at once?

use super::dispatch_pace::{DispatchPace, Release, Resource};
use super::kind::Controller;
use super::multi_controller::launches;
use super::program_placement::ProgramPlacement;

/// One controller sends a step's whole program; hosts prepare all its computations side by side,
/// since their shapes are known, and each island's scheduler puts the gangs in order.
///
/// ```text
/// r_i(t) = max(c_h + L + (k_i + 1) e + t max(C, n e), c_g + 2 L + (j_i + 1) s + t max(C, m s)) + l
/// ```
///
/// C: the controller's time for a step, each island and host told once; `c_g`, `c_h`: when it has
/// told the scheduler and the host; L: `latency`; e: `prepare`; s: `scheduler`; l: `enqueue`;
/// `k_i`, `j_i`: launches of the host and gangs of the island before; n, m: their numbers in a step.
pub(super) struct Parallel;

impl Controller for Parallel {
    fn name(&self) -> &'static str {
        "single_parallel"
    }

    fn source(&self) -> &'static str {
        "Barham et al. 2022 (Pathways), sections 4.4 and 4.5, figure 4b"
    }

    fn paced(&self, placed: &ProgramPlacement<'_>) -> DispatchPace {
        let mut paced = DispatchPace::running_ahead(&placed.graph);
        let setting = placed.setting;
        let costs = &setting.costs;
        let [latency, message, prepare, scheduler, enqueue] = [
            costs.latency,
            costs.message,
            costs.prepare,
            costs.scheduler,
            costs.enqueue,
        ]
        .map(crate::units::Seconds::value);
        let islands = f64::from(setting.islands) * message;
        let each = message + f64::from(setting.devices_per_host) * costs.handle.value();
        let all = islands + f64::from(setting.hosts) * each;
        let (launches, gangs) = (launches(placed), gangs(placed));
        let mut launched = vec![0.0; launches.len()];
        let mut ordered = vec![0.0; gangs.len()];
        for (node, computation) in placed.launched() {
            let host = placed.hosts(computation.engine).end as usize - 1;
            launched[host] += 1.0;
            let told = islands + (host as f64 + 1.0) * each;
            paced.releases.push(Release {
                node,
                start: told + latency + launched[host] * prepare + enqueue,
                rate: all.max(launches[host] * prepare),
            });
            for island in placed.islands(computation.engine) {
                let island = island as usize;
                ordered[island] += 1.0;
                let told = (island as f64 + 1.0) * message;
                paced.releases.push(Release {
                    node,
                    start: told + 2.0 * latency + ordered[island] * scheduler + enqueue,
                    rate: all.max(gangs[island] * scheduler),
                });
            }
        }
        let most = |counts: &[f64]| counts.iter().copied().fold(0.0, f64::max);
        paced.loads = vec![
            (Resource::Controller, all),
            (Resource::Host, most(&launches) * prepare),
            (Resource::Scheduler, most(&gangs) * scheduler),
        ];
        paced
    }
}

/// Gangs of a step that each island's scheduler puts in order.
fn gangs(placed: &ProgramPlacement<'_>) -> Vec<f64> {
    let mut gangs = vec![0.0; placed.setting.islands as usize];
    for (_, computation) in placed.launched() {
        for island in placed.islands(computation.engine) {
            gangs[island as usize] += 1.0;
        }
    }
    gangs
}
