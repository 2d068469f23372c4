//! The newtypes and the few products and quotients that have a meaning.

use super::text;
use serde::{Deserialize, Deserializer, Serialize};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// Declares a quantity held as `f64` in its SI base unit, with its accepted unit suffixes.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $units:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize)]
        #[serde(transparent)]
        pub struct $name(f64);

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0.0);

            /// From a number in the base unit.
            pub const fn new(value: f64) -> Self {
                Self(value)
            }

            /// The number in the base unit.
            pub const fn value(self) -> f64 {
                self.0
            }

            /// The larger of two.
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            /// The smaller of two.
            pub fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }

            /// How many times `other` fits into this.
            pub fn ratio(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, factor: f64) -> Self {
                Self(self.0 / factor)
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self::ZERO, Add::add)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                text::deserialize(source, $units).map(Self)
            }
        }
    };
}

quantity!(
    /// An amount of data in bytes.
    Bytes, text::BYTES);
quantity!(
    /// A count of floating-point operations (a multiply-add is two).
    Flops, text::FLOPS);
quantity!(
    /// A duration in seconds.
    Seconds, text::SECONDS);
quantity!(
    /// A data rate in bytes per second.
    BytesPerSecond, text::BYTES_PER_SECOND);
quantity!(
    /// A compute rate in floating-point operations per second.
    FlopsPerSecond, text::FLOPS_PER_SECOND);
quantity!(
    /// Energy in joules.
    Joules, text::JOULES);
quantity!(
    /// Power in watts.
    Watts, text::WATTS);
quantity!(
    /// Money in US dollars.
    Dollars, text::DOLLARS);
quantity!(
    /// Energy of moving data in joules per byte.
    JoulesPerByte, text::JOULES_PER_BYTE);
quantity!(
    /// Power of keeping data in watts per byte.
    WattsPerByte, text::WATTS_PER_BYTE);
quantity!(
    /// Price of memory in US dollars per byte.
    DollarsPerByte, text::DOLLARS_PER_BYTE);
quantity!(
    /// Silicon area in square millimetres.
    SquareMillimetres, text::SQUARE_MILLIMETRES);

impl Div<BytesPerSecond> for Bytes {
    type Output = Seconds;
    fn div(self, rate: BytesPerSecond) -> Seconds {
        Seconds::new(self.value() / rate.value())
    }
}

impl Div<FlopsPerSecond> for Flops {
    type Output = Seconds;
    fn div(self, rate: FlopsPerSecond) -> Seconds {
        Seconds::new(self.value() / rate.value())
    }
}

impl Mul<Seconds> for Watts {
    type Output = Joules;
    fn mul(self, time: Seconds) -> Joules {
        Joules::new(self.value() * time.value())
    }
}
