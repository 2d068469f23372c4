//! How often is a cell written, and does a tier last as long as it must?

use crate::hardware::TierAccess;
use crate::memory::placement::tensor::Tensor;
use crate::units::YEAR_S;

/// Bytes a second that a tier writes to keep a tensor alive through steps of `step_s` seconds: cells
/// forget after `retention`, so what is older is written again, `step / retention` times a step
/// (Legtchenko et al. 2025, managed-retention memory, section 3: retention is matched to the lifetime
/// of the data).
pub(super) fn refresh_rate(place: &TierAccess, tensor: &Tensor, step_s: f64) -> f64 {
    let Some(retention) = place.tier.retention else {
        return 0.0;
    };
    let renewed = !tensor.survives() || tensor.uses.iter().any(|u| u.written_bytes > 0.0);
    if renewed && step_s <= retention.value() {
        0.0 // each step writes it anew before it is forgotten
    } else {
        tensor.bytes / retention.value()
    }
}

/// Bytes that a step may write so that a tier lasts `years` of steps of `step_s` seconds, one after
/// another: `endurance * capacity * step / years`, writes being spread evenly over the cells.
pub(super) fn writable_bytes(place: &TierAccess, step_s: f64, years: f64) -> Option<f64> {
    let endurance = place.tier.endurance?;
    Some(endurance * place.capacity.value() * step_s / (years * YEAR_S))
}

/// Times that a cell is written in a year of steps that write `bytes` each.
pub(super) fn writes_per_cell(place: &TierAccess, bytes: f64, step_s: f64) -> f64 {
    if bytes > 0.0 && step_s > 0.0 {
        bytes / place.capacity.value() * YEAR_S / step_s
    } else {
        0.0
    }
}

/// Years until cells that are written `bytes` a step wear out; none where there is no limit.
pub(super) fn lifetime_years(place: &TierAccess, bytes: f64, step_s: f64) -> Option<f64> {
    let endurance = place.tier.endurance?;
    let writes = writes_per_cell(place, bytes, step_s);
    (writes > 0.0).then(|| endurance / writes)
}
