//! Is a plan that cuts sequences along their tokens priced as its slices run, and refused where they cannot?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::estimate::timeline::{StepTimeline, simulate};
use scalewright::estimate::{Job, explained, price, slice_times};
use scalewright::plan::{BrokenRule, Plan, Recomputation, RecomputePolicy, Schedule, TokenSlices};
use scalewright::schedule::{self, Borders, Pass, Passes, Pipeline, PipelineShape, Scratch, Size};
use scalewright::schedule::{SlicePasses, sliced_step};
use scalewright::search::{Limits, Method, OffloadWhen, Space, search};
use scalewright::solve::{self, Dependency, QueueDiscipline, Tasks};
use scalewright::units::Seconds;
use worlds::jobs;

/// Slices of a sequence of so many eighths, long and short.
fn slicings() -> impl Strategy<Value = Vec<u32>> {
    prop::sample::select(vec![
        vec![8],
        vec![4, 4],
        vec![2, 2, 2, 2],
        vec![1; 8],
        vec![5, 2, 1],
        vec![1, 3, 4],
        vec![1, 7],
    ])
}

fn of_eighths(job: &Job, eighths: &[u32]) -> TokenSlices {
    let eighth = u32::try_from(job.training.sequence / 8).unwrap();
    TokenSlices::Lengths(eighths.iter().map(|e| e * eighth).collect())
}

fn simulated(job: &Job, plan: &Plan) -> StepTimeline {
    simulate(job, plan, &Control::new()).unwrap().unwrap()
}

/// End of the last task that belongs to a pass.
fn end_of_passes(line: &StepTimeline) -> f64 {
    let passes = (0..line.end.len()).filter(|&task| line.micro_batch[task] >= 0);
    passes.map(|task| line.end[task]).fold(0.0, f64::max)
}

/// A plan of whole sequences that may be cut.
fn cuttable((job, plan): (Job, Plan)) -> (Job, Plan) {
    let replicas = plan.data * plan.context;
    let plan = Plan {
        schedule: Schedule::GPipe,
        interleave: 1,
        overlap_pipeline: false,
        data: replicas,
        context: 1,
        zero_group: 0,
        ..plan
    };
    (job, plan)
}

fn causal(job: &Job) -> bool {
    let operators = job.graph.blocks.iter().flat_map(|block| &block.operators);
    let mut scans =
        operators.filter(|o| o.class == scalewright::workload::OperatorClass::StateSpace);
    scans.next().is_none()
}

fn seconds() -> impl Strategy<Value = [f64; 3]> {
    prop::array::uniform3(0.0..4.0_f64)
}

fn any_slice() -> impl Strategy<Value = SlicePasses> {
    let hops = prop::array::uniform2(0.0..2.0_f64);
    let shares = prop::sample::select(vec![
        ([1.0, 1.0], 0.0),
        ([0.0, 0.0], 1.0),
        ([0.1, 0.2], 1.0),
    ]);
    (seconds(), seconds(), hops, shares).prop_map(|(forward, backward, hops, (held, apart))| {
        let borders = Borders::new(held, apart)
            .with_hop(1, hops[0])
            .with_hop(2, hops[1]);
        SlicePasses {
            forward,
            backward,
            borders,
        }
    })
}

/// The step as tasks on the stages' engines: nothing of the recurrence.
fn by_events(slices: &[SlicePasses], held: [f64; 2], apart: f64, stages: u32, count: u32) -> f64 {
    let mut tasks = Tasks::new();
    let engines: Vec<u32> = (0..stages)
        .map(|_| tasks.engine(QueueDiscipline::Added))
        .collect();
    let kind = |stage: u32| match stage {
        0 => 0,
        s if s + 1 == stages => 2,
        _ => 1,
    };
    let mut last_forward = None;
    for _ in 0..count {
        for slice in slices {
            let mut before: Option<(u32, f64)> = None;
            for stage in 0..stages {
                let sends = stage + 1 < stages;
                let hop = if sends { slice.borders.at(stage) } else { 0.0 };
                let inputs: Vec<Dependency> = before
                    .iter()
                    .map(|&(task, delay)| Dependency { task, delay })
                    .collect();
                let long = slice.forward[kind(stage)] + held[0] * hop;
                let task = tasks.add(engines[stage as usize], long, &inputs);
                before = Some((task, apart * hop));
                last_forward = Some(task);
            }
        }
    }
    for _ in 0..count {
        for slice in slices.iter().rev() {
            let mut before: Option<(u32, f64)> = last_forward.map(|task| (task, 0.0));
            for stage in (0..stages).rev() {
                let hop = if stage > 0 {
                    slice.borders.at(stage - 1)
                } else {
                    0.0
                };
                let inputs: Vec<Dependency> = before
                    .iter()
                    .map(|&(task, delay)| Dependency { task, delay })
                    .collect();
                let long = slice.backward[kind(stage)] + held[1] * hop;
                let task = tasks.add(engines[stage as usize], long, &inputs);
                before = Some((task, apart * hop));
            }
        }
    }
    solve::simulate(&tasks).unwrap().makespan()
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_global_rejects: 65_536,
        ..ProptestConfig::with_cases(300)
    })]

    /// Also where micro-batches outnumber stages and are carried on along their slope.
    #[test]
    fn events_take_as_long_as_the_recurrence_of_unlike_slices(
        mut slices in vec(any_slice(), 1..6),
        stages in 1..6_u32,
        count in 1..20_u32,
    ) {
        // one software: all slices are sent alike
        let (held, apart) = ([1.0, 0.5], 0.25);
        for slice in &mut slices {
            let hops: Vec<(u32, f64)> = slice.borders.distances().collect();
            slice.borders = hops.iter().fold(Borders::new(held, apart), |b, &(every, s)| b.with_hop(every, s));
        }
        let exact = sliced_step(&slices, stages, count);
        let events = by_events(&slices, held, apart, stages, count);
        prop_assert!((exact - events).abs() <= 1e-9 * events.max(1.0), "{exact} is not {events}");
    }

    /// Where slices differ in length alone, the schedule `terapipe` runs them in the same time.
    #[test]
    fn slices_of_one_shape_are_the_schedule_terapipe(
        (forward, backward) in (0.1..4.0_f64, 0.1..4.0_f64),
        sizes in vec((0.1..3.0_f64, 0.1..3.0_f64), 1..6),
        stages in 1..6_u32,
        count in 1..8_u32,
    ) {
        let slices: Vec<SlicePasses> = sizes
            .iter()
            .map(|(a, c)| SlicePasses {
                forward: [a * forward; 3],
                backward: [c * backward; 3],
                borders: Borders::new([1.0; 2], 0.0),
            })
            .collect();
        let shape = PipelineShape { slices: u32::try_from(sizes.len()).unwrap(), ..PipelineShape::new(stages, 1) };
        let pass = Pass::new(Seconds::new(forward), Seconds::new(backward));
        let passes = vec![pass; stages as usize];
        let sizes = sizes.iter().map(|&(forward, backward)| Size { forward, backward });
        let sizes: Vec<Size> = sizes.cycle().take((shape.slices * count) as usize).collect();
        let pipeline = Pipeline {
            sizes: &sizes,
            ..Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO)
        };
        let run = schedule::replay(Schedule::TeraPipe, &pipeline, count, &mut Scratch::new()).unwrap();
        let exact = sliced_step(&slices, stages, count);
        prop_assert!((exact / run.value() - 1.0).abs() < 1e-9, "{exact} is not {run:?}");
    }

    /// One slice is the whole sequence, to the bit.
    #[test]
    fn one_slice_is_none((job, plan) in jobs::planned()) {
        let whole = price(&job, &plan).unwrap();
        let one = Plan { token_slices: of_eighths(&job, &[8]), ..plan };
        prop_assert_eq!(whole, price(&job, &one).unwrap());
    }

    /// Without replicas nothing is approximated: the slices' kernels, collectives and sends give the same step
    /// whether they are composed or simulated.
    #[test]
    fn the_simulation_of_slices_is_the_estimate(
        (job, plan) in jobs::planned().prop_map(cuttable),
        eighths in slicings(),
        contended in any::<bool>(),
        overlapped in any::<bool>(),
    ) {
        let job = if contended { jobs::contended(job) } else { job };
        let mut plan = Plan {
            tensor: job.cluster.devices / plan.pipeline,
            data: 1,
            token_slices: of_eighths(&job, &eighths),
            ..plan
        };
        plan.recomputing(Recomputation::all(plan.recompute));
        plan.offload_activations = 0;
        if overlapped {
            plan.schedule = Schedule::TeraPipe;
        }
        let legal = price(&job, &plan).is_ok();
        prop_assume!(legal && !job.shape.experts && (!job.graph.tied || plan.pipeline == 1));
        // what stands for unlike stages between the ends takes as long as any of them
        let exact = jobs::alike(&job) || plan.pipeline == 1;
        let line = simulated(&job, &plan);
        let pipeline = price(&job, &plan).unwrap().parts.pipeline;
        let end = end_of_passes(&line);
        let off = end / pipeline - 1.0;
        prop_assert!(off < 1e-9, "{end} is above {pipeline}: {plan:?}");
        prop_assert!(off > -1e-9 || !exact, "{end} is below {pipeline}: {plan:?}");
    }

    /// The passes of a plan's slices are those that `slice_times` gives.
    #[test]
    fn a_device_alone_runs_its_slices_one_after_another(
        (job, plan) in jobs::planned().prop_map(cuttable),
        eighths in slicings(),
    ) {
        prop_assume!(causal(&job) && plan.pipeline == 1 && plan.zero < 2);
        let plan = Plan { offload_activations: 0, offload_optimizer: false, ..plan };
        let cut = cut(&plan, of_eighths(&job, &eighths));
        prop_assume!(price(&job, &cut).is_ok());
        let asked: Vec<[u64; 2]> = cut.token_slices.of(job.training.sequence).collect();
        let times = slice_times(&job, &plan, &asked, &Control::new()).unwrap();
        let one: f64 = times.forward.iter().chain(&times.backward).map(|times| times[0]).sum();
        let micro_batches = plan.micro_batches(job.training.global_batch) as f64;
        let pipeline = price(&job, &cut).unwrap().parts.pipeline;
        prop_assert!((one * micro_batches / pipeline - 1.0).abs() < 1e-9);
    }

    /// All slices of all micro-batches stay until they go back: with a fused attention as much as whole
    /// sequences, but for gradients of keys that wait for earlier slices; where layers are computed again, keys stay too.
    #[test]
    fn slices_keep_what_sequences_keep(
        (job, plan) in jobs::planned().prop_map(cuttable),
        eighths in slicings(),
    ) {
        prop_assume!(causal(&job) && !job.shape.experts && job.training.flash_attention);
        let plan = Plan { tensor_chunks: 1, offload_activations: 0, ..plan };
        let cut = cut(&plan, of_eighths(&job, &eighths));
        prop_assume!(price(&job, &cut).is_ok());
        let kept = |plan: &Plan| -> Vec<f64> {
            jobs::priced(&job, plan).memory.iter().map(|stage| stage.activations_bytes).collect()
        };
        for (cut, whole) in kept(&cut).into_iter().zip(kept(&plan)) {
            if plan.recompute == RecomputePolicy::Full && eighths.len() > 1 {
                prop_assert!(cut >= whole * (1.0 - 1e-9), "{cut} {whole}");
            } else {
                prop_assert!((cut / whole - 1.0).abs() < 1e-9, "{cut} {whole}");
            }
        }
    }
}

/// A space in which four slicings are listed, and all of its plans.
fn listed() -> (Space, Vec<Plan>) {
    let text = r#"{"tensor": [1, 2], "context": [1], "pipeline": [4, 8], "micro_batch": [1, 2], "schedule": ["gpipe", "1f1b"],
        "zero": [0, 1, 3], "recompute": ["none", "full"], "recompute_layers": [0],
        "token_slices": [1, 4, "1024+768+256", 32, 5]}"#;
    let slicings = ["1", "4", r#""1024+768+256""#, "32", "5"];
    let slicings = slicings.map(|text| serde_json::from_str::<TokenSlices>(text).unwrap());
    let mut all = vec![];
    for [tensor, pipeline, data] in [1, 2]
        .into_iter()
        .flat_map(|t| [4, 8].map(|p| [t, p, 8 / (t * p).min(8)]))
    {
        for bits in 0..48_u8 {
            let (recompute, schedule, micro, zero) =
                (bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits / 16);
            all.extend(slicings.iter().map(|token_slices| Plan {
                tensor,
                pipeline,
                data,
                micro_batch: 1 << micro,
                sequence_parallel: bits >> 3 & 1 == 1,
                schedule: [Schedule::GPipe, Schedule::OneForwardOneBackward][usize::from(schedule)],
                zero: [0, 1, 3][usize::from(zero)],
                recompute: [RecomputePolicy::None, RecomputePolicy::Full][usize::from(recompute)],
                token_slices: token_slices.clone(),
                ..Plan::default()
            }));
        }
    }
    (Space::from_json(text).unwrap(), all)
}

/// Slices that a space lists are searched like any other field: to the bit what pricing every plan finds.
#[test]
fn a_search_over_slices_is_brute_force() {
    let (space, all) = listed();
    for (text, batch, gigabytes) in [
        (jobs::gpt(8, 1024), 8, 30.0),
        (jobs::llama(8, 4096, 2), 4, 30.0),
        (jobs::llama(8, 4096, 2), 2, 12.0),
    ] {
        let mut cluster = worlds::nodes_of_eight(8);
        let tier = cluster.device.tiers.last_mut().unwrap();
        tier.capacity = scalewright::units::Bytes::new(gigabytes * 1e9);
        let job = jobs::job(&text, &cluster, &jobs::training(batch, 2048, ""));
        let capacity = job.capacity().value();
        let priced = all
            .iter()
            .filter_map(|plan| Some((plan, price(&job, plan).ok()?)));
        let fitting = priced.filter(|(_, priced)| priced.memory <= capacity);
        let mut times: Vec<f64> = fitting.map(|(_, priced)| priced.time).collect();
        times.sort_by(f64::total_cmp);
        for method in [Method::Bounds, Method::Exhaustive] {
            let limits = Limits {
                top: 40,
                method,
                offload: OffloadWhen::Never,
                ..Limits::default()
            };
            let outcome = search(&job, &space, &limits, &Control::new()).unwrap();
            let found: Vec<f64> = outcome
                .best
                .iter()
                .map(|found| found.composed.time)
                .collect();
            assert!(
                outcome
                    .best
                    .iter()
                    .any(|found| found.plan.token_slices.cuts())
            );
            // one replica is the same under every ZeRO stage, of which a search walks one
            let mut distinct = times.clone();
            distinct.dedup();
            let mut found_distinct = found.clone();
            found_distinct.dedup();
            assert_eq!(found_distinct, distinct[..found_distinct.len()]);
        }
    }
}

/// A job of one long sequence a step on eight stages.
fn long() -> (Job, Plan) {
    let cluster = worlds::nodes_of_eight(8);
    let training = jobs::training(1, 8192, "");
    let job = jobs::job(&jobs::gpt(8, 4096), &cluster, &training);
    let plan = Plan {
        pipeline: 8,
        schedule: Schedule::GPipe,
        ..Plan::default()
    };
    (job, plan)
}

fn cut(plan: &Plan, token_slices: TokenSlices) -> Plan {
    Plan {
        token_slices,
        ..plan.clone()
    }
}

#[test]
fn slices_fill_a_pipeline_that_one_sequence_leaves_idle() {
    let (job, plan) = long();
    let time = |slices| price(&job, &cut(&plan, TokenSlices::Even(slices))).unwrap();
    let (whole, eight, many) = (time(1), time(8), time(4096));
    assert!(eight.time < 0.4 * whole.time, "{eight:?} {whole:?}");
    assert!(eight.parts.bubble < 0.5 * whole.parts.bubble);
    // single tokens are latencies alone
    assert!(many.time > whole.time);
}

/// What later slices read of earlier ones makes a long one behind slower than in front.
#[test]
fn long_slices_belong_in_front() {
    let (job, plan) = long();
    let time = |lengths: &[u32]| {
        let slices = TokenSlices::Lengths(lengths.into());
        price(&job, &cut(&plan, slices)).unwrap().time
    };
    let (front, back) = (
        time(&[3072, 2048, 1536, 1536]),
        time(&[1536, 1536, 2048, 3072]),
    );
    assert!(front < back, "{front} {back}");
}

#[test]
fn an_explanation_counts_the_kernels_of_every_slice() {
    let (job, plan) = long();
    let told = |slices: u32| {
        let found = explained(&job, &cut(&plan, TokenSlices::Even(slices))).unwrap();
        found
            .into_iter()
            .find(|term| term.term == "attention.forward")
            .unwrap()
    };
    assert!(told(4).inputs.len() >= 4 * told(1).inputs.len());
}

/// Fails unless the plan is refused in these words, which name the field.
fn is_refused(job: &Job, plan: &Plan, said: &str) {
    let refused: BrokenRule = price(job, plan).unwrap_err();
    assert!(
        refused.to_string().contains(said),
        "{refused} is not {said}"
    );
    assert!(refused.to_string().contains("token_slices"), "{refused}");
}

#[test]
fn slices_that_are_no_sequence_are_refused_by_name() {
    let (job, plan) = long();
    let range = "allowed: 1 to 4096 slices of 1 or more tokens";
    let uneven = "token_slices = 3 does not divide sequence = 8192; nearest 2, 4";
    for (count, said) in [(0, range), (5000, range), (3, uneven)] {
        is_refused(&job, &cut(&plan, TokenSlices::Even(count)), said);
    }
    let sum = "token_slices add up to 8096 tokens; allowed: sequence = 8192";
    for (lengths, said) in [(&[8192, 0][..], range), (&[], range), (&[4096, 4000], sum)] {
        is_refused(
            &job,
            &cut(&plan, TokenSlices::Lengths(lengths.into())),
            said,
        );
    }
}

#[test]
fn what_slices_cannot_run_with_is_refused_by_name() {
    let (job, plan) = long();
    let four = cut(&plan, TokenSlices::Even(4));
    let lengths = |lengths: &[u32]| cut(&plan, TokenSlices::Lengths(lengths.into()));
    let interleaved = Plan {
        schedule: Schedule::Interleaved,
        pipeline: 4,
        interleave: 2,
        tensor: 2,
        ..four.clone()
    };
    let alternating = Plan {
        schedule: Schedule::OneForwardOneBackward,
        ..four.clone()
    };
    let cut_twice = Plan {
        pipeline: 4,
        context: 2,
        ..four
    };
    let shared = Plan {
        pipeline: 4,
        tensor: 2,
        sequence_parallel: true,
        ..lengths(&[8191, 1])
    };
    let chunked = Plan {
        tensor_chunks: 4,
        ..lengths(&[8190, 2])
    };
    for (plan, said) in [
        (alternating, "schedule = gpipe or terapipe"),
        (interleaved, "schedule = gpipe or terapipe"),
        (cut_twice, "needs context = 1"),
        (shared, "divide by tensor"),
        (chunked, "tensor_chunks"),
    ] {
        is_refused(&job, &plan, said);
    }
}

#[test]
fn jobs_whose_sequences_cannot_be_cut_are_refused_by_name() {
    let four = cut(&long().1, TokenSlices::Even(4));
    let text = jobs::hybrid(8, 1024);
    let hybrid = jobs::job(
        &text,
        &worlds::nodes_of_eight(8),
        &jobs::training(1, 8192, ""),
    );
    let refused = price(&hybrid, &four).unwrap_err().to_string();
    assert!(refused.contains("without state-space scans"), "{refused}");
    let forward = jobs::training(1, 8192, r#", "forward_only": true"#);
    let forward = jobs::job(&jobs::gpt(8, 4096), &worlds::nodes_of_eight(8), &forward);
    let refused = price(&forward, &four).unwrap_err().to_string();
    assert!(refused.contains("needs training"), "{refused}");
}

#[test]
fn slices_are_read_and_written_as_counts_lengths_and_sums() {
    let read = |text: &str| serde_json::from_str::<TokenSlices>(text);
    let listed = TokenSlices::Lengths([776, 640, 632].into());
    for (text, slices, written) in [
        ("4", TokenSlices::Even(4), "4"),
        (r#""4""#, TokenSlices::Even(4), "4"),
        ("[776, 640, 632]", listed.clone(), r#""776+640+632""#),
        (r#""776+640+632""#, listed.clone(), r#""776+640+632""#),
        (r#""[776, 640, 632]""#, listed, r#""776+640+632""#),
        (
            r#""2*3+1""#,
            TokenSlices::Lengths([2, 2, 2, 1].into()),
            r#""2*3+1""#,
        ),
        ("[2048]", TokenSlices::Lengths([2048].into()), r#""2048*1""#),
    ] {
        let found = read(text).unwrap();
        assert_eq!(found, slices);
        assert_eq!(serde_json::to_string(&found).unwrap(), written);
        assert_eq!(read(written).unwrap(), found);
    }
    for wrong in [
        "-1",
        "4.5",
        "true",
        r#""""#,
        r#""4+""#,
        r#""4*""#,
        r#""a""#,
        r#""1*5000""#,
        r#"["a"]"#,
        "5000000000",
    ] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(
            error.contains("token_slices") || error.contains("u32"),
            "{wrong}: {error}"
        );
    }
}
