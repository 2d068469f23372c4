//! How does a person read a task of a rank: which kernel or collective, how large, how long?

use super::price::Pricer;
use crate::collective::Collective;
use crate::operator_cost::{Kernel, KernelCost};
use crate::plan::{Order, Span, Task, cover};
use crate::units::{Bytes, Dtype, Seconds};

const TIMES: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
const SIZES: [(f64, &str); 5] = [
    (1e12, "TB"),
    (1e9, "GB"),
    (1e6, "MB"),
    (1e3, "kB"),
    (1.0, "B"),
];
const ARITHMETIC: [(f64, &str); 4] = [
    (1e12, "TFLOP"),
    (1e9, "GFLOP"),
    (1e6, "MFLOP"),
    (1.0, "FLOP"),
];

/// The kernel of the task at `index` with its price in a line.
pub(super) fn kernel_line(task: &Task, pricer: &Pricer) -> Option<String> {
    match task {
        Task::Compute { kernel, .. } => Some(format!(
            "{}: {}",
            shape(kernel),
            price(&pricer.kernel(kernel))
        )),
        Task::Communicate { .. } => None,
        Task::Chunked { kernel, chunks, .. } => {
            let cost = price(&pricer.kernel(kernel));
            Some(format!("{chunks} chunks, each {}: {cost}", shape(kernel)))
        }
    }
}

/// The collective of the task at `index` with its price in a line.
pub(super) fn traffic_line(tasks: &[Task], index: usize, pricer: &mut Pricer) -> Option<String> {
    match &tasks[index] {
        Task::Compute { .. } => None,
        Task::Communicate {
            collective,
            span,
            bytes,
            under,
            crossing,
            handling,
            ..
        } => {
            let forms = pricer.forms_crossing(*collective, *span, *crossing);
            let time = forms.time(*bytes) + *handling;
            let covers = cover(tasks, index).filter_map(Task::kernel);
            let covers = covers.map(|kernel| pricer.kernel(&kernel).time.value());
            let long = duration(Seconds::new(covers.sum()));
            let cover = match under {
                0 => String::new(),
                1 => format!(", under a kernel of {long}"),
                n => format!(", under {n} kernels of {long}"),
            };
            let what = traffic(*collective, *span, *bytes);
            Some(format!("{what}: {}{cover}", duration(time)))
        }
        Task::Chunked {
            kernel,
            collective,
            span,
            bytes,
            chunks,
            order,
            ..
        } => {
            let time = duration(pricer.forms(*collective, *span).time(*bytes));
            let product = duration(pricer.kernel(kernel).time);
            let what = traffic(*collective, *span, *bytes);
            let place = match order {
                Order::GatherFirst => "before",
                Order::ReduceLast => "behind",
            };
            Some(format!(
                "{chunks} chunks, each {what}: {time}, {place} a chunk of the product of {product}"
            ))
        }
    }
}

fn products((batch, in_turn): (f64, bool), sides: [f64; 3], dtype: Dtype) -> String {
    let (sides, dtype) = (sides.map(count).join(" x "), dtype.name());
    if batch <= 1.0 {
        return format!("matrix product {sides} in {dtype}");
    }
    let batch = count(batch);
    let how = if in_turn {
        "one after another"
    } else {
        "in one launch"
    };
    format!("{batch} matrix products {how}, each {sides}, in {dtype}")
}

fn shape(kernel: &Kernel) -> String {
    match *kernel {
        Kernel::Matmul {
            batch,
            m,
            n,
            k,
            dtype,
            in_turn,
            ..
        } => products((batch, in_turn), [m, n, k], dtype),
        Kernel::Attention {
            batch_heads,
            batch_kv_heads,
            queries,
            visible,
            keys,
            query_dim,
            value_dim,
            dtype,
            backward,
            ..
        } => format!(
            "fused attention{} of {} heads ({} of keys) of width {} (values {}), {} queries that \
             see {} of {} keys on average, in {}",
            if backward { ", backward," } else { "" },
            count(batch_heads),
            count(batch_kv_heads),
            count(query_dim),
            count(value_dim),
            count(queries),
            count(visible),
            count(keys),
            dtype.name()
        ),
        Kernel::DeltaRule {
            flops,
            bytes,
            chain,
            ..
        } => {
            let turns = if chain > 0.0 {
                format!(", {} chunks in turn", count(chain))
            } else {
                String::new()
            };
            format!(
                "kernel of a gated delta rule: {} FLOP of products, {} read and written{turns}",
                count(flops.value()),
                size(bytes)
            )
        }
        Kernel::Scan { flops, bytes, .. } => format!(
            "kernel of a state-space scan: {} FLOP of products, {} read and written",
            count(flops.value()),
            size(bytes)
        ),
        Kernel::Convolution { bytes } => format!("convolution: {} read and written", size(bytes)),
        Kernel::Selection { scores } => format!("selection out of {} scores", count(scores)),
        _ => passes(kernel),
    }
}

/// The shape of a kernel whose time is its traffic, or its elements one by one.
fn passes(kernel: &Kernel) -> String {
    match *kernel {
        Kernel::Strided {
            bytes,
            elements,
            strided,
            ..
        } => format!(
            "{} read and written, {} of them in {} elements one by one",
            size(bytes + strided),
            size(strided),
            count(elements)
        ),
        Kernel::Memory { bytes, launches } | Kernel::Cast { bytes, launches } if launches > 0.0 => {
            let size = size(bytes);
            let plural = if launches > 1.0 { "es" } else { "" };
            format!(
                "{size} read and written in {} launch{plural}",
                count(launches)
            )
        }
        Kernel::Memory { bytes, .. } | Kernel::Cast { bytes, .. } => {
            format!("{} read and written within another kernel", size(bytes))
        }
        _ => String::new(),
    }
}

fn price(cost: &KernelCost) -> String {
    let time = duration(cost.time);
    if cost.flops.value() > 0.0 {
        let flops = scaled(cost.flops.value(), &ARITHMETIC);
        format!("{time}, {flops}, {} from memory", size(cost.traffic))
    } else {
        time
    }
}

fn traffic(collective: Collective, span: Span, bytes: Bytes) -> String {
    let ranks = count(f64::from(span.size));
    let place = if span.stride > 1 {
        format!(", {} apart", count(f64::from(span.stride)))
    } else {
        String::new()
    };
    format!("{collective} of {} over {ranks} ranks{place}", size(bytes))
}

/// A duration with the unit that suits it.
pub(super) fn duration(time: Seconds) -> String {
    scaled(time.value(), &TIMES)
}

/// An amount of data with the unit that suits it.
pub(super) fn size(bytes: Bytes) -> String {
    scaled(bytes.value(), &SIZES)
}

/// Four digits and a unit: the largest of which there is one, the last for less.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let rounded = |unit: f64| value / unit >= 0.99995;
    let suits = units.iter().find(|(unit, _)| rounded(*unit));
    let Some((unit, name)) = suits.or(units.last()) else {
        return count(value);
    };
    let amount = value / unit;
    if amount >= 999.95 {
        return format!("{} {name}", count(amount.round()));
    }
    let decimals = [99.995, 9.9995].iter().filter(|&&least| amount < least);
    let places = 1 + decimals.count();
    format!("{amount:.places$} {name}")
}

/// A count with commas between thousands; a tenth stands where it is not whole.
pub(super) fn count(value: f64) -> String {
    let text = format!("{value:.1}");
    let (whole, tenth) = text.split_once('.').unwrap_or((&text, "0"));
    let mut marked = String::new();
    for (place, digit) in whole.chars().enumerate() {
        let left = whole.len() - place;
        if place > 0 && left % 3 == 0 && whole.as_bytes()[place - 1] != b'-' {
            marked.push(',');
        }
        marked.push(digit);
    }
    if tenth != "0" {
        marked.push('.');
        marked.push_str(tenth);
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas_and_a_tenth_where_they_are_not_whole() {
        let said = [0.0, 7.0, 999.0, 1000.0, 1_234_567.0, 1024.26, 0.04].map(count);
        let want = ["0", "7", "999", "1,000", "1,234,567", "1,024.3", "0"];
        assert_eq!(said, want);
    }

    #[test]
    fn amounts_have_four_digits_and_the_unit_that_suits_them() {
        let times = [0.0, 4e-10, 9.085e-4, 9.99999e-4, 12.3456e-3, 2.5, 5198.2];
        let said = times.map(|t| duration(Seconds::new(t)));
        let want = [
            "0.000 ns", "0.400 ns", "908.5 us", "1.000 ms", "12.35 ms", "2.500 s", "5,198 s",
        ];
        assert_eq!(said, want);
        assert_eq!(size(Bytes::new(167e6)), "167.0 MB");
        assert_eq!(scaled(231.9e9, &ARITHMETIC), "231.9 GFLOP");
    }
}
