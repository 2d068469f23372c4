//! Does the flow simulator share links as a slow, plain one does, and never beyond their capacity?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::solve::{Flows, Link, Simulation, Transfer};

/// A transfer that owns its lists.
#[derive(Debug, Clone)]
struct Owned {
    size: f64,
    start_up: f64,
    latency: f64,
    route: Vec<u32>,
    after: Vec<u32>,
    behind: Option<u32>,
}

type World = (Vec<Link>, Vec<Owned>);

/// Few distinct sizes and capacities, so that events coincide.
fn worlds() -> impl Strategy<Value = World> {
    let link = (1..4_u8, 0..3_u8).prop_map(|(capacity, latency)| Link {
        capacity: f64::from(capacity),
        latency: f64::from(latency) / 2.0,
    });
    let one = (
        (0..4_u8, 0.5..3.0_f64, any::<bool>()),
        (0..3_u8, 0..2_u8),
        vec(0..5_u32, 0..4),
        vec(any::<u32>(), 0..3),
        proptest::option::of(any::<u32>()),
    );
    let one = one.prop_map(
        |((size, odd, even), (start_up, latency), mut route, after, behind)| {
            route.sort_unstable();
            route.dedup();
            Owned {
                size: if even { f64::from(size) } else { odd },
                start_up: f64::from(start_up) / 4.0,
                latency: f64::from(latency),
                route,
                after,
                behind,
            }
        },
    );
    (vec(link, 5), vec(one, 1..40)).prop_map(|(links, mut all)| {
        for (index, transfer) in (0..).zip(&mut all) {
            transfer.after.retain(|_| index > 0);
            transfer.after.iter_mut().for_each(|wait| *wait %= index);
            transfer.behind = transfer
                .behind
                .filter(|_| index > 0)
                .map(|wait| wait % index);
        }
        (links, all)
    })
}

fn flows((links, all): &World) -> Flows {
    let mut flows = Flows::new(links.clone()).unwrap();
    for owned in all {
        let transfer = Transfer {
            size: owned.size,
            start_up: owned.start_up,
            latency: owned.latency,
            route: &owned.route,
            after: &owned.after,
            behind: owned.behind,
        };
        flows.push(&transfer).unwrap();
    }
    flows
}

/// Rates of the transfers under way: raise all together, freeze those on each link that fills up.
fn fair((links, all): &World, sending: &[usize]) -> Vec<f64> {
    let mut rates = vec![0.0; all.len()];
    let mut rising = sending.to_vec();
    while !rising.is_empty() {
        let users = |link: usize, among: &[usize]| {
            let on = |t: &&usize| all[**t].route.contains(&u32::try_from(link).unwrap());
            among.iter().filter(on).copied().collect::<Vec<_>>()
        };
        let room = |link: usize, rates: &[f64]| {
            let used: f64 = users(link, sending).iter().map(|&t| rates[t]).sum();
            (links[link].capacity - used) / users(link, &rising).len() as f64
        };
        let busy: Vec<usize> = (0..links.len())
            .filter(|&l| !users(l, &rising).is_empty())
            .collect();
        let step = busy
            .iter()
            .map(|&l| room(l, &rates))
            .fold(f64::INFINITY, f64::min);
        let full: Vec<usize> = busy
            .into_iter()
            .filter(|&l| room(l, &rates) < step + 1e-9)
            .collect();
        let frozen: Vec<usize> = full.iter().flat_map(|&l| users(l, &rising)).collect();
        for &t in &rising {
            rates[t] += step;
        }
        rising.retain(|t| !frozen.contains(t));
    }
    rates
}

/// When each last unit arrives, moving on from event to event with all rates found anew.
fn plainly(world: &World) -> Vec<f64> {
    let all = &world.1;
    let mut left: Vec<f64> = all.iter().map(|t| t.size).collect();
    let (mut sent, mut ends) = (
        vec![f64::INFINITY; all.len()],
        vec![f64::INFINITY; all.len()],
    );
    let mut now = 0.0_f64;
    loop {
        let mut next = f64::INFINITY;
        let mut sending = Vec::new();
        for (i, transfer) in all.iter().enumerate() {
            let inputs = transfer.after.iter().map(|&w| ends[w as usize]);
            let queue = transfer.behind.iter().map(|&w| sent[w as usize]);
            let start = inputs.chain(queue).fold(0.0, f64::max) + transfer.start_up;
            if sent[i] < f64::INFINITY || start == f64::INFINITY {
                continue;
            }
            if start > now + 1e-12 {
                next = next.min(start);
            } else if left[i] < 1e-9 || transfer.route.is_empty() {
                let links: f64 = transfer
                    .route
                    .iter()
                    .map(|&l| world.0[l as usize].latency)
                    .sum();
                (sent[i], ends[i]) = (now, now + transfer.latency + links);
                next = now; // others may have waited for this one
            } else {
                sending.push(i);
            }
        }
        let rates = fair(world, &sending);
        for &i in &sending {
            next = next.min(now + left[i] / rates[i]);
        }
        if next == f64::INFINITY {
            return ends;
        }
        for &i in &sending {
            left[i] -= rates[i] * (next - now);
        }
        now = next;
    }
}

proptest! {
    #[test]
    fn transfers_end_as_in_a_plain_simulation(world in worlds()) {
        let flows = flows(&world);
        let mut simulation = Simulation::new(&flows);
        let ends = simulation.run().ends.clone();
        for (end, expected) in ends.iter().zip(plainly(&world)) {
            prop_assert!((end - expected).abs() < 1e-6, "{end} but {expected}");
        }
    }

    #[test]
    fn no_link_carries_more_than_it_can(world in worlds()) {
        let flows = flows(&world);
        let mut simulation = Simulation::new(&flows);
        let outcome = simulation.run();
        for (link, load) in world.0.iter().zip(&outcome.loads) {
            prop_assert!(load.peak <= link.capacity * (1.0 + 1e-9));
            prop_assert!(load.carried <= link.capacity * outcome.end() * (1.0 + 1e-9));
            prop_assert_eq!(load.peak > 0.0, load.carried > 0.0);
        }
    }

    #[test]
    fn a_run_leaves_the_heap_alone(world in worlds()) {
        let flows = flows(&world);
        let mut simulation = Simulation::new(&flows);
        let counted = allocation_counter::measure(|| {
            simulation.run();
        });
        prop_assert_eq!(counted.count_total, 0);
    }

    #[test]
    fn a_second_run_is_the_first(world in worlds()) {
        let flows = flows(&world);
        let mut simulation = Simulation::new(&flows);
        let first = simulation.run().clone();
        prop_assert_eq!(simulation.run(), &first);
    }

    #[test]
    fn a_run_that_was_stopped_starts_anew(world in worlds(), looks in 0_u32..4) {
        let flows = flows(&world);
        let left = std::cell::Cell::new(looks);
        let goes_on = || left.replace(left.get().saturating_sub(1)) > 0;
        let mut simulation = Simulation::new(&flows);
        let whole = simulation.run().clone();
        simulation.run_while(goes_on);
        prop_assert_eq!(simulation.run_while(|| true), Some(&whole));
    }
}

#[test]
fn a_large_run_stops_when_it_is_told_to() {
    let mut flows = Flows::new(vec![
        Link {
            capacity: 1.0,
            latency: 0.0
        };
        100
    ])
    .unwrap();
    for place in 0..100_000_u32 {
        let transfer = Transfer {
            size: f64::from(1 + place % 7),
            route: &[place % 100],
            ..Transfer::default()
        };
        flows.push(&transfer).unwrap();
    }
    let mut simulation = Simulation::new(&flows);
    let whole = simulation.run().clone();
    let looks = std::cell::Cell::new(0);
    let mut last = 0;
    for most in [1, 10, 30] {
        looks.set(0);
        let goes_on = || looks.replace(looks.get() + 1) < most;
        assert!(simulation.run_while(goes_on).is_none());
        assert!(looks.get() > last); // it was asked so often, then no more
        last = looks.get();
        assert_eq!(simulation.run(), &whole);
    }
    assert!(Simulation::new_while(&flows, || false).is_none());
}

fn refusal(links: &[Link], transfers: &[Transfer]) -> String {
    let flows = Flows::new(links.to_vec()).and_then(|mut flows| {
        for transfer in transfers {
            flows.push(transfer)?;
        }
        Ok(flows)
    });
    flows.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_link_that_cannot_be_is_refused_by_name() {
    let link = |capacity, latency| Link { capacity, latency };
    let good = link(1.0, 0.0);
    for capacity in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = refusal(&[good, link(capacity, 0.0)], &[]);
        assert!(error.starts_with("links[1].capacity: got"), "{error}");
    }
    assert!(refusal(&[link(1.0, -1.0)], &[]).starts_with("links[0].latency: got -1"));
}

#[test]
fn a_transfer_that_cannot_be_is_refused_by_name() {
    let good = [Link {
        capacity: 1.0,
        latency: 0.0,
    }];
    let plain = Transfer::default();
    let cases = [
        (
            Transfer {
                size: f64::NAN,
                ..plain
            },
            "transfers[1].size: got NaN",
        ),
        (
            Transfer {
                start_up: -1.0,
                ..plain
            },
            "transfers[1].start_up: got -1",
        ),
        (
            Transfer {
                latency: f64::INFINITY,
                ..plain
            },
            "transfers[1].latency: got inf",
        ),
        (
            Transfer {
                route: &[1],
                ..plain
            },
            "transfers[1].route: got 1",
        ),
        (
            Transfer {
                route: &[0, 0],
                ..plain
            },
            "transfers[1].route: got 0",
        ),
        (
            Transfer {
                after: &[1],
                ..plain
            },
            "transfers[1].after: got 1",
        ),
        (
            Transfer {
                behind: Some(2),
                ..plain
            },
            "transfers[1].after: got 2",
        ),
    ];
    for (transfer, message) in cases {
        let error = refusal(&good, &[plain, transfer]);
        assert!(error.starts_with(message), "{error}");
    }
}
