//! Do the closed forms of controllers agree with the events of all hosts, and keep their laws?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::prelude::*;
use proptest::sample::select;
use scalewright::schedule::Schedule;
use scalewright::schedule::controller::{
    Chain, Costs, Dispatch, DispatchSetting, Program, Resource, Stages, Transfers, dispatched,
    simulate, step_ends,
};
use scalewright::units::Seconds;

fn seconds() -> impl Strategy<Value = Seconds> {
    prop_oneof![1 => Just(0.0), 4 => 0.0..3.0_f64].prop_map(Seconds::new)
}

fn costs() -> impl Strategy<Value = Costs> {
    let all = [(); 6].map(|()| seconds());
    all.prop_map(
        |[latency, message, handle, scheduler, prepare, enqueue]| Costs {
            latency,
            message,
            handle,
            scheduler,
            prepare,
            enqueue,
        },
    )
}

/// Machines: hosts, devices of each, islands, and groups that divide them.
fn machines() -> impl Strategy<Value = (u32, u32, u32, u32)> {
    (
        select(vec![1_u32, 2, 4, 6]),
        1..4_u32,
        0..8_usize,
        0..8_usize,
    )
        .prop_map(|(hosts, devices, island, group)| {
            let islands: Vec<u32> = (1..=hosts).filter(|i| hosts % i == 0).collect();
            let groups: Vec<u32> = (1..=hosts * devices)
                .filter(|g| (hosts % g == 0 || g % hosts == 0) && hosts * devices % g == 0)
                .collect();
            let islands = islands[island % islands.len()];
            (hosts, devices, islands, groups[group % groups.len()])
        })
}

fn chain_of(groups: u32) -> impl Strategy<Value = Program> {
    let chain = prop::collection::vec((seconds(), seconds()), 1..9);
    (chain, any::<bool>()).prop_map(move |(both, exchanged)| {
        let (seconds, exchange): (Vec<_>, Vec<_>) = both.into_iter().unzip();
        let exchange = if exchanged { exchange } else { Vec::new() };
        Program::Chain(Chain {
            seconds,
            groups,
            exchange,
        })
    })
}

fn program(groups: u32) -> impl Strategy<Value = Program> {
    let kinds = select(vec![
        Schedule::GPipe,
        Schedule::OneForwardOneBackward,
        Schedule::Interleaved,
    ]);
    let stages = (kinds, 1..7_u32, seconds(), seconds()).prop_map(
        move |(schedule, micro_batches, forward, backward)| {
            Program::Pipeline(Stages {
                schedule,
                stages: groups,
                micro_batches,
                forward,
                backward,
            })
        },
    );
    prop_oneof![chain_of(groups), stages]
}

prop_compose! {
    fn setting()(machines in machines())(
        program in program(machines.3),
        costs in costs(),
        transfers in (seconds(), seconds(), any::<bool>()),
        input in prop_oneof![
            Just(Vec::new()),
            seconds().prop_map(|one| vec![one]),
            prop::collection::vec(seconds().prop_map(|s| s * 5.0), machines.0 as usize),
        ],
        prefetch in 0..4_u32,
        machines in Just(machines),
    ) -> DispatchSetting {
        DispatchSetting {
            program,
            hosts: machines.0,
            devices_per_host: machines.1,
            islands: machines.2,
            costs,
            transfers: Transfers {
                within: transfers.0 * 0.1,
                between: transfers.1,
                blocking: transfers.2,
            },
            input,
            prefetch,
        }
    }
}

/// The same with a chain of computations.
fn chained() -> impl Strategy<Value = DispatchSetting> {
    setting().prop_flat_map(|setting| {
        let groups = match &setting.program {
            Program::Chain(chain) => chain.groups,
            Program::Pipeline(stages) => stages.stages,
        };
        chain_of(groups).prop_map(move |program| DispatchSetting {
            program,
            ..setting.clone()
        })
    })
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn the_closed_form_is_the_event_simulation(
        setting in setting(), kind in select(Dispatch::ALL.to_vec()), steps in 1..9_u32,
    ) {
        let found = step_ends(kind, &setting, steps).unwrap();
        let witness = simulate(kind, &setting, steps).unwrap();
        for (step, (ours, theirs)) in found.iter().zip(&witness).enumerate() {
            prop_assert!(
                close(ours.value(), theirs.value()),
                "{kind:?} step {step}: {ours:?} is not {theirs:?}"
            );
        }
    }

    #[test]
    fn parts_add_up_and_nothing_is_below_zero(
        setting in setting(), kind in select(Dispatch::ALL.to_vec()),
    ) {
        let found = dispatched(kind, &setting).unwrap();
        let sum = found.computation + found.exposed_transfer + found.exposed_input
            + found.exposed_dispatch;
        prop_assert!(close(sum.value(), found.step.value()), "{found:?}");
        for part in [found.exposed_transfer, found.exposed_input, found.exposed_dispatch,
            found.first_exposed_dispatch, found.hidden_dispatch] {
            prop_assert!(part.value() >= -1e-9, "{found:?}");
        }
        prop_assert!((-1e-9..=1.0 + 1e-9).contains(&found.utilization), "{found:?}");
        // a controller that waits for each end also keeps groups from working side by side
        let alone = matches!(&setting.program, Program::Chain(_));
        if alone || kind != Dispatch::Synchronous {
            let most = found.dispatch.value() + 1e-9;
            prop_assert!(found.exposed_dispatch.value() <= most, "{found:?}");
        }
        let first = step_ends(kind, &setting, 1).unwrap()[0];
        prop_assert!(close(first.value(), found.first_step.value()));
    }

    #[test]
    fn steps_far_out_take_the_period(
        setting in setting(), kind in select(Dispatch::ALL.to_vec()),
    ) {
        // the first so many steps lag behind by a constant at most
        let found = dispatched(kind, &setting).unwrap().step.value();
        let far = step_ends(kind, &setting, 2_000).unwrap();
        let slope = (far[1_999] - far[999]).value() / 1_000.0;
        prop_assert!(slope <= found + 1e-9 * (1.0 + found), "{slope} over {found}");
        prop_assert!(slope >= found * 0.9 - 0.2, "{slope} far below {found}");
    }

    #[test]
    fn dispatch_is_hidden_from_where_is_said(setting in chained(), kind in select(Dispatch::ALL.to_vec())) {
        let found = dispatched(kind, &setting).unwrap();
        let mut longer = setting.clone();
        longer.input.clear();
        let Program::Chain(chain) = &mut longer.program else { unreachable!() };
        let mean = chain.seconds.iter().map(|s| s.value()).sum::<f64>() / chain.seconds.len() as f64;
        prop_assume!(mean > 1e-3 && found.hidden_from.is_some());
        let Some(from) = found.hidden_from else { unreachable!() };
        let scale = from.value() / mean;
        let mut at = |scale: f64| {
            let Program::Chain(own) = &setting.program else { unreachable!() };
            let Program::Chain(chain) = &mut longer.program else { unreachable!() };
            for (seconds, own) in chain.seconds.iter_mut().zip(&own.seconds) {
                *seconds = *own * scale;
            }
            dispatched(kind, &longer).unwrap().exposed_dispatch.value()
        };
        prop_assert!(at(scale * 1.001) <= 1e-9 * (1.0 + found.dispatch.value()));
        prop_assert!(scale < 1e-3 || at(scale * 0.99) > 0.0);
    }
}

fn chain(count: usize, each: f64) -> Program {
    Program::Chain(Chain {
        seconds: vec![Seconds::new(each); count],
        groups: 1,
        exchange: Vec::new(),
    })
}

fn plain(program: Program, hosts: u32) -> DispatchSetting {
    DispatchSetting {
        program,
        hosts,
        devices_per_host: 8,
        islands: 1,
        costs: Costs {
            scheduler: Seconds::new(5e-6),
            ..Costs::default()
        },
        transfers: Transfers::default(),
        input: Vec::new(),
        prefetch: 2,
    }
}

#[test]
fn hosts_hide_their_launches_behind_computations_that_last_longer() {
    let found =
        |each: f64| dispatched(Dispatch::MultiController, &plain(chain(100, each), 16)).unwrap();
    let hidden = found(1e-3);
    assert!(close(hidden.step.value(), 0.1), "{hidden:?}");
    assert!(close(hidden.exposed_dispatch.value(), 0.0));
    assert!(close(hidden.first_exposed_dispatch.value(), 61.7e-6));
    assert!(close(hidden.hidden_from.unwrap().value(), 60.7e-6));
    let shown = found(20e-6);
    assert!(close(shown.step.value(), 100.0 * 60.7e-6), "{shown:?}");
    assert_eq!(shown.binds, Resource::Host);
}

#[test]
fn a_controller_that_waits_hides_nothing() {
    // 16 messages of 20.2 us, 250 us out, 60.7 us and 1 us to launch, 250 us back
    let round_trip = 16.0 * 20.2e-6 + 500e-6 + 61.7e-6;
    let found = dispatched(Dispatch::Synchronous, &plain(chain(10, 1.0), 16)).unwrap();
    assert!(
        close(found.step.value(), 10.0 * (1.0 + round_trip)),
        "{found:?}"
    );
    assert_eq!(found.hidden_from, None);
    assert!(found.hidden_dispatch.value() < 1e-9, "{found:?}");
}

#[test]
fn dispatch_in_parallel_is_told_once_a_step() {
    let found = |kind, each| dispatched(kind, &plain(chain(128, each), 512)).unwrap();
    let parallel = found(Dispatch::Parallel, 1e-3);
    assert!(parallel.exposed_dispatch.value() < 1e-12, "{parallel:?}");
    // 513 messages a step, or one of 5 us a gang
    assert!(
        close(parallel.dispatch.value(), 513.0 * 20.2e-6),
        "{parallel:?}"
    );
    let sequential = found(Dispatch::Sequential, 1e-3);
    let each = 513.0 * 20.2e-6 + 250e-6 + 60.7e-6 + 250e-6;
    assert!(
        close(sequential.step.value(), 128.0 * each),
        "{sequential:?}"
    );
    assert_eq!(sequential.binds, Resource::RoundTrip);
    assert!(close(sequential.hidden_from.unwrap().value(), each));
}

#[test]
fn a_slow_host_s_input_stalls_every_step() {
    let mut setting = plain(chain(4, 0.25), 4);
    setting.input = [0.5, 0.5, 1.5, 0.5].map(Seconds::new).to_vec();
    let found = dispatched(Dispatch::MultiController, &setting).unwrap();
    assert!(close(found.step.value(), 1.5), "{found:?}");
    assert_eq!(found.binds, Resource::Input);
    setting.prefetch = 0;
    let found = dispatched(Dispatch::MultiController, &setting).unwrap();
    assert!(close(found.step.value(), 2.5), "{found:?}");
    assert_eq!(found.binds, Resource::Input);
}

#[test]
fn gradients_between_islands_hide_behind_the_backward_pass() {
    let mut setting = plain(
        Program::Chain(Chain {
            seconds: vec![Seconds::new(1.0); 4],
            groups: 1,
            exchange: [0.0, 0.5, 0.5, 0.5].map(Seconds::new).to_vec(),
        }),
        4,
    );
    setting.islands = 2;
    let found = dispatched(Dispatch::Parallel, &setting).unwrap();
    assert!(close(found.step.value(), 4.5), "{found:?}");
    setting.transfers.blocking = true;
    let found = dispatched(Dispatch::Parallel, &setting).unwrap();
    assert!(close(found.step.value(), 5.5), "{found:?}");
}

#[test]
fn a_pipeline_takes_what_its_schedule_takes() {
    for (stages, micro_batches) in [(4, 16), (8, 32), (16, 64)] {
        let setting = plain(
            Program::Pipeline(Stages {
                schedule: Schedule::GPipe,
                stages,
                micro_batches,
                forward: Seconds::new(1.0),
                backward: Seconds::new(2.0),
            }),
            16,
        );
        let found = dispatched(Dispatch::Parallel, &setting).unwrap();
        let expected = 3.0 * f64::from(micro_batches + stages - 1);
        assert!(close(found.step.value(), expected), "{found:?}");
        assert!(close(
            found.utilization,
            3.0 * f64::from(micro_batches) / expected
        ));
    }
}

type Change<'a> = &'a dyn Fn(&mut DispatchSetting);

#[test]
fn wrong_settings_are_refused_by_field() {
    let refused = |change: &dyn Fn(&mut DispatchSetting)| {
        let mut setting = plain(chain(4, 1.0), 4);
        change(&mut setting);
        dispatched(Dispatch::Parallel, &setting)
            .expect_err("a wrong setting")
            .to_string()
    };
    let pipeline = |schedule, stages| {
        Program::Pipeline(Stages {
            schedule,
            stages,
            micro_batches: 2,
            forward: Seconds::ZERO,
            backward: Seconds::ZERO,
        })
    };
    let wrong: [(Change, &str); 8] = [
        (&|s: &mut DispatchSetting| s.hosts = 0, "hosts: got 0"),
        (
            &|s: &mut DispatchSetting| s.islands = 3,
            "islands: got 3; allowed: a divisor",
        ),
        (
            &|s: &mut DispatchSetting| s.program = chain(0, 1.0),
            "chain.seconds: got 0 comp",
        ),
        (
            &|s: &mut DispatchSetting| s.program = chain(1, -1.0),
            "chain.seconds: got -1",
        ),
        (
            &|s: &mut DispatchSetting| s.costs.latency = Seconds::new(f64::NAN),
            "costs.latency: got NaN",
        ),
        (
            &|s: &mut DispatchSetting| s.input = vec![Seconds::ZERO; 3],
            "input: got 3 numbers",
        ),
        (
            &|s: &mut DispatchSetting| s.program = pipeline(Schedule::ZeroBubbleV, 4),
            "schedule: got zb-v",
        ),
        (
            &|s: &mut DispatchSetting| s.program = pipeline(Schedule::GPipe, 3),
            "stages: got 3",
        ),
    ];
    for (change, message) in wrong {
        let found = refused(change);
        assert!(found.contains(message), "{found} lacks {message}");
    }
    let unknown = Dispatch::named("paralel").expect_err("unknown").to_string();
    assert!(
        unknown.contains("nearest: single_parallel") || unknown.contains("known:"),
        "{unknown}"
    );
}
