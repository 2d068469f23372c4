//! How long does moving bytes take, from main memory or from on-chip cache?

use super::kernel::KernelCost;
use crate::defaults::cache as shares;
use crate::hardware::Device;
use crate::units::{Bytes, Flops, Seconds};

/// What moving a working set costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    /// Time at the sustained rates of the tiers.
    pub time: Seconds,
    /// Bytes that cross the main-memory bus.
    pub traffic: Bytes,
}

/// Moves a working set once.
///
/// ```text
/// resident = B               if B <= R
///            max(0, 2R - B)  otherwise
/// time = resident / r_cache + (B - resident) / r_main
/// ```
///
/// B: bytes of the working set; R: the share of the cache that the kernels around it leave
/// (`[cache]` of the defaults; products have one of their own), bytes; r: bandwidth times
/// efficiency of the tier, bytes/s. A set that fits stays from one kernel to the next; one of twice
/// the size has been evicted by the time it is read again; between them the line is straight.
pub(super) fn transfer(working_set: Bytes, device: &Device) -> Transfer {
    let main = device.main_memory().sustained();
    let Some(cache) = device.cache() else {
        return Transfer {
            time: working_set / main,
            traffic: working_set,
        };
    };
    let room = cache.capacity * shares::SHARE;
    let resident = if working_set <= room {
        working_set
    } else {
        (room * 2.0 - working_set).max(Bytes::ZERO)
    };
    let traffic = working_set - resident;
    Transfer {
        time: resident / cache.sustained().max(main) + traffic / main,
        traffic,
    }
}

/// Prices passes whose time is their traffic.
///
/// ```text
/// time = launches * (t_transfer(bytes / launches) / share + t_stream)
/// ```
///
/// `t_stream`: `Device::stream_overhead`, s; share: 1, or `Device::cast_share` of casts into two layouts. The
/// efficiency of the main-memory tier stands for what streaming kernels reach (0.85 to 0.92 of the pin rate on
/// HBM, by copy and triad tests). Zero launches mean traffic that rides in another kernel: it comes from main
/// memory and adds no launch.
pub(super) fn cost(bytes: Bytes, launches: f64, device: &Device) -> KernelCost {
    at_share(1.0, (bytes, launches), device)
}

/// The same of casts into two layouts.
pub(super) fn cast_cost(bytes: Bytes, launches: f64, device: &Device) -> KernelCost {
    at_share(device.cast_share, (bytes, launches), device)
}

fn at_share(share: f64, (bytes, launches): (Bytes, f64), device: &Device) -> KernelCost {
    let moved = if launches > 0.0 {
        let one = transfer(bytes / launches, device);
        Transfer {
            time: (one.time / share + device.stream_overhead()) * launches,
            traffic: one.traffic * launches,
        }
    } else {
        Transfer {
            time: bytes / device.main_memory().sustained() / share,
            traffic: bytes,
        }
    };
    KernelCost {
        time: moved.time,
        flops: Flops::ZERO,
        traffic: moved.traffic,
    }
}

/// Reads a working set once: from the cache where it is `warm` and fits, else as `transfer` does
/// with nothing left of the kernels before.
///
/// A kernel that a benchmark repeats finds its own operands in the cache; one of a layer of a model
/// finds those of the layer before. Sources: as for `transfer`; the share is an estimate.
pub(super) fn reading(working_set: Bytes, warm: bool, device: &Device) -> Transfer {
    let main = device.main_memory().sustained();
    match device.cache() {
        Some(cache) if warm && working_set <= cache.capacity * shares::WARM_SHARE => Transfer {
            time: working_set / cache.sustained().max(main),
            traffic: Bytes::ZERO,
        },
        _ => Transfer {
            time: working_set / main,
            traffic: working_set,
        },
    }
}
