//! Quantities as types: seconds never add to bytes, and text such as "80 GiB" has one reader.

mod dtype;
mod quantity;
mod text;

pub use dtype::Dtype;
pub use quantity::{
    Bytes, BytesPerSecond, Dollars, DollarsPerByte, Flops, FlopsPerSecond, Joules, JoulesPerByte,
    Seconds, SquareMillimetres, Watts, WattsPerByte,
};
pub use text::GIBI;

/// Seconds of a year of 365.25 days.
pub const YEAR_S: f64 = 31_557_600.0;
