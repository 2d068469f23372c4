//! What may be expected of a swarm whose peers stay, and of a device that waits for its transfers?

use super::Request;
use crate::error::Result;
use crate::error::amounts::{count, not_negative, positive};
use serde::Deserialize;

/// Micro-batches a second of the peers that are there at the beginning, if all stay.
///
/// Mean value analysis of a closed network of queues (Reiser and Lavenberg 1980). With `k_s` peers
/// and speeds `V_s` in all on stage `s` of `S`, a delay `d`, and `n = 1, 2, .. N` micro-batches:
///
/// ```text
/// R_s(n) = (k_s + Q_s(n-1)) / V_s,   X(n) = n / (2 S d + sum_s R_s(n)),   Q_s(n) = X(n) R_s(n)
/// ```
///
/// R: seconds on a stage, Q: micro-batches there, X: micro-batches a second. Peers chosen by chance in
/// proportion to their speed all have the same load, `1 / V_s` seconds a micro-batch. Exact for
/// random routing and exponential passes, forward as long as backward; round-robin routing and
/// passes of constant length get more done. `X(N)` grows to the bound `min_s V_s` with `N`.
pub fn expected_per_s(request: &Request) -> Result<f64> {
    super::check(request)?;
    let under_way = u64::from(request.trainers) * u64::from(request.in_flight);
    let speeds: Vec<f64> = request
        .stages
        .iter()
        .map(|peers| peers.iter().sum())
        .collect();
    let delays = 2.0 * request.stages.len() as f64 * request.delay_s;
    let mut queues = vec![0.0; speeds.len()];
    let mut rate = 0.0;
    for n in 1..=under_way {
        let mut round = delays;
        for (stage, queue) in queues.iter_mut().enumerate() {
            *queue = (request.stages[stage].len() as f64 + *queue) / speeds[stage];
            round += *queue;
        }
        rate = n as f64 / round;
        for queue in &mut queues {
            *queue *= rate;
        }
    }
    Ok(rate)
}

/// What a stage's device computes, and what it sends and receives meanwhile.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Forward and backward pass of a micro-batch, seconds.
    pub compute_s: f64,
    /// Activations of a micro-batch as they travel, bytes.
    pub bytes: f64,
    /// Bytes a second; no limit where left out.
    #[serde(default)]
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Seconds that any message takes.
    #[serde(default)]
    pub latency_s: f64,
    /// Messages of a micro-batch that the device waits for: activations one way, gradients the other.
    #[serde(default = "both_ways")]
    pub messages: u32,
}

fn both_ways() -> u32 {
    2
}

/// Share of the time in which a device computes that waits for its transfers.
///
/// ```text
/// u = C / (C + n (b / B + l))
/// ```
///
/// C: compute, b: bytes, B: bandwidth, l: latency, n: messages. For layers `n` times as wide compute
/// grows with `n^2` for a token and the bytes with `n`; with as many times the tokens, with `n^3` and
/// `n^2`: the square-cube law, by which larger models need less of a network (Ryabinin et al. 2023,
/// section 3.1). The shares published there (section 4.1) are such: `1 / u` grows with the latency in a
/// straight line.
pub fn utilization(transfer: &Transfer) -> Result<f64> {
    positive("compute_s", transfer.compute_s)?;
    not_negative("bytes", transfer.bytes)?;
    not_negative("latency_s", transfer.latency_s)?;
    count("messages", transfer.messages as usize, 0, super::MOST)?;
    let sent = match transfer.bandwidth_bytes_per_s {
        Some(rate) => transfer.bytes / positive("bandwidth_bytes_per_s", rate)?,
        None => 0.0,
    };
    let waited = f64::from(transfer.messages) * (sent + transfer.latency_s);
    Ok(transfer.compute_s / (transfer.compute_s + waited))
}
