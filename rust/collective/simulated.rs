//! How long does an algorithm take when its transfers run on the actual links, beside its closed form?

use super::form::{Algorithm, Collective, Forms};
use super::transfers::{Ranks, cancellable_transfers};
use crate::control::Control;
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Library};
use crate::solve::{Link, Load, Simulation};
use crate::units::Bytes;
use serde::Serialize;

/// Keeps a run to seconds and to memory that there is.
const MOST_TRANSFERS: u64 = 1 << 25;

/// What running an algorithm once on all groups of a cluster gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulated {
    /// When the last transfer has arrived, in seconds.
    pub time_s: f64,
    /// What the closed form says without a library's start-up and protocols, in seconds.
    pub closed_form_s: f64,
    /// Transfers that ran.
    pub transfers: u64,
    /// Most bytes on one link over what it could have carried in the time.
    pub busiest_link_share: f64,
}

/// Runs `collective` by `algorithm` on the groups of `ranks` that fill `cluster`, all at once.
///
/// Max-min fair sharing of links; a message costs the latency of the level that it crosses and its
/// bytes at the sustained rates. Start-up times and protocols are left out on both sides. Stops soon after
/// `control` is cancelled.
pub fn simulate(
    algorithm: Algorithm,
    collective: Collective,
    cluster: &Cluster,
    ranks: Ranks,
    bytes: Bytes,
    control: &Control,
) -> Result<Simulated> {
    cluster.check_group(ranks.stride, ranks.size)?;
    let most = 2 * u64::from(cluster.devices) * u64::from(ranks.size);
    if most > MOST_TRANSFERS {
        let allowed = format!("2 * devices * ranks up to {MOST_TRANSFERS} transfers");
        return Err(Error::invalid("ranks", ranks.size, allowed));
    }
    let mut plain = cluster.clone();
    for level in &mut plain.system.levels {
        level.library = Some(Library::PLAIN);
    }
    let group = plain.group(ranks.stride, ranks.size);
    let forms = Forms::forced(algorithm, collective, &group, &plain)?;
    let flows = cancellable_transfers(algorithm, collective, &plain, (ranks, bytes), control)?;
    let goes_on = || !control.is_cancelled();
    let stopped = || stopped(flows.len());
    let mut simulation = Simulation::new_while(&flows, goes_on).ok_or_else(stopped)?;
    let outcome = simulation.run_while(goes_on).ok_or_else(stopped)?;
    let time = outcome.end();
    let share = |(link, load): (&Link, &Load)| {
        if time > 0.0 {
            load.carried / (time * link.capacity)
        } else {
            0.0
        }
    };
    let loads = flows.links().iter().zip(&outcome.loads);
    Ok(Simulated {
        time_s: time,
        closed_form_s: forms.time(bytes).value(),
        transfers: outcome.ends.len() as u64,
        busiest_link_share: loads.map(share).fold(0.0, f64::max),
    })
}

/// The error of a run that the caller stopped.
pub(super) fn stopped(transfers: usize) -> Error {
    Error::Cancelled {
        what: format!("a run of {transfers} transfers"),
    }
}
