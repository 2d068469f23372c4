//! Transformers: decoders, encoders and encoder-decoders, dense and mixture-of-experts.

mod attention;
mod block;
mod check;
mod config;
mod embedding;
mod expert_load;
mod feed_forward;
mod gated_delta;
mod graph;
mod head;
mod latent;
mod mixture;
mod parameters;
mod shape;
mod state_space;

pub use check::MOST_LAYERS;
pub use config::{
    Activation, AttentionKind, ExpertLoad, Family, LatentAttention, Lora, MixtureOfExperts, Norm,
    Position, StateRule, StateSpace, Transformer,
};
pub use parameters::Parameters;
pub(in crate::workload) use shape::{Feed, LayerKind, Stack};
