//! What one collective on one group of a fabric costs: one file per algorithm, `select` takes the best.

mod form;

pub use form::{Algorithm, Collective, Form, Forms};
