//! Reads a quantity from a number in its base unit or from text such as "3.35 TB/s".

use serde::Deserializer;
use serde::de::Visitor;
use std::fmt;

/// A unit family: what it measures, and every suffix with its size in the base unit.
pub(super) type Units = (&'static str, &'static [(&'static str, f64)]);

/// Bytes of a GiB.
pub const GIBI: f64 = 1_073_741_824.0;

pub(super) const BYTES: Units = (
    "bytes, as \"80 GiB\" or \"141 GB\"",
    &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("PB", 1e15),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", GIBI),
        ("TiB", 1024.0 * GIBI),
    ],
);
pub(super) const FLOPS: Units = (
    "floating-point operations, as \"1.5 PFLOP\"",
    &[
        ("FLOP", 1.0),
        ("GFLOP", 1e9),
        ("TFLOP", 1e12),
        ("PFLOP", 1e15),
        ("EFLOP", 1e18),
    ],
);
pub(super) const SECONDS: Units = (
    "a duration, as \"4.5 us\"",
    &[
        ("s", 1.0),
        ("ms", 1e-3),
        ("us", 1e-6),
        ("ns", 1e-9),
        ("ps", 1e-12),
        ("h", 3600.0),
        ("d", 86400.0),
        ("y", 31_557_600.0),
    ],
);
pub(super) const BYTES_PER_SECOND: Units = (
    "a data rate, as \"3.35 TB/s\" or \"400 Gb/s\"",
    &[
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
        ("TB/s", 1e12),
        ("PB/s", 1e15),
        ("Mb/s", 1.25e5),
        ("Gb/s", 1.25e8),
        ("Tb/s", 1.25e11),
        ("GiB/s", GIBI),
    ],
);
pub(super) const FLOPS_PER_SECOND: Units = (
    "a compute rate, as \"312 TFLOP/s\"",
    &[
        ("FLOP/s", 1.0),
        ("GFLOP/s", 1e9),
        ("TFLOP/s", 1e12),
        ("PFLOP/s", 1e15),
        ("EFLOP/s", 1e18),
    ],
);
pub(super) const JOULES: Units = (
    "an energy, as \"3.6 MJ\" or \"1 kWh\"",
    &[
        ("J", 1.0),
        ("kJ", 1e3),
        ("MJ", 1e6),
        ("pJ", 1e-12),
        ("kWh", 3.6e6),
    ],
);
pub(super) const WATTS: Units = (
    "a power, as \"700 W\"",
    &[("W", 1.0), ("kW", 1e3), ("MW", 1e6)],
);
pub(super) const DOLLARS: Units = (
    "dollars, as \"30000 USD\"",
    &[("USD", 1.0), ("kUSD", 1e3), ("MUSD", 1e6)],
);
pub(super) const JOULES_PER_BYTE: Units = (
    "an energy of moving data, as \"3.9 pJ/bit\"",
    &[
        ("J/B", 1.0),
        ("nJ/B", 1e-9),
        ("pJ/B", 1e-12),
        ("pJ/bit", 8e-12),
        ("fJ/bit", 8e-15),
    ],
);
pub(super) const WATTS_PER_BYTE: Units = (
    "a power of keeping data, as \"0.1 W/GB\"",
    &[
        ("W/B", 1.0),
        ("W/GB", 1e-9),
        ("mW/GB", 1e-12),
        ("W/TB", 1e-12),
    ],
);
pub(super) const DOLLARS_PER_BYTE: Units = (
    "a price of memory, as \"4 USD/GB\"",
    &[("USD/B", 1.0), ("USD/GB", 1e-9), ("USD/TB", 1e-12)],
);
pub(super) const SQUARE_MILLIMETRES: Units =
    ("an area, as \"826 mm2\"", &[("mm2", 1.0), ("cm2", 100.0)]);

/// Accepts a finite, non-negative number, or text made of such a number and a unit of the family.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    source: D,
    units: Units,
) -> Result<f64, D::Error> {
    source.deserialize_any(Quantity { units })
}

struct Quantity {
    units: Units,
}

impl Quantity {
    fn check<E: serde::de::Error>(&self, value: f64, shown: &str) -> Result<f64, E> {
        // the bounds keep every product and quotient of a few amounts finite
        if value == 0.0 || (1e-30..=1e30).contains(&value) {
            Ok(value)
        } else {
            Err(E::custom(format!(
                "got {shown}; allowed: {}, 0 or from 1e-30 to 1e30",
                self.units.0
            )))
        }
    }
}

impl Visitor<'_> for Quantity {
    type Value = f64;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.units.0)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<f64, E> {
        self.check(value, &value.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<f64, E> {
        self.check(value as f64, &value.to_string())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<f64, E> {
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
            .unwrap_or(trimmed.len());
        // "1e3 GB": an exponent is part of the number, an 'E' that starts a unit (EFLOP/s) is not
        let split = exponent_end(trimmed, split);
        let (number, unit) = trimmed.split_at(split);
        let refuse = || {
            let suffixes: Vec<&str> = self.units.1.iter().map(|(name, _)| *name).collect();
            E::custom(format!(
                "got \"{text}\"; allowed: {} (units: {})",
                self.units.0,
                suffixes.join(", ")
            ))
        };
        let amount: f64 = number.replace('_', "").parse().map_err(|_| refuse())?;
        let unit = unit.trim();
        let scale = self
            .units
            .1
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, scale)| *scale)
            .ok_or_else(refuse)?;
        self.check(amount * scale, text)
    }
}

/// Where the number ends if an exponent follows the mantissa that ends at `mantissa_end`.
fn exponent_end(text: &str, mantissa_end: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = mantissa_end;
    if !matches!(bytes.get(at), Some(b'e' | b'E')) {
        return mantissa_end;
    }
    at += 1;
    if matches!(bytes.get(at), Some(b'+' | b'-')) {
        at += 1;
    }
    let digits = bytes[at..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    if digits == 0 {
        mantissa_end
    } else {
        at + digits
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // decimal text must read exactly
mod tests {
    use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond};

    fn read<T: for<'a> serde::Deserialize<'a>>(json: &str) -> Result<T, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    #[test]
    fn binary_decimal_and_bit_units_differ() {
        assert_eq!(
            read::<Bytes>("\"80 GiB\"").unwrap().value(),
            80.0 * 1_073_741_824.0
        );
        assert_eq!(read::<Bytes>("\"80 GB\"").unwrap().value(), 80e9);
        assert_eq!(
            read::<BytesPerSecond>("\"400 Gb/s\"").unwrap().value(),
            50e9
        );
        assert_eq!(
            read::<FlopsPerSecond>("\"1.5e1 PFLOP/s\"").unwrap().value(),
            15e15
        );
        assert_eq!(
            read::<FlopsPerSecond>("\"2EFLOP/s\"").unwrap().value(),
            2e18
        );
    }

    #[test]
    fn wrong_units_and_numbers_are_refused() {
        assert!(
            read::<Bytes>("\"80 GB/s\"")
                .unwrap_err()
                .contains("allowed")
        );
        assert!(read::<Bytes>("-1").is_err());
        assert!(read::<Bytes>("\"1e999 GB\"").is_err());
        assert!(read::<Bytes>("\"NaN GB\"").is_err());
        assert!(read::<Bytes>("true").is_err());
    }
}
