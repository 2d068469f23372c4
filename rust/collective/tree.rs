//! What an all-reduce over two complementary binary trees costs.

use super::form::{Algorithm, Form};
use super::route::Route;
use crate::defaults::library::tree;
use crate::units::Seconds;

/// A parent and two children.
const NEIGHBOURS: f64 = 3.0;

/// Double binary tree all-reduce between units, pipelined chains inside.
///
/// `T = base + 2 * ((m_0 - 1) * step_0 + sum_i ceil(log2 m_i) * step_i) + n * max_i f_i / (share_i * B_i)`
///
/// `m_i` members and `B_i` bytes/s unit rate of level `i`, `share_i` 1 inside and that of `[library.tree]` between;
/// `f_0` = 2 (the chain passes `n` up and `n` down through each device); between units `f` = 1 for two
/// (each root half), 1.5 for three, else 2. An upper bound on two members inside, whose chain passes `n`
/// each way; with more than one network level, the edges of one tree over all nodes that cross an outer
/// level can carry up to `3 n`, which NCCL's tuner, and so this form, leaves out. Sanders, Speck and Traff
/// 2009; depth as in NCCL's tuner.
pub(super) fn form(route: &Route) -> Form {
    let mut way = Seconds::ZERO;
    let mut slowest = 0.0_f64;
    for i in route.path() {
        way += route.step(i) * levels(i, route) + route.switch_reconfiguration(i, NEIGHBOURS) * 0.5;
        let share = if i == 0 { 1.0 } else { tree::SHARE };
        slowest = slowest.max(leaving(i, route) / (route.unit_rate(i) * share));
    }
    Form {
        algorithm: Algorithm::Tree,
        protocol: route.protocol,
        fixed: route.base() + way * 2.0,
        per_byte: slowest,
    }
}

/// Steps from leaf to root within level `i`.
fn levels(i: usize, route: &Route) -> f64 {
    if i == 0 {
        route.members(0) - 1.0
    } else {
        tree::STEP * f64::from(depth(route.group.members[i]))
    }
}

/// `ceil(log2 members)`, without a logarithm: this runs for every element of large arrays.
fn depth(members: u32) -> u32 {
    u32::BITS - members.saturating_sub(1).leading_zeros()
}

/// Bytes that leave a unit of the level below `i`, per byte of the buffer.
pub(super) fn leaving(i: usize, route: &Route) -> f64 {
    match (i, route.units(i)) {
        (1.., 0..=2) => 1.0,
        (1.., 3) => 1.5,
        _ => 2.0,
    }
}

/// The same tree without bytes: all have come when the root knows, all may go when it has said so.
pub(super) fn barrier(route: &Route) -> Form {
    Form {
        per_byte: 0.0,
        ..form(route)
    }
}
