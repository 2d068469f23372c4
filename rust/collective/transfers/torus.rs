//! Which transfers run on the rings of a torus or the lines of a mesh network?

use super::pairwise;
use super::plan::TransferPlan;
use crate::collective::Collective;
use crate::error::{Error, Result};
use crate::solve::Transfer;

/// The dimensions that a group uses: extent, and whether the ring closes.
pub(super) type Axes = Vec<(u32, bool)>;

/// Rotated buckets: the buffer is cut into one part a used dimension; in phase `j` part `d` is scattered
/// along dimension `d + j` (gathered in the opposite order). A phase starts when the one before has ended
/// everywhere: parts that ran ahead would take links from others. Sack and Gropp 2015; Kumar et al. 2020.
/// Returns what each rank waits for.
pub(super) fn add(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<Vec<u32>> {
    let axes = axes(plan)?;
    let count = axes.len();
    let scatter = (0..count).map(|j| (j, true));
    let scatter = scatter.filter(|_| collective != Collective::AllGather);
    let gather = (0..count).rev().map(|j| (j, false));
    let gather = gather.filter(|_| collective != Collective::ReduceScatter);
    let mut ready = plan.ready();
    for (j, scatter) in scatter.chain(gather) {
        let mut arrived = Vec::new();
        for part in 0..count {
            let cut = (0..=j).map(|earlier| f64::from(axes[(part + earlier) % count].0));
            let held = bytes / count as f64 / cut.product::<f64>();
            let axis = (part + j) % count;
            arrived.extend(phase(
                plan,
                group,
                Pass::new(&axes, axis, scatter),
                held,
                &ready,
            )?);
        }
        ready = vec![plan.meet(&arrived)?; plan.size() as usize];
    }
    Ok(ready)
}

pub(super) fn axes(plan: &TransferPlan) -> Result<Axes> {
    let levels = plan.cluster.system.levels.iter().zip(plan.group.members);
    let inside = |&(level, members): &(_, u32)| {
        let level: &crate::hardware::Level = level;
        level.kind.has_dims() && members == plan.group.size
    };
    let Some((level, _)) = levels.clone().find(inside) else {
        let got = format!("members {:?}", plan.group.members);
        return Err(Error::invalid("group", got, "all inside one torus level"));
    };
    let mut axes = Axes::new();
    for (axis, (&extent, &dim)) in plan.group.extents.iter().zip(&level.dims).enumerate() {
        if extent > 1 {
            let spacing = if axes.is_empty() {
                plan.group.spacing
            } else {
                1
            };
            let whole = extent > 2 && extent * spacing == dim;
            axes.push((extent, whole && level.wrap.closes(axis)));
        }
    }
    Ok(axes)
}

/// A ring over all ranks both ways: each part goes half way round on either side; back when all is summed.
pub(super) fn both_ways(
    plan: &mut TransferPlan,
    group: u32,
    collective: Collective,
    bytes: f64,
) -> Result<()> {
    let axes = vec![(plan.size(), plan.size() > 2)];
    let held = bytes / f64::from(plan.size());
    let issue = pairwise::issue(plan, plan.group.outermost()); // of the second message of a step
    let mut ready = plan.ready();
    for scatter in [true, false] {
        let other = if scatter {
            Collective::AllGather
        } else {
            Collective::ReduceScatter
        };
        if collective != other {
            let pass = Pass {
                issue,
                ..Pass::new(&axes, 0, scatter)
            };
            ready = phase(plan, group, pass, held, &ready)?;
        }
    }
    Ok(())
}

/// One pass along one dimension.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    axes: &'a Axes,
    axis: usize,
    scatter: bool,
    /// Seconds before each message.
    issue: f64,
}

impl<'a> Pass<'a> {
    pub(super) fn new(axes: &'a Axes, axis: usize, scatter: bool) -> Self {
        Self {
            axes,
            axis,
            scatter,
            issue: 0.0,
        }
    }
}

/// One pass of `held` bytes a rank along one dimension; returns what each rank waits for, by rank.
pub(super) fn phase(
    plan: &mut TransferPlan,
    group: u32,
    pass: Pass,
    held: f64,
    ready: &[u32],
) -> Result<Vec<u32>> {
    let Pass { axes, axis, .. } = pass;
    let below: u32 = axes[..axis].iter().map(|&(extent, _)| extent).product();
    let (extent, closed) = axes[axis];
    let mut next = vec![0; plan.size() as usize];
    for first in (0..plan.size()).filter(|rank| (rank / below).is_multiple_of(extent)) {
        let ranks: Vec<u32> = (0..extent).map(|m| first + m * below).collect();
        let devices: Vec<u32> = ranks.iter().map(|&rank| plan.device(group, rank)).collect();
        let before = ranks.iter().map(|&rank| ready.get(rank as usize));
        let before: Vec<u32> = before.flatten().copied().collect();
        let mut got = vec![Vec::new(); ranks.len()];
        for upward in [true, false] {
            let way = PhaseDirection {
                closed,
                upward,
                scatter: pass.scatter,
                issue: pass.issue,
            };
            sweep(plan, &devices, way, (held, &before), &mut got)?;
        }
        for (&rank, all) in ranks.iter().zip(&got) {
            next[rank as usize] = plan.meet(all)?;
        }
    }
    Ok(next)
}

/// One direction of a phase.
#[derive(Clone, Copy)]
struct PhaseDirection {
    closed: bool,
    upward: bool,
    scatter: bool,
    issue: f64,
}

/// Parts travel one way: to the end of a line, or half way round a ring. On a ring of even extent the
/// last step carries half a part each way, so that both directions carry the same. A scatter is a
/// gather run backwards: steps in the opposite order, each message turned round.
fn sweep(
    plan: &mut TransferPlan,
    devices: &[u32],
    way: PhaseDirection,
    (held, before): (f64, &[u32]),
    got: &mut [Vec<u32>],
) -> Result<()> {
    let count = devices.len();
    let steps = if way.closed { count / 2 } else { count - 1 };
    let mut arrived: Vec<Option<u32>> = vec![None; count];
    let mut sent: Vec<Option<u32>> = vec![None; count];
    for turn in 1..=steps {
        let step = if way.scatter { steps + 1 - turn } else { turn };
        let size = if way.closed && 2 * step == count {
            held / 2.0
        } else {
            held
        };
        let mut now = vec![None; count];
        for (from, to) in hops(count, step, way) {
            let after: Vec<u32> = before
                .get(from)
                .copied()
                .into_iter()
                .chain(arrived[from])
                .collect();
            let message = Transfer {
                size,
                start_up: way.issue,
                after: &after,
                behind: sent[from],
                ..Transfer::default()
            };
            sent[from] = Some(plan.send((devices[from], devices[to]), message)?);
            now[to] = sent[from];
            got[to].extend(now[to]);
        }
        arrived = now;
    }
    Ok(())
}

/// Who sends to whom when a gather has come to `step`: on a line, the places that parts can have reached.
fn hops(count: usize, step: usize, way: PhaseDirection) -> impl Iterator<Item = (usize, usize)> {
    let last = if way.closed { count } else { count - step };
    (0..last).map(move |origin| {
        let (from, to) = ((origin + step - 1) % count, (origin + step) % count);
        let (from, to) = if way.upward {
            (from, to)
        } else {
            (count - 1 - from, count - 1 - to)
        };
        if way.scatter { (to, from) } else { (from, to) }
    })
}
