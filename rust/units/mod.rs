//! Quantities as types: seconds never add to bytes, and text such as "80 GiB" has one reader.

mod dtype;
mod quantity;
mod text;

pub use dtype::Dtype;
pub use quantity::{
    Bytes, BytesPerSecond, Dollars, Flops, FlopsPerSecond, Joules, Seconds, SquareMillimetres,
    Watts,
};
