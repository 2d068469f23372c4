//! How a transformer becomes blocks: embedding, each distinct kind of layer, head, and their order.

use super::block::BlockBuilder;
use super::config::{AttentionKind, StateRule, Transformer};
use super::embedding::embedding;
use super::head::head;
use super::shape::{LayerKind, Stack};
use crate::workload::{Block, BlockRole, Graph, Region, Training};

impl Transformer {
    /// The operators that a job runs.
    ///
    /// Norms stand before attention and feed-forward; a post-norm model (BERT) runs and keeps the
    /// same. An encoder-decoder's encoder layers come first and run over its own positions.
    pub fn graph(&self, training: &Training) -> Graph {
        let mut kinds: Vec<LayerKind> = Vec::new();
        let mut order = vec![0];
        for kind in self.layer_kinds() {
            let place = kinds.iter().position(|k| *k == kind);
            let place = place.unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            });
            order.push(place + 1);
        }
        order.push(kinds.len() + 1);
        let mut blocks = vec![embedding(self, training)];
        blocks.extend(kinds.iter().map(|&kind| layer(self, training, kind)));
        blocks.push(head(self, training));
        Graph {
            blocks,
            order,
            hidden: self.hidden,
            encoder_tokens: if self.encoder_layers > 0 {
                self.memory_sequence(training.sequence)
            } else {
                0
            },
            tied: self.tied_embeddings,
        }
    }
}

/// One kind of layer.
fn layer(model: &Transformer, training: &Training, kind: LayerKind) -> Block {
    let mut block = BlockBuilder::new(model, training, kind.frozen);
    if kind.stack == Stack::Encoder {
        block.positions = Some(model.memory_sequence(training.sequence));
    }
    for last in block.layer_behind(None, kind) {
        block.unread(last);
    }
    block.finish(kind.name(), BlockRole::Layer)
}

impl BlockBuilder<'_> {
    /// The operators of a layer behind `input`; returns those at its end, which only the next layer
    /// reads: what its halves make, and last the sum that closes it.
    pub(super) fn layer_behind(&mut self, input: Option<usize>, kind: LayerKind) -> [usize; 3] {
        let (model, training) = (self.model, self.training);
        let Some(mixer) = kind.mixer else {
            let norm = self.stream_norm("feed_forward_norm", input);
            let end = self.feed_forward_half(norm, kind);
            return [end, end, self.add(end, 1.0)];
        };
        let norm = self.stream_norm("attention_norm", input);
        let mut out = match (mixer, &model.state_space, &model.latent) {
            (AttentionKind::StateSpace, Some(widths), _) => match widths.rule {
                StateRule::Decay => self.state_space(norm, widths),
                StateRule::GatedDelta => self.gated_delta(norm, widths),
            },
            (_, _, Some(latent)) => self.latent_attention(norm, latent, kind),
            _ => self.self_attention(norm, kind),
        };
        if model.post_norms {
            out = self.stream_norm("attention_post_norm", Some(out));
        }
        if kind.feed.is_none() {
            return [out, out, self.add(out, 1.0)];
        }
        if model.parallel_block {
            let end = self.feed_forward_half(norm, kind);
            return [out, end, self.add(end, 2.0)];
        }
        let mut stream = self.add(out, 1.0);
        if kind.stack == Stack::CrossDecoder {
            let norm = self.stream_norm("cross_norm", Some(stream));
            let out = self.cross_attention(norm, kind);
            stream = self.add(out, 1.0);
        }
        let norm = self.stream_norm("feed_forward_norm", Some(stream));
        if training.software.recompute.repeats_output && kind.stack != Stack::CrossDecoder {
            for index in out..=norm {
                self.recompute_selectively(index);
            }
        }
        let end = self.feed_forward_half(norm, kind);
        [end, end, self.add(end, 1.0)]
    }

    pub(super) fn stream_norm(&mut self, name: &'static str, input: Option<usize>) -> usize {
        let hidden = self.hidden();
        self.norm(name, Region::Residual, input, hidden)
    }

    /// Dense or routed feed-forward with its post-norm.
    fn feed_forward_half(&mut self, input: usize, kind: LayerKind) -> usize {
        let model = self.model;
        let end = match &model.experts {
            Some(mixture) if kind.is_sparse() => self.mixture(input, mixture),
            _ => self.dense_feed_forward(input),
        };
        if model.post_norms {
            return self.stream_norm("feed_forward_post_norm", Some(end));
        }
        end
    }
}
