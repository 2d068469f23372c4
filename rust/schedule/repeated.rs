//! How long does a step take that each device begins when it has ended the one before?

use super::pipeline::Pipeline;
use super::replay::{Extent, Replay};
use crate::error::Result;

/// Steps that are run at most; orders of the engine's own settle within a few.
const STEPS: u32 = 64;
/// Share of a step by which what is found may lie above what no repetition beats.
const SETTLED: f64 = 1e-9;

impl Replay {
    /// Seconds that a step adds when the orders are run over and over, the longest cycle of waits over its steps.
    ///
    /// ```text
    /// x(k + 1) = A x(k);   min over d of (x(k + j) - x(k))_d / j <= T <= max over d of (x(k + j) - x(k))_d / j
    /// ```
    ///
    /// `x_d`: end of a step on device d, s, at first its start; A: in the (max, +) algebra, the longest ways from
    /// the start of a step on one device to its end on another; T: its eigenvalue. Source: Baccelli, Cohen, Olsder
    /// and Quadrat 1992 (Synchronization and Linearity), sections 3.2 and 3.7. The upper bound is given where
    /// the two have not met.
    pub(super) fn repeated(&mut self, extent: Extent, pipeline: &Pipeline<'_>) -> Result<f64> {
        self.run(extent, pipeline)?;
        let mut base = std::mem::take(&mut self.base);
        base.clear();
        base.extend(self.begins.windows(2).map(|pair| {
            let spans = &self.spans[pair[0] as usize..pair[1] as usize];
            spans.first().map_or(0.0, |span| span[0])
        }));
        let (mut most, mut since, mut restart) = (f64::INFINITY, 0_u32, 1_u32);
        for _ in 0..STEPS {
            since += 1;
            let added = self.clock.iter().zip(&base).map(|(end, start)| end - start);
            let (least, longest) = added.fold((f64::INFINITY, 0.0_f64), |(least, longest), a| {
                (least.min(a), longest.max(a))
            });
            most = most.min(longest / f64::from(since));
            if most <= (1.0 + SETTLED) * least / f64::from(since) {
                break;
            }
            // later steps are counted from where they lie nearer to what they settle to
            if since == restart {
                base.clear();
                base.extend_from_slice(&self.clock);
                (since, restart) = (0, 2 * restart);
            }
            self.resume(extent, pipeline)?;
        }
        self.base = base;
        Ok(most)
    }
}
