//! Which groups of like devices are there, what joins them, and what may be chosen?

use crate::collective::{Collective, Forms};
use crate::error::{Error, Result};
use crate::estimate::{Job, LayerRanges};
use crate::hardware::{Cluster, Group, Level};
use crate::plan::Schedule;
use crate::search::space::Space;

/// Most groups: every order of every choice of them is tried.
pub const MOST_GROUPS: usize = 4;

/// A model to be trained on several groups, each of devices that are alike.
#[derive(Debug, Clone)]
pub struct Groups {
    pub(super) jobs: Vec<Job>,
    pub(super) ranges: LayerRanges,
    /// A tensor from a device of one group to a device of another.
    pub(super) send: Forms,
    /// A sum over a device of one group and a device of another.
    pub(super) sum: Forms,
}

impl Groups {
    /// Joins jobs of one model and one training, each on the cluster of its group.
    ///
    /// `between` is the level that joins any two groups: rate per device and direction, latency. Its
    /// `devices` are not read. One group needs none.
    pub fn new(jobs: &[&Job], between: Option<&Level>) -> Result<Self> {
        let Some(first) = jobs.first().filter(|_| jobs.len() <= MOST_GROUPS) else {
            let allowed = format!("1 to {MOST_GROUPS} groups of devices");
            return Err(Error::invalid("groups", jobs.len(), allowed));
        };
        for job in jobs {
            if job.training != first.training || job.graph != first.graph {
                let what = "groups: all groups train one model in one way";
                return Err(Error::inconsistent(what));
            }
        }
        if u32::try_from(first.training.global_batch).is_err() {
            let (got, allowed) = (first.training.global_batch, "up to 2^32 - 1 sequences");
            return Err(Error::invalid("training.global_batch", got, allowed));
        }
        let (send, sum) = match between {
            Some(level) => joined(first, level)?,
            None if jobs.len() == 1 => {
                let alone = Forms::new(Collective::SendReceive, &Group::SINGLE, &first.cluster);
                (alone, alone)
            }
            None => {
                let allowed = "the level that joins the groups, as there are several";
                return Err(Error::invalid("between", "nothing", allowed));
            }
        };
        Ok(Self {
            ranges: LayerRanges::new(first),
            jobs: jobs.iter().map(|&job| job.clone()).collect(),
            send,
            sum,
        })
    }

    /// What all groups share.
    pub(super) fn shared(&self) -> &Job {
        &self.jobs[0]
    }

    /// Devices of the largest group.
    pub(super) fn most_devices(&self) -> u32 {
        let devices = self.jobs.iter().map(|job| job.cluster.devices);
        devices.max().unwrap_or(0)
    }
}

/// The collectives of two devices that one level joins.
fn joined(job: &Job, level: &Level) -> Result<(Forms, Forms)> {
    if level.kind.has_dims() {
        let allowed = "a level that joins any two groups alike: not a torus, not a wafer mesh";
        return Err(Error::invalid("between.kind", "a level with dims", allowed));
    }
    let mut cluster = Cluster {
        devices: 2,
        ..job.cluster.clone()
    };
    let mut level = level.clone();
    level.devices = None;
    "between groups".clone_into(&mut cluster.system.name);
    cluster.system.levels = vec![level];
    (cluster.system.host, cluster.system.tiers) = (None, Vec::new());
    cluster.system.paths = Vec::new();
    cluster.check()?;
    let pair = cluster.group(1, 2);
    let forms = |collective| Forms::new(collective, &pair, &cluster);
    Ok((forms(Collective::SendReceive), forms(Collective::AllReduce)))
}

/// Refuses fields that plans on unlike groups do not take.
pub(super) fn check(space: &Space) -> Result<()> {
    space.one_recipe()?;
    let ones = [
        ("tensor_rows", &space.tensor_rows),
        ("context", &space.context),
        ("interleave", &space.interleave),
        ("zero_group", &space.zero_group),
    ];
    for (field, values) in ones {
        let one = |v: &u32| *v == 1 || *v == 0 && field == "zero_group";
        let wrong = values.iter().flatten().find(|v| !one(v));
        if let Some(wrong) = wrong {
            let allowed = "1 where groups of devices are unlike";
            return Err(Error::invalid(format!("space.{field}"), wrong, allowed));
        }
    }
    if let Some(wrong) = space.token_slices.iter().flatten().find(|s| s.cuts()) {
        let allowed = "1 where groups of devices are unlike";
        return Err(Error::invalid("space.token_slices", wrong, allowed));
    }
    let runs = [Schedule::OneForwardOneBackward, Schedule::GPipe];
    let wrong = space.schedule.iter().flatten().find(|s| !runs.contains(s));
    if let Some(wrong) = wrong {
        let allowed = "1f1b or gpipe where groups of devices are unlike";
        return Err(Error::invalid(
            "space.schedule",
            wrong.rule().name(),
            allowed,
        ));
    }
    let overlaps = [
        ("overlap_grad_reduce", &space.overlap_grad_reduce),
        ("overlap_param_gather", &space.overlap_param_gather),
        ("overlap_tensor", &space.overlap_tensor),
    ];
    for (field, values) in overlaps {
        if values.as_ref().is_some_and(|values| values.len() != 1) {
            let allowed = "one of true and false where groups of devices are unlike";
            return Err(Error::invalid(format!("space.{field}"), "several", allowed));
        }
    }
    if space.overlap_pipeline.iter().flatten().any(|on| *on) {
        let allowed = "false where groups of devices are unlike";
        return Err(Error::invalid("space.overlap_pipeline", true, allowed));
    }
    Ok(())
}
