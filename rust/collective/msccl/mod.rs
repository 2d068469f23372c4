//! How long does an algorithm take that is written as MSCCL XML, on the links of a cluster?

mod order;
mod read;

use crate::control::Control;
use crate::error::{Error, Result};
use crate::hardware::{Cluster, RouteChoice, Topology};
use crate::solve::{Flows, Simulation, Transfer};
use crate::units::Bytes;
use read::Step;
use serde::Serialize;

/// An algorithm of the MSCCL runtime: what each thread block of each device does, step by step.
#[derive(Debug, Clone)]
pub struct Msccl {
    name: String,
    collective: String,
    ranks: u32,
    /// Chunks that the buffer is cut into.
    chunks: u32,
    /// All steps, in an order in which each waits only for earlier ones.
    steps: Vec<Step>,
}

/// What running an algorithm once gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MscclRun {
    /// Its name in the file.
    pub algorithm: String,
    /// The collective that it carries out, as the file spells it.
    pub collective: String,
    /// Devices that take part.
    pub ranks: u32,
    /// Messages sent.
    pub messages: u64,
    /// Bytes of all messages.
    pub sent_bytes: f64,
    /// When the last step is done, in seconds.
    pub time_s: f64,
    /// Bytes of the buffer over the time: nccl-tests' algbw.
    pub algorithm_bandwidth_bytes_per_s: f64,
    /// Most bytes on one link over what it could have carried in the time.
    pub busiest_link_share: f64,
}

impl Msccl {
    /// Reads an algorithm and checks that it can end. Errors name the line.
    pub fn from_xml(text: &str) -> Result<Self> {
        let mut algorithm = read::algorithm(text)?;
        algorithm.steps = order::by_waits(&algorithm.steps)?;
        Ok(algorithm)
    }

    /// The transfers for a buffer of `bytes` (as nccl-tests count them), rank `i` on device `i`.
    ///
    /// A message holds `count` chunks of `bytes / nchunksperloop`. A send is over once its last byte has
    /// left (the runtime copies it out); a receive once it has arrived. Local copies and sums cost
    /// nothing, and a receiver's buffers never fill up.
    pub fn transfers(&self, cluster: &Cluster, bytes: Bytes) -> Result<Flows> {
        if self.ranks > cluster.devices {
            let allowed = format!("up to the {} devices of the cluster", cluster.devices);
            return Err(Error::invalid("algo.ngpus", self.ranks, allowed));
        }
        let topology = Topology::new(cluster)?;
        let mut flows = Flows::new(topology.links().to_vec())?;
        let chunk = bytes.value() / f64::from(self.chunks);
        let mut done: Vec<u32> = Vec::with_capacity(self.steps.len());
        let mut sent: Vec<Option<u32>> = Vec::with_capacity(self.steps.len());
        let mut route = Vec::new();
        for step in &self.steps {
            let mut after: Vec<u32> = step.after.iter().map(|&s| done[s]).collect();
            after.extend(step.source.and_then(|s| sent[s]));
            let mut message = None;
            if let Some(to) = step.to {
                route.clear();
                let latency = topology.route(step.rank, to, RouteChoice::AllLinks, &mut route);
                message = Some(flows.push(&Transfer {
                    size: chunk * f64::from(step.count),
                    latency: latency.value(),
                    route: &route,
                    after: &after,
                    ..Transfer::default()
                })?);
            }
            let end = Transfer {
                after: if message.is_some() { &[] } else { &after },
                behind: message,
                ..Transfer::default()
            };
            done.push(flows.push(&end)?);
            sent.push(message);
        }
        Ok(flows)
    }

    /// Runs the algorithm on `cluster`; stops soon after `control` is cancelled.
    pub fn simulate(&self, cluster: &Cluster, bytes: Bytes, control: &Control) -> Result<MscclRun> {
        let flows = self.transfers(cluster, bytes)?;
        let goes_on = || !control.is_cancelled();
        let stopped = || super::simulated::stopped(flows.len());
        let mut simulation = Simulation::new_while(&flows, goes_on).ok_or_else(stopped)?;
        let outcome = simulation.run_while(goes_on).ok_or_else(stopped)?;
        let (time, sends) = (outcome.end(), self.steps.iter().filter(|s| s.to.is_some()));
        let chunks: f64 = sends.clone().map(|s| f64::from(s.count)).sum();
        let over = |amount: f64| if time > 0.0 { amount / time } else { 0.0 };
        let loads = flows.links().iter().zip(&outcome.loads);
        let busiest = loads.map(|(link, load)| over(load.carried) / link.capacity);
        Ok(MscclRun {
            algorithm: self.name.clone(),
            collective: self.collective.clone(),
            ranks: self.ranks,
            messages: sends.count() as u64,
            sent_bytes: chunks * bytes.value() / f64::from(self.chunks),
            time_s: time,
            algorithm_bandwidth_bytes_per_s: over(bytes.value()),
            busiest_link_share: busiest.fold(0.0, f64::max),
        })
    }
}
