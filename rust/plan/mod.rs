//! Every choice of a training plan as plain data, its legality, and its lowering to a program.

mod axis_order;
mod choice;
mod chunked;
mod collectives;
mod edges;
mod kernels;
mod legality;
mod lower;
mod matrices;
mod mesh;
mod program;
mod recomputation;
mod residence;
mod routing;
mod rule;
mod scan;
mod sharding;
mod shared;
mod slices;
mod split;
mod token_slices;

pub use crate::schedule::Kind as Schedule;
pub use axis_order::{Axis, AxisOrder};
pub use choice::{ExpertRecompute, Plan, RecomputePolicy};
pub use collectives::Collectives;
pub use kernels::repeats;
pub use legality::{Shape, check, check_blocks};
pub use lower::{lower, lower_slice};
pub use matrices::{ITERATIONS, Matrices};
pub use mesh::{Mesh, Span, expert_zero_group, zero_spans};
pub use program::{Activations, BlockProgram, Order, Purpose, Task, Weights, cover};
pub use recomputation::Recomputation;
pub use rule::{MOST_CHUNKS, Rule};
pub use sharding::{Layout, Sharding, Side, adjoint, transition};
pub use split::Split;
pub use token_slices::{MOST_SLICES, TokenSlices};
