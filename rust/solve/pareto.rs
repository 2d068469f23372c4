//! Which points are beaten by no other in both coordinates, the same whatever the order they come in?

/// A point in the plane; both coordinates are minimised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point<T = ()> {
    /// First coordinate.
    pub x: f64,
    /// Second coordinate.
    pub y: f64,
    /// Breaks ties: of equal points the one with the lower index stays.
    pub index: u64,
    /// What was found.
    pub item: T,
}

/// The points seen so far that no other dominates.
#[derive(Debug, Clone, PartialEq)]
pub struct Front<T = ()> {
    /// `x` rises and `y` falls strictly from one to the next.
    points: Vec<Point<T>>,
}

impl<T> Default for Front<T> {
    fn default() -> Self {
        Self { points: Vec::new() }
    }
}

impl<T: Clone> Front<T> {
    /// An empty front.
    pub fn new() -> Self {
        Self::default()
    }

    /// Offers a point; true if it was taken. A coordinate that is not a number is never taken.
    pub fn insert(&mut self, point: Point<T>) -> bool {
        if point.x.is_nan() || point.y.is_nan() {
            return false;
        }
        let at = self.points.partition_point(|held| held.x < point.x);
        if at > 0 && self.points[at - 1].y <= point.y {
            return false;
        }
        let covered = self.points.get(at).is_some_and(|held| {
            let tied = held.y <= point.y && held.index <= point.index;
            held.x <= point.x && (held.y < point.y || tied)
        });
        if covered {
            return false;
        }
        let beaten = self.points[at..].partition_point(|held| held.y >= point.y);
        self.points.splice(at..at + beaten, [point]);
        true
    }

    /// True if a point with these coordinates would be beaten, or is held already.
    pub fn covers(&self, x: f64, y: f64) -> bool {
        let at = self.points.partition_point(|held| held.x <= x);
        at > 0 && self.points[at - 1].y <= y
    }

    /// Takes what another thread found.
    pub fn merge(&mut self, other: &Self) {
        for point in &other.points {
            self.insert(point.clone());
        }
    }

    /// The points by rising `x`.
    pub fn points(&self) -> &[Point<T>] {
        &self.points
    }
}
