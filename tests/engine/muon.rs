//! What does an optimizer cost that orthogonalises matrices?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use scalewright::estimate::Job;
use scalewright::memory::{matrix_traffic, optimizer_traffic};
use scalewright::operator_cost::{Kernel, KernelCost, Pace};
use scalewright::plan::{ITERATIONS, Matrices, Plan, lower};
use worlds::jobs;
use worlds::programs::cluster;

fn job(model: &str, optimizer: &str, devices: u32) -> Job {
    let more = format!(r#", "optimizer": "{optimizer}""#);
    jobs::job(model, &cluster(devices), &jobs::training(64, 1024, &more))
}

fn dense() -> String {
    jobs::llama(4, 1024, 4)
}

/// Matrices of the layers of a rank, block by block as often as each occurs.
fn matrices(job: &Job, plan: &Plan) -> Vec<Matrices> {
    let of = |&block: &usize| lower(&job.graph, block, &job.training, plan).matrices;
    job.graph.order.iter().flat_map(of).collect()
}

fn elements(matrices: &[Matrices]) -> f64 {
    matrices.iter().map(|one| one.count * one.elements()).sum()
}

fn cost(job: &Job, kernel: &Kernel) -> KernelCost {
    kernel.cost_at(Pace::ALONE, &job.cluster.device)
}

#[test]
fn an_iteration_is_three_products_of_the_shorter_side() {
    for (rows, columns) in [(2048.0, 7168.0), (512.0, 512.0)] {
        let one = Matrices {
            rows,
            columns,
            count: 1.0,
            expert: false,
        };
        let job = job(&dense(), "muon", 1);
        let flops = one
            .iteration()
            .map(|kernel| cost(&job, &kernel).flops.value());
        let expected = 4.0 * rows * rows * columns + 2.0 * rows * rows * rows;
        assert_eq!(flops.iter().sum::<f64>(), expected);
    }
}

#[test]
fn matrices_are_all_weights_of_layers_but_vectors() {
    for model in [dense(), jobs::mixture(4, 512), jobs::latent(4, 1024)] {
        let job = job(&model, "muon", 1);
        let found = matrices(&job, &Plan::default());
        assert!(found.iter().all(|one| one.rows <= one.columns));
        let layers = job
            .graph
            .order
            .iter()
            .map(|&block| &job.graph.blocks[block]);
        let layers = layers.filter(|b| b.role == scalewright::workload::BlockRole::Layer);
        let weights = layers.flat_map(|b| {
            b.operators
                .iter()
                .flat_map(scalewright::workload::Operator::weights)
        });
        let wide = |weight: &scalewright::workload::Weight| weight.shape.len() > 1;
        let expected: f64 = weights.filter(wide).map(|weight| weight.elements()).sum();
        assert_eq!(elements(&found), expected);
    }
    let adam = job(&dense(), "adam", 1);
    assert!(matrices(&adam, &Plan::default()).is_empty());
}

#[test]
fn matrices_have_no_second_moment() {
    for (plan, devices) in [
        (Plan::default(), 1),
        (
            Plan {
                data: 4,
                zero: 1,
                ..Plan::default()
            },
            4,
        ),
    ] {
        let [adam, muon] = ["adam", "muon"].map(|name| job(&dense(), name, devices));
        let state = |job: &Job| jobs::priced(job, &plan).memory[0].optimizer_bytes;
        let share = if plan.zero > 0 { 4.0 } else { 1.0 };
        let spared = 4.0 * elements(&matrices(&muon, &plan)) / share;
        assert!(
            (state(&adam) - state(&muon) - spared).abs() < 1.0,
            "{plan:?}"
        );
    }
}

/// Seconds of the update.
fn update(job: &Job, plan: &Plan) -> f64 {
    let lines = jobs::priced(job, plan).time;
    let line = lines.iter().find(|line| line.term == "optimizer").unwrap();
    line.time_s
}

/// Seconds of all iterations on the device, and of those of the matrix that takes longest.
fn iterations(job: &Job, plan: &Plan) -> [f64; 2] {
    let each = |one: &Matrices| {
        let seconds = one
            .iteration()
            .map(|kernel| cost(job, &kernel).time.value());
        ITERATIONS * seconds.iter().sum::<f64>()
    };
    let found = matrices(job, plan);
    let all = found.iter().map(|one| one.count * each(one)).sum();
    [all, found.iter().map(each).fold(0.0, f64::max)]
}

#[test]
fn an_update_is_traffic_and_iterations_which_ranks_share_by_whole_matrices() {
    for data in [1, 2, 4, 64] {
        let job = job(&dense(), "muon", data);
        let plan = Plan {
            data,
            zero: 1,
            ..Plan::default()
        };
        let shards = f64::from(data);
        let [all, longest] = iterations(&job, &plan);
        let inside = elements(&matrices(&job, &plan));
        let weights = job.model.parameters().total as f64;
        let bytes = (weights - inside) * optimizer_traffic(&job.training, 1024.0)
            + inside * matrix_traffic(&job.training);
        let rate = job.cluster.device.main_memory().sustained().value();
        // whole gradients are cleared, and divided where there are replicas
        let divided = if data > 1 { 2.0 } else { 0.0 };
        let passes = weights * (1.0 - 1.0 / shards + divided) * job.training.gradient.bytes();
        let expected = (bytes / shards + passes) / rate + (all / shards).max(longest);
        let found = update(&job, &plan);
        assert!(
            (found / expected - 1.0).abs() < 1e-9,
            "{data}: {found} for {expected}"
        );
        let alone = Plan {
            zero: 0,
            ..plan.clone()
        };
        assert!(update(&job, &alone) > found * if data > 1 { 1.0 } else { 0.999 });
    }
}

#[test]
fn shards_that_cut_matrices_gather_them_first() {
    let job = job(&dense(), "muon", 8);
    let sharded = |zero| Plan {
        data: 8,
        zero,
        ..Plan::default()
    };
    let [whole, gradients, weights] = [1, 2, 3].map(|zero| update(&job, &sharded(zero)));
    assert!(gradients > whole);
    assert_eq!(gradients, weights);
}

#[test]
fn what_cannot_orthogonalise_is_refused() {
    let mut system = cluster(4);
    system.system.host = Some(jobs::host());
    let training = jobs::training(64, 1024, r#", "optimizer": "muon""#);
    let muon = jobs::job(&dense(), &system, &training);
    let plan = Plan {
        data: 4,
        offload_optimizer: true,
        ..Plan::default()
    };
    let rule = scalewright::plan::check(&plan, &muon.shape, &muon.training, 4).unwrap_err();
    assert!(rule.to_string().contains("optimizer = muon"), "{rule}");
    let mut narrow = cluster(1);
    narrow.device.matrix.clear();
    narrow.device.matrix.insert(
        scalewright::units::Dtype::Int8,
        scalewright::units::FlopsPerSecond::new(1e14),
    );
    let fp32 = jobs::training(64, 1024, r#", "optimizer": "muon", "precision": "fp32""#);
    let refused = Job::new(&jobs::model(&dense()), &narrow, &fp32, 0.0).unwrap_err();
    assert!(
        refused.to_string().contains("multiplies no bf16"),
        "{refused}"
    );
}
