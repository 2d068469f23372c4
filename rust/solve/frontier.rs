//! Which points are beaten by no other in all of several coordinates, whatever order they come in?

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Most coordinates of a point.
pub const MOST_COORDINATES: usize = 5;

/// Coordinates, all minimised; those that do not count are 0.
pub type Coordinates = [f64; MOST_COORDINATES];

/// A point and where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Corner<T = ()> {
    /// Where it lies.
    pub at: Coordinates,
    /// Breaks ties: of equal points the one with the lower index stays.
    pub index: u64,
    /// What was found.
    pub item: T,
}

/// The points seen so far that no other dominates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frontier<T = ()> {
    /// By rising first coordinate, then by the others in turn.
    corners: Vec<Corner<T>>,
}

impl<T> Default for Frontier<T> {
    fn default() -> Self {
        Self {
            corners: Vec::new(),
        }
    }
}

impl<T: Clone> Frontier<T> {
    /// Offers a point; true if it was taken. A coordinate that is not a number is never taken.
    pub fn insert(&mut self, corner: Corner<T>) -> bool {
        if corner.at.iter().copied().any(f64::is_nan) || self.covers(&corner.at, corner.index) {
            return false;
        }
        self.corners.retain(|held| !below(&corner.at, &held.at));
        let at = self
            .corners
            .partition_point(|held| held.at.partial_cmp(&corner.at).is_some_and(Ordering::is_lt));
        self.corners.insert(at, corner);
        true
    }

    /// True if a point at these coordinates or above, and with an index of `first` or more, would be
    /// beaten or is held already.
    pub fn covers(&self, at: &Coordinates, first: u64) -> bool {
        self.covers_near(at, first, &mut 0)
    }

    /// The same, looked up first at the point that covered the last one, whose place `near` holds:
    /// neighbours are mostly beaten by the same point.
    pub fn covers_near(&self, at: &Coordinates, first: u64, near: &mut usize) -> bool {
        let beats =
            |held: &Corner<T>| below(&held.at, at) && (held.index <= first || !below(at, &held.at));
        if self.corners.get(*near).is_some_and(beats) {
            return true;
        }
        let count = self.corners.partition_point(|held| held.at[0] <= at[0]);
        // in the plane the nearest in the first coordinate is least in the other
        let plane = at[2..].iter().all(|c| *c == 0.0);
        let from = if plane { count.saturating_sub(1) } else { 0 };
        let found = self.corners[from..count].iter().rposition(beats);
        *near = found.map_or(*near, |place| from + place);
        found.is_some()
    }

    /// Takes what another thread found.
    pub fn merge(&mut self, other: &Self) {
        for corner in &other.corners {
            self.insert(corner.clone());
        }
    }

    /// The points by rising first coordinate.
    pub fn corners(&self) -> &[Corner<T>] {
        &self.corners
    }
}

/// True where `a` is nowhere above `b`.
fn below(a: &Coordinates, b: &Coordinates) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b)
}
