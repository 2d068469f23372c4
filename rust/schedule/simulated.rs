//! Do the events of a step bear out its recurrence?

use super::operation::{Gradient, Operation, Work};
use super::pipeline::{Pipeline, Sends};
use super::rule::Schedule;
use super::run::order;
use crate::error::Result;
use crate::solve::{Dependency, QueueDiscipline, Tasks, Timeline, simulate as run_events};
use std::collections::BTreeMap;

/// The witness of a schedule's recurrence: the event simulation of its order.
///
/// Every operation is a task, every device an engine, and every blocking send a task of the sender's
/// device. It shares nothing with the recurrence but the order.
pub fn simulate(kind: Schedule, pipeline: &Pipeline<'_>, micro_batches: u32) -> Result<Timeline> {
    let (rule, shape) = (kind.rule(), pipeline.shape);
    rule.check(shape, micro_batches)?;
    let orders: Vec<Vec<Operation>> = (0..shape.stages)
        .map(|device| order(kind, device, shape, micro_batches))
        .collect();
    simulate_order(&orders, rule.count(shape), rule.gradient(shape), pipeline)
}

/// The same for an order that the caller brings: one list of operations per device.
///
/// `count` virtual stages. The order must be one that `run_order` lets through.
pub fn simulate_order(
    orders: &[Vec<Operation>],
    count: u32,
    gradient: Gradient,
    pipeline: &Pipeline<'_>,
) -> Result<Timeline> {
    let layout = Layout {
        pipeline,
        count,
        gradient,
        made: task_of_result(orders),
    };
    let mut tasks = Tasks::new();
    for order in orders {
        let engine = tasks.engine(QueueDiscipline::Added);
        layout.lay(engine, order, &mut tasks);
    }
    run_events(&tasks)
}

/// A result: what was computed, for which stage and micro-batch.
type Key = (Work, u32, u32);

/// Which task makes each result and on which device.
fn task_of_result(orders: &[Vec<Operation>]) -> BTreeMap<Key, (u32, usize)> {
    let mut made = BTreeMap::new();
    let mut task = 0;
    for (device, order) in orders.iter().enumerate() {
        for (place, operation) in order.iter().enumerate() {
            for micro_batch in operation.micro_batch..operation.micro_batch + operation.span {
                let key = |work| (work, operation.stage, micro_batch);
                made.insert(key(operation.work), (task, device));
                if operation.work == Work::Input {
                    made.insert(key(Work::Backward), (task, device));
                }
            }
            // two operations that run together are one task
            if !(operation.paired && place + 1 < order.len()) {
                task += 1;
            }
        }
    }
    made
}

struct Layout<'a> {
    pipeline: &'a Pipeline<'a>,
    count: u32,
    gradient: Gradient,
    made: BTreeMap<Key, (u32, usize)>,
}

impl Layout<'_> {
    fn lay(&self, engine: u32, order: &[Operation], tasks: &mut Tasks) {
        let mut place = 0;
        while let Some(&first) = order.get(place) {
            let second = order.get(place + 1).filter(|_| first.paired);
            let mut inputs = self.inputs(first);
            let mut duration = self.duration(first);
            if let Some(&second) = second {
                let hidden = |o: Operation| self.pass(o.stage).hidden.value();
                inputs.extend(self.inputs(second));
                duration += self.duration(second) - hidden(first).min(hidden(second));
            }
            tasks.add(engine, duration.max(0.0), &inputs);
            place += 1 + usize::from(second.is_some());
        }
    }

    fn pass(&self, stage: u32) -> super::Pass {
        self.pipeline.pass(stage, self.count)
    }

    fn inputs(&self, operation: Operation) -> Vec<Dependency> {
        let run = operation.micro_batch..operation.micro_batch + operation.span;
        run.flat_map(|m| self.needs(operation, m)).collect()
    }

    /// What one micro-batch of an operation waits for.
    fn needs(&self, operation: Operation, micro_batch: u32) -> Vec<Dependency> {
        let (stage, last) = (operation.stage, self.count - 1);
        let own = (Work::Forward, stage);
        let mut keys = match operation.work {
            Work::Forward if stage == 0 => vec![],
            Work::Forward => vec![(Work::Forward, stage - 1)],
            Work::Weight => vec![(Work::Input, stage)],
            Work::Local(0) => vec![own],
            Work::Local(offset) => vec![own, (Work::Local(offset - 1), stage + 1)],
            _ if stage == last => vec![own],
            _ if self.gradient == Gradient::Direct => vec![own, (Work::Forward, last)],
            _ => vec![own, (Work::Backward, stage + 1)],
        };
        keys.dedup();
        let device = self.device(stage, micro_batch);
        let after = |(work, from): (Work, u32)| {
            let (task, other) = *self.made.get(&(work, from, micro_batch))?;
            let mut delay = 0.0;
            // the last stage's error goes to all at once and is waited for by none
            let error = work == Work::Forward && operation.work == Work::Backward && from != stage;
            if other != device && error {
                delay = self.pipeline.hop(last - 1);
            } else if other != device && self.pipeline.sends == Sends::Asynchronous {
                delay = self.pipeline.hop(from.min(stage));
            }
            if error {
                delay += self.pipeline.feedback.value();
            }
            Some(Dependency { task, delay })
        };
        keys.into_iter().filter_map(after).collect()
    }

    fn device(&self, stage: u32, micro_batch: u32) -> usize {
        let made = self.made.get(&(Work::Forward, stage, micro_batch));
        made.map_or(usize::MAX, |(_, device)| *device)
    }

    /// Seconds of an operation, a blocking send behind it included.
    fn duration(&self, operation: Operation) -> f64 {
        let Operation { work, stage, .. } = operation;
        let pass = self.pass(stage);
        let farthest = match self.gradient {
            Gradient::Window(window) => (stage + window - 1).min(self.count - 1),
            _ => stage,
        };
        let run = operation.micro_batch..operation.micro_batch + operation.span;
        let each = run.map(|m| {
            let size = self.pipeline.size(m);
            let seconds = match work {
                Work::Forward => pass.forward.value() * size.forward,
                Work::Input => pass.backward.value() * size.backward,
                Work::Weight => pass.weight.value() * size.backward,
                Work::Local(offset) if stage + offset < farthest => {
                    pass.backward.value() * size.backward
                }
                Work::Backward | Work::Local(_) => pass.whole() * size.backward,
            };
            seconds + self.blocked(operation, m)
        });
        each.sum()
    }

    /// Seconds that the sender of an operation's result waits for it to arrive.
    fn blocked(&self, operation: Operation, micro_batch: u32) -> f64 {
        let stage = operation.stage;
        let to = match (operation.work, self.gradient) {
            (Work::Forward, _) => Some(stage + 1).filter(|to| *to < self.count),
            (Work::Weight, _) | (_, Gradient::Direct) => None,
            (Work::Local(offset), Gradient::Window(window)) if offset + 1 >= window => None,
            _ => stage.checked_sub(1),
        };
        let away = |to: &u32| self.device(*to, micro_batch) != self.device(stage, micro_batch);
        let to = to
            .filter(|_| self.pipeline.sends == Sends::Blocking)
            .filter(away);
        to.map_or(0.0, |to| self.pipeline.hop(stage.min(to)))
    }
}
