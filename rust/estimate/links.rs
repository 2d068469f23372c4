//! The collectives between blocks: gradients, ZeRO weights, stage to stage, tied embeddings.

use super::price::Pricer;
use crate::collective::{Collective, Forms};
use crate::hardware::MAX_LEVELS;
use crate::plan::{Mesh, Plan, ReplicaReduction, Span, expert_zero_group, zero_spans};

/// Reductions and gathers of one kind of weights over its replicas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replicas {
    /// Sum over all replicas.
    pub all_reduce: Forms,
    /// Sum, each rank its shard.
    pub reduce_scatter: Forms,
    /// Sum of a shard over the groups of a hybrid sharding.
    pub outer_reduce: Forms,
    /// Shards back to full weights.
    pub all_gather: Forms,
    /// The same after an update, once a step: as `all_gather`, or a broadcast of each owner's tensors in turn
    /// (`software.zero.dealt_tensors`).
    pub delivery: Forms,
    /// Ranks that share one copy of the state.
    pub shards: f64,
    /// Replicas in all.
    pub size: u32,
}

impl Replicas {
    fn new(
        (replicas, zero_group): (Span, u32),
        sums: ReplicaReduction,
        dealt: u32,
        pricer: &mut Pricer,
    ) -> Self {
        let (shard, outer) = zero_spans(replicas, zero_group);
        let all_gather = pricer.forms(Collective::AllGather, shard);
        let delivery = if dealt > 0 {
            let one = pricer.forms(Collective::Broadcast, shard);
            one.repeated(shard.size.min(dealt))
        } else {
            all_gather
        };
        Self {
            all_reduce: pricer.sums(sums, replicas),
            reduce_scatter: pricer.forms(Collective::ReduceScatter, shard),
            outer_reduce: pricer.sums(sums, outer),
            all_gather,
            delivery,
            shards: f64::from(shard.size),
            size: replicas.size,
        }
    }
}

/// A message between neighbouring stages inside a unit of the fabric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntraUnitHop {
    /// Stages after which a unit ends that hops so far do not leave.
    pub every: u32,
    /// Closed forms of the message.
    pub stage: Forms,
    /// The same where nobody else in the sender's unit sends meanwhile.
    pub staggered: Forms,
}

/// All collectives of a plan that lie outside blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Links {
    /// Replicas of dense weights.
    pub dense: Replicas,
    /// Replicas of experts.
    pub expert: Replicas,
    /// A stage to the next, where those lie farthest apart.
    pub stage: Forms,
    /// The same where nobody else in the sender's unit sends meanwhile (`software.pipeline.staggers_sends`).
    pub staggered: Forms,
    /// Stages inside a unit beyond which only such hops lead.
    pub farthest: u32,
    /// The same where they lie nearer, from the nearest out.
    pub nearer: [Option<IntraUnitHop>; MAX_LEVELS - 1],
    /// Rejoining the parts that tensor ranks received, among those that hold the same part of the width.
    pub rejoin: Forms,
    /// First and last stage.
    pub ends: Forms,
}

impl Links {
    /// Prices the links of a plan; of it they depend on its mesh, ZeRO group and forced algorithm alone.
    /// `dealt`: tensors of a stage that ZeRO deals whole (`Job::dealt_tensors`), 0 where it cuts evenly.
    pub fn new(plan: &Plan, dealt: u32, pricer: &mut Pricer) -> Self {
        let mesh = Mesh::new(plan);
        let sums = plan.collectives;
        let group = (mesh.replicas, plan.zero_group);
        let expert_group = (mesh.expert_replicas, expert_zero_group(plan));
        let mut distances = pricer.distances(mesh.stages);
        let farthest = distances.pop().map_or(1, |(every, _)| every);
        let mut nearer = [None; MAX_LEVELS - 1];
        for (place, (every, inside)) in nearer.iter_mut().zip(distances) {
            *place = Some(IntraUnitHop {
                every,
                stage: pricer.hop(inside, false),
                staggered: pricer.hop(inside, true),
            });
        }
        Self {
            dense: Replicas::new(group, sums, dealt, pricer),
            expert: Replicas::new(expert_group, sums, dealt, pricer),
            stage: pricer.hop(mesh.stages, false),
            staggered: pricer.hop(mesh.stages, true),
            farthest,
            nearer,
            rejoin: pricer.forms(Collective::AllGather, mesh.columns),
            ends: pricer.forms(Collective::AllReduce, mesh.ends),
        }
    }
}
