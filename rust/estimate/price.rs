//! Prices tasks on a cluster: kernels by the device's model, collectives by hoisted forms.

use super::lasting::Lasting;
use crate::collective::{Collective, Forms};
use crate::error::{Error, Result};
use crate::hardware::Cluster;
use crate::operator_cost::{Kernel, KernelCost};
use crate::plan::{Collectives, Span};
use crate::workload::{Precision, Training};
use std::collections::BTreeMap;

/// Prices tasks and remembers the closed forms of every group it has met.
#[derive(Debug, Clone)]
pub struct Pricer<'a> {
    cluster: &'a Cluster,
    slowest: f64,
    lasting: Lasting<'a>,
    forms: BTreeMap<(u8, Span), Forms>,
    sums: BTreeMap<(Collectives, Span), Forms>,
}

impl<'a> Pricer<'a> {
    /// Prices on `cluster`.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            slowest: cluster.device.slowest_of(cluster.devices),
            lasting: Lasting::new(&cluster.device),
            forms: BTreeMap::new(),
            sums: BTreeMap::new(),
        }
    }

    /// Price of a kernel on the slowest device: matrix work slows with its clock, traffic does not.
    /// It slows down once more where the device cannot hold, hour after hour, the rate that products
    /// reach in a short test: power management acts over many kernels, so fused attention shares it.
    pub fn kernel(&self, kernel: &Kernel) -> KernelCost {
        let cost = kernel.cost(self.lasting.device());
        let slowdown = match kernel {
            Kernel::Matmul { dtype, .. } | Kernel::Attention { dtype, .. } => {
                self.slowest * self.lasting.slowdown(*dtype)
            }
            Kernel::Memory { .. } => 1.0,
        };
        KernelCost {
            time: cost.time * slowdown,
            ..cost
        }
    }

    /// Share of compute that a running collective takes from kernels beside it.
    pub fn contention(&self) -> f64 {
        self.cluster.device.contention()
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

    /// Closed forms of an all-reduce that runs as a plan has chosen.
    ///
    /// Where that algorithm cannot run they are the library's own: `check` refuses every plan that
    /// would sum so, but a plan has spans on which it never sums.
    pub fn sums(&mut self, choice: Collectives, span: Span) -> Forms {
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
    pub fn hop(&mut self, chain: Span) -> Forms {
        let whole = self.cluster.group(chain.stride, chain.size);
        let outermost = whole.outermost();
        let levels = &self.cluster.system.levels;
        let unit = outermost
            .checked_sub(1)
            .and_then(|below| levels.get(below)?.devices);
        let along = chain.stride.saturating_mul(whole.covered(outermost));
        let pair = Span {
            stride: unit.map_or(chain.stride, |devices| along.max(devices)),
            size: chain.size.min(2),
        };
        self.forms(Collective::SendReceive, pair)
    }
}

/// Refuses number formats that the device cannot multiply.
pub(super) fn check_formats(cluster: &Cluster, training: &Training) -> Result<()> {
    let device = &cluster.device;
    let runs = |precision: Precision| {
        let formats = [precision.matmul(), precision.activation()];
        formats.iter().all(|&f| device.matrix_peak(f).is_some())
    };
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
