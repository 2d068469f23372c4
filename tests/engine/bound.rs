//! Does any algorithm on random fabrics beat the lower bounds or break the laws of collectives?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective, Forms};
use scalewright::hardware::LevelKind;
use scalewright::hardware::{Library, Routing};
use scalewright::units::{Bytes, BytesPerSecond};
use worlds::cases::{Case, boxed, meshed, one_level, reducing, switched, uneven};

/// Any of the random fabrics, with protocols of their own.
fn fabrics() -> impl Strategy<Value = Case> {
    let fabric = prop_oneof![
        switched(3),
        uneven(3),
        one_level(),
        meshed(),
        boxed(),
        reducing()
    ];
    let lines = ((0.1_f64..3.0, 0.05_f64..1.0), 0.1_f64..9.0, 0.0_f64..2.0);
    (fabric, lines, 0.0_f64..34.0).prop_map(|(mut case, ((step, share), switch, issue), bytes)| {
        for level in &mut case.cluster.system.levels {
            let mut library = Library::PLAIN;
            library.low_latency.step = step;
            library.low_latency.share = share;
            library.in_network.step = switch;
            library.issue = issue;
            level.library = Some(library);
            level.routing = Routing::Minimal;
        }
        case.bytes = bytes.exp2();
        case
    })
}

/// Every algorithm by name, and servers and links in other numbers.
fn algorithms(count: u32) -> Vec<Algorithm> {
    let mut all = Algorithm::NAMED.to_vec();
    all.push(Algorithm::ParameterServer { servers: count });
    all.push(Algorithm::WeightStreaming { fan_out: count + 1 });
    all
}

/// The lower bound of a case whose library issues messages no faster than they step.
fn one_port(mut case: Case, collective: Collective) -> f64 {
    for level in &mut case.cluster.system.levels {
        level.library.as_mut().unwrap().issue = 1.0;
    }
    case.bound(collective)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_algorithm_beats_the_bound_on_any_fabric(case in fabrics(), count in 1_u32..20) {
        let group = case.group();
        for algorithm in algorithms(count) {
            for collective in Collective::ALL {
                let forms = Forms::forced(algorithm, collective, &group, &case.cluster);
                let Ok(forms) = forms else { continue };
                let bytes = Bytes::new(case.bytes);
                let (time, bound) = (forms.time(bytes).value(), forms.lower_bound(bytes).value());
                prop_assert!(
                    time >= bound * (1.0 - 1e-9),
                    "{time} < {bound}: {algorithm:?} {collective:?} {case:?}"
                );
                prop_assert!(bound > 0.0 || case.ranks.size == 1);
            }
        }
    }

    #[test]
    fn news_spreads_in_a_logarithm_of_steps(mut case in switched(1)) {
        // a network: across switches inside a node every device reads the memory of all others at once
        case.cluster.system.levels[0].kind = LevelKind::FatTree;
        let bytes = Case { bytes: 0.0, ..case.clone() };
        let steps = f64::from(case.ranks.size).log2().ceil();
        let step = case.cluster.system.levels[0].latency.value();
        let bound = one_port(bytes, Collective::Barrier);
        prop_assert!((bound - steps * step).abs() <= 1e-9 * bound, "{bound} {case:?}");
        // met by Bruck's rounds
        let rounds = case.formed_or_free(Algorithm::Bruck, Collective::Barrier);
        prop_assert!((rounds - bound).abs() <= 1e-9 * bound);
    }

    #[test]
    fn an_all_to_all_on_a_torus_meets_the_cut_through_its_middle(case in boxed()) {
        let case = case.with_large_buffer();
        let (time, bound) = (
            case.formed_or_free(Algorithm::Torus, Collective::AllToAll),
            case.bound(Collective::AllToAll),
        );
        prop_assert!((time - bound).abs() <= 1e-6 * time, "{time} {bound} {case:?}");
    }

    #[test]
    fn switches_that_add_save_almost_half_of_an_all_reduce(case in switched(1)) {
        let p = f64::from(case.ranks.size);
        let mut case = case.with_large_buffer();
        let plain = case.bound(Collective::AllReduce);
        let rate = case.cluster.system.levels[0].sustained(1).value();
        prop_assert!((plain - 2.0 * (p - 1.0) / p * case.bytes / rate).abs() <= 1e-6 * plain);
        let ring = case.formed_or_free(Algorithm::Ring, Collective::AllReduce);
        prop_assert!((ring - plain).abs() <= 1e-6 * plain);
        case.cluster.system.levels[0].in_network_reduction = true;
        let helped = case.bound(Collective::AllReduce);
        prop_assert!((helped - plain.min(case.bytes / rate)).abs() <= 1e-6 * plain);
    }

    #[test]
    fn an_all_reduce_is_its_two_halves_on_any_fabric(case in fabrics()) {
        let composed = [
            Algorithm::Ring,
            Algorithm::BidirectionalRing,
            Algorithm::Hierarchical,
            Algorithm::Direct,
            Algorithm::Torus,
            Algorithm::HalvingDoubling,
            Algorithm::Product,
            Algorithm::TwoDimensional,
        ];
        let group = case.group();
        for algorithm in composed {
            let time = |collective| {
                let forms = Forms::forced(algorithm, collective, &group, &case.cluster);
                forms.ok().map(|forms| forms.time(Bytes::new(case.bytes)).value())
            };
            let halves = (time(Collective::ReduceScatter), time(Collective::AllGather));
            let (Some(scatter), Some(gather)) = halves else { continue };
            let whole = time(Collective::AllReduce).unwrap();
            prop_assert!((scatter + gather - whole).abs() <= 1e-9 * whole, "{algorithm:?} {case:?}");
        }
    }

    // where switches serve no parts, trees and switches make an all-reduce quicker than a ring's one pass
    #[test]
    fn an_all_reduce_is_never_quicker_than_either_half_where_switches_serve_parts(
        case in reducing(), switch in 0.1_f64..1.0,
    ) {
        let mut case = case;
        for level in &mut case.cluster.system.levels {
            let mut library = Library::PLAIN;
            library.in_network.step = switch;
            (level.library, level.in_network_parts) = (Some(library), true);
        }
        let group = case.group();
        let time = |collective| {
            let forms = Forms::new(collective, &group, &case.cluster);
            forms.time(Bytes::new(case.bytes)).value()
        };
        let whole = time(Collective::AllReduce);
        for half in [Collective::ReduceScatter, Collective::AllGather] {
            prop_assert!(time(half) <= whole * (1.0 + 1e-9), "{half} {whole} {case:?}");
        }
    }

    #[test]
    fn simulated_times_do_not_know_units(case in switched(3), unit in 0.01_f64..100.0, i in 0_usize..4) {
        let (algorithm, collective) = [
            (Algorithm::Ring, Collective::AllReduce),
            (Algorithm::Pairwise, Collective::AllToAll),
            (Algorithm::HalvingDoubling, Collective::AllReduce),
            (Algorithm::Hierarchical, Collective::AllGather),
        ][i];
        let mut scaled = case.clone();
        scaled.bytes *= unit;
        for level in &mut scaled.cluster.system.levels {
            level.bandwidth = BytesPerSecond::new(level.bandwidth.value() * unit);
        }
        let times = [case, scaled].map(|case| case.simulated(algorithm, collective));
        prop_assert!((times[0] - times[1]).abs() <= 1e-9 * times[0], "{times:?}");
    }
}
