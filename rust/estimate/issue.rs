//! How long does a device wait until its host has issued the kernels of a pass?

use crate::operator_cost::Kernel;
use crate::plan::{BlockProgram, Purpose, RecomputePolicy, Task, repeats};
use crate::workload::{OperatorClass, Software};
use std::ops::Range;

/// A pass of a block.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pass {
    /// Forward.
    Forward,
    /// Backward without recomputation.
    Backward,
    /// What a policy computes again.
    Recompute(RecomputePolicy),
}

/// Layers that lie between two of the kind that is priced, on average, in one pass.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InterveningLayers {
    /// Seconds that they take the device.
    pub(super) device: f64,
    /// Seconds that they keep the host.
    pub(super) host: f64,
}

/// The host of one rank, which issues the tasks of a block in their order.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostIssue<'a> {
    program: &'a BlockProgram,
    software: &'a Software,
    /// True where tensor ranks exchange what products read or make.
    shared: bool,
}

impl<'a> HostIssue<'a> {
    /// The host that issues `program`.
    pub(super) fn new(program: &'a BlockProgram, software: &'a Software) -> Self {
        Self {
            program,
            software,
            shared: program.forward.iter().any(joins_tensor_ranks),
        }
    }

    /// What a pass waits that takes the device `device` seconds: what the host needs beyond that, or all
    /// that it needs where it waits for each kernel in turn. `spans`: seconds of the forward tasks;
    /// `between`: what lies between this block and the next of its kind, whose kernels the host runs ahead
    /// of, too.
    pub(super) fn wait(
        &self,
        pass: Pass,
        device: f64,
        spans: &[f64],
        between: InterveningLayers,
    ) -> f64 {
        let experts = of_experts(&self.program.forward);
        if let (Pass::Forward, true, Some(experts)) =
            (pass, self.software.host.routing_waits, experts)
        {
            let alone = spans.iter().sum::<f64>() + between.device;
            return (self.between_waits(&experts, spans, between) - alone).max(0.0);
        }
        if self.software.host.blocking {
            return self.issued(pass);
        }
        (self.issued(pass) + between.host - device - between.device).max(0.0)
    }

    /// Seconds for which a pass keeps the host.
    pub(super) fn issued(&self, pass: Pass) -> f64 {
        let (tasks, way) = match pass {
            Pass::Backward => (&self.program.backward, 1),
            Pass::Forward | Pass::Recompute(_) => (&self.program.forward, 0),
        };
        let experts = of_experts(tasks);
        let runs = |task: &Task| match pass {
            Pass::Recompute(policy) => repeats(policy, task.recompute()),
            Pass::Forward | Pass::Backward => true,
        };
        let issued = tasks.iter().enumerate().filter(|(_, task)| runs(task));
        let mut host: f64 = issued
            .map(|(index, task)| self.issue(task, way, self.replayed(index, experts.as_ref())))
            .sum();
        if experts.is_some() && !matches!(pass, Pass::Recompute(RecomputePolicy::Selective)) {
            host += self.software.host.routing_host_time[way].value();
        }
        host
    }

    /// Time from one reading of token counts to that of the next layer with experts, which is alike.
    ///
    /// Both machines are idle when the host has read: it issues the dispatch and what follows, up to the
    /// counts of the next layer, `h_i` seconds for task `i`, and the device takes `d_i` for each once it
    /// is there: `C_i = max(C_(i-1), h_1 + .. + h_i) + d_i` (two machines in a row: Johnson 1954).
    fn between_waits(
        &self,
        experts: &Range<usize>,
        spans: &[f64],
        between: InterveningLayers,
    ) -> f64 {
        let tasks = &self.program.forward;
        let order = (experts.start..tasks.len()).chain(0..experts.start);
        let (mut issued, mut done) = (0.0_f64, 0.0_f64);
        for index in order {
            if index == 0 {
                issued += between.host;
                done = done.max(issued) + between.device;
            }
            issued += self.issue(&tasks[index], 0, self.replayed(index, Some(experts)));
            done = done.max(issued) + spans.get(index).copied().unwrap_or(0.0);
        }
        issued += self.software.host.routing_host_time[0].value();
        done.max(issued)
    }

    /// True for a task of a captured graph.
    fn replayed(&self, index: usize, experts: Option<&Range<usize>>) -> bool {
        let mixer = self.software.host.replays_mixers && self.program.mixes_alone;
        let beside = experts.is_some_and(|range| !range.contains(&index));
        mixer || self.software.host.replays_attention && beside
    }

    /// Seconds for which a task keeps the host.
    fn issue(&self, task: &Task, way: usize, replayed: bool) -> f64 {
        if replayed {
            return 0.0;
        }
        let one = self.software.host.host_time.value();
        if is_small(task) {
            return 0.0; // part of `routing_host_time`
        }
        let Task::Compute {
            class: OperatorClass::Experts,
            kernel,
            ..
        } = task
        else {
            let product = matches!(task.kernel(), Some(Kernel::Matmul { .. }));
            let beside = self.software.host.tensor_host_time[way].value();
            return one * launches(task) + if self.shared && product { beside } else { 0.0 };
        };
        match kernel {
            Kernel::Matmul { batch, .. } => {
                one + batch * self.software.host.expert_host_time[way].value()
            }
            _ if self.software.experts.casts_each_expert => one,
            _ => one * launches(task),
        }
    }
}

/// The tasks from dispatch to combine; none in a block without routed experts.
fn of_experts(tasks: &[Task]) -> Option<Range<usize>> {
    let routed = |task: &Task| {
        matches!(
            task,
            Task::Communicate {
                purpose: Purpose::Expert,
                ..
            } | Task::Compute {
                class: OperatorClass::Experts,
                ..
            }
        )
    };
    let first = tasks.iter().position(routed)?;
    let last = tasks.iter().rposition(routed)?;
    Some(first..last + 1)
}

/// True for what tensor ranks exchange, alone or under a product.
fn joins_tensor_ranks(task: &Task) -> bool {
    let travels = matches!(
        task,
        Task::Communicate {
            purpose: Purpose::Tensor,
            ..
        }
    );
    travels || matches!(task, Task::Chunked { .. })
}

/// True for kernels that move next to nothing.
fn is_small(task: &Task) -> bool {
    matches!(task.kernel(), Some(Kernel::Memory { bytes, .. }) if bytes.value() <= 0.0)
}

/// Kernels that a task launches.
fn launches(task: &Task) -> f64 {
    match task {
        Task::Compute { kernel, .. } => match kernel {
            Kernel::Memory { launches, .. }
            | Kernel::Strided { launches, .. }
            | Kernel::Cast { launches, .. } => *launches,
            _ => 1.0,
        },
        Task::Communicate { .. } => 1.0,
        Task::Chunked { chunks, .. } => 2.0 * f64::from(*chunks),
    }
}
