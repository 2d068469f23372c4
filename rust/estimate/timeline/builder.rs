//! Tasks so far, their engines and names, and what each rank has run last.

use super::pieces::{Chunked, Labels, Piece, Resource};
use super::{Category, Engine, StepTimeline};
use crate::hardware::Cluster;
use crate::plan::Order;
use crate::solve::{Dependency, QueueDiscipline, Slowdown, Tasks};

/// Largest part of a kernel's pace that traffic beside it takes: with all of it the kernel would never end.
const MOST_TAKEN: f64 = 0.99;

/// Which operation a task belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) category: Category,
    pub(super) micro_batch: i32,
    pub(super) stage: i32,
}

impl Owner {
    /// A task of no operation.
    pub(super) fn of(category: Category) -> Self {
        Self {
            category,
            micro_batch: -1,
            stage: -1,
        }
    }
}

/// Engines of one rank.
#[derive(Debug, Clone)]
pub(super) struct Rank {
    compute: u32,
    links: Vec<u32>,
    /// Copy engines that carry chunks over each level, beside what else it carries.
    copies: Vec<u32>,
    /// Sends and receives of rings, by level.
    rings: Vec<u32>,
    /// Sends to the next and to the previous stage.
    pub(super) sends: [u32; 2],
    /// Copies to the host and back, and the host itself; none of them slows kernels.
    pub(super) host: [u32; 3],
}

/// Everything laid out so far.
pub(super) struct TimelineBuilder {
    pub(super) tasks: Tasks,
    pub(super) labels: Labels,
    pub(super) ranks: Vec<Rank>,
    engines: Vec<Engine>,
    label: Vec<u16>,
    owner: Vec<Owner>,
}

/// What the next piece of an operation waits for.
#[derive(Debug, Clone, Default)]
pub(super) struct OperationChain {
    pub(super) after: Vec<Dependency>,
    /// Collectives that run beside the next kernel.
    beside: Vec<Dependency>,
}

impl OperationChain {
    /// An operation that waits for `after`.
    pub(super) fn new(after: Vec<Dependency>) -> Self {
        Self {
            after,
            beside: Vec::new(),
        }
    }
}

impl TimelineBuilder {
    /// The engines of one rank per stage.
    pub(super) fn new(stages: u32, cluster: &Cluster) -> Self {
        let mut state = Self {
            tasks: Tasks::new(),
            labels: Labels::default(),
            ranks: Vec::new(),
            engines: Vec::new(),
            label: Vec::new(),
            owner: Vec::new(),
        };
        let device = &cluster.device;
        let shares = [
            device.contention(),
            device.chunk_contention(),
            device.peer_contention(),
        ];
        let [share, chunks, peers] = shares.map(|share| share.min(MOST_TAKEN));
        for stage in 0..stages {
            let mut engine = |name: &str, turn| {
                let name = name.to_owned();
                state.engines.push(Engine { stage, name });
                state.tasks.engine(turn)
            };
            let ready = QueueDiscipline::Ready;
            let compute = engine("compute", QueueDiscipline::Added);
            let levels = &cluster.system.levels;
            let links: Vec<u32> = levels.iter().map(|l| engine(&l.name, ready)).collect();
            let copies: Vec<u32> = levels
                .iter()
                .map(|l| engine(&format!("{} (copy engines)", l.name), ready))
                .collect();
            let rings: Vec<u32> = levels
                .iter()
                .map(|l| engine(&format!("{} (ring)", l.name), ready))
                .collect();
            let sends = ["to the next stage", "to the stage before"].map(|n| engine(n, ready));
            let host = ["to host", "from host", "host"].map(|n| engine(n, ready));
            // beside a collective, kernels lose the compute units that it takes
            let by_units = links.iter().chain(&sends).map(|by| (by, share));
            let by_copies = copies.iter().map(|by| (by, chunks));
            let hops = rings.iter().enumerate();
            let by_rings = hops.map(|(level, by)| (by, if level > 0 { peers } else { share }));
            for (by, share) in by_units.chain(by_copies).chain(by_rings) {
                state.tasks.slow(Slowdown {
                    engine: compute,
                    by: *by,
                    factor: 1.0 / (1.0 - share),
                });
            }
            state.ranks.push(Rank {
                compute,
                links,
                copies,
                rings,
                sends,
                host,
            });
        }
        state
    }

    fn engine(&self, rank: usize, resource: Resource) -> u32 {
        let rank = &self.ranks[rank];
        match resource {
            Resource::Compute => rank.compute,
            Resource::Link(level) => rank.links.get(level).copied().unwrap_or(rank.sends[0]),
            Resource::Ring(level) => rank.rings.get(level).copied().unwrap_or(rank.sends[0]),
        }
    }

    /// Adds a task on an engine and gives what waits for its end.
    pub(super) fn add(
        &mut self,
        engine: u32,
        (seconds, label): (f64, u16),
        owner: Owner,
        inputs: &[Dependency],
    ) -> Dependency {
        let task = self.tasks.add(engine, seconds, inputs);
        self.label.push(label);
        self.owner.push(owner);
        Dependency { task, delay: 0.0 }
    }

    /// Adds a piece of an operation on a rank.
    pub(super) fn piece(
        &mut self,
        rank: usize,
        piece: &Piece,
        owner: Owner,
        chain: &mut OperationChain,
    ) {
        if let Some(chunked) = &piece.chunked {
            self.chunks(rank, (piece, chunked), owner, chain);
            return;
        }
        let engine = self.engine(rank, piece.resource);
        let done = self.add(engine, (piece.seconds, piece.label), owner, &chain.after);
        if piece.beside {
            chain.beside.push(done);
        } else {
            chain.after.clear();
            chain.after.push(done);
            if piece.resource == Resource::Compute {
                chain.after.append(&mut chain.beside);
            }
        }
    }

    /// Adds the chunks of a collective and of the product that alternates with them: the half that
    /// comes second waits for its own chunk of the first.
    fn chunks(
        &mut self,
        rank: usize,
        (piece, chunked): (&Piece, &Chunked),
        owner: Owner,
        chain: &mut OperationChain,
    ) {
        let engine = match piece.resource {
            Resource::Link(level) => self.ranks[rank].copies.get(level).copied(),
            Resource::Compute | Resource::Ring(_) => None,
        };
        let engine = engine.unwrap_or_else(|| self.engine(rank, piece.resource));
        let link = (engine, (piece.seconds, piece.label));
        let compute = (self.ranks[rank].compute, (chunked.seconds, chunked.label));
        let (first, second) = match chunked.order {
            Order::GatherFirst => (link, compute),
            Order::ReduceLast => (compute, link),
        };
        let before = std::mem::take(&mut chain.after);
        for _ in 0..chunked.count {
            let half = self.add(first.0, first.1, owner, &before);
            chain.after = vec![self.add(second.0, second.1, owner, &[half])];
        }
        chain.after.append(&mut chain.beside);
    }

    /// Adds a collective over replicas on a rank's links of a level.
    pub(super) fn traffic(
        &mut self,
        rank: usize,
        level: usize,
        (seconds, name): (f64, &str),
        inputs: &[Dependency],
    ) -> Dependency {
        let label = self.labels.of(name);
        let engine = self.engine(rank, Resource::Link(level));
        let owner = Owner::of(Category::Replicas);
        self.add(engine, (seconds, label), owner, inputs)
    }

    /// Adds a stretch of compute on a rank.
    pub(super) fn kernel(
        &mut self,
        rank: usize,
        (seconds, name): (f64, &str),
        owner: Owner,
        inputs: &[Dependency],
    ) -> Dependency {
        let label = self.labels.of(name);
        self.add(self.ranks[rank].compute, (seconds, label), owner, inputs)
    }

    /// The timeline without its times; engines without a task are left out.
    pub(super) fn into_timeline(self) -> StepTimeline {
        let mut used = vec![false; self.engines.len()];
        let engine: Vec<u32> = (0..self.tasks.len())
            .filter_map(|task| {
                self.tasks
                    .engine_of(u32::try_from(task).unwrap_or(u32::MAX))
            })
            .collect();
        for &index in &engine {
            used[index as usize] = true;
        }
        let mut number = vec![0_u32; used.len()];
        let mut next = 0;
        for (place, used) in number.iter_mut().zip(&used) {
            *place = next;
            next += u32::from(*used);
        }
        let kept = self
            .engines
            .into_iter()
            .zip(&used)
            .filter(|(_, used)| **used);
        StepTimeline {
            engines: kept.map(|(engine, _)| engine).collect(),
            labels: self.labels.0,
            engine: engine.iter().map(|&e| number[e as usize]).collect(),
            label: self.label,
            category: self.owner.iter().map(|o| o.category as u8).collect(),
            micro_batch: self.owner.iter().map(|o| o.micro_batch).collect(),
            virtual_stage: self.owner.iter().map(|o| o.stage).collect(),
            ..StepTimeline::default()
        }
    }
}
