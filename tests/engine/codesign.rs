//! Does a search over hardware find what searching every variant alone finds, within every budget?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use rayon::ThreadPoolBuilder;
use scalewright::control::Control;
use scalewright::economics;
use scalewright::error::{Error, Result};
use scalewright::estimate::{Job, Verdict, estimate};
use scalewright::hardware::Cluster;
use scalewright::plan::Plan;
use scalewright::search::codesign::{Codesign, CodesignRequest, Measure, Variant, codesign};
use scalewright::search::{Limits, Objective, OffloadWhen, Space, VariantOutcome, search};
use serde_json::{Value, json};
use worlds::jobs;

fn system() -> Cluster {
    let mut cluster = worlds::nodes_of_eight(16);
    cluster.device = worlds::a100();
    cluster.system.device.clone_from(&cluster.device.name);
    cluster.system.price.node = Some(scalewright::units::Dollars::new(150_000.0));
    cluster.device.die_area = Some(scalewright::units::SquareMillimetres::new(826.0));
    cluster
}

fn job(text: &str) -> Job {
    jobs::job(text, &system(), &jobs::training(32, 1024, ""))
}

fn gpt() -> Job {
    job(&jobs::llama(8, 4096, 16))
}

fn asked(grid: &Value, more: &Value) -> CodesignRequest {
    let mut all = json!({"grid": grid});
    let fields = more.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(fields);
    serde_json::from_value(all).unwrap()
}

fn run(job: &Job, asked: &CodesignRequest) -> Result<Codesign> {
    codesign(job, &[system()], &Space::default(), asked, &Control::new())
}

/// Constants at factors; the price of a device rises with them.
fn grid(factors: &[(&str, Vec<f64>)], devices: &[u32]) -> Value {
    let axes: Vec<Value> = factors
        .iter()
        .map(|(name, factors)| {
            let steps = factors.iter();
            let steps: Vec<Value> = steps
                .map(|f| json!({"factor": f, "price_usd": 4e3 * (f - 1.0), "power_w": 50.0 * f}))
                .collect();
            json!({"constant": name, "steps": steps})
        })
        .collect();
    json!({"devices": devices, "axes": axes})
}

/// The machines of a variant, made by hand.
fn machines(variant: &Variant, asked: &CodesignRequest) -> Cluster {
    let mut cluster = system();
    cluster.devices = variant.devices;
    let constants = cluster.constants();
    let of = |name: &str| variant.constants.iter().find(|c| c.name == name);
    let factors: Vec<f64> = constants
        .iter()
        .map(|c| of(&c.name).map_or(1.0, |c| c.factor))
        .collect();
    let mut cluster = cluster.scaled(&factors);
    let mut left = variant.index;
    for axis in asked.grid.axes.iter().rev() {
        let step = &axis.steps[left % axis.steps.len()];
        left /= axis.steps.len();
        let node = cluster.system.price.node.unwrap();
        cluster.system.price.node =
            Some(node + scalewright::units::Dollars::new(8.0 * step.price_usd));
        let more = scalewright::units::Watts::new(step.power_w);
        cluster.device.power.peak += more;
    }
    cluster
}

/// The best plan of a search that knows nothing of grids: its objective and itself.
fn alone(job: &Job, objective: Objective) -> Option<(f64, Plan)> {
    let limits = Limits {
        top: 1,
        objective,
        offload: OffloadWhen::Never,
        ..Limits::default()
    };
    let found = search(job, &Space::default(), &limits, &Control::new()).unwrap();
    let found = found.best.into_iter().next()?;
    let Verdict::Priced(full) = estimate(job, &found.plan) else {
        return None;
    };
    let value = match objective {
        Objective::Time => found.composed.time,
        Objective::Memory => found.composed.memory,
        Objective::Energy => full.energy_j_per_step,
        Objective::Dollars => full.cost_usd_per_step.unwrap(),
        Objective::Devices => f64::from(job.cluster.devices),
    };
    Some((value, found.plan))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

fn value(variant: &Variant, measure: Measure) -> f64 {
    match measure {
        Measure::Time => variant.step_time_s,
        Measure::Memory => variant.peak_memory_bytes,
        Measure::Energy => variant.energy_j_per_step,
        Measure::Dollars => variant.cost_usd_per_step.unwrap(),
        Measure::Devices => f64::from(variant.devices),
        Measure::Watts => variant.peak_power_w,
        Measure::Capital => variant.capital_usd.unwrap(),
        Measure::Mm2 => variant.silicon_mm2.unwrap(),
    }
}

fn factor() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(prop_oneof![Just(1.0), 0.02..3.0], 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_variant_has_the_plan_that_a_search_of_it_alone_finds(
        rooms in factor(), rates in factor(), links in factor(),
        objective in prop_oneof![
            Just("time"), Just("memory"), Just("energy"), Just("dollars"), Just("devices")
        ],
        mixture in any::<bool>(),
    ) {
        let axes = [
            ("device.memory.capacity", rooms),
            ("device.memory.bandwidth", rates),
            ("fabric.*.bandwidth", links),
        ];
        let job = if mixture { job(&jobs::mixture(4, 2048)) } else { gpt() };
        let asked = asked(&grid(&axes, &[8, 16]), &json!({"objective": objective, "top": 1000}));
        let found = run(&job, &asked).unwrap();
        prop_assert_eq!(found.best.len(), found.tally.variants_with_plan);
        if objective == "devices" {
            // of as many devices the quickest comes first
            let order: Vec<(u32, f64)> =
                found.best.iter().map(|v| (v.devices, v.step_time_s)).collect();
            prop_assert!(order.is_sorted_by(|a, b| a <= b));
        }
        for variant in &found.best {
            let job = job.on(machines(variant, &asked)).unwrap();
            let (best, plan) = alone(&job, asked.objective).unwrap();
            prop_assert_eq!(&plan, &variant.plan);
            let measures = [Measure::Time, Measure::Memory, Measure::Energy, Measure::Dollars,
                Measure::Devices];
            prop_assert!(near(best, value(variant, measures[asked.objective as usize])));
            prop_assert!(near(variant.peak_power_w, economics::peak_power(&job.cluster).value()));
            let capital = economics::capital(&job.cluster).unwrap().value();
            prop_assert!(near(variant.capital_usd.unwrap(), capital));
        }
        for (index, row) in found.rows.iter().enumerate().filter(|(_, r)| r.fate == VariantOutcome::Unfit) {
            let twin = Variant { index, ..told(&job, &asked, index) };
            let job = job.on(machines(&twin, &asked)).unwrap();
            prop_assert!(alone(&job, asked.objective).is_none() && row.plan.is_none());
        }
    }

    #[test]
    fn bounds_across_variants_leave_the_best_ones_as_they_are(
        rooms in factor(), rates in factor(), latencies in factor(), top in 1_usize..5,
        watts in 5e3..2e4, objective in prop_oneof![Just("time"), Just("memory"), Just("devices")],
    ) {
        let axes = [
            ("device.memory.bandwidth", rates),
            ("device.memory.capacity", rooms),
            ("fabric.*.latency", latencies),
        ];
        let grid = grid(&axes, &[8, 16]);
        let with = |method| {
            let budget = json!({"watts": watts});
            let more =
                json!({"top": top, "method": method, "budget": budget, "objective": objective});
            run(&gpt(), &asked(&grid, &more))
        };
        let [all, bounded] = [with("exhaustive"), with("bounds")];
        match (all, bounded) {
            (Ok(all), Ok(bounded)) => {
                let names = |found: &Codesign| -> Vec<(usize, Plan)> {
                    found.best.iter().map(|v| (v.index, v.plan.clone())).collect()
                };
                prop_assert_eq!(names(&all), names(&bounded));
                for found in [&all, &bounded] {
                    let tally = &found.tally;
                    let sum = tally.variants_with_plan + tally.variants_without_plan
                        + tally.variants_over_budget + tally.variants_excluded_by_bound;
                    prop_assert_eq!(sum, tally.variants);
                }
            }
            (all, bounded) => prop_assert!(all.is_err() && bounded.is_err()),
        }
    }
}

/// A variant that has no plan, with the constants of its place.
fn told(job: &Job, asked: &CodesignRequest, index: usize) -> Variant {
    // memory without end makes every variant fit, and changes no place in the grid
    let mut roomy = asked.clone();
    for axis in &mut roomy.grid.axes {
        if axis.constant == "device.memory.capacity" {
            axis.steps
                .iter_mut()
                .for_each(|step| step.factor = Some(1e5));
        }
    }
    let found = run(job, &roomy).unwrap();
    let mut variant = found.best.into_iter().find(|v| v.index == index).unwrap();
    let mut left = index;
    for axis in asked.grid.axes.iter().rev() {
        let factor = axis.steps[left % axis.steps.len()].factor.unwrap();
        left /= axis.steps.len();
        let own = variant.constants.iter_mut();
        let own = own.filter(|c| c.name == axis.constant);
        own.for_each(|c| c.factor = factor);
    }
    variant
}

#[test]
fn budgets_are_kept_and_what_is_beyond_them_is_counted() {
    let axes = [("device.memory.bandwidth", vec![1.0, 1.5, 2.0])];
    let grid = grid(&axes, &[8, 16, 32]);
    let free = run(&gpt(), &asked(&grid, &json!({"top": 100}))).unwrap();
    let limits = json!({"capital": "0.4 MUSD", "watts": "8 kW", "mm2": "200 cm2", "devices": 16});
    for (name, limit) in limits.as_object().unwrap() {
        let mut budget = json!({});
        budget[name] = limit.clone();
        let asked = asked(&grid, &json!({"top": 100, "budget": budget}));
        let found = run(&gpt(), &asked).unwrap();
        let (measure, most) = match name.as_str() {
            "capital" => (Measure::Capital, 4e5),
            "watts" => (Measure::Watts, 8e3),
            "mm2" => (Measure::Mm2, 2e4),
            _ => (Measure::Devices, 16.0),
        };
        let within: Vec<&Variant> = free
            .best
            .iter()
            .filter(|v| value(v, measure) <= most)
            .collect();
        assert!(
            within.len() < free.best.len() && !within.is_empty(),
            "{name}"
        );
        let kept: Vec<&Variant> = found.best.iter().collect();
        let indices = |all: &[&Variant]| all.iter().map(|v| v.index).collect::<Vec<_>>();
        assert_eq!(indices(&kept), indices(&within));
        assert_eq!(
            found.over_budget[name.as_str()],
            free.best.len() - within.len()
        );
        assert_eq!(
            found.tally.variants_over_budget,
            free.best.len() - within.len()
        );
    }
}

#[test]
fn the_front_holds_what_no_other_variant_beats() {
    let axes = [
        ("device.memory.capacity", vec![0.5, 1.0, 1.5]),
        ("fabric.*.bandwidth", vec![0.5, 1.0, 2.0]),
    ];
    let measures = [Measure::Capital, Measure::Time, Measure::Watts];
    let front = json!({"top": 100, "front": ["capital", "time", "watts"]});
    let found = run(&gpt(), &asked(&grid(&axes, &[8, 16]), &front)).unwrap();
    let of = |v: &Variant| measures.map(|m| value(v, m));
    let beaten = |v: &Variant| {
        found.best.iter().any(|other| {
            let below = of(other).iter().zip(of(v)).all(|(a, b)| *a <= b);
            let less = of(other).iter().zip(of(v)).any(|(a, b)| *a < b);
            below && (less || other.index < v.index)
        })
    };
    let mut brute: Vec<usize> = found
        .best
        .iter()
        .filter(|v| !beaten(v))
        .map(|v| v.index)
        .collect();
    let mut front: Vec<usize> = found.front.iter().map(|v| v.index).collect();
    assert!(
        found
            .front
            .windows(2)
            .all(|w| w[0].capital_usd <= w[1].capital_usd)
    );
    brute.sort_unstable();
    front.sort_unstable();
    assert_eq!(front, brute);
    assert!(front.len() > 2 && front.len() < found.best.len());
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let axes = [
        ("device.memory.capacity", vec![0.4, 1.0, 2.0]),
        ("device.matrix_peak.bf16", vec![0.5, 1.0, 2.0]),
        ("fabric.*.bandwidth", vec![0.5, 1.0]),
    ];
    for method in ["exhaustive", "bounds"] {
        let asked = asked(&grid(&axes, &[8, 16]), &json!({"top": 3, "method": method}));
        let on = |threads| {
            let pool = ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| run(&gpt(), &asked).unwrap())
        };
        assert_eq!(on(1), on(5), "{method}");
    }
}

#[test]
fn values_with_units_are_read_and_systems_can_differ() {
    let mut other = worlds::reducing_switches(16);
    other.system.name = "other".to_owned();
    let axis = json!({"constant": "device.memory.capacity", "steps": [{"value": "40 GiB"}]});
    let asked = asked(&json!({"devices": [8], "axes": [axis]}), &json!({}));
    let clusters = [system(), other];
    let found = codesign(
        &gpt(),
        &clusters,
        &Space::default(),
        &asked,
        &Control::new(),
    )
    .unwrap();
    assert_eq!(found.tally.variants, 2);
    let mut systems: Vec<&str> = found.best.iter().map(|v| v.system.as_str()).collect();
    systems.sort_unstable();
    assert_eq!(systems, ["other", "toy-system"]);
    for variant in &found.best {
        assert!(near(variant.constants[0].value, 40.0 * 1_073_741_824.0));
        assert!(variant.peak_memory_bytes <= 40.0 * 1_073_741_824.0);
    }
}

/// Runs a grid and says that its refusal holds the words.
fn refused(grid: &Value, more: &Value, words: &[&str]) {
    let text = run(&gpt(), &asked(grid, more)).unwrap_err().to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn bad_grids_are_refused_by_name() {
    let axis = |name: &str, steps: Value| json!({"axes": [{"constant": name, "steps": steps}]});
    let one = json!([{"factor": 1.0}]);
    let many = vec![json!({"factor": 1.0}); 1001];
    let axes = ["device.memory.capacity", "device.memory.bandwidth"];
    let axes = axes.map(|name| json!({"constant": name, "steps": many}));
    let twice = ["device.memory", "device.memory.capacity"];
    let twice = twice.map(|name| json!({"constant": name, "steps": one}));
    let room = "device.memory.capacity";
    let grids = [
        (axis("device.memory.capacty", one), ["nearest", "capacity"]),
        (axis(room, json!([])), [room, "none"]),
        (axis(room, json!([{}])), ["factor", "neither"]),
        (axis(room, json!([{"factor": -1.0}])), ["[0]", "-1"]),
        (
            axis(room, json!([{"value": "80 GB/s"}])),
            ["80 GB/s", "allowed"],
        ),
        (json!({"devices": [8, 8]}), ["devices", "8 twice"]),
        (json!({"devices": [0]}), ["devices", "0"]),
        (json!({"axes": axes}), ["1002001 variants", "1000000"]),
        // told at once, though each count stands twice
        (
            json!({"devices": vec![8; 1_000_001]}),
            ["1000001 variants", "1000000"],
        ),
        (
            json!({"axes": twice}),
            ["constants", "one name for a constant"],
        ),
        (json!({}), ["grid", "nothing that varies"]),
    ];
    for (grid, words) in &grids {
        refused(grid, &json!({}), words);
    }
}

#[test]
fn bad_budgets_and_fronts_are_refused_by_name() {
    let both = json!({"front": ["time", "watts"], "method": "bounds"});
    let asked = [
        (
            json!({"budget": {"watts": 1.0}}),
            ["budget.watts", "the least of any variant"],
        ),
        (
            json!({"budget": {"capital": 0.0}}),
            ["budget.capital", "above 0"],
        ),
        (json!({"top": 0}), ["top", "0"]),
        (json!({"front": ["time", "time"]}), ["front", "twice"]),
        (both, ["method", "exhaustive"]),
    ];
    for (more, words) in &asked {
        refused(&json!({"devices": [8]}), more, words);
    }
}

#[test]
fn an_area_that_is_not_known_bounds_nothing_and_names_the_device() {
    let mut cluster = system();
    cluster.device.die_area = None;
    let asked = asked(&json!({"devices": [8]}), &json!({"budget": {"mm2": 1e5}}));
    let found = codesign(
        &gpt(),
        &[cluster],
        &Space::default(),
        &asked,
        &Control::new(),
    );
    let text = found.unwrap_err().to_string();
    assert!(
        text.contains("die_area") && text.contains(&system().device.name),
        "{text}"
    );
}

#[test]
fn a_cancelled_search_says_how_far_it_came() {
    let control = Control::new();
    control.cancel();
    let asked = asked(&json!({"devices": [8, 16]}), &json!({}));
    let found = codesign(&gpt(), &[system()], &Space::default(), &asked, &control);
    assert!(matches!(found, Err(Error::Cancelled { .. })));
}
