//! How are layers dealt to virtual stages?

use super::broken_rule::BrokenRule;
use super::choice::Plan;

/// How layers are dealt to virtual stages: all get `middle`, but the first and last may get others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Split {
    /// Layers of the first virtual stage.
    pub first: u64,
    /// Layers of every virtual stage between.
    pub middle: u64,
    /// Layers of the last virtual stage.
    pub last: u64,
}

impl Split {
    /// Deals layers to `pipeline` stages of `chunks` virtual stages each, or says that it cannot.
    ///
    /// All virtual stages get `ceil(layers / stages)` layers and the two ends share what is then too
    /// much, the last one first: embedding and head fill their time (Llama 3 Herd, section 3.3.2).
    /// With several chunks a rank each end gives up one layer at most.
    pub fn new(layers: u64, pipeline: u64, chunks: u64) -> Option<Self> {
        let stages = pipeline * chunks;
        if stages == 1 {
            return Some(Self {
                first: layers,
                middle: layers,
                last: layers,
            });
        }
        let middle = layers.div_ceil(stages);
        let less = middle * stages - layers;
        let most = if chunks > 1 {
            1
        } else {
            middle.saturating_sub(1)
        };
        let (first, last) = (less / 2, less.div_ceil(2));
        (middle > 0 && last <= most).then(|| Self {
            first: middle - first,
            middle,
            last: middle - last,
        })
    }

    /// Deals layers to `stages` virtual stages of which the `ends` hold so many where that is given, or
    /// says that it cannot: `(layers - given) / (stages - ends given)` for each of the others
    /// (Megatron-LM's `--decoder-first-pipeline-num-layers` and `--decoder-last-pipeline-num-layers`;
    /// ends without layers as in `--pipeline-model-parallel-layout Et|(tt|)*30L`).
    pub fn given(layers: u64, stages: u64, ends: [Option<u64>; 2]) -> Option<Self> {
        let [first, last] = ends;
        let held = first.unwrap_or(0) + last.unwrap_or(0);
        let others = stages.checked_sub(ends.iter().flatten().count() as u64)?;
        let rest = layers.checked_sub(held)?;
        if stages < 2 || (rest == 0) != (others == 0) {
            return None;
        }
        let even = match rest.checked_div(others) {
            Some(even) => even,
            None => first.max(last)?,
        };
        (rest == even * others).then(|| Self {
            first: first.unwrap_or(even),
            middle: even,
            last: last.unwrap_or(even),
        })
    }

    /// Deals layers to the virtual stages of a plan, or says why that is not possible.
    pub fn of(plan: &Plan, layers: u64) -> Result<Self, BrokenRule> {
        let stages = u64::from(plan.virtual_stages());
        let ends = [plan.first_layers, plan.last_layers];
        let bare = plan.bare_last;
        if bare || ends != [0, 0] {
            let broken = BrokenRule::Ends {
                layers,
                stages,
                ends,
                bare,
            };
            let mut held = ends.map(|end| (end > 0).then_some(u64::from(end)));
            if bare {
                if held[1].is_some() {
                    return Err(broken);
                }
                held[1] = Some(0);
            }
            return Self::given(layers, stages, held).ok_or(broken);
        }
        let pipeline = u64::from(plan.pipeline);
        let split = Self::new(layers, pipeline, stages / pipeline);
        split.ok_or(BrokenRule::Layers { layers, stages })
    }
}
