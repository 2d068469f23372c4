//! What do the experts of a mixture cost in inference, as one call on one device?

mod grouped;
mod loads;

pub use grouped::TimedExperts;
