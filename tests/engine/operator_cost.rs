//! Does a kernel's price respect the roofline, grow with the work, and match measured kernels?

#![allow(clippy::unwrap_used, clippy::panic)] // the lints' own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::hardware::{Device, ProductModel};
use scalewright::operator_cost::{Kernel, KernelCost};
use scalewright::units::{Bytes, BytesPerSecond, Dtype, FlopsPerSecond, Seconds};

/// One matrix product in bf16.
fn matmul(batch: f64, m: f64, n: f64, k: f64) -> Kernel {
    Kernel::Matmul {
        batch,
        m,
        n,
        k,
        dtype: Dtype::Bf16,
        output_bytes: 2.0,
        transposed: false,
        added: false,
        in_turn: false,
    }
}

/// Causal self-attention over `sequence` positions.
fn attention(heads: f64, kv_heads: f64, sequence: f64, width: f64, backward: bool) -> Kernel {
    Kernel::Attention {
        batch_heads: heads,
        batch_kv_heads: kv_heads,
        queries: sequence,
        visible: f64::midpoint(sequence, 1.0),
        longest: sequence,
        hidden: 0.0,
        keys: sequence,
        query_dim: width,
        value_dim: width,
        dtype: Dtype::Bf16,
        backward,
    }
}

fn pass(bytes: f64, launches: f64) -> Kernel {
    Kernel::Memory {
        bytes: Bytes::new(bytes),
        launches,
    }
}

fn seconds(kernel: Kernel, device: &Device) -> f64 {
    kernel.cost(device).time.value()
}

fn with_bandwidth(factor: f64) -> Device {
    let mut device = worlds::a100();
    for tier in &mut device.tiers {
        tier.bandwidth = BytesPerSecond::new(tier.bandwidth.value() * factor);
    }
    device
}

fn with_peak(factor: f64) -> Device {
    let mut device = worlds::a100();
    for peak in device.matrix.values_mut() {
        *peak = FlopsPerSecond::new(peak.value() * factor);
    }
    device
}

/// A tensor processor: two cores, large scratchpad, default constants.
fn two_cores() -> Device {
    worlds::device(
        r#"{"name": "two-cores", "title": "Two cores", "vendor": "nobody", "year": 2021,
        "matrix": {"bf16": "275 TFLOP/s"}, "vector": "4.3 TFLOP/s",
        "tiers": [{"name": "cmem", "kind": "sram", "capacity": "160 MiB", "bandwidth": "26 TB/s"},
                  {"name": "hbm", "kind": "hbm", "capacity": "32 GiB", "bandwidth": "1.2 TB/s"}],
        "launch_overhead": "1.5 us", "power": {"peak": 192, "idle": 90}, "matmul": {"units": 2}}"#,
    )
}

/// A wafer: one unit and one tier, both vast.
fn wafer() -> Device {
    worlds::device(
        r#"{"name": "wafer", "title": "Wafer", "vendor": "nobody", "year": 2021,
        "matrix": {"fp16": "7500 TFLOP/s"}, "vector": "1000 TFLOP/s",
        "tiers": [{"name": "sram", "kind": "sram", "capacity": "40 GB", "bandwidth": "20 PB/s"}],
        "launch_overhead": "1 us", "power": {"peak": 15000, "idle": 5000}}"#,
    )
}

fn extent() -> impl Strategy<Value = f64> {
    (0.0..17.0_f64).prop_map(|power| power.exp2().round())
}

fn kernel() -> impl Strategy<Value = Kernel> {
    let product = (1.0..64.0_f64, extent(), extent(), extent())
        .prop_map(|(batch, m, n, k)| matmul(batch.floor(), m, n, k));
    let flash = (extent(), extent(), 16.0..256.0_f64, any::<bool>())
        .prop_map(|(heads, s, width, backward)| attention(heads, heads, s, width, backward));
    let stream = (0.0..1e12_f64, 1.0..9.0_f64).prop_map(|(bytes, n)| pass(bytes, n.floor()));
    prop_oneof![product, flash, stream]
}

proptest! {
    #[test]
    fn no_faster_than_the_roofline(kernel in kernel()) {
        for device in [worlds::a100(), worlds::h100(), two_cores(), wafer()] {
            let cost = kernel.cost(&device);
            let peak = device.engine_peak(Dtype::Bf16).value();
            prop_assert!(cost.time.value() >= cost.flops.value() / peak);
            let rate = device.main_memory().bandwidth.value();
            prop_assert!(cost.time.value() >= cost.traffic.value() / rate);
        }
    }

    #[test]
    fn a_set_that_is_gone_from_the_cache_crosses_the_bus(m in extent(), n in extent(), k in extent()) {
        let device = worlds::a100();
        let bytes = 2.0 * (m * k + k * n + m * n);
        let cost = matmul(1.0, m, n, k).cost(&device);
        let capacity = device.cache().unwrap().capacity.value();
        prop_assert!(cost.traffic.value() <= bytes);
        if bytes >= 1.1 * device.matmul.cache_share * capacity {
            prop_assert!((cost.traffic.value() / bytes - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn more_bandwidth_or_peak_is_never_slower(kernel in kernel(), factor in 1.0..8.0_f64) {
        let now = seconds(kernel, &worlds::a100());
        prop_assert!(seconds(kernel, &with_bandwidth(factor)) <= now * (1.0 + 1e-12));
        prop_assert!(seconds(kernel, &with_peak(factor)) <= now * (1.0 + 1e-12));
    }

    /// A larger product may fill the tiles or the parts of a split better, but not by much.
    #[test]
    fn more_work_is_not_faster(m in extent(), n in extent(), k in extent(), more in 1.0..4.0_f64) {
        for device in [worlds::a100(), worlds::b200(), two_cores()] {
            let now = seconds(matmul(1.0, m, n, k), &device);
            for larger in [
                matmul(1.0, (m * more).ceil(), n, k),
                matmul(1.0, m, (n * more).ceil(), k),
                matmul(1.0, m, n, (k * more).ceil()),
                matmul(2.0, m, n, k),
            ] {
                prop_assert!(seconds(larger, &device) >= now * 0.97);
            }
        }
    }

    #[test]
    fn prices_are_finite(
        extents in prop::array::uniform4(0.0..1e9_f64),
        dtype in prop::sample::select(Dtype::ALL.to_vec()),
    ) {
        let [batch, m, n, k] = extents;
        let kernel = Kernel::Matmul { batch, m, n, k, dtype, output_bytes: dtype.bytes(), transposed: false, added: false, in_turn: false };
        for device in [worlds::a100(), worlds::gb300(), two_cores(), wafer()] {
            let cost = kernel.cost(&device);
            prop_assert!(cost.time.value().is_finite() && cost.time.value() >= 0.0);
            prop_assert!(cost.traffic.value().is_finite() && cost.traffic.value() >= 0.0);
        }
    }
}

/// A gradient of a weight of `m` x `n` from `k` tokens, which is written once or added to an fp32 sum.
fn gradient(m: f64, n: f64, k: f64, added: bool) -> Kernel {
    Kernel::Matmul {
        batch: 1.0,
        m,
        n,
        k,
        dtype: Dtype::Bf16,
        output_bytes: if added { 8.0 } else { 2.0 },
        transposed: true,
        added,
        in_turn: false,
    }
}

/// What a sum costs does not depend on the depth, so that it weighs less the deeper the product.
#[test]
fn a_sum_takes_as_long_whatever_the_depth() {
    let device = worlds::a100();
    let sum = |k: f64| {
        let priced = |added| seconds(gradient(8192.0, 8192.0, k, added), &device);
        priced(true) - priced(false)
    };
    assert!(sum(65536.0) > 0.0);
    assert!((sum(65536.0) / sum(131_072.0) - 1.0).abs() < 0.05);
    let rate = device.tiers.last().unwrap().bandwidth.value();
    assert!(sum(65536.0) < 8192.0 * 8192.0 * 8.0 / (0.8 * rate));
}

/// Where nothing overlaps, a product takes what its arithmetic and its traffic take alone.
#[test]
fn without_overlap_traffic_and_arithmetic_add() {
    let beside = |device: &Device| {
        let product = matmul(1.0, 512.0, 8192.0, 2048.0);
        seconds(product, device) - device.launch_overhead.value()
    };
    let with = |overlap: f64, memory: f64, peak: f64| {
        let mut device = with_bandwidth(memory);
        let rate = device.matrix[&Dtype::Bf16].value() * peak;
        device.matrix.insert(Dtype::Bf16, FlopsPerSecond::new(rate));
        device.matmul.depth_time = Seconds::ZERO;
        device.matmul.overlap = overlap;
        beside(&device)
    };
    let (engine, traffic) = (with(1.0, 1e12, 1.0), with(1.0, 1.0, 1e12));
    let (sum, longer) = (with(1.0, 1.0, 1.0), engine.max(traffic));
    assert!((sum / (engine + traffic) - 1.0).abs() < 1e-6);
    let squares = with(2.0, 1.0, 1.0);
    assert!((squares / engine.hypot(traffic) - 1.0).abs() < 1e-6);
    let better = with(2.5, 1.0, 1.0);
    assert!(longer < better && better < squares && squares < sum);
}

/// A library that may split a depth into more parts is never slower, and quicker where few tiles are deep.
#[test]
fn more_splits_serve_few_deep_tiles() {
    let mut device = worlds::a100();
    let mut priced = |most: f64, m: f64, k: f64| {
        device.matmul.most_splits = most;
        seconds(matmul(1.0, m, 64.0, k), &device)
    };
    for m in [1.0, 64.0, 500.0, 4096.0] {
        for k in [64.0, 4096.0, 65536.0] {
            assert!(priced(32.0, m, k) <= priced(16.0, m, k));
        }
    }
    assert!(priced(32.0, 64.0, 65536.0) < 0.8 * priced(16.0, 64.0, 65536.0));
}

/// A wave that keeps few units busy costs no more where it is their share that counts, no less than that
/// share, and as much as before where every tile of the library fills the units several times.
#[test]
fn an_only_wave_costs_its_least_share_at_least() {
    let mut device = with_bandwidth(1e12);
    device.launch_overhead = Seconds::ZERO;
    let mut priced = |least: f64, m: f64, n: f64, k: f64| {
        device.matmul.least_wave = least;
        seconds(matmul(1.0, m, n, k), &device)
    };
    for m in [1.0, 64.0, 500.0, 2048.0] {
        for k in [64.0, 4096.0, 16384.0] {
            let (whole, half) = (priced(1.0, m, 512.0, k), priced(0.5, m, 512.0, k));
            assert!(half <= whole && half >= 0.5 * whole);
        }
    }
    // one tile of any shape on 108 units, too shallow to split
    let (whole, half) = (
        priced(1.0, 64.0, 64.0, 128.0),
        priced(0.5, 64.0, 64.0, 128.0),
    );
    let least = 0.5 + 0.5 / 108.0;
    assert!((half / whole - least).abs() < 1e-4, "{}", half / whole);
    let mut large = |least| priced(least, 8192.0, 8192.0, 4096.0);
    assert!((large(0.5) - large(1.0)).abs() <= f64::EPSILON * large(1.0));
}

/// Where the library has tiles of 80 rows, 80 rows are not padded to 128; a further choice of tiles is never
/// slower.
#[test]
fn fine_tiles_waste_no_rows() {
    let mut device = with_bandwidth(1e15);
    let mut priced = |fine: bool, m: f64| {
        device.matmul.fine_tiles = fine;
        seconds(matmul(1.0, m, 17_408.0, 5_120.0), &device)
    };
    for m in [1.0, 48.0, 64.0, 80.0, 100.0, 224.0, 5_000.0] {
        assert!(priced(true, m) <= priced(false, m));
    }
    assert!(priced(true, 80.0) < 0.9 * priced(false, 80.0));
    assert!(priced(true, 80.0) < priced(true, 128.0));
}

/// A device whose products in bf16 are those of `family`, with memory `memory` times as fast.
fn with_few_rows(family: ProductModel, memory: f64) -> Device {
    let mut device = with_bandwidth(memory);
    device.launch_overhead = Seconds::ZERO;
    device.matmul.families.insert(Dtype::Bf16, family);
    device
}

/// Kernels for few rows stream at their own rate, and only they do.
#[test]
fn few_rows_stream_at_their_own_rate() {
    let priced = |share: Option<f64>, m: f64| {
        let family = ProductModel {
            memory_efficiency: Some(0.5),
            thin_rows: 16.0,
            thin_memory_efficiency: share,
            ..ProductModel::default()
        };
        let mut device = with_few_rows(family, 1.0);
        for peak in device.matrix.values_mut() {
            *peak = FlopsPerSecond::new(1e21);
        }
        seconds(matmul(1.0, m, 16384.0, 16384.0), &device)
    };
    for m in [1.0, 16.0] {
        let ratio = priced(None, m) / priced(Some(1.0), m);
        assert!((ratio - 2.0).abs() < 1e-3, "{m}: {ratio}");
    }
    assert!((priced(None, 17.0) - priced(Some(1.0), 17.0)).abs() < 1e-15);
}

/// A matrix-vector kernel takes the arithmetic at its share of the vector engine's peak, whatever the
/// matrix engine does; a library that times both takes the quicker.
#[test]
fn few_rows_compute_on_the_vector_engine() {
    let family = |share: f64, timed: bool| ProductModel {
        thin_rows: 8.0,
        thin_efficiency: Some(share),
        thin_timed: timed,
        ..ProductModel::default()
    };
    let (n, k) = (4096.0, 2048.0);
    let priced = |family, m| seconds(matmul(1.0, m, n, k), &with_few_rows(family, 1e12));
    let vector = worlds::a100().vector.value();
    for (share, m) in [(0.25, 1.0), (0.25, 8.0), (1.0, 3.0)] {
        let expected = 2.0 * m * n * k / (share * vector);
        assert!((priced(family(share, false), m) / expected - 1.0).abs() < 1e-3);
    }
    let tiled = priced(ProductModel::default(), 8.0);
    for share in [0.001, 1.0] {
        let alone = priced(family(share, false), 8.0);
        let timed = priced(family(share, true), 8.0);
        assert!((timed - alone.min(tiled)).abs() <= 1e-9 * timed);
    }
    assert!(priced(family(0.001, false), 8.0) > tiled);
}

/// What neither stays on chip whole nor needs more than memory gives is read once for each block.
#[test]
fn blocks_read_operands_again_where_neither_stays_on_chip() {
    let mut device = worlds::a100();
    let cut = |block: f64, m: f64, n: f64, k: f64, device: &mut Device| {
        device.matmul.block = block;
        device.matmul.resident = 0.75;
        matmul(1.0, m, n, k).cost(device)
    };
    device.tiers[0].capacity = Bytes::new(128.0 * 1024.0 * 1024.0);
    let (side, operand) = (8192.0, 8192.0 * 8192.0 * 2.0);
    let [once, again] = [0.0, 1024.0].map(|block| cut(block, side, side, side, &mut device));
    // seven more readings of each
    assert_eq!(again.traffic - once.traffic, Bytes::new(14.0 * operand));
    assert!(again.time > once.time);
    // half of the memory holds the left operand
    let [once, again] = [0.0, 1024.0].map(|block| cut(block, side / 2.0, side, side, &mut device));
    assert_eq!(once.traffic, again.traffic);
    let small = cut(2048.0, side, side, side, &mut device);
    let large = cut(1024.0, side, side, side, &mut device);
    assert!(small.time < large.time);
}

#[test]
fn nothing_to_do_costs_nothing() {
    let device = worlds::a100();
    for kernel in [
        matmul(1.0, 0.0, 4096.0, 4096.0),
        attention(0.0, 0.0, 2048.0, 128.0, true),
        pass(0.0, 0.0),
    ] {
        assert_eq!(kernel.cost(&device), KernelCost::default());
    }
}

#[test]
fn a_launch_is_the_floor() {
    let device = worlds::a100();
    let launch = device.launch_overhead.value();
    assert!(seconds(matmul(1.0, 1.0, 1.0, 1.0), &device) > launch);
    assert!((seconds(pass(0.0, 3.0), &device) - 3.0 * launch).abs() < 1e-15);
}

/// What a device says of streams counts for kernels that move bytes, once for each, and for no product.
#[test]
fn a_streaming_kernel_pays_its_own_overhead() {
    let plain = worlds::b200();
    let mut device = plain.clone();
    device.stream_overhead = Some(plain.launch_overhead * 2.0);
    let launch = plain.launch_overhead.value();
    for launches in [1.0, 16.0] {
        let more = seconds(pass(1e9, launches), &device) - seconds(pass(1e9, launches), &plain);
        assert!((more - launches * launch).abs() < 1e-12, "{more}");
    }
    let product = |device| seconds(matmul(1.0, 512.0, 512.0, 512.0), device);
    assert!((product(&device) - product(&plain)).abs() <= 0.0);
}

/// Traffic without a launch of its own rides in another kernel at the main-memory rate.
#[test]
fn riding_traffic_pays_its_bytes_only() {
    let device = worlds::a100();
    let expected = 1e6 / device.main_memory().sustained().value();
    assert!((seconds(pass(1e6, 0.0), &device) / expected - 1.0).abs() < 1e-12);
}

/// One tile more than the units hold starts a second wave.
#[test]
fn a_wave_more_is_a_step() {
    let device = worlds::a100();
    let full = seconds(matmul(1.0, 128.0 * 9.0, 256.0 * 12.0, 8192.0), &device);
    let more = seconds(
        matmul(1.0, 128.0 * 9.0, 256.0 * 12.0 + 1.0, 8192.0),
        &device,
    );
    assert!(more > full * 1.1, "{more} {full}");
}

/// Plain attention on an A100: the scores of 2,048 positions are limited by writing them.
#[test]
fn thin_batched_products_are_bound_by_their_output() {
    let device = worlds::a100();
    let scores = matmul(96.0, 2048.0, 2048.0, 96.0);
    let written = 96.0 * 2048.0 * 2048.0 * 2.0 / device.main_memory().bandwidth.value();
    let rate = scores.cost(&device).flops.value() / seconds(scores, &device);
    assert!(seconds(scores, &device) > written);
    assert!((80e12..160e12).contains(&rate), "{rate}");
}

#[test]
fn backward_attention_has_five_products_for_two() {
    let device = worlds::h100();
    let forward = attention(64.0, 8.0, 4096.0, 128.0, false).cost(&device);
    let backward = attention(64.0, 8.0, 4096.0, 128.0, true).cost(&device);
    assert!((backward.flops.value() / forward.flops.value() - 2.5).abs() < 1e-12);
    let ratio = backward.time.value() / forward.time.value();
    assert!((2.0..3.5).contains(&ratio), "{ratio}");
}

#[test]
fn a_head_narrower_than_a_systolic_array_takes_as_long_as_one_that_fills_it() {
    let mut free = worlds::h100();
    free.attention.wide = 1.0;
    let mut array = free.clone();
    array.attention.width_step = 256.0;
    for backward in [false, true] {
        let kernel = |width| attention(64.0, 64.0, 16384.0, width, backward);
        let [half, whole] = [128.0, 256.0].map(|width| kernel(width).cost(&array).time.value());
        assert!((0.98..=1.0).contains(&(half / whole)), "{half} {whole}");
        assert_eq!(
            kernel(256.0).cost(&free).time,
            kernel(256.0).cost(&array).time
        );
        assert!(kernel(128.0).cost(&free).time.value() < 0.7 * half);
    }
}

/// Shah et al. 2024 (FlashAttention-3), figure 6: backward on an H100 without a mask, width 128,
/// 16 k tokens of 16 heads: 501 TFLOP/s at 2 k and 561 at 16 k.
#[test]
fn backward_attention_matches_flash_attention_3() {
    for (sequence, published) in [(2048.0, 501e12), (16384.0, 561e12)] {
        let heads = 16.0 * 16384.0 / sequence;
        let kernel = Kernel::Attention {
            batch_heads: heads,
            batch_kv_heads: heads,
            queries: sequence,
            visible: sequence,
            longest: sequence,
            hidden: 0.0,
            keys: sequence,
            query_dim: 128.0,
            value_dim: 128.0,
            dtype: Dtype::Bf16,
            backward: true,
        };
        let cost = kernel.cost(&worlds::h100());
        let rate = cost.flops.value() / cost.time.value();
        assert!((rate / published - 1.0).abs() < 0.08, "{sequence} {rate}");
    }
}

/// Few heads leave units idle.
#[test]
fn few_blocks_lower_the_rate() {
    let device = worlds::h100();
    let rate = |heads: f64| {
        let cost = attention(heads, heads, 1024.0, 128.0, false).cost(&device);
        cost.flops.value() / cost.time.value()
    };
    assert!(rate(2.0) < 0.5 * rate(256.0));
}

fn named(system: &str) -> Device {
    match system {
        "a100_sxm" => worlds::a100(),
        "h100_sxm" => worlds::h100(),
        "b200_sxm" => worlds::b200(),
        "gb300" => worlds::gb300(),
        other => panic!("no world {other}"),
    }
}

/// Rows of a measured table: system, numbers, microseconds.
fn rows(text: &str) -> Vec<(&str, Vec<f64>, f64)> {
    let data = text.lines().filter(|l| !l.starts_with('#')).skip(1);
    data.map(|line| {
        let (system, rest) = line.split_once(',').unwrap();
        let mut numbers: Vec<f64> = rest.split(',').map(|n| n.parse().unwrap()).collect();
        let latency = numbers.pop().unwrap();
        (system, numbers, latency * 1e-6)
    })
    .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Products that the constants were not fitted to: training shapes within 6 % on average.
#[test]
fn products_match_held_out_measurements() {
    let (mut large, mut all) = (Vec::new(), Vec::new());
    for (system, shape, latency) in rows(include_str!("../data/matmul-measured.csv")) {
        let [m, n, k] = shape[..] else {
            panic!("three extents in {shape:?}")
        };
        let error = (seconds(matmul(1.0, m, n, k), &named(system)) / latency - 1.0).abs();
        all.push(error);
        if m.min(n).min(k) >= 1024.0 {
            large.push(error);
        }
    }
    assert!(all.len() >= 40);
    assert!(mean(&large) < 0.06, "large {}", mean(&large));
    assert!(mean(&all) < 0.10, "all {}", mean(&all));
}
