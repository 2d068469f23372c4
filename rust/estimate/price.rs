//! Prices tasks on a cluster: kernels by the device's model, collectives by hoisted forms.

use crate::collective::{Collective, Forms};
use crate::error::{Error, Result};
use crate::hardware::Cluster;
use crate::operator_cost::{Kernel, KernelCost};
use crate::plan::Span;
use crate::workload::{Precision, Training};
use std::collections::BTreeMap;

/// Prices tasks and remembers the closed forms of every group it has met.
#[derive(Debug, Clone)]
pub struct Pricer<'a> {
    cluster: &'a Cluster,
    slowest: f64,
    forms: BTreeMap<(u8, Span), Forms>,
}

impl<'a> Pricer<'a> {
    /// Prices on `cluster`.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            slowest: cluster.device.slowest_of(cluster.devices),
            forms: BTreeMap::new(),
        }
    }

    /// Price of a kernel on the slowest device: matrix work slows with its clock, traffic does not.
    pub fn kernel(&self, kernel: &Kernel) -> KernelCost {
        let cost = kernel.cost(&self.cluster.device);
        let slowdown = match kernel {
            Kernel::Matmul { .. } | Kernel::Attention { .. } => self.slowest,
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
