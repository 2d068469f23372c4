//! Does matrix work in a step run at the rate that lasts, and traffic at its own?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use crate::worlds;

use proptest::prelude::*;
use scalewright::estimate::Pricer;
use scalewright::hardware::{Cluster, Device};
use scalewright::operator_cost::{Kernel, Pace};
use scalewright::units::{Bytes, Dtype, FlopsPerSecond};

/// Devices of the catalog whose lasting rate is known.
const KNOWN: [&str; 7] = [
    "a100-sxm-80gb",
    "a100-sxm-40gb",
    "h100-sxm",
    "h200-sxm",
    "h800-sxm",
    "b200-sxm",
    "gb300",
];

/// Exponents by which traffic and arithmetic may add.
const OVERLAPS: [f64; 4] = [1.0, 2.0, 2.5, 8.0];

fn catalog(name: &str) -> Device {
    let path = format!("python/scalewright/catalog/devices/{name}.toml");
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A run of one such device: no slower one holds it up.
fn run(device: Device) -> Cluster {
    let mut cluster = worlds::nodes_of_eight(1);
    cluster.device = device;
    cluster
}

fn product(m: f64, n: f64, k: f64) -> Kernel {
    Kernel::Matmul {
        batch: 1.0,
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

/// Rate of a product in a step of one device, flop/s.
fn rate(cluster: &Cluster, kernel: &Kernel) -> f64 {
    let cost = Pricer::new(cluster).kernel(kernel);
    cost.flops.value() / cost.time.value()
}

fn alone(device: &Device, kernel: &Kernel) -> f64 {
    let cost = kernel.cost(device);
    cost.flops.value() / cost.time.value()
}

#[test]
fn a_large_product_of_a_step_runs_at_the_lasting_rate() {
    let large = product(8192.0, 8192.0, 8192.0);
    for (name, overlap) in KNOWN
        .into_iter()
        .flat_map(|name| OVERLAPS.map(|p| (name, p)))
    {
        let mut device = catalog(name);
        device.matmul.overlap = overlap;
        let lasting = device.sustained[&Dtype::Bf16].value();
        let cool = Pace {
            slowdown: 1.0,
            settled: true,
        };
        let cost = large.cost_at(cool, &device);
        let reached = rate(&run(device), &large);
        let most = cost.flops.value() / cost.time.value();
        let expected = lasting.min(most);
        assert!((reached / expected - 1.0).abs() < 1e-9, "{name}: {reached}");
    }
}

#[test]
fn power_slows_a_longer_product_no_more_than_a_large_one() {
    for name in KNOWN {
        let cluster = run(catalog(name));
        let large = rate(&cluster, &product(8192.0, 8192.0, 8192.0));
        for times in [2.0, 8.0, 64.0] {
            let longer = rate(&cluster, &product(8192.0, 8192.0, 8192.0 * times));
            assert!(longer >= large, "{name}: {longer} after {large}");
        }
    }
}

#[test]
fn a_short_product_of_a_hot_run_does_not_escape_its_clock() {
    let mut device = catalog("h100-sxm");
    let short = product(1024.0, 4096.0, 4096.0);
    let tested = alone(&device, &product(8192.0, 8192.0, 8192.0));
    device
        .sustained
        .insert(Dtype::Bf16, FlopsPerSecond::new(0.5 * tested));
    let hot = rate(&run(device.clone()), &short);
    assert!(hot < 0.6 * alone(&device, &short));
}

#[test]
fn a_library_reaches_its_share_of_the_tested_rate_or_the_rate_that_lasts() {
    let large = product(8192.0, 8192.0, 8192.0);
    for name in KNOWN {
        let device = catalog(name);
        let lasting = rate(&run(device.clone()), &large);
        let mut cool = device.clone();
        cool.matmul.throttle = 0.0;
        for share in [0.3, 0.6, 0.9, 1.0] {
            let mut slow = device.clone();
            slow.product_share.insert(Dtype::Bf16, share);
            let mut tested = cool.clone();
            let efficiency = share * tested.matmul_efficiency(Dtype::Bf16);
            tested.matmul.efficiency.insert(Dtype::Bf16, efficiency);
            let expected = lasting.min(alone(&tested, &large));
            let reached = rate(&run(slow), &large);
            assert!((reached / expected - 1.0).abs() < 1e-9, "{name}: {reached}");
        }
    }
}

/// Fused attention of 64 heads over `positions`.
fn attended(positions: f64) -> Kernel {
    Kernel::Attention {
        batch_heads: 64.0,
        batch_kv_heads: 64.0,
        queries: positions,
        visible: 0.5 * (positions + 1.0),
        longest: positions,
        hidden: 0.0,
        keys: positions,
        query_dim: 128.0,
        value_dim: 128.0,
        dtype: Dtype::Bf16,
        backward: false,
    }
}

/// Power management lowers one clock: a long attention kernel, which arithmetic bounds, slows by as much as
/// a large product would, were it not throttled in its test.
#[test]
fn attention_slows_with_the_clock_of_products() {
    let large = product(8192.0, 8192.0, 8192.0);
    for name in KNOWN {
        let mut device = catalog(name);
        device.speed_spread = 0.0;
        device.matmul.throttle = 0.0;
        let kernel = attended(65_536.0);
        let lost = alone(&device, &kernel) / rate(&run(device.clone()), &kernel);
        let product = alone(&device, &large) / rate(&run(device), &large);
        assert!(
            (lost / product - 1.0).abs() < 0.02,
            "{name}: {lost} {product}"
        );
    }
}

#[test]
fn a_slow_library_of_products_slows_no_other_kernel_and_no_other_format() {
    let device = catalog("h100-sxm");
    let mut slow = device.clone();
    slow.product_share.insert(Dtype::Bf16, 0.5);
    let attention = attended(4096.0);
    let wide = product(8192.0, 8192.0, 8192.0);
    let narrow = Kernel::Matmul {
        batch: 1.0,
        m: 8192.0,
        n: 8192.0,
        k: 8192.0,
        dtype: Dtype::Fp8,
        output_bytes: 2.0,
        transposed: false,
        added: false,
        in_turn: false,
    };
    let [before, after] = [device, slow].map(run);
    assert!(rate(&after, &wide) < 0.7 * rate(&before, &wide));
    for kernel in [attention, narrow] {
        assert_eq!(
            rate(&after, &kernel).to_bits(),
            rate(&before, &kernel).to_bits()
        );
    }
}

#[test]
fn without_a_lasting_rate_a_share_counts_in_full() {
    let large = product(8192.0, 8192.0, 8192.0);
    let mut device = catalog("l40s");
    device.speed_spread = 0.0;
    // longer products throttle more, whatever makes them longer
    device.matmul.throttle = 0.0;
    let mut slow = device.clone();
    slow.product_share.insert(Dtype::Bf16, 0.5);
    let ratio = rate(&run(slow), &large) / rate(&run(device), &large);
    assert!((0.5..0.6).contains(&ratio), "{ratio}");
}

#[test]
fn a_share_that_no_library_can_reach_is_refused_by_name() {
    for wrong in [0.0, -0.5, 1.5, f64::NAN] {
        let mut device = catalog("h100-sxm");
        device.product_share.insert(Dtype::Bf16, wrong);
        let refused = device.check().unwrap_err().to_string();
        assert!(refused.contains("product_share.bf16"), "{refused}");
    }
}

/// Streams of B200 as NVIDIA/cccl pull request 5249 timed them back to back without dependent launches, and
/// casts to mxfp8 by rows and columns of ROCm/TransformerEngine pull request 598: the catalog's constants were
/// read from these.
#[test]
fn streams_and_casts_take_what_their_constants_were_read_from() {
    let device = catalog("b200-sxm");
    let launches = 1.0;
    let streams = |bytes: f64| Kernel::Memory {
        bytes: Bytes::new(bytes),
        launches,
    };
    let casts = |bytes: f64| Kernel::Cast {
        bytes: Bytes::new(bytes),
        launches,
    };
    let elements = 8192.0 * 8192.0;
    let timed = [
        (streams(131_072.0), 4.094e-6),
        (streams(16.0 * 16_777_216.0), 41.011e-6),
        (streams(16.0 * 268_435_456.0), 592.635e-6),
        (casts(4.0 * elements), 52.34e-6),
        (casts(6.0 * elements), 76.95e-6),
    ];
    for (kernel, measured) in timed {
        let off = kernel.cost(&device).time.value() / measured - 1.0;
        assert!(off.abs() < 0.05, "{kernel:?}: {off}");
    }
}

/// By how much longer gradients of weights take that are added to fp32 sums, one product after another:
/// `MooreThreads` `SimuMax`, `configs/system/a100_pcie.json` and `b200_bf16_ceperm.json`, the share of the peak of
/// plain products (the mean of the layer's two others) over that of the one with the sum.
#[test]
fn adding_to_sums_lengthens_products_as_published_timings_do() {
    let timed = [
        ("a100-pcie-80gb", 57344.0, 8192.0, 4096.0, 1.062),
        ("a100-pcie-80gb", 8192.0, 28672.0, 4096.0, 1.052),
        ("a100-pcie-80gb", 128_256.0, 8192.0, 4096.0, 1.052),
        ("a100-pcie-80gb", 36864.0, 7168.0, 4096.0, 1.062),
        ("a100-pcie-80gb", 28672.0, 4096.0, 4096.0, 1.034),
        ("a100-pcie-80gb", 4096.0, 7168.0, 33024.0, 0.992),
        ("b200-sxm", 57344.0, 8192.0, 4096.0, 1.069),
        ("b200-sxm", 8192.0, 28672.0, 4096.0, 1.044),
        ("b200-sxm", 16384.0, 53248.0, 4096.0, 1.115),
        ("b200-sxm", 106_496.0, 16384.0, 4096.0, 1.105),
    ];
    let mut off = Vec::new();
    for (name, m, n, k, published) in timed {
        let mut device = catalog(name);
        if name == "b200-sxm" {
            // what products of this size held at the site that timed them (the same file)
            let held = FlopsPerSecond::new(1.1e15);
            device.sustained.insert(Dtype::Bf16, held);
        }
        let cluster = run(device);
        let gradient = |added| Kernel::Matmul {
            batch: 1.0,
            m,
            n,
            k,
            dtype: Dtype::Bf16,
            output_bytes: if added { 8.0 } else { 2.0 },
            transposed: true,
            added,
            in_turn: false,
        };
        let longer = rate(&cluster, &gradient(false)) / rate(&cluster, &gradient(true));
        assert!(
            (longer - published).abs() < 0.065,
            "{name} {m} x {n}: {longer}"
        );
        off.push(longer - published);
    }
    let mean = off.iter().sum::<f64>() / 10.0;
    assert!(mean.abs() < 0.02, "{mean}");
}

#[test]
fn without_a_lasting_rate_kernels_run_as_alone() {
    let device = catalog("l40s");
    assert!(device.sustained.is_empty());
    let long = product(8192.0, 8192.0, 65536.0);
    let mut device = device;
    device.speed_spread = 0.0;
    let expected = long.cost(&device).time;
    let cluster = run(device);
    assert_eq!(Pricer::new(&cluster).kernel(&long).time, expected);
}

proptest! {
    #[test]
    fn a_lower_lasting_rate_is_never_quicker(
        m in 1.0..20_000.0_f64, n in 1.0..20_000.0_f64, k in 1.0..20_000.0_f64,
        share in 0.1..1.0_f64, less in 0.1..1.0_f64,
    ) {
        let kernel = product(m.round(), n.round(), k.round());
        let mut device = worlds::h100();
        let peak = device.engine_peak(Dtype::Bf16).value();
        device.sustained.insert(Dtype::Bf16, FlopsPerSecond::new(share * peak));
        let now = rate(&run(device.clone()), &kernel);
        device.sustained.insert(Dtype::Bf16, FlopsPerSecond::new(share * less * peak));
        prop_assert!(rate(&run(device), &kernel) <= now * (1.0 + 1e-12));
    }

    /// The clock of memory is another one: a slower engine lengthens what it works on, not the wait for bytes.
    #[test]
    fn traffic_keeps_its_rate(bytes in 1e8..1e11_f64, slowdown in 1.0..3.0_f64) {
        let device = worlds::h100();
        let pace = Pace { slowdown, settled: true };
        let moved = Kernel::Memory {
            bytes: Bytes::new(bytes),
            launches: 1.0,
        };
        prop_assert_eq!(moved.cost_at(pace, &device), moved.cost(&device));
        let thin = product(1.0, bytes.sqrt().round(), bytes.sqrt().round());
        let longer = thin.cost_at(pace, &device).time.value() / thin.cost(&device).time.value();
        prop_assert!(longer <= 1.0 + 0.5 * (slowdown - 1.0), "{} times", longer);
    }

    #[test]
    fn weights_come_from_main_memory(n in 1.0..4096.0_f64, k in 1.0..4096.0_f64) {
        let (n, k) = (n.round(), k.round());
        let cost = product(1.0, n, k).cost(&worlds::h100());
        prop_assert!(cost.traffic.value() >= 2.0 * n * k * (1.0 - 1e-12));
    }
}
