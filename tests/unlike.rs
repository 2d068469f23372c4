//! Does a search over groups of unlike devices find what trying everything finds, and does it keep the laws?

#![allow(clippy::unwrap_used)]

mod worlds;

use proptest::prelude::*;
use rayon::ThreadPoolBuilder;
use scalewright::collective::{Collective, Forms};
use scalewright::control::Control;
use scalewright::error::Error;
use scalewright::estimate::{Factors, Job, LayerRanges, Place, Pricer, StagePricer, StageSeconds};
use scalewright::hardware::{Cluster, Level};
use scalewright::plan::{Plan, RecomputePolicy, Schedule, check};
use scalewright::schedule::{Pass, Passes, Pipeline, Scratch, Shape, replay};
use scalewright::search::unlike::{Groups, UnlikeReport, search_unlike};
use scalewright::search::{Limits, Offload, Space, search};
use scalewright::units::{Bytes, BytesPerSecond, Seconds};
use scalewright::workload::Training;
use worlds::jobs;

fn level(gigabytes: f64, microseconds: f64) -> Level {
    let text = format!(
        r#"{{"name": "between", "kind": "fat-tree", "bandwidth": "{gigabytes} GB/s",
        "latency": "{microseconds} us"}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn limits(top: usize) -> Limits {
    Limits {
        top,
        ..Limits::default()
    }
}

fn found(groups: &Groups, space: &Space, top: usize) -> UnlikeReport {
    search_unlike(groups, space, limits(top), &Control::new()).unwrap()
}

fn seconds(report: &UnlikeReport) -> f64 {
    report.best.first().map_or(f64::INFINITY, |plan| plan.step_time_s)
}

/// A cluster whose devices are faster, and hold more, than toy devices.
fn scaled(mut cluster: Cluster, speed: f64, memory: f64) -> Cluster {
    for peak in cluster.device.matrix.values_mut() {
        *peak = *peak * speed;
    }
    for tier in &mut cluster.device.tiers {
        tier.capacity = tier.capacity * memory;
        tier.bandwidth = tier.bandwidth * speed.sqrt();
    }
    cluster
}

/// Everything that trying all combinations and all dealings finds.
struct Tried {
    combinations: u64,
    unfit: u64,
    times: Vec<f64>,
}

/// What stages of one group share.
#[derive(Clone)]
struct Chosen<'a> {
    group: usize,
    pricer: StagePricer<'a>,
}

/// Sizes of all stages, each 1 or more, that add up to `layers`.
fn compositions(layers: usize, stages: usize) -> Vec<Vec<usize>> {
    if stages == 1 {
        return vec![vec![layers]];
    }
    let mut all = Vec::new();
    for first in 1..=layers.saturating_sub(stages - 1) {
        for rest in compositions(layers - first, stages - 1) {
            all.push([vec![first], rest].concat());
        }
    }
    all
}

/// True where stages of a group between the ends share their layers evenly, the fewer in front.
fn even(sizes: &[usize], groups: &[usize]) -> bool {
    (1..sizes.len().saturating_sub(2)).all(|stage| {
        let last = (stage..sizes.len() - 1).take_while(|&s| groups[s] == groups[stage]);
        let last = last.last().unwrap();
        groups[stage] != groups[stage + 1]
            || sizes[stage] <= sizes[stage + 1] && sizes[last] <= sizes[stage] + 1
    })
}

/// The step of one dealing, if it fits: stages priced one by one, their order laid out and run.
fn step(
    jobs: &[Job],
    (send, sum): (&Forms, &Forms),
    seats: &[Chosen],
    sizes: &[usize],
) -> Option<f64> {
    let ranges = LayerRanges::new(&jobs[0]);
    let count = u32::try_from(seats.len()).unwrap();
    let hop = |from: &Chosen, to: &Chosen| {
        let ranks = from.pricer.plan().tensor.min(to.pricer.plan().tensor);
        if from.group == to.group {
            to.pricer.hop()
        } else {
            to.pricer.hop_over(send, ranks)
        }
    };
    let (mut start, mut passes, mut all) = (0, Vec::new(), Vec::<StageSeconds>::new());
    for (index, (seat, &size)) in seats.iter().zip(sizes).enumerate() {
        let place = Place::of(u32::try_from(index).unwrap(), count);
        let class = (ranges.class(start, size), place);
        let behind = count - 1 - u32::try_from(index).unwrap();
        if seat.pricer.bytes(&ranges, class, behind) > jobs[seat.group].capacity().value() {
            return None;
        }
        let forward = seats.get(index + 1).map_or(0.0, |next| hop(seat, next));
        let backward = index.checked_sub(1).map_or(0.0, |before| hop(seat, &seats[before]));
        let stage = seat.pricer.seconds(&ranges, class, [forward, backward]);
        passes.push(Pass::new(Seconds::new(stage.forward), Seconds::new(stage.backward)));
        all.push(stage);
        start += size;
    }
    let plan = seats[0].pricer.plan();
    let rounds = u32::try_from(plan.micro_batches(jobs[0].training.global_batch)).unwrap();
    let pipeline = Pipeline::new(Shape::new(count, 1), Passes::Each(&passes), Seconds::ZERO);
    let time = replay(plan.schedule, &pipeline, rounds, &mut Scratch::new()).unwrap().value();
    let worst = |of: fn(&StageSeconds) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let mut ripple = 0.0;
    let mut gradient = 0.0_f64;
    for stage in &all {
        gradient = gradient.max(stage.gradient_exposed - ripple);
        ripple += stage.backward;
    }
    let (front, back) = (&seats[0], &seats[seats.len() - 1]);
    let tied = if count == 1 {
        0.0
    } else if front.group == back.group {
        let mut pricer = Pricer::new(&jobs[front.group].cluster);
        front.pricer.tied_sum(&ranges, &front.pricer.ends(count, &mut pricer))
    } else {
        front.pricer.tied_sum(&ranges, sum).max(back.pricer.tied_sum(&ranges, sum))
    };
    Some(time + gradient + worst(|s| s.gather_exposed) + worst(|s| s.optimizer) + tied)
}

/// Every legal choice of a group, with the stages that it has devices for.
fn choices(job: &Job, shared: &Plan, space: &Space) -> Vec<(Plan, u32)> {
    let mut all = Vec::new();
    for tensor in 1..=job.cluster.devices / shared.data {
        let power = tensor.is_power_of_two();
        let divides = (job.cluster.devices / shared.data).is_multiple_of(tensor);
        for recompute in [RecomputePolicy::None, RecomputePolicy::Selective, RecomputePolicy::Full] {
            for sequence_parallel in [false, true] {
                let plan = Plan { tensor, recompute, sequence_parallel, ..shared.clone() };
                let devices = tensor * plan.data;
                let listed = space.recompute.as_ref().is_none_or(|l| l.contains(&recompute));
                let legal = check(&plan, &job.shape, &job.training, devices).is_ok();
                if listed && legal && (power || divides) {
                    all.push((plan, job.cluster.devices / devices));
                }
            }
        }
    }
    all
}

/// Tries every order, choice, number of stages and dealing.
fn tried(jobs: &[Job], between: &Level, space: &Space) -> Tried {
    let mut cluster = worlds::nodes_of_eight(2);
    cluster.system.levels = vec![between.clone()];
    let pair = cluster.group(1, 2);
    let send = Forms::new(Collective::SendReceive, &pair, &cluster);
    let sum = Forms::new(Collective::AllReduce, &pair, &cluster);
    let mut out = Tried { combinations: 0, unfit: 0, times: Vec::new() };
    let batch = u32::try_from(jobs[0].training.global_batch).unwrap();
    let most = jobs.iter().map(|job| job.cluster.devices).max().unwrap();
    for schedule in space.schedule.clone().unwrap() {
        for data in (1..=most).filter(|d| batch.is_multiple_of(*d)) {
            for micro_batch in (1..=batch / data).filter(|b| (batch / data).is_multiple_of(*b)) {
                for zero in if data == 1 { 0..=0 } else { 0..=3 } {
                    let shared = Plan { schedule, data, micro_batch, zero, ..Plan::default() };
                    each_order(jobs, (&send, &sum), &shared, space, &mut out);
                }
            }
        }
    }
    out
}

fn each_order(
    jobs: &[Job],
    forms: (&Forms, &Forms),
    shared: &Plan,
    space: &Space,
    out: &mut Tried,
) {
    let orders: Vec<Vec<usize>> = match jobs.len() {
        1 => vec![vec![0]],
        _ => vec![vec![0], vec![1], vec![0, 1], vec![1, 0]],
    };
    for order in orders {
        let mut prefixes: Vec<Vec<(usize, Plan)>> = vec![Vec::new()];
        for &group in &order {
            let mut longer = Vec::new();
            for (plan, most) in choices(&jobs[group], shared, space) {
                for stages in 1..=most {
                    for prefix in &prefixes {
                        let own = vec![(group, plan.clone()); stages as usize];
                        longer.push([prefix.clone(), own].concat());
                    }
                }
            }
            prefixes = longer;
        }
        for stages in prefixes {
            price_all(jobs, forms, &stages, out);
        }
    }
}

fn price_all(jobs: &[Job], forms: (&Forms, &Forms), stages: &[(usize, Plan)], out: &mut Tried) {
    let layers = usize::try_from(jobs[0].shape.layers).unwrap();
    if stages.len() > layers {
        return;
    }
    out.combinations += 1;
    let mut pricers: Vec<Pricer> = jobs.iter().map(|job| Pricer::new(&job.cluster)).collect();
    let factors: Vec<Factors> = stages
        .iter()
        .map(|(group, plan)| Factors::new(&jobs[*group], plan, &mut pricers[*group]))
        .collect();
    let seats: Vec<Chosen> = stages
        .iter()
        .zip(&factors)
        .map(|((group, plan), factors)| Chosen {
            group: *group,
            pricer: StagePricer::new(&jobs[*group], plan, factors, &mut pricers[*group]),
        })
        .collect();
    let groups: Vec<usize> = stages.iter().map(|(group, _)| *group).collect();
    let dealings = compositions(layers, stages.len());
    let fair = dealings.iter().filter(|sizes| even(sizes, &groups));
    let times = fair.filter_map(|sizes| step(jobs, forms, &seats, sizes));
    match times.reduce(f64::min) {
        Some(time) => out.times.push(time),
        None => out.unfit += 1,
    }
}

fn close(a: f64, b: f64) -> bool {
    a.total_cmp(&b).is_eq() || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn training(batch: u64, more: &str) -> Training {
    jobs::training(batch, 512, more)
}

/// Two small groups of devices that differ in speed and memory, and a link between them.
fn worlds_of_two() -> impl Strategy<Value = (Vec<Job>, Level)> {
    let model = (2_u64..6, 0..3_u32, prop::sample::select(vec![256_u64, 1024]));
    let devices = prop::sample::select(vec![(1_u32, 1_u32), (2, 1), (2, 2), (3, 2)]);
    let speeds = (0.3_f64..3.0, prop::sample::select(vec![1.0, 0.03, 0.07]));
    let run = (prop::sample::select(vec![2_u64, 4]), any::<bool>());
    let link = (1.0_f64..100.0, 1.0_f64..50.0);
    (model, devices, speeds, run, link).prop_map(|(model, devices, speeds, run, link)| {
        let (layers, kind, hidden) = model;
        let text = match kind {
            0 => jobs::gpt(layers, hidden),
            1 => jobs::llama(layers, hidden, 16),
            _ => jobs::mixture(layers, hidden),
        };
        let training = training(run.0, if run.1 { r#", "forward_only": true"# } else { "" });
        let clusters = [
            scaled(worlds::nodes_of_eight(devices.0), 1.0, 0.07),
            scaled(worlds::nodes_of_eight(devices.1), speeds.0, speeds.1),
        ];
        let jobs = clusters.iter().map(|cluster| jobs::job(&text, cluster, &training));
        (jobs.collect(), level(link.0, link.1))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn the_best_plans_are_those_that_trying_everything_finds(
        (jobs, between) in worlds_of_two(),
        schedule in prop::sample::select(vec![Schedule::OneForwardOneBackward, Schedule::GPipe]),
    ) {
        let forward_only = jobs[0].training.forward_only;
        let space = Space {
            schedule: Some(vec![schedule]),
            recompute: Some(if forward_only {
                vec![RecomputePolicy::None]
            } else {
                vec![RecomputePolicy::None, RecomputePolicy::Full]
            }),
            zero: None,
            ..Space::default()
        };
        prop_assume!(!forward_only || jobs[0].training.global_batch < 4);
        let groups = Groups::new(&jobs.iter().collect::<Vec<_>>(), Some(&between)).unwrap();
        let report = found(&groups, &space, 3);
        let mut brute = tried(&jobs, &between, &space);
        brute.times.sort_by(f64::total_cmp);
        let times: Vec<f64> = report.best.iter().map(|plan| plan.step_time_s).collect();
        prop_assert_eq!(times.len(), brute.times.len().min(3));
        for (found, true_time) in times.iter().zip(&brute.times) {
            prop_assert!(close(*found, *true_time), "{found} {true_time}");
        }
        if !forward_only {
            prop_assert_eq!(report.combinations, brute.combinations);
        }
        prop_assert!(report.combinations_that_do_not_fit <= brute.unfit);
        let counted = report.combinations_priced + report.combinations_excluded_by_bound;
        prop_assert_eq!(counted + report.combinations_that_do_not_fit, report.combinations);
    }
}
