//! Which figure stands for one that no entry of the catalog says: `catalog/defaults.toml`, as constants.

include!(concat!(env!("OUT_DIR"), "/defaults.rs"));
