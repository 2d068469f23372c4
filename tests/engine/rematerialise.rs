//! Are choices of what to keep, compute again and move as good as the best of all, and do they fit?

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::control::Control;
use scalewright::memory::rematerialise::{
    Block, Choices, Link, Operation, Pass, RecomputedChain, RematerialiseReport, Request,
    Retention, SelectiveRecompute, rematerialise,
};

fn answer(request: &Request) -> RematerialiseReport {
    rematerialise(request, &Control::new()).expect("a budget that holds a schedule")
}

fn recompute(request: &Request) -> RecomputedChain {
    answer(request)
        .recompute
        .expect("a schedule that computes again")
}

fn choice(request: &Request) -> Choices {
    answer(request).choice.expect("a choice for each block")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

fn whole(most: u32) -> impl Strategy<Value = f64> {
    (0..=most).prop_map(f64::from)
}

fn block() -> impl Strategy<Value = Block> {
    let times = (whole(6), whole(9));
    let part = proptest::option::of((0.0..1.0_f64, whole(4)));
    (
        times,
        1..4_u32,
        whole(6),
        whole(2),
        whole(3),
        part,
        prop::bool::weighted(0.8),
    )
        .prop_map(
            |((forward_s, backward_s), input, extra, forward, backward, part, repeats)| {
                let input_bytes = f64::from(input);
                Block {
                    forward_s,
                    backward_s,
                    input_bytes,
                    kept_bytes: input_bytes + extra,
                    forward_working_bytes: forward,
                    backward_working_bytes: backward,
                    partial: part.map(|(share, again_s)| SelectiveRecompute {
                        kept_bytes: input_bytes + (share * extra).floor(),
                        again_s,
                    }),
                    repeats,
                }
            },
        )
}

/// Chains with a budget between what they need at least and what holds all.
fn request(most: usize, link: bool) -> impl Strategy<Value = Request> {
    let rates = (0.2..8.0, 0.2..8.0);
    (vec(block(), 1..=most), whole(2), 0.0..1.0_f64, rates).prop_map(
        move |(blocks, output_bytes, share, (write, read))| {
            let mut request = Request {
                blocks,
                output_bytes,
                slots: 1,
                width: 4096,
                budget_bytes: 1e9,
                link: link.then_some(Link {
                    write_bytes_per_s: write,
                    read_bytes_per_s: read,
                }),
            };
            let all = answer(&request);
            let most = all.policies[0].least_bytes;
            let least = all.recompute.map_or(most, |r| r.least_bytes);
            request.budget_bytes = least + (share * (most - least)).floor();
            request.slots = exact_slots(&request);
            request
        },
    )
}

/// One slot a byte: rounding then loses nothing.
fn exact_slots(request: &Request) -> usize {
    let bytes = request.budget_bytes - request.blocks[0].input_bytes;
    (1..10_000)
        .find(|&slots| slots as f64 >= bytes)
        .unwrap_or(1)
}

/// Bytes of a block's tensors, as the chain's model counts them.
struct Bytes<'a>(&'a Request);

impl Bytes<'_> {
    fn input(&self, l: usize) -> f64 {
        let blocks = &self.0.blocks;
        blocks.get(l).map_or(self.0.output_bytes, |b| b.input_bytes)
    }

    fn forward(&self, l: usize, kept: f64) -> f64 {
        let block = &self.0.blocks[l];
        kept - block.input_bytes + self.input(l + 1) + block.forward_working_bytes
    }

    /// Backward pass, with a forward pass in front of it if `again`.
    fn backward(&self, l: usize, again: bool) -> f64 {
        let block = &self.0.blocks[l];
        let extra = block.kept_bytes - block.input_bytes;
        let back = extra + self.input(l) + self.input(l + 1) + block.backward_working_bytes;
        let run = self.input(l + 1) + self.forward(l, block.kept_bytes);
        if again { back.max(run) } else { back }
    }
}

/// The best schedule of blocks `s..=t` in `room` bytes, by trying all.
fn brute(request: &Request, s: usize, t: usize, room: f64) -> f64 {
    let (bytes, block) = (Bytes(request), &request.blocks[s]);
    let gradient = bytes.input(t + 1);
    let mut best = f64::INFINITY;
    let part = block.partial.map(|p| (p.kept_bytes, p.again_s, true));
    for (kept, again, twice) in [Some((block.kept_bytes, 0.0, false)), part]
        .into_iter()
        .flatten()
    {
        let need = (gradient + bytes.forward(s, kept)).max(bytes.backward(s, twice));
        if need > room || (s == t && twice) {
            continue;
        }
        let left = room - (kept - block.input_bytes) - bytes.input(s + 1);
        let rest = if s == t {
            0.0
        } else {
            brute(request, s + 1, t, left)
        };
        best = best.min(block.forward_s + rest + block.backward_s + again);
    }
    for from in s + 1..=t {
        let passed = &request.blocks[s..from];
        let need = |l: usize| {
            let input = if l > s { bytes.input(l) } else { 0.0 };
            input + gradient + bytes.forward(l, request.blocks[l].input_bytes)
        };
        if passed.iter().any(|b| !b.repeats) || (s..from).any(|l| need(l) > room) {
            break;
        }
        let rest = brute(request, from, t, room - bytes.input(from));
        let again = brute(request, s, from - 1, room);
        best = best.min(passed.iter().map(|b| b.forward_s).sum::<f64>() + rest + again);
    }
    best
}

/// Runs passes one by one, refuses what cannot run, and gives seconds and most bytes.
fn run(request: &Request, order: &[Operation]) -> (f64, f64) {
    let count = request.blocks.len();
    let bytes = Bytes(request);
    let mut inputs = vec![false; count + 1];
    let mut kept: Vec<Option<f64>> = vec![None; count];
    let mut part = vec![false; count];
    inputs[0] = true;
    let (mut gradient, mut time, mut peak) = (count, 0.0, 0.0_f64);
    for operation in order {
        let (l, block) = (operation.block, &request.blocks[operation.block]);
        assert!(inputs[l], "block {l} runs without its input");
        let held: f64 = (0..count)
            .map(|i| f64::from(u8::from(inputs[i])) * bytes.input(i) + kept[i].unwrap_or(0.0))
            .sum();
        if operation.pass == Pass::Backward {
            assert_eq!(gradient, l + 1, "block {l} goes back without a gradient");
            let has = kept[l].take().expect("kept tensors");
            let again = part[l]; // also where the part is as large as all of it
            peak = peak.max(held - has + bytes.backward(l, again));
            time += block.backward_s
                + if again {
                    block.partial.expect("a part").again_s
                } else {
                    0.0
                };
            inputs[l] = false;
            gradient = l;
            continue;
        }
        assert!(l < gradient && kept[l].is_none());
        let stays = match operation.pass {
            Pass::ForwardKeepAll => block.kept_bytes,
            Pass::ForwardKeepPart => block.partial.expect("a part").kept_bytes,
            _ => block.input_bytes,
        };
        peak = peak.max(held + bytes.input(gradient) + bytes.forward(l, stays));
        time += block.forward_s;
        if matches!(operation.pass, Pass::ForwardKeepAll | Pass::ForwardKeepPart) {
            kept[l] = Some(stays - block.input_bytes);
        }
        part[l] = operation.pass == Pass::ForwardKeepPart;
        inputs[l] = operation.pass != Pass::Forward;
        inputs[l + 1] |= l + 1 < gradient;
    }
    assert_eq!(gradient, 0, "all blocks went back");
    (time, peak)
}

/// What one block does in numbers: held, moved, again, and the needs of its passes.
type Option5 = (f64, f64, f64, f64, f64);

fn options(request: &Request, l: usize) -> Vec<Option5> {
    let (bytes, block) = (Bytes(request), &request.blocks[l]);
    let mut kept = vec![(block.kept_bytes, 0.0, false)];
    kept.extend(block.partial.map(|p| (p.kept_bytes, p.again_s, true)));
    if block.repeats {
        kept.push((block.input_bytes, block.forward_s, true));
    }
    let mut all = vec![];
    for (kept, again, twice) in kept {
        let forward = block.input_bytes + request.output_bytes + bytes.forward(l, kept);
        let backward = block.input_bytes + bytes.backward(l, twice);
        all.push((kept, 0.0, again, forward, backward));
        if request.link.is_some() {
            all.push((0.0, kept, again, forward, backward));
        }
    }
    all
}

/// Seconds of a choice: the forward pass from its start, the backward pass from its end, on two
/// clocks, and the longest way through both.
fn timed(request: &Request, picks: &[Option5]) -> Option<f64> {
    let [write, read] = request.link.map_or([0.0; 2], |link| {
        [1.0 / link.write_bytes_per_s, 1.0 / link.read_bytes_per_s]
    });
    let mut held = 0.0;
    let (mut pass, mut copy) = ([0.0; 2], [0.0; 2]);
    let last = picks.iter().rposition(|p| p.1 > 0.0);
    let mut ends = vec![];
    for (l, &(stays, moved, again, forward, backward)) in picks.iter().enumerate() {
        let block = &request.blocks[l];
        let seconds = [block.forward_s, block.backward_s + again];
        let mut rooms = [0.0; 2];
        for (way, need) in [forward, backward].into_iter().enumerate() {
            rooms[way] = request.budget_bytes - held - need;
            if rooms[way] < -1e-9 {
                return None;
            }
            let rate = [write, read][way];
            pass[way] = f64::max(pass[way], copy[way] - rooms[way] * rate) + seconds[way];
            if moved > 0.0 {
                copy[way] = f64::max(copy[way], pass[way]) + moved * rate;
            }
        }
        held += stays;
        ends.push((pass, rooms));
    }
    let mut time = f64::max(pass[0] + pass[1], copy[0] + copy[1]);
    for (ends, rooms) in &ends[last.map_or(0, |l| l + 1)..] {
        time = time.max(copy[0] - rooms[1] * write + ends[1]);
        time = time.max(ends[0] + copy[1] - rooms[0] * read);
    }
    Some(time)
}

/// The best of all choices.
fn best_of_all(request: &Request) -> f64 {
    let of: Vec<_> = (0..request.blocks.len())
        .map(|l| options(request, l))
        .collect();
    let mut best = f64::INFINITY;
    let mut picks = vec![0; of.len()];
    loop {
        let chosen: Vec<_> = picks.iter().zip(&of).map(|(&p, of)| of[p]).collect();
        best = best.min(timed(request, &chosen).unwrap_or(f64::INFINITY));
        let Some(at) = (0..of.len()).find(|&l| picks[l] + 1 < of[l].len()) else {
            return best;
        };
        picks[..at].fill(0);
        picks[at] += 1;
    }
}

proptest! {
    #[test]
    fn recomputation_is_the_best_of_all_schedules(request in request(7, false)) {
        let found = recompute(&request);
        let room = request.budget_bytes - request.blocks[0].input_bytes;
        let best = brute(&request, 0, request.blocks.len() - 1, room);
        prop_assert!(close(found.time_s, best), "{} and {best}", found.time_s);
        prop_assert!(close(found.bound_s, best), "bound {} and {best}", found.bound_s);
    }

    #[test]
    fn rounding_to_slots_keeps_the_best_between_bound_and_answer(
        request in request(7, false), slots in 1..40_usize, share in 0.0..1.0,
    ) {
        let budget_bytes = request.budget_bytes + share;
        let request = Request { slots, budget_bytes, ..request };
        let found = recompute(&request);
        let room = request.budget_bytes - request.blocks[0].input_bytes;
        let best = brute(&request, 0, request.blocks.len() - 1, room);
        prop_assert!(found.bound_s <= best * (1.0 + 1e-12), "bound {} and {best}", found.bound_s);
        prop_assert!(found.time_s >= best * (1.0 - 1e-12), "answer {} and {best}", found.time_s);
        prop_assert!(close(found.time_s, found.bound_s * (1.0 + found.relative_gap)));
    }

    #[test]
    fn an_order_runs_in_its_time_and_budget(request in request(12, false), slots in 1..60_usize) {
        for slots in [slots, request.slots] {
            let found = recompute(&Request { slots, ..request.clone() });
            let (time, peak) = run(&request, &found.operations);
            prop_assert!(close(found.time_s, time));
            prop_assert!(close(found.peak_bytes, peak));
            prop_assert!(peak <= request.budget_bytes * (1.0 + 1e-9));
        }
    }

    #[test]
    fn choices_are_the_best_of_all(request in request(4, true), tight in 0.0..1.0) {
        // below what recomputation alone needs, too
        let budget_bytes = request.budget_bytes * (1.0 - 0.5 * tight);
        let request = Request { budget_bytes, ..request };
        let best = best_of_all(&request);
        match rematerialise(&request, &Control::new()).ok().and_then(|found| found.choice) {
            None => prop_assert!(best.is_infinite(), "missed {best}"),
            Some(found) => {
                prop_assert!(close(found.time_s, best), "{} and {best}", found.time_s);
                prop_assert!(found.bound_s <= best * (1.0 + 1e-9));
            }
        }
    }

    #[test]
    fn choices_without_a_link_are_the_best_of_all(request in request(8, false)) {
        let best = best_of_all(&request);
        match answer(&request).choice {
            None => prop_assert!(best.is_infinite(), "missed {best}"),
            Some(found) => prop_assert!(close(found.time_s, best) && found.moved_bytes == 0.0),
        }
    }

    #[test]
    fn narrow_searches_are_bounded(request in request(5, true), width in 1..4_usize) {
        let best = best_of_all(&request);
        let found = choice(&Request { width, ..request });
        prop_assert!(found.bound_s <= best * (1.0 + 1e-9), "bound {} and {best}", found.bound_s);
        prop_assert!(found.time_s >= best * (1.0 - 1e-9), "answer {} and {best}", found.time_s);
    }

    #[test]
    fn simulated_transfers_take_the_time_of_the_recurrence_and_fit(
        request in request(24, true), tight in 0.0..1.0, width in 1..64_usize,
    ) {
        let budget_bytes = request.budget_bytes * (1.0 - 0.5 * tight);
        let request = Request { width, budget_bytes, ..request };
        let Ok(Some(found)) = rematerialise(&request, &Control::new()).map(|a| a.choice) else {
            return Ok(());
        };
        prop_assert!(close(found.time_s, found.simulated_s), "{found:?}");
        prop_assert!(found.peak_bytes <= request.budget_bytes * (1.0 + 1e-9), "{found:?}");
        for block in &found.blocks {
            let (Some(write), Some(read)) = (block.write, block.read) else {
                prop_assert!(block.moved_bytes == 0.0);
                continue;
            };
            prop_assert!(write.start_s >= block.forward.end_s - 1e-9);
            prop_assert!(read.start_s >= write.end_s - 1e-9);
            prop_assert!(block.backward.start_s >= read.end_s - 1e-9);
        }
    }

    #[test]
    fn recomputation_of_stretches_is_no_slower_than_block_by_block(request in request(9, false)) {
        let found = answer(&request);
        if let (Some(stretches), Some(blocks)) = (found.recompute, found.choice) {
            prop_assert!(stretches.time_s <= blocks.time_s * (1.0 + 1e-12));
        }
    }

    #[test]
    fn memory_and_rate_never_slow_a_chain_down(
        request in request(5, true), more in whole(20), faster in 1.0..3.0,
    ) {
        let mut larger = request.clone();
        larger.budget_bytes += more;
        larger.slots = exact_slots(&larger);
        let (small, large) = (answer(&request), answer(&larger));
        let [less, much] = [&small, &large].map(|a| a.choice.as_ref().unwrap());
        prop_assert!(much.time_s <= less.time_s * (1.0 + 1e-9));
        let [some, most] = [&small, &large].map(|a| a.recompute.as_ref().unwrap());
        prop_assert!(most.time_s <= some.time_s * (1.0 + 1e-9));
        let link = request.link.map(|link| Link {
            write_bytes_per_s: link.write_bytes_per_s * faster,
            ..link
        });
        let quick = choice(&Request { link, ..request });
        prop_assert!(quick.time_s <= less.time_s * (1.0 + 1e-9));
    }

    #[test]
    fn a_budget_of_everything_computes_nothing_again(request in request(12, true)) {
        let budget_bytes = answer(&request).policies[0].least_bytes;
        let mut request = Request { budget_bytes, ..request };
        request.slots = exact_slots(&request);
        let found = answer(&request);
        let (stretches, blocks) = (found.recompute.unwrap(), found.choice.unwrap());
        prop_assert!(close(stretches.time_s, found.compute_s) && close(blocks.time_s, found.compute_s));
        prop_assert!(stretches.relative_gap == 0.0 && blocks.relative_gap == 0.0);
        prop_assert_eq!(stretches.operations.len(), 2 * request.blocks.len());
    }

    #[test]
    fn the_least_budget_is_the_least(request in request(7, false)) {
        let least = recompute(&request).least_bytes;
        let room = |budget: f64| budget - request.blocks[0].input_bytes;
        let last = request.blocks.len() - 1;
        prop_assert!(brute(&request, 0, last, room(least)).is_finite());
        prop_assert!(brute(&request, 0, last, room(least - 0.5)).is_infinite());
        let tight = Request { budget_bytes: least, ..request.clone() };
        prop_assert!(close(recompute(&tight).peak_bytes, least));
        let wrong = Request { budget_bytes: least * 0.99, ..request };
        let error = rematerialise(&wrong, &Control::new()).unwrap_err().to_string();
        prop_assert!(error.contains(&format!("allowed: {least} or more")), "{error}");
    }

    #[test]
    fn policies_are_what_they_say(request in request(6, true)) {
        let found = answer(&request);
        for policy in &found.policies {
            let fits = policy.least_bytes <= request.budget_bytes * (1.0 + 1e-12);
            prop_assert_eq!(policy.time_s.is_some(), fits);
            if let (Some(time), Some(best)) = (policy.time_s, &found.choice) {
                prop_assert!(best.time_s <= time * (1.0 + 1e-12));
            }
        }
        prop_assert_eq!(found.policies[0].retention, Retention::Keep);
    }
}

/// Forward passes that reverse a chain of `n` steps with `c` snapshots, the recorded ones left out:
/// `r n - binomial(c + r, c + 1)` for the `r` at which `binomial(c + r, c)` first reaches `n`
/// (Griewank and Walther 2000, Algorithm 799).
fn revolve(n: u64, c: u64) -> u64 {
    let binomial =
        |n: u64, k: u64| (1..=k).fold(1, |product, i| product * (n + i).saturating_sub(k) / i);
    let r = (0..=n)
        .find(|&r| binomial(c + r, c) >= n)
        .expect("n repetitions");
    r * n - binomial(c + r, c + 1)
}

#[test]
fn uniform_chains_take_the_passes_of_griewank_and_walther() {
    for snapshots in 1..7_u32 {
        for count in 1..40_u32 {
            // what one block keeps fills the memory but for the chain's input, two gradients and
            // the snapshots, one of which is the input of the block that runs
            let record = 64.0;
            let block = Block {
                forward_s: 1.0,
                backward_s: 100.0,
                input_bytes: 1.0,
                kept_bytes: 1.0 + record,
                repeats: true,
                ..Block::default()
            };
            let request = Request {
                blocks: vec![block; count as usize],
                output_bytes: 1.0,
                budget_bytes: f64::from(snapshots) + record + 3.0,
                slots: snapshots as usize + 66,
                width: 1,
                link: None,
            };
            let passes = revolve(u64::from(count), u64::from(snapshots)) + u64::from(count);
            let time = passes as f64 + 100.0 * f64::from(count);
            let found = recompute(&request).time_s;
            assert!(
                close(found, time),
                "{count} blocks, {snapshots} snapshots: {found}"
            );
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let block = Block {
        forward_s: 1.0,
        backward_s: 2.0,
        input_bytes: 1.0,
        kept_bytes: 4.0,
        repeats: true,
        ..Block::default()
    };
    let right = Request {
        blocks: vec![block; 3],
        budget_bytes: 100.0,
        slots: 100,
        width: 8,
        ..Request::default()
    };
    let with = |change: fn(&mut Request)| {
        let mut request = right.clone();
        change(&mut request);
        rematerialise(&request, &Control::new())
            .unwrap_err()
            .to_string()
    };
    for (said, error) in [
        ("blocks: got 0", with(|r| r.blocks.clear())),
        ("budget_bytes: got NaN", with(|r| r.budget_bytes = f64::NAN)),
        (
            "blocks[1].forward_s: got -1",
            with(|r| r.blocks[1].forward_s = -1.0),
        ),
        (
            "blocks[2].kept_bytes: got 0.5; allowed: 1 to",
            with(|r| r.blocks[2].kept_bytes = 0.5),
        ),
        ("slots: got 0", with(|r| r.slots = 0)),
        ("width: got 0", with(|r| r.width = 0)),
        (
            "link.write_bytes_per_s: got 0",
            with(|r| r.link = Some(Link::default())),
        ),
    ] {
        assert!(error.contains(said), "{error}");
    }
    let control = Control::new();
    control.cancel();
    assert!(rematerialise(&right, &control).is_err());
}
