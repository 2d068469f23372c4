//! Transformers: decoders, encoders and encoder-decoders, dense and mixture-of-experts.

mod config;

pub use config::{
    Activation, AttentionKind, ExpertLoad, Family, LatentAttention, Lora, MixtureOfExperts, Norm,
    Position, Transformer,
};
