//! Does a search find what pricing every plan of its space finds, whatever the threads?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::estimate::{
    COLUMNS, Job, PlanCost, PriceRow, SpillLimits, column, estimate_many, price, spilled,
};
use scalewright::plan::{AxisOrder, Mesh, Plan, ReplicaReduction, Schedule, Split};
use scalewright::search::{
    Limits, Method, Objective, OffloadWhen, Search, SearchOutcome, SearchReport, Space, search,
};
use scalewright::units::{Bytes, Dollars};
use worlds::jobs::{self, priced};

/// Every plan with each of the values in one field.
fn grown(plans: &[Plan], values: &[u32], set: fn(&mut Plan, u32)) -> Vec<Plan> {
    let with = |plan: &Plan, value: u32| {
        let mut plan = plan.clone();
        set(&mut plan, value);
        plan
    };
    plans
        .iter()
        .flat_map(|plan| values.iter().map(move |&value| with(plan, value)))
        .collect()
}

fn or(listed: Option<&Vec<u32>>, all: &[u32]) -> Vec<u32> {
    listed.cloned().unwrap_or(all.to_vec())
}

/// All ways to cut the devices.
fn meshes(job: &Job, space: &Space) -> Vec<Plan> {
    let devices = job.cluster.devices;
    let cuts: Vec<u32> = (1..=devices)
        .filter(|d| devices.is_multiple_of(*d))
        .collect();
    let experts = if job.shape.experts { &cuts[..] } else { &[1] };
    let widths: &[u32] = if job.shape.experts { &[0, 1] } else { &[0] };
    let mut plans = vec![Plan::default()];
    plans = grown(&plans, &or(space.tensor.as_ref(), &cuts), |p, v| {
        p.tensor = v;
    });
    plans = grown(&plans, &or(space.tensor_rows.as_ref(), &[1, 2]), |p, v| {
        p.tensor_rows = v;
    });
    plans = grown(&plans, &or(space.context.as_ref(), &cuts), |p, v| {
        p.context = v;
    });
    plans = grown(&plans, &or(space.pipeline.as_ref(), &cuts), |p, v| {
        p.pipeline = v;
    });
    plans = grown(&plans, &or(space.data.as_ref(), &cuts), |p, v| {
        p.data = v;
    });
    plans.retain(|p| p.devices() == u64::from(devices));
    plans = grown(&plans, &or(space.expert.as_ref(), experts), |p, v| {
        p.expert = v;
    });
    let widths = or(space.expert_tensor.as_ref(), widths);
    grown(&plans, &widths, |p, v| {
        p.expert_tensor = v;
    })
}

/// Every plan that a space allows, legal or not, by nested loops over plain lists.
fn all_plans(job: &Job, space: &Space) -> Vec<Plan> {
    let batch = u32::try_from(job.training.global_batch).unwrap();
    let batches: Vec<u32> = (1..=batch).collect();
    let chunks: Vec<u32> = (1..=u32::try_from(job.shape.layers + 2).unwrap()).collect();
    let zeros = space.zero.clone().unwrap_or(vec![0, 1, 2, 3]);
    let zeros: Vec<u32> = zeros.into_iter().map(u32::from).collect();
    let mut plans = meshes(job, space);
    plans = grown(&plans, &or(space.micro_batch.as_ref(), &batches), |p, v| {
        p.micro_batch = v;
    });
    plans = grown(&plans, &[0, 1], |p, v| {
        p.sequence_parallel = v == 1;
    });
    plans = grown(&plans, &or(space.interleave.as_ref(), &chunks), |p, v| {
        p.interleave = v;
    });
    plans = grown(&plans, &or(space.zero_group.as_ref(), &[0]), |p, v| {
        p.zero_group = v;
    });
    plans = grown(&plans, &zeros, |p, v| {
        p.zero = u8::try_from(v).unwrap();
    });
    let none = [0];
    plans = grown(&plans, &or(space.first_layers.as_ref(), &none), |p, v| {
        p.first_layers = v;
    });
    let orders = listed_orders(space);
    plans = orders
        .iter()
        .flat_map(|&axis_order| {
            plans.iter().map(move |plan| Plan {
                axis_order,
                ..plan.clone()
            })
        })
        .collect();
    plans.retain(|plan| {
        let canonical = |axis_order: AxisOrder| {
            let plan = Plan {
                axis_order,
                ..plan.clone()
            };
            plan.canonical_axis_order()
        };
        let first = orders
            .iter()
            .find(|&&order| canonical(order) == canonical(plan.axis_order));
        first == Some(&plan.axis_order)
    });
    let mut all: Vec<Plan> = plans
        .iter()
        .flat_map(|plan| scheduled(plan, space))
        .collect();
    all.retain(|plan| stands_alone(job, plan, space));
    all
}

fn listed_orders(space: &Space) -> Vec<AxisOrder> {
    space
        .axis_order
        .clone()
        .unwrap_or(vec![AxisOrder::default()])
}

/// A plan under every schedule, recomputation and overlap.
fn scheduled(plan: &Plan, space: &Space) -> Vec<Plan> {
    use Schedule::{GPipe, Interleaved, OneForwardOneBackward};
    use scalewright::plan::RecomputePolicy::{Full, None, Selective};
    let schedules = space.schedule.clone();
    let policies = space
        .recompute
        .clone()
        .unwrap_or(vec![None, Selective, Full]);
    let gathers = space.overlap_param_gather.clone().unwrap_or(vec![true]);
    let mut all = Vec::new();
    for schedule in schedules.unwrap_or(vec![GPipe, OneForwardOneBackward, Interleaved]) {
        for &recompute in &policies {
            let some = [0, 1, 2, 3, 4, 5, 6, 7, 8];
            let mut layers = match &space.recompute_layers {
                Option::Some(listed) => [&[0], &listed[..]].concat(),
                Option::None if recompute == Full => some.to_vec(),
                Option::None => vec![0],
            };
            layers.dedup();
            for recompute_layers in layers {
                for &overlap_param_gather in &gathers {
                    all.push(Plan {
                        schedule,
                        recompute,
                        recompute_layers,
                        overlap_param_gather,
                        overlap_pipeline: schedule == Interleaved,
                        ..plan.clone()
                    });
                }
            }
        }
    }
    all
}

/// Layers of the longest virtual stage.
fn longest(job: &Job, plan: &Plan) -> u64 {
    let (pipeline, chunks) = (u64::from(plan.pipeline), u64::from(plan.interleave));
    Split::new(job.shape.layers, pipeline, chunks).map_or(0, |s| s.first.max(s.middle).max(s.last))
}

/// False for plans that are the same as another, of which the search walks one.
fn stands_alone(job: &Job, plan: &Plan, space: &Space) -> bool {
    let mesh = Mesh::new(plan);
    let alone = mesh.replicas.size == 1 && mesh.expert_replicas.size == 1;
    let width = plan.tensor > 1 || plan.expert_tensor == 0;
    let plain = plan.schedule == Schedule::OneForwardOneBackward;
    let layers = u64::from(plan.recompute_layers);
    let none = plan.recompute == scalewright::plan::RecomputePolicy::None;
    let listed = space.recompute_layers.as_ref();
    // as many layers as the longest stage has, and none that compute again, are all layers
    let all = |few: &u32| none || *few == 0 || u64::from(*few) >= longest(job, plan);
    let whole = layers == 0 && listed.is_none_or(|listed| listed.iter().any(all));
    let some = whole || layers > 0 && layers < longest(job, plan) && !none;
    let grid = plan.tensor_rows == 1 || plan.tensor >= 16 || space.tensor_rows.is_some();
    some && width
        && grid
        && (plan.pipeline > 1 || space.schedule.is_some() || plain)
        && (!alone || space.zero.is_some() || plan.zero == 0)
}

/// Legal plans that fit, with their price.
fn brute_force(job: &Job, space: &Space) -> Vec<(Plan, PlanCost)> {
    let capacity = job.capacity().value();
    all_plans(job, space)
        .into_iter()
        .filter_map(|plan| price(job, &plan).ok().map(|composed| (plan, composed)))
        .filter(|(_, composed)| composed.memory <= capacity)
        .collect()
}

fn found(job: &Job, space: &Space, limits: &Limits) -> SearchOutcome {
    search(job, space, limits, &Control::new()).unwrap()
}

/// The number of an algorithm in a column of `estimate_many`.
fn numbered(collectives: ReplicaReduction) -> i64 {
    let mut named = (0..).zip(ReplicaReduction::named());
    named.find(|(_, named)| *named == collectives).unwrap().0
}

/// The row of `estimate_many` that stands for a plan.
fn row(plan: &Plan) -> Vec<i64> {
    let flag = i64::from;
    vec![
        plan.tensor.into(),
        plan.tensor_rows.into(),
        plan.context.into(),
        plan.pipeline.into(),
        plan.data.into(),
        plan.expert.into(),
        plan.expert_tensor.into(),
        plan.micro_batch.into(),
        plan.interleave.into(),
        plan.schedule as i64,
        i64::try_from(plan.token_slices.count()).unwrap(),
        plan.zero.into(),
        plan.zero_group.into(),
        plan.recompute as i64,
        plan.recompute_layers.into(),
        plan.recompute_rest as i64,
        plan.recompute_experts as i64,
        flag(plan.sequence_parallel),
        flag(plan.overlap_grad_reduce),
        flag(plan.overlap_param_gather),
        flag(plan.overlap_tensor),
        flag(plan.overlap_pipeline),
        plan.tensor_chunks.into(),
        flag(plan.overlap_expert),
        flag(plan.offload_optimizer),
        plan.offload_activations.into(),
        plan.axis_order as i64,
        plan.first_layers.into(),
        plan.last_layers.into(),
        flag(plan.bare_last),
        numbered(plan.collectives),
    ]
}

/// Points that no other beats in both coordinates, by rising time.
fn non_dominated(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let beats = |a: &(f64, f64), b: &(f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    let mut front: Vec<(f64, f64)> = points
        .iter()
        .filter(|p| !points.iter().any(|q| beats(q, p)))
        .copied()
        .collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0));
    front.dedup();
    front
}

fn small_jobs() -> impl Strategy<Value = Job> {
    let models = prop::sample::select(vec![
        jobs::gpt(4, 1024),
        jobs::llama(7, 4096, 2),
        jobs::mixture(4, 1024),
        jobs::latent(6, 4096),
        jobs::hybrid(6, 1024),
    ]);
    // memory that some plans fill
    let gigabytes = prop::sample::select(vec![3.0, 8.0, 30.0]);
    (
        models,
        prop::sample::select(vec![1_u32, 2, 4, 8, 16, 24]), // of 24, groups of three lie across nodes
        gigabytes,
        prop::sample::select(vec![4_u64, 12]),
    )
        .prop_map(|(text, devices, gigabytes, batch)| {
            let mut cluster = worlds::nodes_of_eight(devices);
            let tier = cluster.device.tiers.last_mut().unwrap();
            tier.capacity = scalewright::units::Bytes::new(gigabytes * 1e9);
            cluster.system.price.rent_per_device_hour = Some(Dollars::new(2.0));
            jobs::job(&text, &cluster, &jobs::training(batch, 2048, ""))
        })
}

fn spaces() -> impl Strategy<Value = Space> {
    let list = |choices: &[&str]| {
        let choices: Vec<String> = choices.iter().map(|&c| c.to_owned()).collect();
        prop::sample::select(choices)
    };
    (
        list(&["", r#""tensor": [1, 4], "#, r#""tensor": [2, 4, 8], "tensor_rows": [4, 1, 2], "#]),
        list(&["", r#""context": [1], "#, r#""context": [2, 1], "#]),
        list(&["", r#""pipeline": [1, 2], "#, r#""data": [1, 2, 4], "#]),
        list(&[
            "",
            r#""zero": [0, 3], "#,
            r#""zero": [1], "zero_group": [0, 2], "#,
        ]),
        list(&["", r#""schedule": ["1f1b"], "#, r#""interleave": [1, 2], "#]),
        list(&[
            "",
            r#""overlap_param_gather": [true, false], "#,
            r#""recompute": ["full"], "#,
            r#""recompute_layers": [0, 2], "#,
            r#""recompute_layers": [3], "#,
            r#""first_layers": [0, 1], "recompute_layers": [0], "#,
            r#""axis_order": ["tensor-context-data-pipeline", "tensor-pipeline-context-data", "pipeline-tensor-context-data"], "recompute": ["none"], "#,
        ]),
    )
        .prop_map(|(a, b, c, d, e, f)| {
            let text = format!(r#"{{{a}{b}{c}{d}{e}{f}"micro_batch": [1, 2, 4]}}"#);
            Space::from_json(&text).unwrap()
        })
}

/// A search in device memory alone.
fn never() -> Limits {
    Limits {
        offload: OffloadWhen::Never,
        ..Limits::default()
    }
}

/// What a plan measures, by way of its full estimate.
fn measure(job: &Job, plan: &Plan, composed: &PlanCost, objective: Objective) -> f64 {
    match objective {
        Objective::Time => composed.time,
        Objective::Memory => composed.memory,
        Objective::Energy => priced(job, plan).energy_j_per_step,
        Objective::Dollars => priced(job, plan).cost_usd_per_step.unwrap(),
        Objective::Devices => f64::from(job.cluster.devices),
    }
}

fn fronts() -> impl Strategy<Value = Vec<Objective>> {
    use Objective::{Devices, Dollars, Energy, Memory, Time};
    prop::sample::select(vec![
        vec![Time],
        vec![Energy, Memory],
        vec![Time, Memory, Energy],
        vec![Dollars, Time],
        vec![Memory, Devices, Dollars, Energy, Time],
    ])
}

fn objectives() -> impl Strategy<Value = Objective> {
    prop::sample::select(vec![
        Objective::Time,
        Objective::Memory,
        Objective::Energy,
        Objective::Dollars,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn search_is_brute_force(job in small_jobs(), space in spaces(), objective in objectives(), top in 1..30_usize) {
        let all = brute_force(&job, &space);
        let mut keys: Vec<f64> = all.iter().map(|(p, c)| measure(&job, p, c, objective)).collect();
        keys.sort_by(f64::total_cmp);
        let points: Vec<(f64, f64)> = all.iter().map(|(_, c)| (c.time, c.memory)).collect();
        for method in [Method::Bounds, Method::Exhaustive] {
            let outcome = found(&job, &space, &Limits { top, objective, method, ..never() });
            let best: Vec<f64> = outcome.best.iter().map(|f| measure(&job, &f.plan, &f.composed, objective)).collect();
            prop_assert_eq!(best, keys.iter().copied().take(top).collect::<Vec<_>>());
            let front: Vec<(f64, f64)> = outcome.front.iter().map(|f| (f.composed.time, f.composed.memory)).collect();
            prop_assert_eq!(front, non_dominated(&points));
            if method == Method::Exhaustive {
                prop_assert_eq!(outcome.counts.priced + outcome.counts.by_form, all.len() as u64);
            }
        }
    }

    #[test]
    fn fronts_of_any_measures_are_brute_force(job in small_jobs(), space in spaces(), axes in fronts()) {
        let all = brute_force(&job, &space);
        let at = |plan: &Plan, composed: &PlanCost| -> Vec<f64> {
            axes.iter().map(|&axis| measure(&job, plan, composed, axis)).collect()
        };
        let mut points: Vec<Vec<f64>> = all.iter().map(|(p, c)| at(p, c)).collect();
        points.sort_by(|a, b| a.partial_cmp(b).unwrap());
        points.dedup();
        let beats = |a: &Vec<f64>, b: &Vec<f64>| a != b && a.iter().zip(b).all(|(a, b)| a <= b);
        let kept: Vec<_> = points.iter().filter(|p| !points.iter().any(|q| beats(q, p))).cloned().collect();
        let outcome = found(&job, &space, &Limits { front: axes.clone(), ..never() });
        let front: Vec<Vec<f64>> = outcome.front.iter().map(|f| at(&f.plan, &f.composed)).collect();
        prop_assert_eq!(front, kept);
    }

    #[test]
    fn best_plans_that_differ_are_the_best_of_each_value(job in small_jobs(), space in spaces(), field in 0..13_usize, top in 1..6_usize) {
        let all = brute_force(&job, &space);
        let mut least = std::collections::BTreeMap::new();
        for (plan, composed) in &all {
            let held = least.entry(column(plan, field)).or_insert(f64::INFINITY);
            *held = held.min(composed.time);
        }
        let mut least: Vec<f64> = least.into_values().collect();
        least.sort_by(f64::total_cmp);
        least.truncate(top);
        let distinct = Some(COLUMNS[field].to_owned());
        let outcome = found(&job, &space, &Limits { top, distinct, ..never() });
        let best: Vec<f64> = outcome.best.iter().map(|f| f.composed.time).collect();
        prop_assert_eq!(best, least);
    }

    #[test]
    fn plans_ahead_are_counted_whatever_is_excluded(job in small_jobs(), space in spaces(), rank in 0..1000_usize) {
        let mut times: Vec<f64> = brute_force(&job, &space).iter().map(|(_, c)| c.time).collect();
        times.sort_by(f64::total_cmp);
        if let Some(&time) = times.get(rank * times.len() / 1000) {
            let outcome = found(&job, &space, &Limits { ahead_of_s: Some(time), ..never() });
            prop_assert_eq!(outcome.counts.ahead, times.iter().filter(|t| **t < time).count() as u64);
        }
    }

    #[test]
    fn parts_in_any_order_are_one_search(job in small_jobs(), space in spaces(), objective in objectives(), cuts in prop::collection::vec(0..1000_u32, 0..5), helped in any::<bool>(), turn in 0..7_usize) {
        let limits = Limits { top: 7, objective, ..never() };
        let search = Search::new(std::sync::Arc::new(job), space, limits, &Control::new()).unwrap();
        let whole = search.whole(&Control::new()).unwrap();
        let mut cuts: Vec<u32> = cuts.iter().map(|cut| cut * search.units() / 1000).collect();
        cuts.extend([0, search.units()]);
        cuts.sort_unstable();
        let mut parts: Vec<_> = Vec::new();
        for pair in cuts.windows(2).rev() {
            let helper = parts.last().filter(|_| helped);
            let part = search.run([pair[0], pair[1]], helper, &Control::new()).unwrap();
            let text = serde_json::to_string(&part).unwrap();
            parts.push(serde_json::from_str(&text).unwrap());
        }
        let turn = turn % parts.len();
        parts.rotate_left(turn);
        let joined = search.merge(&parts).unwrap();
        prop_assert_eq!(joined.walked(), whole.walked());
        let [joined, whole] = [joined, whole].map(|part| search.outcome(&part, &Control::new()).unwrap());
        prop_assert_eq!(&joined.best, &whole.best);
        prop_assert_eq!(&joined.front, &whole.front);
        prop_assert_eq!(joined.counts.legal(), whole.counts.legal());
    }

    #[test]
    fn no_unit_beats_its_bound(job in small_jobs(), space in spaces(), objective in objectives()) {
        let limits = Limits { top: 1, objective, ..never() };
        let search = Search::new(std::sync::Arc::new(job.clone()), space, limits, &Control::new()).unwrap();
        for unit in 0..search.units() {
            let part = search.run([unit, unit + 1], None, &Control::new()).unwrap();
            let outcome = search.outcome(&part, &Control::new()).unwrap();
            for found in &outcome.best {
                prop_assert!(measure(&job, &found.plan, &found.composed, objective) >= search.bound(unit));
            }
            let rows = search.rows(unit, &Control::new()).unwrap();
            prop_assert_eq!(rows.fields.len(), rows.times.len() * COLUMNS.len());
            let best = outcome.best.first().map(|found| found.composed.time);
            if objective == Objective::Time {
                prop_assert_eq!(best, rows.times.iter().copied().reduce(f64::min));
            }
        }
    }

    #[test]
    fn search_estimate_and_columns_agree_to_the_bit(job in small_jobs(), space in spaces()) {
        let outcome = found(&job, &space, &Limits { top: 20, ..never() });
        let all: Vec<_> = outcome.best.iter().chain(&outcome.front).collect();
        let columns = COLUMNS.map(str::to_owned);
        let rows: Vec<i64> = all.iter().flat_map(|f| row(&f.plan)).collect();
        let many = estimate_many(&job, &columns, &rows, &Control::new()).unwrap();
        for (found, row) in all.iter().zip(&many) {
            let one = price(&job, &found.plan).unwrap();
            prop_assert_eq!(&one, &found.composed);
            let full = priced(&job, &found.plan);
            prop_assert_eq!((full.step_time_s, full.peak_memory_bytes), (one.time, one.memory));
            prop_assert_eq!(*row, PriceRow::Priced { time: one.time, memory: one.memory, fits: true });
        }
    }

    #[test]
    fn threads_change_nothing(job in small_jobs(), space in spaces(), objective in objectives()) {
        let limits = Limits { top: 7, objective, offload: OffloadWhen::Always, ..Limits::default() };
        let texts: Vec<String> = [1, 2, 5].iter().map(|&threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let search = Search::new(std::sync::Arc::new(job.clone()), space.clone(), limits.clone(), &Control::new()).unwrap();
                let part = search.whole(&Control::new()).unwrap();
                let outcome = search.outcome(&part, &Control::new()).unwrap();
                serde_json::to_string(&SearchReport::new(&search, &outcome)).unwrap()
            })
        }).collect();
        prop_assert_eq!(&texts[0], &texts[1]);
        prop_assert_eq!(&texts[0], &texts[2]);
    }

    #[test]
    fn counts_add_up_to_the_legal_plans(job in small_jobs(), space in spaces(), objective in objectives()) {
        let legal = all_plans(&job, &space).iter().filter(|plan| price(&job, plan).is_ok()).count();
        for method in [Method::Bounds, Method::Exhaustive] {
            let outcome = found(&job, &space, &Limits { top: 3, objective, method, ..never() });
            let counts = &outcome.counts;
            prop_assert_eq!(counts.legal(), legal as u64);
            prop_assert!(outcome.best.len() as u64 <= counts.priced);
            if let Some(nearest) = outcome.nearest.filter(|_| outcome.best.is_empty()) {
                let lacking = price(&job, &nearest.plan).unwrap().memory - job.capacity().value();
                prop_assert_eq!(lacking, nearest.lacks_bytes);
            }
        }
    }
}

/// With tensors in other tiers the best plans are those of placing every plan that does not fit.
#[test]
fn search_with_offload_is_brute_force() {
    let training = jobs::training(8, 512, "");
    let mut cluster = worlds::nodes_of_eight(4);
    cluster.system.host = Some(jobs::host());
    let tiny = cluster.device.tiers.len() - 1;
    let mut away = 0;
    for gigabytes in [4.0, 3.0, 2.5, 2.0] {
        cluster.device.tiers[tiny].capacity = Bytes::new(gigabytes * 1e9);
        let job = jobs::job(&jobs::mixture(4, 1024), &cluster, &training);
        let space =
            Space::from_json(r#"{"expert": [1], "zero": [0, 3], "micro_batch": [1, 2]}"#).unwrap();
        let limits = Limits {
            top: 5,
            offload: OffloadWhen::Always,
            ..Limits::default()
        };
        let outcome = found(&job, &space, &limits);
        let mut times: Vec<f64> = Vec::new();
        for plan in all_plans(&job, &space) {
            let Ok(composed) = price(&job, &plan) else {
                continue;
            };
            if composed.fits(&job) {
                times.push(composed.time);
            } else if let scalewright::estimate::SpillResult::Fits(placed) =
                spilled(&job, &plan, SpillLimits::default(), &Control::new()).unwrap()
            {
                assert!(placed.step_time_s >= composed.time);
                times.push(placed.step_time_s);
            }
        }
        times.sort_by(f64::total_cmp);
        times.truncate(5);
        let best: Vec<f64> = outcome.best.iter().map(|f| f.composed.time).collect();
        assert_eq!(best, times);
        assert!(outcome.offload.placed >= outcome.offload.fit);
        away += outcome
            .best
            .iter()
            .filter(|f| f.offloaded.is_some())
            .count();
    }
    assert!(away > 4, "{away}");
}

#[test]
fn equal_values_are_searched_once() {
    let training = jobs::training(8, 512, "");
    let job = jobs::job(
        &jobs::mixture(4, 1024),
        &worlds::nodes_of_eight(8),
        &training,
    );
    let once =
        Space::from_json(r#"{"tensor": [1, 2], "expert_tensor": [0, 1], "zero": [0]}"#).unwrap();
    let twice =
        Space::from_json(r#"{"tensor": [2, 1, 2], "expert_tensor": [0, 1, 2, 0], "zero": [0, 0]}"#)
            .unwrap();
    let (once, twice) = (
        found(&job, &once, &Limits::default()),
        found(&job, &twice, &Limits::default()),
    );
    assert_eq!(once.counts.legal(), twice.counts.legal());
    let times = |o: &SearchOutcome| o.best.iter().map(|f| f.composed.time).collect::<Vec<_>>();
    assert_eq!(times(&once), times(&twice));
}

#[test]
fn experts_may_lie_on_context_ranks() {
    let training = jobs::training(8, 512, "");
    let job = jobs::job(
        &jobs::mixture(4, 1024),
        &worlds::nodes_of_eight(8),
        &training,
    );
    let space = Space::from_json(r#"{"context": [8], "expert": [8], "zero": [0]}"#).unwrap();
    assert!(!found(&job, &space, &Limits::default()).best.is_empty());
}
