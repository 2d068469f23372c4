//! Does a search over precision recipes find what a search in each of them finds?

#![allow(clippy::unwrap_used, clippy::float_cmp)]

use crate::worlds;

use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::error::Error;
use scalewright::estimate::{Job, price};
use scalewright::hardware::Cluster;
use scalewright::search::{
    Limits, Method, OffloadWhen, PricedPlan, Search, SearchOutcome, SearchPart, SearchReport,
    Space, search,
};
use scalewright::units::Bytes;
use scalewright::workload::Precision;
use std::sync::Arc;
use worlds::jobs;

/// Devices that know low precision, with so much memory.
fn cluster(devices: u32, gigabytes: f64) -> Cluster {
    let mut cluster = worlds::nodes_of_eight(devices);
    cluster.device = worlds::h100();
    cluster.system.device.clone_from(&cluster.device.name);
    let tier = cluster.device.tiers.last_mut().unwrap();
    tier.capacity = Bytes::new(gigabytes * 1e9);
    cluster
}

fn job(text: &str, precision: &str, cluster: &Cluster) -> Job {
    let more = format!(r#", "precision": "{precision}""#);
    jobs::job(text, cluster, &jobs::training(8, 2048, &more))
}

fn space(dtypes: &[&str]) -> Space {
    let dtype = serde_json::to_string(dtypes).unwrap();
    let listed = if dtypes.is_empty() {
        String::new()
    } else {
        format!(r#""dtype": {dtype}, "#)
    };
    Space::from_json(&format!(r#"{{{listed}"micro_batch": [1, 2]}}"#)).unwrap()
}

fn limits(method: Method) -> Limits {
    Limits {
        method,
        offload: OffloadWhen::Never,
        ..Limits::default()
    }
}

fn found(job: &Job, dtypes: &[&str], method: Method) -> SearchOutcome {
    search(job, &space(dtypes), &limits(method), &Control::new()).unwrap()
}

fn times(found: &[PricedPlan]) -> Vec<f64> {
    found.iter().map(|found| found.composed.time).collect()
}

/// Time and memory of plans that no other beats in both, by rising time.
fn front<'a>(found: impl Iterator<Item = &'a PricedPlan>) -> Vec<(f64, f64)> {
    let at = |found: &PricedPlan| (found.composed.time, found.composed.memory);
    let all: Vec<(f64, f64)> = found.map(at).collect();
    let beaten = |p: &(f64, f64)| all.iter().any(|q| q.0 <= p.0 && q.1 <= p.1 && q != p);
    let mut kept: Vec<(f64, f64)> = all.iter().filter(|p| !beaten(p)).copied().collect();
    kept.sort_by(|a, b| a.0.total_cmp(&b.0));
    kept.dedup();
    kept
}

fn name(dtype: Precision) -> String {
    let value = serde_json::to_value(dtype).unwrap();
    value.as_str().unwrap().to_owned()
}

fn worlds_of_recipes() -> impl Strategy<Value = (String, Cluster, Vec<&'static str>)> {
    let models = prop::sample::select(vec![jobs::gpt(4, 1024), jobs::llama(4, 2048, 4)]);
    let clusters = (0..4_u32, prop::sample::select(vec![3.0, 8.0, 40.0]));
    let dtypes = prop::sample::subsequence(vec!["bf16", "fp8", "fp16", "fp32"], 1..4);
    (models, clusters, dtypes.prop_shuffle()).prop_map(|(text, (exponent, gigabytes), dtypes)| {
        (text, cluster(1 << exponent, gigabytes), dtypes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Best plans, front and counts are those of all recipes searched apart, and each plan's price is
    /// its own recipe's.
    #[test]
    fn recipes_together_are_recipes_apart((text, cluster, dtypes) in worlds_of_recipes()) {
        let own = job(&text, "bf16", &cluster);
        let apart: Vec<SearchOutcome> = dtypes
            .iter()
            .map(|dtype| found(&job(&text, dtype, &cluster), &[], Method::Exhaustive))
            .collect();
        let mut least: Vec<f64> = apart.iter().flat_map(|one| times(&one.best)).collect();
        least.sort_by(f64::total_cmp);
        least.truncate(10);
        let legal: u64 = apart.iter().map(|one| one.counts.legal()).sum();
        for method in [Method::Bounds, Method::Exhaustive] {
            let together = found(&own, &dtypes, method);
            prop_assert_eq!(times(&together.best), least.clone());
            prop_assert_eq!(together.counts.legal(), legal);
            let all = apart.iter().flat_map(|one| &one.front);
            prop_assert_eq!(front(together.front.iter()), front(all));
            for found in together.best.iter().chain(&together.front) {
                let dtype = name(found.dtype.unwrap());
                prop_assert!(dtypes.contains(&dtype.as_str()));
                let priced = price(&job(&text, &dtype, &cluster), &found.plan).unwrap();
                prop_assert_eq!(priced.time, found.composed.time);
                prop_assert_eq!(priced.memory, found.composed.memory);
            }
        }
    }

    /// A longer list never makes the best plan slower, nor leaves none.
    #[test]
    fn more_recipes_never_give_a_worse_best((text, cluster, dtypes) in worlds_of_recipes()) {
        let own = job(&text, "bf16", &cluster);
        let best = |dtypes: &[&str]| {
            let found = found(&own, dtypes, Method::Bounds);
            found.best.first().map_or(f64::INFINITY, |best| best.composed.time)
        };
        let mut before = f64::INFINITY;
        for count in 1..=dtypes.len() {
            let now = best(&dtypes[..count]);
            prop_assert!(now <= before);
            before = now;
        }
    }
}

/// Listing a space stops where the caller wants it, like all that comes after it.
#[test]
fn a_cancelled_search_lists_no_units() {
    let own = Arc::new(job(&jobs::llama(4, 2048, 4), "bf16", &cluster(8, 8.0)));
    let control = Control::new();
    let whole = Search::new(
        own.clone(),
        space(&["bf16"]),
        limits(Method::Bounds),
        &control,
    );
    assert!(whole.is_ok_and(|search| search.units() > 0));
    control.cancel();
    let refused = Search::new(own, space(&["bf16"]), limits(Method::Bounds), &control);
    assert!(matches!(refused, Err(Error::Cancelled { .. })));
}

/// Parts that were written down and read again come together to the same answer.
#[test]
fn parts_of_recipes_are_one_search() {
    let own = Arc::new(job(&jobs::llama(4, 2048, 4), "bf16", &cluster(8, 8.0)));
    let listed = space(&["fp8", "bf16", "fp8"]);
    let search = Search::new(own, listed, limits(Method::Bounds), &Control::new()).unwrap();
    let whole = search.whole(&Control::new()).unwrap();
    let half = search.units() / 2;
    let run = |units: [u32; 2]| -> SearchPart {
        let part = search.run(units, None, &Control::new()).unwrap();
        serde_json::from_str(&serde_json::to_string(&part).unwrap()).unwrap()
    };
    let parts = [run([half, search.units()]), run([0, half])];
    let joined = search.merge(&parts).unwrap();
    let report = |part: &SearchPart| {
        let outcome = search.outcome(part, &Control::new()).unwrap();
        SearchReport::new(&search, &outcome)
    };
    let (ours, theirs) = (report(&joined), report(&whole));
    assert_eq!(ours.best, theirs.best);
    assert_eq!(ours.pareto, theirs.pareto);
    assert_eq!(ours.plans_legal, theirs.plans_legal);
    let dtypes = ours.best.iter().map(|told| told.dtype.unwrap());
    assert!(dtypes.clone().any(|dtype| dtype == Precision::Fp8));
}

#[test]
fn a_recipe_that_the_device_lacks_is_refused_by_name() {
    let own = jobs::job(
        &jobs::gpt(4, 1024),
        &worlds::nodes_of_eight(2),
        &jobs::training(8, 2048, ""),
    );
    let refused = search(
        &own,
        &space(&["bf16", "fp8"]),
        &limits(Method::Bounds),
        &Control::new(),
    );
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("fp8"), "{message}");
}
