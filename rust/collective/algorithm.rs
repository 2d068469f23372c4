//! Which algorithms are there, what can each carry out, and what does it need?

use super::form::{Collective, Protocol};
use super::route::{GroupPlacement, Route};
use super::select::is_free;
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Group, Host};

/// What a parameter server with more servers than ranks, or none, needs.
const FEWER_SERVERS: &str = "1 or more servers, and no more than there are ranks";

/// How a collective is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Pipelined ring over all ranks.
    Ring,
    /// The same ring both ways at once.
    BidirectionalRing,
    /// Two complementary binary trees between nodes, chains inside.
    Tree,
    /// Reduce-scatter inside, the collective between units, all-gather inside.
    Hierarchical,
    /// Every rank to every other at once over a full mesh.
    Direct,
    /// Reduction and multicast in the switches.
    InNetwork,
    /// Rings along the dimensions of a torus.
    Torus,
    /// Every rank sends each other rank its part.
    Pairwise,
    /// One message.
    PointToPoint,
    /// The root exchanges one message with every other rank.
    Linear,
    /// Partners at doubling distance.
    RecursiveDoubling,
    /// Halving the buffer on the way up, doubling it on the way back (Rabenseifner).
    HalvingDoubling,
    /// `ceil(log2 p)` shifts for any number of ranks.
    Bruck,
    /// Binomial tree.
    Binomial,
    /// Scatter and all-gather, or reduce-scatter and gather.
    ScatterAllGather,
    /// Pipelined chain of segments.
    Chain,
    /// A ring for each prime factor of the group (`BlueConnect`).
    Product,
    /// One dimension of a torus after the other (TPU multipods).
    TwoDimensional,
    /// Some ranks add and send back.
    ParameterServer {
        /// How many of the ranks serve.
        servers: u32,
    },
    /// A tree of nodes that copy and add, beside the ranks (`MemoryX` and `SwarmX`).
    WeightStreaming {
        /// Links down from each of its nodes.
        fan_out: u32,
    },
    /// Sums in the hosts' processors (`HFReduce`).
    HostReduce,
    /// Every hop through host memory.
    HostStaged,
    /// Every rank reads and adds up all buffers (custom kernels of inference engines).
    OneShot,
    /// Every rank adds up one part, then reads the other parts.
    TwoShot,
    /// Stages of a single-hop optical network (RAMP).
    Ramp,
}

impl Algorithm {
    /// All that can be asked for by name, with one server and a fan-out of two where a count is open.
    pub const NAMED: [Self; 25] = [
        Self::Ring,
        Self::BidirectionalRing,
        Self::Tree,
        Self::Hierarchical,
        Self::Direct,
        Self::InNetwork,
        Self::Torus,
        Self::Pairwise,
        Self::PointToPoint,
        Self::Linear,
        Self::RecursiveDoubling,
        Self::HalvingDoubling,
        Self::Bruck,
        Self::Binomial,
        Self::ScatterAllGather,
        Self::Chain,
        Self::Product,
        Self::TwoDimensional,
        Self::ParameterServer { servers: 1 },
        Self::WeightStreaming { fan_out: 2 },
        Self::HostReduce,
        Self::HostStaged,
        Self::OneShot,
        Self::TwoShot,
        Self::Ramp,
    ];

    /// Name in text, as `halving_doubling`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::BidirectionalRing => "bidirectional_ring",
            Self::Tree => "tree",
            Self::Hierarchical => "hierarchical",
            Self::Direct => "direct",
            Self::InNetwork => "in_network",
            Self::Torus => "torus",
            Self::Pairwise => "pairwise",
            Self::PointToPoint => "point_to_point",
            Self::Linear => "linear",
            Self::RecursiveDoubling => "recursive_doubling",
            Self::HalvingDoubling => "halving_doubling",
            Self::Bruck => "bruck",
            Self::Binomial => "binomial",
            Self::ScatterAllGather => "scatter_all_gather",
            Self::Chain => "chain",
            Self::Product => "product",
            Self::TwoDimensional => "two_dimensional",
            Self::ParameterServer { .. } => "parameter_server",
            Self::WeightStreaming { .. } => "weight_streaming",
            Self::HostReduce => "host_reduce",
            Self::HostStaged => "host_staged",
            Self::OneShot => "one_shot",
            Self::TwoShot => "two_shot",
            Self::Ramp => "ramp",
        }
    }

    /// The algorithm of this name; a count follows a colon, as in `parameter_server:4` (servers) and
    /// `weight_streaming:8` (fan-out).
    pub fn named(name: &str) -> Result<Self> {
        Self::in_field("algorithm", name)
    }

    /// As `named`; errors are those of `field`.
    pub fn in_field(field: &str, name: &str) -> Result<Self> {
        let (plain, count) = name
            .split_once(':')
            .map_or((name, None), |(p, c)| (p, Some(c)));
        let found = Self::NAMED.into_iter().find(|known| known.name() == plain);
        let found =
            found.ok_or_else(|| Error::unknown(field, plain, Self::NAMED.map(Self::name)))?;
        let Some(count) = count else {
            return Ok(found);
        };
        let wrong = |allowed| Error::invalid(field, name, allowed);
        let number = count.parse().ok().filter(|&n: &u32| n > 0);
        let number = number.ok_or_else(|| wrong("a whole number above zero after the colon"))?;
        match found {
            Self::ParameterServer { .. } => Ok(Self::ParameterServer { servers: number }),
            Self::WeightStreaming { .. } => Ok(Self::WeightStreaming { fan_out: number }),
            _ => Err(wrong(
                "a count after parameter_server (servers) and weight_streaming (fan-out) alone",
            )),
        }
    }

    /// True where bytes pass host memory.
    pub(super) const fn passes_host(self) -> bool {
        matches!(self, Self::HostReduce | Self::HostStaged)
    }

    /// The collectives that it can carry out.
    pub fn carries_out(self) -> &'static [Collective] {
        use Collective::{
            AllGather, AllReduce, AllToAll, Barrier, Broadcast, Gather, Reduce, ReduceScatter,
            Scatter, SendReceive,
        };
        match self {
            Self::Ring => &[AllReduce, ReduceScatter, AllGather, Broadcast, Reduce],
            Self::HostStaged => &[
                AllReduce,
                ReduceScatter,
                AllGather,
                AllToAll,
                Broadcast,
                Reduce,
            ],
            Self::Tree => &[AllReduce, Barrier],
            Self::ParameterServer { .. } | Self::HostReduce | Self::OneShot | Self::TwoShot => {
                &[AllReduce]
            }
            Self::Hierarchical | Self::Torus | Self::Ramp => &[
                AllReduce,
                ReduceScatter,
                AllGather,
                AllToAll,
                Broadcast,
                Reduce,
                Gather,
                Scatter,
                Barrier,
            ],
            Self::InNetwork
            | Self::BidirectionalRing
            | Self::Direct
            | Self::HalvingDoubling
            | Self::Product
            | Self::TwoDimensional => &[AllReduce, ReduceScatter, AllGather],
            Self::Pairwise => &[AllToAll],
            Self::PointToPoint => &[SendReceive],
            Self::Linear => &[Gather, Scatter],
            Self::RecursiveDoubling => &[AllReduce, AllGather, Barrier],
            Self::Bruck => &[AllGather, AllToAll, Barrier],
            Self::Binomial => &[Broadcast, Reduce, Gather, Scatter],
            Self::ScatterAllGather | Self::Chain => &[Broadcast, Reduce],
            Self::WeightStreaming { .. } => &[AllReduce, Broadcast, Reduce],
        }
    }

    /// Refuses a collective, rank count or fabric that the algorithm cannot do, saying what it needs.
    pub(super) fn check(
        self,
        collective: Collective,
        route: &Route,
        host: Option<&Host>,
    ) -> Result<()> {
        if !self.carries_out().contains(&collective) {
            let able: Vec<&str> = self.carries_out().iter().map(|c| c.name()).collect();
            let allowed = format!("{} on {}", able.join(", "), self.name());
            return Err(Error::invalid("collective", collective.name(), allowed));
        }
        let Some(need) = self.need(collective, route, host) else {
            return Ok(());
        };
        let got = format!("{} on a group of {}", self.name(), route.group.size);
        let need = match self {
            Self::ParameterServer { .. } if need == FEWER_SERVERS => {
                format!("1 to {} servers", route.group.size)
            }
            _ => need.to_owned(),
        };
        Err(Error::invalid("algorithm", got, need))
    }

    /// What an all-reduce by this algorithm needs that a group or its fabric lacks; `None` where it
    /// can run, as it always can on a group of one.
    pub fn lacks(self, group: &Group, cluster: &Cluster) -> Option<&'static str> {
        if is_free(group, cluster) {
            return None;
        }
        let collective = Collective::AllReduce;
        if !self.carries_out().contains(&collective) {
            return Some("an algorithm that carries out all-reduces");
        }
        let place = GroupPlacement::new(group, cluster);
        let route = Route::new(&place, cluster, Protocol::Simple);
        self.need(collective, &route, cluster.system.host.as_ref())
    }

    /// What the group or its fabric lacks.
    fn need(
        self,
        collective: Collective,
        route: &Route,
        host: Option<&Host>,
    ) -> Option<&'static str> {
        let power = route.group.size.is_power_of_two();
        let need = match self {
            Self::Ramp if route.single_hop().is_none() => "a single-hop network",
            Self::PointToPoint | Self::Ramp => return None,
            _ if route.single_hop().is_some() => "ramp, the one algorithm on a single-hop network",
            Self::RecursiveDoubling | Self::HalvingDoubling
                if !power && collective != Collective::AllReduce =>
            {
                "a number of ranks that is a power of two; all_reduce alone can fold the others"
            }
            Self::RecursiveDoubling | Self::HalvingDoubling
                if !power && route.torus().is_some() =>
            {
                "a number of ranks that is a power of two on a torus or a mesh of lines"
            }
            Self::Torus if route.only_torus().is_none() => "a group inside one torus level",
            Self::TwoDimensional if route.only_torus().is_none() || used_dims(route) != 2 => {
                "a group inside one torus level, on two of its dimensions"
            }
            Self::Ring
            | Self::BidirectionalRing
            | Self::Tree
            | Self::Pairwise
            | Self::Linear
            | Self::HostStaged
            | Self::ParameterServer { .. }
                if route.torus().is_some() =>
            {
                "a group on switches or direct links, not on a torus"
            }
            Self::OneShot | Self::TwoShot if !route.reaches_memory() => {
                "a group whose devices reach one another's memory: inside switches, a mesh or PCIe"
            }
            Self::Direct if !route.full_mesh() => "a group inside one full mesh",
            Self::InNetwork if !route.reduces() || route.torus().is_some() => {
                "a level with in_network_reduction on the group's way, and no torus"
            }
            Self::InNetwork | Self::WeightStreaming { .. }
                if self.lacks_sums(collective, route) =>
            {
                "in_network_reduction on every level of the group's way"
            }
            Self::HostReduce | Self::HostStaged if host.is_none() => "a system with a host",
            Self::HostReduce | Self::HostStaged if !route.level(0).kind.reaches_memory() => {
                "a node of several devices on switches, a mesh or PCIe"
            }
            Self::ParameterServer { servers } if servers == 0 || servers > route.group.size => {
                FEWER_SERVERS
            }
            Self::WeightStreaming { fan_out: 0 | 1 } => "a fan_out of 2 or more",
            _ => return None,
        };
        Some(need)
    }

    /// True where a level does not add that has to; an all-reduce in the network crosses such a one by a tree.
    fn lacks_sums(self, collective: Collective, route: &Route) -> bool {
        let by_tree = self == Self::InNetwork && collective == Collective::AllReduce;
        !by_tree && !route.reduces_everywhere()
    }
}

fn used_dims(route: &Route) -> usize {
    let extents = route.group.extents;
    extents.iter().filter(|&&extent| extent > 1).count()
}
