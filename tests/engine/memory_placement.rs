//! Laws of placing tensors over memory tiers.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::hardware::{Memories, MemoryTier, Path, TierKind};
use scalewright::memory::placement::{
    Class, Fixed, FixedRule, Objective, Placement, PlacementOutcome, Problem, Tensor, Use, Window,
    fixed_rule_cost, place,
};
use scalewright::solve::assign::Limits;
use scalewright::units::{
    Bytes, BytesPerSecond, DollarsPerByte, JoulesPerByte, Seconds, WattsPerByte, YEAR_S,
};

const GB: f64 = 1e9;

fn tier(name: &str, kind: TierKind, gb: f64, rate: f64) -> MemoryTier {
    MemoryTier::plain(
        name,
        kind,
        Bytes::new(gb * GB),
        BytesPerSecond::new(rate * GB),
    )
}

/// A near tier, host memory behind a link, flash behind the host's memory.
fn memories(capacities: [f64; 3], rates: [f64; 3], node: u32) -> Memories {
    let mut tiers = vec![
        tier("hbm", TierKind::Hbm, capacities[0], 2000.0),
        tier("ddr", TierKind::Ddr, capacities[1], rates[1]),
        tier("ssd", TierKind::Ssd, capacities[2], rates[2]),
    ];
    tiers[1].behind = Some("link".to_owned());
    tiers[1].shared_by = 0;
    tiers[2].behind = Some("ddr".to_owned());
    tiers[2].write_bandwidth = Some(BytesPerSecond::new(rates[2] * GB / 2.0));
    for (tier, (energy, price)) in tiers
        .iter_mut()
        .zip([(4.0, 15.0), (20.0, 4.0), (100.0, 0.1)])
    {
        tier.read_energy = JoulesPerByte::new(energy * 8e-12);
        tier.write_energy = JoulesPerByte::new(energy * 16e-12);
        tier.price = Some(DollarsPerByte::new(price / GB));
    }
    let link = Path {
        name: "link".to_owned(),
        bandwidth: BytesPerSecond::new(rates[0] * GB),
        write_bandwidth: None,
        efficiency: 1.0,
        shared_by: 2,
        behind: None,
    };
    Memories::of(&tiers, &[link], 1, node).expect("tiers that make sense")
}

fn window(compute_s: f64, instants: u32, repeats: f64) -> Window {
    Window {
        name: String::new(),
        compute_s,
        instants,
        repeats,
    }
}

fn tensor(index: usize, bytes: f64, uses: Vec<Use>) -> Tensor {
    Tensor {
        name: format!("tensor {index}"),
        class: Class::ALL[index % Class::ALL.len()],
        bytes,
        from: 0,
        to: None,
        uses,
        whole: false,
        tiers: Vec::new(),
        update: None,
    }
}

fn problem(windows: Vec<Window>, tensors: Vec<Tensor>) -> Problem {
    Problem {
        windows,
        tensors,
        fixed: Vec::new(),
        activation_factor: 1.0,
        rest_s: 0.25,
        objective: Objective::default(),
        years: None,
        main_share: 1.0,
    }
}

/// A tensor that lives from its first use to its last, or outlasts the step.
fn drawn(instants: u32) -> impl Strategy<Value = Tensor> {
    let uses = prop::collection::btree_map(0..instants, (0.0..1.0_f64, 0.0..1.0_f64), 1..4);
    let size = prop_oneof![Just(0.0), Just(4.0), 0.1..8.0_f64];
    (uses, size, any::<bool>(), any::<bool>()).prop_map(move |(uses, gb, survives, whole)| {
        let of = |(at, (read, written)): (u32, (f64, f64))| Use {
            at,
            read_bytes: gb * GB * read.round(),
            written_bytes: gb * GB * written.round(),
        };
        let uses: Vec<Use> = uses.into_iter().map(of).collect();
        let (first, last) = (uses[0].at, uses[uses.len() - 1].at);
        Tensor {
            from: if survives { 0 } else { first },
            to: (!survives).then_some(last + 1),
            whole,
            ..tensor(0, gb * GB, uses)
        }
    })
}

/// Any step of a few tensors.
fn problems() -> impl Strategy<Value = Problem> {
    let windows = prop::collection::vec((0.0..0.5_f64, 1..4_u32, 1..3_u32), 1..4);
    let weights = (0..2_u32, 0..2_u32, 0..2_u32).prop_filter("no weight", |w| *w != (0, 0, 0));
    (windows, weights).prop_flat_map(|(windows, weights)| {
        let of = |(compute, instants, repeats)| window(compute, instants, f64::from(repeats));
        let windows: Vec<Window> = windows.into_iter().map(of).collect();
        let instants = windows.iter().map(|w| w.instants).sum();
        let tensors = prop::collection::vec(drawn(instants), 1..6);
        (Just(windows), tensors, Just(weights)).prop_map(|(windows, mut tensors, weights)| {
            for (index, tensor) in tensors.iter_mut().enumerate() {
                tensor.name = format!("tensor {index}");
                tensor.class = Class::ALL[index % Class::ALL.len()];
            }
            let objective = Objective {
                per_s: f64::from(weights.0),
                per_j: f64::from(weights.1),
                per_usd: f64::from(weights.2) * 1e-3,
            };
            Problem {
                objective,
                ..problem(windows, tensors)
            }
        })
    })
}

fn rigs() -> impl Strategy<Value = ([f64; 3], [f64; 3])> {
    let capacities = (4.0..20.0_f64, 0.5..40.0_f64, 5.0..80.0_f64);
    let rates = (10.0..60.0_f64, 50.0..200.0_f64, 2.0..20.0_f64);
    (capacities, rates).prop_map(|(c, r)| ([c.0, c.1, c.2], [r.0, r.1, r.2]))
}

const TIGHT: Limits = Limits {
    gap: 1e-9,
    nodes: 20_000,
    below: f64::INFINITY,
    shortage: true,
};

fn solve(problem: &Problem, memories: &Memories) -> Result<Box<Placement>, Vec<(String, f64)>> {
    match place(problem, memories, &TIGHT, &Control::new()).expect("a problem that makes sense") {
        PlacementOutcome::Placed(placement) => Ok(placement),
        PlacementOutcome::Impossible(missing) => Err(missing
            .into_iter()
            .map(|m| (m.what, m.missing_bytes))
            .collect()),
    }
}

fn near(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * a.abs().max(b.abs()).max(1e-12)
}

/// Every assignment of whole tensors to tiers, by rules that name one class each.
fn cheapest_by_hand(problem: &Problem, memories: &Memories) -> Option<f64> {
    let names: Vec<&str> = memories
        .places
        .iter()
        .map(|p| p.tier.name.as_str())
        .collect();
    let count = u32::try_from(problem.tensors.len()).unwrap();
    let mut best: Option<f64> = None;
    for code in 0..names.len().pow(count) {
        let tier = |index: u32| names[code / names.len().pow(index) % names.len()];
        let shares = (0..count)
            .zip(&problem.tensors)
            .map(|(i, t)| (t.class, tier(i).to_owned(), 1.0));
        let rule = FixedRule {
            name: String::new(),
            shares: shares.collect(),
            in_place: false,
        };
        let cost = fixed_rule_cost(problem, memories, &rule).unwrap().unwrap();
        if cost.missing.is_empty() {
            best = Some(best.map_or(cost.objective, |b: f64| b.min(cost.objective)));
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// With one use each, tensors have no choice but a tier: trying all assignments of whole tensors
    /// finds what the solver proves.
    #[test]
    fn the_optimum_of_whole_tensors_is_the_best_of_all_assignments(
        problem in problems(), (capacities, rates) in rigs()
    ) {
        let mut problem = problem;
        for tensor in &mut problem.tensors {
            tensor.whole = true;
            tensor.uses.truncate(1);
            tensor.to = tensor.to.map(|_| tensor.uses[0].at + 1);
        }
        let memories = memories(capacities, rates, 1);
        match (solve(&problem, &memories), cheapest_by_hand(&problem, &memories)) {
            (Ok(found), Some(best)) => {
                prop_assert!(near(found.objective, best, 1e-7), "{} {best}", found.objective);
                prop_assert!(found.bound <= best * (1.0 + 1e-9));
            }
            (Err(_), None) => {}
            (found, best) => prop_assert!(false, "{found:?} {best:?}"),
        }
    }

    /// Shares add to one, every live byte lies somewhere, no tier is over its size, and the objective
    /// lies between its bound and what the parts of the answer add up to.
    #[test]
    fn bytes_are_conserved_over_tiers(problem in problems(), (capacities, rates) in rigs()) {
        let memories = memories(capacities, rates, 1);
        let Ok(found) = solve(&problem, &memories) else { return Ok(()) };
        for tensor in &found.tensors {
            prop_assert!(near(tensor.shares.iter().sum(), 1.0, 1e-7));
        }
        let instants = problem.instants() as usize;
        for at in 0..instants {
            let lying: f64 = found.memory.iter().map(|held| held.bytes[at]).sum();
            let alive: f64 = found.live.classes.iter().map(|(_, bytes)| bytes[at]).sum();
            prop_assert!(lying >= alive * (1.0 - 1e-9) - 1.0, "{at}: {lying} {alive}");
            prop_assert!(found.live.peak_bytes >= alive);
        }
        for tier in &found.tiers {
            prop_assert!(tier.peak_bytes <= tier.capacity_bytes * (1.0 + 1e-7) + 1.0);
        }
        prop_assert!(found.bound <= found.objective * (1.0 + 1e-9));
        prop_assert!(found.transfer_free_s <= found.step_time_s * (1.0 + 1e-9));
        let o = problem.objective;
        let summed = o.per_s * found.step_time_s + o.per_j * found.energy_j + o.per_usd * found.memory_usd;
        prop_assert!(near(summed, found.objective, 1e-6), "{summed} {}", found.objective);
    }

    /// More memory in a tier, or a faster link, never makes the optimum worse.
    #[test]
    fn a_larger_or_faster_tier_is_never_worse(
        problem in problems(), (capacities, rates) in rigs(), which in 0..6_usize
    ) {
        let mut problem = problem;
        for tensor in &mut problem.tensors {
            tensor.whole = false;
        }
        let (mut larger, mut faster) = (capacities, rates);
        if which < 3 { larger[which] *= 1.5 } else { faster[which - 3] *= 1.5 }
        let before = solve(&problem, &memories(capacities, rates, 1));
        let after = solve(&problem, &memories(larger, faster, 1));
        match (before, after) {
            (Ok(before), Ok(after)) => {
                prop_assert!(after.objective <= before.objective * (1.0 + 1e-7));
            }
            (Ok(_), Err(missing)) => prop_assert!(false, "{missing:?}"),
            (Err(_), _) => {}
        }
    }

    /// No fixed rule that fits beats the optimum.
    #[test]
    fn no_fixed_rule_beats_the_optimum(
        problem in problems(), (capacities, rates) in rigs(), shares in prop::array::uniform3(0.0..1.0_f64)
    ) {
        let mut problem = problem;
        for tensor in &mut problem.tensors {
            tensor.whole = false;
        }
        let memories = memories(capacities, rates, 1);
        let found = solve(&problem, &memories);
        let own = FixedRule {
            name: "percentages".to_owned(),
            shares: Class::ALL.iter().flat_map(|class| {
                [(*class, "ddr".to_owned(), shares[0] * shares[1]), (*class, "ssd".to_owned(), shares[2])]
            }).collect(),
            in_place: false,
        };
        let cost = fixed_rule_cost(&problem, &memories, &own).unwrap().unwrap();
        match found {
            Ok(found) => {
                for rule in found.rules.iter().chain([&cost]).filter(|r| r.missing.is_empty()) {
                    let least = found.objective * (1.0 - 1e-7);
                    prop_assert!(rule.objective >= least, "{rule:?} {}", found.objective);
                }
            }
            Err(_) => prop_assert!(!cost.missing.is_empty()),
        }
    }

    /// Tiers that are larger by what is said to be missing hold everything.
    #[test]
    fn what_is_missing_would_make_it_fit(problem in problems(), (capacities, rates) in rigs()) {
        let mut problem = problem;
        for tensor in &mut problem.tensors {
            tensor.whole = false;
        }
        let mut small = capacities.map(|c| c / 8.0);
        let rates = rates.map(|r| r * 4.0);
        if let Err(missing) = solve(&problem, &memories(small, rates, 1)) {
            prop_assert!(!missing.is_empty());
            for (what, bytes) in missing {
                let tier = ["hbm", "ddr", "ssd"].iter().position(|name| *name == what).unwrap();
                small[tier] += bytes * (1.0 + 1e-6) / GB;
            }
            prop_assert!(solve(&problem, &memories(small, rates, 1)).is_ok());
        }
    }

    /// What a gigabyte more is said to be worth is what the optimum falls by for a little more.
    #[test]
    fn shadow_prices_are_slopes_of_the_optimum(problem in problems(), (capacities, rates) in rigs()) {
        let mut problem = problem;
        for tensor in &mut problem.tensors {
            tensor.whole = false;
        }
        let Ok(found) = solve(&problem, &memories(capacities, rates, 1)) else { return Ok(()) };
        for (at, tier) in found.tiers.iter().enumerate() {
            let step = 1e-4;
            let moved = |by: f64| {
                let mut other = capacities;
                other[at] *= 1.0 + by;
                solve(&problem, &memories(other, rates, 1)).map(|p| p.objective)
            };
            let size = capacities[at] * GB * step;
            if let (Ok(less), Ok(more)) = (moved(-step), moved(step)) {
                // a convex optimum: the slope lies between those on either side
                let [left, right] = [(less - found.objective) / size, (found.objective - more) / size];
                let slack = 1e-6 * found.objective.abs().max(1e-9) / size;
                prop_assert!(tier.value_per_byte <= left + slack, "{} {left}", tier.value_per_byte);
                prop_assert!(tier.value_per_byte >= right - slack, "{} {right}", tier.value_per_byte);
            }
        }
    }

    /// With a wish for years, no tier is written faster than it lasts.
    #[test]
    fn no_tier_wears_out_within_the_years(problem in problems(), (capacities, rates) in rigs(), years in 0.1..10.0_f64) {
        let mut problem = problem;
        problem.years = Some(years);
        for tensor in &mut problem.tensors {
            tensor.whole = false;
        }
        let mut memories = memories(capacities, rates, 1);
        memories.places[2].tier.endurance = Some(3000.0);
        memories.places[1].tier.endurance = Some(1e9);
        match place(&problem, &memories, &TIGHT, &Control::new()) {
            Ok(PlacementOutcome::Placed(found)) => {
                for tier in &found.tiers {
                    let least = years * (1.0 - 1e-6);
                    prop_assert!(tier.lifetime_years.is_none_or(|y| y >= least), "{tier:?}");
                }
            }
            Ok(PlacementOutcome::Impossible(missing)) => prop_assert!(!missing.is_empty()),
            // that only needlessly slow steps last is no other fault
            Err(error) => prop_assert!(error.to_string().contains("years: got"), "{error}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Wear, refreshes and keeping are those of each placement's own step: no assignment of whole tensors
    /// that lasts through its own steps has an objective below the bound, and what is found lasts.
    #[test]
    fn no_assignment_that_lasts_through_its_own_steps_beats_the_bound(
        problem in problems(), (capacities, rates) in rigs(),
        years in prop::option::of(0.0..3.0_f64), powers in prop::array::uniform3(0.0..1.0_f64),
        retention in prop::option::of(0.1..2.0_f64),
    ) {
        let mut problem = problem;
        problem.years = years.map(|exponent| 1e-4 * 10.0_f64.powf(exponent));
        for tensor in &mut problem.tensors {
            tensor.whole = true;
            tensor.uses.truncate(1);
            tensor.to = tensor.to.map(|_| tensor.uses[0].at + 1);
        }
        let mut memories = memories(capacities, rates, 1);
        for (place, watts) in memories.places.iter_mut().zip(powers) {
            place.tier.keeping_power = WattsPerByte::new(watts.round() * watts / GB);
        }
        memories.places[2].tier.endurance = Some(3000.0);
        memories.places[2].tier.retention = retention.map(Seconds::new);
        memories.places[1].tier.endurance = Some(1e5);
        let best = cheapest_by_hand(&problem, &memories);
        match (place(&problem, &memories, &TIGHT, &Control::new()), best) {
            (Ok(PlacementOutcome::Placed(found)), Some(best)) => {
                prop_assert!(found.bound <= best * (1.0 + 1e-9), "{} {best}", found.bound);
                prop_assert!(found.objective >= best * (1.0 - 1e-6), "{} {best}", found.objective);
                prop_assert!(found.objective <= best * (1.0 + found.relative_gap * 1.01 + 1e-7), "{} {best}", found.objective);
            }
            (Ok(PlacementOutcome::Impossible(missing)), best) => prop_assert!(best.is_none(), "{missing:?} {best:?}"),
            (Ok(PlacementOutcome::Placed(found)), None) => prop_assert!(false, "{found:?}"),
            (Err(error), _) => prop_assert!(error.to_string().contains("years"), "{error}"),
        }
    }

    /// The shortest step of tensors that may be split, with wear over that very step, is proven: what would
    /// be shorter does not last, and what is found does.
    #[test]
    fn the_shortest_step_that_lasts_is_proven(
        problem in problems(), (capacities, rates) in rigs(), exponent in 0.0..3.0_f64,
    ) {
        let mut problem = problem;
        problem.objective = Objective::default();
        problem.years = Some(1e-4 * 10.0_f64.powf(exponent));
        for tensor in &mut problem.tensors {
            tensor.whole = false;
        }
        let small = [capacities[0] / 2.0, capacities[1] / 4.0, capacities[2]];
        let mut memories = memories(small, rates, 1);
        memories.places[2].tier.endurance = Some(3000.0);
        match place(&problem, &memories, &TIGHT, &Control::new()) {
            Ok(PlacementOutcome::Placed(found)) => {
                prop_assert!(found.relative_gap <= 1e-6, "{} {}", found.relative_gap, found.nodes);
                let lasts = found.tiers[2].lifetime_years.unwrap_or(f64::INFINITY);
                prop_assert!(lasts >= problem.years.unwrap() * (1.0 - 1e-7));
            }
            Ok(PlacementOutcome::Impossible(missing)) => prop_assert!(!missing.is_empty()),
            Err(error) => {
                // it is said which years would do
                let text = error.to_string();
                prop_assert!(text.contains("years: got"), "{text}");
            }
        }
    }

    /// Where everything has room near the device, nothing goes farther: that is no faster.
    #[test]
    fn of_equals_the_nearest_is_taken(problem in problems(), (capacities, rates) in rigs(), whole in any::<bool>()) {
        let mut problem = problem;
        problem.objective = Objective::default();
        for tensor in &mut problem.tensors {
            tensor.whole = whole;
        }
        let room: f64 = problem.tensors.iter().map(|tensor| tensor.bytes / GB).sum();
        let memories = memories([room + 1.0, capacities[1], capacities[2]], rates, 1);
        let found = solve(&problem, &memories).unwrap();
        for tier in &found.tiers[1..] {
            let moved = tier.read_bytes + tier.written_bytes + tier.peak_bytes;
            prop_assert!(moved <= 1e-6 * room * GB, "{tier:?}");
        }
        prop_assert!(found.relative_gap <= 1e-8);
    }
}

/// A tensor of 8 GB that each step reads and writes, on flash behind the host's memory.
fn rewritten(years: Option<f64>) -> Result<Box<Placement>, Vec<(String, f64)>> {
    let used = Use {
        at: 1,
        read_bytes: 8.0 * GB,
        written_bytes: 8.0 * GB,
    };
    let mut state = tensor(4, 8.0 * GB, vec![used]);
    state.tiers = vec!["ssd".to_owned()];
    let mut problem = problem(vec![window(0.1, 1, 1.0), window(0.05, 1, 1.0)], vec![state]);
    problem.rest_s = 0.0;
    problem.years = years;
    let mut memories = memories([10.0, 100.0, 1000.0], [25.0, 100.0, 8.0], 1);
    memories.places[2].tier.endurance = Some(3000.0);
    solve(&problem, &memories)
}

/// A step of 3.1 s (0.1 of compute, 8 GB in at 8 GB/s and out at 4) writes 8 of 1,000 GB, 3,000 times:
/// that is 0.0368 years, and what is allowed ends there.
#[test]
fn flash_wears_by_the_step_that_there_is() {
    let found = rewritten(None).unwrap();
    assert!(near(found.step_time_s, 3.1, 1e-9), "{}", found.step_time_s);
    assert!(near(found.transfer_free_s, 0.15, 1e-12));
    let years = 3000.0 * 1000.0 / 8.0 * 3.1 / YEAR_S;
    let lasts = found.tiers[2].lifetime_years.unwrap();
    assert!(near(lasts, years, 1e-9), "{lasts} {years}");
    let lasting = rewritten(Some(years * 0.999)).unwrap();
    assert!(near(lasting.step_time_s, 3.1, 1e-9) && lasting.relative_gap < 1e-8);
    let missing = rewritten(Some(years * 1.001)).unwrap_err();
    assert_eq!(missing[0].0, "endurance of ssd, bytes a step");
}

/// Bytes of flash are written into the host's memory and read from it whichever way they go.
#[test]
fn what_bounces_in_a_tier_takes_its_energy() {
    let found = rewritten(None).unwrap();
    let [hbm, ddr, ssd] = [0, 1, 2].map(|at| &found.tiers[at]);
    for (tier, gb) in [(ssd, 8.0), (ddr, 16.0)] {
        assert!(near(tier.read_bytes, gb * GB, 1e-12), "{tier:?}");
        assert!(near(tier.written_bytes, gb * GB, 1e-12), "{tier:?}");
    }
    // pJ a bit: reads as said, writes twice that
    let joules = |tier: &scalewright::memory::placement::TierUse, energy: f64| {
        (tier.read_bytes + 2.0 * tier.written_bytes) * energy * 8e-12
    };
    let sum = joules(hbm, 4.0) + joules(ddr, 20.0) + joules(ssd, 100.0);
    assert!(near(found.energy_j, sum, 1e-9), "{} {sum}", found.energy_j);
}

/// Two tensors, a device with room for one: the one that is used more often stays near, and the step
/// is as long as the other takes through the link.
#[test]
fn a_small_case_by_hand() {
    let read = |at, gb: f64| Use {
        at,
        read_bytes: gb * GB,
        written_bytes: 0.0,
    };
    let often = tensor(0, 10.0 * GB, vec![read(0, 10.0), read(1, 10.0)]);
    let once = tensor(1, 10.0 * GB, vec![read(1, 10.0)]);
    let mut problem = problem(
        vec![window(0.1, 1, 1.0), window(0.1, 1, 1.0)],
        vec![often, once],
    );
    // room for one tensor and half of the other's buffer
    let tight = memories([20.0, 100.0, 100.0], [20.0, 1e6, 5.0], 2);
    let found = solve(&problem, &tight).unwrap();
    assert!(
        near(found.step_time_s, 0.1 + 0.1 + 0.25, 1e-9),
        "both fit: {}",
        found.step_time_s
    );
    problem.fixed = vec![Fixed {
        class: Class::Reserve,
        bytes: vec![10.0 * GB, 0.0],
    }];
    let found = solve(&problem, &tight).unwrap();
    // the link gives 10 GB/s to each of its two devices, and may also work in the first window
    // for nothing: `once` is read in the second one
    assert!(
        near(found.step_time_s, 0.1 + 1.0 + 0.25, 1e-6),
        "{}",
        found.step_time_s
    );
}

/// A tensor that may not be split and is larger than every tier is named.
#[test]
fn a_tensor_that_fits_no_tier_is_named() {
    let mut large = tensor(3, 90.0 * GB, Vec::new());
    large.whole = true;
    let problem = problem(vec![window(0.1, 1, 1.0)], vec![large]);
    let missing = solve(
        &problem,
        &memories([10.0, 40.0, 80.0], [20.0, 100.0, 5.0], 1),
    )
    .unwrap_err();
    assert_eq!(
        missing,
        vec![("a tier for tensor 'tensor 3'".to_owned(), 10.0 * GB)]
    );
}

/// Devices that share a node's memory get a part of its size and of its rate each.
#[test]
fn a_shared_tier_is_dealt_out() {
    let alone = memories([10.0, 40.0, 80.0], [20.0, 100.0, 5.0], 1);
    let shared = memories([10.0, 40.0, 80.0], [20.0, 100.0, 5.0], 4);
    assert!(near(
        shared.places[1].capacity.value() * 4.0,
        alone.places[1].capacity.value(),
        1e-12
    ));
    let bus = |m: &Memories| m.places[1].crosses.last().copied().unwrap();
    assert!(near(bus(&shared).read, 4.0 * bus(&alone).read, 1e-12));
    // flash bounces in host memory: its bytes are written there and read again
    let bounce = alone.places[2]
        .crosses
        .iter()
        .find(|c| c.lane == bus(&alone).lane)
        .unwrap();
    assert!(near(bounce.read, 2.0 * bus(&alone).read, 1e-12));
}

/// A circle of tiers and an unknown one are refused by name.
#[test]
fn tiers_that_lead_nowhere_are_refused() {
    let mut tiers = vec![
        tier("hbm", TierKind::Hbm, 1.0, 1000.0),
        tier("ddr", TierKind::Ddr, 10.0, 100.0),
        tier("ssd", TierKind::Ssd, 100.0, 5.0),
    ];
    tiers[1].behind = Some("ssd".to_owned());
    tiers[2].behind = Some("ddr".to_owned());
    let error = Memories::of(&tiers, &[], 1, 1).unwrap_err().to_string();
    assert!(error.contains("ddr behind ssd behind ddr"), "{error}");
    tiers[1].behind = Some("sdd".to_owned());
    let error = Memories::of(&tiers, &[], 1, 1).unwrap_err().to_string();
    assert!(error.contains("nearest: ssd"), "{error}");
}
