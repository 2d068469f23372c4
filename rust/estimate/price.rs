//! Prices tasks on a cluster: kernels by the device's model, collectives by hoisted forms.

use super::long_run::LongRun;
use crate::collective::{Collective, Crossing, Forms};
use crate::error::{Error, Result};
use crate::hardware::{Cluster, Level, MAX_LEVELS};
use crate::operator_cost::{Kernel, KernelCost, Pace};
use crate::plan::{ReplicaReduction, Span};
use crate::units::Dtype;
use crate::workload::{Optimizer, Precision, Training};
use std::collections::BTreeMap;

/// Prices tasks and remembers the closed forms of every group it has met.
#[derive(Debug, Clone)]
pub struct Pricer<'a> {
    cluster: &'a Cluster,
    slowest: f64,
    long_run: LongRun<'a>,
    forms: BTreeMap<(u8, Span), Forms>,
    crossing: BTreeMap<(Crossing, Span), Forms>,
    sums: BTreeMap<(ReplicaReduction, Span), Forms>,
    hops: BTreeMap<(Span, bool), Forms>,
}

impl<'a> Pricer<'a> {
    /// Prices on `cluster`.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            slowest: cluster.device.slowest_of(cluster.devices),
            long_run: LongRun::new(&cluster.device),
            forms: BTreeMap::new(),
            crossing: BTreeMap::new(),
            sums: BTreeMap::new(),
            hops: BTreeMap::new(),
        }
    }

    /// Price of a kernel on the slowest device, at the pace that lasts: matrix work slows with its
    /// clock, traffic does not.
    pub fn kernel(&self, kernel: &Kernel) -> KernelCost {
        let pace = match kernel {
            Kernel::Matmul { dtype, .. } | Kernel::Attention { dtype, .. } => {
                self.long_run.sustained_pace(*dtype).pace
            }
            Kernel::Scan { .. }
            | Kernel::DeltaRule { .. }
            | Kernel::Convolution { .. }
            | Kernel::Selection { .. }
            | Kernel::Memory { .. }
            | Kernel::Strided { .. }
            | Kernel::Cast { .. } => Pace::ALONE,
        };
        kernel.cost_at(pace.slowed_by(self.slowest), self.long_run.device())
    }

    /// Share of compute that a running collective takes from kernels beside it.
    pub fn contention(&self) -> f64 {
        self.cluster.device.contention()
    }

    /// The same of a ring of context ranks, whose hops cross a network or not.
    pub fn ring_contention(&self, span: Span) -> f64 {
        if self.cluster.group(span.stride, span.size).outermost() > 0 {
            self.cluster.device.peer_contention()
        } else {
            self.contention()
        }
    }

    /// The same of chunks of a collective, which copy engines carry.
    pub fn chunk_contention(&self) -> f64 {
        self.cluster.device.chunk_contention()
    }

    /// Closed forms of a collective on a span of ranks.
    pub fn forms(&mut self, collective: Collective, span: Span) -> Forms {
        let cluster = self.cluster;
        *self
            .forms
            .entry((collective as u8, span))
            .or_insert_with(|| {
                Forms::new(collective, &cluster.group(span.stride, span.size), cluster)
            })
    }

    /// Closed forms of a task's collective, whose bytes cross as `crossing` says.
    pub fn forms_crossing(
        &mut self,
        collective: Collective,
        span: Span,
        crossing: Crossing,
    ) -> Forms {
        if crossing == Crossing::Each || collective != Collective::AllToAll {
            return self.forms(collective, span);
        }
        let cluster = self.cluster;
        let group = || cluster.group(span.stride, span.size);
        let known = self.crossing.entry((crossing, span));
        *known.or_insert_with(|| Forms::crossing(crossing, &group(), cluster))
    }

    /// Closed forms of an all-reduce that runs as a plan has chosen.
    ///
    /// Where that algorithm cannot run they are the library's own: `check` refuses every plan that
    /// would sum so, but a plan has spans on which it never sums.
    pub fn sums(&mut self, choice: ReplicaReduction, span: Span) -> Forms {
        let Some(algorithm) = choice.forced() else {
            return self.forms(Collective::AllReduce, span);
        };
        if let Some(known) = self.sums.get(&(choice, span)) {
            return *known;
        }
        let group = self.cluster.group(span.stride, span.size);
        let forced = Forms::forced(algorithm, Collective::AllReduce, &group, self.cluster);
        let forms = forced.unwrap_or_else(|_| self.forms(Collective::AllReduce, span));
        self.sums.insert((choice, span), forms);
        forms
    }

    /// Closed forms of a message from one rank of a chain to the next, where the chain crosses the
    /// outermost level of the fabric that it reaches: the slowest hop sets the pace of a pipeline.
    /// As many ranks send there as lie between the two, or one after another where they are staggered;
    /// adapters that a unit shares serve them alone.
    pub fn hop(&mut self, chain: Span, staggered: bool) -> Forms {
        if let Some(known) = self.hops.get(&(chain, staggered)) {
            return *known;
        }
        let forms = self.new_hop(chain, staggered);
        self.hops.insert((chain, staggered), forms);
        forms
    }

    fn new_hop(&mut self, chain: Span, staggered: bool) -> Forms {
        let whole = self.cluster.group(chain.stride, chain.size);
        let outermost = whole.outermost();
        let levels = &self.cluster.system.levels;
        let below = outermost
            .checked_sub(1)
            .and_then(|below| levels.get(below)?.devices);
        let along = chain.stride.saturating_mul(whole.covered(outermost));
        let pair = Span {
            stride: below.map_or(chain.stride, |devices| along.max(devices)),
            size: chain.size.min(2),
        };
        let side_by_side = if staggered { 1 } else { chain.stride };
        let alone = match (levels.get(outermost), below) {
            (Some(level), Some(devices)) => {
                Level::alone(level.adapters, side_by_side.min(devices), devices)
            }
            _ => 1.0,
        };
        if alone > 1.0 {
            return self.scaled_hop(pair, outermost, alone);
        }
        self.forms(Collective::SendReceive, pair)
    }

    /// Distances at which neighbours of a chain lie, from the nearest out: every how many ranks of the
    /// chain a unit ends that a hop then leaves, and the ranks inside one that holds hops so far.
    pub fn distances(&self, chain: Span) -> Vec<(u32, Span)> {
        let whole = self.cluster.group(chain.stride, chain.size);
        let crossed = (0..MAX_LEVELS).filter(|&level| whole.members[level] > 1);
        let inside = |level| Span {
            size: whole.covered(level + 1),
            ..chain
        };
        crossed
            .map(|level| (whole.covered(level), inside(level)))
            .collect()
    }

    /// Closed forms of a message between two ranks, were level `outermost` so many times as quick.
    fn scaled_hop(&self, pair: Span, outermost: usize, times: f64) -> Forms {
        let mut cluster = self.cluster.clone();
        if let Some(level) = cluster.system.levels.get_mut(outermost) {
            level.bandwidth = level.bandwidth * times;
        }
        let group = cluster.group(pair.stride, pair.size);
        Forms::new(Collective::SendReceive, &group, &cluster)
    }
}

/// Refuses number formats that the device cannot multiply.
pub(super) fn check_formats(cluster: &Cluster, training: &Training) -> Result<()> {
    let device = &cluster.device;
    let runs = |precision: Precision| {
        let formats = [precision.matmul(), precision.activation()];
        formats.iter().all(|&f| device.matrix_peak(f).is_some())
    };
    let orthogonalises = training.optimizer == Optimizer::Muon && !training.forward_only;
    if orthogonalises && device.matrix_peak(Dtype::Bf16).is_none() {
        return Err(Error::invalid(
            "training.optimizer",
            "muon",
            format!("adam, sgd, adafactor: {} multiplies no bf16", device.name),
        ));
    }
    if runs(training.precision) {
        return Ok(());
    }
    let have = Precision::ALL.into_iter().filter(|&p| runs(p));
    let names: Vec<&str> = have.map(|p| p.matmul().name()).collect();
    Err(Error::invalid(
        "training.precision",
        training.precision.matmul().name(),
        format!("{}, which {} multiplies", names.join(", "), device.name),
    ))
}
