//! What do all devices that run one model together have of near and far memory, and how fast are they?

use crate::error::Result;
use crate::error::amounts::{not_negative, positive};
use crate::hardware::{Cluster, Memories};
use crate::units::Dtype;
use serde::{Deserialize, Serialize};

/// Figures that replace those of the cluster, for all its devices together.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineOverrides {
    /// Near memory (HBM), bytes.
    pub near_bytes: Option<f64>,
    /// Rate of near memory, bytes a second.
    pub near_bytes_per_s: Option<f64>,
    /// Matrix arithmetic, FLOPs a second.
    pub flops_per_s: Option<f64>,
    /// Launch of a kernel, seconds.
    pub launch_s: Option<f64>,
    /// Far memory (DDR of the hosts), bytes.
    pub far_bytes: Option<f64>,
    /// Rate from far memory to near memory, bytes a second.
    pub copy_bytes_per_s: Option<f64>,
}

/// The devices of a cluster as one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Machine {
    /// Near memory (HBM), bytes: all of it, what drivers take included.
    pub near_bytes: f64,
    /// Rate that streaming kernels reach on it, bytes a second.
    pub near_bytes_per_s: f64,
    /// Matrix arithmetic that large products reach, FLOPs a second.
    pub flops_per_s: f64,
    /// Launch of a kernel, seconds.
    pub launch_s: f64,
    /// Far memory (DDR of the hosts), bytes.
    pub far_bytes: f64,
    /// Rate from far to near: what links sustain that devices share, or the hosts' memory where it is less.
    pub copy_bytes_per_s: f64,
}

impl Machine {
    /// Adds up the devices of a cluster, then puts the changes in their place.
    pub fn of(cluster: &Cluster, dtype: Dtype, changes: &MachineOverrides) -> Result<Self> {
        let devices = f64::from(cluster.devices);
        let nodes = f64::from(
            cluster
                .devices
                .div_ceil(cluster.system.devices_per_node.max(1)),
        );
        let (device, host) = (&cluster.device, cluster.system.host.as_ref());
        let memory = device.main_memory();
        let memories = Memories::new(cluster)?;
        let copied = host.map_or(0.0, |_| {
            let [read, _] = memories.places[memories.own].seconds_per_byte();
            devices / read
        });
        let flops = device.engine_peak(dtype).value() * device.matmul_efficiency(dtype);
        let far = nodes * host.map_or(0.0, |host| host.memory.value());
        let changed = |change: Option<f64>, own: f64| change.unwrap_or(own);
        let machine = Self {
            near_bytes: changed(changes.near_bytes, devices * memory.capacity.value()),
            near_bytes_per_s: changed(
                changes.near_bytes_per_s,
                devices * memory.sustained().value(),
            ),
            flops_per_s: changed(changes.flops_per_s, devices * flops),
            launch_s: changed(changes.launch_s, device.launch_overhead.value()),
            far_bytes: changed(changes.far_bytes, far),
            copy_bytes_per_s: changed(changes.copy_bytes_per_s, copied),
        };
        machine.check()?;
        Ok(machine)
    }

    fn check(&self) -> Result<()> {
        positive("machine.near_bytes", self.near_bytes)?;
        positive("machine.near_bytes_per_s", self.near_bytes_per_s)?;
        positive("machine.flops_per_s", self.flops_per_s)?;
        not_negative("machine.launch_s", self.launch_s)?;
        not_negative("machine.far_bytes", self.far_bytes)?;
        positive("machine.copy_bytes_per_s", self.copy_bytes_per_s)?;
        Ok(())
    }
}
