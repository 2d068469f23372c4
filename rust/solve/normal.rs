//! How far out does the largest of many equal draws lie?

/// Expected largest of `count` standard normal draws, in standard deviations.
///
/// Blom's approximation (1958): the quantile of `(count - 3/8) / (count + 1/4)`; within 1% of the
/// exact expectation from two draws up. One draw has expectation 0.
pub fn expected_largest(count: u32) -> f64 {
    if count < 2 {
        return 0.0;
    }
    let count = f64::from(count);
    quantile((count - 0.375) / (count + 0.25))
}

/// Quantile of the standard normal above the median: Abramowitz and Stegun 1964, formula 26.2.23
/// (absolute error below 4.5e-4).
fn quantile(probability: f64) -> f64 {
    let t = (-2.0 * (1.0 - probability).ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::expected_largest;

    #[test]
    fn tabled_expectations_are_met() {
        // Harter 1961, table of expected values of normal order statistics
        for (count, expected) in [(1, 0.0), (2, 0.564), (8, 1.424), (100, 2.508), (400, 2.968)] {
            assert!((expected_largest(count) - expected).abs() < 0.03, "{count}");
        }
    }
}
