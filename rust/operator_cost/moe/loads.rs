//! How many tokens does each expert of the fullest device get, and how many tiles do they fill?

/// Rows of the tiles that a grouped product may take.
pub(super) const TILE_ROWS: [f64; 5] = [8.0, 16.0, 32.0, 64.0, 128.0];
/// Multiplier and increment of the shuffle's generator (Knuth, MMIX), and its first state.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;
const SEED: u64 = 12_345;
/// Most tokens that an expert is drawn for, as a share of all, before the draws are scaled.
const LARGEST_SHARE: f64 = 0.8;
/// Limits of a draw where there are fewer choices than experts.
const FEW_LIMITS: (f64, f64) = (0.01, 2.0);

/// A layer's choices: tokens, experts chosen for each, experts, devices that share them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Routing {
    pub tokens: f64,
    pub topk: f64,
    pub experts: f64,
    pub ranks: f64,
}

/// What the fullest device gets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Loads {
    /// Rows of all its experts.
    pub rows: f64,
    /// Experts with at least one row.
    pub hit: f64,
    /// Tiles, by rows of a tile.
    pub tiles: [f64; TILE_ROWS.len()],
}

impl Loads {
    /// Loads by chance where `random` is above 0, by a power law where `skew` is, else balanced ones.
    pub(super) fn stated(routing: Routing, skew: f64, random: f64) -> Self {
        if random > 0.0 {
            Self::random(routing)
        } else if skew > 0.0 {
            Self::skewed(routing, skew)
        } else {
            Self::balanced(routing)
        }
    }

    /// Every expert gets the same, but for what does not divide.
    fn balanced(routing: Routing) -> Self {
        let choices = routing.tokens * routing.topk;
        let each = (choices / routing.experts).floor();
        let local = routing.experts / routing.ranks;
        let left = (choices - each * routing.experts) / routing.ranks;
        let more = left.ceil().min(local);
        let mut loads = Self::default();
        loads.add(each, local - more);
        loads.add(each + 1.0, more);
        loads
    }

    /// Loads drawn from a truncated power law, on the device that gets most.
    ///
    /// ```text
    /// x = ((b^(1-s) - a^(1-s)) u + a^(1-s))^(1/(1-s)),  u = (i + 1/2) / E,  i = 0 .. E-1
    /// ```
    ///
    /// s: `skew`; a, b: 1 and 0.8 of the tokens, or 0.01 and 2 where there are fewer choices than
    /// experts. The draws are scaled to all choices, rounded, held to the tokens there are, and what is left
    /// goes device by device to the expert with least (or comes from the one with most). This is how
    /// aiconfigurator 0.12.0 (Apache-2.0), `collector/helper.py`, draws the loads of its rows, u at random;
    /// here u are the middles of equal shares, dealt to experts by a fixed shuffle, so that equal
    /// questions have equal answers.
    fn skewed(routing: Routing, skew: f64) -> Self {
        let choices = routing.tokens * routing.topk;
        let (least, most) = if choices > routing.experts {
            (1.0, (routing.tokens * LARGEST_SHARE).max(1.0))
        } else {
            FEW_LIMITS
        };
        Self::of(&drawn(routing, |share| power_law(share, skew, least, most)))
    }

    /// Loads of tokens that each choose experts by chance, all alike, on the device that gets most.
    ///
    /// An expert is chosen by a token with probability k / E, so its rows follow a binomial law; its
    /// draws and what is left over are those of `skewed`. Few tokens leave many experts without any:
    /// `E (1 - (1 - k/E)^T)` have rows. Benchmarks with random gates (vLLM's and `SGLang`'s
    /// `benchmark_moe.py`, `fused_moe_triton`) route so.
    fn random(routing: Routing) -> Self {
        let chance = (routing.topk / routing.experts).min(1.0);
        let quantile = |share: f64| binomial_quantile(share, routing.tokens, chance);
        Self::of(&drawn(routing, quantile))
    }

    fn of(drawn: &[f64]) -> Self {
        let mut loads = Self::default();
        for &load in drawn {
            loads.add(load, 1.0);
        }
        loads
    }

    /// Adds `count` experts of `load` rows each.
    fn add(&mut self, load: f64, count: f64) {
        self.rows += load * count;
        if load > 0.0 {
            self.hit += count;
        }
        for (tiles, rows) in self.tiles.iter_mut().zip(TILE_ROWS) {
            *tiles += (load / rows).ceil() * count;
        }
    }
}

/// The rows of each expert on the device that gets most; `law`: what an expert gets, by its share of the law.
fn drawn(routing: Routing, law: impl Fn(f64) -> f64) -> Vec<f64> {
    let choices = routing.tokens * routing.topk;
    // one draw in each of as many equal shares of the law, dealt to experts by chance
    let mut loads: Vec<f64> = (0..whole(routing.experts))
        .map(|place| (f64::from(place) + 0.5) / routing.experts)
        .map(law)
        .collect();
    shuffle(&mut loads);
    let scale = choices / loads.iter().sum::<f64>();
    for load in &mut loads {
        *load = (*load * scale).round().min(routing.tokens);
    }
    let left = choices - loads.iter().sum::<f64>();
    let local = usize::from(whole(routing.experts / routing.ranks)).max(1);
    let each = (left.abs() / routing.ranks).floor();
    let more = left.abs() - each * routing.ranks;
    for (rank, members) in loads.chunks_mut(local).enumerate() {
        let share = each + if (rank as f64) < more { 1.0 } else { 0.0 };
        if left > 0.0 {
            fill(members, share, routing.tokens);
        } else {
            drain(members, share);
        }
    }
    let heavier = |a: &&[f64], b: &&[f64]| a.iter().sum::<f64>().total_cmp(&b.iter().sum());
    let fullest = loads.chunks(local).max_by(heavier);
    fullest.unwrap_or_default().to_vec()
}

/// How many of `trials` come true, each with probability `chance`, for a share of all outcomes.
fn binomial_quantile(share: f64, trials: f64, chance: f64) -> f64 {
    if chance >= 1.0 {
        return trials;
    }
    let odds = (chance / (1.0 - chance)).ln();
    let mut log = trials * (1.0 - chance).ln();
    let (mut count, mut below) = (0.0, log.exp());
    while below < share && count < trials {
        log += ((trials - count) / (count + 1.0)).ln() + odds;
        count += 1.0;
        below += log.exp();
    }
    count
}

/// A count as an index: the most that `experts` may be is far below the largest 16-bit number.
fn whole(count: f64) -> u16 {
    (0..u16::MAX)
        .find(|&i| f64::from(i) >= count)
        .unwrap_or(u16::MAX)
}

/// Deals numbers to places, always in the same way (Fisher and Yates).
fn shuffle(loads: &mut [f64]) {
    let mut state = SEED;
    for place in (1..loads.len()).rev() {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        // the high bits are the ones that look random
        let chosen = (state >> 33) % (place as u64 + 1);
        loads.swap(place, usize::try_from(chosen).unwrap_or(place));
    }
}

fn power_law(share: f64, skew: f64, least: f64, most: f64) -> f64 {
    let power = 1.0 - skew;
    if power.abs() < 1e-6 {
        return least * (most / least).powf(share);
    }
    let from = least.powf(power);
    ((most.powf(power) - from) * share + from).powf(1.0 / power)
}

/// Gives `left` rows, one at a time, to the member with least, none more than `most`.
fn fill(members: &mut [f64], left: f64, most: f64) {
    members.sort_by(f64::total_cmp);
    let mut left = left;
    // raise the lowest ones together to the level of the next, as far as it goes
    for low in 1..=members.len() {
        let level = members[low - 1];
        let next = members.get(low).copied().unwrap_or(most).min(most);
        let whole = ((next - level) * low as f64).min(left);
        if whole <= 0.0 {
            continue;
        }
        let each = (whole / low as f64).floor();
        let odd = whole - each * low as f64;
        for (place, member) in members[..low].iter_mut().enumerate() {
            *member = level + each + if (place as f64) < odd { 1.0 } else { 0.0 };
        }
        left -= whole;
        if left <= 0.0 {
            break;
        }
    }
}

/// Takes `left` rows, one at a time, from the member with most.
fn drain(members: &mut [f64], left: f64) {
    let mut left = left;
    while left >= 1.0 {
        let Some(most) = members.iter_mut().max_by(|a, b| a.total_cmp(b)) else {
            return;
        };
        if *most < 1.0 {
            return;
        }
        *most -= 1.0;
        left -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_gets_every_choice() {
        for (tokens, skew) in [(1.0, 1.01), (7.0, 1.2), (384.0, 1.01), (12288.0, 1.2)] {
            let routing = Routing {
                tokens,
                topk: 6.0,
                experts: 64.0,
                ranks: 1.0,
            };
            let choices = tokens * 6.0;
            assert!((Loads::skewed(routing, skew).rows - choices).abs() < 1e-6);
            assert!((Loads::balanced(routing).rows - choices).abs() < 1e-6);
        }
    }

    #[test]
    fn the_fullest_device_gets_at_least_its_share() {
        for ranks in [2.0, 8.0, 64.0] {
            let routing = Routing {
                tokens: 500.0,
                topk: 8.0,
                experts: 256.0,
                ranks,
            };
            let share = 500.0 * 8.0 / ranks;
            let skewed = Loads::skewed(routing, 1.2);
            assert!(skewed.rows >= share, "{ranks}: {skewed:?}");
            let balanced = Loads::balanced(routing);
            assert!(balanced.rows >= share && balanced.rows < share + 256.0 / ranks);
            assert!(skewed.hit <= 256.0 / ranks + 1e-9);
        }
    }

    #[test]
    fn choices_by_chance_leave_as_many_experts_without_rows_as_expected() {
        for (tokens, topk, experts) in [(1.0, 8.0, 128.0), (16.0, 8.0, 128.0), (40.0, 2.0, 64.0)] {
            let routing = Routing {
                tokens,
                topk,
                experts,
                ranks: 1.0,
            };
            let loads = Loads::random(routing);
            let wanted = experts * (1.0 - (1.0 - topk / experts).powf(tokens));
            assert!((loads.hit - wanted).abs() <= 0.02 * experts, "{loads:?}");
            assert!((loads.rows - tokens * topk).abs() < 1e-6);
            assert!(loads.hit <= Loads::balanced(routing).hit);
        }
    }

    #[test]
    fn many_tokens_by_chance_come_out_nearly_alike() {
        let routing = Routing {
            tokens: 65_536.0,
            topk: 8.0,
            experts: 128.0,
            ranks: 8.0,
        };
        let [random, balanced] = [Loads::random(routing), Loads::balanced(routing)];
        assert!(random.rows >= balanced.rows && random.rows < 1.05 * balanced.rows);
        assert!((random.hit - balanced.hit).abs() < 1e-9);
    }

    #[test]
    fn no_expert_gets_more_than_all_tokens() {
        let routing = Routing {
            tokens: 10.0,
            topk: 6.0,
            experts: 8.0,
            ranks: 2.0,
        };
        let loads = drawn(routing, |share| power_law(share, 1.2, 1.0, 8.0));
        assert!(loads.iter().all(|&l| (0.0..=10.0).contains(&l)));
    }

    fn near(found: [f64; 3], wanted: [f64; 3]) -> bool {
        let pairs = found.iter().zip(wanted);
        pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-9)
    }

    #[test]
    fn filling_raises_the_lowest_first() {
        let mut members = [5.0, 0.0, 1.0];
        fill(&mut members, 4.0, 10.0);
        assert!(near(members, [3.0, 2.0, 5.0]), "{members:?}");
        fill(&mut members, 100.0, 10.0);
        assert!(near(members, [10.0; 3]), "{members:?}");
    }
}
