//! What do sums over the ranks of a Zipf law come to, for billions of ranks, without a loop over them?

/// Ranks that are summed one by one.
const EXACT: u64 = 2048;
/// Widest panel of the quadrature, in the logarithm of the popularity.
const PANEL: f64 = 0.25;
/// Gauss-Legendre nodes and weights of order 8 on -1..1, those above zero.
const NODES: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_5),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_3),
];

/// A rank, which need not be whole, and how many ranks it stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) rank: f64,
    pub(super) count: f64,
}

/// `sum_i i^-s`, i from 1 to `ranks`, to 1e-12 of its value.
///
/// Euler-Maclaurin about the middles of the ranks behind the first M = 2048:
///
/// ```text
/// sum_(i > M)^n f(i) = int_a^b f dx - (f'(b) - f'(a)) / 24 + .., a = M + 1/2, b = n + 1/2, f = x^-s
/// ```
pub(super) fn partial_sum(ranks: u64, exponent: f64) -> f64 {
    let few = ranks.min(EXACT);
    // the smallest first, so that none is lost
    // a sum of nothing is -0 in Rust
    let head = 0.0
        + (1..=few)
            .rev()
            .map(|rank| (rank as f64).powf(-exponent))
            .sum::<f64>();
    if ranks == few {
        return head;
    }
    let (from, to) = (EXACT as f64 + 0.5, ranks as f64 + 0.5);
    let slope = |x: f64| -exponent * x.powf(-exponent - 1.0);
    head + integral(from, to, exponent) - (slope(to) - slope(from)) / 24.0
}

/// `int_a^b x^-s dx`, also next to `s = 1`, where both ends of the plain form are huge.
fn integral(from: f64, to: f64, exponent: f64) -> f64 {
    let (power, ratio) = (1.0 - exponent, (to / from).ln());
    let grown = power * ratio;
    let mean = if grown.abs() < 1e-8 {
        1.0 + grown / 2.0
    } else {
        grown.exp_m1() / grown
    };
    from.powf(power) * ratio * mean
}

/// Ranks and counts with which sums over all ranks become short: `sum_i f(i) ~ sum_k count_k f(rank_k)`.
///
/// The first M = 2048 ranks stand for themselves; the others for an integral over the logarithm of the
/// rank, by Gauss-Legendre quadrature in panels. For `f` that falls with the rank and no faster than
/// `x f' = -2 s f`, as every `f` here, the sum is off by less than `s / (6 M^2)` of its value, 4e-8 s.
pub(super) fn nodes(ranks: u64, exponent: f64) -> Vec<Node> {
    let whole = (1..=ranks.min(EXACT)).map(|rank| Node {
        rank: rank as f64,
        count: 1.0,
    });
    let mut nodes: Vec<Node> = whole.collect();
    if ranks <= EXACT {
        return nodes;
    }
    let (from, to) = ((EXACT as f64 + 0.5).ln(), (ranks as f64 + 0.5).ln());
    let panels = ((to - from) * exponent.max(1.0) / PANEL).ceil();
    let half = (to - from) / panels / 2.0;
    let mut middle = from + half;
    while middle < to {
        for (place, weight) in NODES {
            for side in [-place, place] {
                let rank = (middle + half * side).exp();
                let count = weight * half * rank;
                nodes.push(Node { rank, count });
            }
        }
        middle += 2.0 * half;
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summed(ranks: u64, exponent: f64) -> f64 {
        (1..=ranks)
            .rev()
            .map(|rank| (rank as f64).powf(-exponent))
            .sum()
    }

    #[test]
    fn partial_sums_are_those_of_a_loop() {
        for exponent in [0.0, 0.3, 0.8, 1.0, 1.0 + 1e-12, 1.2, 3.0] {
            for ranks in [1, 2, 2048, 2049, 5000, 1_000_000] {
                let (exact, quick) = (summed(ranks, exponent), partial_sum(ranks, exponent));
                let off = (quick / exact - 1.0).abs();
                assert!(off < 1e-12, "{exponent} {ranks}: {off}");
            }
        }
    }

    #[test]
    fn no_ranks_are_a_positive_zero() {
        assert!(partial_sum(0, 1.2).is_sign_positive());
    }

    #[test]
    fn nodes_sum_as_a_loop_does_to_the_stated_error() {
        for exponent in [0.0, 0.5, 1.0, 2.0] {
            for (ranks, time) in [(3000, 1e3), (1_000_000, 1e5), (1_000_000, 1e9)] {
                let total = summed(ranks, exponent);
                let held = |rank: f64| -(-time * rank.powf(-exponent) / total).exp_m1();
                let exact: f64 = (1..=ranks).map(|rank| held(rank as f64)).sum();
                let short = nodes(ranks, exponent);
                let quick: f64 = short.iter().map(|n| n.count * held(n.rank)).sum();
                let off = (quick / exact - 1.0).abs();
                assert!(off < 4e-8 * exponent + 1e-10, "{exponent} {ranks}: {off}");
            }
        }
    }

    #[test]
    fn ten_billion_ranks_need_few_nodes() {
        assert!(nodes(10_000_000_000, 1.1).len() < 3000);
        // the sum of 1/i is the logarithm and Euler's constant
        let harmonic = (1e10_f64).ln() + 0.577_215_664_901_532_9 + 0.5e-10;
        assert!((partial_sum(10_000_000_000, 1.0) / harmonic - 1.0).abs() < 1e-12);
    }
}
