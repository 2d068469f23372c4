//! Are shares of options as good as brute force finds them, and are their bounds and prices true?

#![allow(clippy::unwrap_used, clippy::panic)] // the lints' own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::error::Error;
use scalewright::solve::Random;
use scalewright::solve::assign::{
    AssignOutcome, Limits, Model, Shortage, Solution, Workspace, assign,
};

/// A model that a test can read and change.
#[derive(Debug, Clone)]
struct World {
    /// Floor and weight.
    windows: Vec<(f64, f64)>,
    /// Window of a timed row, and limit or base.
    rows: Vec<(Option<u32>, f64)>,
    items: Vec<Item>,
}

#[derive(Debug, Clone)]
struct Item {
    whole: bool,
    options: Vec<Choice>,
}

/// Cost, and runs of rows with what they use.
#[derive(Debug, Clone)]
struct Choice {
    cost: f64,
    uses: Vec<(u32, u32, f64)>,
}

impl World {
    fn model(&self) -> Model {
        let mut model = Model::new();
        for &(floor, weight) in &self.windows {
            model.window(floor, weight);
        }
        for &(window, value) in &self.rows {
            match window {
                Some(window) => model.timed_row(window, value),
                None => model.limited_row(value),
            };
        }
        for item in &self.items {
            model.item(item.whole);
            for option in &item.options {
                model.option(option.cost);
                for &(first, end, amount) in &option.uses {
                    model.uses(first..end, amount);
                }
            }
        }
        model
    }

    fn relaxed(&self) -> Self {
        let mut relaxed = self.clone();
        relaxed.items.iter_mut().for_each(|item| item.whole = false);
        relaxed
    }

    /// Objective at the shares, and how far each row is over its limit.
    fn weigh(&self, shares: &[f64]) -> (f64, Vec<f64>) {
        let mut used = vec![0.0; self.rows.len()];
        let mut objective = 0.0;
        let options = self.items.iter().flat_map(|item| &item.options);
        for (option, share) in options.zip(shares) {
            objective += option.cost * share;
            for &(first, end, amount) in &option.uses {
                (first..end).for_each(|row| used[row as usize] += amount * share);
            }
        }
        let mut times: Vec<f64> = self.windows.iter().map(|(floor, _)| *floor).collect();
        let mut over = vec![0.0; self.rows.len()];
        for (row, &(window, value)) in self.rows.iter().enumerate() {
            match window {
                Some(window) => {
                    let time = &mut times[window as usize];
                    *time = time.max(value + used[row]);
                }
                None => over[row] = used[row] - value,
            }
        }
        let weights = self.windows.iter().map(|(_, weight)| weight);
        objective += times.iter().zip(weights).map(|(t, w)| t * w).sum::<f64>();
        (objective, over)
    }

    /// Shares of every whole choice.
    fn choices(&self) -> Vec<Vec<f64>> {
        let mut all = vec![vec![]];
        for item in &self.items {
            let count = item.options.len();
            let longer = |choice: &Vec<f64>| {
                let longer = (0..count).map(|taken| {
                    let mut choice = choice.clone();
                    choice.extend((0..count).map(|o| if o == taken { 1.0 } else { 0.0 }));
                    choice
                });
                longer.collect::<Vec<_>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    /// Least objective of all whole choices within the limits, and least sum of excesses.
    fn brute(&self) -> (Option<f64>, f64) {
        let (mut best, mut least) = (None, f64::INFINITY);
        for shares in self.choices() {
            let (objective, over) = self.weigh(&shares);
            let excess: f64 = over.iter().map(|over| over.max(0.0)).sum();
            least = least.min(excess);
            if excess <= 0.0 && best.is_none_or(|best| objective < best) {
                best = Some(objective);
            }
        }
        (best, least)
    }
}

/// Few distinct figures, so that ties, zeros and rows that just fit are common.
fn worlds(whole: bool) -> impl Strategy<Value = World> {
    let figure = |most: u8| (0..most).prop_map(f64::from);
    let windows = vec((figure(4), figure(3)), 1..3);
    let limited = vec(figure(12), 0..5);
    let timed = vec((0..2_u32, figure(4)), 0..4);
    let used = (0..9_u32, 1..4_u32, figure(5));
    let option = (-3..4_i8, vec(used, 0..4));
    let option = option.prop_map(|(cost, uses)| (f64::from(cost), uses));
    let item = vec(option, 1..4);
    (windows, limited, timed, vec((item, 1..3_usize), 1..5)).prop_map(
        move |(windows, limited, timed, kinds)| {
            let count = u32::try_from(windows.len()).unwrap();
            let mut rows: Vec<(Option<u32>, f64)> = limited.iter().map(|l| (None, *l)).collect();
            rows.extend(
                timed
                    .iter()
                    .map(|&(window, base)| (Some(window % count), base)),
            );
            let most = u32::try_from(rows.len()).unwrap();
            let mut items = Vec::new();
            for (options, copies) in kinds {
                let choice = |(cost, uses): &(f64, Vec<(u32, u32, f64)>)| Choice {
                    cost: *cost,
                    uses: uses
                        .iter()
                        .map(|&(first, length, amount)| {
                            (first.min(most), (first + length).min(most), amount)
                        })
                        .collect(),
                };
                let options: Vec<Choice> = options.iter().map(choice).collect();
                for _ in 0..copies {
                    items.push(Item {
                        whole,
                        options: options.clone(),
                    });
                }
            }
            items.truncate(6);
            World {
                windows,
                rows,
                items,
            }
        },
    )
}

const EXACT: Limits = Limits {
    gap: 0.0,
    nodes: 100_000,
    below: f64::INFINITY,
    shortage: true,
};

fn answer(world: &World) -> AssignOutcome {
    assign(&world.model(), &EXACT, &Control::new()).unwrap()
}

fn solved(world: &World) -> Result<Solution, Shortage> {
    match answer(world) {
        AssignOutcome::Solved(solution) => Ok(solution),
        AssignOutcome::Infeasible(shortage) => Err(shortage.unwrap()),
        AssignOutcome::NoneBelow(bound) => panic!("{bound}: all objectives are of interest"),
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn whole_choices_are_as_good_as_brute_force(world in worlds(true)) {
        let (best, least) = world.brute();
        match (solved(&world), best) {
            (Ok(solution), Some(best)) => {
                prop_assert!(near(solution.objective, best), "{} for {best}", solution.objective);
                prop_assert!(solution.bound <= best + 1e-12 * best.abs());
                prop_assert!(near(solution.bound, best), "bound {} for {best}", solution.bound);
                let (objective, over) = world.weigh(&solution.shares);
                prop_assert!(near(objective, solution.objective));
                prop_assert!(over.iter().all(|over| *over <= 1e-9));
            }
            (Err(shortage), None) => {
                prop_assert!(near(shortage.total, least), "short of {} for {least}", shortage.total);
                let mut wider = world.clone();
                for (row, more) in shortage.rows {
                    wider.rows[row as usize].1 += more;
                }
                prop_assert!(solved(&wider).is_ok());
            }
            (found, best) => prop_assert!(false, "{found:?} for {best:?}"),
        }
    }

    #[test]
    fn parts_are_at_least_as_good_as_wholes_and_no_point_is_below_the_bound(
        world in worlds(true), draws in vec(0.0..1.0_f64, 24),
    ) {
        let relaxed = world.relaxed();
        let Ok(parts) = solved(&relaxed) else {
            prop_assert!(solved(&world).is_err());
            return Ok(());
        };
        prop_assert!(near(parts.objective, parts.bound), "{} for {}", parts.bound, parts.objective);
        let (objective, over) = relaxed.weigh(&parts.shares);
        prop_assert!(near(objective, parts.objective) && over.iter().all(|over| *over <= 1e-9));
        if let Ok(whole) = solved(&world) {
            prop_assert!(parts.bound <= whole.objective + 1e-12 * whole.objective.abs());
        }
        let mut draws = draws.into_iter();
        let mut shares = Vec::new();
        for item in &world.items {
            let weights: Vec<f64> = item.options.iter().map(|_| draws.next().unwrap()).collect();
            let sum: f64 = weights.iter().sum();
            shares.extend(weights.iter().map(|weight| weight / sum));
        }
        let (objective, over) = world.weigh(&shares);
        if over.iter().all(|over| *over <= 0.0) {
            prop_assert!(parts.bound <= objective + 1e-12 * objective.abs());
        }
    }

    #[test]
    fn more_room_and_less_use_never_worsen_the_best(
        world in worlds(true), row in 0..8_usize, more in 0.0..3.0_f64,
    ) {
        for world in [world.relaxed(), world] {
            let Ok(before) = solved(&world) else { continue };
            let mut wider = world.clone();
            if let Some((None, limit)) = wider.rows.get_mut(row) {
                *limit += more;
            }
            for option in wider.items.iter_mut().flat_map(|item| &mut item.options) {
                option.uses.iter_mut().for_each(|used| used.2 *= 0.75);
            }
            let after = solved(&wider).unwrap();
            prop_assert!(after.objective <= before.objective + 1e-9);
        }
    }

    #[test]
    fn prices_are_slopes_of_the_best(world in worlds(false), step in -1.0..1.0_f64) {
        let Ok(here) = solved(&world) else { return Ok(()) };
        for row in 0..world.rows.len() {
            let mut moved = world.clone();
            moved.rows[row].1 += step;
            let limited = world.rows[row].0.is_none();
            if limited && moved.rows[row].1 < 0.0 {
                continue;
            }
            // the best is convex in limits and bases: it lies nowhere below its slope
            let slope = if limited { -here.prices[row] } else { here.prices[row] };
            if let Ok(there) = solved(&moved) {
                let least = here.objective + slope * step;
                prop_assert!(there.objective >= least - 1e-8, "{} for {least}", there.objective);
            }
        }
    }
}

/// Factors of each row, each window and the objective, as powers of ten.
type Units = (Vec<f64>, Vec<f64>, f64);

fn units() -> impl Strategy<Value = Units> {
    (
        vec(-9.0..12.0_f64, 8),
        vec(-9.0..12.0_f64, 2),
        -12.0..6.0_f64,
    )
}

impl World {
    /// The same in other units: each limited row in its own, each window with its rows, and the objective.
    fn in_units(&self, (rows, windows, objective): &Units) -> Self {
        let mut other = self.clone();
        let money = 10_f64.powf(*objective);
        let of_window = |window: usize| 10_f64.powf(windows[window]);
        for (window, (floor, weight)) in other.windows.iter_mut().enumerate() {
            *floor *= of_window(window);
            *weight *= money / of_window(window);
        }
        let of_row: Vec<f64> = (other.rows.iter().zip(rows))
            .map(|((window, _), power)| {
                window.map_or(10_f64.powf(*power), |window| of_window(window as usize))
            })
            .collect();
        for ((_, value), unit) in other.rows.iter_mut().zip(&of_row) {
            *value *= unit;
        }
        for option in other.items.iter_mut().flat_map(|item| &mut item.options) {
            option.cost *= money;
            let uses = std::mem::take(&mut option.uses);
            for (first, end, amount) in uses {
                let each = (first..end).map(|row| (row, row + 1, amount * of_row[row as usize]));
                option.uses.extend(each);
            }
        }
        other
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn units_change_nothing(world in worlds(true), units in units(), gap in 0..2_u8) {
        let limits = Limits { gap: 1e-9 * f64::from(gap), nodes: 100_000, below: f64::INFINITY, shortage: true };
        let money = 10_f64.powf(units.2);
        for world in [world.relaxed(), world] {
            let other = world.in_units(&units);
            let there = assign(&other.model(), &limits, &Control::new());
            match (solved(&world), there) {
                (Ok(here), Ok(AssignOutcome::Solved(there))) => {
                    let (a, b) = (here.objective, there.objective / money);
                    let size = 1.0 + a.abs();
                    prop_assert!((a - b).abs() <= 1e-6 * size, "{b} for {a}");
                    let bound = there.bound / money;
                    prop_assert!((a - bound).abs() <= 1e-6 * size, "bound {bound} for {a}");
                    let (objective, _) = world.weigh(&there.shares);
                    prop_assert!((a - objective).abs() <= 1e-6 * size, "{objective} for {a}");
                }
                (Err(_), Ok(AssignOutcome::Infeasible(_))) => {}
                (here, there) => prop_assert!(false, "{there:?} for {here:?}"),
            }
        }
    }
}

#[test]
fn a_capacity_is_worth_what_it_saves() {
    // two items of size 3 and 2 that save 6 and 2 in the nearest tier: 4 units hold the first and half the second
    let mut model = Model::new();
    let tier = model.limited_row(4.0);
    for (size, saved) in [(3.0, 6.0), (2.0, 2.0)] {
        model.item(false);
        model.option(0.0);
        model.uses(tier..tier + 1, size);
        model.option(saved);
    }
    let AssignOutcome::Solved(solution) = assign(&model, &EXACT, &Control::new()).unwrap() else {
        panic!("it fits");
    };
    assert!(near_all(&solution.shares, &[1.0, 0.0, 0.5, 0.5]));
    assert!(near(solution.objective, 1.0) && near(solution.prices[0], 1.0));
}

fn near_all(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(*a, *b))
}

/// `count` items of `kinds` sizes, which share two tiers and the time on the slower one's path.
fn layers(count: u32, kinds: u32) -> Model {
    let mut model = Model::new();
    let window = model.window(1e-3, 1.0);
    let path = model.timed_row(window, 0.0);
    let sizes: Vec<f64> = (0..count)
        .map(|item| 1e9 * f64::from(1 + item % kinds))
        .collect();
    let near = model.limited_row(0.25 * sizes.iter().sum::<f64>());
    for size in sizes {
        model.item(true);
        model.option(0.0);
        model.uses(near..near + 1, size);
        model.option(0.0);
        model.uses(path..path + 1, size / 6e10);
    }
    model
}

#[test]
fn many_like_layers_are_solved_to_the_gap() {
    for (count, kinds) in [(96, 1), (960, 10), (3000, 31)] {
        let answer = assign(&layers(count, kinds), &Limits::default(), &Control::new()).unwrap();
        let AssignOutcome::Solved(solution) = answer else {
            panic!("it fits");
        };
        assert!(solution.gap() <= 0.01, "{count} {}", solution.gap());
        assert!(solution.shares.iter().all(|x| near(*x, x.round())));
    }
}

/// Items that live for a while in the near tier, in a second one with a path of its own, or over a slower
/// path in a `far` one.
fn lives(whole: bool, rooms: [f64; 3]) -> Model {
    let (instants, mut random) = (200_u32, Random::new(3, 0));
    let mut model = Model::new();
    let tiers = rooms.map(|room| {
        let rows = (0..instants).map(|_| model.limited_row(room * 1e9));
        rows.min().unwrap()
    });
    let mut paths = Vec::new();
    for _ in 0..instants {
        let window = model.window(0.05, 1.0);
        paths.push([6e10, 1e10].map(|speed| (model.timed_row(window, 0.0), speed)));
    }
    for _ in 0..400 {
        let size = 1e9 * (0.2 + random.uniform());
        let start = u32::try_from(random.below(instants as usize - 1)).unwrap();
        let length = 1 + u32::try_from(random.below((instants - start) as usize)).unwrap();
        let end = (start + length).min(instants);
        model.item(whole);
        for (tier, first) in tiers.iter().enumerate() {
            model.option(0.0);
            model.uses(first + start..first + end, size);
            for edge in [start, end - 1] {
                if let Some((row, speed)) = tier.checked_sub(1).map(|far| paths[edge as usize][far])
                {
                    model.uses(row..row + 1, size / speed);
                }
            }
        }
    }
    model
}

#[test]
fn many_instants_are_balanced_to_the_gap() {
    let answer = assign(
        &lives(false, [40.0, 60.0, 1e3]),
        &Limits::default(),
        &Control::new(),
    )
    .unwrap();
    let AssignOutcome::Solved(parts) = answer else {
        panic!("it fits");
    };
    assert!(parts.gap() <= 0.01, "{}", parts.gap());
    let answer = assign(
        &lives(true, [40.0, 60.0, 1e3]),
        &Limits::default(),
        &Control::new(),
    )
    .unwrap();
    let AssignOutcome::Solved(whole) = answer else {
        panic!("it fits");
    };
    assert!(whole.shares.iter().all(|x| near(*x, x.round())));
    // a bound of parts holds for wholes, and no whole choice is below the best parts
    assert!(whole.objective >= parts.bound && whole.bound <= whole.objective);
    assert!(whole.gap() <= 0.25, "{}", whole.gap());
}

#[test]
fn many_instants_without_room_are_proven_so_and_what_lacks_is_told_where_asked_for() {
    let model = lives(false, [40.0, 60.0, 1.0]);
    let answer = |shortage| {
        let limits = Limits {
            shortage,
            ..Limits::default()
        };
        assign(&model, &limits, &Control::new()).unwrap()
    };
    let AssignOutcome::Infeasible(Some(shortage)) = answer(true) else {
        panic!("it does not fit");
    };
    assert!(shortage.total > 0.0 && !shortage.rows.is_empty());
    assert_eq!(answer(false), AssignOutcome::Infeasible(None));
}

/// Where nothing binds, every row has a price all the same: none.
#[test]
fn many_rows_that_do_not_bind_are_worth_nothing() {
    let answer = assign(
        &lives(false, [1e12; 3]),
        &Limits::default(),
        &Control::new(),
    )
    .unwrap();
    let AssignOutcome::Solved(free) = answer else {
        panic!("it fits");
    };
    assert!(free.gap() <= 0.01 && !free.prices.is_empty());
    assert!(free.prices.iter().all(|price| *price >= 0.0));
}

#[test]
fn a_second_model_asks_for_no_memory() {
    let (first, second) = (layers(110, 3), layers(100, 7));
    let (limits, control) = (Limits::default(), Control::new());
    let mut workspace = Workspace::new();
    let kept = workspace.assign(&first, &limits, &control).unwrap().clone();
    workspace.assign(&second, &limits, &control).unwrap();
    let asked = allocation_counter::measure(|| {
        workspace.assign(&second, &limits, &control).unwrap();
        workspace.assign(&first, &limits, &control).unwrap();
    });
    assert_eq!(asked.count_total, 0);
    assert_eq!(workspace.assign(&first, &limits, &control).unwrap(), &kept);
}

#[test]
fn cancelled_work_says_so() {
    let control = Control::new();
    control.cancel();
    let stopped = assign(&layers(10, 2), &EXACT, &control);
    assert!(matches!(stopped, Err(Error::Cancelled { .. })));
}

/// Fills in a small model, and tells what is wrong with it.
fn refusal(fill: impl FnOnce(&mut Model)) -> String {
    let mut model = Model::new();
    fill(&mut model);
    let refused = assign(&model, &EXACT, &Control::new());
    refused.unwrap_err().to_string()
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let item = |model: &mut Model| {
        model.limited_row(1.0);
        model.item(true);
        model.option(0.0);
    };
    let cases = [
        (
            refusal(|m| _ = m.limited_row(f64::NAN)),
            "rows[0].limit: got NaN",
        ),
        (
            refusal(|m| _ = m.limited_row(-1.0)),
            "rows[0].limit: got -1",
        ),
        (
            refusal(|m| _ = m.window(0.0, -2.0)),
            "windows[0].weight: got -2",
        ),
        (
            refusal(|m| _ = m.window(f64::INFINITY, 1.0)),
            "windows[0].floor: got inf",
        ),
        (
            refusal(|m| _ = m.timed_row(3, 0.0)),
            "timed row before its window",
        ),
        (refusal(|m| _ = m.item(true)), "items[0]: got no options"),
        (refusal(|m| _ = m.option(0.0)), "an option before its item"),
        (refusal(|m| m.uses(0..0, 0.0)), "a use before its option"),
        (
            refusal(|m| {
                item(m);
                m.option(f64::NAN);
            }),
            "options[1].cost: got NaN",
        ),
        (
            refusal(|m| {
                item(m);
                m.uses(0..1, -0.5);
            }),
            "uses[0].amount: got -0.5",
        ),
        (
            refusal(|m| {
                item(m);
                m.uses(0..2, 0.5);
            }),
            "uses[0].rows: got 0..2; allowed: a range within 0..1",
        ),
    ];
    for (got, expected) in cases {
        assert!(got.contains(expected), "{got} for {expected}");
    }
    let limits = Limits {
        gap: f64::NAN,
        ..Limits::default()
    };
    let refused = assign(&layers(2, 1), &limits, &Control::new()).unwrap_err();
    assert!(refused.to_string().starts_with("relative_gap: got NaN"));
}
