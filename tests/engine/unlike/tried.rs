//! What does trying every combination and every dealing of layers find?

use super::worlds;
use scalewright::collective::{Collective, Forms};
use scalewright::estimate::{
    Factors, Job, LayerRanges, PipelinePosition, Pricer, StagePricer, StageSeconds,
};
use scalewright::hardware::Level;
use scalewright::plan::{Mesh, Plan, check};
use scalewright::schedule::{Pass, Passes, Pipeline, PipelineShape, Scratch, replay};
use scalewright::search::Space;
use scalewright::units::Seconds;

/// Everything that trying all combinations and all dealings finds.
pub(super) struct Tried {
    pub(super) combinations: u64,
    pub(super) unfit: u64,
    pub(super) times: Vec<f64>,
}

/// What stages of one group share.
#[derive(Clone)]
struct Chosen<'a> {
    group: usize,
    pricer: StagePricer<'a>,
}

/// Sizes of all stages, each 1 or more, that add up to `layers`.
fn compositions(layers: usize, stages: usize) -> Vec<Vec<usize>> {
    if stages == 1 {
        return vec![vec![layers]];
    }
    let mut all = Vec::new();
    for first in 1..=layers.saturating_sub(stages - 1) {
        for rest in compositions(layers - first, stages - 1) {
            all.push([vec![first], rest].concat());
        }
    }
    all
}

/// True where stages of a group between the ends share their layers evenly, the fewer in front.
fn even(sizes: &[usize], groups: &[usize]) -> bool {
    (1..sizes.len().saturating_sub(2)).all(|stage| {
        let last = (stage..sizes.len() - 1).take_while(|&s| groups[s] == groups[stage]);
        let last = last.last().unwrap();
        groups[stage] != groups[stage + 1]
            || sizes[stage] <= sizes[stage + 1] && sizes[last] <= sizes[stage] + 1
    })
}

/// The step of one dealing, if it fits: stages priced one by one, their order laid out and run.
fn step(
    jobs: &[Job],
    (send, sum): (&Forms, &Forms),
    seats: &[Chosen],
    sizes: &[usize],
) -> Option<f64> {
    let ranges = LayerRanges::new(&jobs[0]);
    let count = u32::try_from(seats.len()).unwrap();
    let hop = |from: &Chosen, to: &Chosen| {
        let ranks = from.pricer.plan().tensor.min(to.pricer.plan().tensor);
        if from.group == to.group {
            to.pricer.hop()
        } else {
            to.pricer.hop_over(send, ranks)
        }
    };
    let (mut start, mut passes, mut all) = (0, Vec::new(), Vec::<StageSeconds>::new());
    for (index, (seat, &size)) in seats.iter().zip(sizes).enumerate() {
        let place = PipelinePosition::of(u32::try_from(index).unwrap(), count);
        let class = (ranges.class(start, size), place);
        let behind = count - 1 - u32::try_from(index).unwrap();
        if seat.pricer.bytes(&ranges, class, behind) > jobs[seat.group].capacity().value() {
            return None;
        }
        let forward = seats.get(index + 1).map_or(0.0, |next| hop(seat, next));
        let before = index
            .checked_sub(1)
            .filter(|_| !jobs[0].training.forward_only);
        let backward = before.map_or(0.0, |before| hop(seat, &seats[before]));
        let stage = seat.pricer.seconds(&ranges, class, [forward, backward]);
        passes.push(Pass::new(
            Seconds::new(stage.forward),
            Seconds::new(stage.backward),
        ));
        all.push(stage);
        start += size;
    }
    let plan = seats[0].pricer.plan();
    let rounds = u32::try_from(plan.micro_batches(jobs[0].training.global_batch)).unwrap();
    let shape = PipelineShape::new(count, 1);
    let pipeline = Pipeline::new(shape, Passes::Each(&passes), Seconds::ZERO);
    let time = replay(plan.schedule, &pipeline, rounds, &mut Scratch::new())
        .unwrap()
        .value();
    let worst = |of: fn(&StageSeconds) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let mut ripple = 0.0;
    let mut gradient = 0.0_f64;
    for stage in &all {
        gradient = gradient.max(stage.gradient_exposed - ripple);
        ripple += stage.backward;
    }
    let (front, back) = (&seats[0], &seats[seats.len() - 1]);
    let tied = if count == 1 {
        0.0
    } else if front.group == back.group {
        let mut pricer = Pricer::new(&jobs[front.group].cluster);
        front
            .pricer
            .tied_sum(&ranges, &front.pricer.ends(count, &mut pricer))
    } else {
        front
            .pricer
            .tied_sum(&ranges, sum)
            .max(back.pricer.tied_sum(&ranges, sum))
    };
    Some(time + gradient + worst(|s| s.gather_exposed) + worst(|s| s.optimizer) + tied)
}

/// True where a list is absent or holds the value.
fn allows(list: Option<&Vec<u32>>, value: u32) -> bool {
    list.is_none_or(|list| list.contains(&value))
}

/// Every legal choice of a group, with the stages that it has devices for.
fn choices(job: &Job, shared: &Plan, space: &Space) -> Vec<(Plan, u32)> {
    let ranks = job.cluster.devices / shared.data;
    let flags = [false, true];
    let mut all = Vec::new();
    for tensor in 1..=ranks {
        if !tensor.is_power_of_two() && !ranks.is_multiple_of(tensor)
            || !allows(space.tensor.as_ref(), tensor)
        {
            continue;
        }
        let devices = tensor * shared.data;
        for expert in (1..=devices).filter(|e| devices.is_multiple_of(*e)) {
            for width in [tensor, 1].into_iter().take(if tensor > 1 { 2 } else { 1 }) {
                for recompute in space.recompute.clone().unwrap() {
                    for sequence_parallel in flags {
                        let plan = Plan {
                            tensor,
                            expert,
                            expert_tensor: if width == tensor { 0 } else { width },
                            recompute,
                            sequence_parallel,
                            ..shared.clone()
                        };
                        if check(&plan, &job.shape, &job.training, devices).is_ok() {
                            all.push((plan, job.cluster.devices / devices));
                        }
                    }
                }
            }
        }
    }
    let alike = !job.shape.experts;
    all.retain(|(plan, _)| !alike || plan.expert == 1 && plan.expert_tensor == 0);
    all
}

/// Tries every order, choice, number of stages and dealing.
pub(super) fn tried(jobs: &[Job], between: &Level, space: &Space) -> Tried {
    let mut cluster = worlds::nodes_of_eight(2);
    cluster.system.levels = vec![between.clone()];
    let pair = cluster.group(1, 2);
    let send = Forms::new(Collective::SendReceive, &pair, &cluster);
    let sum = Forms::new(Collective::AllReduce, &pair, &cluster);
    let mut out = Tried {
        combinations: 0,
        unfit: 0,
        times: Vec::new(),
    };
    let batch = u32::try_from(jobs[0].training.global_batch).unwrap();
    let most = jobs.iter().map(|job| job.cluster.devices).max().unwrap();
    for schedule in space.schedule.clone().unwrap() {
        for data in (1..=most).filter(|d| batch.is_multiple_of(*d)) {
            if !allows(space.data.as_ref(), data) {
                continue;
            }
            for micro_batch in (1..=batch / data).filter(|b| (batch / data).is_multiple_of(*b)) {
                if !allows(space.micro_batch.as_ref(), micro_batch) {
                    continue;
                }
                let alone = data == 1 && !jobs[0].shape.experts;
                let zeros: &[u8] = match (alone, jobs[0].training.forward_only) {
                    (true, _) => &[0],
                    (_, true) => &[0, 3],
                    _ => &[0, 1, 2, 3],
                };
                for &zero in zeros {
                    let shared = Plan {
                        schedule,
                        data,
                        micro_batch,
                        zero,
                        ..Plan::default()
                    };
                    each_order(jobs, (&send, &sum), &shared, space, &mut out);
                }
            }
        }
    }
    out
}

fn each_order(
    jobs: &[Job],
    forms: (&Forms, &Forms),
    shared: &Plan,
    space: &Space,
    out: &mut Tried,
) {
    let mut orders: Vec<Vec<usize>> = (0..jobs.len()).map(|group| vec![group]).collect();
    for length in 1..jobs.len() {
        let shorter: Vec<Vec<usize>> = orders
            .iter()
            .filter(|o| o.len() == length)
            .cloned()
            .collect();
        for order in shorter {
            for group in (0..jobs.len()).filter(|group| !order.contains(group)) {
                orders.push([order.as_slice(), &[group]].concat());
            }
        }
    }
    for order in orders {
        let mut prefixes: Vec<Vec<(usize, Plan)>> = vec![Vec::new()];
        for &group in &order {
            let mut longer = Vec::new();
            for (plan, most) in choices(&jobs[group], shared, space) {
                for stages in 1..=most {
                    for prefix in &prefixes {
                        let own = vec![(group, plan.clone()); stages as usize];
                        longer.push([prefix.clone(), own].concat());
                    }
                }
            }
            prefixes = longer;
        }
        for stages in prefixes {
            let alone = |(_, plan): &(usize, Plan)| {
                let mesh = Mesh::new(plan);
                mesh.replicas.size == 1 && mesh.expert_replicas.size == 1
            };
            if shared.zero > 0 && stages.iter().all(alone) {
                continue; // the same as without ZeRO
            }
            price_all(jobs, forms, &stages, out);
        }
    }
}

fn price_all(jobs: &[Job], forms: (&Forms, &Forms), stages: &[(usize, Plan)], out: &mut Tried) {
    let layers = usize::try_from(jobs[0].shape.layers).unwrap();
    if stages.len() > layers {
        return;
    }
    out.combinations += 1;
    let mut pricers: Vec<Pricer> = jobs.iter().map(|job| Pricer::new(&job.cluster)).collect();
    let factors: Vec<Factors> = stages
        .iter()
        .map(|(group, plan)| Factors::new(&jobs[*group], plan, &mut pricers[*group]))
        .collect();
    let seats: Vec<Chosen> = stages
        .iter()
        .zip(&factors)
        .map(|((group, plan), factors)| Chosen {
            group: *group,
            pricer: StagePricer::new(&jobs[*group], plan, factors, &mut pricers[*group]),
        })
        .collect();
    let groups: Vec<usize> = stages.iter().map(|(group, _)| *group).collect();
    let dealings = compositions(layers, stages.len());
    let fair = dealings.iter().filter(|sizes| even(sizes, &groups));
    let times = fair.filter_map(|sizes| step(jobs, forms, &seats, sizes));
    match times.reduce(f64::min) {
        Some(time) => out.times.push(time),
        None => out.unfit += 1,
    }
}
