//! The routed feed-forward half of a layer: router, dispatch, experts, combine, shared experts.

use super::block::{BlockBuilder, Projection};
use super::config::MixtureOfExperts;
use super::feed_forward::FeedForward;
use crate::workload::{Dim, Extent, OperatorClass, OperatorKind, Region, Routed, SavedAs};

impl BlockBuilder<'_> {
    /// Routed and shared experts on the same norm; returns the operator that closes the routed
    /// branch and how many branches meet in the residual stream.
    ///
    /// Widths inside `Region::Experts` are per token before routing: `times` counts its `top_k`
    /// copies. The imbalance is not in them.
    pub(super) fn mixture(&mut self, input: usize, mixture: &MixtureOfExperts) -> (usize, f64) {
        let routed = mixture.routed();
        self.router(input, mixture);
        let dispatch = self.route("dispatch", input, &routed, false);
        let down = self.feed_forward(
            dispatch,
            FeedForward {
                names: ["expert_up", "expert_activation", "expert_down"],
                class: OperatorClass::Experts,
                region: Region::Experts,
                inner: Extent::new(Dim::ExpertFfn, mixture.expert_ffn),
                experts: Some(routed.clone()),
            },
        );
        let combine = self.route("combine", down, &routed, true);
        // the router's gradient needs what each expert returned
        let returned = Extent::wide(Dim::Hidden, self.model.hidden, routed.top_k as f64);
        self.save(combine, returned, Region::Residual, SavedAs::Activation);
        if mixture.shared_ffn == 0 {
            return (combine, 1.0);
        }
        self.shared_experts(input, mixture);
        (combine, 2.0)
    }

    fn router(&mut self, input: usize, mixture: &MixtureOfExperts) {
        let scores = Extent::new(Dim::Expert, mixture.experts);
        let router = self.matmul(&Projection {
            name: "router",
            class: OperatorClass::Routing,
            region: Region::Residual,
            input: Some(input),
            contract: self.hidden(),
            parts: vec![(scores, "router")],
            experts: None,
            bias: mixture.router_bias,
        });
        self.save(router, scores, Region::Residual, SavedAs::Fp32);
    }

    fn route(&mut self, name: &'static str, input: usize, routed: &Routed, back: bool) -> usize {
        let kind = OperatorKind::Route {
            width: self.hidden(),
            routed: routed.clone(),
            back,
        };
        let class = OperatorClass::Routing;
        self.push(name, class, Region::Experts, Some(input), kind)
    }

    fn shared_experts(&mut self, input: usize, mixture: &MixtureOfExperts) {
        let down = self.feed_forward(
            input,
            FeedForward {
                names: ["shared_up", "shared_activation", "shared_down"],
                class: OperatorClass::Matmul,
                region: Region::Mlp,
                inner: Extent::new(Dim::Ffn, mixture.shared_ffn),
                experts: None,
            },
        );
        if !mixture.shared_gate {
            return;
        }
        let hidden = self.hidden();
        self.matmul(&Projection {
            name: "shared_gate",
            class: OperatorClass::Routing,
            region: Region::Residual,
            input: Some(input),
            contract: hidden,
            parts: vec![(Extent::new(Dim::Rank, 1), "router")],
            experts: None,
            bias: false,
        });
        let kind = OperatorKind::Elementwise {
            width: vec![hidden],
            // reads and writes the scaled output
            forward_passes: 2.0,
            // reads gradient and output, writes gradient
            backward_passes: 3.0,
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        let scale = self.push("shared_scale", class, Region::Residual, Some(down), kind);
        self.save(scale, hidden, Region::Residual, SavedAs::Activation);
    }
}
