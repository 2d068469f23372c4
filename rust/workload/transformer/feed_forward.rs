//! The dense feed-forward half of a layer, plain or gated.

use super::block::{BlockBuilder, Part, Projection};
use super::config::Activation;
use crate::workload::{Dim, Extent, OperatorClass, OperatorKind, Region, Routed, SavedAs};

/// Where a feed-forward part lies and how wide it is.
pub(super) struct FeedForward {
    /// Operator names: input projection, activation, output projection.
    pub(super) names: [&'static str; 3],
    /// Line of the breakdown of its products.
    pub(super) class: OperatorClass,
    /// Where its inner width is sharded.
    pub(super) region: Region,
    /// Width of what it reads and writes.
    pub(super) outer: Extent,
    /// Inner width.
    pub(super) inner: Extent,
    /// Set for routed experts.
    pub(super) experts: Option<Routed>,
}

impl BlockBuilder<'_> {
    /// The dense feed-forward part of the model's width.
    pub(super) fn dense_feed_forward(&mut self, input: usize) -> usize {
        let (outer, inner) = (self.hidden(), Extent::new(Dim::Ffn, self.model.ffn));
        self.feed_forward(
            input,
            FeedForward {
                names: ["up", "activation", "down"],
                class: OperatorClass::Matmul,
                region: Region::Mlp,
                outer,
                inner,
                experts: None,
            },
        )
    }

    /// Input projection(s), activation, output projection.
    pub(super) fn feed_forward(&mut self, input: usize, part: FeedForward) -> usize {
        let copies = part.experts.as_ref().map_or(1.0, |r| r.top_k as f64);
        let first = self.operator_count();
        let up = self.matmul(&Projection {
            name: part.names[0],
            class: part.class,
            region: part.region,
            input: Some(input),
            contract: part.outer,
            parts: self.input_parts(part.inner),
            experts: part.experts.clone(),
            bias: self.model.ffn_bias,
        });
        let per_token = Extent::wide(part.inner.dim, part.inner.size, copies);
        let activation = self.activation(part.names[1], part.region, up, per_token);
        let down = self.matmul(&Projection {
            name: part.names[2],
            class: part.class,
            region: part.region,
            input: Some(activation),
            contract: part.inner,
            parts: vec![(part.outer, "down")],
            experts: part.experts,
            bias: self.model.ffn_bias,
        });
        if self.training.software.recompute.selective_feed_forward {
            // one product or, where they are apart, one for each input of the activation
            for repeated in (first..=up).chain([activation, down]) {
                self.recompute_selectively(repeated);
            }
        }
        down
    }

    fn input_parts(&self, inner: Extent) -> Vec<Part> {
        if self.model.activation.projections() == 2 {
            vec![(inner, "gate"), (inner, "up")]
        } else {
            vec![(inner, "up")]
        }
    }

    /// The activation over its output width, counted per token before routing.
    fn activation(
        &mut self,
        name: &'static str,
        region: Region,
        input: usize,
        width: Extent,
    ) -> usize {
        let software = &self.training.software;
        let ([forward_passes, backward_passes], strided, kept) = match self.model.activation {
            Activation::Gelu => (
                software.layer.activation,
                [0.0; 2],
                software.recompute.activation_kept,
            ),
            Activation::Relu2 => (software.layer.activation, [0.0; 2], 1.0),
            // the sign of the output suffices, and the output projection keeps the output
            Activation::Relu => (software.layer.activation, [0.0; 2], 0.0),
            Activation::Swiglu | Activation::Geglu => (
                software.layer.gated_activation,
                software.layer.gated_activation_strided,
                software.recompute.gated_kept,
            ),
        };
        let kind = OperatorKind::Elementwise {
            width: vec![width],
            forward_passes,
            backward_passes,
            strided,
            vectors: Vec::new(),
        };
        let class = OperatorClass::Elementwise;
        let index = self.push(name, class, region, Some(input), kind);
        if kept > 0.0 {
            let halves = width.times_wide(kept);
            self.save(index, halves, region, SavedAs::Activation);
            self.repeat_between_products(index);
        }
        index
    }
}
