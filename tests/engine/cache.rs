//! Do traces behave as the formulas say, and do caches keep the laws that bind all of them?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::memory::cache::tiers::{Level, TieredAccessRequest, cache_time};
use scalewright::memory::cache::{Demand, Policy, Popularity, Replay, Trace, lru_curve, replay};
use scalewright::solve::Random;

const ONLINE: [Policy; 6] = [
    Policy::Static,
    Policy::Lfu,
    Policy::Lru,
    Policy::Fifo,
    Policy::Random,
    Policy::Lifo,
];

fn run(ids: &[u32], policy: Policy, capacity: u64) -> Replay {
    sized(ids, &[], policy, capacity)
}

fn sized(ids: &[u32], sizes: &[u64], policy: Policy, capacity: u64) -> Replay {
    let trace = Trace::new(ids, sizes).unwrap();
    replay(&trace, policy, capacity, 7, &Control::new()).unwrap()
}

/// Independent references by given weights.
fn references(weights: &[f64], accesses: usize, seed: u64) -> Vec<u32> {
    let mut ends: Vec<f64> = weights
        .iter()
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let total = *ends.last().unwrap();
    for end in &mut ends {
        *end /= total;
    }
    let mut random = Random::new(seed, 0);
    let ids = (0..accesses).map(|_| {
        let drawn = random.uniform();
        ends.partition_point(|end| *end <= drawn)
            .min(ends.len() - 1)
    });
    ids.map(|id| u32::try_from(id).unwrap()).collect()
}

fn zipf(objects: u32, exponent: f64) -> Vec<f64> {
    (1..=objects)
        .map(|rank| f64::from(rank).powf(-exponent))
        .collect()
}

/// Hit rate of the second half, when the cache is full.
fn late_rate(ids: &[u32], policy: Policy, capacity: u64) -> f64 {
    let half = ids.len() / 2;
    let (all, first) = (
        run(ids, policy, capacity),
        run(&ids[..half], policy, capacity),
    );
    (all.hits - first.hits) as f64 / (ids.len() - half) as f64
}

fn expected(weights: &[f64], policy: Policy, capacity: f64) -> f64 {
    let demand = Demand::new(&Popularity::Measured(weights.to_vec()), &[]).unwrap();
    demand
        .hits(policy, capacity, &Control::new())
        .unwrap()
        .hit_rate
}

#[test]
fn formulas_hold_on_independent_references() {
    for (exponent, objects, capacity) in [
        (0.0, 1000, 100),
        (0.6, 2000, 400),
        (0.9, 5000, 50),
        (1.2, 5000, 1000),
    ] {
        let weights = zipf(objects, exponent);
        let ids = references(&weights, 1_000_000, 3);
        for policy in [Policy::Lru, Policy::Fifo, Policy::Random] {
            let found = late_rate(&ids, policy, capacity);
            let said = expected(&weights, policy, capacity as f64);
            assert!(
                (found - said).abs() < 0.003,
                "{policy:?} {exponent} {capacity}: {found} {said}"
            );
        }
    }
}

#[test]
fn counting_ends_with_the_most_popular() {
    let weights = zipf(2000, 0.9);
    let ids = references(&weights, 2_000_000, 5);
    for (policy, near) in [(Policy::Static, 0.002), (Policy::Lfu, 0.01)] {
        let found = late_rate(&ids, policy, 200);
        let said = expected(&weights, policy, 200.0);
        assert!((found - said).abs() < near, "{policy:?}: {found} {said}");
    }
}

#[test]
fn last_in_first_out_holds_on_the_mean_over_fillings() {
    let weights = zipf(200, 1.0);
    let runs = 200;
    let rates = (0..runs).map(|seed| {
        let ids = references(&weights, 20_000, seed);
        late_rate(&ids, Policy::Lifo, 10)
    });
    let found = rates.sum::<f64>() / runs as f64;
    let said = expected(&weights, Policy::Lifo, 10.0);
    assert!((found - said).abs() < 0.015, "{found} {said}");
}

#[test]
fn bytes_hold_too() {
    let weights = zipf(3000, 0.8);
    let mut random = Random::new(11, 0);
    let sizes: Vec<u64> = (0..3000).map(|_| 1 + random.bits() % 20).collect();
    let real: Vec<f64> = sizes.iter().map(|size| *size as f64).collect();
    let demand = Demand::new(&Popularity::Measured(weights.clone()), &real).unwrap();
    let ids = references(&weights, 600_000, 13);
    for policy in [Policy::Lru, Policy::Fifo, Policy::Random, Policy::Static] {
        let said = demand.hits(policy, 4000.0, &Control::new()).unwrap();
        let (all, first) = (
            sized(&ids, &sizes, policy, 4000),
            sized(&ids[..300_000], &sizes, policy, 4000),
        );
        let rate = (all.hits - first.hits) as f64 / 300_000.0;
        let moved = (all.hit_bytes + all.miss_bytes - first.hit_bytes - first.miss_bytes) as f64;
        let bytes = (all.hit_bytes - first.hit_bytes) as f64 / moved;
        assert!((rate - said.hit_rate).abs() < 0.005, "{policy:?}: {rate}");
        assert!((bytes - said.byte_hit_rate).abs() < 0.007, "{policy:?}");
    }
}

#[test]
fn a_law_of_billions_is_that_of_a_list() {
    for exponent in [0.0, 0.7, 1.0, 1.3] {
        let listed = Demand::new(&Popularity::Measured(zipf(200_000, exponent)), &[]).unwrap();
        let law = Popularity::Zipf {
            objects: 200_000,
            exponent,
        };
        let law = Demand::new(&law, &[]).unwrap();
        for policy in ONLINE {
            for capacity in [1.0, 1000.0, 100_000.0, 199_999.0] {
                let control = Control::new();
                let long = listed.hits(policy, capacity, &control).unwrap().hit_rate;
                let short = law.hits(policy, capacity, &control).unwrap().hit_rate;
                assert!(
                    (long - short).abs() < 1e-6 * long,
                    "{policy:?} {exponent} {capacity}: {long} {short}"
                );
            }
        }
    }
    let huge = Popularity::Zipf {
        objects: 10_000_000_000,
        exponent: 1.05,
    };
    let huge = Demand::new(&huge, &[]).unwrap();
    let hits = |policy| huge.hits(policy, 1e8, &Control::new()).unwrap().hit_rate;
    assert!(hits(Policy::Fifo) < hits(Policy::Lru) && hits(Policy::Lru) < hits(Policy::Static));
    assert!(hits(Policy::Static) < 1.0);
}

/// Levels that hold so many objects of a byte each.
fn levels(capacities: &[f64]) -> Vec<Level> {
    let level = |capacity: &f64| Level {
        name: format!("{capacity}"),
        capacity_bytes: *capacity,
        bytes_per_s: 1e9 / capacity,
        latency_s: 1e-6,
        in_flight: 4.0,
    };
    capacities.iter().map(level).collect()
}

#[test]
fn levels_serve_what_nested_runs_do() {
    let weights = zipf(2000, 0.9);
    let ids = references(&weights, 800_000, 17);
    let request = TieredAccessRequest {
        levels: levels(&[50.0, 500.0, 2000.0]),
        popularity: Popularity::Measured(weights),
        object_bytes: 1.0,
        accesses: 1e6,
        policy: Policy::Lru,
        written_share: 0.0,
        overlapped: true,
    };
    let found = cache_time(&request, &Control::new()).unwrap();
    let near = late_rate(&ids, Policy::Lru, 50);
    let both = late_rate(&ids, Policy::Lru, 500);
    for (level, share) in found.levels.iter().zip([near, both - near, 1.0 - both]) {
        assert!(
            (level.share - share).abs() < 0.003,
            "{} {share}",
            level.share
        );
    }
    let last = found.levels.last().unwrap();
    let reads = 1e6 * (1.0 - found.levels[1].hit_rate);
    assert!((last.read_bytes / reads - 1.0).abs() < 1e-9);
    let time = reads / (1e9 / 2000.0) + reads * 1e-6 / 4.0;
    assert!((last.time_s / time - 1.0).abs() < 1e-9);
}

#[test]
fn rounds_in_a_fixed_order_favour_last_in_first_out() {
    let rounds = 50_u64;
    let (experts, capacity) = (16_u64, 10_u64);
    let ids: Vec<u32> = (0..rounds)
        .flat_map(|_| 0..u32::try_from(experts).unwrap())
        .collect();
    assert_eq!(run(&ids, Policy::Lru, capacity).hits, 0);
    assert_eq!(run(&ids, Policy::Fifo, capacity).hits, 0);
    let lifo = run(&ids, Policy::Lifo, capacity).hits;
    assert_eq!(lifo, (rounds - 1) * (capacity - 1));
    let best = run(&ids, Policy::Belady, capacity).hits;
    assert_eq!(best, (rounds - 1) * capacity);
}

#[test]
fn newcomers_stay_out_until_they_are_asked_for_more_often() {
    // 0 three times and 1 twice; then 2 comes in at its third request, for 1
    let mut ids = vec![0, 0, 0, 1, 1, 2, 2, 2];
    assert_eq!(run(&ids, Policy::Lfu, 2).hits, 3);
    ids.extend([2, 0, 2]);
    assert_eq!(run(&ids, Policy::Lfu, 2).hits, 6);
    // 1 has three requests now, as many as none of those held; at its fifth, it is ahead of 0
    ids.extend([1, 1, 1, 1, 0]);
    assert_eq!(run(&ids, Policy::Lfu, 2).hits, 7);
}

#[test]
fn work_stops_when_asked() {
    let control = Control::new();
    control.cancel();
    let trace = Trace::new(&[0, 1, 0], &[]).unwrap();
    assert!(replay(&trace, Policy::Lru, 1, 0, &control).is_err());
}

/// The most hits of any cache that may hold or drop what it likes after each access.
fn best_by_trying(ids: &[u32], capacity: u32) -> u64 {
    let mut states = std::collections::BTreeMap::from([(0_u32, 0_u64)]);
    for id in ids {
        let mut next = std::collections::BTreeMap::new();
        for (held, hits) in &states {
            let hit = u64::from(held >> id & 1 == 1);
            let around = held | 1 << id;
            let mut kept = around;
            loop {
                if kept.count_ones() <= capacity {
                    let most = next.entry(kept).or_insert(0);
                    *most = (*most).max(hits + hit);
                }
                if kept == 0 {
                    break;
                }
                kept = (kept - 1) & around;
            }
        }
        states = next;
    }
    states.into_values().max().unwrap_or(0)
}

/// Least recently used, by a list.
fn lru_by_list(ids: &[u32], sizes: &[u64], capacity: u64) -> u64 {
    let (mut held, mut hits): (Vec<u32>, u64) = (Vec::new(), 0);
    let of = |id: u32| sizes.get(id as usize).copied().unwrap_or(1);
    for id in ids {
        if let Some(at) = held.iter().position(|other| other == id) {
            held.remove(at);
            hits += 1;
        }
        if of(*id) <= capacity {
            held.push(*id);
        }
        while held.iter().map(|id| of(*id)).sum::<u64>() > capacity {
            held.remove(0);
        }
    }
    hits
}

fn short_trace() -> impl Strategy<Value = Vec<u32>> {
    vec(0_u32..6, 0..14)
}

fn trace() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        vec(0_u32..40, 0..400),
        vec((0_u32..40, 0_u32..40), 0..300)
            .prop_map(|pairs| pairs.into_iter().map(|(a, b)| a.min(b)).collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn belady_is_the_best_there_is(ids in short_trace(), capacity in 0_u32..5) {
        let best = run(&ids, Policy::Belady, u64::from(capacity)).hits;
        prop_assert_eq!(best, best_by_trying(&ids, capacity));
    }

    #[test]
    fn none_beats_belady_and_all_count_what_they_should(ids in trace(), capacity in 0_u64..45) {
        let distinct = ids.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        let best = run(&ids, Policy::Belady, capacity);
        let ones = vec![1; 40];
        for policy in Policy::ALL {
            let found = run(&ids, policy, capacity);
            prop_assert!(found.hits <= best.hits, "{policy:?}");
            prop_assert_eq!(found.hits + found.misses, ids.len() as u64);
            prop_assert_eq!(found.accesses, ids.len() as u64);
            prop_assert_eq!(found.cold_misses, distinct);
            prop_assert!(found.misses >= distinct);
            // sizes of one are no sizes
            prop_assert_eq!(found, sized(&ids, &ones, policy, capacity));
        }
        if capacity >= distinct {
            prop_assert_eq!(best.misses, distinct);
            prop_assert_eq!(run(&ids, Policy::Lru, capacity).misses, distinct);
        }
    }

    #[test]
    fn one_pass_gives_the_hits_of_every_lru_cache(ids in trace()) {
        let curve = lru_curve(&Trace::new(&ids, &[]).unwrap(), &Control::new()).unwrap();
        for (capacity, hits) in (0_u64..).zip(&curve) {
            prop_assert_eq!(run(&ids, Policy::Lru, capacity).hits, *hits);
        }
        let all = run(&ids, Policy::Lru, 40);
        prop_assert_eq!(curve.len() as u64, all.cold_misses + 1);
        prop_assert_eq!(curve.last(), Some(&all.hits));
    }

    #[test]
    fn larger_caches_of_stack_policies_hit_more(ids in trace(), capacity in 0_u64..45) {
        for policy in [Policy::Lru, Policy::Belady, Policy::Static] {
            let (small, large) = (run(&ids, policy, capacity), run(&ids, policy, capacity + 1));
            prop_assert!(small.hits <= large.hits, "{policy:?}");
        }
    }

    #[test]
    fn runs_are_those_of_plain_lists(
        ids in trace(),
        sizes in vec(1_u64..9, 40),
        capacity in 0_u64..60,
    ) {
        prop_assert_eq!(run(&ids, Policy::Lru, capacity).hits, lru_by_list(&ids, &[], capacity));
        let found = sized(&ids, &sizes, Policy::Lru, capacity);
        prop_assert_eq!(found.hits, lru_by_list(&ids, &sizes, capacity));
        let whole: u64 = ids.iter().map(|id| sizes[*id as usize]).sum();
        for policy in Policy::ALL {
            let found = sized(&ids, &sizes, policy, capacity);
            prop_assert_eq!(found.hit_bytes + found.miss_bytes, whole, "{:?}", policy);
            let whole = sizes.iter().sum();
            let all = sized(&ids, &sizes, policy, whole);
            prop_assert_eq!(all.misses, all.cold_misses, "{:?}", policy);
        }
    }

    #[test]
    fn nearer_memory_never_costs_time(
        exponent in 0.0_f64..1.5,
        near in 1.0_f64..1e5,
        more in 1.0_f64..4.0,
        written_share in 0.0_f64..1.0,
    ) {
        let time = |near: f64| {
            let mut levels = levels(&[near, 1e6]);
            levels[0].bytes_per_s = 1e12;
            let request = TieredAccessRequest {
                levels,
                popularity: Popularity::Zipf { objects: 1_000_000, exponent },
                object_bytes: 1.0,
                accesses: 1e6,
                policy: Policy::Static,
                written_share,
                overlapped: false,
            };
            cache_time(&request, &Control::new()).unwrap().time_s.unwrap()
        };
        let (small, large) = (time(near), time(near * more));
        prop_assert!(small.is_finite() && small > 0.0);
        prop_assert!(large <= small * (1.0 + 1e-9), "{small} {large}");
    }

    #[test]
    fn rates_are_shares_that_grow_with_capacity(
        weights in vec(0.0_f64..1.0, 1..60),
        part in 0.0_f64..1.2,
        more in 0.0_f64..0.5,
    ) {
        prop_assume!(weights.iter().sum::<f64>() > 0.0);
        for policy in ONLINE {
            let many = weights.len() as f64;
            let (small, large) = (
                expected(&weights, policy, part * many),
                expected(&weights, policy, (part + more) * many),
            );
            prop_assert!((0.0..=1.0).contains(&small), "{policy:?} {small}");
            prop_assert!(small <= large + 1e-9, "{policy:?} {small} {large}");
            let ideal = expected(&weights, Policy::Static, (part * many).ceil());
            prop_assert!(small <= ideal + 1e-9, "{policy:?} {small} {ideal}");
        }
    }
}
