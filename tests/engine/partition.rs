//! Is a partition the best of all, by trying all, and does its step keep to its bounds?

#![allow(clippy::unwrap_used, clippy::panic)] // the lints' own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::schedule::partition::{
    Device, Infeasible, Layer, Link, Partition, PartitionOutcome, Request, partition,
};

fn solve(request: &Request) -> PartitionOutcome {
    partition(request, &Control::new()).expect("a request that can be weighed")
}

fn found(request: &Request) -> Partition {
    match solve(request) {
        PartitionOutcome::Partition(found) => found,
        PartitionOutcome::Infeasible(why) => panic!("{why:?}"),
    }
}

fn refused(request: &Request) -> Infeasible {
    match solve(request) {
        PartitionOutcome::Infeasible(why) => why,
        PartitionOutcome::Partition(found) => panic!("{found:?}"),
    }
}

/// What is made least, weighed anew from the request alone; nothing where it does not fit.
fn weigh(request: &Request, order: &[usize], cuts: &[usize]) -> Option<(f64, f64)> {
    let (count, m) = (order.len(), f64::from(request.micro_batches));
    let mut ends = vec![0];
    ends.extend(cuts);
    ends.push(request.layers.len());
    let (mut sum, mut slowest, mut bound) = (0.0, 0.0_f64, 0.0_f64);
    for stage in 0..count {
        let device = request.devices[order[stage]];
        let layers = &request.layers[ends[stage]..ends[stage + 1]];
        let work = |l: &Layer| {
            let weight = l.weight_s.get(device.kind).unwrap_or(&0.0);
            l.forward_s[device.kind] + l.backward_s[device.kind] + weight
        };
        let seconds = layers.iter().map(work).sum::<f64>() / device.speed;
        let in_flight = ((count - stage) as f64).min(m);
        let held = |l: &Layer| l.state_bytes + in_flight * l.activation_bytes;
        let held: f64 = layers.iter().map(held).sum();
        if device.capacity_bytes.is_some_and(|most| held > most) {
            return None;
        }
        bound = bound.max(sum + m * seconds);
        sum += seconds;
        slowest = slowest.max(seconds);
        if stage + 1 < count && !request.links.is_empty() {
            let ways = if request.links.len() == count * count {
                let (a, b) = (order[stage], order[stage + 1]);
                [a * count + b, b * count + a]
            } else {
                [stage; 2]
            };
            let bytes = request.layers[ends[stage + 1] - 1].output_bytes;
            for link in ways.map(|at| request.links[at]) {
                sum += bytes / link.bandwidth_bytes_per_s.unwrap() + link.latency_s;
            }
        }
    }
    Some((sum + (m - 1.0) * slowest, bound))
}

/// All ways to cut `layers` into `stages`, as the first layers of all stages but the first.
fn all_cuts(layers: usize, stages: usize) -> Vec<Vec<usize>> {
    if stages == 1 {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for last in stages - 1..layers {
        for mut cuts in all_cuts(last, stages - 1) {
            cuts.push(last);
            all.push(cuts);
        }
    }
    all
}

fn all_orders(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for next in 0..count {
        let longer = |order: &Vec<usize>| {
            (0..=order.len())
                .map(|at| {
                    let mut order = order.clone();
                    order.insert(at, next);
                    order
                })
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Least objective and least bound over all that fits.
fn tried(request: &Request) -> Option<(f64, f64)> {
    let count = request.devices.len();
    let given = vec![(0..count).collect()];
    let orders = if request.permute {
        all_orders(count)
    } else {
        given
    };
    let cuts = all_cuts(request.layers.len(), count);
    let all = orders.iter().flat_map(|o| cuts.iter().map(move |c| (o, c)));
    let fitting = all.filter_map(|(order, cuts)| weigh(request, order, cuts));
    fitting.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..5.0]
}

fn any_layer() -> impl Strategy<Value = Layer> {
    let times = vec((seconds(), seconds(), seconds()), 2);
    (times, 0.0..4.0, 0.0..2.0, 0.0..3.0).prop_map(|(times, state, activation, output)| Layer {
        forward_s: times.iter().map(|t| t.0).collect(),
        backward_s: times.iter().map(|t| t.1).collect(),
        weight_s: times.iter().map(|t| t.2).collect(),
        state_bytes: state,
        activation_bytes: activation,
        output_bytes: output,
    })
}

fn any_device() -> impl Strategy<Value = Device> {
    let capacity = prop_oneof![2 => Just(None), 1 => (0.0..40.0).prop_map(Some)];
    (0..2_usize, prop_oneof![Just(1.0), 0.3..3.0], capacity).prop_map(
        |(kind, speed, capacity_bytes)| Device {
            kind,
            speed,
            capacity_bytes,
        },
    )
}

/// Up to eight layers on up to four devices, alike or not, with links of every sort.
fn any_request(most: usize) -> impl Strategy<Value = Request> {
    let counts = (1..=8_usize, 1..=most, 0..3_usize);
    (counts, 1..12_u32, any::<bool>()).prop_flat_map(|((layers, devices, sort), m, permute)| {
        let links = [0, devices - 1, devices * devices][sort];
        let link = (0.2..9.0_f64, 0.0..1.0).prop_map(|(rate, latency_s)| Link {
            bandwidth_bytes_per_s: Some(rate),
            latency_s,
        });
        let parts = (
            vec(any_layer(), layers),
            vec(any_device(), devices),
            vec(link, links),
        );
        parts.prop_map(move |(layers, devices, links)| Request {
            layers,
            devices,
            links,
            micro_batches: m,
            permute,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_other_partition_is_better(request in any_request(4)) {
        match (solve(&request), tried(&request)) {
            (PartitionOutcome::Partition(found), Some((objective, bound))) => {
                prop_assert!(found.is_exact);
                prop_assert!(close(found.objective_s, objective), "{found:?} against {objective}");
                prop_assert!(found.lower_bound_s <= bound * (1.0 + 1e-9));
                let order: Vec<usize> = found.stages.iter().map(|s| s.device).collect();
                let again = weigh(&request, &order, &found.cuts).expect("what was found fits");
                prop_assert!(close(again.0, objective), "{found:?} against {objective}");
            }
            (PartitionOutcome::Infeasible(_), None) => {}
            (verdict, tried) => prop_assert!(false, "{verdict:?} against {tried:?}"),
        }
    }

    #[test]
    fn the_bound_is_the_least_of_all_and_no_step_beats_it(request in any_request(4)) {
        let PartitionOutcome::Partition(found) = solve(&request) else { return Ok(()) };
        let (_, bound) = tried(&request).expect("some fit");
        prop_assert!(found.step_time_s >= bound * (1.0 - 1e-9));
        prop_assert!(close(found.lower_bound_s, bound), "{found:?} against {bound}");
    }

    #[test]
    fn the_objective_is_a_step_or_more_where_backward_is_a_multiple_of_forward(
        mut request in any_request(4), multiple in 0.0..3.0,
    ) {
        request.links.clear();
        for layer in &mut request.layers {
            layer.backward_s = layer.forward_s.iter().map(|f| f * multiple).collect();
            layer.weight_s.clear();
        }
        let PartitionOutcome::Partition(found) = solve(&request) else { return Ok(()) };
        prop_assert!(found.step_time_s <= found.objective_s * (1.0 + 1e-9), "{found:?}");
        if found.stages.last().unwrap().work_s >= found.slowest_s * (1.0 - 1e-12) {
            prop_assert!(close(found.step_time_s, found.objective_s), "{found:?}");
        }
    }

    #[test]
    fn any_order_is_no_worse_than_the_one_given(request in any_request(5)) {
        let of = |permute| solve(&Request { permute, ..request.clone() });
        if let PartitionOutcome::Partition(given) = of(false) {
            let PartitionOutcome::Partition(any) = of(true) else { panic!("the given order fits") };
            prop_assert!(any.objective_s <= given.objective_s * (1.0 + 1e-9));
        }
    }
}

/// Layers alike but for a head, devices of two kinds that alternate.
fn mixed(layers: usize, devices: usize) -> Request {
    let layer = |index| Layer {
        forward_s: vec![if index + 1 == layers { 1.5 } else { 1.0 }],
        backward_s: vec![2.0],
        output_bytes: 1.0,
        ..Layer::default()
    };
    let device = |index| Device {
        kind: 0,
        speed: if index % 2 == 0 { 2.0 } else { 1.0 },
        capacity_bytes: None,
    };
    Request {
        layers: (0..layers).map(layer).collect(),
        devices: (0..devices).map(device).collect(),
        micro_batches: 32,
        ..Request::default()
    }
}

#[test]
fn a_faster_device_holds_more_layers() {
    let found = found(&mixed(24, 2));
    assert_eq!(found.cuts, [16]);
    assert!(found.step_time_s / found.lower_bound_s < 1.02, "{found:?}");
}

#[test]
fn ten_devices_with_links_of_their_own_are_ordered_with_proof() {
    let mut request = mixed(48, 10);
    request.permute = true;
    // devices 0 to 4 and 5 to 9 stand in two places far apart
    let link = |pair: usize| Link {
        bandwidth_bytes_per_s: Some(if (pair / 10 < 5) == (pair % 10 < 5) {
            1e3
        } else {
            1.0
        }),
        latency_s: 0.0,
    };
    request.links = (0..100).map(link).collect();
    let found = found(&request);
    assert!(found.is_exact);
    let far = found.stages.iter().filter(|stage| stage.hop_s > 0.5);
    assert_eq!(far.count(), 1, "{found:?}");
}

#[test]
fn many_unlike_devices_are_ordered_by_swaps_and_it_is_said() {
    let mut request = mixed(40, 18);
    for (index, device) in request.devices.iter_mut().enumerate() {
        device.speed = 1.0 + index as f64 / 10.0;
    }
    request.permute = true;
    let any = found(&request);
    assert!(!any.is_exact && any.proof.contains("swap"), "{any:?}");
    let given = found(&Request {
        permute: false,
        ..request
    });
    assert!(any.objective_s <= given.objective_s);
    assert!(any.lower_bound_s <= any.step_time_s);
}

#[test]
fn what_cannot_be_is_said() {
    let few = refused(&mixed(2, 4));
    assert_eq!((few.reason, few.is_exact), ("layers", true));
    let mut request = mixed(8, 4);
    for device in &mut request.devices {
        device.capacity_bytes = Some(10.0);
    }
    request.layers[5].state_bytes = 11.0;
    let layer = refused(&request);
    assert_eq!((layer.reason, layer.layer), ("layer", Some(5)));
    for layer in &mut request.layers {
        layer.state_bytes = 6.0;
    }
    let memory = refused(&request);
    assert_eq!(
        (memory.reason, memory.layer, memory.stage),
        ("memory", Some(4), Some(3))
    );
    // four micro-batches are in flight on the first stage, one on the last
    for layer in &mut request.layers {
        layer.state_bytes = 0.0;
        layer.activation_bytes = 1.0;
    }
    let found = found(&request);
    let held: Vec<usize> = found.stages.iter().map(|s| s.layers.len()).collect();
    assert!(held[0] <= 2 && held[1] <= 3, "{found:?}");
}

#[test]
fn a_wrong_request_is_refused_with_the_field() {
    let said = |request: &Request| partition(request, &Control::new()).unwrap_err().to_string();
    let mut request = mixed(4, 2);
    request.layers[2].backward_s.clear();
    assert!(said(&request).contains("layers[2].backward_s"));
    request = mixed(4, 2);
    request.devices[1].kind = 3;
    assert!(said(&request).contains("devices[1].kind"));
    request = mixed(4, 2);
    request.links = vec![
        Link {
            bandwidth_bytes_per_s: None,
            latency_s: 0.0
        };
        3
    ];
    assert!(said(&request).contains("one per border"));
    request = Request {
        micro_batches: 0,
        ..mixed(4, 2)
    };
    assert!(said(&request).contains("micro_batches"));
    let control = Control::new();
    control.cancel();
    let cancelled = partition(&mixed(4, 2), &control).unwrap_err();
    assert!(cancelled.to_string().contains("cancelled"));
}
