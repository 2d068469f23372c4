//! Do the closed forms of collectives take as long as their transfers do on the links?

use crate::worlds;

use proptest::prelude::*;
use scalewright::collective::{Algorithm, Collective};
use scalewright::hardware::LevelKind;
use worlds::cases::{REDUCING, bucketed, meshed, switched, uneven};

proptest! {
    #[test]
    fn a_ring_inside_one_level_takes_its_closed_form(case in switched(1), i in 0_usize..3) {
        case.agrees(Algorithm::Ring, REDUCING[i]);
    }

    #[test]
    fn a_ring_across_levels_with_siblings_takes_its_closed_form(case in switched(3), i in 0_usize..3) {
        case.with_large_buffer().agrees(Algorithm::Ring, REDUCING[i]);
    }

    // Parts on slow steps and parts on narrow links travel at the same time: the form adds both up. It counts
    // the hops as NCCL does, one across the outermost level less than the slowest part takes.
    #[test]
    fn a_small_ring_across_levels_takes_between_half_and_all_of_its_closed_form(
        case in switched(3), i in 0_usize..3,
    ) {
        let case = case.narrowing();
        let levels = &case.cluster.system.levels;
        let outermost = levels[case.group().outermost()].latency.value();
        let hop = outermost * if i == 0 { 2.0 } else { 1.0 };
        let simulated = case.simulated(Algorithm::Ring, REDUCING[i]);
        let formed = case.formed_or_free(Algorithm::Ring, REDUCING[i]);
        prop_assert!(simulated <= (formed + hop) * 1.001, "{simulated} {formed} {case:?}");
        prop_assert!(simulated >= formed * 0.499, "{simulated} {formed} {case:?}");
    }

    #[test]
    fn an_all_to_all_takes_its_closed_form(case in switched(3)) {
        case.with_large_buffer().agrees(Algorithm::Pairwise, Collective::AllToAll);
    }

    #[test]
    fn an_all_to_all_inside_one_level_takes_its_closed_form(case in switched(1)) {
        case.agrees(Algorithm::Pairwise, Collective::AllToAll);
    }

    #[test]
    fn level_by_level_takes_its_closed_form(case in switched(3), i in 0_usize..4) {
        let collective = REDUCING.get(i).copied().unwrap_or(Collective::AllToAll);
        case.agrees(Algorithm::Hierarchical, collective);
    }

    #[test]
    fn a_ring_of_any_stride_and_size_takes_its_closed_form(case in uneven(3), i in 0_usize..3) {
        case.agrees(Algorithm::Ring, REDUCING[i]);
    }

    #[test]
    fn an_all_to_all_of_any_stride_and_size_takes_its_closed_form(case in uneven(3)) {
        case.agrees(Algorithm::Pairwise, Collective::AllToAll);
    }

    #[test]
    fn one_message_takes_its_closed_form(mut case in switched(3)) {
        case.ranks.size = 2;
        case.agrees(Algorithm::PointToPoint, Collective::SendReceive);
    }

    #[test]
    fn buckets_on_a_torus_take_their_closed_form(case in bucketed(), i in 0_usize..3) {
        case.agrees(Algorithm::Torus, REDUCING[i]);
    }

    #[test]
    fn direct_links_take_their_closed_form(case in meshed(), i in 0_usize..3) {
        prop_assert_eq!(case.cluster.system.levels[0].kind, LevelKind::Mesh);
        case.agrees(Algorithm::Direct, REDUCING[i]);
    }
}
