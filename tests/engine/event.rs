//! Does the event simulator keep its engines, inputs and paces, whatever the tasks?

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::solve::{Dependency, QueueDiscipline, Slowdown, Tasks, Timeline, simulate};

const ENGINES: u32 = 4;

/// Durations, inputs from earlier to later tasks, an engine for each task.
#[derive(Debug, Clone)]
struct World {
    durations: Vec<f64>,
    links: Vec<(usize, usize, f64)>,
    engines: Vec<u32>,
}

fn any_tasks() -> impl Strategy<Value = World> {
    (
        vec(prop_oneof![Just(0.0), 0.0..5.0_f64], 1..25),
        vec((0..25_usize, 0..25_usize, 0.0..2.0_f64), 0..40),
        vec(0..ENGINES, 25),
    )
        .prop_map(|(durations, links, engines)| World {
            durations,
            links,
            engines,
        })
}

fn number(task: usize) -> u32 {
    u32::try_from(task).expect("few tasks")
}

fn inputs(count: usize, links: &[(usize, usize, f64)], task: usize) -> Vec<Dependency> {
    links
        .iter()
        .map(|&(a, b, delay)| ((a.min(b) % count, a.max(b) % count), delay))
        .filter(|((from, to), _)| from < to && *to == task)
        .map(|((from, _), delay)| Dependency {
            task: number(from),
            delay,
        })
        .collect()
}

fn laid_out(world: &World, turn: QueueDiscipline) -> Tasks {
    let mut tasks = Tasks::new();
    for _ in 0..ENGINES {
        tasks.engine(turn);
    }
    for (task, &duration) in world.durations.iter().enumerate() {
        let inputs = inputs(world.durations.len(), &world.links, task);
        tasks.add(world.engines[task], duration, &inputs);
    }
    tasks
}

fn spans(tasks: &Tasks, line: &Timeline, engine: u32) -> Vec<(f64, f64)> {
    let own = (0..tasks.len()).filter(|&t| tasks.engine_of(number(t)) == Some(engine));
    let mut spans: Vec<(f64, f64)> = own.map(|t| (line.start[t], line.end[t])).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    spans
}

fn keeps_inputs_and_engines(tasks: &Tasks, line: &Timeline) {
    for task in 0..tasks.len() {
        for input in tasks.inputs_of(task) {
            assert!(line.start[task] >= line.end[input.task as usize] + input.delay - 1e-9);
        }
    }
    for engine in 0..ENGINES {
        for pair in spans(tasks, line, engine).windows(2) {
            assert!(pair[1].0 >= pair[0].1 - 1e-9, "two tasks at once: {pair:?}");
        }
    }
}

proptest! {
    #[test]
    fn tasks_start_as_early_as_they_may(world in any_tasks()) {
        let tasks = laid_out(&world, QueueDiscipline::Added);
        let line = simulate(&tasks).unwrap();
        // index order is a topological order here, so one pass is brute force
        for task in 0..tasks.len() {
            let ready = tasks.inputs_of(task).iter().map(|a| line.end[a.task as usize] + a.delay);
            let engine = tasks.engine_of(number(task));
            let before = (0..task).rev().find(|&t| tasks.engine_of(number(t)) == engine);
            let start = ready.chain(before.map(|t| line.end[t])).fold(0.0, f64::max);
            prop_assert!((line.start[task] - start).abs() < 1e-12);
            prop_assert!((line.end[task] - start - world.durations[task]).abs() < 1e-12);
        }
    }

    #[test]
    fn stepping_from_event_to_event_gives_the_same_times(world in any_tasks()) {
        let mut tasks = laid_out(&world, QueueDiscipline::Added);
        let straight = simulate(&tasks).unwrap();
        // a pace that is the same beside an engine without tasks leaves all as it was
        let idle = tasks.engine(QueueDiscipline::Added);
        tasks.slow(Slowdown { engine: 0, by: idle, factor: 2.0 });
        let stepped = simulate(&tasks).unwrap();
        for task in 0..tasks.len() {
            prop_assert!((straight.start[task] - stepped.start[task]).abs() < 1e-9);
            prop_assert!((straight.end[task] - stepped.end[task]).abs() < 1e-9);
        }
    }

    #[test]
    fn no_engine_idles_while_a_task_is_ready(world in any_tasks()) {
        let tasks = laid_out(&world, QueueDiscipline::Ready);
        let line = simulate(&tasks).unwrap();
        keeps_inputs_and_engines(&tasks, &line);
        for task in 0..tasks.len() {
            let ready = tasks.inputs_of(task).iter().map(|a| line.end[a.task as usize] + a.delay);
            let ready = ready.fold(0.0, f64::max);
            let engine = tasks.engine_of(number(task)).unwrap();
            let mut free = ready;
            for (start, end) in spans(&tasks, &line, engine) {
                if start <= free + 1e-9 && end > free && start < line.start[task] {
                    free = end;
                }
            }
            prop_assert!(line.start[task] <= free + 1e-9, "{} is ready at {free}", task);
        }
    }

    #[test]
    fn a_slowed_engine_does_the_same_work_in_more_time(
        world in any_tasks(), factor in 1.0..3.0_f64, turn in prop_oneof![Just(QueueDiscipline::Added), Just(QueueDiscipline::Ready)],
    ) {
        let mut tasks = laid_out(&world, turn);
        tasks.slow(Slowdown { engine: 0, by: 1, factor });
        let line = simulate(&tasks).unwrap();
        keeps_inputs_and_engines(&tasks, &line);
        let beside = spans(&tasks, &line, 1);
        for task in 0..tasks.len() {
            let (start, end) = (line.start[task], line.end[task]);
            let mut work = end - start;
            if tasks.engine_of(number(task)) == Some(0) {
                let shared: f64 =
                    beside.iter().map(|(a, b)| (b.min(end) - a.max(start)).max(0.0)).sum();
                work -= shared * (1.0 - 1.0 / factor);
            }
            prop_assert!((work - world.durations[task]).abs() < 1e-9, "task {task}: {work}");
        }
    }

    #[test]
    fn the_end_is_no_sooner_than_any_engine_s_work_or_any_chain(world in any_tasks()) {
        for turn in [QueueDiscipline::Added, QueueDiscipline::Ready] {
            let tasks = laid_out(&world, turn);
            let line = simulate(&tasks).unwrap();
            for engine in 0..ENGINES {
                let own = (0..tasks.len()).filter(|&t| tasks.engine_of(number(t)) == Some(engine));
                let work: f64 = own.map(|t| world.durations[t]).sum();
                prop_assert!(line.makespan() >= work - 1e-9);
            }
            let mut chain = vec![0.0_f64; tasks.len()];
            for task in 0..tasks.len() {
                let before = tasks.inputs_of(task).iter().map(|a| chain[a.task as usize] + a.delay);
                chain[task] = before.fold(0.0, f64::max) + world.durations[task];
                prop_assert!(line.makespan() >= chain[task] - 1e-9);
            }
            prop_assert_eq!(&simulate(&tasks).unwrap(), &line);
        }
    }
}

#[test]
fn a_circle_and_a_wrong_index_are_refused() {
    let wait = |task| [Dependency { task, delay: 0.0 }];
    let build = |turn: QueueDiscipline, tasks: &[(u32, &[Dependency])]| {
        let mut laid = Tasks::new();
        for _ in 0..2 {
            laid.engine(turn);
        }
        for &(engine, inputs) in tasks {
            laid.add(engine, 1.0, inputs);
        }
        simulate(&laid)
    };
    for turn in [QueueDiscipline::Added, QueueDiscipline::Ready] {
        let circle = build(turn, &[(0, &wait(1)), (1, &wait(0))]).unwrap_err();
        assert!(circle.to_string().contains("circle"), "{circle}");
        assert!(build(turn, &[(0, &wait(7))]).is_err());
        assert!(build(turn, &[(9, &[])]).is_err());
    }
    // each waits for the other's engine although no input is circular
    let crossed = [(0, &wait(3)[..]), (0, &[]), (1, &wait(1)[..]), (1, &[])];
    assert!(build(QueueDiscipline::Added, &crossed).is_err());
    let free = build(QueueDiscipline::Ready, &crossed).unwrap().makespan();
    assert!((free - 2.0).abs() < 1e-12);
    let mut tasks = Tasks::new();
    let engine = tasks.engine(QueueDiscipline::Added);
    tasks.add(engine, f64::NAN, &[]);
    assert!(simulate(&tasks).is_err());
}
