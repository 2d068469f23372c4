//! Which nodes does a program have?

use super::graph::{Graph, Node, number};
use super::program_placement::hop;
use super::setting::{Chain, DispatchSetting, Stages};
use crate::error::{Error, Result};
use crate::schedule::{Operation, Work, order};
use std::collections::BTreeMap;

/// Adds the data that goes from a node to one on another group; gives what its receiver waits for.
fn sent(nodes: &mut Vec<Node>, from: u32, seconds: f64, blocking: bool) -> (u32, f64) {
    if !blocking || seconds <= 0.0 {
        return (from, seconds);
    }
    nodes.push(Node {
        seconds,
        engine: nodes[from as usize].engine,
        launched: false,
        inputs: vec![(from, 0.0)],
    });
    (number(nodes.len() - 1), 0.0)
}

/// Computations one after another, each behind the data of the one before.
pub(super) fn of_chain(setting: &DispatchSetting, chain: &Chain) -> Graph {
    let groups = chain.groups;
    let blocking = setting.transfers.blocking;
    let mut nodes: Vec<Node> = Vec::with_capacity(2 * chain.seconds.len());
    let mut inputs = Vec::new();
    for (place, seconds) in (0_u32..).zip(&chain.seconds) {
        let engine = place % groups;
        nodes.push(Node {
            seconds: seconds.value(),
            engine,
            launched: true,
            inputs: std::mem::take(&mut inputs),
        });
        let own = number(nodes.len() - 1);
        if place as usize + 1 < chain.seconds.len() {
            let seconds = hop(setting, groups, engine, (place + 1) % groups);
            inputs.push(sent(&mut nodes, own, seconds, blocking));
        }
        let exchange = chain.exchange.get(place as usize);
        if let Some(seconds) = exchange.filter(|seconds| seconds.value() > 0.0) {
            nodes.push(Node {
                seconds: seconds.value(),
                engine: groups,
                launched: false,
                inputs: vec![(own, 0.0)],
            });
            if blocking {
                inputs.push((number(nodes.len() - 1), 0.0));
            }
        }
    }
    Graph { nodes, groups }
}

/// A result of a pass: what was computed, on which virtual stage, for which micro-batch.
type Key = (Work, u32, u32);

/// Passes of a pipeline in an order in which they can be dispatched.
pub(super) fn of_stages(setting: &DispatchSetting, stages: &Stages) -> Result<Graph> {
    let (shape, groups) = (stages.shape(), stages.stages);
    let rule = stages.schedule.rule();
    let count = rule.count(shape);
    let blocking = setting.transfers.blocking;
    let mut nodes: Vec<Node> = Vec::new();
    let mut made: BTreeMap<Key, u32> = BTreeMap::new();
    let mut passes: Vec<(u32, Operation)> = Vec::new();
    for device in 0..groups {
        for pass in order(stages.schedule, device, shape, stages.micro_batches) {
            let own = number(nodes.len());
            nodes.push(node_of(stages, device, pass));
            passes.push((own, pass));
            let to = receiver(pass, count).filter(|_| blocking);
            let to = to.map(|to| rule.device(shape, to, pass.micro_batch));
            let seconds = to.map_or(0.0, |to| hop(setting, groups, device, to));
            let (data, _) = sent(&mut nodes, own, seconds, blocking);
            made.insert((pass.work, pass.stage, pass.micro_batch), data);
        }
    }
    for (node, pass) in passes {
        if let Some(key) = input_of(pass, count) {
            let input = made.get(&key).copied();
            let input = input.ok_or_else(|| Error::inconsistent("program.pipeline: incomplete"))?;
            let (from, to) = (nodes[input as usize].engine, nodes[node as usize].engine);
            let delay = if blocking {
                0.0
            } else {
                hop(setting, groups, from, to)
            };
            nodes[node as usize].inputs.push((input, delay));
        }
    }
    Graph { nodes, groups }.sorted()
}

fn node_of(stages: &Stages, device: u32, pass: Operation) -> Node {
    let seconds = if pass.work == Work::Forward {
        stages.forward
    } else {
        stages.backward
    };
    Node {
        seconds: seconds.value(),
        engine: device,
        launched: true,
        inputs: Vec::new(),
    }
}

/// Virtual stage that a pass sends its result to.
fn receiver(pass: Operation, count: u32) -> Option<u32> {
    if pass.work == Work::Forward {
        Some(pass.stage + 1).filter(|to| *to < count)
    } else {
        pass.stage.checked_sub(1)
    }
}

/// What a pass waits for, but for its own stage's.
fn input_of(pass: Operation, count: u32) -> Option<Key> {
    let (work, stage) = match pass.work {
        Work::Forward => (Work::Forward, pass.stage.checked_sub(1)?),
        _ if pass.stage + 1 == count => (Work::Forward, pass.stage),
        _ => (Work::Backward, pass.stage + 1),
    };
    Some((work, stage, pass.micro_batch))
}
