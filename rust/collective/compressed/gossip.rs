//! What does a round cost in which ranks average with neighbours only, and how fast do they agree?

use super::CompressionSetting;
use super::cost::ExchangeCost;
use super::payload::Payload;
use super::policy::check;
use super::round::Round;
use crate::collective::form::Protocol;
use crate::collective::form::{Algorithm, Collective, Forms};
use crate::collective::rounds::{Pattern, Rounds};
use crate::collective::route::{GroupPlacement, Route};
use crate::error::{Error, Result};
use crate::hardware::Group;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::f64::consts::{LN_10, PI};

/// Averaging with neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gossip {
    /// Who is whose neighbour.
    pub graph: Graph,
    /// Steps between two rounds.
    #[serde(default = "one")]
    pub every: u64,
    /// Ranks in a row and rows of a `torus`; absent: as near to a square as the ranks allow.
    #[serde(default)]
    pub sides: Option<[u32; 2]>,
}

/// Who averages with whom; a rank gives itself and each neighbour the same weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Graph {
    /// The rank before and the rank after.
    Ring,
    /// Rings along rows and columns.
    Torus,
    /// Everybody.
    Complete,
    /// Ranks whose numbers differ in one bit.
    Hypercube,
    /// Ranks 1, 2, 4, ... further on.
    Exponential,
    /// One of these a round, in turn.
    OnePeerExponential,
}

/// How fast gossip spreads what a rank knows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mixing {
    /// Messages that a rank sends in a round.
    pub neighbours: u32,
    /// Factor by which a round shrinks the ranks' disagreement at least: the second largest modulus of
    /// an eigenvalue; for `one_peer_exponential` that of all its rounds together.
    pub second_eigenvalue: f64,
    /// One less that factor.
    pub spectral_gap: f64,
    /// True where the gap is a lower bound.
    pub is_bound: bool,
    /// Rounds after which at most a tenth of the disagreement is left.
    pub rounds_to_tenth: f64,
}

/// The kinds of rounds, which take turns, and how they mix.
pub(super) struct Gossiping {
    pub(super) rounds: Vec<Round>,
    pub(super) mixing: Mixing,
}

/// Rounds of gossip with a coded buffer, or the buffer as it is.
///
/// ```text
/// T = encode + base + sum_d (step_d + c / B_d) + decode and average,   c = w/b n + 4
/// ```
///
/// One message after the other, as one port sends them; `c` the coded message with its scale. Decoding
/// reads `d` messages and the own buffer and writes it. In a complete graph the messages are an
/// all-gather. Mirrors of optical switches are turned once a round, as for other collectives.
pub(super) fn gossip(
    setting: &CompressionSetting,
    gossip: &Gossip,
    payload: Option<&Payload>,
) -> Result<Gossiping> {
    check("gossip.every", gossip.every, 1)?;
    if payload.is_some_and(|payload| payload.nodes_first) {
        let allowed = "false for gossip";
        return Err(Error::invalid("payload.nodes_first", true, allowed));
    }
    let sides = gossip.checked_sides(setting.ranks)?;
    let neighbours = gossip.graph.neighbours(setting.ranks, sides);
    let coded = payload.map_or((1.0, 0.0), |payload| {
        let share = payload.bytes(setting.dtype) / setting.dtype.bytes();
        (share, payload.scale())
    });
    let rounds = messages(setting, gossip.graph, sides)
        .into_iter()
        .map(|(forms, each)| {
            // a complete graph's all-gather holds the messages of all ranks
            let cost = with_passes(setting, payload, coded.0, neighbours, |cost| {
                cost.collective(&forms, each * coded.0, Bytes::new(each * coded.1))
            });
            let sent = f64::from(neighbours);
            Round {
                cost,
                sent: (sent * coded.0, sent * coded.1),
                coded,
            }
        });
    Ok(Gossiping {
        rounds: rounds.collect(),
        mixing: gossip.graph.mixing(setting.ranks, sides, neighbours),
    })
}

/// Encoding before the messages, decoding and averaging after them.
fn with_passes(
    setting: &CompressionSetting,
    payload: Option<&Payload>,
    share: f64,
    neighbours: u32,
    messages: impl FnOnce(ExchangeCost) -> ExchangeCost,
) -> ExchangeCost {
    let mut cost = ExchangeCost::default();
    if setting.ranks <= 1 {
        return cost;
    }
    let device = &setting.cluster.device;
    if let Some(payload) = payload {
        let passes = payload.passes(setting.dtype);
        let per_byte = passes.encode / setting.dtype.bytes();
        cost = cost.passes(per_byte, passes.encode_launches, device);
    }
    messages(cost).passes(f64::from(neighbours) * share + 2.0, 1.0, device)
}

/// The forms of each round in turn, and how many messages long they are.
fn messages(setting: &CompressionSetting, graph: Graph, sides: [u32; 2]) -> Vec<(Forms, f64)> {
    let (group, ranks) = (setting.group(), setting.ranks);
    if ranks <= 1 {
        return vec![(Forms::FREE, 1.0)];
    }
    let alone =
        |pattern, distances: &[u32]| (forms(setting, (&group, distances), pattern, None), 1.0);
    let doubling: Vec<u32> = (0..log2_up(ranks)).map(|i| 1 << i).collect();
    match graph {
        Graph::Ring => vec![alone(Pattern::Shift, &both_ways(ranks))],
        Graph::Torus => {
            let row = setting.cluster.group(setting.stride, sides[0]);
            let apart = setting.stride.saturating_mul(sides[0]);
            let column = setting.cluster.group(apart, sides[1]);
            let along = [both_ways(sides[0]), both_ways(sides[1])];
            let columns = (sides[1] > 1).then_some((&column, &along[1][..]));
            let row = (&row, &along[0][..]);
            vec![(forms(setting, row, Pattern::Shift, columns), 1.0)]
        }
        Graph::Complete => {
            let gather = Forms::new(Collective::AllGather, &group, setting.cluster);
            vec![(gather, f64::from(ranks))]
        }
        Graph::Hypercube => vec![alone(Pattern::Exchange, &doubling)],
        Graph::Exponential => vec![alone(Pattern::Shift, &doubling)],
        Graph::OnePeerExponential => doubling
            .iter()
            .map(|&distance| alone(Pattern::Shift, &[distance]))
            .collect(),
    }
}

/// Distances to the two neighbours on a ring: one where they are the same.
fn both_ways(ranks: u32) -> Vec<u32> {
    match ranks {
        0 | 1 => Vec::new(),
        2 => vec![1],
        _ => vec![1, ranks - 1],
    }
}

/// One message of the whole buffer at each distance within a group and then, by shifts, within another.
fn forms(
    setting: &CompressionSetting,
    (group, distances): (&Group, &[u32]),
    pattern: Pattern,
    then: Option<(&Group, &[u32])>,
) -> Forms {
    let mut forms = Forms::FREE;
    let place = GroupPlacement::new(group, setting.cluster);
    let after =
        then.map(|(group, distances)| (GroupPlacement::new(group, setting.cluster), distances));
    for protocol in Protocol::ALL {
        let route = Route::new(&place, setting.cluster, protocol);
        let mut rounds = Rounds::new(&route);
        for &distance in distances {
            rounds.add(pattern, distance, 1.0);
        }
        if let Some((place, distances)) = &after {
            let route = Route::new(place, setting.cluster, protocol);
            let mut further = Rounds::new(&route);
            for &distance in *distances {
                further.add(Pattern::Shift, distance, 1.0);
            }
            // leaves the start-up of the outer one
            rounds.follow(&further.form(Algorithm::PointToPoint));
        }
        let room = forms.push(rounds.form(Algorithm::PointToPoint));
        debug_assert!(room, "a line for each protocol");
    }
    forms
}

impl Gossip {
    /// Sides of a torus; the group's ranks in one row for the other graphs.
    fn checked_sides(&self, ranks: u32) -> Result<[u32; 2]> {
        let power = matches!(self.graph, Graph::Hypercube | Graph::OnePeerExponential);
        if power && !ranks.is_power_of_two() {
            let allowed = "a number of ranks that is a power of two for this graph";
            return Err(Error::invalid("devices", ranks, allowed));
        }
        match (self.graph, self.sides) {
            (Graph::Torus, Some([row, rows])) => {
                if u64::from(row) * u64::from(rows) == u64::from(ranks) {
                    return Ok([row, rows]);
                }
                let allowed = format!("two numbers whose product is the {ranks} ranks");
                let got = format!("{row} x {rows}");
                Err(Error::invalid("policy.gossip.sides", got, allowed))
            }
            (Graph::Torus, None) => {
                let divides = |side: &u32| ranks.is_multiple_of(*side);
                let rows = (1..=ranks.isqrt()).rev().find(divides).unwrap_or(1);
                Ok([ranks / rows, rows])
            }
            (_, None) => Ok([ranks, 1]),
            (_, Some([row, rows])) => {
                let got = format!("{row} x {rows}");
                let allowed = "sides for graph torus only";
                Err(Error::invalid("policy.gossip.sides", got, allowed))
            }
        }
    }
}

impl Graph {
    /// Messages that a rank sends in a round.
    fn neighbours(self, ranks: u32, sides: [u32; 2]) -> u32 {
        let on_ring = |ranks: u32| ranks.saturating_sub(1).min(2);
        match self {
            Self::Ring => on_ring(ranks),
            Self::Torus => on_ring(sides[0]) + on_ring(sides[1]),
            Self::Complete => ranks.saturating_sub(1),
            Self::Hypercube | Self::Exponential => log2_up(ranks),
            Self::OnePeerExponential => log2_up(ranks).min(1),
        }
    }

    /// Second eigenvalue of the averaging with equal weights `1 / (d + 1)`, `d` neighbours.
    ///
    /// ```text
    /// ring, torus    1 - min_sides (2 - 2 cos(2 pi / a)) / (d + 1), a ranks on a side;
    ///                2 / (d + 1) on a side of two, where both neighbours are one
    /// complete       0
    /// hypercube      (d - 1) / (d + 1)
    /// exponential    (d - 1) / (d + 1) for an even number of ranks, less for an odd one
    /// one peer       0 after ceil(log2 p) rounds: then all hold the mean
    /// ```
    ///
    /// With these weights no negative eigenvalue has a larger modulus. Rings and their products are
    /// circulant (Xiao and Boyd 2004); exponential: Ying et al. 2021, proposition 1 and lemma 1
    /// (recalled); one peer a round: Assran et al. 2019.
    fn mixing(self, ranks: u32, sides: [u32; 2], neighbours: u32) -> Mixing {
        let all = f64::from(neighbours) + 1.0;
        let spectral_gap = match self {
            _ if ranks <= 1 => 1.0,
            Self::Ring => on_rings([ranks, 1], all),
            Self::Torus => on_rings(sides, all),
            Self::Complete | Self::OnePeerExponential => 1.0,
            Self::Hypercube | Self::Exponential => 2.0 / all,
        };
        let rounds_to_tenth = match self {
            Self::OnePeerExponential => f64::from(log2_up(ranks).max(1)),
            _ if spectral_gap >= 1.0 => 1.0,
            _ => (LN_10 / -(-spectral_gap).ln_1p()).ceil(),
        };
        Mixing {
            neighbours,
            second_eigenvalue: 1.0 - spectral_gap,
            spectral_gap,
            is_bound: self == Self::Exponential && !ranks.is_multiple_of(2) && ranks > 1,
            rounds_to_tenth,
        }
    }
}

/// One less the second eigenvalue on rings along two sides, `all` a rank and its neighbours.
fn on_rings(sides: [u32; 2], all: f64) -> f64 {
    let slowest = |side: u32| match side {
        0 | 1 => f64::INFINITY,
        2 => 2.0 / all,
        // 2 - 2 cos x = 4 sin^2 (x / 2), which keeps its digits on long rings
        _ => 4.0 * (PI / f64::from(side)).sin().powi(2) / all,
    };
    slowest(sides[0]).min(slowest(sides[1]))
}

/// `ceil(log2 ranks)`.
fn log2_up(ranks: u32) -> u32 {
    ranks
        .saturating_sub(1)
        .checked_ilog2()
        .map_or(0, |log| log + 1)
}

fn one() -> u64 {
    1
}
