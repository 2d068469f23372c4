//! What do sides off the grid of copies, products in turn and scans of states cost?

use crate::worlds;

use scalewright::hardware::Device;
use scalewright::operator_cost::Kernel;
use scalewright::units::{Bytes, Dtype, Flops, FlopsPerSecond};

fn seconds(kernel: Kernel, device: &Device) -> f64 {
    kernel.cost(device).time.value()
}

/// Products in bf16 of `m` x `k` by `k` x `n`, in one launch or in turn.
fn products(batch: f64, [m, n, k]: [f64; 3], in_turn: bool) -> Kernel {
    Kernel::Matmul {
        batch,
        m,
        n,
        k,
        dtype: Dtype::Bf16,
        output_bytes: 2.0,
        transposed: false,
        added: false,
        in_turn,
    }
}

/// The same product with its left operand column by column, or in another format.
fn changed(kernel: Kernel, columns: bool, format: Dtype) -> Kernel {
    let mut kernel = kernel;
    if let Kernel::Matmul {
        dtype, transposed, ..
    } = &mut kernel
    {
        (*dtype, *transposed) = (format, columns);
    }
    kernel
}

fn pass(bytes: f64, launches: f64) -> Kernel {
    Kernel::Memory {
        bytes: Bytes::new(bytes),
        launches,
    }
}

#[test]
fn products_are_slow_where_contiguous_sides_are_no_multiple_of_four_bytes() {
    let mut device = worlds::a100();
    let plain = |kernel: Kernel| seconds(kernel, &worlds::a100());
    device.matmul.unaligned = 3.0;
    let (aligned, odd, even) = (50304.0, 50257.0, 50258.0);
    // columns, depth: contiguous; rows are not
    for kernel in [
        products(1.0, [4096.0, odd, 2048.0], false),
        products(1.0, [4096.0, 2048.0, odd], false),
    ] {
        let slowed = seconds(kernel, &device) / plain(kernel);
        assert!((2.5..=3.0).contains(&slowed), "{slowed}");
    }
    for kernel in [
        products(1.0, [4096.0, aligned, 2048.0], false),
        products(1.0, [4096.0, even, 2048.0], false),
        products(1.0, [odd, 2048.0, 2048.0], false),
        products(1.0, [4096.0, 2048.0, 1000.5], false),
    ] {
        assert!((seconds(kernel, &device) / plain(kernel) - 1.0).abs() < 1e-12);
    }
    // what is a multiple of 4 bytes and not of 16 has a constant of its own
    device.matmul.partly_aligned = 2.0;
    for (columns, times) in [(even, 2.0), (50260.0, 2.0), (50264.0, 1.0), (odd, 3.0)] {
        let kernel = products(1.0, [4096.0, columns, 2048.0], false);
        let slowed = seconds(kernel, &device) / plain(kernel);
        assert!(
            (0.8 * times..=times + 1e-12).contains(&slowed),
            "{columns}: {slowed}"
        );
    }
    device.matmul.partly_aligned = 1.0;
    // the gradient of a weight: rows and columns are contiguous, tokens are not
    let gradient =
        |m: f64, n: f64, k: f64| changed(products(1.0, [m, n, k], false), true, Dtype::Bf16);
    let slowed = |kernel: Kernel| seconds(kernel, &device) / plain(kernel);
    assert!(slowed(gradient(odd, 2048.0, 4096.0)) > 2.5);
    assert!((slowed(gradient(2048.0, 8192.0, 4095.0)) - 1.0).abs() < 1e-12);
}

#[test]
fn kernels_of_scans_run_at_the_pace_of_multiprocessors_or_of_memory() {
    let scan = |flops: f64| Kernel::Scan {
        flops: Flops::new(flops),
        bytes: Bytes::new(1e9),
    };
    let convolution = Kernel::Convolution {
        bytes: Bytes::new(1e9),
    };
    let device = worlds::a100();
    let mut other = worlds::a100();
    other.vector = device.vector * 0.5;
    let selection = Kernel::Selection { scores: 1e8 };
    let strided = |bytes: f64, elements: f64| Kernel::Strided {
        bytes: Bytes::new(bytes),
        launches: 1.0,
        elements,
        strided: Bytes::new(4.0 * elements),
    };
    for kernel in [
        scan(0.0),
        scan(1e12),
        convolution,
        selection,
        strided(0.0, 1e9),
    ] {
        let ratio = seconds(kernel, &other) / seconds(kernel, &device);
        assert!((1.9..=2.0).contains(&ratio), "{kernel:?}: {ratio}");
    }
    for kernel in [scan(0.0), scan(1e12), convolution] {
        assert!(seconds(kernel, &device) > 1.2 * seconds(pass(1e9, 1.0), &device));
    }
    // 384 scores of a row at a vector peak of 66.9 TFLOP/s: 19.2 ns (`[selection]`)
    other.vector = FlopsPerSecond::new(66.9e12);
    let rows = |count: f64| {
        seconds(
            Kernel::Selection {
                scores: count * 384.0,
            },
            &other,
        )
    };
    let row = (rows(40_000.0) - rows(1_024.0)) / (40_000.0 - 1_024.0);
    assert!((row / 19.2e-9 - 1.0).abs() < 0.01, "{row}");
    // elements one by one: 313 G/s at that vector peak, 239 at 51.2 TFLOP/s (`[strided]`); other passes come on top
    let mut pace = |peak: f64| {
        other.vector = FlopsPerSecond::new(peak);
        1e10 / seconds(strided(0.0, 1e10), &other)
    };
    for (peak, told) in [(66.9e12, 313e9), (51.2e12, 239e9)] {
        let found = pace(peak);
        assert!((found / told - 1.0).abs() < 0.01, "{found}");
    }
    let [alone, both] = [0.0, 1e9].map(|bytes| seconds(strided(bytes, 1e9), &device));
    let beside = seconds(pass(1e9, 1.0), &device);
    assert!(
        ((both - alone) / beside - 1.0).abs() < 0.01,
        "{alone} {both}"
    );
    assert!(seconds(scan(1e12), &device) > 2.0 * seconds(scan(0.0), &device));
    // an engine that is quick enough leaves traffic alone
    other.vector = device.vector * 100.0;
    let left = seconds(scan(0.0), &other) / seconds(pass(1e9, 1.0), &other);
    assert!((left - 1.0).abs() < 0.01, "{left}");
}

#[test]
fn products_in_turn_take_what_so_many_take_alone() {
    let device = worlds::a100();
    let product = |batch, in_turn| products(batch, [700.0, 1536.0, 2048.0], in_turn);
    let alone = seconds(product(1.0, false), &device);
    let in_turn = product(16.0, true).cost(&device);
    assert!((in_turn.time.value() / (16.0 * alone) - 1.0).abs() < 1e-12);
    let together = product(16.0, false).cost(&device);
    assert!(together.time < in_turn.time);
    assert_eq!(together.flops, in_turn.flops);
}

#[test]
fn scales_of_blocks_do_not_put_a_side_off_the_grid_of_copies() {
    let mut device = worlds::a100();
    device.matmul.unaligned = 3.0;
    let product =
        |side: f64, dtype| changed(products(1.0, [4096.0, side, 2048.0], false), false, dtype);
    let slowed = |side: f64, dtype: Dtype| {
        seconds(product(side, dtype), &device) / seconds(product(side, dtype), &worlds::a100())
    };
    // multiples of 4 bytes of elements, though not of whole scales of blocks beside them
    for (side, dtype) in [
        (1856.0, Dtype::Mxfp8),
        (2884.0, Dtype::Mxfp8),
        (2888.0, Dtype::Nvfp4),
    ] {
        assert!(
            (slowed(side, dtype) - 1.0).abs() < 1e-12,
            "{side} {dtype:?}"
        );
    }
    for (side, dtype) in [(1857.0, Dtype::Mxfp8), (2884.0, Dtype::Nvfp4)] {
        assert!(slowed(side, dtype) > 1.5, "{side} {dtype:?}");
    }
}
