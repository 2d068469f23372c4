//! Does a search over groups of unlike devices find what trying everything finds, and does it keep the laws?

#![allow(clippy::unwrap_used)]

mod tried;

use crate::worlds;
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;
use scalewright::control::Control;
use scalewright::error::Error;
use scalewright::estimate::Job;
use scalewright::hardware::{Cluster, Level};
use scalewright::plan::{RecomputePolicy, Schedule};
use scalewright::search::unlike::{Groups, UnlikeReport, search_unlike};
use scalewright::search::{Limits, OffloadWhen, Space, search};
use scalewright::workload::Training;
use tried::tried;
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
    search_unlike(groups, space, &limits(top), &Control::new()).unwrap()
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
    let devices = [
        [5_u32, 1, 0],
        [4, 3, 0],
        [3, 3, 0],
        [2, 5, 0],
        [2, 1, 2],
        [1, 2, 2],
    ];
    let devices = prop::sample::select(devices.to_vec());
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
        let mut clusters = vec![
            scaled(worlds::nodes_of_eight(devices[0]), 1.0, 0.05),
            scaled(worlds::nodes_of_eight(devices[1]), speeds.0, speeds.1),
        ];
        if devices[2] > 0 {
            clusters.push(scaled(worlds::nodes_of_eight(devices[2]), 1.5, 0.04));
        }
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
            let rest = plan.expert_unpaired_s + plan.embedding_sync_s + plan.optimizer_s;
            prop_assert!(close(plan.step_time_s, terms.iter().sum::<f64>() + rest));
            let mut layer = 0;
            for stage in &plan.stages {
                prop_assert_eq!(stage.layers[0], layer);
                prop_assert!(stage.layers[1] > layer);
                prop_assert!(stage.peak_memory_bytes <= stage.memory_capacity_bytes);
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
        offload: OffloadWhen::Never,
        ..Limits::default()
    };
    let like = search(&whole, space, &limits, &Control::new()).unwrap();
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
    let mut wrong = link.clone();
    wrong.efficiency = 2.0;
    assert!(told(Groups::new(&[&job; 2], Some(&wrong)).unwrap_err()).contains("efficiency"));
    let groups = Groups::new(&[&job; 2], Some(&link)).unwrap();
    for text in [
        r#"{"context": [2]}"#,
        r#"{"schedule": ["interleaved"]}"#,
        r#"{"overlap_pipeline": [true]}"#,
        r#"{"overlap_tensor": [true, false]}"#,
    ] {
        let space = Space::from_json(text).unwrap();
        let error = search_unlike(&groups, &space, &limits(1), &Control::new()).unwrap_err();
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
    let stopped = search_unlike(&groups, &Space::default(), &limits(1), &control);
    assert!(matches!(stopped, Err(Error::Cancelled { .. })));
}
