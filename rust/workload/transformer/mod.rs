//! Transformers: decoders, encoders and encoder-decoders, dense and mixture-of-experts.

mod attention;
mod block;
mod check;
mod config;
mod embedding;
mod expert_load;
mod feed_forward;
mod graph;
mod head;
mod latent;
mod mixture;
mod parameters;
mod shape;

pub use config::{
    Activation, AttentionKind, ExpertLoad, Family, LatentAttention, Lora, MixtureOfExperts, Norm,
    Position, Transformer,
};
pub use parameters::Parameters;
