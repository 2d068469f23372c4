//! Which time can no dealing of layers to stages beat, were work shared by all stages at their own rates?

/// Stages from some place on to the end of the pipeline, as a bound sees them.
///
/// For stages `s` of any passes, seconds, m micro-batches and `g_s` one micro-batch's passes and sends:
///
/// ```text
/// T >= sum_(r<s) g_r + m g_s                                 for every s
/// T >= sum_s l_s (sum_(r<s) g_r + m g_s)                     for l_s >= 0, sum_s l_s = 1
///    = sum_s g_s (m l_s + sum_(r>s) l_r) >= t sum_s k_s g_s  where l makes each bracket t k_s or more
/// ```
///
/// With `k_s` the least that a stage's device gains on the first group's in any layer, `sum k_s g_s` is
/// no less than the first group's seconds of all layers, and what embedding, head and sends add. From the
/// last stage to the first, `l_s = max(0, (k_s - sum_(r>s) l_r) / m)` gives `t = 1 / sum l_s`. The
/// first line is the bound of both orders, `1f1b` and `gpipe` (`schedule/bound.rs`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct TailBound {
    /// `sum l_s` for `t = 1`.
    weight: f64,
    /// What embedding, head and sends add to the work.
    extra: f64,
}

impl TailBound {
    /// No stage.
    pub(super) const END: Self = Self {
        weight: 0.0,
        extra: 0.0,
    };

    /// The same with alike stages in front, of which each gains `pace`; `decay`: `(1 - 1/m)` to the
    /// power of how many they are; `extra`: seconds that they all take beside layers.
    pub(super) fn behind(self, pace: f64, decay: f64, extra: f64) -> Self {
        let weight = if self.weight < pace {
            pace - (pace - self.weight) * decay
        } else {
            self.weight
        };
        Self {
            weight,
            extra: self.extra + pace * extra,
        }
    }

    /// The bound, where the first group would take `work` seconds for the layers of these stages.
    pub(super) fn bound(self, work: f64) -> f64 {
        if self.weight > 0.0 {
            (work + self.extra) / self.weight
        } else {
            0.0
        }
    }
}

/// `(1 - 1/m)` to the powers of 0 to `most`.
pub(super) fn decays(micro_batches: u32, most: usize) -> Vec<f64> {
    let ratio = 1.0 - 1.0 / f64::from(micro_batches.max(1));
    let mut power = 1.0;
    let mut all = Vec::with_capacity(most + 1);
    for _ in 0..=most {
        all.push(power);
        power *= ratio;
    }
    all
}
