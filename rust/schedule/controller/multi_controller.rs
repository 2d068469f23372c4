//! How fast are computations dispatched if every host launches its own (JAX, SPMD)?

use super::dispatch_pace::{DispatchPace, Release, Resource};
use super::kind::Controller;
use super::program_placement::ProgramPlacement;

/// Every host runs the same program and launches its own devices' computations over PCIe.
///
/// `r_i(t) = (k_i + 1) e + l + t n e`; e: `prepare`; l: `enqueue`; `k_i`: launches of the host
/// before; n: its launches of a step. Hidden where `n e` is no longer than the step.
pub(super) struct MultiController;

impl Controller for MultiController {
    fn name(&self) -> &'static str {
        "multi_controller"
    }

    fn source(&self) -> &'static str {
        "Barham et al. 2022 (Pathways), section 2, figure 1a"
    }

    fn paced(&self, placed: &ProgramPlacement<'_>) -> DispatchPace {
        let mut paced = DispatchPace::running_ahead(&placed.graph);
        let costs = &placed.setting.costs;
        let (prepare, enqueue) = (costs.prepare.value(), costs.enqueue.value());
        let launches = launches(placed);
        let mut done = vec![0.0; launches.len()];
        for (node, computation) in placed.launched() {
            let host = placed.hosts(computation.engine).end as usize - 1;
            done[host] += 1.0;
            paced.releases.push(Release {
                node,
                start: done[host] * prepare + enqueue,
                rate: launches[host] * prepare,
            });
        }
        let most = launches.iter().copied().fold(0.0, f64::max);
        paced.loads = vec![(Resource::Host, most * prepare)];
        paced
    }
}

/// Computations of a step that each group's last host launches.
pub(super) fn launches(placed: &ProgramPlacement<'_>) -> Vec<f64> {
    let mut launches = vec![0.0; placed.setting.hosts as usize];
    for (_, computation) in placed.launched() {
        launches[placed.hosts(computation.engine).end as usize - 1] += 1.0;
    }
    launches
}
