//! Where do the ranks of each axis lie in each order, and what does that change?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective, Forms};
use scalewright::estimate::{Job, Links, Pricer, price};
use scalewright::hardware::Cluster;
use scalewright::plan::{Axis, AxisOrder, BrokenRule, Mesh, Plan, ReplicaReduction, Span, check};
use scalewright::units::Bytes;
use std::collections::BTreeSet;
use worlds::jobs;

const AXES: [Axis; 4] = [Axis::Tensor, Axis::Context, Axis::Data, Axis::Pipeline];

/// Any ranks of any axes in any order.
fn meshes() -> impl Strategy<Value = Plan> {
    let ranks = prop::array::uniform4(prop::sample::select(vec![1_u32, 1, 2, 3, 4]));
    let order = prop::sample::select(AxisOrder::ALL.to_vec());
    (ranks, order, 0..24_usize, any::<bool>()).prop_map(|(ranks, axis_order, pick, whole)| {
        let [tensor, context, data, pipeline] = ranks;
        let width = if whole { 1 } else { tensor };
        let most = tensor * context * data / width;
        let divisors: Vec<u32> = (1..=most).filter(|d| most % d == 0).collect();
        Plan {
            tensor,
            context,
            data,
            pipeline,
            axis_order,
            expert: divisors[pick % divisors.len()],
            expert_tensor: u32::from(whole),
            ..Plan::default()
        }
    })
}

/// Place of a rank along each axis, counted from the innermost axis out.
fn places(plan: &Plan, rank: u32) -> [u32; 4] {
    let mut places = [0; 4];
    let mut left = rank;
    for axis in plan.axis_order.axes() {
        places[axis as usize] = left % plan.ranks(axis);
        left /= plan.ranks(axis);
    }
    places
}

/// Ranks at the first place of every axis but these.
fn along(plan: &Plan, axes: &[Axis]) -> Vec<u32> {
    let ranks: u32 = AXES.iter().map(|axis| plan.ranks(*axis)).product();
    let others = |axis: &Axis| !axes.contains(axis);
    let alone = |places: [u32; 4]| {
        AXES.iter()
            .filter(|a| others(a))
            .all(|a| places[*a as usize] == 0)
    };
    (0..ranks)
        .filter(|rank| alone(places(plan, *rank)))
        .collect()
}

fn ranks(span: Span) -> Vec<u32> {
    (0..span.size).map(|k| k * span.stride).collect()
}

/// True where ranks in order lie evenly apart.
fn even(ranks: &[u32]) -> bool {
    let mut steps = ranks.windows(2).map(|pair| pair[1] - pair[0]);
    let first = steps.next();
    steps.all(|step| Some(step) == first)
}

/// A job that every plan divides, on all ranks of a plan.
fn mixture(plan: &Plan, cluster: fn(u32) -> Cluster) -> Job {
    let devices = u32::try_from(plan.devices()).unwrap();
    let batch = u64::from(plan.data) * u64::from(plan.pipeline) * 2;
    let text = jobs::mixture(u64::from(plan.pipeline) * 2, 768)
        .replace(
            "\"heads\": 16, \"kv_heads\": 8",
            "\"heads\": 48, \"kv_heads\": 48",
        )
        .replace("\"experts\": 8", "\"experts\": 6912");
    jobs::job(&text, &cluster(devices), &jobs::training(batch, 1152, ""))
}

proptest! {
    #[test]
    fn spans_are_the_ranks_along_their_axes(plan in meshes()) {
        let mesh = Mesh::new(&plan);
        prop_assert_eq!(ranks(mesh.tensor), along(&plan, &[Axis::Tensor]));
        prop_assert_eq!(ranks(mesh.context), along(&plan, &[Axis::Context]));
        prop_assert_eq!(ranks(mesh.replicas), along(&plan, &[Axis::Context, Axis::Data]));
        let stages = along(&plan, &[Axis::Pipeline]);
        prop_assert_eq!(&ranks(mesh.stages), &stages);
        let last = *stages.last().unwrap();
        prop_assert_eq!(*ranks(mesh.ends).last().unwrap(), last);
    }

    /// Ranks of experts fill the ranks of a stage once, in their order from the inside, and a plan is
    /// refused where groups of that order do not lie evenly apart, or apart like one another.
    #[test]
    fn experts_fill_a_stage_or_are_refused(plan in meshes()) {
        let plan = Plan { sequence_parallel: plan.tensor > 1, ..plan };
        let job = mixture(&plan, worlds::nodes_of_eight);
        let verdict = check(&plan, &job.shape, &job.training, job.cluster.devices);
        let mesh = Mesh::new(&plan);
        let whole = plan.expert_tensor_ranks() != plan.tensor;
        let axes = [Axis::Tensor, Axis::Context, Axis::Data];
        let stage = along(&plan, if whole { &axes } else { &axes[1..] });
        let groups: Vec<&[u32]> = stage.chunks(plan.expert as usize).collect();
        let apart: Vec<u32> = groups.iter().map(|group| group[0]).collect();
        let alike = groups.iter().all(|group| {
            group.iter().zip(groups[0]).all(|(rank, first)| rank - group[0] == *first)
        });
        let lies_evenly = even(groups[0]) && even(&apart) && alike;
        prop_assert_eq!(verdict.is_ok(), lies_evenly, "{:?} {:?}", verdict, stage);
        if let Err(rule) = verdict {
            prop_assert!(matches!(rule, BrokenRule::AxisOrder(..)), "{rule}");
            let advised = Plan { expert_tensor: plan.tensor, expert: 1, ..plan };
            prop_assert!(check(&advised, &job.shape, &job.training, job.cluster.devices).is_ok());
        } else {
            let of = |first: u32| ranks(mesh.expert).into_iter().map(move |rank| first + rank);
            let filled: Vec<u32> = ranks(mesh.expert_replicas).into_iter().flat_map(of).collect();
            let distinct: BTreeSet<u32> = filled.iter().copied().collect();
            prop_assert_eq!(distinct.len(), filled.len());
            prop_assert_eq!(distinct.into_iter().collect::<Vec<u32>>(), stage);
        }
    }

    /// Orders that differ only in where axes of one rank stand have one canonical order and one price.
    #[test]
    fn orders_with_one_canonical_order_are_one_plan(
        plan in meshes(),
        other in prop::sample::select(AxisOrder::ALL.to_vec()),
    ) {
        let plan = Plan { sequence_parallel: plan.tensor > 1, ..plan };
        let twin = Plan { axis_order: plan.canonical_axis_order(), ..plan.clone() };
        let job = mixture(&plan, worlds::oversubscribed);
        prop_assert_eq!(twin.canonical_axis_order(), twin.axis_order);
        prop_assert_eq!(price(&job, &plan).ok(), price(&job, &twin).ok());
        let lies = |plan: &Plan| along(plan, &AXES).into_iter().map(|r| places(plan, r)).collect::<Vec<_>>();
        let other = Plan { axis_order: other, ..plan.clone() };
        let one = other.canonical_axis_order() == plan.canonical_axis_order();
        prop_assert_eq!(one, lies(&other) == lies(&plan));
    }

    /// A stage waits for the slowest of the hops between neighbours.
    #[test]
    fn a_hop_crosses_what_the_farthest_neighbours_do(plan in meshes(), on_torus in any::<bool>()) {
        let world = if on_torus { worlds::torus } else { worlds::oversubscribed };
        let cluster = world(u32::try_from(plan.devices()).unwrap());
        let links = Links::new(&plan, 0, &mut Pricer::new(&cluster));
        let units: Vec<u32> = cluster.system.levels.iter().filter_map(|l| l.devices).collect();
        let level = |a: u32, b: u32| units.iter().filter(|&unit| a / unit != b / unit).count();
        let stages = along(&plan, &[Axis::Pipeline]);
        let firsts = along(&plan, &[Axis::Tensor, Axis::Context, Axis::Data]);
        let crossed = firsts.iter().flat_map(|first| {
            stages.windows(2).map(move |pair| level(first + pair[0], first + pair[1]))
        });
        let Some(most) = crossed.max() else {
            return Ok(());
        };
        let bytes = Bytes::new(1e9);
        let found = links.stage.time(bytes).value();
        let apart = |level: usize| level.checked_sub(1).map_or(1, |below| units[below]);
        let alone = |level| {
            let pair = cluster.group(apart(level), 2);
            Forms::new(Collective::SendReceive, &pair, &cluster).time(bytes).value()
        };
        prop_assert!(found >= alone(most) * (1.0 - 1e-12), "{found} {}", alone(most));
        // each border of a pipeline that lines up costs what lies between its own stages, the first one's too
        if !on_torus && AXES.iter().all(|axis| plan.ranks(*axis).is_power_of_two()) {
            let first = level(stages[0], stages[1]);
            let nearest = links.nearer.iter().flatten().next();
            let near = nearest.map_or(links.stage, |near| near.stage).time(bytes).value();
            prop_assert!((near / alone(first) - 1.0).abs() < 1e-12, "{near} {}", alone(first));
            let ends = |i: usize| level(stages[i], stages[i + 1]) == most;
            let every = links.farthest as usize;
            let told = (0..stages.len() - 1).all(|i| ends(i) == ((i + 1) % every == 0));
            prop_assert!(told, "{every} {stages:?}");
        }
        // groups that line up with nodes lie exactly, others at their worst place
        let lines_up = AXES.iter().all(|axis| plan.ranks(*axis).is_power_of_two());
        prop_assert!(on_torus || !lines_up || found <= alone(most) * (1.0 + 1e-12));
    }

    /// A forced algorithm gives its own time where it runs, and a refusal that says why where not.
    #[test]
    fn a_forced_algorithm_runs_or_is_refused(
        plan in meshes(),
        pick in 1..ReplicaReduction::named().count(),
        world in prop::sample::select(vec![0_usize, 1, 2, 3]),
        (zero, group) in (0..4_u8, 0..3_u32),
    ) {
        let world = [worlds::nodes_of_eight, worlds::torus, worlds::reducing_switches, worlds::oversubscribed][world];
        let replicas = plan.context * plan.data;
        let zero_group = if replicas.is_multiple_of(group.max(1)) { group } else { 0 };
        let collectives = ReplicaReduction::named().nth(pick).unwrap();
        let plan = Plan {
            sequence_parallel: plan.tensor > 1, zero, zero_group, collectives,
            axis_order: AxisOrder::default(), expert: 1, expert_tensor: 0, ..plan
        };
        let job = mixture(&plan, world);
        let algorithm = collectives.forced().unwrap();
        let mesh = Mesh::new(&plan);
        let outer = Span { stride: mesh.replicas.stride * zero_group, size: replicas / zero_group.max(1) };
        let span = match (zero, zero_group) {
            (0, _) => mesh.replicas,
            (_, 0) => Span::SINGLE,
            _ => outer,
        };
        let at = job.cluster.group(span.stride, span.size);
        let forced = Forms::forced(algorithm, Collective::AllReduce, &at, &job.cluster);
        let verdict = check(&plan, &job.shape, &job.training, job.cluster.devices);
        prop_assert_eq!(verdict.is_ok(), forced.is_ok(), "{:?} {:?}", verdict, forced);
        let dense = Links::new(&plan, job.dealt_tensors(&plan), &mut Pricer::new(&job.cluster)).dense;
        match (verdict, forced) {
            (Ok(_), Ok(forms)) => {
                let used = if zero == 0 { dense.all_reduce } else { dense.outer_reduce };
                prop_assert_eq!(used, forms);
            }
            (Err(rule), _) => prop_assert!(matches!(rule, BrokenRule::Collectives(..)), "{rule}"),
            _ => {}
        }
    }
}

/// Tensor ranks inside a node send over its switch; with other axes inside them, over the network.
#[test]
fn the_inner_axis_has_the_short_way() {
    let cluster = worlds::nodes_of_eight(64);
    let job = jobs::job(
        &jobs::llama(8, 4096, 16),
        &cluster,
        &jobs::training(64, 2048, ""),
    );
    let plan = |axis_order| Plan {
        tensor: 8,
        pipeline: 2,
        data: 4,
        sequence_parallel: true,
        axis_order,
        ..Plan::default()
    };
    let time = |order| price(&job, &plan(order)).unwrap().time;
    let inside = time(AxisOrder::TensorContextDataPipeline);
    for outside in [
        AxisOrder::ContextDataTensorPipeline,
        AxisOrder::PipelineTensorContextData,
        AxisOrder::ContextDataPipelineTensor,
    ] {
        let ratio = time(outside) / inside;
        assert!(ratio > 1.1, "{outside:?} {ratio}");
    }
}

/// Replicas inside a node reduce gradients over its switch.
#[test]
fn replicas_inside_a_node_reduce_sooner() {
    let cluster = worlds::nodes_of_eight(64);
    let job = jobs::job(&jobs::gpt(8, 4096), &cluster, &jobs::training(64, 512, ""));
    let reduced = |axis_order| {
        let plan = Plan {
            pipeline: 8,
            data: 8,
            overlap_grad_reduce: false,
            axis_order,
            ..Plan::default()
        };
        price(&job, &plan).unwrap().parts.gradient_exposed
    };
    let inside = reduced(AxisOrder::TensorContextDataPipeline);
    assert!(reduced(AxisOrder::PipelineTensorContextData) > 3.0 * inside);
}

/// The library's own choice is never slower than an algorithm that it offers, and a ring and a tree
/// differ.
#[test]
fn a_forced_choice_is_no_faster_than_the_library() {
    let cluster = worlds::nodes_of_eight(512);
    let job = jobs::job(&jobs::gpt(4, 256), &cluster, &jobs::training(512, 512, ""));
    let time = |collectives| {
        let plan = Plan {
            data: 512,
            overlap_grad_reduce: false,
            collectives,
            ..Plan::default()
        };
        price(&job, &plan).unwrap().time
    };
    let own = time(ReplicaReduction::Auto);
    let [ring, tree] =
        [Algorithm::Ring, Algorithm::Tree].map(|a| time(ReplicaReduction::Forced(a)));
    assert!(own <= ring && own <= tree, "{own} {ring} {tree}");
    assert!((own - ring.min(tree)).abs() < 1e-12 && (ring - tree).abs() > 1e-6);
}

#[test]
fn names_of_choices_are_read_as_written() {
    let plan = |text: &str| serde_json::from_str::<Plan>(text).map_err(|error| error.to_string());
    for order in AxisOrder::ALL {
        let read = plan(&format!(r#"{{"axis_order": "{}"}}"#, order.name())).unwrap();
        assert_eq!(read.axis_order, order);
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(plan(&text).unwrap(), read);
    }
    for choice in ReplicaReduction::named() {
        let read = plan(&format!(r#"{{"collectives": "{choice}"}}"#)).unwrap();
        assert_eq!(read.collectives, choice);
        assert_eq!(plan(&serde_json::to_string(&read).unwrap()).unwrap(), read);
    }
    let servers = plan(r#"{"collectives": "parameter_server:4"}"#).unwrap();
    let four = Algorithm::ParameterServer { servers: 4 };
    assert_eq!(servers.collectives, ReplicaReduction::Forced(four));
    for wrong in ["pairwise", "rings", "parameter_server:0", "ring:2"] {
        assert!(
            plan(&format!(r#"{{"collectives": "{wrong}"}}"#)).is_err(),
            "{wrong}"
        );
    }
    assert!(plan(r#"{"axis_order": "tensor-data-pipeline-context"}"#).is_err());
}

/// Nodes of eight whose network has so many adapters for all of a node.
fn shared_adapters(adapters: u32) -> Cluster {
    let levels = format!(
        r#"[{{"name": "switch", "kind": "switch", "devices": 8, "bandwidth": "300 GB/s",
             "latency": "3 us"}},
            {{"name": "network", "kind": "fat-tree", "bandwidth": "1 GB/s", "latency": "10 us",
             "adapters": {adapters}}}]"#
    );
    worlds::cluster(&levels, 64)
}

/// Seconds of a byte between stages of `tensor` ranks, which lie one after another and send at once
/// or staggered.
fn seconds_per_byte(cluster: &Cluster, tensor: u32, staggered: bool) -> f64 {
    let chain = Span {
        stride: tensor,
        size: 64 / tensor,
    };
    let hop = Pricer::new(cluster).hop(chain, staggered);
    (hop.time(Bytes::new(2e9)) - hop.time(Bytes::new(1e9))).value() / 1e9
}

#[test]
fn the_few_that_send_share_all_adapters_of_their_node() {
    let own = seconds_per_byte(&shared_adapters(8), 1, false);
    for tensor in [1, 2, 4, 8] {
        let one = seconds_per_byte(&shared_adapters(1), tensor, false);
        let four = seconds_per_byte(&shared_adapters(4), tensor, false);
        assert!((one - own * f64::from(tensor) / 8.0).abs() < 1e-9 * own);
        assert!((four - own * f64::from(tensor.max(4)) / 8.0).abs() < 1e-9 * own);
    }
}

#[test]
fn staggered_sends_have_all_adapters_of_their_node_however_many_lie_side_by_side() {
    for tensor in [1, 2, 4, 8] {
        for adapters in [1, 4, 8] {
            let node = shared_adapters(adapters);
            let alone = seconds_per_byte(&node, 1, false);
            let staggered = seconds_per_byte(&node, tensor, true);
            assert!((staggered - alone).abs() < 1e-9 * alone);
        }
    }
}
