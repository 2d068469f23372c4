//! What stays the same while plans vary: the model's graph, the cluster, the training job.

use super::chunk::MAX_BLOCKS;
use crate::error::Result;
use crate::hardware::{Cluster, Memories};
use crate::plan::{JobShape, Plan};
use crate::units::Bytes;
use crate::workload::{Graph, Training, Transformer};

/// A workload to be planned on a cluster.
#[derive(Debug, Clone)]
pub struct Job {
    /// The model.
    pub model: Transformer,
    /// Its operators.
    pub graph: Graph,
    /// The dims that plans cut.
    pub shape: JobShape,
    /// The machines.
    pub cluster: Cluster,
    /// Batch, sequence, formats.
    pub training: Training,
    /// What memory a device reaches.
    pub memories: Memories,
    /// Seconds that a byte takes between a device and its host, each direction alone; 0 without a host.
    pub host_pace: f64,
    /// Share of device memory to be left free.
    pub memory_margin: f64,
}

impl Job {
    /// Checks that the parts fit together and lowers the model to operators.
    pub fn new(
        model: &Transformer,
        cluster: &Cluster,
        training: &Training,
        memory_margin: f64,
    ) -> Result<Self> {
        training.check()?;
        model.check()?;
        crate::estimate::price::check_formats(cluster, training)?;
        if !(0.0..1.0).contains(&memory_margin) {
            let allowed = "a share of the device memory from 0 up to but not including 1";
            return Err(crate::error::Error::invalid(
                "memory_margin",
                memory_margin,
                allowed,
            ));
        }
        let model = model.rounded_to(training.software.vocabulary.vocabulary_multiple);
        let graph = model.graph(training);
        if graph.blocks.len() > MAX_BLOCKS {
            return Err(crate::error::Error::invalid(
                "model",
                format!("{} distinct blocks", graph.blocks.len()),
                format!("up to {MAX_BLOCKS} distinct kinds of layers, embedding and head"),
            ));
        }
        let shape = JobShape::new(&graph, cluster);
        let memories = Memories::new(cluster)?;
        let host_pace = host_pace(cluster, &memories);
        Ok(Self {
            model,
            graph,
            shape,
            cluster: cluster.clone(),
            training: training.clone(),
            memories,
            host_pace,
            memory_margin,
        })
    }

    /// The same job on another cluster.
    pub fn on(&self, cluster: Cluster) -> Result<Self> {
        crate::estimate::price::check_formats(&cluster, &self.training)?;
        let memories = Memories::new(&cluster)?;
        Ok(Self {
            shape: JobShape::new(&self.graph, &cluster),
            host_pace: host_pace(&cluster, &memories),
            memories,
            cluster,
            ..self.clone()
        })
    }

    /// Memory of a device that a plan may fill.
    pub fn capacity(&self) -> Bytes {
        self.cluster.device.main_memory().capacity * (1.0 - self.memory_margin)
    }

    /// Memory of a node's host, where it is known.
    pub fn host_capacity(&self) -> Option<Bytes> {
        self.cluster.system.host.as_ref().map(|host| host.memory)
    }

    /// Tensors of a stage's layers that ZeRO deals whole to its ranks (`software.zero.dealt_tensors`); those of
    /// embedding and head are few and left out.
    pub fn dealt_tensors(&self, plan: &Plan) -> u32 {
        let layers = self.shape.layers.div_ceil(u64::from(plan.pipeline));
        let tensors = u64::from(self.training.software.zero.dealt_tensors).saturating_mul(layers);
        u32::try_from(tensors).unwrap_or(u32::MAX)
    }

    /// Tokens of an optimizer step.
    pub fn tokens(&self) -> f64 {
        self.training.global_batch as f64 * self.training.sequence as f64
    }
}

fn host_pace(cluster: &Cluster, memories: &Memories) -> f64 {
    let host = cluster.system.host.as_ref();
    host.map_or(0.0, |_| {
        let [read, write] = memories.places[memories.own].seconds_per_byte();
        read.max(write)
    })
}
