//! What does a write cost and how often must it be repeated, if cells keep data for hours, not years?

use crate::error::{Error, Result};
use crate::units::YEAR_S;
use serde::{Deserialize, Serialize};

/// A cell whose retention is chosen when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// How long it is to keep data.
    pub retention_s: f64,
    /// The retention at which `write_j_per_byte` was stated.
    #[serde(default = "ten_years")]
    pub stated_retention_s: f64,
    /// Energy of a write at that retention.
    #[serde(default)]
    pub write_j_per_byte: f64,
    /// Time between attempts of the cell to flip by itself.
    #[serde(default = "nanosecond")]
    pub attempt_s: f64,
}

/// What follows for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Retained {
    /// Energy barrier over thermal energy.
    pub stability: f64,
    /// Energy of a write.
    pub write_j_per_byte: f64,
    /// Writes a year that only keep the data.
    pub refreshes_per_year: f64,
    /// Power of keeping a byte by writing it again.
    pub refresh_w_per_byte: f64,
}

impl Cell {
    /// A cell keeps data for `t = t0 exp(Delta)` (Neel and Arrhenius; Legtchenko et al. 2025, section
    /// 3); the energy of a write is taken as proportional to the barrier `Delta`, as the critical
    /// current of a magnetic cell is.
    pub fn retained(&self) -> Result<Retained> {
        for (field, value) in [
            ("retention_s", self.retention_s),
            ("stated_retention_s", self.stated_retention_s),
        ] {
            let least = self.attempt_s * std::f64::consts::E;
            if !(value >= least && value <= 1e30) {
                let allowed = format!("{least:e} to 1e30: e times attempt_s or more");
                return Err(Error::invalid(field, value, allowed));
            }
        }
        if !(1e-15..=1.0).contains(&self.attempt_s) {
            return Err(Error::invalid("attempt_s", self.attempt_s, "1e-15 to 1"));
        }
        if !(0.0..=1.0).contains(&self.write_j_per_byte) {
            return Err(Error::invalid(
                "write_j_per_byte",
                self.write_j_per_byte,
                "0 to 1",
            ));
        }
        let barrier = |retention: f64| (retention / self.attempt_s).ln();
        let stability = barrier(self.retention_s);
        let write = self.write_j_per_byte * stability / barrier(self.stated_retention_s);
        Ok(Retained {
            stability,
            write_j_per_byte: write,
            refreshes_per_year: YEAR_S / self.retention_s,
            refresh_w_per_byte: write / self.retention_s,
        })
    }
}

fn ten_years() -> f64 {
    10.0 * YEAR_S
}

fn nanosecond() -> f64 {
    1e-9
}

#[cfg(test)]
mod tests {
    use super::Cell;

    #[test]
    fn a_shorter_retention_costs_less_to_write_and_more_to_keep() {
        let of = |retention_s| {
            let cell = Cell {
                retention_s,
                stated_retention_s: super::ten_years(),
                write_j_per_byte: 1e-11,
                attempt_s: 1e-9,
            };
            cell.retained().ok()
        };
        let (hour, day) = (of(3600.0), of(86400.0));
        let pair = hour.zip(day);
        assert!(pair.is_some_and(|(h, d)| h.write_j_per_byte < d.write_j_per_byte));
        assert!(pair.is_some_and(|(h, d)| h.refresh_w_per_byte > d.refresh_w_per_byte));
        assert!(of(1e-9).is_none() && of(f64::NAN).is_none());
    }
}
