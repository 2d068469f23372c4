//! Which layers of a virtual stage compute what again in their backward pass?

use super::choice::{ExpertRecompute, Plan, RecomputePolicy};

/// A plan's choice of what is computed again, layer by layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Recomputation {
    /// Of the leading layers.
    pub policy: RecomputePolicy,
    /// Leading layers of each virtual stage; 0: all.
    pub layers: u32,
    /// Of the layers behind them.
    pub rest: RecomputePolicy,
    /// Of leading layers with routed experts.
    pub experts: ExpertRecompute,
}

impl Recomputation {
    /// The same for every layer.
    pub const fn all(policy: RecomputePolicy) -> Self {
        Self {
            policy,
            layers: 0,
            rest: RecomputePolicy::None,
            experts: ExpertRecompute::Same,
        }
    }

    /// True where all layers follow one policy.
    pub fn uniform(&self) -> bool {
        self.layers == 0 && self.experts == ExpertRecompute::Same
    }

    /// The policy of the layer at `place`, counted from 0 within its virtual stage; `experts` where it
    /// has routed ones.
    pub fn of(&self, place: usize, experts: bool) -> RecomputePolicy {
        if self.layers > 0 && place >= self.layers as usize {
            return self.rest;
        }
        match self.experts {
            ExpertRecompute::None if experts => RecomputePolicy::None,
            ExpertRecompute::Selective if experts => RecomputePolicy::Selective,
            ExpertRecompute::Full if experts => RecomputePolicy::Full,
            _ => self.policy,
        }
    }
}

impl Plan {
    /// What is computed again.
    pub const fn recomputation(&self) -> Recomputation {
        Recomputation {
            policy: self.recompute,
            layers: self.recompute_layers,
            rest: self.recompute_rest,
            experts: self.recompute_experts,
        }
    }

    /// The same plan with another choice of what is computed again.
    pub fn recomputing(&mut self, choice: Recomputation) {
        self.recompute = choice.policy;
        self.recompute_layers = choice.layers;
        self.recompute_rest = choice.rest;
        self.recompute_experts = choice.experts;
    }
}
