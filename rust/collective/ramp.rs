//! What the collectives of RAMP cost: a single-hop optical network of transceivers and subnets.

use super::form::{Algorithm, Collective, Form, Protocol};
use crate::error::{Error, Result};
use crate::units::{BytesPerSecond, Seconds};

/// A RAMP network: nodes with `transceivers` each, in communication groups and racks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Transceivers of a node, and communication groups of the network.
    pub transceivers: u32,
    /// Communication groups that the job uses.
    pub groups: u32,
    /// Racks of a communication group that the job uses.
    pub racks: u32,
    /// Nodes of a rack that the job uses.
    pub nodes: u32,
    /// Rate of a node over all its transceivers.
    pub rate: BytesPerSecond,
    /// Time of flight between two nodes.
    pub latency: Seconds,
    /// Time in a node's ports, at each end.
    pub port: Seconds,
    /// Rate at which a node adds two of its inputs.
    pub addition: BytesPerSecond,
}

impl Ramp {
    /// The network of Ottino, Benjamin and Zervas 2022: 32 transceivers, 12.8 Tb/s a node, 1.25 us at
    /// worst, 100 ns a port, memory of 2 TB/s (an addition reads two inputs and writes one). Simulated
    /// figures: the network has not been built.
    pub const PUBLISHED: Self = Self {
        transceivers: 32,
        groups: 32,
        racks: 32,
        nodes: 64,
        rate: BytesPerSecond::new(1.6e12),
        latency: Seconds::new(1.25e-6),
        port: Seconds::new(100e-9),
        addition: BytesPerSecond::new(2e12 / 3.0),
    };

    /// Ranks that take part.
    pub fn ranks(&self) -> u64 {
        [self.groups, self.racks, self.nodes]
            .iter()
            .map(|&count| u64::from(count))
            .product()
    }

    /// Reduce-scatter, all-gather, all-reduce or barrier in at most four stages.
    ///
    /// `T = k sum_j (latency + 2 port + n_j / (t_j R / x)) + sum_j (d_j - 1) n_j / A`, `n_j = n_(j-1) / d_j`
    ///
    /// Stages `d` = groups, nodes inside a group of `x`, racks, and what is left of the nodes; stage `j`
    /// has `t_j = min(floor(x / J), floor(x / (d_j - 1)))` of the `x` transceivers to each partner, `J`
    /// racks; `R` bytes/s of a node, `A` of its additions (reductions only); `k` = 2 passes for
    /// all-reduce, else 1. Bound: `k (p-1)/p n / R`. Ottino et al. 2022 (RAMP, section 5).
    pub fn form(&self, collective: Collective) -> Result<Form> {
        self.check()?;
        let reduces = match collective {
            Collective::AllReduce | Collective::ReduceScatter => 1.0,
            Collective::AllGather | Collective::Barrier => 0.0,
            other => {
                let allowed = "all_reduce, reduce_scatter, all_gather or barrier on ramp";
                return Err(Error::invalid("collective", other.name(), allowed));
            }
        };
        let passes = match collective {
            Collective::AllReduce | Collective::Barrier => 2.0,
            _ => 1.0,
        };
        let (mut fixed, mut per_byte, mut part) = (Seconds::ZERO, 0.0, 1.0);
        for members in self.stages().into_iter().filter(|&d| d > 1) {
            let others = f64::from(members - 1);
            let link = self.rate.value() / f64::from(self.transceivers);
            part /= f64::from(members);
            fixed += (self.latency + self.port * 2.0) * passes;
            per_byte += passes * part / (f64::from(self.lent(members)?) * link);
            per_byte += reduces * others * part / self.addition.value();
        }
        if collective == Collective::Barrier {
            per_byte = 0.0;
        }
        Ok(Form {
            algorithm: Algorithm::Ramp,
            protocol: Protocol::Simple,
            fixed,
            per_byte,
        })
    }

    fn stages(&self) -> [u32; 4] {
        let near = self.groups.min(self.nodes);
        [
            self.groups,
            near,
            self.racks,
            self.nodes.div_ceil(near.max(1)),
        ]
    }

    /// Transceivers between two partners of a stage with `members` members.
    fn lent(&self, members: u32) -> Result<u32> {
        let of_racks = self.transceivers / self.racks;
        let of_partners = self.transceivers / (members - 1).max(1);
        match of_racks.min(of_partners) {
            0 => Err(Error::invalid(
                "ramp.transceivers",
                self.transceivers,
                format!(
                    "at least {} for {} racks and {members} members of a stage",
                    self.racks.max(members - 1),
                    self.racks
                ),
            )),
            lent => Ok(lent),
        }
    }

    fn check(&self) -> Result<()> {
        let counts = [
            ("transceivers", self.transceivers),
            ("groups", self.groups),
            ("racks", self.racks),
            ("nodes", self.nodes),
        ];
        for (name, count) in counts {
            if count == 0 {
                return Err(Error::invalid(format!("ramp.{name}"), count, "1 or more"));
            }
        }
        for (name, rate) in [("rate", self.rate), ("addition", self.addition)] {
            if !(rate.value() > 0.0 && rate.value() <= 1e30) {
                let allowed = "above 0, to 1e30 bytes/s";
                return Err(Error::invalid(
                    format!("ramp.{name}"),
                    rate.value(),
                    allowed,
                ));
            }
        }
        for (name, time) in [("latency", self.latency), ("port", self.port)] {
            if !(0.0..=1e30).contains(&time.value()) {
                let allowed = "0 to 1e30 s";
                return Err(Error::invalid(
                    format!("ramp.{name}"),
                    time.value(),
                    allowed,
                ));
            }
        }
        Ok(())
    }
}
