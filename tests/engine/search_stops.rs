//! Does a search stop when it is told to?

#![allow(clippy::unwrap_used)]

use crate::worlds;

use scalewright::control::Control;
use scalewright::error::Error;
use scalewright::search::{Limits, Space, search};
use worlds::jobs;

#[test]
fn a_cancelled_search_stops_midway() {
    let training = jobs::training(1536, 2048, "");
    let job = jobs::job(
        &jobs::gpt(96, 12288),
        &worlds::nodes_of_eight(4096),
        &training,
    );
    let control = Control::new();
    let outcome = std::thread::scope(|scope| {
        let searching =
            scope.spawn(|| search(&job, &Space::default(), &Limits::default(), &control));
        // the units are listed before any is walked
        while control.progress().1 == 0 && !searching.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        control.cancel();
        searching.join().unwrap()
    });
    assert!(
        matches!(outcome, Err(Error::Cancelled { .. })),
        "{outcome:?}"
    );
    let (done, total) = control.progress();
    assert!(done < total, "the search went on to its end");
}
