//! Which machines suit a job best: the best plan on every variant of a grid of hardware, under a budget?

use super::grid::{Grid, GridClusters, VariedConstant, unknown_area};
use super::limits::{Limits, Method, Objective, OffloadWhen};
use super::space::Space;
use super::variants::{VariantOutcome, VariantRow, VariantSearch, rows};
use crate::control::Control;
use crate::economics;
use crate::error::{Error, Result};
use crate::estimate::Job;
use crate::hardware::Cluster;
use crate::plan::Plan;
use crate::units::{Dollars, SquareMillimetres, Watts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a variant with its best plan is judged by; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Step time, seconds.
    Time,
    /// Memory on the fullest rank, bytes.
    Memory,
    /// Energy of a step, joules.
    Energy,
    /// Dollars of a step.
    Dollars,
    /// Devices.
    Devices,
    /// Power of devices and nodes at their limits, watts.
    Watts,
    /// Dollars that the nodes cost to buy.
    Capital,
    /// Silicon of all dies, square millimetres.
    Mm2,
}

/// Things that a variant measures.
pub const MEASURES: usize = 8;

/// What the machines may be at most.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Dollars that the nodes cost to buy.
    pub capital: Option<Dollars>,
    /// Power of devices and nodes at their limits.
    pub watts: Option<Watts>,
    /// Silicon of all dies.
    pub mm2: Option<SquareMillimetres>,
    /// Devices.
    pub devices: Option<u32>,
}

impl Budget {
    /// The limits that are given, by what they limit.
    pub(super) fn limits(&self) -> impl Iterator<Item = (&'static str, Measure, f64)> + use<> {
        let all = [
            (
                "capital",
                Measure::Capital,
                self.capital.map(Dollars::value),
            ),
            ("watts", Measure::Watts, self.watts.map(Watts::value)),
            ("mm2", Measure::Mm2, self.mm2.map(SquareMillimetres::value)),
            ("devices", Measure::Devices, self.devices.map(f64::from)),
        ];
        let given = |(name, measure, limit): (_, _, Option<f64>)| Some((name, measure, limit?));
        all.into_iter().filter_map(given)
    }
}

/// What is asked of a grid.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CodesignRequest {
    /// What varies beside the systems.
    pub grid: Grid,
    /// What the machines may be at most; others are not searched.
    pub budget: Budget,
    /// What the best plan of a variant has least of, and what variants are ranked by.
    pub objective: Objective,
    /// Variants to return.
    pub top: usize,
    /// What the front over variants trades, each with its best plan; none for no front.
    pub front: Vec<Measure>,
    /// Whether variants that a bound excludes from the `top` are left unsearched; then there is no front.
    pub method: Method,
}

impl Default for CodesignRequest {
    fn default() -> Self {
        Self {
            grid: Grid::default(),
            budget: Budget::default(),
            objective: Objective::Time,
            top: 10,
            front: Vec::new(),
            method: Method::Exhaustive,
        }
    }
}

/// Most variants that are returned with their plans.
const MOST_TOP: usize = 10_000;

impl CodesignRequest {
    /// What the search of one variant looks for.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            top: 1,
            objective: self.objective.within_a_job(),
            front: Vec::new(),
            offload: OffloadWhen::Never,
            ..Limits::default()
        }
    }

    fn check(&self, machines: &GridClusters) -> Result<()> {
        if !(1..=MOST_TOP).contains(&self.top) {
            return Err(Error::invalid("top", self.top, format!("1 to {MOST_TOP}")));
        }
        let front = &self.front;
        if let Some(twice) = (1..front.len()).find(|&i| front[..i].contains(&front[i])) {
            let got = format!("{:?} twice", front[twice]).to_lowercase();
            return Err(Error::invalid("front", got, "each measure once"));
        }
        if self.method == Method::Bounds && !front.is_empty() {
            let allowed = "exhaustive: a front needs every variant searched";
            return Err(Error::invalid("method", "bounds with a front", allowed));
        }
        let wants = |measure| {
            let budget = self
                .budget
                .limits()
                .any(|(_, limited, _)| limited == measure);
            budget || front.contains(&measure)
        };
        let dollars = self.objective == Objective::Dollars || wants(Measure::Dollars);
        for cluster in machines.clusters() {
            let name = &cluster.system.name;
            if wants(Measure::Capital) && economics::capital(cluster).is_none() {
                let what = format!(
                    "system {name}: got no price of a node, but capital is asked for; allowed: systems that can be bought"
                );
                return Err(Error::inconsistent(what));
            }
            if dollars && !economics::priced(cluster) {
                let what = format!(
                    "system {name}: got no price, but dollars are asked for; allowed: systems with a price"
                );
                return Err(Error::inconsistent(what));
            }
            if wants(Measure::Mm2) && economics::silicon(cluster).is_none() {
                return Err(unknown_area(cluster, "budget or front: got mm2"));
            }
        }
        let zero = self.budget.limits().find(|(_, _, limit)| *limit <= 0.0);
        zero.map_or(Ok(()), |(name, _, limit)| {
            Err(Error::invalid(format!("budget.{name}"), limit, "above 0"))
        })
    }

    /// Refuses a limit below what the smallest variant needs.
    fn check_reach(&self, rows: &[VariantRow]) -> Result<()> {
        for (name, measure, limit) in self.budget.limits() {
            let all = rows.iter().map(|row| row.measures[measure as usize]);
            let least = all.fold(f64::INFINITY, f64::min);
            if limit < least {
                let field = format!("budget.{name}");
                let allowed = format!("{least} or more, the least of any variant");
                return Err(Error::invalid(field, limit, allowed));
            }
        }
        Ok(())
    }
}

/// A variant with its best plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variant {
    /// Its number in the grid: systems vary slowest, then device counts, then constants in order.
    pub index: usize,
    /// The system.
    pub system: String,
    /// The device.
    pub device: String,
    /// Devices.
    pub devices: u32,
    /// The constants that the grid varies.
    pub constants: Vec<VariedConstant>,
    /// Dollars that the nodes cost to buy, where a price is known.
    pub capital_usd: Option<f64>,
    /// Power of devices and nodes at their limits.
    pub peak_power_w: f64,
    /// Silicon of all dies, where their area is known.
    pub silicon_mm2: Option<f64>,
    /// The best plan.
    pub plan: Plan,
    /// Time of its step.
    pub step_time_s: f64,
    /// Bytes on its fullest rank.
    pub peak_memory_bytes: f64,
    /// Tokens of all devices in a second.
    pub tokens_per_s: f64,
    /// Energy of a step.
    pub energy_j_per_step: f64,
    /// Price of a step, where prices are known.
    pub cost_usd_per_step: Option<f64>,
    /// Legal plans that fit and whose exact time was computed.
    pub plans_priced: u64,
    /// Legal plans that a lower bound excludes; of those excluded in groups some may not fit.
    pub plans_excluded_by_bound: u64,
}

/// What became of the variants of a grid, and of their plans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct VariantCounts {
    /// Variants in all.
    pub variants: usize,
    /// Searched, with a plan that fits.
    pub variants_with_plan: usize,
    /// Searched; no plan fits in device memory.
    pub variants_without_plan: usize,
    /// Beyond the budget: not searched.
    pub variants_over_budget: usize,
    /// Excluded by a bound: none of their plans is among the `top`.
    pub variants_excluded_by_bound: usize,
    /// Legal plans of the variants searched.
    pub plans_legal: u64,
    /// Of those: fit, and their exact time was computed.
    pub plans_priced: u64,
    /// Of those: excluded by a bound.
    pub plans_excluded_by_bound: u64,
    /// Of those: weighed, and do not fit.
    pub plans_not_fitting: u64,
}

/// What a grid holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Codesign {
    /// What became of variants and plans.
    #[serde(flatten)]
    pub tally: VariantCounts,
    /// Variants beyond each limit of the budget; one may be beyond several.
    pub over_budget: BTreeMap<&'static str, usize>,
    /// The best variants, best first; of equal ones the first in the grid.
    pub best: Vec<Variant>,
    /// Variants that no other beats in all measures of the front, by rising first one.
    pub front: Vec<Variant>,
    /// Every variant, in the order of the grid.
    #[serde(skip)]
    pub rows: Vec<VariantRow>,
}

/// Searches the best plan on every variant of a grid that is within the budget.
///
/// `job` says model and training; it is put on each of the `clusters`, changed as the grid says. The
/// answer does not depend on the thread count. Plans hold everything in device memory, or on the host
/// where their own fields say so; tensors are not placed over further tiers.
pub fn codesign(
    job: &Job,
    clusters: &[Cluster],
    space: &Space,
    request: &CodesignRequest,
    control: &Control,
) -> Result<Codesign> {
    space.one_recipe()?;
    let machines = GridClusters::new(clusters, &request.grid)?;
    request.check(&machines)?;
    let searched = VariantSearch {
        job,
        space,
        request,
        limits: request.limits(),
        machines: &machines,
        control,
    };
    let mut all = searched.priced_variants()?;
    request.check_reach(&all)?;
    rows(&searched, &mut all)?;
    let key = |at: &usize| {
        let measures = &all[*at].measures;
        let of = |objective: Objective| measures[objective as usize];
        (of(request.objective), of(request.objective.within_a_job()))
    };
    let mut order: Vec<usize> = (0..all.len())
        .filter(|&at| all[at].fate == VariantOutcome::Planned)
        .collect();
    let front = front(&all, &order, &request.front);
    order.sort_by(|a, b| {
        let ((a, quicker), (b, than)) = (key(a), key(b));
        a.total_cmp(&b).then(quicker.total_cmp(&than)) // stable: of equal ones the first stays
    });
    order.truncate(request.top);
    let reports = |places: &[usize]| -> Result<Vec<Variant>> {
        places
            .iter()
            .filter_map(|&at| variant_report(&machines, &all[at], at).transpose())
            .collect()
    };
    Ok(Codesign {
        best: reports(&order)?,
        front: reports(&front)?,
        tally: VariantCounts::of(&all),
        over_budget: over_budget(&all, &request.budget),
        rows: all,
    })
}

/// Places of the rows that no other beats in all measures, by rising first one, then by the others.
///
/// A row that comes later in that order beats no earlier one, so each is compared with those kept.
fn front(rows: &[VariantRow], planned: &[usize], measures: &[Measure]) -> Vec<usize> {
    if measures.is_empty() {
        return Vec::new();
    }
    let of = |at: usize, measure: &Measure| rows[at].measures[*measure as usize];
    let mut order = planned.to_vec();
    order.sort_by(|&a, &b| {
        let mut each = measures.iter().map(|m| of(a, m).total_cmp(&of(b, m)));
        each.find(|o| o.is_ne()).unwrap_or(a.cmp(&b))
    });
    let mut kept: Vec<usize> = Vec::new();
    for at in order {
        let beats = |held: &usize| measures.iter().all(|m| of(*held, m) <= of(at, m));
        if !kept.iter().rev().any(beats) {
            kept.push(at);
        }
    }
    kept
}

fn over_budget(rows: &[VariantRow], budget: &Budget) -> BTreeMap<&'static str, usize> {
    let over = |(name, measure, limit): (&'static str, Measure, f64)| {
        let beyond = rows
            .iter()
            .filter(|row| row.measures[measure as usize] > limit);
        (name, beyond.count())
    };
    budget.limits().map(over).collect()
}

impl VariantCounts {
    fn of(rows: &[VariantRow]) -> Self {
        let mut tally = Self {
            variants: rows.len(),
            ..Self::default()
        };
        for row in rows {
            match row.fate {
                VariantOutcome::Planned => tally.variants_with_plan += 1,
                VariantOutcome::Unfit => tally.variants_without_plan += 1,
                VariantOutcome::OverBudget => tally.variants_over_budget += 1,
                VariantOutcome::ByBound => tally.variants_excluded_by_bound += 1,
            }
            tally.plans_legal += row.legal;
            tally.plans_priced += row.priced;
            tally.plans_not_fitting += row.unfit;
            tally.plans_excluded_by_bound += row.excluded();
        }
        tally
    }
}

/// A row in full; none where it has no plan.
fn variant_report(
    machines: &GridClusters,
    row: &VariantRow,
    index: usize,
) -> Result<Option<Variant>> {
    let Some(plan) = &row.plan else {
        return Ok(None);
    };
    let point = machines.point(index);
    let cluster = machines.priced(&point)?;
    let of = |measure: Measure| row.measures[measure as usize];
    let known = |measure| Some(of(measure)).filter(|value| value.is_finite());
    Ok(Some(Variant {
        index,
        devices: cluster.devices,
        constants: machines.varied(&point),
        capital_usd: known(Measure::Capital),
        peak_power_w: of(Measure::Watts),
        silicon_mm2: known(Measure::Mm2),
        plan: (**plan).clone(),
        step_time_s: of(Measure::Time),
        peak_memory_bytes: of(Measure::Memory),
        tokens_per_s: row.tokens_per_s,
        energy_j_per_step: of(Measure::Energy),
        cost_usd_per_step: known(Measure::Dollars),
        plans_priced: row.priced,
        plans_excluded_by_bound: row.excluded(),
        system: cluster.system.name,
        device: cluster.device.name,
    }))
}
