//! Do the events of all hosts bear out a controller's closed form?

use super::kind::Dispatch;
use super::program_placement::ProgramPlacement;
use super::setting::DispatchSetting;
use crate::error::{Error, Result};
use crate::solve::{Dependency, QueueDiscipline, Tasks, simulate as run_events};
use crate::units::Seconds;

/// Tasks that a simulation may have.
const MOST_TASKS: u64 = 1 << 22;

/// Ends of the first steps, by the event simulation: the witness of the closed form.
///
/// Every message, launch, gang, input and computation of every host and island is a task, the
/// controller, hosts, schedulers, input pipelines, groups of devices and the network between islands
/// are engines. It shares nothing with the closed form but the step's graph.
pub fn simulate(kind: Dispatch, setting: &DispatchSetting, steps: u32) -> Result<Vec<Seconds>> {
    let placed = ProgramPlacement::new(setting)?;
    let nodes = placed.graph.nodes.len() as u64;
    let each = nodes * (2 + u64::from(setting.hosts / placed.graph.groups.min(setting.hosts)));
    let tasks = (each * 2 + 2 * u64::from(setting.hosts)) * u64::from(steps);
    if tasks > MOST_TASKS {
        let allowed = format!("steps x hosts x computations of {MOST_TASKS} tasks at most");
        return Err(Error::invalid("steps", steps, allowed));
    }
    let mut world = World::new(kind, &placed);
    let ends: Vec<Vec<u32>> = (0..steps).map(|step| world.step(step)).collect();
    let line = run_events(&world.tasks)?;
    let end = |sinks: &Vec<u32>| {
        sinks
            .iter()
            .map(|t| line.end[*t as usize])
            .fold(0.0, f64::max)
    };
    Ok(ends.iter().map(end).map(Seconds::new).collect())
}

struct World<'a> {
    kind: Dispatch,
    placed: &'a ProgramPlacement<'a>,
    tasks: Tasks,
    controller: u32,
    schedulers: Vec<u32>,
    hosts: Vec<u32>,
    inputs: Vec<u32>,
    engines: Vec<u32>,
    /// Last tasks of the step before.
    sinks: Vec<u32>,
    /// The marks of steps' starts, which free places for input.
    starts: Vec<u32>,
    /// Launches and gangs of the computation before.
    enqueued: Vec<Dependency>,
    /// The computation dispatched before, in this step.
    before: Option<u32>,
}

fn after(task: u32, delay: f64) -> Dependency {
    Dependency { task, delay }
}

impl<'a> World<'a> {
    fn new(kind: Dispatch, placed: &'a ProgramPlacement<'a>) -> Self {
        let mut tasks = Tasks::new();
        let setting = placed.setting;
        let mut engines = |count: u32| -> Vec<u32> {
            (0..count)
                .map(|_| tasks.engine(QueueDiscipline::Added))
                .collect()
        };
        let controller = engines(1)[0];
        let schedulers = engines(setting.islands);
        let hosts = engines(setting.hosts);
        let inputs = engines(setting.hosts);
        let engines = engines(placed.graph.groups + 1);
        Self {
            kind,
            placed,
            tasks,
            controller,
            schedulers,
            hosts,
            inputs,
            engines,
            sinks: Vec::new(),
            starts: Vec::new(),
            enqueued: Vec::new(),
            before: None,
        }
    }

    /// Adds a step and gives the tasks that end it.
    fn step(&mut self, step: u32) -> Vec<u32> {
        let placed = self.placed;
        let told = match self.kind {
            Dispatch::Parallel => self.notify_all(),
            _ => (Vec::new(), Vec::new()),
        };
        let read = self.read(step);
        self.before = None;
        let mut done: Vec<u32> = Vec::new();
        for (place, node) in placed.graph.nodes.iter().enumerate() {
            let mut inputs: Vec<Dependency> = node
                .inputs
                .iter()
                .map(|(input, delay)| after(done[*input as usize], *delay))
                .collect();
            if node.launched {
                inputs.extend(self.dispatch(node.engine, &told));
            }
            let engine = self.engines[node.engine as usize];
            if place == 0 {
                inputs.extend(self.sinks.iter().map(|task| after(*task, 0.0)));
                inputs.extend(read.iter().map(|task| after(*task, 0.0)));
                let start = self.tasks.add(engine, 0.0, &inputs);
                self.starts.push(start);
                inputs = vec![after(start, 0.0)];
            }
            let task = self.tasks.add(engine, node.seconds, &inputs);
            if node.launched {
                self.before = Some(task);
            }
            done.push(task);
        }
        let sinks = placed.graph.sinks();
        self.sinks = sinks.iter().map(|node| done[*node as usize]).collect();
        self.sinks.clone()
    }

    /// The input pipelines of the hosts that read a step's input.
    fn read(&mut self, step: u32) -> Vec<u32> {
        let places = self.placed.setting.prefetch;
        let inputs: Vec<Dependency> = match (places, step.checked_sub(places)) {
            (0, _) => self.sinks.iter().map(|task| after(*task, 0.0)).collect(),
            (_, Some(free)) => vec![after(self.starts[free as usize], 0.0)],
            _ => Vec::new(),
        };
        let hosts = self.placed.hosts(0);
        hosts
            .map(|host| {
                let seconds = self.placed.input_of(host);
                self.tasks.add(self.inputs[host as usize], seconds, &inputs)
            })
            .collect()
    }

    /// What a computation's start waits for on the side of dispatch.
    fn dispatch(&mut self, group: u32, told: &(Vec<u32>, Vec<u32>)) -> Vec<Dependency> {
        let costs = self.placed.setting.costs;
        let (latency, enqueue) = (costs.latency.value(), costs.enqueue.value());
        let (hosts, islands) = (self.placed.hosts(group), self.placed.islands(group));
        let told = match self.kind {
            Dispatch::MultiController => {
                let launch = |host| self.launch(host, &[]);
                let launched: Vec<u32> = hosts.map(launch).collect();
                return launched.iter().map(|task| after(*task, enqueue)).collect();
            }
            Dispatch::Parallel => told.clone(),
            Dispatch::Synchronous => {
                let waits: Vec<Dependency> = match self.before {
                    Some(before) => vec![after(before, latency)],
                    None => self.sinks.iter().map(|t| after(*t, latency)).collect(),
                };
                self.notify_group(0, group, &waits)
            }
            Dispatch::Sequential => {
                let waits = std::mem::take(&mut self.enqueued);
                self.notify_group(islands.len(), group, &waits)
            }
        };
        let parallel = self.kind == Dispatch::Parallel;
        let place = |first: u32, own: u32| if parallel { own } else { own - first } as usize;
        let first = (hosts.start, islands.start);
        let mut launched = Vec::new();
        for host in hosts {
            let message = told.1[place(first.0, host)];
            launched.push(after(
                self.launch(host, &[after(message, latency)]),
                enqueue,
            ));
        }
        let mut ordered = Vec::new();
        if self.kind != Dispatch::Synchronous {
            for island in islands {
                let message = told.0[place(first.1, island)];
                let engine = self.schedulers[island as usize];
                let inputs = [after(message, latency)];
                let task = self.tasks.add(engine, costs.scheduler.value(), &inputs);
                ordered.push(after(task, latency + enqueue));
            }
        }
        let later = |all: &[Dependency], delay: f64| -> Vec<Dependency> {
            all.iter().map(|a| after(a.task, delay)).collect()
        };
        self.enqueued = later(&launched, latency);
        self.enqueued.extend(later(&ordered, 2.0 * latency));
        launched.extend(ordered);
        launched
    }

    fn launch(&mut self, host: u32, inputs: &[Dependency]) -> u32 {
        let prepare = self.placed.setting.costs.prepare.value();
        self.tasks.add(self.hosts[host as usize], prepare, inputs)
    }

    /// The controller's messages to some islands and all hosts of a group.
    fn notify_group(
        &mut self,
        islands: usize,
        group: u32,
        waits: &[Dependency],
    ) -> (Vec<u32>, Vec<u32>) {
        let message = self.placed.setting.costs.message.value();
        let each = self.placed.notify_host_time();
        let hosts = self.placed.hosts(group).len();
        let told = (0..islands).map(|_| message);
        let told: Vec<f64> = told.chain((0..hosts).map(|_| each)).collect();
        let told: Vec<u32> = told
            .iter()
            .map(|seconds| self.tasks.add(self.controller, *seconds, waits))
            .collect();
        let (islands, hosts) = told.split_at(islands);
        (islands.to_vec(), hosts.to_vec())
    }

    /// The controller's messages to all islands and hosts.
    fn notify_all(&mut self) -> (Vec<u32>, Vec<u32>) {
        let setting = self.placed.setting;
        let costs = setting.costs;
        let each =
            costs.message.value() + f64::from(setting.devices_per_host) * costs.handle.value();
        let mut told = |count: u32, seconds: f64| -> Vec<u32> {
            let task = |_| self.tasks.add(self.controller, seconds, &[]);
            (0..count).map(task).collect()
        };
        (
            told(setting.islands, costs.message.value()),
            told(setting.hosts, each),
        )
    }
}
