//! Is a step that no device's optimizer holds up as long as what it adds when its order runs again and again?

#![allow(clippy::unwrap_used)] // the lint's own exemption ends at test functions

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::schedule::{
    self, Gradient, Hops, Operation, Pass, Passes, Pipeline, PipelineShape, Schedule, Scratch,
    Sends,
};
use scalewright::units::Seconds;

/// Steps until the pattern of waits has settled, and as many again to see what one adds.
const STEPS: u32 = 24;

#[derive(Debug, Clone)]
struct World {
    kind: Schedule,
    shape: PipelineShape,
    micro_batches: u32,
    passes: Vec<Pass>,
    hops: Vec<Seconds>,
    sends: Sends,
}

impl World {
    fn pipeline(&self) -> Pipeline<'_> {
        let passes = Passes::Each(&self.passes);
        let mut pipeline = Pipeline::new(self.shape, passes, Seconds::ZERO);
        pipeline.hops = Hops::Each(&self.hops);
        pipeline.sends = self.sends;
        pipeline
    }

    fn interval(&self) -> f64 {
        let (pipeline, count) = (self.pipeline(), self.micro_batches);
        let interval = schedule::interval(self.kind, &pipeline, count, &mut Scratch::new());
        interval.unwrap().value()
    }

    /// End of the last operation of `steps` steps that run one after another on each device.
    fn end_of(&self, steps: u32) -> f64 {
        let step = |device: u32, step: u32| {
            let order = schedule::order(self.kind, device, self.shape, self.micro_batches);
            let later = move |operation: Operation| Operation {
                micro_batch: operation.micro_batch + step * self.micro_batches,
                ..operation
            };
            order.into_iter().map(later)
        };
        let device = |device| (0..steps).flat_map(|s| step(device, s)).collect();
        let orders: Vec<Vec<Operation>> = (0..self.shape.stages).map(device).collect();
        let extent = (self.shape.parts(), steps * self.micro_batches);
        let run = schedule::run_order(&orders, extent, Gradient::Chain, &self.pipeline());
        run.unwrap().makespan.value()
    }
}

fn any_world() -> impl Strategy<Value = World> {
    let kind = prop_oneof![Just(Schedule::ZeroBubbleH2), Just(Schedule::ZeroBubbleV)];
    let counts = (1..6_u32, 1..9_u32, any::<bool>());
    let time = || prop_oneof![Just(0.0), Just(1.0), 0.0..1.0, 0.0..20.0];
    let times = (vec([time(), time(), time()], 10), vec(time(), 9));
    (kind, counts, times).prop_map(|(kind, (stages, micro_batches, waits), (passes, hops))| {
        let shape = PipelineShape::new(stages, kind.rule().chunks());
        let parts = shape.parts() as usize;
        let seconds = Seconds::new;
        let pass = |times: &[f64; 3]| Pass {
            weight: seconds(times[2]),
            ..Pass::new(seconds(times[0]), seconds(times[1]))
        };
        World {
            kind,
            shape,
            micro_batches,
            passes: passes[..parts].iter().map(pass).collect(),
            hops: hops[..parts - 1].iter().copied().map(seconds).collect(),
            sends: if waits {
                Sends::Blocking
            } else {
                Sends::Asynchronous
            },
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_step_adds_what_many_of_them_take(world in any_world()) {
        let interval = world.interval();
        let added = (world.end_of(2 * STEPS) - world.end_of(STEPS)) / f64::from(STEPS);
        // what has not settled within so many steps adds less at first
        prop_assert!(added <= interval * (1.0 + 1e-7) + 1e-12, "{added} of {interval}");
        prop_assert!(interval <= added * 1.001 + 1e-12, "{interval}, {added}");
    }

    #[test]
    fn a_slower_stage_or_link_never_shortens_a_step(
        world in any_world(), place in 0..10_usize, more in 0.0..5.0,
    ) {
        let mut slower = world.clone();
        let parts = slower.passes.len();
        slower.passes[place % parts].backward += Seconds::new(more);
        if parts > 1 {
            slower.hops[place % (parts - 1)] += Seconds::new(more);
        }
        prop_assert!(slower.interval() >= world.interval() * (1.0 - 1e-8));
    }

    #[test]
    fn a_step_lies_between_its_work_and_its_makespan(world in any_world()) {
        let pipeline = world.pipeline();
        let run = schedule::run(world.kind, &pipeline, world.micro_batches).unwrap();
        let interval = world.interval();
        prop_assert!(interval <= run.makespan.value() * (1.0 + 1e-9));
        for spans in &run.spans {
            let busy: f64 = spans.iter().map(|[start, end]| end - start).sum();
            prop_assert!(busy <= interval * (1.0 + 1e-8), "{busy} of {interval}");
        }
    }
}
