//! Where nothing fits: by how little is it missed, and on which rows?

use super::model::{Model, NONE, index};

/// How far the nearest choice is beyond the limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shortage {
    /// Least sum of all excesses over limits, in the rows' units.
    pub total: f64,
    /// Rows over their limit and by how much: with limits higher by this the choice fits.
    pub rows: Vec<(u32, f64)>,
}

/// The model whose objective is the sum of all excesses over limits.
///
/// Each limited row becomes a timed one, with a window of its own that begins at the limit. Rows with
/// time limit nothing: their windows weigh nothing.
pub(super) fn relaxed(model: &Model) -> Model {
    let mut excess = model.clone();
    for window in &mut excess.windows {
        window.weight = 0.0;
    }
    for row in &mut excess.rows {
        if row.window == NONE {
            row.window = index(excess.windows.len());
            excess.windows.push(super::model::Window {
                floor: 0.0,
                weight: 1.0,
            });
            row.value = -row.value;
        }
    }
    for option in &mut excess.options {
        option.cost = 0.0;
    }
    excess
}

/// The excesses in the windows of the relaxed model's solution.
pub(super) fn shortage(model: &Model, windows: &[f64]) -> Shortage {
    let excesses = &windows[model.windows.len()..];
    let limited = model.rows.iter().enumerate();
    let limited = limited.filter(|(_, row)| row.window == NONE);
    let rows = limited.zip(excesses).filter(|(_, excess)| **excess > 0.0);
    Shortage {
        total: excesses.iter().sum(),
        rows: rows
            .map(|((row, _), excess)| (index(row), *excess))
            .collect(),
    }
}
