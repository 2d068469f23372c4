//! What does one round cost and send in which all ranks bring their buffers to the same mean?

use super::CompressionSetting;
use super::cost::ExchangeCost;
use super::payload::{Payload, SumMethod};
use crate::collective::{Collective, Forms};
use crate::error::{Error, Result};
use crate::units::Bytes;

/// One kind of round. Amounts are lines in the bytes of the buffer.
#[derive(Debug, Clone)]
pub(super) struct Round {
    pub(super) cost: ExchangeCost,
    /// Bytes that a rank sends for each byte of the buffer, and beside them.
    pub(super) sent: (f64, f64),
    /// Coded bytes of a rank's buffer for each of its bytes, and beside them.
    pub(super) coded: (f64, f64),
}

/// The buffer's all-reduce as it is.
///
/// `sent = 2 (p-1)/p n`: what a bandwidth-optimal all-reduce sends (Patarasuk and Yuan 2009), whichever
/// algorithm has the least time.
pub(super) fn plain(setting: &CompressionSetting) -> Round {
    let forms = Forms::new(Collective::AllReduce, &setting.group(), setting.cluster);
    Round {
        cost: ExchangeCost::default().collective(&forms, 1.0, Bytes::ZERO),
        sent: (Collective::AllReduce.bus_factor(setting.ranks), 0.0),
        coded: (1.0, 0.0),
    }
}

/// One all-reduce of a coded buffer, over all ranks at once or inside nodes first.
pub(super) fn compressed(setting: &CompressionSetting, payload: &Payload) -> Result<Round> {
    if payload.nodes_first {
        nodes_first(setting, payload)
    } else {
        Ok(coded(setting, payload))
    }
}

/// Full precision inside nodes, coded chunks between them.
///
/// `reduce_scatter(n) in a node of g + coded all-reduce of n/g between nodes + all_gather(n) in a node`
///
/// A rank then sends `1/g` of the coded bytes over its share of the network, where a flat all-to-all
/// sends them all: Wang et al. 2023 (ZeRO++), whose ranks code inside nodes as well.
fn nodes_first(setting: &CompressionSetting, payload: &Payload) -> Result<Round> {
    let inside = setting.group().members[0];
    if inside == setting.ranks && inside > 1 {
        let got = format!("true on {inside} ranks of one node");
        let allowed = "false, or a group over several nodes";
        return Err(Error::invalid("payload.nodes_first", got, allowed));
    }
    let node = setting.cluster.group(setting.stride, inside);
    let forms = |collective| Forms::new(collective, &node, setting.cluster);
    let between = coded(
        &CompressionSetting {
            stride: setting.stride.saturating_mul(inside),
            ranks: setting.ranks / inside,
            ..*setting
        },
        payload,
    );
    let each = f64::from(inside);
    let phases = 2.0 * Collective::AllGather.bus_factor(inside);
    let mut cost = ExchangeCost::default()
        .collective(&forms(Collective::ReduceScatter), 1.0, Bytes::ZERO)
        .collective(&forms(Collective::AllGather), 1.0, Bytes::ZERO);
    cost.add(1.0, &between.cost.on_share(1.0 / each));
    Ok(Round {
        cost,
        sent: (phases + between.sent.0 / each, between.sent.1),
        coded: (between.coded.0, between.coded.1 * each),
    })
}

/// One all-reduce of a coded buffer of `n` bytes, `w` of `b` bytes left of an element.
///
/// ```text
/// cast         encode + all_reduce(w/b n) + decode
/// two phases   encode + all_to_all(c) + sum own chunk + all_gather(c) + decode,   c = w/b n + 4 p
/// top_k        select + all_gather(p c) + add up,                                 c = w/b n
/// ```
///
/// `4 p`: an fp32 scale with each of the `p` chunks, where blocks have none. `sent` is
/// `2 (p-1)/p c`, for `top_k` `(p-1) c`: entries of ranks lie at different places, so nothing is
/// added on the way. Two phases: Tang et al. 2021 (1-bit Adam), also ZeRO++ for 8-bit integers; `top_k`:
/// Lin et al. 2018. A lone rank codes nothing.
fn coded(setting: &CompressionSetting, payload: &Payload) -> Round {
    let way = payload.way(setting.dtype);
    if way == SumMethod::AsHeld || setting.ranks <= 1 {
        return plain(setting);
    }
    let (device, ranks) = (&setting.cluster.device, f64::from(setting.ranks));
    let forms = |collective| Forms::new(collective, &setting.group(), setting.cluster);
    let held = setting.dtype.bytes();
    let coded = payload.bytes(setting.dtype);
    let share = coded / held;
    let passes = payload.passes(setting.dtype);
    let encode = passes.encode / held;
    let cost = ExchangeCost::default().passes(encode, passes.encode_launches, device);
    match way {
        SumMethod::AsHeld | SumMethod::Cast => Round {
            cost: cost
                .collective(&forms(Collective::AllReduce), share, Bytes::ZERO)
                .passes(share + 1.0, 1.0, device),
            sent: (share * Collective::AllReduce.bus_factor(setting.ranks), 0.0),
            coded: (share, 0.0),
        },
        SumMethod::TwoPhases => {
            let scales = Bytes::new(payload.scale() * ranks);
            let own = share + (passes.chunk + coded) / (held * ranks);
            let phases = 2.0 * Collective::AllGather.bus_factor(setting.ranks);
            Round {
                cost: cost
                    .collective(&forms(Collective::AllToAll), share, scales)
                    .passes(own, 2.0, device)
                    .collective(&forms(Collective::AllGather), share, scales)
                    .passes(share + 1.0, 1.0, device),
                sent: (phases * share, phases * scales.value()),
                coded: (share, scales.value()),
            }
        }
        SumMethod::Gather => Round {
            // each entry is read, and the element that it adds to is read and written
            cost: cost
                .collective(&forms(Collective::AllGather), ranks * share, Bytes::ZERO)
                .passes(
                    1.0 + ranks * (share + 2.0 * sent_share(payload)),
                    2.0,
                    device,
                ),
            sent: ((ranks - 1.0) * share, 0.0),
            coded: (share, 0.0),
        },
    }
}

/// Share of the elements that are sent.
fn sent_share(payload: &Payload) -> f64 {
    payload.share.unwrap_or(1.0)
}
