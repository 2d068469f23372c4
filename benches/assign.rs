//! How long does it take to assign items to tiers, and how near to the best is what is found?

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use criterion::{Criterion, criterion_group, criterion_main};
use scalewright::control::Control;
use scalewright::solve::Random;
use scalewright::solve::assign::{AssignOutcome, Limits, Model, Workspace};
use std::hint::black_box;
use std::time::Instant;

/// Bytes a second of each tier, and its size as a part of all that is held.
const TIERS: [(f64, f64); 5] = [
    (3e12, 0.10),
    (9e11, 0.15),
    (6e10, 0.30),
    (2.5e10, 0.40),
    (6e9, 2.00),
];

/// Sizes by a power law of exponent 1.2, from 1 MB up to 1 GB; every layer's are alike.
fn sizes(random: &mut Random, count: usize, layers: usize) -> Vec<f64> {
    let kinds = count.div_ceil(layers);
    let kinds: Vec<f64> = (0..kinds)
        .map(|_| (1e6 * random.uniform().max(1e-4).powf(-1.0 / 1.2)).min(1e9))
        .collect();
    (0..count).map(|item| kinds[item % kinds.len()]).collect()
}

/// Items that lie in one tier for good and are read in some of the windows over the tier's path.
fn resident(items: usize, tiers: usize, windows: usize, layers: usize) -> Model {
    let mut random = Random::new(1, items as u64);
    let mut model = Model::new();
    let sizes = sizes(&mut random, items, layers);
    let total: f64 = sizes.iter().sum();
    let capacities: Vec<u32> = TIERS[..tiers]
        .iter()
        .enumerate()
        .map(|(tier, (_, part))| {
            let part = if tier + 1 == tiers { 2.0 } else { *part };
            model.limited_row(part * total)
        })
        .collect();
    let mut paths = Vec::new();
    for _ in 0..windows {
        let window = model.window(total / TIERS[0].0, 1.0);
        let rows: Vec<u32> = (0..tiers).map(|_| model.timed_row(window, 0.0)).collect();
        // all tiers but the nearest also share a link
        let shared = model.timed_row(window, 0.0);
        paths.push((rows, shared));
    }
    for size in sizes {
        model.item(true);
        let reads: Vec<f64> = (0..windows)
            .map(|_| (random.below(4) as f64) * size)
            .collect();
        for (tier, capacity) in capacities.iter().enumerate() {
            model.option(0.0);
            model.uses(*capacity..capacity + 1, size);
            for (read, (rows, shared)) in reads.iter().zip(&paths) {
                model.uses(rows[tier]..rows[tier] + 1, read / TIERS[tier].0);
                if tier > 0 {
                    model.uses(*shared..shared + 1, read / 1.2e12);
                }
            }
        }
    }
    model
}

/// Items that live for a while, and may lie elsewhere between two uses.
fn living(items: usize, instants: u32, whole: bool) -> Model {
    let mut random = Random::new(2, items as u64);
    let mut model = Model::new();
    let sizes = sizes(&mut random, items, 20);
    let lives: Vec<(u32, u32)> = (0..items)
        .map(|_| {
            let start = u32::try_from(random.below(instants as usize - 1)).unwrap();
            let most = instants - start;
            let length = 1 + u32::try_from(random.below(most as usize)).unwrap();
            (start, start + length)
        })
        .collect();
    let held: f64 = (0..instants)
        .map(|now| {
            let alive = lives.iter().zip(&sizes);
            let alive = alive.filter(|((start, end), _)| (*start..*end).contains(&now));
            alive.map(|(_, size)| size).sum::<f64>()
        })
        .fold(0.0, f64::max);
    let first: Vec<u32> = (0..5)
        .map(|tier| {
            let rows = (0..instants).map(|_| model.limited_row(TIERS[tier].1 * held));
            rows.min().unwrap()
        })
        .collect();
    let mut paths = Vec::new();
    for _ in 0..instants {
        let window = model.window(held / TIERS[0].0 / 4.0, 1.0);
        paths.push(model.timed_row(window, 0.0));
        for _ in 1..5 {
            model.timed_row(window, 0.0);
        }
    }
    let path = |now: u32, tier: usize| paths[now as usize] + u32::try_from(tier).unwrap();
    for (size, life) in sizes.iter().zip(lives) {
        model.item(whole);
        add_options(&mut model, *size, life, &first, &path);
    }
    model
}

/// Options of an item that lives from `start` to `end`: at rest in one tier, or away in between.
fn add_options(
    model: &mut Model,
    size: f64,
    (start, end): (u32, u32),
    first: &[u32],
    path: &impl Fn(u32, usize) -> u32,
) {
    for tier in 0..5 {
        // at rest in one tier, read where it lies when it begins and ends
        model.option(0.0);
        model.uses(first[tier] + start..first[tier] + end, size);
        for edge in [start, end - 1] {
            let row = path(edge, tier);
            model.uses(row..row + 1, 2.0 * size / TIERS[tier].0);
        }
    }
    for tier in 1..5 {
        // in the nearest at its uses and away in between, out at once or one instant later
        for late in 0..2 {
            let (out, back) = (start + 1 + late, end.saturating_sub(2));
            if out >= back {
                continue;
            }
            model.option(0.0);
            model.uses(first[0] + start..first[0] + out, size);
            model.uses(first[0] + back..first[0] + end, size);
            model.uses(first[tier] + out - 1..first[tier] + back + 1, size);
            let (left, right) = (path(out - 1, tier), path(back, tier));
            model.uses(left..left + 1, size / TIERS[tier].0);
            model.uses(right..right + 1, size / TIERS[tier].0);
            let (left, right) = (path(start, 0), path(end - 1, 0));
            model.uses(left..left + 1, 2.0 * size / TIERS[0].0);
            model.uses(right..right + 1, 2.0 * size / TIERS[0].0);
        }
    }
}

/// What a model of few items is made of; the search makes thousands of them.
struct Small {
    sizes: Vec<f64>,
    reads: Vec<f64>,
    whole: bool,
}

impl Small {
    fn new(whole: bool) -> Self {
        let mut random = Random::new(9, 1);
        let sizes = sizes(&mut random, 100, 1);
        let reads = (sizes.iter())
            .map(|size| random.below(4) as f64 * size)
            .collect();
        Self {
            sizes,
            reads,
            whole,
        }
    }

    /// 4 tiers, the path to each, a link that all but the nearest share, and a bus of the two farthest.
    fn fill(&self, model: &mut Model) {
        model.clear();
        let total: f64 = self.sizes.iter().sum();
        let room = |tier: usize| if tier == 3 { 2.0 } else { TIERS[tier].1 };
        let tiers: [u32; 4] = std::array::from_fn(|tier| model.limited_row(room(tier) * total));
        let window = model.window(total / TIERS[0].0, 1.0);
        let paths: [u32; 4] = std::array::from_fn(|_| model.timed_row(window, 0.0));
        let link = model.timed_row(window, 0.0);
        let bus = model.timed_row(window, total / TIERS[0].0 / 2.0);
        for (size, read) in self.sizes.iter().zip(&self.reads) {
            model.item(self.whole);
            for tier in 0..4 {
                model.option(0.0);
                model.uses(tiers[tier]..tiers[tier] + 1, *size);
                model.uses(paths[tier]..paths[tier] + 1, read / TIERS[tier].0);
                if tier > 0 {
                    model.uses(link..link + 1, read / 1.2e12);
                }
                if tier > 1 {
                    model.uses(bus..bus + 1, read / 1e11);
                }
            }
        }
    }
}

const LIMITS: Limits = Limits {
    below: f64::INFINITY,
    shortage: true,
    gap: 0.01,
    nodes: 2_000,
};

/// Solves once and says what came of it.
fn tell(name: &str, model: &Model, workspace: &mut Workspace) {
    let start = Instant::now();
    match workspace.assign(model, &LIMITS, &Control::new()) {
        Ok(AssignOutcome::Solved(solution)) => println!(
            "{name}: {:.6} s, gap {:.3}%, objective {:.4e}, {} programs",
            start.elapsed().as_secs_f64(),
            100.0 * solution.gap(),
            solution.objective,
            solution.nodes,
        ),
        other => println!("{name}: {other:?}"),
    }
}

fn small_models(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("small");
    for (name, whole) in [
        ("100 items, 4 options, 10 rows, in parts", false),
        ("100 items, 4 options, 10 rows, whole", true),
    ] {
        let (small, mut model) = (Small::new(whole), Model::new());
        let mut workspace = Workspace::new();
        small.fill(&mut model);
        tell(name, &model, &mut workspace);
        if whole {
            group.sample_size(10);
        }
        group.bench_function(name, |bench| {
            bench.iter(|| {
                black_box(&small).fill(&mut model);
                workspace.assign(&model, &LIMITS, &Control::new()).is_ok()
            });
        });
    }
    group.finish();
}

fn large_models(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("assign");
    group.sample_size(10);
    let models = [
        ("10,000 items, 5 options, whole", resident(10_000, 5, 3, 1)),
        (
            "10,000 items, 5 options, 96 layers, whole",
            resident(10_000, 5, 3, 96),
        ),
        (
            "1,000 items, 200 instants, 5 tiers, in parts",
            living(1_000, 200, false),
        ),
        (
            "1,000 items, 200 instants, 5 tiers, whole",
            living(1_000, 200, true),
        ),
    ];
    for (name, model) in models {
        let mut workspace = Workspace::new();
        tell(name, &model, &mut workspace);
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let model = black_box(&model);
                workspace.assign(model, &LIMITS, &Control::new()).is_ok()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, small_models, large_models);
criterion_main!(benches);
