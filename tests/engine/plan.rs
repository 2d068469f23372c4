//! Does lowering conserve weights and arithmetic, and send what the papers say?

#![allow(clippy::unwrap_used)]

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::Collective;
use scalewright::estimate::Job;
use scalewright::operator_cost::Kernel;
use scalewright::plan::{
    BlockProgram, Plan, Purpose, Schedule, Split, Task, check, expert_zero_group, lower,
};
use scalewright::workload::transformer::StateSpace;
use scalewright::workload::{BlockRole, Training};
use worlds::jobs;

/// Programs of all blocks in the model's order.
fn programs(job: &Job, plan: &Plan) -> Vec<BlockProgram> {
    let order = job.graph.order.iter();
    order
        .map(|&block| lower(&job.graph, block, &job.training, plan))
        .collect()
}

fn flops(tasks: &[Task]) -> f64 {
    let device = worlds::a100();
    tasks
        .iter()
        .map(|task| match task {
            Task::Compute { kernel, .. } => kernel.cost(&device).flops.value(),
            Task::Communicate { .. } => 0.0,
            Task::Chunked { kernel, chunks, .. } => {
                f64::from(*chunks) * kernel.cost(&device).flops.value()
            }
        })
        .sum()
}

fn matrix_flops(programs: &[BlockProgram]) -> (f64, f64) {
    let forward = programs.iter().map(|p| flops(&p.forward)).sum();
    let backward = programs.iter().map(|p| flops(&p.backward)).sum();
    (forward, backward)
}

/// Collectives of a purpose: operation, ranks, bytes.
fn wires(tasks: &[Task], wanted: Purpose) -> Vec<(Collective, u32, f64)> {
    tasks
        .iter()
        .filter_map(|task| match task {
            Task::Communicate {
                purpose,
                collective,
                span,
                bytes,
                ..
            } if *purpose == wanted => Some((*collective, span.size, bytes.value())),
            _ => None,
        })
        .collect()
}

fn count(wires: &[(Collective, u32, f64)], wanted: Collective, bytes: f64) -> usize {
    wires
        .iter()
        .filter(|(c, _, b)| *c == wanted && near(*b, bytes))
        .count()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// The program of one layer of a model under a plan.
fn layer(text: &str, devices: u32, plan: &Plan) -> BlockProgram {
    let job = jobs::job(
        text,
        &worlds::nodes_of_eight(devices),
        &jobs::training(64, 2048, ""),
    );
    let is_layer = |b: &&usize| job.graph.blocks[**b].role == BlockRole::Layer;
    let last = *job.graph.order.iter().rfind(is_layer).unwrap();
    lower(&job.graph, last, &job.training, plan)
}

fn plain(tensor: u32, sequence_parallel: bool) -> Plan {
    Plan {
        tensor,
        micro_batch: 4,
        sequence_parallel,
        ..Plan::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn weights_are_conserved((job, plan) in jobs::planned()) {
        let held = programs(&job, &plan);
        let full: f64 = held.iter().map(|p| p.weights.full).sum();
        let parameters = job.model.parameters();
        prop_assert!(near(full, (parameters.padded_total - parameters.extra) as f64));
        let expert_ranks = f64::from(plan.expert * plan.expert_tensor_ranks());
        for program in &held {
            let w = program.weights;
            let all = (w.dense + w.frozen) * f64::from(plan.tensor) + w.expert * expert_ranks;
            prop_assert!(near(all, w.full + w.excess), "{all} is not {} + {}", w.full, w.excess);
            prop_assert!(w.excess >= -1e-6 * w.full);
            // replicas are at most one more copy per further tensor rank of what is not in experts
            let dense = w.full - w.expert * expert_ranks;
            prop_assert!(w.excess <= dense * f64::from(plan.tensor - 1) * (1.0 + 1e-9) + 1e-6);
        }
    }

    #[test]
    fn arithmetic_is_conserved((job, plan) in jobs::planned()) {
        let alone = Plan { micro_batch: plan.micro_batch, ..Plan::default() };
        let (forward, backward) = matrix_flops(&programs(&job, &alone));
        let (cut_forward, cut_backward) = matrix_flops(&programs(&job, &plan));
        let ranks = f64::from(plan.tensor * plan.context);
        let vocab = job.model.padded_vocab.unwrap_or(job.model.vocab);
        let even = u64::from(plan.tensor) <= job.model.kv_heads.unwrap_or(job.model.heads)
            && vocab.is_multiple_of(u64::from(plan.tensor));
        // latent projections are not cut along columns: only sequence parallelism divides them
        let latent = job.model.experts.as_ref().is_some_and(|m| m.latent_width.is_some());
        let whole = (job.model.latent.is_some() || latent) && plan.tensor > 1;
        // context ranks beyond the groups of a scan hold one each
        let repeated = |s: &StateSpace| s.groups < u64::from(plan.tensor * plan.context);
        let repeated = job.model.state_space.as_ref().is_some_and(repeated);
        if even && !whole && !repeated {
            prop_assert!(near(cut_forward * ranks, forward));
            prop_assert!(near(cut_backward * ranks, backward));
        } else {
            prop_assert!(cut_forward * ranks >= forward * (1.0 - 1e-9));
            prop_assert!(cut_backward * ranks >= backward * (1.0 - 1e-9));
            prop_assert!(cut_forward <= forward / f64::from(plan.context) * (1.0 + 1e-9));
            prop_assert!(cut_backward <= backward / f64::from(plan.context) * (1.0 + 1e-9));
        }
    }

    #[test]
    fn backward_is_twice_forward((job, plan) in jobs::planned()) {
        // a fused kernel computes its scores again, a scan its states
        prop_assume!(job.model.state_space.is_none());
        let training = Training { flash_attention: false, ..job.training };
        let job = Job::new(&job.model, &job.cluster, &training, 0.0).unwrap();
        let (forward, backward) = matrix_flops(&programs(&job, &plan));
        prop_assert!(near(backward, 2.0 * forward), "{backward} is not twice {forward}");
    }

    #[test]
    fn recomputation_never_keeps_more((job, plan) in jobs::planned()) {
        for program in programs(&job, &plan) {
            let a = program.activations;
            prop_assert!(a.kept_selective <= a.kept);
        }
    }

    #[test]
    fn layers_deal_out_whole(layers in 1..200_u64, pipeline in 1..100_u64, chunks in 1..4_u64) {
        let stages = pipeline * chunks;
        match Split::new(layers, pipeline, chunks) {
            Some(split) if stages == 1 => prop_assert_eq!(split.first, layers),
            Some(split) => {
                prop_assert_eq!(split.first + split.middle * (stages - 2) + split.last, layers);
                prop_assert!(split.first > 0 || chunks > 1);
                prop_assert!(split.first >= split.last && split.middle >= split.first);
                prop_assert!(chunks == 1 || split.middle - split.last <= 1);
            }
            None => prop_assert!((0..3).all(|less| !(layers + less).is_multiple_of(stages)) || layers < stages),
        }
    }

    /// Ends that are given hold so many layers, the others all as many, and a refusal means that no
    /// such split exists; the sums that it advises exist.
    #[test]
    fn given_ends_hold_their_layers(
        layers in 1..60_u64,
        (pipeline, interleave) in (1..9_u32, 1..4_u32),
        ends in prop::array::uniform2(0..12_u32),
    ) {
        prop_assume!(ends != [0, 0]);
        let schedule = if interleave > 1 { Schedule::Interleaved } else { Schedule::GPipe };
        let plan = |ends: [u32; 2]| Plan {
            pipeline, interleave, schedule, first_layers: ends[0], last_layers: ends[1],
            ..Plan::default()
        };
        let stages = u64::from(pipeline * interleave);
        let held = |end: u32, each: u64| if end > 0 { u64::from(end) } else { each };
        let fits = |each: u64| {
            let inner = stages.saturating_sub(2) * each;
            stages > 1 && held(ends[0], each) + inner + held(ends[1], each) == layers
        };
        match Split::of(&plan(ends), layers) {
            Ok(split) => {
                prop_assert!(fits(split.middle));
                prop_assert_eq!(split.first, held(ends[0], split.middle));
                prop_assert_eq!(split.last, held(ends[1], split.middle));
                prop_assert!(split.middle > 0);
            }
            Err(rule) => {
                prop_assert!(!(1..=layers).any(fits), "{rule}");
                let said = rule.to_string();
                let Some((_, sums)) = said.split_once("nearest sums of the ends ") else {
                    return Ok(());
                };
                for sum in sums.split(", ").map(|sum| sum.parse::<u32>().unwrap()) {
                    let first = if ends[1] == 0 { sum } else { sum.min(1) };
                    let last = sum - first;
                    let advised = if ends[0] == 0 { [0, sum] } else { [first, last] };
                    prop_assert!(Split::of(&plan(advised), layers).is_ok(), "{said}: {advised:?}");
                }
            }
        }
    }

    /// A bare last virtual stage holds no layer, and the others share all of them by the same rule.
    #[test]
    fn bare_ends_leave_all_layers_to_the_others(
        layers in 1..60_u64,
        (pipeline, interleave) in (1..9_u32, 1..4_u32),
        ends in prop::array::uniform2(0..6_u32),
    ) {
        let schedule = if interleave > 1 { Schedule::Interleaved } else { Schedule::GPipe };
        let [first_layers, last_layers] = ends;
        let plan = Plan {
            pipeline, interleave, schedule, first_layers, last_layers, bare_last: true,
            ..Plan::default()
        };
        let stages = u64::from(pipeline * interleave);
        let first = |each: u64| if first_layers > 0 { u64::from(first_layers) } else { each };
        let fits = |each: u64| stages > 1 && first(each) + (stages - 2) * each == layers;
        match Split::of(&plan, layers) {
            Ok(split) => {
                prop_assert_eq!((last_layers, split.last), (0, 0));
                prop_assert!(fits(split.middle));
                prop_assert_eq!(split.first, first(split.middle));
            }
            Err(rule) => {
                prop_assert!(last_layers > 0 || !(1..=layers).any(fits), "{rule}");
                prop_assert!(rule.to_string().contains("bare_last = true"), "{rule}");
            }
        }
    }

    #[test]
    fn any_plan_gets_a_verdict(fields in prop::array::uniform9(any::<u32>()), exponents in prop::array::uniform4(0..25_u32)) {
        let job = jobs::job(&jobs::mixture(8, 256), &worlds::nodes_of_eight(64), &jobs::training(64, 512, ""));
        let wild = Plan {
            tensor: fields[0], context: fields[1], pipeline: fields[2], data: fields[3],
            expert: fields[4], expert_tensor: fields[5], micro_batch: fields[6],
            interleave: fields[7], zero_group: fields[8], ..Plan::default()
        };
        prop_assert!(check(&wild, &job.shape, &job.training, 64).is_err());
        let [tensor, context, pipeline, data] = exponents.map(|e| 1_u32 << e);
        let plan = Plan { tensor, context, pipeline, data, ..Plan::default() };
        let product = exponents.iter().sum::<u32>();
        if product != 6 {
            prop_assert!(check(&plan, &job.shape, &job.training, 64).is_err());
        }
    }
}

#[test]
fn copies_of_few_key_heads_are_counted() {
    let (hidden, tokens) = (1024.0, 4.0 * 2048.0);
    let one = flops(&layer(&jobs::llama(4, 1024, 2), 8, &plain(1, false)).forward);
    let cut = flops(&layer(&jobs::llama(4, 1024, 2), 8, &plain(8, false)).forward);
    // two key and two value heads of 64 become eight each
    let again = 2.0 * tokens * hidden * 2.0 * (8.0 - 2.0) * 64.0;
    assert!(near(8.0 * cut, one + again), "{cut} x 8, {one} + {again}");
    let weights = layer(&jobs::llama(4, 1024, 2), 8, &plain(8, false)).weights;
    let norms = 2.0 * hidden * 7.0;
    assert!(near(weights.excess, hidden * 2.0 * 6.0 * 64.0 + norms));
}

#[test]
fn gpt_layer_weights_follow_megatron() {
    let hidden = 1024.0;
    for tensor in [1, 2, 4, 8, 16] {
        let weights = layer(&jobs::gpt(4, 1024), 16, &plain(tensor, false)).weights;
        let cut = (12.0 * hidden * hidden + 7.0 * hidden) / f64::from(tensor);
        assert!(near(weights.dense, cut + 6.0 * hidden), "{weights:?}");
        assert!(near(weights.full, 12.0 * hidden * hidden + 13.0 * hidden));
        assert!(near(
            weights.excess + 1.0,
            6.0 * hidden * f64::from(tensor - 1) + 1.0
        ));
    }
}

#[test]
fn a_padded_vocabulary_shows_as_excess() {
    let text = jobs::llama(4, 1024, 16).replace("32000", "32003");
    let training = jobs::training(
        8,
        512,
        r#","software":{"vocabulary": {"vocabulary_multiple": 1}}"#,
    );
    let job = jobs::job(&text, &worlds::nodes_of_eight(8), &training);
    let weights = lower(&job.graph, 0, &job.training, &plain(8, false)).weights;
    assert!(near(weights.excess, (32_008.0 - 32_003.0) * 1024.0));
}

#[test]
fn rows_of_a_vocabulary_are_rounded_up_unless_the_model_says_them() {
    // `make_vocab_size_divisible_by` of Megatron-LM, 128 unless told
    let rows = |vocab: &str, software: &str| {
        let text = jobs::llama(4, 1024, 16).replace("32000", vocab);
        let training = jobs::training(8, 512, software);
        let job = jobs::job(&text, &worlds::nodes_of_eight(8), &training);
        job.model.table_rows()
    };
    assert_eq!(rows("32003", ""), 32_128);
    assert_eq!(rows("32000", ""), 32_000);
    assert_eq!(rows(r#"32003,"padded_vocab":32010"#, ""), 32_010);
    assert_eq!(
        rows(
            "50257",
            r#","software":{"vocabulary": {"vocabulary_multiple": 1}}"#
        ),
        50_257
    );
    assert_eq!(
        rows(
            "50257",
            r#","software":{"vocabulary": {"vocabulary_multiple": 8}}"#
        ),
        50_264
    );
}

#[test]
fn tensor_ranks_sum_twice_a_pass() {
    // Shoeybi et al. 2019, section 3: all-reduces of batch x sequence x hidden, two each way
    let program = layer(&jobs::gpt(4, 1024), 8, &plain(8, false));
    let bytes = 4.0 * 2048.0 * 1024.0 * 2.0;
    for tasks in [&program.forward, &program.backward] {
        let sent = wires(tasks, Purpose::Tensor);
        assert_eq!(sent.len(), 2, "{sent:?}");
        assert_eq!(count(&sent, Collective::AllReduce, bytes), 2);
        assert!(sent.iter().all(|(_, size, _)| *size == 8));
    }
}

#[test]
fn sequence_parallelism_sends_as_much_forward() {
    // Korthikanti et al. 2022, section 4.2.2: two gathers and two scatters in place of two sums;
    // backward gathers the kept inputs once more for the weight gradients
    let program = layer(&jobs::gpt(4, 1024), 8, &plain(8, true));
    let bytes = 4.0 * 2048.0 * 1024.0 * 2.0;
    let forward = wires(&program.forward, Purpose::Tensor);
    assert_eq!(count(&forward, Collective::AllGather, bytes), 2);
    assert_eq!(count(&forward, Collective::ReduceScatter, bytes), 2);
    assert_eq!(forward.len(), 4);
    let backward = wires(&program.backward, Purpose::Tensor);
    assert_eq!(count(&backward, Collective::AllGather, bytes), 4);
    assert_eq!(count(&backward, Collective::ReduceScatter, bytes), 2);
    assert_eq!(backward.len(), 6);
}

#[test]
fn context_parallelism_brings_all_keys_past() {
    let plan = Plan {
        context: 4,
        micro_batch: 4,
        ..Plan::default()
    };
    let program = layer(&jobs::llama(4, 1024, 2), 4, &plan);
    // keys and values of two heads of 64
    let bytes = 4.0 * 2048.0 * 2.0 * 2.0 * 64.0 * 2.0;
    let forward = wires(&program.forward, Purpose::Context);
    assert_eq!(count(&forward, Collective::AllGather, bytes), 1);
    assert_eq!(forward.len(), 1);
    // gradients of keys and values go round with them (Liu et al. 2023, section 3)
    let backward = wires(&program.backward, Purpose::Context);
    assert_eq!(count(&backward, Collective::AllGather, 2.0 * bytes), 1);
    assert_eq!(backward.len(), 1);
}

/// The parts of a ring are kernels of their own, whose last blocks see 1.5 times as many keys in all as a query does on
/// average; one kernel under a causal mask has blocks that see twice as many.
#[test]
fn parts_of_a_ring_end_sooner_than_one_kernel() {
    for (context, times) in [(1, 2.0), (4, 1.5)] {
        let plan = Plan {
            context,
            ..Plan::default()
        };
        let program = layer(&jobs::llama(4, 1024, 2), context, &plan);
        let longest = program.forward.iter().find_map(|task| match task {
            Task::Compute {
                kernel:
                    Kernel::Attention {
                        longest, visible, ..
                    },
                ..
            } => Some(longest / visible),
            _ => None,
        });
        let off = longest.map_or(1.0, |found| found / times - 1.0);
        assert!(off.abs() < 1e-3, "{context} {longest:?}");
    }
}

#[test]
fn experts_swap_tokens_twice_a_pass() {
    // each token goes to its two experts and comes back: tokens x top_k x hidden
    for (tensor, data) in [(1, 8), (4, 2)] {
        let plan = Plan {
            expert: 4,
            expert_tensor: 1,
            data,
            ..plain(tensor, tensor > 1)
        };
        let program = layer(&jobs::mixture(4, 1024), 8, &plan);
        let bytes = 4.0 * 2048.0 / f64::from(tensor) * 2.0 * 1024.0 * 2.0;
        for tasks in [&program.forward, &program.backward] {
            let sent = wires(tasks, Purpose::Expert);
            assert_eq!(count(&sent, Collective::AllToAll, bytes), 2, "{sent:?}");
            assert_eq!(sent.len(), 2);
        }
    }
}

#[test]
fn nothing_is_sent_alone() {
    for text in [
        jobs::gpt(4, 1024),
        jobs::mixture(4, 1024),
        jobs::latent(4, 1024),
    ] {
        let program = layer(&text, 1, &plain(1, false));
        let all = program.forward.iter().chain(&program.backward);
        assert!(
            all.into_iter()
                .all(|t| matches!(t, Task::Compute { kernel, .. } if finite(kernel)))
        );
    }
}

fn finite(kernel: &Kernel) -> bool {
    let cost = kernel.cost(&worlds::a100());
    cost.time.value().is_finite() && cost.time.value() >= 0.0
}

/// A layer's program in a number format on H100s.
fn layer_in(precision: &str, role: BlockRole) -> BlockProgram {
    let mut cluster = worlds::nodes_of_eight(8);
    cluster.device = worlds::h100();
    cluster.system.device.clone_from(&cluster.device.name);
    let more = format!(r#", "precision": "{precision}""#);
    let training = jobs::training(64, 2048, &more);
    let job = jobs::job(&jobs::llama(2, 1024, 4), &cluster, &training);
    let wanted = |b: &&usize| job.graph.blocks[**b].role == role;
    let block = *job.graph.order.iter().find(wanted).unwrap();
    let plan = Plan {
        data: 8,
        ..Plan::default()
    };
    lower(&job.graph, block, &job.training, &plan)
}

#[test]
fn low_precision_keeps_operands_as_they_are_multiplied() {
    // h = 1024, key and value width 256, ffn 3 h, 16 heads: bytes a token
    let (h, kv, ffn) = (1024.0, 256.0, 3072.0);
    let wide = 2.0 * (2.0 * h + (h + 2.0 * kv) + 2.0 * ffn) + 4.0 * 16.0;
    let operands = 3.0 * h + ffn;
    let tokens = 2048.0;
    let kept = |precision| {
        layer_in(precision, BlockRole::Layer)
            .activations
            .kept
            .value()
    };
    assert!(near(kept("bf16"), tokens * (wide + 2.0 * operands)));
    // the core's backward pass reads its output in bf16
    assert!(near(kept("fp8"), tokens * (wide + operands + 2.0 * h)));
}

#[test]
fn low_precision_leaves_the_head_wide() {
    let [wide, low] = ["bf16", "fp8"].map(|p| layer_in(p, BlockRole::Head));
    assert_eq!(wide.forward, low.forward);
    assert_eq!(wide.backward, low.backward);
    assert_eq!(wide.activations, low.activations);
    let [wide, low] = ["bf16", "fp8"].map(|p| layer_in(p, BlockRole::Layer));
    assert_ne!(wide.forward, low.forward);
}

#[test]
fn experts_share_state_inside_the_ranks_of_the_zero_group() {
    let plan = |tensor, expert, expert_tensor, zero_group| Plan {
        tensor,
        expert,
        expert_tensor,
        zero_group,
        data: 64,
        ..Plan::default()
    };
    // all replicas where the group is not said
    assert_eq!(expert_zero_group(&plan(1, 8, 0, 0)), 0);
    // 32 ranks hold each of the experts on 8 ranks four times
    assert_eq!(expert_zero_group(&plan(1, 8, 0, 32)), 4);
    // 16 replicas of 2 tensor ranks: 32 ranks, experts on 8 whole or on 8 x 2
    assert_eq!(expert_zero_group(&plan(2, 8, 1, 16)), 4);
    assert_eq!(expert_zero_group(&plan(2, 8, 2, 16)), 2);
    // a group smaller than the ranks of one copy cuts nothing
    assert_eq!(expert_zero_group(&plan(1, 64, 0, 8)), 1);
}
