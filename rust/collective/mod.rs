//! What one collective on one group of a fabric costs: one file per algorithm, the least of whose lines wins.

mod algorithm;
mod binomial;
mod bound;
mod bruck;
mod chain;
mod choice;
mod compressed;
mod direct;
mod explained;
mod forced_algorithms;
mod form;
mod halving_doubling;
mod hierarchical;
mod host_path;
mod in_network;
mod linear;
mod msccl;
mod operation;
mod pairs;
mod pairwise;
mod parameter_server;
mod point_to_point;
mod product;
mod ramp;
mod rank_counts;
mod rates;
mod recursive_doubling;
mod ring;
mod rounds;
mod route;
mod rules;
mod scatter_all_gather;
mod select;
mod shots;
mod simulated;
mod spread;
mod sweep;
mod token_crossing;
mod torus;
mod transfers;
mod tree;
mod two_dimensional;
mod uneven;
mod weight_streaming;

pub use choice::{Binding, Choice, Choices, Crossover};
pub use compressed::{
    CompressionSetting, Counts, Exchange, Format, Gossip, Graph, Local, Mixing, OneBitAdam,
    Payload, Policy, Stage, Stages, ZeroOneAdam, averaging, compressed_all_reduce,
};
pub use explained::ExplainedChoices;
pub use form::{Algorithm, Collective, Form, Forms, Protocol};
pub use msccl::{Msccl, MscclRun};
pub use pairs::{Matrices, Pairs, PairsCost, PairsRequest, collective_on_pairs};
pub use rules::Rules;
pub use simulated::{Simulated, simulate};
pub use sweep::{Sweep, SweepPoints};
pub use token_crossing::Crossing;
pub use transfers::{Ranks, transfers};
pub use uneven::{Uneven, uneven_all_to_all};
