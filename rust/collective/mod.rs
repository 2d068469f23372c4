//! What one collective on one group of a fabric costs: one file per algorithm, `select` takes the best.

mod bound;
mod direct;
mod form;
mod hierarchical;
mod in_network;
mod pairwise;
mod point_to_point;
mod ring;
mod route;
mod select;
mod torus;
mod transfers;
mod tree;

pub use form::{Algorithm, Collective, Form, Forms, Protocol};
pub use transfers::{Ranks, transfers};
