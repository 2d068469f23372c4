//! Which machines does a grid of systems, device counts and constants hold, and what does each cost?

use super::uncertainty::matched;
use crate::economics;
use crate::error::{Error, Result, from_json};
use crate::hardware::{Cluster, Constant};
use crate::units::{Bytes, BytesPerSecond, Dollars, FlopsPerSecond, Seconds};
use crate::units::{SquareMillimetres, Watts};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Most variants of a grid: they take minutes already.
pub const MOST_VARIANTS: usize = 1_000_000;
/// How many times its own value a constant may be, and the inverse of how small a part of it.
const MOST_FACTOR: f64 = 1e6;
/// Variants that are searched one after another where no axis says which belong together.
const LINE: usize = 16;
/// Dollars, watts and square millimetres by which a device may differ.
const MOST_MORE: f64 = 1e9;

/// One value of a constant, and what a device with it costs more than the one of the catalog.
///
/// What another value of a constant costs follows from nothing that the model knows; what is not said
/// here stays as it is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AxisValue {
    /// The value over the one of the catalog. Either this or `value` is given.
    pub factor: Option<f64>,
    /// The value itself, with its unit: `"120 GiB"`. Of a rate the sustained one.
    pub value: Option<String>,
    /// Dollars that a device costs more; less where it is below 0.
    pub price_usd: f64,
    /// What the price of a node, or its rent, is multiplied by, before dollars are added.
    pub price_factor: f64,
    /// Watts that a device draws more at its limit.
    pub power_w: f64,
    /// Square millimetres by which the dies of a device are larger.
    pub area_mm2: f64,
}

impl Default for AxisValue {
    fn default() -> Self {
        Self {
            factor: None,
            value: None,
            price_usd: 0.0,
            price_factor: 1.0,
            power_w: 0.0,
            area_mm2: 0.0,
        }
    }
}

/// A constant and the values that it takes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The dotted name of a constant, of all constants that it begins, or with `*` for any part.
    pub constant: String,
    /// The values.
    pub steps: Vec<AxisValue>,
}

/// What varies beside the systems: every combination is a variant.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grid {
    /// Device counts; none for the systems' own.
    pub devices: Vec<u32>,
    /// Constants; the last one varies fastest.
    pub axes: Vec<Axis>,
}

/// A constant of a variant that the grid varies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariedConstant {
    /// Its name.
    pub name: String,
    /// Its value over the one of the catalog; a share stays at most 1.
    pub factor: f64,
    /// Its value.
    pub value: f64,
    /// The unit of the value.
    pub unit: &'static str,
}

/// Variants that belong together, with the rank of the first.
type VariantChain = (f64, Vec<usize>);

/// Where a variant stands in the grid.
#[derive(Debug)]
pub(super) struct GridPoint {
    /// Place of its system.
    pub(super) cluster: usize,
    /// Place among the device counts.
    pub(super) count: usize,
    /// Place of the value of each axis.
    pub(super) steps: Vec<usize>,
}

/// A grid on the systems that it is meant for.
pub(super) struct GridClusters<'a> {
    grid: &'a Grid,
    bases: Vec<BaseCluster>,
    variants: usize,
}

/// A system, and what the axes vary of it.
struct BaseCluster {
    cluster: Cluster,
    constants: Vec<Constant>,
    /// By axis and value: the places of the constants and their factors.
    axes: Vec<Vec<Vec<(usize, f64)>>>,
}

impl<'a> GridClusters<'a> {
    /// Checks a grid against its systems.
    pub(super) fn new(clusters: &[Cluster], grid: &'a Grid) -> Result<Self> {
        let sizes = grid.axes.iter().map(|axis| axis.steps.len());
        let sizes = [clusters.len(), grid.counts()].into_iter().chain(sizes);
        let variants = sizes.fold(1_usize, usize::saturating_mul);
        let refused = || {
            let got = format!("{variants} variants");
            let allowed = format!("1 to {MOST_VARIANTS}");
            Err(Error::invalid("grid", got, allowed))
        };
        // before anything that takes time with their number
        if variants > MOST_VARIANTS {
            return refused();
        }
        grid.check()?;
        if variants == 0 {
            return refused();
        }
        if clusters.len() == 1 && grid.devices.is_empty() && grid.axes.is_empty() {
            let allowed = "device counts, other systems or devices, or values of constants";
            return Err(Error::invalid("grid", "nothing that varies", allowed));
        }
        let bases: Result<Vec<BaseCluster>> =
            clusters.iter().map(|c| BaseCluster::new(c, grid)).collect();
        let bases = bases?;
        Ok(Self {
            grid,
            bases,
            variants,
        })
    }

    /// Variants of the grid.
    pub(super) fn variants(&self) -> usize {
        self.variants
    }

    /// Variants of one system and device count, which follow one another.
    pub(super) fn group(&self) -> usize {
        let sizes = self.grid.axes.iter().map(|axis| axis.steps.len());
        sizes.product()
    }

    /// The systems, as they are in the catalog.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.bases.iter().map(|base| &base.cluster)
    }

    /// Where a variant stands: systems vary slowest, then device counts, then the axes in order.
    pub(super) fn point(&self, index: usize) -> GridPoint {
        let mut left = index;
        let mut steps = vec![0; self.grid.axes.len()];
        for (step, axis) in steps.iter_mut().zip(&self.grid.axes).rev() {
            *step = left % axis.steps.len();
            left /= axis.steps.len();
        }
        let counts = self.grid.counts();
        GridPoint {
            cluster: left / counts,
            count: left % counts,
            steps,
        }
    }

    /// The machines of a variant, with its price, power and area, and their constants as in the catalog.
    pub(super) fn priced(&self, point: &GridPoint) -> Result<Cluster> {
        let mut cluster = self.bases[point.cluster].cluster.clone();
        if let Some(&devices) = self.grid.devices.get(point.count) {
            cluster.resize(devices);
        }
        let axes = self.grid.axes.iter().zip(&point.steps);
        let steps: Vec<&AxisValue> = axes.map(|(axis, &step)| &axis.steps[step]).collect();
        charge(&mut cluster, &steps)?;
        cluster.check()?;
        Ok(cluster)
    }

    /// The machines of a variant.
    pub(super) fn cluster(&self, point: &GridPoint) -> Result<Cluster> {
        let base = &self.bases[point.cluster];
        let mut factors = vec![1.0; base.constants.len()];
        for (axis, &step) in base.axes.iter().zip(&point.steps) {
            for &(at, factor) in &axis[step] {
                factors[at] = factor;
            }
        }
        let cluster = self.priced(point)?.scaled(&factors);
        cluster.check()?;
        Ok(cluster)
    }

    /// The machines of a variant with each constant at the best value that the grid has for it.
    pub(super) fn best_of_all(&self, point: &GridPoint) -> Result<Cluster> {
        let base = &self.bases[point.cluster];
        let mut factors = vec![1.0; base.constants.len()];
        for axis in &base.axes {
            for (at, step) in axis[0].iter().enumerate() {
                let all = axis.iter().map(|steps| steps[at].1);
                let larger = base.constants[step.0].kind.larger_is_better();
                let better = |a: f64, b: f64| if larger { a.max(b) } else { a.min(b) };
                factors[step.0] = all.fold(step.1, better);
            }
        }
        Ok(self.priced(point)?.scaled(&factors))
    }

    /// Variants of one group in lines along the axis of one constant, whose value falls along each;
    /// false, and lines of so many, where no axis has that constant alone. The variants come with a
    /// rank each, by which they rise; a line has that of its first.
    pub(super) fn split(&self, members: &[(f64, usize)], name: &str) -> (Vec<VariantChain>, bool) {
        let point = members.first().map(|&(_, at)| self.point(at));
        let base = point.map(|point| &self.bases[point.cluster]);
        let alone = |base: &BaseCluster| {
            let named = |at: usize| base.constants[at].name == name;
            let axis =
                |axis: &Vec<Vec<(usize, f64)>>| matches!(axis[0][..], [(at, _)] if named(at));
            base.axes.iter().position(axis)
        };
        let Some((base, axis)) = base.and_then(|base| Some((base, alone(base)?))) else {
            let lines = members.chunks(LINE);
            let line = |line: &[(f64, usize)]| (line[0].0, line.iter().map(|m| m.1).collect());
            return (lines.map(line).collect(), false);
        };
        let behind = self.grid.axes[axis + 1..]
            .iter()
            .map(|axis| axis.steps.len());
        let stride: usize = behind.product();
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        let mut lines: Vec<VariantChain> = Vec::new();
        let step = |at: usize| at / stride % self.grid.axes[axis].steps.len();
        for &(rank, at) in members {
            let new = lines.len();
            let place = *places.entry(at - step(at) * stride).or_insert(new);
            if place == new {
                lines.push((rank, Vec::new()));
            }
            lines[place].1.push(at);
        }
        let value = |at: &usize| base.axes[axis][step(*at)][0].1;
        for (_, line) in &mut lines {
            // stable, and of equal values the first in the grid
            line.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.cmp(b)));
        }
        (lines, true)
    }

    /// What the grid sets in a variant.
    pub(super) fn varied(&self, point: &GridPoint) -> Vec<VariedConstant> {
        let base = &self.bases[point.cluster];
        let axes = base.axes.iter().zip(&point.steps);
        let set = axes.flat_map(|(axis, &step)| &axis[step]);
        set.map(|&(at, factor)| {
            let constant = &base.constants[at];
            let factor = constant.applied(factor);
            VariedConstant {
                name: constant.name.clone(),
                factor,
                value: constant.value * factor,
                unit: constant.unit,
            }
        })
        .collect()
    }
}

impl Grid {
    /// Device counts to try, or one where the systems say how many.
    fn counts(&self) -> usize {
        self.devices.len().max(1)
    }

    fn check(&self) -> Result<()> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.devices.iter().find(|&&count| !seen.insert(count)) {
            let got = format!("{twice} twice");
            return Err(Error::invalid("devices", got, "each count once"));
        }
        for axis in &self.axes {
            let field = format!("constants.{}", axis.constant);
            if axis.steps.is_empty() {
                let allowed = "a list of one or more factors or values";
                return Err(Error::invalid(field, "none", allowed));
            }
            for (at, step) in axis.steps.iter().enumerate() {
                step.check(&format!("{field}[{at}]"))?;
            }
        }
        Ok(())
    }
}

impl AxisValue {
    fn check(&self, field: &str) -> Result<()> {
        if self.factor.is_some() == self.value.is_some() {
            let got = if self.factor.is_some() {
                "both"
            } else {
                "neither"
            };
            let at = format!("{field}.factor, {field}.value");
            return Err(Error::invalid(at, got, "one of them"));
        }
        let more = [
            ("price_usd", self.price_usd),
            ("power_w", self.power_w),
            ("area_mm2", self.area_mm2),
        ];
        for (name, value) in more {
            if !(-MOST_MORE..=MOST_MORE).contains(&value) {
                let allowed = format!("-{MOST_MORE} to {MOST_MORE}");
                return Err(Error::invalid(format!("{field}.{name}"), value, allowed));
            }
        }
        if !(0.0..=MOST_FACTOR).contains(&self.price_factor) {
            let allowed = format!("0 to {MOST_FACTOR}");
            let at = format!("{field}.price_factor");
            return Err(Error::invalid(at, self.price_factor, allowed));
        }
        Ok(())
    }

    /// What a constant is multiplied by.
    fn factor(&self, field: &str, constant: &Constant) -> Result<f64> {
        let factor = match (&self.factor, &self.value) {
            (_, Some(text)) => read(field, text, constant.unit)? / constant.value,
            (factor, None) => factor.unwrap_or(1.0),
        };
        if (1.0 / MOST_FACTOR..=MOST_FACTOR).contains(&factor) {
            return Ok(factor);
        }
        let [least, most] = [1.0 / MOST_FACTOR, MOST_FACTOR];
        let allowed = format!(
            "{least} to {most} times the catalog's {} {}",
            constant.value, constant.unit
        );
        Err(Error::invalid(field, factor, allowed))
    }
}

/// Reads a value of a constant in the constant's unit.
fn read(field: &str, text: &str, unit: &str) -> Result<f64> {
    let json = Value::from(text).to_string();
    match unit {
        "bytes" => from_json(field, &json).map(Bytes::value),
        "bytes/s" => from_json(field, &json).map(BytesPerSecond::value),
        "FLOP/s" => from_json(field, &json).map(FlopsPerSecond::value),
        "s" => from_json(field, &json).map(Seconds::value),
        _ => text
            .trim()
            .parse()
            .map_err(|_| Error::invalid(field, text, format!("a number, in {unit}"))),
    }
}

impl BaseCluster {
    fn new(cluster: &Cluster, grid: &Grid) -> Result<Self> {
        let constants = cluster.constants();
        let mut taken: Vec<Option<&str>> = vec![None; constants.len()];
        let mut axes = Vec::new();
        for axis in &grid.axes {
            let name = axis.constant.as_str();
            let places: Vec<usize> = (0..constants.len())
                .filter(|&at| matched(name, &constants[at].name).is_some())
                .collect();
            if places.is_empty() {
                let known = constants.iter().map(|c| c.name.as_str());
                let kind = format!("constants of {}", cluster.system.name);
                return Err(Error::unknown(&kind, name, known));
            }
            for &at in &places {
                if let Some(other) = taken[at].replace(name) {
                    let got = format!("'{other}' and '{name}' for {}", constants[at].name);
                    return Err(Error::invalid("constants", got, "one name for a constant"));
                }
            }
            axes.push(factors(axis, &places, &constants)?);
        }
        let mut cluster = cluster.clone();
        can_be_charged(&cluster, grid)?;
        // a variant's sources are its system's; the copies of a million variants need none
        cluster.device.sources.clear();
        cluster.system.sources.clear();
        Ok(Self {
            cluster,
            constants,
            axes,
        })
    }
}

/// By value of an axis: the constants and their factors.
fn factors(
    axis: &Axis,
    places: &[usize],
    constants: &[Constant],
) -> Result<Vec<Vec<(usize, f64)>>> {
    let one = |(at, step): (usize, &AxisValue)| {
        let field = format!("constants.{}[{at}]", axis.constant);
        let pair = |&place: &usize| Ok((place, step.factor(&field, &constants[place])?));
        places.iter().map(pair).collect()
    };
    axis.steps.iter().enumerate().map(one).collect()
}

/// Refuses costs that would be added to nothing.
fn can_be_charged(cluster: &Cluster, grid: &Grid) -> Result<()> {
    let steps = || grid.axes.iter().flat_map(|axis| &axis.steps);
    let dollars = steps().any(|s| s.price_usd.abs() > 0.0 || (s.price_factor - 1.0).abs() > 0.0);
    let bought = economics::node_price(cluster).is_some();
    if dollars && !bought && cluster.system.price.rent_per_device_hour.is_none() {
        let what = format!(
            "constants: got prices of values, but system {} has no price; allowed: prices where \
             system.price.node or device.price is known",
            cluster.system.name
        );
        return Err(Error::inconsistent(what));
    }
    if steps().any(|step| step.area_mm2.abs() > 0.0) && cluster.device.die_area.is_none() {
        return Err(unknown_area(cluster, "constants: got areas of values"));
    }
    Ok(())
}

/// Says that the area of a device's dies is not known.
pub(super) fn unknown_area(cluster: &Cluster, got: &str) -> Error {
    Error::inconsistent(format!(
        "{got}, but the die_area of device {} is not known; allowed: devices with a die_area",
        cluster.device.name
    ))
}

/// Adds what the values of a variant cost to its price, power and area.
///
/// A purchase is `node price * factors + devices a node * dollars`; a rent is multiplied likewise and
/// takes the added dollars spread over the hours of the lifetime.
fn charge(cluster: &mut Cluster, steps: &[&AxisValue]) -> Result<()> {
    let sum = |of: fn(&AxisValue) -> f64| steps.iter().map(|step| of(step)).sum::<f64>();
    let dollars = sum(|step| step.price_usd);
    let times: f64 = steps.iter().map(|step| step.price_factor).product();
    let devices = f64::from(cluster.system.devices_per_node);
    let name = cluster.system.name.clone();
    let left = |what: &str, value: f64| {
        if (0.0..=1e30).contains(&value) {
            return Ok(value);
        }
        let field = format!("constants: {what} of {name}");
        Err(Error::invalid(
            field,
            value,
            "0 or more, with what is added",
        ))
    };
    if let Some(price) = economics::node_price(cluster) {
        let price = left("price of a node", price.value() * times + dollars * devices)?;
        cluster.system.price.node = Some(Dollars::new(price));
    }
    if let Some(rent) = cluster.system.price.rent_per_device_hour {
        let more = dollars / economics::lifetime_hours(cluster);
        let rent = left("rent of a device", rent.value() * times + more)?;
        cluster.system.price.rent_per_device_hour = Some(Dollars::new(rent));
    }
    let power = &mut cluster.device.power;
    let peak = power.peak.value() + sum(|step| step.power_w);
    let peak = left("power of a device", peak)?;
    power.peak = Watts::new(peak);
    power.idle = power.idle.min(power.peak);
    if let Some(area) = &mut cluster.device.die_area {
        let sum = area.value() + sum(|step| step.area_mm2);
        *area = SquareMillimetres::new(left("die area of a device", sum)?);
    }
    Ok(())
}
