//! Do the closed forms of collectives take as long as their transfers do on the links?

mod worlds;

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
