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
use scalewright::plan::{Mesh, Plan, RecomputePolicy, Schedule, check};
use scalewright::schedule::{Pass, Passes, Pipeline, Scratch, Shape, replay};
use scalewright::search::unlike::{Groups, UnlikeReport, search_unlike};
use scalewright::search::{Limits, Offload, Space, search};
use scalewright::units::Seconds;
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
    report
        .best
        .first()
        .map_or(f64::INFINITY, |plan| plan.step_time_s)
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
        let before = index
            .checked_sub(1)
            .filter(|_| !jobs[0].training.forward_only);
        let backward = before.map_or(0.0, |before| hop(seat, &seats[before]));
        let stage = seat.pricer.seconds(&ranges, class, [forward, backward]);
        passes.push(Pass::new(
            Seconds::new(stage.forward),
            Seconds::new(stage.backward),
        ));
        all.push(stage);
        start += size;
    }
    let plan = seats[0].pricer.plan();
    let rounds = u32::try_from(plan.micro_batches(jobs[0].training.global_batch)).unwrap();
    let pipeline = Pipeline::new(Shape::new(count, 1), Passes::Each(&passes), Seconds::ZERO);
    let time = replay(plan.schedule, &pipeline, rounds, &mut Scratch::new())
        .unwrap()
        .value();
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
        front
            .pricer
            .tied_sum(&ranges, &front.pricer.ends(count, &mut pricer))
    } else {
        front
            .pricer
            .tied_sum(&ranges, sum)
            .max(back.pricer.tied_sum(&ranges, sum))
    };
    Some(time + gradient + worst(|s| s.gather_exposed) + worst(|s| s.optimizer) + tied)
}

/// True where a list is absent or holds the value.
fn allows(list: Option<&Vec<u32>>, value: u32) -> bool {
    list.is_none_or(|list| list.contains(&value))
}

/// Every legal choice of a group, with the stages that it has devices for.
fn choices(job: &Job, shared: &Plan, space: &Space) -> Vec<(Plan, u32)> {
    let ranks = job.cluster.devices / shared.data;
    let flags = [false, true];
    let mut all = Vec::new();
    for tensor in 1..=ranks {
        if !tensor.is_power_of_two() && !ranks.is_multiple_of(tensor)
            || !allows(space.tensor.as_ref(), tensor)
        {
            continue;
        }
        let devices = tensor * shared.data;
        for expert in (1..=devices).filter(|e| devices.is_multiple_of(*e)) {
            for width in [tensor, 1].into_iter().take(if tensor > 1 { 2 } else { 1 }) {
                for recompute in space.recompute.clone().unwrap() {
                    for sequence_parallel in flags {
                        let plan = Plan {
                            tensor,
                            expert,
                            expert_tensor: if width == tensor { 0 } else { width },
                            recompute,
                            sequence_parallel,
                            ..shared.clone()
                        };
                        if check(&plan, &job.shape, &job.training, devices).is_ok() {
                            all.push((plan, job.cluster.devices / devices));
                        }
                    }
                }
            }
        }
    }
    let alike = !job.shape.experts;
    all.retain(|(plan, _)| !alike || plan.expert == 1 && plan.expert_tensor == 0);
    all
}

/// Tries every order, choice, number of stages and dealing.
fn tried(jobs: &[Job], between: &Level, space: &Space) -> Tried {
    let mut cluster = worlds::nodes_of_eight(2);
    cluster.system.levels = vec![between.clone()];
    let pair = cluster.group(1, 2);
    let send = Forms::new(Collective::SendReceive, &pair, &cluster);
    let sum = Forms::new(Collective::AllReduce, &pair, &cluster);
    let mut out = Tried {
        combinations: 0,
        unfit: 0,
        times: Vec::new(),
    };
    let batch = u32::try_from(jobs[0].training.global_batch).unwrap();
    let most = jobs.iter().map(|job| job.cluster.devices).max().unwrap();
    for schedule in space.schedule.clone().unwrap() {
        for data in (1..=most).filter(|d| batch.is_multiple_of(*d)) {
            if !allows(space.data.as_ref(), data) {
                continue;
            }
            for micro_batch in (1..=batch / data).filter(|b| (batch / data).is_multiple_of(*b)) {
                if !allows(space.micro_batch.as_ref(), micro_batch) {
                    continue;
                }
                let alone = data == 1 && !jobs[0].shape.experts;
                let zeros: &[u8] = match (alone, jobs[0].training.forward_only) {
                    (true, _) => &[0],
                    (_, true) => &[0, 3],
                    _ => &[0, 1, 2, 3],
                };
                for &zero in zeros {
                    let shared = Plan {
                        schedule,
                        data,
                        micro_batch,
                        zero,
                        ..Plan::default()
                    };
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
            let alone = |(_, plan): &(usize, Plan)| {
                let mesh = Mesh::new(plan);
                mesh.replicas.size == 1 && mesh.expert_replicas.size == 1
            };
            if shared.zero > 0 && stages.iter().all(alone) {
                continue; // the same as without ZeRO
            }
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
    let model = (
        2_u64..6,
        0..3_u32,
        prop::sample::select(vec![256_u64, 1024, 4096]),
    );
    let devices = prop::sample::select(vec![(1_u32, 1_u32), (2, 1), (2, 2), (3, 2), (4, 1)]);
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
        let training = training(
            run.0,
            if run.1 {
                r#", "forward_only": true"#
            } else {
                ""
            },
        );
        let clusters = [
            scaled(worlds::nodes_of_eight(devices.0), 1.0, 0.07),
            scaled(worlds::nodes_of_eight(devices.1), speeds.0, speeds.1),
        ];
        let jobs = clusters
            .iter()
            .map(|cluster| jobs::job(&text, cluster, &training));
        (jobs.collect(), level(link.0, link.1))
    })
}

/// Longer pipelines, one device a stage.
fn long_pipelines() -> impl Strategy<Value = (Vec<Job>, Level, Space)> {
    let model = (6_u64..10, any::<bool>());
    let devices = prop::sample::select(vec![(5_u32, 1_u32), (4, 3), (3, 3), (2, 5)]);
    let speeds = (0.2_f64..4.0, prop::sample::select(vec![1.0, 0.05]));
    let run = (prop::sample::select(vec![1_u64, 3, 6, 16]), any::<bool>());
    let link = (0.1_f64..100.0, 1.0_f64..500.0);
    (model, devices, speeds, run, link).prop_map(|(model, devices, speeds, run, link)| {
        let (layers, alike) = model;
        let text = if alike {
            jobs::llama(layers, 1024, 16)
        } else {
            jobs::mixture(layers, 1024)
        };
        let clusters = [
            scaled(worlds::nodes_of_eight(devices.0), 1.0, 0.05),
            scaled(worlds::nodes_of_eight(devices.1), speeds.0, speeds.1),
        ];
        let training = training(run.0, "");
        let jobs = clusters
            .iter()
            .map(|cluster| jobs::job(&text, cluster, &training));
        let schedule = if run.1 { "1f1b" } else { "gpipe" };
        let space = format!(
            r#"{{"tensor": [1], "data": [1], "micro_batch": [1], "recompute": ["none"],
            "schedule": ["{schedule}"]}}"#
        );
        (
            jobs.collect(),
            level(link.0, link.1),
            Space::from_json(&space).unwrap(),
        )
    })
}

/// The best plans and the counts are those of trying everything.
fn agrees(jobs: &[Job], between: &Level, space: &Space) -> Result<(), TestCaseError> {
    let groups = Groups::new(&jobs.iter().collect::<Vec<_>>(), Some(between)).unwrap();
    let report = found(&groups, space, 3);
    let mut brute = tried(jobs, between, space);
    brute.times.sort_by(f64::total_cmp);
    let times: Vec<f64> = report.best.iter().map(|plan| plan.step_time_s).collect();
    prop_assert_eq!(times.len(), brute.times.len().min(3));
    for (found, least) in times.iter().zip(&brute.times) {
        prop_assert!(close(*found, *least), "{found} {least}");
    }
    prop_assert_eq!(report.combinations, brute.combinations);
    prop_assert!(report.combinations_that_do_not_fit <= brute.unfit);
    prop_assert!(report.combinations_priced <= brute.times.len() as u64);
    let counted = report.combinations_priced + report.combinations_excluded_by_bound;
    prop_assert_eq!(
        counted + report.combinations_that_do_not_fit,
        report.combinations
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_best_plans_are_those_that_trying_everything_finds(
        (jobs, between) in worlds_of_two(),
        schedule in prop::sample::select(vec![Schedule::OneForwardOneBackward, Schedule::GPipe]),
    ) {
        let policies = if jobs[0].training.forward_only {
            vec![RecomputePolicy::None]
        } else {
            vec![RecomputePolicy::None, RecomputePolicy::Full]
        };
        let space = Space {
            schedule: Some(vec![schedule]),
            recompute: Some(policies),
            ..Space::default()
        };
        agrees(&jobs, &between, &space)?;
    }

    #[test]
    fn so_are_the_dealings_of_long_pipelines((jobs, between, space) in long_pipelines()) {
        agrees(&jobs, &between, &space)?;
    }

    #[test]
    fn a_plan_holds_every_layer_once_on_devices_that_it_fits((jobs, between) in worlds_of_two()) {
        let groups = Groups::new(&jobs.iter().collect::<Vec<_>>(), Some(&between)).unwrap();
        for plan in found(&groups, &Space::default(), 20).best {
            let terms = [plan.pipeline_s, plan.gradient_exposed_s, plan.gather_exposed_s];
            let rest = plan.embedding_sync_s + plan.optimizer_s;
            prop_assert!(close(plan.step_time_s, terms.iter().sum::<f64>() + rest));
            let mut layer = 0;
            for stage in &plan.stages {
                prop_assert_eq!(stage.layers[0], layer);
                prop_assert!(stage.layers[1] > layer);
                prop_assert!(stage.memory_bytes <= stage.capacity_bytes);
                layer = stage.layers[1];
            }
            prop_assert_eq!(u64::from(layer), jobs[0].shape.layers);
            let batch = plan.data * plan.micro_batch * plan.micro_batches;
            prop_assert_eq!(u64::from(batch), jobs[0].training.global_batch);
            for (used, job) in plan.groups.iter().zip(&jobs) {
                let stages = plan.stages.iter().filter(|s| s.group == used.group).count();
                prop_assert_eq!(u32::try_from(stages).unwrap(), used.stages);
                prop_assert_eq!(used.devices_used, used.stages * used.tensor * plan.data);
                prop_assert_eq!(used.devices_used + used.devices_unused, job.cluster.devices);
            }
        }
    }

    #[test]
    fn another_group_is_never_worse((jobs, between) in worlds_of_two()) {
        let both = Groups::new(&jobs.iter().collect::<Vec<_>>(), Some(&between)).unwrap();
        let both = seconds(&found(&both, &Space::default(), 1));
        for job in &jobs {
            let alone = seconds(&found(&Groups::new(&[job], None).unwrap(), &Space::default(), 1));
            prop_assert!(both <= alone * (1.0 + 1e-9), "{both} {alone}");
        }
    }

    #[test]
    fn a_faster_link_is_never_worse((jobs, between) in worlds_of_two()) {
        let mut faster = between.clone();
        faster.bandwidth = faster.bandwidth * 3.0;
        let all: Vec<&Job> = jobs.iter().collect();
        let of = |level: &Level| {
            let groups = Groups::new(&all, Some(level)).unwrap();
            seconds(&found(&groups, &Space::default(), 1))
        };
        let (slow, fast) = (of(&between), of(&faster));
        prop_assert!(fast <= slow * (1.0 + 1e-9) || slow.is_infinite(), "{fast} {slow}");
    }

    #[test]
    fn threads_change_nothing((jobs, between) in worlds_of_two()) {
        let groups = Groups::new(&jobs.iter().collect::<Vec<_>>(), Some(&between)).unwrap();
        let texts = [1, 2, 5].map(|threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let report = pool.install(|| found(&groups, &Space::default(), 4));
            serde_json::to_string(&report).unwrap()
        });
        prop_assert_eq!(&texts[0], &texts[1]);
        prop_assert_eq!(&texts[0], &texts[2]);
    }
}

/// Fields of plans of like stages whose stages deal out to two halves of a cluster node by node.
fn halves(fields: &str) -> Space {
    let text = format!(
        r#"{{"schedule": ["1f1b"], "context": [1], "expert": [1], "tensor": [8], {fields}
        "pipeline": [2, 4, 8]}}"#
    );
    Space::from_json(&text).unwrap()
}

/// Step times on two halves of a cluster, joined as its nodes are, and on the whole.
fn halved(text: &str, devices: u32, batch: u64, space: &Space) -> (f64, f64) {
    let training = jobs::training(batch, 2048, "");
    let whole = jobs::job(text, &worlds::nodes_of_eight(devices), &training);
    let half = jobs::job(text, &worlds::nodes_of_eight(devices / 2), &training);
    let network = whole.cluster.system.levels[1].clone();
    let groups = Groups::new(&[&half, &half], Some(&network)).unwrap();
    let report = found(&groups, space, 1);
    let limits = Limits {
        top: 1,
        offload: Offload::Never,
        ..Limits::default()
    };
    let like = search(&whole, space, limits, &Control::new()).unwrap();
    (
        seconds(&report),
        like.best
            .first()
            .map_or(f64::INFINITY, |found| found.composed.time),
    )
}

#[test]
fn two_halves_of_a_cluster_are_never_worse_than_plans_of_like_stages() {
    for text in [
        jobs::gpt(12, 4096),
        jobs::llama(24, 4096, 16),
        jobs::mixture(14, 2048),
    ] {
        for devices in [16, 32, 64] {
            for batch in [8, 32] {
                let (halves, whole) = halved(&text, devices, batch, &halves(""));
                assert!(
                    whole.is_finite() && halves <= whole * (1.0 + 1e-9),
                    "{halves} {whole} {devices} {batch} {text}"
                );
            }
        }
    }
}

#[test]
fn where_nothing_is_left_to_deal_two_halves_are_the_whole() {
    for zero in 0..=3 {
        for policy in ["none", "selective", "full"] {
            for devices in [16, 32] {
                let stages = u64::from(devices / 8);
                let space = halves(&format!(
                    r#""data": [1], "zero": [{zero}], "recompute": ["{policy}"],
                    "sequence_parallel": [true],"#
                ));
                let text = jobs::gpt(stages, 4096);
                let (halves, whole) = halved(&text, devices, 16, &space);
                assert!(
                    whole.is_finite() && close(halves, whole),
                    "{halves} {whole}"
                );
                let replicas = halves_with_replicas(zero, policy);
                let (halves, whole) = halved(&jobs::gpt(2, 4096), devices, 16, &replicas);
                assert!(
                    whole.is_finite() && close(halves, whole),
                    "{halves} {whole}"
                );
            }
        }
    }
}

/// Two stages of one layer each, with as many replicas as there is room for.
fn halves_with_replicas(zero: u32, policy: &str) -> Space {
    let text = format!(
        r#"{{"schedule": ["1f1b"], "context": [1], "tensor": [4], "pipeline": [2], "data": [2, 4],
        "zero": [{zero}], "recompute": ["{policy}"], "sequence_parallel": [false]}}"#
    );
    Space::from_json(&text).unwrap()
}

#[test]
fn slow_devices_that_only_hinder_are_left_out() {
    let training = jobs::training(16, 2048, "");
    let fast = jobs::job(&jobs::gpt(8, 4096), &worlds::nodes_of_eight(8), &training);
    let slow = scaled(worlds::nodes_of_eight(8), 0.001, 1.0);
    let slow = jobs::job(&jobs::gpt(8, 4096), &slow, &training);
    let groups = Groups::new(&[&slow, &fast], Some(&level(25.0, 10.0))).unwrap();
    let report = found(&groups, &Space::default(), 1);
    assert_eq!(report.best[0].groups[0].stages, 0);
    assert_eq!(report.best[0].groups[0].devices_unused, 8);
}

#[test]
fn stages_on_faster_devices_hold_more_layers() {
    let training = jobs::training(64, 2048, "");
    let text = jobs::llama(24, 4096, 16);
    let slow = jobs::job(&text, &worlds::nodes_of_eight(8), &training);
    let fast = scaled(worlds::nodes_of_eight(8), 3.0, 1.0);
    let fast = jobs::job(&text, &fast, &training);
    let groups = Groups::new(&[&slow, &fast], Some(&level(25.0, 10.0))).unwrap();
    let space = Space::from_json(r#"{"tensor": [8], "pipeline": [2]}"#).unwrap();
    let report = found(&groups, &space, 1);
    let layers = |group: usize| {
        let stage = report.best[0]
            .stages
            .iter()
            .find(|s| s.group == group)
            .unwrap();
        stage.layers[1] - stage.layers[0]
    };
    assert!(layers(1) > layers(0) + 6, "{} {}", layers(0), layers(1));
}

#[test]
fn wrong_groups_links_and_fields_are_refused_by_name() {
    let training = jobs::training(16, 2048, "");
    let job = jobs::job(&jobs::gpt(8, 1024), &worlds::nodes_of_eight(8), &training);
    let other = jobs::job(&jobs::gpt(6, 1024), &worlds::nodes_of_eight(8), &training);
    let link = level(25.0, 10.0);
    let told = |error: Error| error.to_string();
    assert!(told(Groups::new(&[], None).unwrap_err()).contains("groups"));
    assert!(told(Groups::new(&[&job; 5], Some(&link)).unwrap_err()).contains("groups"));
    assert!(told(Groups::new(&[&job; 2], None).unwrap_err()).contains("between"));
    assert!(told(Groups::new(&[&job, &other], Some(&link)).unwrap_err()).contains("groups"));
    let wrong = Level {
        efficiency: 2.0,
        ..link.clone()
    };
    assert!(told(Groups::new(&[&job; 2], Some(&wrong)).unwrap_err()).contains("efficiency"));
    let groups = Groups::new(&[&job; 2], Some(&link)).unwrap();
    for text in [
        r#"{"context": [2]}"#,
        r#"{"schedule": ["interleaved"]}"#,
        r#"{"overlap_pipeline": [true]}"#,
        r#"{"overlap_tensor": [true, false]}"#,
    ] {
        let space = Space::from_json(text).unwrap();
        let error = search_unlike(&groups, &space, limits(1), &Control::new()).unwrap_err();
        assert!(told(error).contains("space."), "{text}");
    }
}

#[test]
fn a_search_that_is_cancelled_says_so() {
    let training = jobs::training(16, 2048, "");
    let job = jobs::job(&jobs::gpt(8, 1024), &worlds::nodes_of_eight(8), &training);
    let groups = Groups::new(&[&job; 2], Some(&level(25.0, 10.0))).unwrap();
    let control = Control::new();
    control.cancel();
    let stopped = search_unlike(&groups, &Space::default(), limits(1), &control);
    assert!(matches!(stopped, Err(Error::Cancelled { .. })));
}
