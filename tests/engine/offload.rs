//! Do offloading schemes keep every byte, meet their closed forms, and gain from what they are given?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::hardware::{Memories, MemoryTier, Path, TierKind};
use scalewright::memory::offload::chunks::{Sizes, lay, search};
use scalewright::memory::offload::eviction::{Eviction, run};
use scalewright::memory::offload::zero_infinity::efficiency;
use scalewright::memory::offload::{
    ByteUse, Engine, Granular, Layer, OffloadReport, PatrickStar, Rates, Scheme, StepWork, Tensor,
    Tier, WeightStreaming, ZeroInfinity, ZeroOffload, weight_streaming, zero_offload,
};
use scalewright::units::{Bytes, BytesPerSecond};

const TIERS: [Tier; 3] = Tier::ALL;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.01..1.0, 0.01..10.0]
}

fn layer() -> impl Strategy<Value = Layer> {
    let times = [seconds(), seconds(), seconds(), seconds()];
    (times, 1_u32..50, 1_u32..5, 0.0..20.0).prop_map(|(times, elements, ranks, kept)| {
        let [forward_s, backward_s, gather_s, reduce_s] = times;
        Layer {
            forward_s,
            backward_s,
            gather_s,
            reduce_s,
            elements: f64::from(elements),
            whole: f64::from(elements * ranks),
            kept_bytes: kept,
            repeats: true,
            ..Layer::default()
        }
    })
}

fn work() -> impl Strategy<Value = StepWork> {
    let sizes = (0.0..50.0, 0.0..1.0);
    (vec(layer(), 1..9), 1_u32..5, 1_u64..4, sizes).prop_map(
        |(mut layers, shards, micro_batches, sizes)| {
            // ranks that share weights are as many for all layers
            for layer in &mut layers {
                layer.whole = layer.elements * f64::from(shards);
            }
            let tensors = layers.iter().enumerate().map(|(layer, of)| Tensor {
                layer,
                elements: of.whole,
            });
            StepWork {
                tensors: tensors.collect(),
                shards,
                layers,
                micro_batches,
                working_bytes: sizes.0,
                reserve_bytes: 1.0,
                weight_bytes: 2.0,
                gradient_bytes: 2.0,
                state_bytes: 12.0,
                host_traffic: 34.0,
                device_update_s: sizes.1 / 100.0,
            }
        },
    )
}

fn rates() -> impl Strategy<Value = Rates> {
    let pace = || 0.0001..0.1_f64;
    (
        [pace(), pace(), pace(), pace(), pace()],
        [10.0..4000.0, 100.0..20_000.0, 1e4..1e6_f64],
    )
        .prop_map(|(paces, capacity)| {
            let [from_host, to_host, from_drive, to_drive, host_memory] = paces;
            Rates {
                names: ["hbm", "ddr", "nvme"].map(str::to_owned),
                capacity,
                from_host,
                to_host,
                from_drive,
                to_drive,
                host_memory,
            }
        })
}

fn schemes() -> Vec<Scheme> {
    let placed = |weights, optimizer, activations| {
        Scheme::ZeroInfinity(ZeroInfinity {
            weights: Some(weights),
            optimizer: Some(optimizer),
            activations: Some(activations),
            ..ZeroInfinity::default()
        })
    };
    let chunks = Sizes {
        least: 64,
        most: 512,
        step: 16,
    };
    vec![
        Scheme::ZeroOffload(ZeroOffload { delayed: false }),
        Scheme::ZeroOffload(ZeroOffload { delayed: true }),
        Scheme::ZeroInfinity(ZeroInfinity::default()),
        placed(Tier::Device, Tier::Device, Tier::Device),
        placed(Tier::Device, Tier::Host, Tier::Host),
        placed(Tier::Host, Tier::Drive, Tier::Device),
        placed(Tier::Drive, Tier::Drive, Tier::Drive),
        Scheme::Patrickstar(PatrickStar {
            sizes: chunks,
            ..PatrickStar::default()
        }),
        Scheme::Granular(Granular::default()),
        Scheme::Granular(Granular {
            away: Some(1),
            groups: Some(1),
        }),
        Scheme::WeightStreaming(WeightStreaming::default()),
        Scheme::WeightStreaming(WeightStreaming {
            density: 0.25,
            index_bytes: 1.0,
            skips_zeros: true,
        }),
    ]
}

fn ran(scheme: &Scheme, work: &StepWork, rates: &Rates) -> OffloadReport {
    scheme.run(work, rates).expect("a step that runs")
}

fn held_of(answer: &OffloadReport, what: ByteUse) -> f64 {
    let of = |tier: &scalewright::memory::offload::TierUse| {
        let found = tier.by_use.iter().find(|(use_, _)| *use_ == what);
        found.map_or(0.0, |(_, bytes)| *bytes)
    };
    answer.tiers.iter().map(of).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_step_is_its_passes_and_what_is_exposed(work in work(), rates in rates()) {
        for scheme in schemes() {
            let found = ran(&scheme, &work, &rates);
            let parts = found.exposed;
            let all = found.compute_s + parts.loads_s + parts.stores_s + parts.updates_s;
            prop_assert!(close(found.step_time_s, all), "{scheme:?}: {} {all}", found.step_time_s);
            prop_assert!(found.step_time_s >= found.lower_bound_s * (1.0 - 1e-9), "{scheme:?}");
            prop_assert!(parts.loads_s >= 0.0 && parts.stores_s >= 0.0);
            let sum: f64 = found.busy.iter().map(|busy| busy.busy_s).sum();
            prop_assert!(found.step_time_s <= sum * (1.0 + 1e-9), "{scheme:?}: longer than one by one");
        }
    }

    #[test]
    fn every_byte_of_the_model_has_one_home(work in work(), rates in rates()) {
        let elements = work.elements();
        let whole: f64 = work.layers.iter().map(|layer| layer.whole).sum();
        for scheme in schemes() {
            let found = ran(&scheme, &work, &rates);
            let [weights, state] = [ByteUse::Weights, ByteUse::Optimizer].map(|w| held_of(&found, w));
            let (share, streamed) = match &scheme {
                Scheme::ZeroOffload(_) => (whole, elements),
                Scheme::WeightStreaming(of) => (whole * of.density * (2.0 + of.index_bytes) / 2.0,
                    whole * of.density),
                Scheme::Granular(Granular { groups: Some(_), .. }) => {
                    let first = work.layers[0].elements;
                    (first, first)
                }
                Scheme::Patrickstar(_) => {
                    prop_assert!(close(weights / 2.0, state / 12.0));
                    prop_assert!(weights / 2.0 * f64::from(work.shards) >= whole * (1.0 - 1e-9));
                    continue;
                }
                _ => (elements, elements),
            };
            prop_assert!(close(weights, 2.0 * share), "{scheme:?}: {weights} {share}");
            prop_assert!(close(state, 12.0 * streamed), "{scheme:?}: {state}");
        }
    }

    #[test]
    fn frozen_weights_weigh_and_come_but_have_no_state(work in work(), rates in rates(), share in 0.1..3.0_f64) {
        let mut still = work.clone();
        for layer in &mut still.layers {
            layer.frozen = share * layer.elements;
            layer.frozen_whole = share * layer.whole;
            layer.frozen_element_bytes = 2.0;
        }
        let chunks = |scheme: &Scheme| matches!(scheme, Scheme::Patrickstar(_));
        for scheme in schemes().into_iter().filter(|scheme| !chunks(scheme)) {
            // homes that are searched, and blocks that go until the rest fits, may be others
            let searched = matches!(&scheme, Scheme::ZeroInfinity(of) if of.weights.is_none())
                || matches!(&scheme, Scheme::Granular(of) if of.away.is_none());
            let (with, without) = (ran(&scheme, &still, &rates), ran(&scheme, &work, &rates));
            let grown = held_of(&with, ByteUse::Weights) / held_of(&without, ByteUse::Weights);
            prop_assert!(close(grown, 1.0 + share), "{scheme:?}: {grown}");
            for what in [ByteUse::Gradients, ByteUse::Optimizer] {
                prop_assert!(close(held_of(&with, what), held_of(&without, what)), "{scheme:?}");
            }
            prop_assert!(searched || with.step_time_s >= without.step_time_s * (1.0 - 1e-9), "{scheme:?}");
        }
        let refused = schemes().into_iter().filter(chunks).all(|scheme| scheme.run(&still, &rates).is_err());
        prop_assert!(refused);
    }

    #[test]
    fn a_faster_link_is_never_slower(work in work(), rates in rates(), lane in 0_usize..5) {
        let mut faster = rates.clone();
        let paces = [&mut faster.from_host, &mut faster.to_host, &mut faster.from_drive,
            &mut faster.to_drive, &mut faster.host_memory];
        *paces.into_iter().nth(lane).unwrap() /= 2.0;
        for scheme in schemes() {
            let (slow, fast) = (ran(&scheme, &work, &rates), ran(&scheme, &work, &faster));
            prop_assert!(fast.step_time_s <= slow.step_time_s * (1.0 + 1e-9), "{scheme:?}");
        }
    }

    #[test]
    fn what_fits_still_fits_with_more_memory(work in work(), rates in rates(), tier in 0_usize..3) {
        let mut more = rates.clone();
        more.capacity[tier] *= 1.7;
        for scheme in schemes() {
            let [before, after] = [&rates, &more].map(|r| scheme.memory_use(&work, r).unwrap().fits(r));
            prop_assert!(after || !before, "{scheme:?}");
        }
    }

    #[test]
    fn holding_alone_weighs_as_the_run_does(work in work(), rates in rates()) {
        for scheme in schemes() {
            if matches!(&scheme, Scheme::ZeroInfinity(of) if of.weights.is_none()) {
                let fits = scheme.memory_use(&work, &rates).unwrap().fits(&rates);
                prop_assert_eq!(fits, ran(&scheme, &work, &rates).fits);
                continue;
            }
            let (held, found) = (scheme.memory_use(&work, &rates).unwrap(), ran(&scheme, &work, &rates));
            for tier in TIERS {
                prop_assert!(close(held.total(tier), found.tiers[tier as usize].bytes));
            }
        }
    }

    #[test]
    fn zero_offload_of_like_layers_is_its_closed_form(
        count in 1_usize..12, times in [seconds(), seconds()], elements in 1_u32..50,
        rates in rates(),
    ) {
        let [forward_s, backward_s] = times;
        let elements = f64::from(elements);
        let one = Layer { forward_s, backward_s, elements, whole: elements, repeats: true,
            ..Layer::default() };
        let work = alike(one, count);
        let scheme = Scheme::ZeroOffload(ZeroOffload::default());
        let gradients = elements * 2.0 * rates.to_host;
        let update = elements * 34.0 * rates.host_memory;
        let weights = elements * 2.0 * rates.from_host;
        let closed = zero_offload::closed_form(
            count as f64, [forward_s, backward_s, gradients, update, weights]);
        prop_assert!(close(ran(&scheme, &work, &rates).step_time_s, closed));
    }

    #[test]
    fn a_delayed_update_repeats_at_its_interval(work in work(), rates in rates()) {
        let found = ran(&Scheme::ZeroOffload(ZeroOffload { delayed: true }), &work, &rates);
        let plain = ran(&Scheme::ZeroOffload(ZeroOffload { delayed: false }), &work, &rates);
        prop_assert!(found.step_time_s <= plain.step_time_s * (1.0 + 1e-9));
        // tasks of three steps, in order: the second does not wait for the first update, the third does
        let third = found.spans.len() / 3;
        let of = |round: usize| &found.spans[round * third..(round + 1) * third];
        let passes = |round| of(round).iter().filter(|s| s.engine == Engine::Compute);
        let start = |round| passes(round).map(|s| s.start_s).fold(f64::INFINITY, f64::min);
        let passed = |round| passes(round).map(|s| s.end_s).fold(0.0, f64::max);
        let updated = of(0).iter().map(|span| span.end_s).fold(0.0, f64::max);
        prop_assert!(close(start(1), passed(0)), "{} {}", start(1), passed(0));
        prop_assert!(close(start(2), passed(1).max(updated)), "{} {updated}", start(2));
        let end = found.spans.iter().map(|span| span.end_s).fold(0.0, f64::max);
        let slack = 1e-9 * (1.0 + end);
        prop_assert!(end + slack >= 3.0 * found.step_time_s, "{end} {}", found.step_time_s);
        prop_assert!(end <= 2.0 * (found.step_time_s + plain.step_time_s) + slack, "{end} {}", found.step_time_s);
    }

    #[test]
    fn streams_of_like_layers_are_their_closed_form(
        count in 1_usize..12, pass in 0.1..5.0_f64, elements in 1_u32..50, rates in rates(),
    ) {
        let elements = f64::from(elements);
        let one = Layer { forward_s: pass, backward_s: pass, elements, whole: elements,
            repeats: true, ..Layer::default() };
        let work = alike(one, count);
        let (load, store) = (elements * 2.0 * rates.from_host, elements * 2.0 * rates.to_host);
        let paced = 2.0 * pass <= load && store <= pass;
        let covered = load <= pass && store <= pass;
        let found = ran(&Scheme::WeightStreaming(WeightStreaming::default()), &work, &rates);
        let closed = weight_streaming::closed_form(count as f64, [load, pass, pass, store]);
        if paced || covered {
            prop_assert!(close(found.step_time_s, closed), "{} {closed}", found.step_time_s);
        } else {
            prop_assert!(found.step_time_s >= closed * (1.0 - 1e-9), "{} {closed}", found.step_time_s);
        }
    }

    #[test]
    fn without_overlap_efficiency_is_the_papers_formula(
        count in 2_usize..12, pass in 0.1..5.0_f64, elements in 1_u32..50, rates in rates(),
    ) {
        let elements = f64::from(elements);
        let one = Layer { forward_s: pass, backward_s: pass, elements, whole: elements,
            repeats: true, ..Layer::default() };
        let work = StepWork { host_traffic: 0.0, ..alike(one, count) };
        let scheme = Scheme::ZeroInfinity(ZeroInfinity { weights: Some(Tier::Host),
            optimizer: Some(Tier::Host), activations: Some(Tier::Device), overlap: false,
            ..ZeroInfinity::default() });
        let even = Rates { to_host: rates.from_host, ..rates };
        let found = ran(&scheme, &work, &even);
        // loads of all passes but the second of the last layer, and stores of all gradients
        let bytes = elements * 2.0 * (3.0 * count as f64 - 1.0);
        let intensity = found.compute_s / bytes;
        let share = efficiency(intensity, 1.0 / even.from_host, 1.0);
        prop_assert!(close(found.compute_s / found.step_time_s, share));
    }

    #[test]
    fn overlap_and_every_link_at_once_never_harm(work in work(), rates in rates()) {
        let base = ZeroInfinity { weights: Some(Tier::Drive), optimizer: Some(Tier::Drive),
            activations: Some(Tier::Host), ..ZeroInfinity::default() };
        let best = ran(&Scheme::ZeroInfinity(base), &work, &rates).step_time_s;
        for worse in [ZeroInfinity { overlap: false, ..base },
            ZeroInfinity { bandwidth_centric: false, ..base }] {
            let found = ran(&Scheme::ZeroInfinity(worse), &work, &rates).step_time_s;
            prop_assert!(best <= found * (1.0 + 1e-9));
        }
    }

    #[test]
    fn tiles_take_no_more_memory(work in work(), rates in rates(), tiles in 2_u32..9) {
        let of = |tiles| Scheme::ZeroInfinity(ZeroInfinity { weights: Some(Tier::Host),
            optimizer: Some(Tier::Drive), activations: Some(Tier::Device), tiles,
            ..ZeroInfinity::default() });
        let [one, many] = [1, tiles].map(|t| of(t).memory_use(&work, &rates).unwrap());
        prop_assert!(many.total(Tier::Device) < one.total(Tier::Device));
        prop_assert!(close(many.total(Tier::Drive), one.total(Tier::Drive)));
    }

    #[test]
    fn more_layers_on_the_host_leave_more_room(work in work(), rates in rates()) {
        let of = |away| Scheme::Granular(Granular { away: Some(away), groups: None });
        let most = u32::try_from(work.layers.len()).unwrap();
        let homes = |away| held_of_device(&of(away).run(&work, &rates).unwrap());
        let bytes: Vec<f64> = (0..=most).map(homes).collect();
        prop_assert!(bytes.windows(2).all(|pair| pair[1] <= pair[0] + 1e-9), "{bytes:?}");
        prop_assert!(of(most + 1).run(&work, &rates).is_err());
    }

    #[test]
    fn chunks_hold_every_tensor_and_the_search_wastes_least(
        tensors in vec((1_u32..60).prop_map(f64::from), 1..30), sizes in (60_u64..100, 0_u64..200, 1_u64..20), ranks in 1_u32..5,
    ) {
        let (least, more, step) = sizes;
        let best = search(&tensors, Sizes { least, most: least + more, step }, ranks).unwrap();
        let mut used = vec![0.0; best.count as usize];
        for (&tensor, &chunk) in tensors.iter().zip(&best.of) {
            used[chunk as usize] += tensor;
        }
        prop_assert!(used.iter().all(|&used| used > 0.0 && used <= best.elements));
        for size in (least..=least + more).step_by(usize::try_from(step).unwrap()) {
            prop_assert!(best.waste <= lay(&tensors, size as f64, ranks).unwrap().waste);
        }
        prop_assert!(lay(&tensors, tensors.iter().copied().fold(0.0, f64::max) - 1.0, ranks).is_none());
    }

    #[test]
    fn belady_moves_as_little_as_any_order(
        uses in vec(0_u32..4, 1..8), room in 1_usize..4,
    ) {
        let passes: Vec<Vec<u32>> = uses.iter().map(|&chunk| vec![chunk]).collect();
        let rooms = vec![room; passes.len()];
        let steady = |policy| {
            let found = run(&passes, &rooms, 4, policy).unwrap();
            found.moves.iter().map(|m| m.loads).sum::<u32>()
        };
        let found = steady(Eviction::Belady);
        prop_assert!(found <= steady(Eviction::Lru));
        // the least of a long run of repeated steps, by every choice of whom to evict
        let steps = 4;
        let long: Vec<u32> = (0..steps).flat_map(|_| uses.clone()).collect();
        let least = fewest(&long, 0, room);
        let cold = 4;
        prop_assert!(found * (steps - 1) <= least + found, "{found} {least}");
        prop_assert!(least <= found * steps + cold, "{found} {least}");
    }

    #[test]
    fn with_room_for_all_chunks_none_moves(work in work(), rates in rates()) {
        let wide = Rates { capacity: [1e12, 1e12, 0.0], ..rates };
        let sizes = Sizes { least: 64, most: 512, step: 16 };
        let scheme = Scheme::Patrickstar(PatrickStar { sizes, ..PatrickStar::default() });
        let found = ran(&scheme, &work, &wide);
        prop_assert!(found.fits && found.tiers[Tier::Host as usize].bytes == 0.0, "{:?}", found.tiers);
        let moved: f64 = found.busy.iter().skip(2).map(|busy| busy.busy_s).sum();
        prop_assert!(moved <= 0.0);
    }
}

fn held_of_device(answer: &OffloadReport) -> f64 {
    let device = &answer.tiers[0].by_use;
    let at = |what| {
        device
            .iter()
            .find(|(w, _)| *w == what)
            .map_or(0.0, |(_, b)| *b)
    };
    at(ByteUse::Weights) + at(ByteUse::Gradients) + at(ByteUse::Optimizer)
}

fn alike(layer: Layer, count: usize) -> StepWork {
    StepWork {
        layers: vec![layer; count],
        tensors: Vec::new(),
        shards: 1,
        micro_batches: 1,
        weight_bytes: 2.0,
        gradient_bytes: 2.0,
        state_bytes: 12.0,
        host_traffic: 34.0,
        ..StepWork::default()
    }
}

/// Fewest loads of a sequence of uses from an empty cache, by trying every victim; `held` is a mask.
fn fewest(uses: &[u32], held: u32, room: usize) -> u32 {
    let Some((&first, rest)) = uses.split_first() else {
        return 0;
    };
    let with = held | 1 << first;
    if with == held {
        return fewest(rest, held, room);
    }
    if (with.count_ones() as usize) <= room {
        return 1 + fewest(rest, with, room);
    }
    let victims = (0..4).filter(|&victim| victim != first && held & 1 << victim != 0);
    let each = victims.map(|victim| fewest(rest, with & !(1 << victim), room));
    1 + each.min().unwrap_or(0)
}

#[test]
fn a_copy_goes_at_the_slowest_lane_and_drives_fill_the_host_first() {
    let plain = |name, kind, bytes, rate| {
        MemoryTier::plain(name, kind, Bytes::new(bytes), BytesPerSecond::new(rate))
    };
    let path = |name: &str, rate, shared_by, behind: Option<&str>| Path {
        name: name.to_owned(),
        bandwidth: BytesPerSecond::new(rate),
        write_bandwidth: None,
        efficiency: 1.0,
        shared_by,
        behind: behind.map(str::to_owned),
    };
    let mut ddr = plain("ddr", TierKind::Ddr, 800.0, 100.0);
    (ddr.shared_by, ddr.behind) = (0, Some("link".to_owned()));
    let mut ssd = plain("ssd", TierKind::Ssd, 4000.0, 3.0);
    (ssd.shared_by, ssd.behind) = (0, Some("ddr".to_owned()));
    (ssd.units, ssd.write_bandwidth) = (8, Some(BytesPerSecond::new(2.0)));
    let tiers = [plain("hbm", TierKind::Hbm, 32.0, 900.0), ddr, ssd];
    let paths = [
        path("link", 16.0, 1, Some("switch")),
        path("switch", 16.0, 4, None),
    ];
    let rates = |devices| {
        let memories = Memories::of(&tiers, &paths, 1, devices).unwrap();
        Rates::of(&memories, 30.0).unwrap()
    };
    // eight devices: four share a switch, all share memory and drives
    let eight = rates(8);
    assert!(close(eight.from_host, 4.0 / 16.0) && close(eight.to_host, 4.0 / 16.0));
    assert!(close(eight.from_drive, 8.0 / 24.0) && close(eight.to_drive, 8.0 / 16.0));
    assert!(close(eight.host_memory, 8.0 / 100.0));
    let expected = [30.0, 100.0, 4000.0];
    assert!(
        eight
            .capacity
            .iter()
            .zip(expected)
            .all(|(&a, b)| close(a, b))
    );
    // one device has all of them to itself
    let one = rates(1);
    assert!(close(one.from_host, 1.0 / 16.0) && close(one.from_drive, 1.0 / 24.0));
    assert!(close(one.capacity[Tier::Host as usize], 800.0));
}

#[test]
fn shared_layers_are_kept_and_moved_once() {
    let layer = Layer {
        forward_s: 1.0,
        backward_s: 2.0,
        elements: 10.0,
        whole: 10.0,
        repeats: true,
        ..Layer::default()
    };
    let work = alike(layer, 6);
    let rates = Rates {
        capacity: [1e3, 1e6, 0.0],
        from_host: 0.01,
        to_host: 0.01,
        ..Rates::default()
    };
    let of = |groups| {
        let scheme = Scheme::Granular(Granular {
            away: Some(groups),
            groups: Some(groups),
        });
        ran(&scheme, &work, &rates)
    };
    let (all, two) = (of(6), of(2));
    assert!(close(all.tiers[1].bytes, 6.0 * 10.0 * 16.0));
    assert!(close(two.tiers[1].bytes, 2.0 * 10.0 * 16.0));
    // of six layers eleven loads and six stores, of two sets three loads and two stores
    assert!(close(all.busy[2].busy_s, 11.0 * 0.2) && close(all.busy[3].busy_s, 6.0 * 0.2));
    assert!(close(two.busy[2].busy_s, 3.0 * 0.2) && close(two.busy[3].busy_s, 2.0 * 0.2));
}

#[test]
fn homes_that_cannot_be_are_refused() {
    let work = alike(
        Layer {
            elements: 1.0,
            whole: 1.0,
            ..Layer::default()
        },
        2,
    );
    let rates = Rates {
        capacity: [1e3, 1e3, 0.0],
        ..Rates::default()
    };
    let refused = |scheme: ZeroInfinity| {
        let found = Scheme::ZeroInfinity(scheme).run(&work, &rates);
        found.unwrap_err().to_string()
    };
    let behind = ZeroInfinity {
        weights: Some(Tier::Host),
        optimizer: Some(Tier::Device),
        ..ZeroInfinity::default()
    };
    assert!(refused(behind).starts_with("weights: got a tier behind"));
    let nowhere = ZeroInfinity {
        activations: Some(Tier::Drive),
        ..ZeroInfinity::default()
    };
    assert!(refused(nowhere).starts_with("activations: got drive"));
    let tiles = ZeroInfinity {
        tiles: 0,
        ..ZeroInfinity::default()
    };
    assert!(refused(tiles).starts_with("tiles: got 0"));
    let density = Scheme::WeightStreaming(WeightStreaming {
        density: 0.0,
        ..WeightStreaming::default()
    });
    assert!(density.run(&work, &rates).is_err());
    let tensors = vec![
        Tensor {
            layer: 0,
            elements: 5.0,
        };
        2
    ];
    let with = StepWork { tensors, ..work };
    for elements in [0, 4, 11] {
        let chunk = Scheme::Patrickstar(PatrickStar {
            chunk_elements: Some(elements),
            ..PatrickStar::default()
        });
        let told = chunk.run(&with, &rates).unwrap_err().to_string();
        assert!(
            told.starts_with("chunk_elements") && told.contains("5, the largest tensor, to 10")
        );
    }
}
