//! How a caller watches and stops long work: atomics that every long loop looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between the thread that works and the thread that watches.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: Arc<AtomicBool>,
    done: AtomicU64,
    total: AtomicU64,
}

impl Control {
    /// Nothing done, nothing cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a part of the work that counts its own units and stops with the whole.
    pub fn part(&self) -> Self {
        Self {
            cancelled: Arc::clone(&self.cancelled),
            ..Self::default()
        }
    }

    /// Asks the work to stop at its next look.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// True once the caller asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Says how many units of work there are.
    pub fn set_total(&self, units: u64) {
        self.total.store(units, Ordering::Relaxed);
    }

    /// Adds finished units.
    pub fn advance(&self, units: u64) {
        self.done.fetch_add(units, Ordering::Relaxed);
    }

    /// Units finished and units in all.
    pub fn progress(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }
}
