//! Every choice of a training plan as plain data, its legality, and its lowering to a program.

mod choice;
mod chunked;
mod kernels;
mod legality;
mod lower;
mod mesh;
mod program;
mod recomputation;
mod residence;
mod sharding;
mod shared;

pub use crate::schedule::Kind as Schedule;
pub use choice::{ExpertRecompute, Plan, RecomputePolicy};
pub use kernels::repeats;
pub use legality::{MOST_CHUNKS, Rule, Shape, Split, check, check_blocks};
pub use lower::{lower, lower_slice};
pub use mesh::{Mesh, Span, expert_zero_group, zero_spans};
pub use program::{Activations, BlockProgram, Order, Purpose, Task, Weights, cover};
pub use recomputation::Recomputation;
pub use sharding::{Layout, Sharding, adjoint, transition};
