//! How is a plan on unlike groups told in full?

use super::answer::{GroupUse, UnlikePlan, UnlikeStage};
use super::layers::{PipelineEpilogue, StagePositions};
use super::walk::Walk;
use crate::plan::{Plan, RecomputePolicy};

/// The plan of a dealing whose pipeline and what follows it take so long.
pub(super) fn plan_report(
    walk: &Walk,
    seating: &StagePositions,
    sizes: &[usize],
    (pipeline, after): (f64, PipelineEpilogue),
) -> UnlikePlan {
    let unit = walk.unit;
    let step = pipeline + after.sum();
    let groups = 0..walk.task.groups.jobs.len();
    UnlikePlan {
        step_time_s: step,
        pipeline_s: pipeline,
        expert_unpaired_s: after.unpaired,
        gradient_exposed_s: after.gradient,
        gather_exposed_s: after.gather,
        embedding_sync_s: after.tied,
        optimizer_s: after.optimizer,
        tokens_per_s: walk.task.groups.shared().tokens() / step,
        data: unit.data,
        micro_batch: unit.micro_batch,
        micro_batches: unit.micro_batches,
        schedule: unit.schedule,
        zero: unit.zero,
        groups: groups
            .map(|group| group_use(walk, seating, group))
            .collect(),
        stages: stages(walk, seating, sizes),
    }
}

fn group_use(walk: &Walk, seating: &StagePositions, group: usize) -> GroupUse {
    let cluster = &walk.task.groups.jobs[group].cluster;
    let mut own = seating.seats.iter().filter(|seat| seat.group == group);
    let plan: Option<&Plan> = own.next().map(|seat| walk.choice(seat).pricer.plan());
    let stages = plan.map_or(0, |_| 1) + u32::try_from(own.count()).unwrap_or(u32::MAX);
    let devices = plan.map_or(0, |plan| plan.tensor * plan.data * stages);
    GroupUse {
        group,
        system: cluster.system.name.clone(),
        stages,
        tensor: plan.map_or(0, |plan| plan.tensor),
        expert: plan.map_or(0, |plan| plan.expert),
        expert_tensor: plan.map_or(0, |plan| plan.expert_tensor),
        recompute: plan.map_or(RecomputePolicy::None, |plan| plan.recompute),
        sequence_parallel: plan.is_some_and(|plan| plan.sequence_parallel),
        devices_used: devices,
        devices_unused: cluster.devices - devices,
    }
}

fn stages(walk: &Walk, seating: &StagePositions, sizes: &[usize]) -> Vec<UnlikeStage> {
    let ranges = &walk.task.groups.ranges;
    let number = |layer: usize| u32::try_from(layer).unwrap_or(u32::MAX);
    let mut start = 0;
    let mut stages = Vec::with_capacity(sizes.len());
    for (seat, &size) in seating.seats.iter().zip(sizes) {
        let class = (ranges.class(start, size), seat.place);
        let pricer = &walk.choice(seat).pricer;
        let seconds = pricer.seconds(ranges, class, seat.hops);
        stages.push(UnlikeStage {
            group: seat.group,
            layers: [number(start), number(start + size)],
            forward_s: seconds.forward,
            backward_s: seconds.backward,
            peak_memory_bytes: pricer.bytes(ranges, class, seat.behind),
            memory_capacity_bytes: pricer.capacity().value(),
        });
        start += size;
    }
    stages
}
