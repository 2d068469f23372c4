//! Do pipelines shrink as the rule says, and does each epoch take the time that follows from it?

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::schedule::partition::Link;
use scalewright::schedule::progressive_freezing::{
    Layer, Parts, Request, Training, frozen_by, progressive_freezing,
};

fn train(request: &Request) -> Training {
    progressive_freezing(request, &Control::default()).expect("a request that can run")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

fn link(rate: f64, latency_s: f64) -> Link {
    Link {
        bandwidth_bytes_per_s: Some(rate),
        latency_s,
    }
}

fn any_request() -> impl Strategy<Value = Request> {
    let layer = (
        0.0..3.0_f64,
        0.0..6.0_f64,
        0.0..0.1_f64,
        0.1..4.0_f64,
        0.0..9.0_f64,
    );
    let layer = layer.prop_map(|(forward, backward, overhead, parameters, output)| Layer {
        forward_s: forward,
        backward_s: backward,
        overhead_s: overhead,
        parameter_bytes: parameters,
        output_bytes: output,
    });
    let counts = (1..3_u32, 1..200_u64, 1..9_u32);
    let parts = (any::<bool>(), any::<bool>(), any::<bool>());
    (
        vec(layer, 8..10),
        vec(0..8_usize, 1..6),
        counts,
        parts,
        0..4_u32,
    )
        .prop_map(
            |(layers, mut frozen, (nodes, samples, batch), (repack, replicate, cache), halves)| {
                frozen.sort_unstable();
                Request {
                    layers,
                    frozen,
                    nodes,
                    devices_per_node: 8,
                    pipeline: 8 >> halves,
                    samples,
                    batch,
                    chunks: None,
                    link: link(50.0, 0.01),
                    all_reduce: link(20.0, 0.02),
                    frozen_share: 1.0 / 6.0,
                    cache_s: 0.3,
                    transition_s: 2.0,
                    parts: Parts {
                        repack,
                        replicate,
                        cache,
                    },
                    schedule: "gpipe".to_owned(),
                }
            },
        )
}

/// Bytes of the fullest stage.
fn fullest(request: &Request, frozen: usize, cuts: &[usize]) -> f64 {
    let bytes = |from: usize, to: usize| -> f64 {
        let layers = request.layers.iter().take(to).skip(from);
        layers.map(|l| l.parameter_bytes).sum()
    };
    let mut ends = vec![0];
    ends.extend(cuts);
    ends.push(request.layers.len());
    let held = (1..ends.len()).map(|stage| {
        let own = bytes(ends[stage - 1].max(frozen), ends[stage].max(frozen));
        own + if stage == 1 {
            request.frozen_share * bytes(0, frozen)
        } else {
            0.0
        }
    });
    held.fold(0.0, f64::max)
}

/// Least fullest stage over all cuts of the active layers.
fn least_fullest(request: &Request, frozen: usize, stages: usize) -> f64 {
    fn each(
        from: usize,
        left: usize,
        to: usize,
        cuts: &mut Vec<usize>,
        see: &mut dyn FnMut(&[usize]),
    ) {
        if left == 0 {
            return see(cuts);
        }
        for cut in from..=to - left {
            cuts.push(cut);
            each(cut + 1, left - 1, to, cuts, see);
            cuts.pop();
        }
    }
    let mut least = f64::INFINITY;
    let mut see = |cuts: &[usize]| least = least.min(fullest(request, frozen, cuts));
    each(
        frozen + 1,
        stages - 1,
        request.layers.len(),
        &mut Vec::new(),
        &mut see,
    );
    least
}

/// `GPipe`'s step in closed form, from the layers alone.
fn step(request: &Request, (frozen, cached): (usize, usize), cuts: &[usize], chunks: u32) -> f64 {
    let many = f64::from(chunks);
    let mut ends = vec![0];
    ends.extend(cuts);
    ends.push(request.layers.len());
    let (mut sum, mut forward, mut backward) = (0.0, 0.0_f64, 0.0_f64);
    for stage in 1..ends.len() {
        let (mut f, mut b) = (0.0, 0.0);
        if stage == 1 && cached > 0 {
            f += request.cache_s / many;
        }
        for index in ends[stage - 1]..ends[stage] {
            let layer = request.layers[index];
            if index >= cached {
                f += layer.forward_s / many + layer.overhead_s;
            }
            if index >= frozen {
                b += layer.backward_s / many + layer.overhead_s;
            }
        }
        if stage + 1 < ends.len() && ends[stage] > cached {
            let bytes = request.layers[ends[stage] - 1].output_bytes / many;
            sum += 2.0 * (bytes / 50.0 + 0.01);
        }
        sum += f + b;
        (forward, backward) = (forward.max(f), backward.max(b));
    }
    sum + (many - 1.0) * (forward + backward)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn each_epoch_takes_the_time_of_its_steps(request in any_request()) {
        let training = train(&request);
        let mut before = 0;
        for (epoch, &frozen) in training.epochs.iter().zip(&request.frozen) {
            let cached = if request.parts.cache { before } else { 0 };
            prop_assert_eq!((epoch.frozen, epoch.cached), (frozen, cached));
            let of = |chunks| step(&request, (frozen, cached), &epoch.cuts, chunks);
            let most = request.batch.min(6 * epoch.pipeline);
            let tried = (epoch.pipeline.min(most)..=most).map(of);
            let best = tried.fold(f64::INFINITY, f64::min);
            prop_assert!(close(of(epoch.chunks), best), "{epoch:?}");
            let active = request.layers[frozen..].iter().map(|l| l.parameter_bytes);
            let replicas = f64::from(epoch.replicas);
            let exchange = active.sum::<f64>() / replicas / 20.0 + 0.02;
            let exchange = 2.0 * (replicas - 1.0) * exchange;
            prop_assert!(close(epoch.all_reduce_s, exchange));
            prop_assert!(close(epoch.step_time_s, best + exchange), "{epoch:?} against {best}");
            let steps = (request.samples as f64 / (replicas * f64::from(request.batch))).ceil();
            let changed = if frozen == before { 0.0 } else { request.transition_s };
            prop_assert!(close(epoch.time_s, steps * epoch.step_time_s + changed));
            before = frozen;
        }
        let time: f64 = training.epochs.iter().map(|e| e.time_s).sum();
        prop_assert!(close(training.time_s, time));
        prop_assert!(close(training.speedup, training.plain_s / time));
    }

    #[test]
    fn pipelines_shrink_as_soon_as_the_active_layers_fit_half(request in any_request()) {
        let training = train(&request);
        let limit = least_fullest(&request, 0, request.pipeline as usize);
        let (mut pipeline, mut before) = (request.pipeline, 0);
        for epoch in &training.epochs {
            let more = std::mem::replace(&mut before, epoch.frozen) < epoch.frozen;
            let active = request.layers.len() - epoch.frozen;
            let fits = |p: u32| {
                let held = least_fullest(&request, epoch.frozen, (p as usize).min(active));
                held <= limit * (1.0 + 1e-9)
            };
            let repack = request.parts.repack;
            while repack && more && pipeline > 1 && (pipeline as usize > active || fits(pipeline / 2)) {
                pipeline /= 2;
            }
            prop_assert_eq!(epoch.pipeline, pipeline);
            if repack {
                let held = fullest(&request, epoch.frozen, &epoch.cuts);
                let least = least_fullest(&request, epoch.frozen, pipeline as usize);
                prop_assert!(close(held, least), "{epoch:?}: {held} against {least}");
            }
            let shrunk = if request.parts.replicate { pipeline } else { request.pipeline };
            prop_assert_eq!(epoch.replicas, request.nodes * (8 / shrunk));
        }
    }

    #[test]
    fn nothing_frozen_changes_nothing(mut request in any_request()) {
        request.frozen.fill(0);
        let training = train(&request);
        prop_assert!(close(training.speedup, 1.0), "{training:?}");
    }

    #[test]
    fn a_share_of_what_is_active_freezes(freezable in 0..100_usize, alpha in 0.0..1.0_f64) {
        let frozen = frozen_by(freezable, alpha, 12, 2).expect("a share");
        prop_assert_eq!(frozen[0], 0);
        prop_assert!(frozen.windows(2).all(|pair| pair[0] <= pair[1]));
        prop_assert!(frozen.iter().all(|n| *n <= freezable));
        prop_assert!(frozen.chunks(2).all(|pair| pair[0] == pair[1]));
        let mut active = freezable as f64;
        for epoch in (2..12).step_by(2) {
            active -= alpha * active;
            prop_assert!((freezable as f64 - frozen[epoch] as f64 - active).abs() < 1.0 + 1e-6);
        }
    }
}

#[test]
fn a_third_of_twelve_layers_freezes_each_epoch() {
    let frozen = frozen_by(12, 1.0 / 3.0, 6, 1).expect("a share");
    assert_eq!(frozen, [0, 4, 6, 8, 9, 10]);
}

/// ViT-B/16 in halves of layers on 2 nodes of 8 devices, 400 images a pipeline: 12 layers of 7.1 M
/// parameters; 1.2 TFLOP forward a layer at an assumed 5 TFLOP/s; activations and gradients in fp32.
fn vision(frozen: &[usize]) -> Request {
    let layer = Layer {
        forward_s: 0.12,
        backward_s: 0.24,
        overhead_s: 0.4e-3,
        parameter_bytes: 3.55e6 * 4.0,
        output_bytes: 400.0 * 197.0 * 768.0 * 4.0,
    };
    let head = Layer {
        forward_s: 1e-3,
        backward_s: 2e-3,
        parameter_bytes: 0.77e6 * 4.0,
        ..layer
    };
    let mut layers = vec![layer; 24];
    layers.push(head);
    Request {
        layers,
        frozen: frozen.iter().map(|n| 2 * n).collect(),
        nodes: 2,
        devices_per_node: 8,
        pipeline: 8,
        samples: 1_281_167,
        batch: 400,
        chunks: None,
        link: link(15.754e9, 10e-6),
        all_reduce: link(5e9, 50e-6),
        frozen_share: 1.0 / 6.0,
        cache_s: 0.0,
        transition_s: 0.0,
        parts: Parts::default(),
        schedule: "gpipe".to_owned(),
    }
}

#[test]
fn elastic_pipelines_gain_what_freezing_alone_does_not() {
    let frozen = frozen_by(12, 1.0 / 3.0, 10, 1).expect("a share");
    let with = |repack, replicate, cache| {
        let mut request = vision(&frozen);
        request.parts = Parts {
            repack,
            replicate,
            cache,
        };
        train(&request).speedup
    };
    let all = with(true, true, true);
    let (alone, packed) = (with(false, false, false), with(true, false, false));
    let uncached = with(true, true, false);
    // packed alone, active layers wait for the frozen ones before them on one device
    assert!(
        packed < uncached && packed < alone,
        "{packed} {uncached} {alone}"
    );
    assert!(all > with(true, false, true) && all > alone && all > uncached);
    // published: 2.83 times, for a number of epochs that is not told
    assert!((1.8..3.0).contains(&all), "{all}");
    // where frozen layers take no memory, pipelines shrink sooner and to one device
    let mut request = vision(&frozen);
    request.frozen_share = 0.0;
    let free = train(&request);
    let lengths: Vec<u32> = free.epochs.iter().map(|e| e.pipeline).collect();
    assert_eq!(lengths, [8, 8, 4, 4, 2, 2, 2, 1, 1, 1]);
    assert!((all..3.0).contains(&free.speedup), "{}", free.speedup);
}

#[test]
fn what_is_wrong_is_refused_with_the_field() {
    let said = |request: &Request| {
        progressive_freezing(request, &Control::default())
            .expect_err("wrong")
            .to_string()
    };
    assert!(said(&vision(&[4, 2])).contains("frozen[1]: got 4; allowed: 8 to 24"));
    assert!(said(&vision(&[13])).contains("frozen[0]: got 26"));
    let mut request = vision(&[0]);
    request.pipeline = 9;
    assert!(said(&request).contains("pipeline: got 9"));
    request = vision(&[0]);
    request.schedule = "gpip".to_owned();
    assert!(said(&request).contains("nearest: gpipe"));
    request = vision(&[0]);
    request.layers[3].forward_s = -1.0;
    assert!(said(&request).contains("layers[3].forward_s"));
    assert!(frozen_by(12, 1.5, 3, 1).is_err());
}

#[test]
fn a_run_that_is_to_stop_stops_and_says_how_far_it_came() {
    let control = Control::default();
    control.cancel();
    let stopped = progressive_freezing(&vision(&[0; 4]), &control);
    let said = stopped.unwrap_err().to_string();
    assert!(said.contains("0 of 4 epochs"), "{said}");
}
