//! Is no line lost when all algorithms compete on a fabric of the catalog?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use scalewright::collective::{Algorithm, Collective, Forms};
use scalewright::hardware::{Cluster, Group, System};
use scalewright::units::Bytes;
use std::path::Path;

/// All systems of the catalog with up to 4,096 devices.
fn clusters() -> Vec<Cluster> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/scalewright/catalog/systems");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let system: System = toml::from_str(&text).unwrap();
        let most = system.levels.last().and_then(|level| level.devices);
        let mut cluster = worlds::nodes_of_eight(8);
        cluster.system = system;
        cluster.devices = most.unwrap_or(4096).min(4096);
        found.push(cluster);
    }
    found
}

/// The algorithms that can carry out `collective` here.
fn able(collective: Collective, group: &Group, cluster: &Cluster) -> Vec<Algorithm> {
    let runs = |&how: &Algorithm| Forms::forced(how, collective, group, cluster).is_ok();
    Algorithm::NAMED.into_iter().filter(runs).collect()
}

#[test]
fn all_algorithms_together_are_as_fast_as_the_fastest_of_them() {
    let mut most = 0;
    for cluster in clusters() {
        for (stride, size) in [
            (1, 2),
            (1, 7),
            (1, 8),
            (8, 8),
            (1, 64),
            (1, 1024),
            (1, 4096),
        ] {
            if cluster.check_group(stride, size).is_err() {
                continue;
            }
            let group = cluster.group(stride, size);
            for collective in Collective::ALL {
                Forms::new(collective, &group, &cluster); // checks its own room
                let all = able(collective, &group, &cluster);
                if all.is_empty() {
                    continue;
                }
                let together = Forms::least_of(&all, collective, &group, &cluster).unwrap();
                most = most.max(together.all().len());
                let each = all
                    .iter()
                    .map(|&how| Forms::forced(how, collective, &group, &cluster));
                let each: Vec<Forms> = each.map(Result::unwrap).collect();
                for k in (0..50).step_by(2) {
                    let bytes = Bytes::new(f64::from(k).exp2());
                    let least = each.iter().map(|forms| forms.time(bytes).value());
                    let least = least.fold(f64::INFINITY, f64::min);
                    let found = together.time(bytes).value();
                    let name = &cluster.system.name;
                    assert!(
                        (found - least).abs() <= 1e-9 * least,
                        "{name} {collective:?} {size}: {found} but {least}"
                    );
                }
            }
        }
    }
    assert!(most > 8, "{most}"); // near the room that there is for them
}
