//! Do best-k, Pareto front and event simulation agree with brute force, in any order of arrival?

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::solve::{Best, Entry, Front, Point};

/// Few distinct values, so that ties are common.
fn coordinate() -> impl Strategy<Value = f64> {
    prop_oneof![(0..6_u8).prop_map(f64::from), 0.0..6.0, Just(f64::INFINITY)]
}

fn best_of(limit: usize, entries: &[Entry]) -> Best {
    let mut best = Best::new(limit);
    for &entry in entries {
        best.push(entry);
    }
    best
}

fn front_of(points: &[Point]) -> Front {
    let mut front = Front::new();
    for &point in points {
        front.insert(point);
    }
    front
}

fn dominates(a: &Point, b: &Point) -> bool {
    let no_worse = a.x <= b.x && a.y <= b.y;
    no_worse && (a.x < b.x || a.y < b.y || a.index < b.index)
}

proptest! {
    #[test]
    fn best_is_the_head_of_the_sorted_list(
        keys in vec(coordinate(), 0..40), limit in 0..8_usize, cut in 0..40_usize,
    ) {
        let mut entries: Vec<Entry> = (0..).zip(keys).map(|(index, key)| Entry { key, index, item: () }).collect();
        let (left, right) = entries.split_at(cut.min(entries.len()));
        let mut merged = best_of(limit, right);
        merged.merge(&best_of(limit, left));
        let reversed: Vec<Entry> = entries.iter().rev().copied().collect();
        let backwards = best_of(limit, &reversed);
        entries.sort_by(|a, b| a.key.total_cmp(&b.key).then(a.index.cmp(&b.index)));
        entries.truncate(limit);
        prop_assert_eq!(merged.entries(), &entries[..]);
        prop_assert_eq!(backwards.entries(), &entries[..]);
        let full = entries.len() == limit;
        let threshold = entries.last().filter(|_| full).map(|e| e.key);
        prop_assert_eq!(merged.threshold(), threshold);
    }

    #[test]
    fn the_front_holds_what_nothing_dominates(
        coordinates in vec((coordinate(), coordinate()), 0..40), cut in 0..40_usize,
        probe in (coordinate(), coordinate()),
    ) {
        let points: Vec<Point> = (0..).zip(coordinates).map(|(index, (x, y))| Point { x, y, index, item: () }).collect();
        let (left, right) = points.split_at(cut.min(points.len()));
        let mut merged = front_of(right);
        merged.merge(&front_of(left));
        let reversed: Vec<Point> = points.iter().rev().copied().collect();
        let mut expected: Vec<Point> = points
            .iter()
            .filter(|p| !points.iter().any(|q| dominates(q, p)))
            .copied()
            .collect();
        expected.sort_by(|a, b| a.x.total_cmp(&b.x));
        prop_assert_eq!(merged.points(), &expected[..]);
        let backwards = front_of(&reversed);
        prop_assert_eq!(backwards.points(), &expected[..]);
        let covered = points.iter().any(|p| p.x <= probe.0 && p.y <= probe.1);
        prop_assert_eq!(merged.covers(probe.0, probe.1), covered);
    }
}

#[test]
fn what_is_not_a_number_is_not_taken() {
    let mut best = Best::new(2);
    assert!(!best.push(Entry {
        key: f64::NAN,
        index: 0,
        item: (),
    }));
    let mut front = Front::new();
    assert!(!front.insert(Point {
        x: f64::NAN,
        y: 0.0,
        index: 0,
        item: (),
    }));
    assert!(!front.insert(Point {
        x: 0.0,
        y: f64::NAN,
        index: 0,
        item: (),
    }));
    assert!(best.entries().is_empty() && front.points().is_empty());
}
