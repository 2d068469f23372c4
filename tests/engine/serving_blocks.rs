//! Does the search find the best block, is no other one better, and does more of anything never hurt?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::error::Error;
use scalewright::memory::serving_blocks::{Block, Policy, Problem, serving_blocks, serving_policy};
use serde_json::{Value, json};

#[path = "../../benches/worlds/flexgen.rs"]
mod flexgen;

fn best(problem: &Problem) -> Block {
    serving_blocks(problem, &Control::new()).unwrap()
}

fn read(problem: &Value) -> Problem {
    Problem::from_json(&problem.to_string()).unwrap()
}

/// A small model on a small machine of two to four memories.
#[derive(Debug, Clone)]
struct World {
    problem: Value,
    homes: usize,
}

impl World {
    fn read(&self) -> Problem {
        read(&self.problem)
    }
}

fn hop(lane: &str, rate: f64) -> Value {
    json!({ "lane": lane, "rate_bytes_per_s": rate })
}

prop_compose! {
    fn world()(
        homes in 2..=4_usize,
        room in prop::collection::vec(0.05..4.0_f64, 4),
        speed in prop::collection::vec(0.1..10.0_f64, 8),
        [prompt, generated] in [1..40_u64, 1..20_u64],
        layers in 1..5_u64,
        attention in prop::sample::select(vec!["either", "host", "device"]),
        waits in any::<bool>(),
        [small, flash_attention] in any::<[bool; 2]>(),
        recurrent in prop_oneof![Just(0.0), 0.0..20_000.0_f64],
        most in [1..7_u64, 1..7_u64],
    ) -> World {
        let width = 64.0;
        let weights = 24.0 * width * width;
        let model = layers as f64 * weights;
        let mut list = vec![json!({
            "name": "device",
            "capacity_bytes": 2.0 * model * room[0] + 4.0 * weights,
            "reads": [hop("own bus", 40.0 * speed[0])],
            "writes": [],
        })];
        let mut reads = vec![hop("in", speed[1])];
        let mut writes = vec![hop("out", speed[2])];
        for index in 1..homes {
            if index > 1 {
                let lane = format!("bus {index}");
                reads.insert(0, hop(&lane, speed[1 + index] / index as f64));
                writes.push(hop(&lane, speed[index] / index as f64));
            }
            list.push(json!({
                "name": format!("home {index}"),
                "capacity_bytes": 3.0 * model * room[index],
                "reads": reads,
                "writes": writes,
                "behind_host": index - 1,
                "states": index < 3,
            }));
        }
        let serial = if waits {
            json!({ "decode": [["device", "host", "in"], ["out", "in"]] })
        } else {
            json!({})
        };
        let problem = json!({
            "prompt": prompt,
            "generated": generated,
            "layers": layers,
            "layer": {
                "hidden": 64, "weights_bytes": weights, "cache_bytes_per_token": 4.0 * width,
                "recurrent_bytes_per_sequence": recurrent, "state_bytes_per_token": 2.0 * width,
                "inner_bytes_per_token": 8.0 * width, "score_bytes_per_query_and_key": 8,
                "query_bytes_per_token": 2.0 * width, "matmul_flops_per_token": weights,
                "attention_flops_per_query_and_key": 4.0 * width, "head_flops_per_sequence": 500.0,
                "head_bytes_per_batch": 3.0 * width,
            },
            "resident_bytes": 1000.0,
            "homes": list,
            "host": "home 1",
            "attention": attention,
            "flash_attention": flash_attention,
            "serial": serial,
            "compute": {
                "prefill_matmul_flops_per_s": 30.0 * speed[5],
                "prefill_attention_flops_per_s": 10.0 * speed[6],
                "decode_matmul_flops_per_s": 10.0 * speed[5],
                "device_attention_bytes_per_s": 20.0 * speed[6],
                "host_attention_bytes_per_s": 2.0 * speed[7],
                "small_batch": if small { json!([0.02, 0.03, 0.06]) } else { Value::Null },
            },
            "batch": [1, most[0]],
            "batches": [1, most[1]],
        });
        World { problem, homes }
    }
}

/// Shares from weights that need not add to 1.
fn spread(names: &[String], weights: &[f64]) -> Value {
    let sum: f64 = weights.iter().take(names.len()).sum();
    let shares = names.iter().zip(weights);
    shares
        .map(|(name, weight)| (name.clone(), json!(weight / sum)))
        .collect()
}

fn names(world: &World) -> Vec<String> {
    let homes = world.problem["homes"].as_array().unwrap();
    homes
        .iter()
        .map(|home| home["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A block with shares in proportion to weights, twelve of them: of weights, cache and states.
fn policy(world: &World, [batch, batches]: [u64; 2], weights: &[f64]) -> Policy {
    let names = names(world);
    let holds = &names[..world.homes.min(3)];
    let text = json!({
        "batch": batch,
        "batches": batches,
        "weights": spread(&names, &weights[..4]),
        "cache": spread(&names, &weights[4..8]),
        "states": spread(holds, &weights[8..]),
    });
    serde_json::from_value(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_search_finds_what_looking_at_every_block_finds(world in world()) {
        let found = best(&world.read());
        let mut most = 0.0_f64;
        let [batch, batches] = ["batch", "batches"].map(|of| world.problem[of][1].as_u64().unwrap());
        for g in 1..=batch {
            for n in 1..=batches {
                let mut alone = world.problem.clone();
                alone["batch"] = json!([g, g]);
                alone["batches"] = json!([n, n]);
                let block = best(&read(&alone));
                if block.fits {
                    most = most.max(block.tokens_per_s);
                }
            }
        }
        prop_assert_eq!(found.fits, most > 0.0);
        if found.fits {
            let off = found.tokens_per_s / most - 1.0;
            prop_assert!(off.abs() < 1e-6, "{} found, {} there is", found.tokens_per_s, most);
            prop_assert!(found.most_tokens_per_s.unwrap() >= most * (1.0 - 1e-9));
        }
    }

    #[test]
    fn no_given_shares_that_fit_are_better(
        world in world(),
        at in [1..7_u64, 1..7_u64],
        weights in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0_f64], 12),
    ) {
        prop_assume!(weights.chunks(4).all(|part| part.iter().take(2).sum::<f64>() > 0.1));
        let mut world = world;
        world.problem["batch"] = json!([1, 6]);
        world.problem["batches"] = json!([1, 6]);
        let problem = world.read();
        let given = serving_policy(&problem, &policy(&world, at, &weights)).unwrap();
        if given.fits {
            let found = best(&problem);
            prop_assert!(found.fits);
            prop_assert!(given.tokens_per_s <= found.tokens_per_s * (1.0 + 1e-6));
            prop_assert!(given.tokens_per_s <= found.most_tokens_per_s.unwrap() * (1.0 + 1e-9));
        }
    }

    #[test]
    fn more_memory_or_a_faster_lane_never_hurts(
        world in world(),
        which in 0..4_usize,
        by in 1.0..4.0_f64,
        faster in any::<bool>(),
    ) {
        let before = best(&world.read());
        let mut more = world.clone();
        let home = &mut more.problem["homes"][which % world.homes];
        if faster {
            for way in ["reads", "writes"] {
                let Some(hops) = home[way].as_array_mut() else { continue };
                for hop in hops {
                    let rate = hop["rate_bytes_per_s"].as_f64().unwrap();
                    hop["rate_bytes_per_s"] = json!(rate * by);
                }
            }
        } else {
            let capacity = home["capacity_bytes"].as_f64().unwrap();
            home["capacity_bytes"] = json!(capacity * by);
        }
        let after = best(&more.read());
        prop_assert!(!before.fits || after.fits);
        if before.fits {
            prop_assert!(after.tokens_per_s >= before.tokens_per_s * (1.0 - 1e-6));
        }
    }

    #[test]
    fn smaller_states_of_scans_or_no_scores_never_hurt(world in world(), part in 0.0..1.0_f64) {
        let mut less = world.clone();
        let recurrent = less.problem["layer"]["recurrent_bytes_per_sequence"].as_f64().unwrap();
        less.problem["layer"]["recurrent_bytes_per_sequence"] = json!(recurrent * part);
        less.problem["flash_attention"] = json!(true);
        let [usual, less] = [world, less].map(|world| best(&world.read()));
        prop_assert!(less.fits || !usual.fits);
        if usual.fits {
            prop_assert!(less.tokens_per_s >= usual.tokens_per_s * (1.0 - 1e-6));
        }
    }

    /// Where all has room on the device, which attends, nothing is faster elsewhere, and nothing lies there.
    #[test]
    fn of_equal_shares_the_nearest_are_taken(world in world()) {
        let mut world = world;
        world.problem["homes"][0]["capacity_bytes"] = json!(1e12);
        world.problem["attention"] = json!("device");
        let block = best(&world.read());
        prop_assert!(block.fits);
        for shares in [&block.weights, &block.cache, &block.states] {
            prop_assert!(shares["device"] >= 1.0 - 1e-6, "{shares:?}");
        }
        prop_assert!(block.relative_gap.unwrap() <= 1e-6);
    }

    #[test]
    fn a_choice_of_who_attends_never_hurts(world in world()) {
        let mut world = world;
        let mut tokens = ["either", "host", "device"].map(|attention| {
            world.problem["attention"] = json!(attention);
            let block = best(&world.read());
            if block.fits { block.tokens_per_s } else { 0.0 }
        });
        tokens[0] *= 1.0 + 1e-6;
        prop_assert!(tokens[0] >= tokens[1] && tokens[0] >= tokens[2], "{tokens:?}");
    }

    #[test]
    fn the_best_block_is_what_its_own_shares_give(world in world()) {
        let mut world = world;
        world.problem["attention"] = json!("host");
        let problem = world.read();
        let found = best(&problem);
        if found.fits {
            let text = json!({
                "batch": found.batch, "batches": found.batches, "weights": found.weights,
                "cache": found.cache, "states": found.states,
            });
            let given = serving_policy(&problem, &serde_json::from_value(text).unwrap()).unwrap();
            prop_assert!(given.fits);
            prop_assert!((given.tokens_per_s / found.tokens_per_s - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn what_binds_is_full_or_the_longest(world in world()) {
        let found = best(&world.read());
        if found.fits {
            for memory in &found.memory {
                let full = memory.bytes / memory.capacity;
                prop_assert!(full <= 1.0 + 1e-9);
                prop_assert!(memory.worth < 1e-6 || full > 1.0 - 1e-6, "{memory:?}");
            }
            for (phase, name) in ["prefill", "decode"].into_iter().enumerate() {
                let of = found.lanes.iter().filter(|lanes| lanes.phase == name);
                for lanes in of {
                    let longest = found.layer_s[phase];
                    prop_assert!(lanes.seconds <= longest * (1.0 + 1e-9));
                    let binds = lanes.seconds > longest * (1.0 - 1e-6);
                    prop_assert!(lanes.worth < 1e-6 || binds, "{lanes:?}");
                }
            }
            // the lanes that bind share the whole run among them
            let worth: f64 = found.lanes.iter().map(|lanes| lanes.worth).sum();
            prop_assert!((worth - 1.0).abs() < 1e-6, "{worth}");
        }
    }
}

/// All ways to divide three thirds among `homes`.
fn thirds(homes: usize, left: u32) -> Vec<Vec<f64>> {
    if homes == 1 {
        return vec![vec![f64::from(left) / 3.0]];
    }
    (0..=left)
        .flat_map(|first| {
            let rest = thirds(homes - 1, left - first);
            rest.into_iter().map(move |mut shares| {
                shares.insert(0, f64::from(first) / 3.0);
                shares
            })
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_thirds_of_anything_are_better(world in world()) {
        let mut world = world;
        world.problem["batch"] = json!([1, 2]);
        world.problem["batches"] = json!([1, 2]);
        let problem = world.read();
        let found = best(&problem);
        let pad = |mut shares: Vec<f64>| { shares.resize(4, 0.0); shares };
        let all: Vec<Vec<f64>> = thirds(world.homes.min(3), 3).into_iter().map(pad).collect();
        let all = &all;
        let triples = all.iter().flat_map(|w| all.iter().map(move |c| (w, c)));
        let triples = triples.flat_map(|(w, c)| all.iter().map(move |h| [w, c, h]));
        for three in triples {
            let shares = three.map(Clone::clone).concat();
            for at in [[1, 1], [1, 2], [2, 1], [2, 2]] {
                let given = serving_policy(&problem, &policy(&world, at, &shares)).unwrap();
                prop_assert!(found.fits || !given.fits);
                if given.fits {
                    prop_assert!(given.tokens_per_s <= found.tokens_per_s * (1.0 + 1e-6));
                }
            }
        }
    }
}

/// States of scans lie with the cache, once for each sequence, however long it is, and each token reads
/// and writes them.
#[test]
fn states_of_scans_are_held_and_moved() {
    let mut posed = serde_json::to_value(flexgen::problem(48, 7168, 56)).unwrap();
    let given = json!({
        "batch": 8, "batches": 4,
        "weights": { "cpu": 1.0 }, "cache": { "cpu": 1.0 }, "states": { "gpu": 1.0 },
    });
    let policy: Policy = serde_json::from_value(given).unwrap();
    let price = |posed: &Value| serving_policy(&read(posed), &policy).unwrap();
    let without = price(&posed);
    let state = 50e6;
    posed["layer"]["recurrent_bytes_per_sequence"] = json!(state);
    let with = price(&posed);
    let held = |block: &Block, home: &str, phase: &str| {
        let mut of = block.memory.iter();
        of.find(|m| m.home == home && m.phase == phase)
            .unwrap()
            .bytes
    };
    for phase in ["prefill", "decode"] {
        let more = held(&with, "cpu", phase) - held(&without, "cpu", phase);
        assert!((more / (48.0 * 32.0 * state) - 1.0).abs() < 1e-9, "{more}");
    }
    assert!(with.layer_s[1] > without.layer_s[1]);
}

#[test]
fn the_gap_of_published_models_is_closed() {
    for (layers, hidden, heads) in [(32, 4096, 32), (48, 7168, 56), (96, 12288, 96)] {
        let block = best(&flexgen::problem(layers, hidden, heads));
        assert!(
            block.fits && block.relative_gap.unwrap() <= 1e-7,
            "{block:?}"
        );
        assert!(block.programs < 400, "{} programs", block.programs);
    }
}

#[test]
fn the_policies_that_were_run_are_no_better_than_the_best() {
    // percent of weights on device and host, batch and batches, of `benchmark/flexgen/bench_suite.py`
    for (shape, device, host, at) in [
        ((48, 7168, 56), 0.2, 0.8, [48, 3]),
        ((96, 12288, 96), 0.0, 0.5, [32, 8]),
    ] {
        let mut problem = flexgen::problem(shape.0, shape.1, shape.2);
        // they fill more than this accounting, which adds up activations that never meet, leaves room for
        for home in &mut problem.homes {
            home.capacity = home.capacity * 2.0;
        }
        let (there, name) = if host > 0.7 {
            ("cpu", "cpu")
        } else {
            ("disk", "cpu")
        };
        let text = json!({
            "batch": at[0], "batches": at[1],
            "weights": { "gpu": device, "cpu": host, "disk": 1.0 - device - host },
            "cache": { there: 1.0 }, "states": { name: 1.0 },
        });
        let given = serving_policy(&problem, &serde_json::from_value(text).unwrap()).unwrap();
        assert!(given.fits, "{:?}", given.memory);
        assert!(given.tokens_per_s < best(&problem).tokens_per_s);
    }
}

#[test]
fn where_nothing_fits_it_says_what_is_missing() {
    let mut problem = flexgen::problem(96, 12288, 96);
    for home in &mut problem.homes[1..] {
        home.capacity = home.capacity * 1e-3;
    }
    let block = best(&problem);
    assert!(!block.fits && block.most_tokens_per_s.is_none());
    assert!(
        block
            .memory
            .iter()
            .any(|memory| memory.bytes > memory.capacity)
    );
}

#[test]
fn wrong_problems_are_refused_by_name() {
    let right = serde_json::to_value(flexgen::problem(48, 7168, 56)).unwrap();
    assert!(Problem::from_json(&right.to_string()).is_ok());
    for (path, value, said) in [
        ("/prompt", json!(0), "prompt"),
        ("/batch", json!([3, 2]), "batch"),
        ("/host", json!("cp"), "cpu"),
        ("/host", json!("gpu"), "host"),
        ("/relative_gap", json!(0.0), "relative_gap"),
        (
            "/homes/1/reads/0/rate_bytes_per_s",
            json!(0.0),
            "homes.cpu.reads",
        ),
        ("/homes/2/behind_host", json!(3), "homes.disk.behind_host"),
        ("/homes/1/name", json!("gpu"), "homes.name"),
        (
            "/compute/decode_matmul_flops_per_s",
            json!(0.0),
            "compute.decode_matmul_flops_per_s",
        ),
        (
            "/layer/matmul_flops_per_token",
            json!(-1.0),
            "layer.matmul_flops_per_token",
        ),
    ] {
        let mut wrong = right.clone();
        *wrong.pointer_mut(path).unwrap() = value;
        let error = Problem::from_json(&wrong.to_string()).unwrap_err();
        assert!(error.to_string().contains(said), "{path}: {error}");
    }
    let mut wrong = right;
    wrong["serial"]["decode"] = json!([["devise"]]);
    let error = serving_blocks(&read(&wrong), &Control::new()).unwrap_err();
    assert!(error.to_string().contains("nearest: device"), "{error}");
}

#[test]
fn a_cancelled_search_says_so() {
    let control = Control::new();
    control.cancel();
    let stopped = serving_blocks(&flexgen::problem(48, 7168, 56), &control);
    assert!(matches!(stopped, Err(Error::Cancelled { .. })));
}
