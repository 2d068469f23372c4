//! Prices tasks on a cluster: kernels by the device's model, collectives by hoisted forms.

use crate::collective::{Collective, Forms};
use crate::error::{Error, Result};
use crate::hardware::Cluster;
use crate::operator_cost::{Kernel, KernelCost};
use crate::plan::Span;
use crate::workload::Training;
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
    for dtype in [training.precision.matmul(), training.precision.activation()] {
        if device.matrix_peak(dtype).is_none() {
            let have: Vec<&str> = device.matrix.keys().map(|d| d.name()).collect();
            return Err(Error::invalid(
                "training.precision",
                dtype.name(),
                format!(
                    "a format that {} multiplies: {}",
                    device.name,
                    have.join(", ")
                ),
            ));
        }
    }
    Ok(())
}
