//! Which devices may stand next in a pipeline that is filled from the front?

use super::costs::Costs;
use std::collections::BTreeMap;

/// States of a pipeline of which some stages are filled, those with fewer stages first.
pub(super) struct PipelineStates {
    pub(super) states: Vec<State>,
}

/// A pipeline whose first stages have their devices.
pub(super) struct State {
    /// Stages that are filled.
    pub(super) filled: usize,
    /// Device of the last of them.
    pub(super) last: Option<usize>,
    /// Devices that may come next, and the states that they lead to.
    pub(super) next: Vec<(usize, usize)>,
}

/// How many devices of each class are used, and the last where links tell devices apart.
type Key = (Vec<u16>, Option<usize>);

impl PipelineStates {
    /// The one order that is given.
    pub(super) fn in_order(order: &[usize]) -> Self {
        let state = |filled: usize| State {
            filled,
            last: filled.checked_sub(1).map(|before| order[before]),
            next: order
                .get(filled)
                .map(|d| (*d, filled + 1))
                .into_iter()
                .collect(),
        };
        Self {
            states: (0..=order.len()).map(state).collect(),
        }
    }

    /// Every order; devices that are alike count as one.
    ///
    /// Stops early, with states that lead nowhere, where there are more than could be weighed.
    pub(super) fn any_order(costs: &Costs<'_>) -> Self {
        let classes = classes(costs);
        let start: Key = (vec![0; classes.len()], None);
        let mut known = BTreeMap::from([(start.clone(), 0)]);
        let mut keys = vec![start];
        let mut places = Self { states: Vec::new() };
        while places.states.len() < keys.len() && keys.len() < MOST_STATES {
            let (used, last) = keys[places.states.len()].clone();
            let filled = used.iter().map(|n| usize::from(*n)).sum();
            let mut next = Vec::new();
            for (class, members) in classes.iter().enumerate() {
                let Some(&device) = members.get(usize::from(used[class])) else {
                    continue;
                };
                let mut more = used.clone();
                more[class] += 1;
                let key: Key = (more, Some(device).filter(|_| costs.by_pair()));
                let at = *known.entry(key.clone()).or_insert_with(|| {
                    keys.push(key);
                    keys.len() - 1
                });
                next.push((device, at));
            }
            // where links belong to places any device that is there will do
            let last = last.or((filled > 0).then_some(0));
            places.states.push(State { filled, last, next });
        }
        if places.states.len() < keys.len() {
            places.states.clear();
        }
        places
    }

    /// Ranges of layers that must be weighed; endless where there are too many states.
    pub(super) fn ranges_to_weigh(&self, layers: usize) -> f64 {
        if self.states.is_empty() {
            return f64::INFINITY;
        }
        let steps: usize = self.states.iter().map(|state| state.next.len()).sum();
        steps as f64 * (layers * (layers + 1) / 2) as f64
    }
}

/// States beyond which no order is proven best.
const MOST_STATES: usize = 1 << 16;

/// Devices that are alike, together.
fn classes(costs: &Costs<'_>) -> Vec<Vec<usize>> {
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for device in 0..costs.devices {
        let same = classes.iter_mut().find(|c| costs.alike(c[0], device));
        match same {
            Some(class) => class.push(device),
            None => classes.push(vec![device]),
        }
    }
    classes
}
