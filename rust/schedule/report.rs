//! What is there to say about a step that a caller asks for?

use super::custom_order;
use super::measures::{Bubble, Device, bubble, held};
use super::operation::{Gradient, Operation, Work};
use super::pipeline::{Pipeline, Sends};
use super::replay::Extent;
use super::request::{Request, check_size};
use super::rule::Schedule;
use super::run::{Run, interval, run, run_order};
use super::simulated::{simulate, simulate_order};
use super::spelling::read_order;
use super::stages::{Makespan, PipelineShape, Scratch};
use super::{bound, steady_period};
use crate::error::{Error, Result};
use crate::solve::Timeline;
use crate::units::Seconds;

/// Virtual stages up to which the steady phase is run through, which takes their square.
const MOST_FOR_PERIOD: u32 = 512;

/// A step and what there is to say about it.
#[derive(Debug, Clone)]
pub struct ScheduleReport {
    /// Devices and chunks.
    pub shape: PipelineShape,
    /// Virtual stages along the model.
    pub count: u32,
    /// Micro-batches that were run, or slices of them: whole rounds where the schedule runs in rounds.
    pub executed: u32,
    /// Slices of each micro-batch that were run.
    pub slices: u32,
    /// Copies of each stage's weights in the pipeline.
    pub copies: u32,
    /// Where gradients come from.
    pub gradient: Gradient,
    /// The operations with their times.
    pub run: Run,
    /// A time that the step cannot beat from its first operation to its last.
    pub bound: Makespan,
    /// Seconds from one step to the next: less than the makespan where steps run into one another;
    /// not known where it follows from the period and that is not known, or lengths are unlike.
    pub interval: Option<Seconds>,
    /// Seconds that a micro-batch adds once the pipeline is full; not known of an order, nor of more
    /// than 512 virtual stages.
    pub period: Option<Seconds>,
    /// What the event simulation says, where it was asked for.
    pub simulated: Option<Seconds>,
    /// Idle time between one step and the next; within the makespan where the interval is unknown.
    pub bubble: Bubble,
    /// What each device does.
    pub devices: Vec<Device>,
}

impl ScheduleReport {
    /// Most activations that a device holds, counted in micro-batches of a whole stage: so that
    /// schedules with unlike chunks and slices compare.
    pub fn activations(&self, device: &Device) -> f64 {
        let parts = f64::from(self.count) * f64::from(self.slices);
        f64::from(device.in_flight) * f64::from(self.shape.stages) / parts
    }
}

impl Request {
    /// Runs what is asked for.
    ///
    /// Fails naming the field where a count or a length is wrong, the schedule cannot run, or the
    /// order is incomplete or waits in a circle.
    pub fn answer(&self) -> Result<ScheduleReport> {
        self.check_counts()?;
        match &self.order {
            Some(lines) => self.by_order(lines),
            None => self.by_schedule(),
        }
    }

    fn by_schedule(&self) -> Result<ScheduleReport> {
        let kind = Schedule::named(self.name.as_deref().unwrap_or_default())?;
        let rule = kind.rule();
        let shape = self.shape(self.chunks.unwrap_or(rule.chunks()));
        check_size(
            shape.parts(),
            3,
            self.micro_batches.saturating_mul(self.slices),
        )?;
        rule.check(shape, self.micro_batches)?;
        let whole = PipelineShape { slices: 1, ..shape };
        let executed = rule.executed(shape, self.micro_batches);
        let slices = executed / rule.executed(whole, self.micro_batches).max(1);
        let extent = Extent {
            stages: rule.count(shape),
            micro_batches: executed,
            gradient: rule.gradient(shape),
        };
        check_size(extent.stages, extent.gradient.lanes(), executed)?;
        let times = self.times(extent.stages, slices)?;
        let pipeline = times.pipeline(self, shape);
        let run = run(kind, &pipeline, self.micro_batches)?;
        let simulated =
            self.simulated_makespan(|| simulate(kind, &pipeline, self.micro_batches))?;
        let period = (extent.stages <= MOST_FOR_PERIOD)
            .then(|| steady_period(kind, &pipeline, &mut Scratch::new()));
        let interval = if !rule.flushes() {
            let alike = period.filter(|_| self.sizes.is_empty());
            alike.map(|period| period * f64::from(self.micro_batches))
        } else if rule.bypasses() {
            Some(interval(
                kind,
                &pipeline,
                self.micro_batches,
                &mut Scratch::new(),
            )?)
        } else {
            Some(run.makespan)
        };
        let device = |number| DeviceFacts {
            in_flight: rule.in_flight(shape, self.micro_batches, number),
            versions: rule.versions(shape, self.micro_batches, number),
            staleness: rule.staleness(shape, self.micro_batches, number),
        };
        let work = self.work(&run, extent, &pipeline)?;
        Ok(ScheduleReport {
            shape,
            count: extent.stages,
            executed,
            slices,
            copies: rule.copies(shape),
            gradient: extent.gradient,
            bound: bound(kind, &pipeline, self.micro_batches),
            interval,
            period,
            simulated,
            bubble: bubble(interval.unwrap_or(run.makespan), &work),
            devices: devices(&run, &work, device),
            run,
        })
    }

    fn by_order(&self, lines: &[String]) -> Result<ScheduleReport> {
        let orders = self.orders(lines)?;
        let kind = self.name.as_deref().map(Schedule::named).transpose()?;
        let shape = self.shape(self.chunks.unwrap_or_else(|| self.chunks_of(&orders)));
        let gradient = kind.map_or_else(
            || self.gradient_of(&orders),
            |kind| kind.rule().gradient(shape),
        );
        let extent = Extent {
            stages: kind.map_or(shape.parts(), |kind| kind.rule().count(shape)),
            micro_batches: self.micro_batches,
            gradient,
        };
        check_size(extent.stages, gradient.lanes(), extent.micro_batches)?;
        let times = self.times(extent.stages, 1)?;
        let pipeline = times.pipeline(self, shape);
        let pair = (extent.stages, extent.micro_batches);
        let run = run_order(&orders, pair, gradient, &pipeline)?;
        let witness = || simulate_order(&orders, extent.stages, gradient, &pipeline);
        let simulated = self.simulated_makespan(witness)?;
        let work = self.work(&run, extent, &pipeline)?;
        let holds = |number: u32| {
            let order = run.orders.get(number as usize);
            order.map_or(0, |order| held(order, gradient, extent.stages))
        };
        let device = |number| DeviceFacts {
            in_flight: holds(number),
            versions: 1,
            staleness: 0,
        };
        Ok(ScheduleReport {
            shape,
            count: extent.stages,
            executed: extent.micro_batches,
            slices: 1,
            copies: copies(&run, extent),
            gradient,
            bound: Makespan::at_least(custom_order::bound(&run, extent, &work, &pipeline)),
            interval: Some(run.makespan),
            period: None,
            simulated,
            bubble: bubble(run.makespan, &work),
            devices: devices(&run, &work, device),
            run,
        })
    }

    fn shape(&self, chunks: u32) -> PipelineShape {
        PipelineShape {
            window: self.window,
            slices: self.slices,
            ..PipelineShape::new(self.stages, chunks)
        }
    }

    /// Seconds that each device computes: where sends hold their sender, what it is taken without.
    fn work(&self, run: &Run, extent: Extent, pipeline: &Pipeline<'_>) -> Result<Vec<f64>> {
        if self.sends == Sends::Asynchronous {
            return Ok(run.busy());
        }
        let free = Pipeline {
            sends: Sends::Asynchronous,
            ..*pipeline
        };
        let pair = (extent.stages, extent.micro_batches);
        let run = run_order(&run.orders, pair, extent.gradient, &free)?;
        Ok(run.busy())
    }

    fn simulated_makespan(
        &self,
        simulation: impl FnOnce() -> Result<Timeline>,
    ) -> Result<Option<Seconds>> {
        if !self.simulate {
            return Ok(None);
        }
        Ok(Some(Seconds::new(simulation()?.makespan())))
    }

    fn orders(&self, lines: &[String]) -> Result<Vec<Vec<Operation>>> {
        if lines.len() != self.stages as usize {
            let allowed = format!("{}: one list of operations per stage", self.stages);
            return Err(Error::invalid("order", lines.len(), allowed));
        }
        let numbered = (0_u32..).zip(lines);
        numbered
            .map(|(device, line)| read_order(line, device))
            .collect()
    }

    /// Chunks per device that an order needs.
    fn chunks_of(&self, orders: &[Vec<Operation>]) -> u32 {
        let stages = orders.iter().flatten().map(|o| o.stage.saturating_add(1));
        stages.max().unwrap_or(1).div_ceil(self.stages)
    }

    /// Backpropagation, or local losses over as many stages as the order carries one.
    fn gradient_of(&self, orders: &[Vec<Operation>]) -> Gradient {
        let offsets = orders.iter().flatten().filter_map(|o| match o.work {
            Work::Local(offset) => Some(offset.saturating_add(1)),
            _ => None,
        });
        match offsets.max() {
            Some(window) => Gradient::Window(window.max(self.window)),
            None => Gradient::Chain,
        }
    }
}

/// What a schedule or a walk through an order says of a device.
struct DeviceFacts {
    in_flight: u32,
    versions: u32,
    staleness: u32,
}

fn devices(run: &Run, work: &[f64], known: impl Fn(u32) -> DeviceFacts) -> Vec<Device> {
    let taken = run.busy();
    let each = (0_u32..).zip(work.iter().zip(&taken));
    each.map(|(number, (&work, &busy))| {
        let known = known(number);
        Device {
            work,
            busy,
            in_flight: known.in_flight,
            versions: known.versions,
            staleness: known.staleness,
        }
    })
    .collect()
}

/// Most devices that run one stage of an order.
fn copies(run: &Run, extent: Extent) -> u32 {
    let mut seen = vec![0_u32; extent.stages as usize];
    for order in &run.orders {
        let mut own: Vec<u32> = order.iter().map(|operation| operation.stage).collect();
        own.sort_unstable();
        own.dedup();
        for stage in own {
            seen[stage as usize] += 1;
        }
    }
    seen.into_iter().max().unwrap_or(1)
}
