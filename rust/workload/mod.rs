//! What is computed: models lowered to operators with named dims, blind to hardware and plans.

mod arithmetic;
mod dim;
mod flops;
mod graph;
mod operator;
pub mod software;
mod training;
pub mod transformer;

pub use arithmetic::Arithmetic;
pub use dim::{Dim, Extent, Product};
pub use flops::{FlopConvention, gpt_hardware_flops, gpt_model_flops};
pub use graph::{Block, BlockRole, Graph};
pub use operator::{
    Attention, Operator, OperatorClass, OperatorKind, Recompute, Region, Routed, Saved, SavedAs,
    Scan, Weight,
};
pub use software::Software;
pub use training::{Optimizer, Precision, Training};
pub use transformer::{MOST_LAYERS, Transformer};
