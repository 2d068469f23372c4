//! Do models have the parameters, kept activations and operators that were published?

#![allow(clippy::unwrap_used)] // a model that cannot be read fails its test

mod activation;
mod expert_load;
mod flops;
mod law;
mod measure;
mod model;
mod parameter;
mod refusal;
