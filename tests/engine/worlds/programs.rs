//! A small job under a software profile, as the tests of profiles price it.

use super::{fabrics, jobs};
use scalewright::estimate::Job;
use scalewright::hardware::Cluster;
use scalewright::plan::Plan;

/// Two sequences a micro-batch on one rank.
pub fn plan() -> Plan {
    Plan {
        micro_batch: 2,
        ..Plan::default()
    }
}

/// Devices on one switch.
pub fn cluster(devices: u32) -> Cluster {
    fabrics::one_switch(devices)
}

/// Eight sequences a device of a small model under a profile, its scores in memory.
pub fn job(software: &str, devices: u32) -> Job {
    let more = format!(r#", "flash_attention": false, "software": {software}"#);
    let training = jobs::training(8 * u64::from(devices), 2048, &more);
    jobs::job(&jobs::llama(4, 1024, 4), &cluster(devices), &training)
}

/// Seconds of a step.
pub fn seconds(job: &Job, plan: &Plan) -> f64 {
    jobs::priced(job, plan).step_time_s
}

/// Seconds of a plan beyond those of the same plan under the default profile.
pub fn beyond(software: &str, devices: u32, plan: &Plan) -> f64 {
    seconds(&job(software, devices), plan) - seconds(&job("{}", devices), plan)
}
