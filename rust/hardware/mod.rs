//! What machines are: devices, memory tiers, fabric levels, clusters, and where a group of ranks lies.

mod attention_model;
mod cluster;
mod constants;
mod device;
mod group;
mod level;
mod library;
mod matmul_model;
mod memories;
mod path;
mod serving;
mod slice;
mod system;
mod tier;
mod topology;

pub use attention_model::{AttentionModel, AttentionPass, TrainingAttention};
pub use cluster::Cluster;
pub use constants::{Constant, ConstantKind};
pub use device::{Calibration, Device, DevicePower};
pub use group::{Group, MAX_DIMS, MAX_LEVELS};
pub use level::{Level, LevelKind, Optical, Routing, SingleHop, WideArea, Wrap};
pub use library::{Channels, Library, Line};
pub use matmul_model::{MatmulModel, ProductModel};
pub use memories::{Crossing, HOST_PATH, HOST_TIER, Lane, Memories, TierAccess};
pub use path::Path;
pub use serving::{DecodeModel, ExpertModel, PrefillModel};
pub use system::{Host, Price, System};
pub use tier::{MemoryTier, TierKind};
pub use topology::{RouteChoice, Topology};
