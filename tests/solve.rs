//! Do best-k, Pareto front and event simulation agree with brute force, in any order of arrival?

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::solve::{After, Best, Entry, Front, Point, Task, simulate};

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

    #[test]
    fn tasks_start_as_early_as_they_may(
        durations in vec(0.0..5.0_f64, 1..25),
        links in vec((0..25_usize, 0..25_usize, 0.0..2.0_f64), 0..40),
        resources in vec(0..4_usize, 25),
    ) {
        let count = durations.len();
        let mut tasks: Vec<Task> = durations
            .iter()
            .map(|&duration| Task { duration, after: Vec::new() })
            .collect();
        for (a, b, delay) in links {
            let (from, to) = (a.min(b) % count, a.max(b) % count);
            if from < to {
                tasks[to].after.push(After { task: from, delay });
            }
        }
        let queues: Vec<Vec<usize>> = (0..4)
            .map(|r| (0..count).filter(|&t| resources[t] == r).collect())
            .collect();
        let ends = simulate(&tasks, &queues).unwrap();
        // index order is a topological order here, so one pass is brute force
        for task in 0..count {
            let inputs = tasks[task].after.iter().map(|a| ends[a.task] + a.delay);
            let before = (0..task).rev().find(|&t| resources[t] == resources[task]);
            let start = inputs.chain(before.map(|t| ends[t])).fold(0.0, f64::max);
            prop_assert!((ends[task] - start - durations[task]).abs() < 1e-12);
        }
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

#[test]
fn a_circle_and_a_wrong_index_are_refused() {
    let wait = |task| Task {
        duration: 1.0,
        after: vec![After { task, delay: 0.0 }],
    };
    let circle = simulate(&[wait(1), wait(0)], &[]).unwrap_err();
    assert!(circle.to_string().contains("circle"), "{circle}");
    assert!(simulate(&[wait(7)], &[]).is_err());
    assert!(simulate(&[Task::default()], &[vec![0, 0]]).is_err());
    assert!(simulate(&[Task::default()], &[vec![3]]).is_err());
    // each waits for the other's queue although no input is circular
    let crossed = [Task::default(), wait(2), Task::default(), wait(0)];
    assert!(simulate(&crossed, &[vec![1, 0], vec![3, 2]]).is_err());
}
