//! The one way in: how a call leaves the interpreter, stays interruptible and comes back.

use super::error::{bug, exception};
use crate::control::Control;
use crate::error::{Error, Result};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How often the calling thread looks for Ctrl-C and reports progress.
const WAKE: Duration = Duration::from_millis(50);

/// Runs `work` of at most a few milliseconds on the calling thread, without the interpreter.
pub(super) fn brief<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    settle(py, outcome)
}

/// Runs `work` on a thread of its own, without the interpreter.
///
/// Meanwhile the calling thread looks for signals and calls `progress(done, total)`. An exception
/// from either cancels the work and is raised once the work has stopped.
pub(super) fn long<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Control) -> Result<T> + Send,
) -> PyResult<T> {
    let (watched, outcome) = watched(py, progress, work)?;
    watched.and_then(|()| settle(py, outcome))
}

/// The same for `work` that has an answer where Ctrl-C stops it, too: that is returned then.
pub(super) fn stoppable<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Control) -> Result<T> + Send,
) -> PyResult<T> {
    match watched(py, progress, work)? {
        (Err(raised), outcome @ Ok(Ok(_))) if raised.is_instance_of::<PyKeyboardInterrupt>(py) => {
            settle(py, outcome)
        }
        (watched, outcome) => watched.and_then(|()| settle(py, outcome)),
    }
}

/// Runs `work` on a thread; what came of watching it, and of the work.
fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Control) -> Result<T> + Send,
) -> PyResult<(PyResult<()>, thread::Result<Result<T>>)> {
    let control = Control::new();
    let finished = AtomicBool::new(false);
    let caller = thread::current();
    thread::scope(|scope| {
        let started = thread::Builder::new().spawn_scoped(scope, || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&control)));
            finished.store(true, Ordering::Release);
            caller.unpark();
            outcome
        });
        let worker = started.map_err(|failure| {
            let what = format!("the system gives no thread for the work: {failure}");
            exception(py, &Error::inconsistent(what))
        })?;
        let watched = watch(py, progress, &control, &finished);
        let outcome = py.detach(|| worker.join()).unwrap_or_else(Err);
        Ok((watched, outcome))
    })
}

/// Waits until `finished`; stops waiting and cancels the work at the first exception.
fn watch(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    control: &Control,
    finished: &AtomicBool,
) -> PyResult<()> {
    loop {
        // read first, so that the last report tells the final counts
        let last = finished.load(Ordering::Acquire);
        let seen = py.check_signals().and_then(|()| report(progress, control));
        if seen.is_err() {
            control.cancel();
            return seen;
        }
        if last {
            return Ok(());
        }
        py.detach(|| thread::park_timeout(WAKE));
    }
}

fn report(progress: Option<&Bound<'_, PyAny>>, control: &Control) -> PyResult<()> {
    match (progress, control.progress()) {
        (None, _) | (_, (_, 0)) => Ok(()),
        (Some(callback), counts) => callback.call1(counts).map(drop),
    }
}

/// Turns an engine error or a caught panic into an exception.
fn settle<T>(py: Python<'_>, outcome: thread::Result<Result<T>>) -> PyResult<T> {
    match outcome {
        Ok(result) => result.map_err(|error| exception(py, &error)),
        Err(panic) => Err(bug(py, text(panic.as_ref()))),
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}
