//! What do given shares cost, and which limits do they break?

use super::model::{Model, NONE};

/// Shares that a caller chose, weighed.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Objective with windows as long as their rows ask for.
    pub objective: f64,
    /// Length of each window.
    pub windows: Vec<f64>,
    /// Limited rows over their limit, and by how much.
    pub excess: Vec<(u32, f64)>,
}

impl Model {
    /// Weighs shares, one for each option in order, whether they keep the limits or not.
    pub fn evaluate(&self, shares: &[f64]) -> Evaluation {
        let mut rows: Vec<f64> = vec![0.0; self.rows.len()];
        for (option, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            for used in self.uses_of(option) {
                for row in &mut rows[used.first as usize..used.end as usize] {
                    *row += used.amount * share;
                }
            }
        }
        let mut windows: Vec<f64> = self.windows.iter().map(|window| window.floor).collect();
        let mut excess = Vec::new();
        for (index, (row, used)) in (0..).zip(self.rows.iter().zip(&rows)) {
            if row.window == NONE {
                // the limit itself is no excess, nor is what rounding adds to it
                if *used > row.value * (1.0 + 1e-9) {
                    excess.push((index, used - row.value));
                }
            } else {
                let window = &mut windows[row.window as usize];
                *window = window.max(row.value + used);
            }
        }
        Evaluation {
            objective: self.objective(shares, &windows),
            windows,
            excess,
        }
    }
}
