//! What does a step of ZeRO-Offload come to: state and update on the host, weights on the device?

use super::layer_placement::{LayerPlacement, LayerTiers};
use super::rates::{Rates, Tier};
use super::report::{OffloadReport, TierBytes};
use super::work::StepWork;
use crate::error::Result;
use serde::Deserialize;

/// Steps that are laid out where the update of one runs under the next.
const ROUNDS: usize = 3;

/// ZeRO-Offload (Ren et al. 2021, sections 4 and 5): each device holds all weights; gradients leave
/// for the host under the backward pass, the host updates its part with Adam, and the weights come
/// back layer by layer behind it and are gathered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroOffload {
    /// True where the update runs under the next step, whose weights lack it (section 5.2).
    pub delayed: bool,
}

impl ZeroOffload {
    fn placement(self, work: &StepWork) -> LayerPlacement {
        let home = LayerTiers {
            weights: Tier::Device,
            optimizer: Tier::Host,
        };
        LayerPlacement {
            replicated: true,
            delay: usize::from(self.delayed),
            ..LayerPlacement::all(work, home)
        }
    }

    pub(super) fn memory_use(self, work: &StepWork) -> TierBytes {
        self.placement(work).memory_use(work)
    }

    pub(super) fn run(self, work: &StepWork, rates: &Rates) -> Result<OffloadReport> {
        let placed = self.placement(work);
        let step = placed.lay_out(work, rates);
        let held = placed.memory_use(work);
        let mut answer = OffloadReport::new(work, rates, &held, step.run(1)?);
        if self.delayed {
            let interval = interval(&answer);
            answer.exposed = super::report::Exposed {
                loads_s: 0.0,
                stores_s: 0.0,
                updates_s: (interval - answer.compute_s).max(0.0),
            };
            answer.step_time_s = interval;
            answer.spans = step.run(ROUNDS)?.spans;
        }
        Ok(answer)
    }
}

/// Seconds between two steps where each lacks one update.
///
/// `max(busiest engine, step / 2)`: every engine runs its own work once a step, and the passes of a
/// step wait for the update of the step before last, so that one whole step spans two intervals.
fn interval(step: &OffloadReport) -> f64 {
    step.lower_bound_s.max(step.step_time_s / 2.0)
}

/// A step of `layers` like layers on one device and one micro-batch, in closed form.
///
/// `n f + max(b + n g, n b + g) + max(n u + w, u + n w)`: passes `f` and `b`, gradients out `g`,
/// update `u`, weights back `w`, seconds of a layer; two pairs of machines in a row, between which
/// the norm of all gradients stands.
pub fn closed_form(layers: f64, [forward, backward, out, update, back]: [f64; 5]) -> f64 {
    let passes = layers * forward + (backward + layers * out).max(layers * backward + out);
    passes + (layers * update + back).max(update + layers * back)
}
