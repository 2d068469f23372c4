//! How do predictions compare with published figures, in each paper's own metric?

mod metric;
mod observed;

pub use metric::{Metric, Request, published};
pub use observed::Priced;
