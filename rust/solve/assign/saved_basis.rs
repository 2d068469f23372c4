//! Where was the simplex method when it had solved the root?

use super::inverse::Inverse;
use super::model::{NONE, index};
use super::scaled_model::ScaledModel;
use super::simplex::Simplex;

/// A basis, to come back to.
#[derive(Debug, Default)]
pub(super) struct SavedBasis {
    keys: Vec<u32>,
    members: Vec<u32>,
    banned: Vec<bool>,
    basic: Vec<u32>,
    tight: Vec<u32>,
    inverse: Inverse,
    prices: Vec<f64>,
    since_fresh: usize,
}

impl SavedBasis {
    pub(super) fn keep(&mut self, simplex: &Simplex) {
        self.keys.clone_from(&simplex.keys);
        self.members.clone_from(&simplex.members);
        self.banned.clone_from(&simplex.banned);
        self.basic.clone_from(&simplex.basic);
        self.tight.clone_from(&simplex.tight);
        self.prices.clone_from(&simplex.prices);
        self.inverse.copy(&simplex.inverse);
        self.since_fresh = simplex.since_fresh;
    }

    pub(super) fn restore(&self, simplex: &mut Simplex, form: &ScaledModel) {
        simplex.keys.clone_from(&self.keys);
        simplex.members.clone_from(&self.members);
        simplex.banned.clone_from(&self.banned);
        simplex.basic.clone_from(&self.basic);
        simplex.tight.clone_from(&self.tight);
        simplex.prices.clone_from(&self.prices);
        simplex.inverse.copy(&self.inverse);
        simplex.since_fresh = self.since_fresh;
        simplex.weights.clear();
        simplex.weights.resize(self.basic.len(), 1.0);
        simplex.row_weights.fill(1.0);
        simplex.place_of.fill(NONE);
        for (place, &variable) in self.basic.iter().enumerate() {
            simplex.place_of[variable as usize] = index(place);
        }
        simplex.row_place.fill(NONE);
        for (place, &row) in self.tight.iter().enumerate() {
            simplex.row_place[row as usize] = index(place);
        }
        simplex.reset_left(form);
    }
}
