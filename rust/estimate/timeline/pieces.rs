//! What does a pass through one block keep busy, and for how long?

use crate::collective::Crossing;
use crate::estimate::block::{class_name, purpose_name};
use crate::estimate::chunk::StageBlock;
use crate::estimate::job::Job;
use crate::estimate::price::Pricer;
use crate::hardware::Cluster;
use crate::operator_cost::Kernel;
use crate::plan::{BlockProgram, Order, Purpose, Span, Task, cover, repeats};
use crate::units::Seconds;
use crate::workload::BlockRole;

/// The resource of a rank that a piece keeps busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    /// Kernels.
    Compute,
    /// Links of a fabric level.
    Link(usize),
    /// The same, by sends and receives of a ring under kernels.
    Ring(usize),
}

/// Something that a rank does without a pause.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) resource: Resource,
    pub(super) seconds: f64,
    /// Index into the timeline's labels.
    pub(super) label: u16,
    /// True for a collective that runs while the next piece of kernels does.
    pub(super) beside: bool,
    /// Set where this is one of several chunks of a collective that alternate with a product's.
    pub(super) chunked: Option<Chunked>,
    /// True where no other kernel may join it: what follows waits for a collective beside it.
    alone: bool,
}

/// The product that alternates with a collective, chunk by chunk.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chunked {
    /// Seconds of one chunk of the product.
    pub(super) seconds: f64,
    /// Index into the timeline's labels.
    pub(super) label: u16,
    pub(super) count: u32,
    pub(super) order: Order,
}

/// The passes of one block.
#[derive(Debug, Clone, Default)]
pub(super) struct Pieces {
    pub(super) forward: Vec<Piece>,
    /// Backward pass as a whole, what is recomputed at its head.
    pub(super) backward: Vec<Piece>,
    /// The same without gradients of weights.
    pub(super) input: Vec<Piece>,
    /// Gradients of weights alone.
    pub(super) weight: Vec<Piece>,
}

/// Names of what runs, in the order in which they were first met.
#[derive(Debug, Clone, Default)]
pub(super) struct Labels(pub(super) Vec<String>);

impl Labels {
    /// Index of a name.
    pub(super) fn of(&mut self, name: &str) -> u16 {
        let found = self.0.iter().position(|known| known == name);
        let index = found.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        u16::try_from(index).unwrap_or(u16::MAX)
    }
}

/// Level of the fabric that a group of ranks crosses: the outermost one.
pub(super) fn level(cluster: &Cluster, span: Span) -> usize {
    cluster.group(span.stride, span.size).outermost()
}

impl Piece {
    /// True where what follows waits for a collective.
    pub(super) fn waits(&self) -> bool {
        self.resource != Resource::Compute && !self.beside
    }

    /// Tasks that it becomes.
    pub(super) fn tasks(&self) -> usize {
        self.chunked.as_ref().map_or(1, |c| 2 * c.count as usize)
    }
}

impl Pieces {
    /// Tasks of a forward and a backward pass.
    pub(super) fn tasks(&self) -> usize {
        let both = self.forward.iter().chain(&self.backward);
        both.map(Piece::tasks).sum()
    }

    /// Prices the passes of a block that was lowered.
    pub(super) fn new(
        job: &Job,
        StageBlock { block, again }: StageBlock,
        program: &BlockProgram,
        (pricer, labels): (&mut Pricer, &mut Labels),
    ) -> Self {
        let layer = job.graph.blocks[block].role == BlockRole::Layer;
        let mut writer = Writer {
            cluster: &job.cluster,
            pricer,
            labels,
        };
        let policy = |task: &Task| layer && repeats(again, task.recompute());
        let forward = writer.write(&program.forward, |_| true);
        let again = writer.write(&program.forward, policy);
        let mut pieces = Self {
            forward,
            backward: again.clone(),
            input: again,
            weight: writer.write(&program.backward, Task::yields_weights),
        };
        let input = |task: &Task| !task.yields_weights();
        pieces
            .backward
            .extend(writer.write(&program.backward, |_| true));
        pieces.input.extend(writer.write(&program.backward, input));
        pieces
    }
}

/// Turns tasks into pieces.
struct Writer<'a, 'b> {
    cluster: &'a Cluster,
    pricer: &'a mut Pricer<'b>,
    labels: &'a mut Labels,
}

impl Writer<'_, '_> {
    /// The pieces of those tasks that are `wanted`; a collective runs beside the wanted kernels
    /// of its cover, and kernels that follow one another become one piece.
    fn write(&mut self, tasks: &[Task], wanted: impl Fn(&Task) -> bool) -> Vec<Piece> {
        let mut pieces = Vec::new();
        // kernels still to run beside a collective
        let mut left = 0;
        for (index, task) in tasks.iter().enumerate().filter(|(_, task)| wanted(task)) {
            if let Task::Compute { class, kernel, .. } = task {
                self.compute(class_name(*class as usize), kernel, &mut pieces);
                if left == 1
                    && let Some(last) = pieces.last_mut()
                {
                    last.alone = true;
                }
                left = left.max(1) - 1;
            } else {
                let beside = covering(tasks, index, &wanted);
                left = left.max(beside);
                pieces.extend(self.traffic(task, beside > 0));
            }
        }
        pieces
    }

    /// A collective, alone or in chunks that alternate with a product's.
    fn traffic(&mut self, task: &Task, beside: bool) -> Option<Piece> {
        let (purpose, collective, span, bytes, chunked) = match task {
            Task::Compute { .. } => return None,
            Task::Communicate {
                purpose,
                collective,
                span,
                bytes,
                ..
            } => (*purpose, collective, span, bytes, None),
            Task::Chunked {
                class,
                kernel,
                collective,
                span,
                bytes,
                chunks,
                order,
                ..
            } => {
                let chunked = Chunked {
                    seconds: self.pricer.kernel(kernel).time.value(),
                    label: self.labels.of(class_name(*class as usize)),
                    count: *chunks,
                    order: *order,
                };
                (Purpose::Tensor, collective, span, bytes, Some(chunked))
            }
        };
        let (crossing, handling) = match task {
            Task::Communicate {
                crossing, handling, ..
            } => (*crossing, *handling),
            _ => (Crossing::Each, Seconds::ZERO),
        };
        let forms = self.pricer.forms_crossing(*collective, *span, crossing);
        let name = format!("{} {}", purpose_name(purpose as usize), collective.name());
        let level = level(self.cluster, *span);
        let resource = if beside && purpose == Purpose::Context {
            Resource::Ring(level)
        } else {
            Resource::Link(level)
        };
        Some(Piece {
            resource,
            seconds: (forms.time(*bytes) + handling).value(),
            label: self.labels.of(&name),
            beside,
            chunked,
            alone: true,
        })
    }

    fn compute(&mut self, name: &str, kernel: &Kernel, pieces: &mut Vec<Piece>) {
        let seconds = self.pricer.kernel(kernel).time.value();
        if let Some(before) = pieces.last_mut()
            && before.resource == Resource::Compute
            && !before.alone
        {
            before.seconds += seconds;
            return;
        }
        pieces.push(Piece {
            resource: Resource::Compute,
            seconds,
            label: self.labels.of(name),
            beside: false,
            chunked: None,
            alone: false,
        });
    }
}

/// How many kernels of those `wanted` run beside the collective at `index`.
fn covering(tasks: &[Task], index: usize, wanted: impl Fn(&Task) -> bool) -> u32 {
    let covering = cover(tasks, index).filter(|task| wanted(task));
    u32::try_from(covering.count()).unwrap_or(u32::MAX)
}
