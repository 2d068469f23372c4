//! Do prices of prefill, decode and experts respect the memory they read and grow with the work?

#![allow(clippy::unwrap_used, clippy::panic)] // the lints' own exemption ends at test functions

use proptest::prelude::*;
use scalewright::hardware::Device;
use scalewright::operator_cost::{KernelCost, Timed, TimedDecode, TimedExperts, TimedPrefill};
use scalewright::units::Dtype;

/// A device of the catalog.
fn catalog(name: &str) -> Device {
    let path = format!("python/scalewright/catalog/devices/{name}.toml");
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn devices() -> impl Strategy<Value = Device> {
    let device = prop_oneof![
        Just(catalog("a100-sxm-80gb")),
        Just(catalog("h100-sxm")),
        Just(catalog("b200-sxm")),
    ];
    // the library may take a slower kernel where few blocks run: laws hold within one kernel; one that it
    // asks for the blocks to be filled starts those out of sight, too
    let occupancy = prop_oneof![Just(0.0), Just(1e-9)];
    (device, occupancy).prop_map(|(mut device, occupancy)| {
        for cache in [Dtype::Bf16, Dtype::Fp8] {
            device.decode.entry(cache).or_default().least_occupancy = occupancy;
        }
        device
    })
}

fn formats() -> impl Strategy<Value = Dtype> {
    prop_oneof![Just(Dtype::Bf16), Just(Dtype::Fp8)]
}

/// Sequences, key heads, queries to a key, width.
fn heads() -> impl Strategy<Value = [f64; 4]> {
    (
        0..9_u32,
        0..4_u32,
        1..80_u32,
        prop_oneof![Just(64.0), Just(128.0), Just(192.0), Just(256.0)],
    )
        .prop_map(|(batch, kv_heads, rows, width)| {
            let kv_heads = 2.0_f64.powi(kv_heads.cast_signed());
            let batch = 2.0_f64.powi(batch.cast_signed());
            [batch, kv_heads, f64::from(rows), width]
        })
}

fn decode(cache: Dtype, warm: bool, shared: bool) -> Timed {
    Timed::Decode(TimedDecode {
        cache,
        shared_values: shared,
        warm,
    })
}

fn decoded(
    kernel: Timed,
    [batch, kv_heads, rows, width]: [f64; 4],
    keys: f64,
    window: f64,
    device: &Device,
) -> KernelCost {
    let shape = [batch, keys, kv_heads * rows, kv_heads, width, window];
    kernel.cost(&shape, device).unwrap()
}

fn prefilled(
    cache: Dtype,
    [batch, kv_heads, rows, width]: [f64; 4],
    queries: f64,
    cached: f64,
    window: f64,
    device: &Device,
) -> f64 {
    let kernel = Timed::Prefill(TimedPrefill {
        queries: Dtype::Bf16,
        cache,
        warm: true,
    });
    let heads = kv_heads * rows;
    let shape = [batch, queries, cached, heads, kv_heads, width, window];
    kernel.cost(&shape, device).unwrap().time.value()
}

fn experts(tokens: f64, ranks: f64, skew: f64, device: &Device) -> f64 {
    routed(tokens, ranks, [skew, 0.0], device)
}

/// Seconds of a mixture's experts under a power law, or by chance where the second number says so.
fn routed(tokens: f64, ranks: f64, [skew, random]: [f64; 2], device: &Device) -> f64 {
    let kernel = Timed::Experts(TimedExperts {
        rows: Dtype::Bf16,
        weight_bytes: 2.0,
        gated: true,
        warm: true,
    });
    let shape = [tokens, 4096.0, 1536.0, 8.0, 128.0, 1.0, ranks, skew, random];
    kernel.cost(&shape, device).unwrap().time.value()
}

/// Bytes a second of the fastest tier that holds so many bytes, at its pin rate.
fn fastest(bytes: f64, device: &Device) -> f64 {
    let main = device.main_memory();
    let cache = device.cache().filter(|c| c.capacity.value() >= bytes);
    let cached = cache.map_or(0.0, |c| c.bandwidth.value());
    cached.max(main.bandwidth.value())
}

proptest! {
    #[test]
    fn decode_is_no_faster_than_reading_its_cache(
        device in devices(), cache in formats(), heads in heads(), keys in 1.0..200_000.0_f64,
        warm in any::<bool>(),
    ) {
        let [batch, kv_heads, _, width] = heads;
        let keys = keys.floor();
        let bytes = 2.0 * batch * kv_heads * keys * width * cache.bytes();
        let rate = if warm { fastest(bytes, &device) } else { device.main_memory().bandwidth.value() };
        let cost = decoded(decode(cache, warm, false), heads, keys, 0.0, &device);
        prop_assert!(cost.time.value() >= bytes / rate);
        prop_assert!(cost.traffic.value() == 0.0 || cost.traffic.value() >= bytes);
    }

    #[test]
    fn decode_with_more_keys_or_sequences_is_no_faster(
        device in devices(), cache in formats(), heads in heads(), keys in 1.0..50_000.0_f64,
        more in 1.0..3.0_f64,
    ) {
        let kernel = decode(cache, true, false);
        let one = decoded(kernel, heads, keys.floor(), 0.0, &device).time;
        let longer = decoded(kernel, heads, (keys * more).floor(), 0.0, &device).time;
        prop_assert!(longer >= one);
        let [batch, kv_heads, rows, width] = heads;
        let wider = [(batch * more).ceil(), kv_heads, rows, width];
        prop_assert!(decoded(kernel, wider, keys.floor(), 0.0, &device).time >= one);
    }

    /// All queries of a sequence share one wide key, which is its value, too.
    #[test]
    fn a_latent_cache_is_read_once_and_multiplied_no_faster_than_the_peak(
        device in devices(), batch in 1..300_u32, blocks in 1..9_u32, keys in 1.0..50_000.0_f64,
    ) {
        let keys = keys.floor();
        let kernel = decode(Dtype::Bf16, false, true);
        let priced = |rows: f64| decoded(kernel, [f64::from(batch), 1.0, rows, 576.0], keys, 0.0, &device);
        let of = |rows: f64| priced(rows).time.value();
        let rows = 64.0 * f64::from(blocks);
        let time = of(rows);
        let elements = f64::from(batch) * keys * 576.0;
        prop_assert!(time >= 2.0 * elements / device.main_memory().bandwidth.value());
        prop_assert!(time >= 4.0 * elements * rows / device.engine_peak(Dtype::Bf16).value());
        prop_assert!(of(rows - 1.0) <= time && time <= of(rows + 1.0));
        prop_assert!(of(2.0 * rows) <= 2.0 * time);
        // the kernel that is taken moves the cache once, the one for other caches keys and values
        let longest = Dtype::Bf16.bytes() * f64::from(batch) * 576.0 * (keys + 2.0 * rows);
        let moved = priced(rows).traffic.value();
        prop_assert!(moved >= 2.0 * elements && (keys < 1000.0 || moved <= longest * (1.0 + 1e-9)));
    }

    #[test]
    fn keys_out_of_sight_save_no_time(
        device in devices(), cache in formats(), heads in heads(), keys in 1.0..50_000.0_f64,
        window in 1.0..10_000.0_f64, more in 1.0..30.0_f64,
    ) {
        let kernel = decode(cache, true, false);
        let priced = |keys: f64| decoded(kernel, heads, keys.floor(), window.floor(), &device).time;
        prop_assert!(priced(keys * more) >= priced(keys));
    }

    #[test]
    fn a_window_or_shared_values_cost_nothing(
        device in devices(), cache in formats(), heads in heads(), keys in 1.0..50_000.0_f64,
        window in 1.0..50_000.0_f64,
    ) {
        let (keys, window) = (keys.floor(), window.floor());
        let whole = decoded(decode(cache, true, false), heads, keys, 0.0, &device).time;
        let seen = decoded(decode(cache, true, false), heads, keys, window, &device).time;
        prop_assert!(seen <= whole);
        prop_assert!(window < keys || seen == whole);
        prop_assert!(decoded(decode(cache, true, true), heads, keys, 0.0, &device).time <= whole);
    }

    #[test]
    fn prefill_of_more_is_no_faster(
        device in devices(), cache in formats(), heads in heads(), queries in 1.0..20_000.0_f64,
        cached in 0.0..20_000.0_f64, more in 1.0..3.0_f64,
    ) {
        let (queries, cached) = (queries.floor(), cached.floor());
        let price = |queries: f64, cached: f64| {
            prefilled(cache, heads, queries, cached, 0.0, &device)
        };
        let one = price(queries, cached);
        prop_assert!(price((queries * more).floor(), cached) >= one);
        prop_assert!(price(queries, (cached * more).floor()) >= one);
    }

    #[test]
    fn prefill_is_no_faster_than_its_products_at_peak(
        device in devices(), heads in heads(), queries in 1.0..20_000.0_f64,
        window in 0.0..20_000.0_f64,
    ) {
        let [batch, kv_heads, rows, width] = heads;
        let (queries, window) = (queries.floor(), window.floor());
        let seen = if window > 0.0 { window.min(queries) } else { queries };
        let pairs = seen * (seen + 1.0) / 2.0 + (queries - seen) * seen;
        let flops = 4.0 * batch * kv_heads * rows * width * pairs;
        // kernels of the widest heads, or of a narrow cache, may run at other rates than the usual one
        let model = &device.prefill[&Dtype::Bf16];
        let best = 1.0_f64.max(model.cast) / device.attention.wide.min(1.0);
        let peak = device.matrix_peak(Dtype::Bf16).unwrap().value() * best;
        let time = prefilled(Dtype::Bf16, heads, queries, 0.0, window, &device);
        prop_assert!(time >= flops / peak);
    }

    #[test]
    fn experts_of_more_tokens_are_no_faster(
        device in devices(), tokens in 1.0..20_000.0_f64, more in 1.0..3.0_f64,
        ranks in prop_oneof![Just(1.0), Just(8.0), Just(64.0)],
    ) {
        let tokens = tokens.floor();
        let one = experts(tokens, ranks, 0.0, &device);
        prop_assert!(experts((tokens * more).floor(), ranks, 0.0, &device) >= one);
        prop_assert!(one >= device.experts.get(&Dtype::Bf16).map_or(0.0, |m| m.launch.value()));
    }

    #[test]
    fn a_skewed_load_is_no_lighter_on_the_fullest_device(
        device in devices(), tokens in 64.0..20_000.0_f64,
    ) {
        // more rows on the device, though on fewer experts: priced where products bind
        let tokens = (tokens + 4096.0).floor();
        let even = experts(tokens, 16.0, 0.0, &device);
        prop_assert!(experts(tokens, 16.0, 1.2, &device) >= even * 0.9);
    }

    #[test]
    fn few_choices_by_chance_read_no_more_weights_than_balanced_ones(
        device in devices(), tokens in 1.0..64.0_f64,
    ) {
        let tokens = tokens.floor();
        let even = experts(tokens, 1.0, 0.0, &device);
        let chance = routed(tokens, 1.0, [0.0, 1.0], &device);
        // tiles are fuller where fewer experts share the rows, but never by more than they hold
        prop_assert!(chance <= even * 1.15, "{chance} {even}");
    }

    #[test]
    fn prices_are_finite(
        device in devices(), numbers in prop::array::uniform8(prop_oneof![Just(0.0), 0.0..1e12_f64]),
        cache in formats(),
    ) {
        let [a, b, c, d, e, f, g, _] = numbers;
        let queries = if device.matrix_peak(Dtype::Fp8).is_some() { Dtype::Fp8 } else { Dtype::Bf16 };
        let prompt = TimedPrefill { queries, cache, warm: true };
        let cost = Timed::Prefill(prompt).cost(&[a, b, c, d, e, f, g], &device).unwrap();
        prop_assert!(cost.time.value().is_finite() && cost.time.value() >= 0.0);
        let cost = decode(cache, true, true).cost(&[a, b, c, d, e, f], &device).unwrap();
        prop_assert!(cost.time.value().is_finite() && cost.time.value() >= 0.0);
    }
}

#[test]
fn experts_that_cannot_be_are_refused_by_name() {
    let kernel = Timed::Experts(TimedExperts {
        rows: Dtype::Bf16,
        weight_bytes: 2.0,
        gated: true,
        warm: false,
    });
    let device = catalog("h100-sxm");
    for (at, wrong, named) in [
        (3, 300.0, "topk"),
        (4, 0.0, "experts"),
        (4, 1e6, "experts"),
        (5, 0.0, "tensor_parallel"),
        (6, 3.0, "expert_parallel"),
        (7, 9.0, "skew"),
        (8, 1.0, "skew"),
    ] {
        let skew = if at == 8 { 1.2 } else { 0.0 };
        let mut shape = [64.0, 4096.0, 1536.0, 8.0, 128.0, 1.0, 1.0, skew, 0.0];
        shape[at] = wrong;
        let error = kernel.cost(&shape, &device).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_device_without_tables_of_its_own_gets_the_usual_ones() {
    let mut device = catalog("h100-sxm");
    device.decode.clear();
    device.prefill.clear();
    device.experts.clear();
    let heads = [8.0, 8.0, 4.0, 128.0];
    let time = decoded(
        decode(Dtype::Bf16, true, false),
        heads,
        4096.0,
        0.0,
        &device,
    )
    .time;
    assert!(time.value() > 1e-6 && time.value() < 1e-3);
    assert!(prefilled(Dtype::Bf16, heads, 1024.0, 0.0, 0.0, &device) > 1e-5);
    assert!(experts(64.0, 1.0, 0.0, &device) > 1e-5);
}

/// Blocks for the keys that a window hides are started where the library counts the whole past, and only there.
#[test]
fn a_long_past_starts_blocks_that_see_nothing() {
    let mut device = catalog("h100-sxm");
    let heads = [8.0, 2.0, 8.0, 64.0];
    let times = |device: &Device| {
        let kernel = decode(Dtype::Bf16, true, false);
        [1024.0, 131_072.0].map(|keys| decoded(kernel, heads, keys, 128.0, device).time.value())
    };
    let [short, long] = times(&device);
    assert!(long > short + 5e-6, "{long} {short}");
    for model in device.decode.values_mut() {
        model.least_occupancy = 0.0;
    }
    let [short, long] = times(&device);
    assert!((long / short - 1.0).abs() < 1e-12, "{long} {short}");
}
