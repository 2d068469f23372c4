//! How is the same arithmetic done for one number, or for several side by side?

use pulp::{Arch, NullaryFnOnce};
use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Sub};

/// A number, or several of which each goes its own way through the same steps.
///
/// Code that is written over lanes never branches on their values: it computes both sides and picks
/// one, number by number. Both forms give the same bits.
pub trait Lane:
    Copy
    + Debug
    + Default
    + PartialEq
    + Add<Output = Self>
    + Add<f64, Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
{
    /// Numbers side by side.
    const WIDTH: usize;

    /// The same number everywhere.
    fn splat(value: f64) -> Self;

    /// A number for each place.
    fn gather(of: impl FnMut(usize) -> f64) -> Self;

    /// The number at a place.
    fn at(&self, place: usize) -> f64;

    /// `yes` where the number is at least the other one, `no` elsewhere.
    fn at_least(self, other: Self, yes: Self, no: Self) -> Self;

    /// The larger of two.
    fn larger(self, other: Self) -> Self;

    /// The smaller of two.
    fn smaller(self, other: Self) -> Self;

    /// `yes` where the number is above the other one, `no` elsewhere.
    #[inline(always)]
    fn above(self, other: Self, yes: Self, no: Self) -> Self {
        other.at_least(self, no, yes)
    }

    /// 1 where the number is at least the other one, 0 elsewhere.
    #[inline(always)]
    fn reaches(self, other: Self) -> Self {
        self.at_least(other, Self::splat(1.0), Self::splat(0.0))
    }

    /// `yes` where this is 1, `no` where it is 0.
    #[inline(always)]
    fn pick(self, yes: Self, no: Self) -> Self {
        self.at_least(Self::splat(1.0), yes, no)
    }

    /// True where every number is `value` or more.
    #[inline(always)]
    fn all_reach(&self, value: f64) -> bool {
        (0..Self::WIDTH).all(|place| self.at(place) >= value)
    }
}

impl Lane for f64 {
    const WIDTH: usize = 1;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn gather(mut of: impl FnMut(usize) -> f64) -> Self {
        of(0)
    }

    #[inline(always)]
    fn at(&self, _place: usize) -> f64 {
        *self
    }

    #[inline(always)]
    fn at_least(self, other: Self, yes: Self, no: Self) -> Self {
        if self >= other { yes } else { no }
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        // one instruction, unlike `f64::max`, which minds what is not a number
        if self > other { self } else { other }
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        if self < other { self } else { other }
    }
}

/// Work over lanes that may run with wider registers than those that every machine has.
///
/// `run` and all that it calls must be `inline(always)`: what is not stays with the narrow ones.
pub trait LaneWork {
    /// What it gives.
    type Output;

    /// Does it.
    fn run(self) -> Self::Output;
}

/// Work in the form in which it is compiled once for each kind of registers.
struct Compiled<T>(T);

impl<T: LaneWork> NullaryFnOnce for Compiled<T> {
    type Output = T::Output;

    #[inline(always)]
    fn call(self) -> T::Output {
        self.0.run()
    }
}

/// Runs work with the widest registers that the machine has.
pub fn run_widest<T: LaneWork>(work: T) -> T::Output {
    Arch::new().dispatch(Compiled(work))
}

/// `W` numbers side by side, which the compiler puts into vector registers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wide<const W: usize>([f64; W]);

impl<const W: usize> Default for Wide<W> {
    fn default() -> Self {
        Self([0.0; W])
    }
}

impl<const W: usize> From<Wide<W>> for [f64; W] {
    #[inline(always)]
    fn from(wide: Wide<W>) -> Self {
        wide.0
    }
}

impl<const W: usize> Lane for Wide<W> {
    const WIDTH: usize = W;

    #[inline(always)]
    fn splat(value: f64) -> Self {
        Self([value; W])
    }

    #[inline(always)]
    fn gather(mut of: impl FnMut(usize) -> f64) -> Self {
        let mut all = [0.0; W];
        for (place, one) in all.iter_mut().enumerate() {
            *one = of(place);
        }
        Self(all)
    }

    #[inline(always)]
    fn at(&self, place: usize) -> f64 {
        self.0[place]
    }

    #[inline(always)]
    fn at_least(self, other: Self, yes: Self, no: Self) -> Self {
        let mut all = no.0;
        for (place, one) in all.iter_mut().enumerate() {
            *one = self.0[place].at_least(other.0[place], yes.0[place], *one);
        }
        Self(all)
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        self.with(other, f64::larger)
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        self.with(other, f64::smaller)
    }
}

impl<const W: usize> Wide<W> {
    #[inline(always)]
    fn with(mut self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        for (one, other) in self.0.iter_mut().zip(other.0) {
            *one = of(*one, other);
        }
        self
    }
}

/// An operation number by number, with another lane and with one number for all.
macro_rules! operation {
    ($name:ident, $method:ident) => {
        impl<const W: usize> $name for Wide<W> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.with(other, |one, other| one.$method(other))
            }
        }

        impl<const W: usize> $name<f64> for Wide<W> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: f64) -> Self {
                self.with(Self([other; W]), |one, other| one.$method(other))
            }
        }
    };
}

operation!(Add, add);
operation!(Sub, sub);
operation!(Mul, mul);
operation!(Div, div);

#[cfg(test)]
mod tests {
    use super::{Lane, Wide};
    use proptest::prelude::*;

    /// Some arithmetic over all that lanes can do.
    fn mixed<L: Lane>(a: L, b: L) -> L {
        let larger = (a * b + 2.0).larger(a - b) / 3.0;
        let smaller = larger.smaller(b * 0.5);
        a.reaches(b).pick(smaller, a.above(larger, b, a + b))
    }

    proptest! {
        #[test]
        fn several_numbers_side_by_side_give_the_bits_of_each_alone(
            a in prop::array::uniform8(-1e9..1e9_f64),
            b in prop::array::uniform8(-1e9..1e9_f64),
        ) {
            let wide = mixed(Wide::<8>::gather(|i| a[i]), Wide::gather(|i| b[i]));
            for place in 0..8 {
                prop_assert_eq!(wide.at(place).to_bits(), mixed(a[place], b[place]).to_bits());
            }
            let least = a.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert!(Wide::<8>::gather(|i| a[i]).all_reach(least));
            prop_assert!(!Wide::<8>::gather(|i| a[i]).all_reach(least + 1.0));
        }
    }
}
