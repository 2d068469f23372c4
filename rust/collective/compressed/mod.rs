//! What do ranks save that send fewer bytes or talk less often, and when do they lose by it?

mod cost;
mod gossip;
mod payload;
mod policy;
mod round;

use crate::error::{Error, Result};
use crate::hardware::{Cluster, Group};
use crate::units::{Bytes, Dtype};
use cost::ExchangeCost;
use round::Round;
use serde::Serialize;

pub use gossip::{Gossip, Graph, Mixing};
pub use payload::{Format, Payload};
pub use policy::{Counts, Local, OneBitAdam, Policy, Stage, Stages, ZeroOneAdam};

/// Whose buffer is brought to the mean of all ranks.
#[derive(Debug, Clone, Copy)]
pub struct CompressionSetting<'a> {
    /// The machines.
    pub cluster: &'a Cluster,
    /// Distance between neighbours of the group.
    pub stride: u32,
    /// Ranks of the group.
    pub ranks: u32,
    /// Format in which ranks hold the buffer, and in which full rounds send it.
    pub dtype: Dtype,
    /// The buffer of one rank, in that format.
    pub buffer: Bytes,
}

/// What a step's exchange costs, against an all-reduce of the whole buffer in each step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exchange {
    /// Steps counted.
    pub steps: u64,
    /// Rounds among them with the buffer as it is held.
    pub full_rounds: u64,
    /// Rounds among them with the coded buffer.
    pub compressed_rounds: u64,
    /// Rounds a step.
    pub rounds_per_step: f64,
    /// Coded bits of one element a step; each is sent `2 (p-1)/p` times in an all-reduce.
    pub bits_per_element: f64,
    /// Bytes that a rank sends a step, on average.
    pub sent_bytes: f64,
    /// Bytes that it would send by the plain all-reduce.
    pub plain_sent_bytes: f64,
    /// Time a step, on average.
    pub time_s: f64,
    /// Of that, main-memory passes that encode, decode and sum.
    pub passes_time_s: f64,
    /// Time of the dearest step.
    pub worst_time_s: f64,
    /// Time of the plain all-reduce.
    pub plain_time_s: f64,
    /// Buffers for which the average time is above the plain one: from, and to (none: without end).
    pub losing_bytes: Vec<(f64, Option<f64>)>,
    /// Buffer size from which on it never loses; none where it always does for large buffers.
    pub break_even_bytes: Option<f64>,
    /// How fast ranks come to agree, for gossip.
    pub mixing: Option<Mixing>,
}

impl CompressionSetting<'_> {
    fn group(&self) -> Group {
        self.cluster.group(self.stride, self.ranks)
    }

    fn check(&self) -> Result<()> {
        if matches!(self.dtype, Dtype::Fp32 | Dtype::Bf16 | Dtype::Fp16) {
            return Ok(());
        }
        let allowed = "fp32, bf16 or fp16: a format in which libraries add";
        Err(Error::invalid("dtype", self.dtype.name(), allowed))
    }
}

/// One all-reduce whose buffer travels as `payload`.
pub fn compressed_all_reduce(setting: &CompressionSetting, payload: &Payload) -> Result<Exchange> {
    setting.check()?;
    payload.check()?;
    let counts = Counts {
        steps: 1,
        full: 0,
        compressed: 1,
    };
    let round = round::compressed(setting, payload)?;
    Ok(exchange(setting, counts, &[(1, round)]))
}

/// The steps of a policy: full rounds, compressed ones, or none.
///
/// Compressed rounds travel as `payload`; where there is none, as signs in the policies of Adam and of
/// stages, and as held in local averaging and gossip.
pub fn averaging(
    setting: &CompressionSetting,
    policy: &Policy,
    payload: Option<&Payload>,
) -> Result<Exchange> {
    setting.check()?;
    payload.map_or(Ok(()), Payload::check)?;
    let stages = match policy {
        Policy::OneBitAdam(adam) => adam.stages()?,
        Policy::ZeroOneAdam(adam) => adam.stages()?,
        Policy::Local(local) => local.stages(payload.is_some())?,
        Policy::Stages(given) => given.checked()?,
        Policy::Gossip(gossip) => return gossiping(setting, gossip, payload),
    };
    let counts = Counts::of(&stages);
    let signs = Payload::from(Format::OneBit);
    let kinds = [
        (counts.full, round::plain(setting)),
        (
            counts.compressed,
            round::compressed(setting, payload.unwrap_or(&signs))?,
        ),
    ];
    Ok(exchange(setting, counts, &kinds))
}

fn gossiping(
    setting: &CompressionSetting,
    gossip: &Gossip,
    payload: Option<&Payload>,
) -> Result<Exchange> {
    let made = gossip::gossip(setting, gossip, payload)?;
    let rounds = made.rounds.len() as u64;
    let mut counts = Counts {
        steps: gossip.every.saturating_mul(rounds),
        full: rounds,
        compressed: 0,
    };
    if payload.is_some() {
        (counts.full, counts.compressed) = (0, rounds);
    }
    let kinds: Vec<(u64, Round)> = made.rounds.into_iter().map(|round| (1, round)).collect();
    let mut answer = exchange(setting, counts, &kinds);
    answer.mixing = Some(made.mixing);
    Ok(answer)
}

/// Averages the kinds of rounds, each with its number, over the steps.
fn exchange(setting: &CompressionSetting, counts: Counts, kinds: &[(u64, Round)]) -> Exchange {
    let (buffer, plain) = (setting.buffer, round::plain(setting));
    let bytes = |line: (f64, f64)| {
        if buffer.value() > 0.0 {
            line.0 * buffer.value() + line.1
        } else {
            0.0
        }
    };
    let elements = buffer.value() / setting.dtype.bytes();
    let (mut mean, mut sent, mut coded, mut worst) = (ExchangeCost::default(), 0.0, 0.0, 0.0_f64);
    for (number, round) in kinds.iter().filter(|kind| kind.0 > 0) {
        let weight = *number as f64 / counts.steps as f64;
        mean.add(weight, &round.cost);
        sent += weight * bytes(round.sent);
        coded += weight * bytes(round.coded);
        worst = worst.max(round.cost.time(buffer).value());
    }
    let losing = mean.dearer_than(&plain.cost);
    Exchange {
        steps: counts.steps,
        full_rounds: counts.full,
        compressed_rounds: counts.compressed,
        rounds_per_step: (counts.full + counts.compressed) as f64 / counts.steps as f64,
        bits_per_element: if elements > 0.0 {
            8.0 * coded / elements
        } else {
            0.0
        },
        sent_bytes: sent,
        plain_sent_bytes: bytes(plain.sent),
        time_s: mean.time(buffer).value(),
        passes_time_s: mean.local(buffer).value(),
        worst_time_s: worst,
        plain_time_s: plain.cost.time(buffer).value(),
        break_even_bytes: losing.last().map_or(Some(0.0), |last| last.1),
        losing_bytes: losing,
        mixing: None,
    }
}
