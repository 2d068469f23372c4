//! What energy and machines cost: joules of a step, dollars of owning or renting.

use crate::hardware::Cluster;
use crate::units::{Dollars, Joules, Seconds, SquareMillimetres, Watts, YEAR_S};

const JOULES_PER_KWH: f64 = 3.6e6;

/// Energy of all devices and nodes over `step`, of which each device computes for `busy`.
///
/// `E = PUE * (devices * (idle * step + (peak - idle) * busy) + nodes * overhead * step)`:
/// devices draw their limit while kernels run and idle power while they wait
/// (the linear model of Barroso, Hoelzle and Ranganathan 2018, section 5.2.1).
pub fn energy(cluster: &Cluster, step: Seconds, busy: Seconds) -> Joules {
    let devices = f64::from(cluster.devices);
    let power = &cluster.device.power;
    let active = power.peak - power.idle;
    let devices_energy = (power.idle * step + active * busy) * devices;
    let nodes_energy = overhead(cluster) * step;
    (devices_energy + nodes_energy) * cluster.system.power_usage_effectiveness
}

fn overhead(cluster: &Cluster) -> Watts {
    cluster.system.node_overhead_power * nodes(cluster)
}

fn nodes(cluster: &Cluster) -> f64 {
    f64::from(cluster.devices.div_ceil(cluster.system.devices_per_node))
}

/// True where `cost` knows a price.
pub fn priced(cluster: &Cluster) -> bool {
    cost(cluster, Seconds::ZERO, Joules::new(0.0)).is_some()
}

/// Dollars of holding the cluster for `time` and of the energy used, or `None` where no price is known.
///
/// Rent, which includes energy: `rent * devices * t / 3600`. Owned: `node * nodes * t / (lifetime * year)`, nodes
/// written off evenly over their lifetime (Barroso, Hoelzle and Ranganathan 2018, section 6.1; recalled), and
/// `energy_per_kwh * E / 3.6e6`.
pub fn cost(cluster: &Cluster, time: Seconds, energy: Joules) -> Option<Dollars> {
    let price = &cluster.system.price;
    if let Some(rent) = price.rent_per_device_hour {
        return Some(rent * (f64::from(cluster.devices) * time.value() / 3600.0));
    }
    let per_node = node_price(cluster)?;
    let owned = time.value() / (price.lifetime_years * YEAR_S);
    let energy = price.energy_per_kwh * (energy.value() / JOULES_PER_KWH);
    Some(per_node * nodes(cluster) * owned + energy)
}

/// Dollars that a node costs to buy, or its devices alone where no more is known.
pub fn node_price(cluster: &Cluster) -> Option<Dollars> {
    let devices = f64::from(cluster.system.devices_per_node);
    let price = cluster.system.price.node;
    price.or_else(|| cluster.device.price.map(|price| price * devices))
}

/// Dollars that the nodes cost to buy, the last one whole; `None` where no price is known.
pub fn capital(cluster: &Cluster) -> Option<Dollars> {
    node_price(cluster).map(|price| price * nodes(cluster))
}

/// What the facility draws while every device runs at its limit, which no step exceeds.
///
/// `P = PUE * (devices * peak + nodes * overhead)`, the power of `energy` with all devices busy.
pub fn peak_power(cluster: &Cluster) -> Watts {
    let devices = cluster.device.power.peak * f64::from(cluster.devices);
    (devices + overhead(cluster)) * cluster.system.power_usage_effectiveness
}

/// Silicon of the compute dies of all devices; `None` where the area of a die is not known.
pub fn silicon(cluster: &Cluster) -> Option<SquareMillimetres> {
    let area = cluster.device.die_area?;
    Some(area * f64::from(cluster.devices))
}

/// Hours over which a purchase is written off.
pub fn lifetime_hours(cluster: &Cluster) -> f64 {
    cluster.system.price.lifetime_years * YEAR_S / 3600.0
}
