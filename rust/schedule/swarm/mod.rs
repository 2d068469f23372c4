//! What does a pipeline of unreliable, unlike peers get done that wires itself anew for every micro-batch?

mod expected;
mod peers;
mod simulated;

use crate::control::Control;
use crate::error::amounts::{count, not_negative, positive, share};
use crate::error::{Error, Result};
use crate::solve::Random;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use expected::{Transfer, expected_per_s, utilization};

/// Most stages, peers of a stage, micro-batches in flight and runs.
const MOST: usize = 1 << 16;
/// Most passes, looks at the load, failures and joins of all runs: about a minute.
const MOST_EVENTS: f64 = 4e8;

/// Peers and how they work together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Speed of each peer of each stage: micro-batches a second, forward and backward together.
    pub stages: Vec<Vec<f64>>,
    /// Processes that send micro-batches through the stages, each with a routing of its own.
    #[serde(default = "one")]
    pub trainers: u32,
    /// Micro-batches that a trainer keeps under way.
    pub in_flight: u32,
    /// Share of the forward pass in a peer's work.
    #[serde(default = "third")]
    pub forward_share: f64,
    /// Seconds of a message between peers, or between a peer and a trainer.
    #[serde(default)]
    pub delay_s: f64,
    /// How long a pass takes.
    #[serde(default)]
    pub service: Service,
    /// Which peer of a stage comes next.
    #[serde(default)]
    pub routing: Routing,
    /// How often a peer fails, for good.
    #[serde(default)]
    pub failures_per_s: f64,
    /// How often a peer joins the swarm.
    #[serde(default)]
    pub joins_per_s: f64,
    /// Speeds of which those that join have one, each as likely.
    #[serde(default)]
    pub join_speeds: Vec<f64>,
    /// Seconds between two looks at the load of stages; none: peers never move.
    #[serde(default)]
    pub rebalance_s: Option<f64>,
    /// Seconds that a peer is away when it moves or joins: it loads the weights of its stage.
    #[serde(default)]
    pub move_s: f64,
    /// Seconds simulated, from an empty swarm.
    pub duration_s: f64,
    /// Runs with random numbers of their own.
    #[serde(default = "eight")]
    pub runs: u32,
    /// The same seed gives the same answer.
    #[serde(default)]
    pub seed: u64,
}

/// How long a pass takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Always as long as the peer's speed says.
    #[default]
    Constant,
    /// Exponentially distributed about that.
    Exponential,
}

/// Which peer of a stage a trainer sends to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// The one to which it has sent the least work, measured in seconds (interleaved weighted
    /// round-robin).
    #[default]
    RoundRobin,
    /// Any, with a chance in proportion to its speed.
    Random,
}

/// What a swarm gets done; means over all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Swarm {
    /// Micro-batches a second, from the empty swarm on.
    pub throughput_per_s: f64,
    /// Standard error of that mean; none for a single run.
    pub standard_error_per_s: Option<f64>,
    /// What no routing can beat: speeds of the slowest stage, in the mean over time.
    pub bound_per_s: f64,
    /// The same of the peers that are there at the beginning.
    pub static_bound_per_s: f64,
    /// Expected of those if none fails, joins or moves; see `expected_per_s`.
    pub expected_per_s: f64,
    /// Stages.
    pub stages: Vec<Stage>,
    /// Peers that failed, in a run.
    pub failures: f64,
    /// Peers that joined.
    pub joins: f64,
    /// Peers that moved to another stage.
    pub moves: f64,
}

/// A stage, in the mean over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Stage {
    /// Peers that work there.
    pub peers: f64,
    /// Their speeds together, micro-batches a second.
    pub speed_per_s: f64,
    /// Share of that speed which is at work.
    pub utilization: f64,
    /// Passes that wait or run.
    pub queue: f64,
}

fn one() -> u32 {
    1
}

fn third() -> f64 {
    1.0 / 3.0
}

fn eight() -> u32 {
    8
}

/// Runs a swarm (SWARM parallelism, Ryabinin et al. 2023, section 3.2).
///
/// A trainer sends each micro-batch forward through a peer of every stage and back through the same
/// peers. Peers take passes in the order in which they arrive. It sends where it has sent least
/// work so far, in seconds by the peers' speeds. Where a peer fails, its micro-batches go to another
/// one of its stage; what had gone forward through it goes forward again there before it comes back.
/// Every so often a peer of the stage with the shortest queue, that with the shortest queue of its
/// own, moves to the stage with the longest, by the mean since the last look; it stays where the
/// lesser of the two stages' speeds would not rise by it. Those that join go where the queue is
/// longest, or to any stage where peers never move.
///
/// With passes of constant length no run gets more done than its bound.
pub fn swarm(request: &Request, control: &Control) -> Result<Swarm> {
    check(request)?;
    control.set_total(u64::from(request.runs));
    let runs: Vec<simulated::Outcome> = (0..request.runs)
        .into_par_iter()
        .map(|run| {
            let random = Random::new(request.seed, u64::from(run));
            let outcome = simulated::run(request, random, control);
            control.advance(1);
            outcome
        })
        .collect::<Result<_>>()?;
    let many = runs.len() as f64;
    let mean = |of: &dyn Fn(&simulated::Outcome) -> f64| runs.iter().map(of).sum::<f64>() / many;
    let throughput = mean(&|run| run.throughput);
    let spread: f64 = runs
        .iter()
        .map(|r| (r.throughput - throughput).powi(2))
        .sum();
    let stages = (0..request.stages.len()).map(|at| {
        let speed = mean(&|run| run.stages[at].speed_per_s);
        let busy = mean(&|run| run.stages[at].speed_per_s * run.stages[at].utilization);
        Stage {
            peers: mean(&|run| run.stages[at].peers),
            speed_per_s: speed,
            utilization: if speed > 0.0 { busy / speed } else { 0.0 },
            queue: mean(&|run| run.stages[at].queue),
        }
    });
    let speeds = request.stages.iter().map(|peers| peers.iter().sum());
    Ok(Swarm {
        throughput_per_s: throughput,
        standard_error_per_s: (many > 1.0).then(|| (spread / (many - 1.0) / many).sqrt()),
        bound_per_s: mean(&|run| run.bound),
        static_bound_per_s: speeds.fold(f64::INFINITY, f64::min),
        expected_per_s: expected_per_s(request)?,
        stages: stages.collect(),
        failures: mean(&|run| f64::from(run.failures)),
        joins: mean(&|run| f64::from(run.joins)),
        moves: mean(&|run| f64::from(run.moves)),
    })
}

/// Refuses what cannot be run.
fn check(request: &Request) -> Result<()> {
    count("stages", request.stages.len(), 1, MOST)?;
    for (stage, peers) in request.stages.iter().enumerate() {
        count(&format!("stages[{stage}]"), peers.len(), 1, MOST)?;
        for (peer, &speed) in peers.iter().enumerate() {
            positive(&format!("stages[{stage}][{peer}]"), speed)?;
        }
    }
    count("trainers", request.trainers as usize, 1, MOST)?;
    count("in_flight", request.in_flight as usize, 1, MOST)?;
    count("runs", request.runs as usize, 1, MOST)?;
    share("forward_share", request.forward_share)?;
    let amounts = [
        ("delay_s", request.delay_s),
        ("failures_per_s", request.failures_per_s),
        ("joins_per_s", request.joins_per_s),
        ("move_s", request.move_s),
    ];
    for (name, amount) in amounts {
        not_negative(name, amount)?;
    }
    positive("duration_s", request.duration_s)?;
    if let Some(every) = request.rebalance_s {
        positive("rebalance_s", every)?;
    }
    for (index, &speed) in request.join_speeds.iter().enumerate() {
        positive(&format!("join_speeds[{index}]"), speed)?;
    }
    if request.joins_per_s > 0.0 && request.join_speeds.is_empty() {
        let allowed = "one speed or more where peers join";
        return Err(Error::invalid("join_speeds", "none", allowed));
    }
    check_work(request)
}

/// Refuses what would run for hours.
fn check_work(request: &Request) -> Result<()> {
    let each = per_s(request) * f64::from(request.runs);
    if request.duration_s * each > MOST_EVENTS {
        let most = MOST_EVENTS / each;
        let allowed = format!(
            "above 0, up to {most:.3e}: at most {MOST_EVENTS:.0e} passes and looks of {} runs are \
             simulated",
            request.runs
        );
        return Err(Error::invalid("duration_s", request.duration_s, allowed));
    }
    Ok(())
}

/// What happens in a second of a run at most: passes, looks at the load, failures and joins.
fn per_s(request: &Request) -> f64 {
    let peers: usize = request.stages.iter().map(Vec::len).sum();
    let speeds = request.stages.iter().map(|peers| peers.iter().sum::<f64>());
    let at_once = f64::from(request.trainers) * f64::from(request.in_flight);
    let passes = 2.0 * request.stages.len() as f64;
    // those that join speed a swarm up while they live, but no more than there is under way
    let held = at_once / (passes * request.delay_s);
    let fastest = request.join_speeds.iter().copied().fold(0.0, f64::max);
    let lives_s = request.duration_s.min(1.0 / request.failures_per_s);
    let joined = request.joins_per_s * lives_s * fastest;
    let slowest = speeds.fold(f64::INFINITY, f64::min) + joined;
    let looks = request
        .rebalance_s
        .map_or(0.0, |every| peers as f64 / every);
    passes * slowest.min(held)
        + looks
        + request.joins_per_s
        + request.failures_per_s.min(1.0 / request.duration_s) * peers as f64
}
