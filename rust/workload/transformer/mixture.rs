//! The routed feed-forward half of a layer: router, dispatch, experts, combine, shared experts.

use super::block::{BlockBuilder, Projection};
use super::config::MixtureOfExperts;
use super::feed_forward::FeedForward;
use crate::workload::{Dim, Extent, OperatorClass, OperatorKind, Region, Routed, SavedAs};

impl BlockBuilder<'_> {
    /// Routed and shared experts on the same norm; returns the operator that closes them.
    ///
    /// Widths inside `Region::Experts` are per token before routing: `times` counts its `top_k`
    /// copies. The imbalance is not in them.
    pub(super) fn mixture(&mut self, input: usize, mixture: &MixtureOfExperts) -> usize {
        let routed = mixture.routed(self.training.software.experts.dispatch_products);
        self.router(input, mixture);
        let stream = self.hidden();
        let outer = self.expert_stream();
        let sent = mixture.latent_width.map(|_| ("latent_down", stream, outer));
        let sent = sent.map_or(input, |widths| self.latent_projection(input, widths));
        let dispatch = self.route("dispatch", sent, &routed, false);
        let down = self.feed_forward(
            dispatch,
            FeedForward {
                names: ["expert_up", "expert_activation", "expert_down"],
                class: OperatorClass::Experts,
                region: Region::Experts,
                outer,
                inner: Extent::new(Dim::ExpertFfn, mixture.expert_ffn),
                experts: Some(routed.clone()),
            },
        );
        self.expert_passes(down, mixture);
        self.expert_bias(down, mixture);
        self.expert_stash(down, mixture);
        let combine = self.route("combine", down, &routed, true);
        if self.training.software.recompute.selective_feed_forward {
            for repeated in [dispatch, combine] {
                self.recompute_selectively(repeated);
            }
        }
        if !self.training.software.experts.weighs_activations {
            // the router's gradient needs what each expert returned
            let returned = Extent::wide(outer.dim, outer.size, routed.top_k as f64);
            self.save(combine, returned, Region::Residual, SavedAs::Activation);
        }
        let returned = mixture.latent_width.map(|_| ("latent_up", outer, stream));
        let end = returned.map_or(combine, |widths| self.latent_projection(combine, widths));
        if mixture.shared_ffn == 0 {
            return end;
        }
        self.unread(end);
        self.shared_experts(input, mixture)
    }

    /// Width in which routed experts read and write tokens.
    fn expert_stream(&self) -> Extent {
        let (dim, size) = self.model.expert_width();
        Extent::new(dim, size)
    }

    /// Projects tokens to the experts' width or back, on the rank that holds them: tensor ranks hold the
    /// weight whole (Megatron-Core, `fc1_latent_proj` and `fc2_latent_proj` of its `MoELayer`).
    fn latent_projection(
        &mut self,
        input: usize,
        (name, from, to): (&'static str, Extent, Extent),
    ) -> usize {
        self.matmul(&Projection {
            name,
            class: OperatorClass::Matmul,
            region: Region::Residual,
            input: Some(input),
            contract: from,
            parts: vec![(to, name)],
            experts: None,
            bias: false,
        })
    }

    /// Passes over what the experts' first product makes, such as of a program that clears rows of no expert.
    fn expert_passes(&mut self, input: usize, mixture: &MixtureOfExperts) {
        let [forward_passes, backward_passes] = self.training.software.experts.expert_passes;
        if forward_passes + backward_passes <= 0.0 {
            return;
        }
        let copies = (mixture.top_k * self.model.activation.projections()) as f64;
        let kind = OperatorKind::Elementwise {
            width: vec![Extent::wide(Dim::ExpertFfn, mixture.expert_ffn, copies)],
            forward_passes,
            backward_passes,
            strided: [0.0; 2],
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        self.push("expert_passes", class, Region::Experts, Some(input), kind);
    }

    /// Adds the experts' biases in passes of their own where the software does so.
    fn expert_bias(&mut self, input: usize, mixture: &MixtureOfExperts) {
        let [forward_passes, backward_passes] = self.training.software.experts.expert_bias;
        if !self.model.ffn_bias || forward_passes + backward_passes <= 0.0 {
            return;
        }
        let outer = self.expert_stream();
        let returned = Extent::wide(outer.dim, outer.size, mixture.top_k as f64);
        let kind = OperatorKind::Elementwise {
            width: vec![returned],
            forward_passes,
            backward_passes,
            strided: self.training.software.experts.expert_bias_strided,
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        self.push("expert_bias", class, Region::Experts, Some(input), kind);
    }

    /// Puts what experts keep aside until the backward pass, and gets it back: both products' inputs, in the
    /// format of products, and the inputs of the activation. Each is read and written, each way.
    fn expert_stash(&mut self, input: usize, mixture: &MixtureOfExperts) {
        let software = &self.training.software;
        if !software.experts.stashes_experts {
            return;
        }
        let precision = self.training.precision;
        let narrow = precision.matmul().bytes() / precision.activation().bytes();
        let halves = if self.model.activation.projections() == 2 {
            2.0
        } else {
            1.0
        };
        let (copies, outer) = (mixture.top_k as f64, self.expert_stream());
        let inner = Extent::wide(
            Dim::ExpertFfn,
            mixture.expert_ffn,
            copies * (halves + narrow),
        );
        let kind = OperatorKind::Elementwise {
            width: vec![Extent::wide(outer.dim, outer.size, copies * narrow), inner],
            forward_passes: 2.0,
            backward_passes: 2.0,
            strided: [0.0; 2],
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        self.push("expert_stash", class, Region::Experts, Some(input), kind);
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
            width: self.expert_stream(),
            routed: routed.clone(),
            back,
        };
        let class = OperatorClass::Routing;
        self.push(name, class, Region::Experts, Some(input), kind)
    }

    /// Experts that every token meets, added to what the routed ones returned.
    fn shared_experts(&mut self, input: usize, mixture: &MixtureOfExperts) -> usize {
        let down = self.feed_forward(
            input,
            FeedForward {
                names: ["shared_up", "shared_activation", "shared_down"],
                class: OperatorClass::Matmul,
                region: Region::Mlp,
                outer: self.hidden(),
                inner: Extent::new(Dim::Ffn, mixture.shared_ffn),
                experts: None,
            },
        );
        if mixture.shared_gate {
            self.shared_gate(input);
        } else {
            self.unread(down);
        }
        let hidden = self.hidden();
        let kind = OperatorKind::Elementwise {
            width: vec![hidden],
            // reads both outputs (scaling one on the way), writes their sum
            forward_passes: 3.0,
            // the gate reads gradient and output and writes a gradient; a sum passes it on
            backward_passes: if mixture.shared_gate { 3.0 } else { 0.0 },
            strided: [0.0; 2],
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        let sum = self.push("shared_add", class, Region::Residual, Some(down), kind);
        if mixture.shared_gate {
            self.save(sum, hidden, Region::Residual, SavedAs::Activation);
        }
        sum
    }

    fn shared_gate(&mut self, input: usize) {
        self.matmul(&Projection {
            name: "shared_gate",
            class: OperatorClass::Routing,
            region: Region::Residual,
            input: Some(input),
            contract: self.hidden(),
            parts: vec![(Extent::new(Dim::Rank, 1), "router")],
            experts: None,
            bias: false,
        });
    }
}
