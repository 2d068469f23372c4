//! What must a controller say about itself?

use super::dispatch_pace::DispatchPace;
use super::multi_controller::MultiController;
use super::parallel::Parallel;
use super::program_placement::ProgramPlacement;
use super::sequential::Sequential;
use super::synchronous::Synchronous;
use crate::error::{Error, Result};
use serde::{Serialize, Serializer};

/// Who tells devices what to run, and how its pace follows in closed form.
pub(super) trait Controller: Sync {
    /// Name, as users write it.
    fn name(&self) -> &'static str;

    /// Where it is described.
    fn source(&self) -> &'static str;

    /// When it lets each computation start.
    fn paced(&self, placed: &ProgramPlacement<'_>) -> DispatchPace;
}

/// A way to tell devices what to run; written by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// Every host launches its own devices' computations.
    MultiController,
    /// One controller, which waits for each computation to end.
    Synchronous,
    /// One controller, which waits for each computation to be enqueued.
    Sequential,
    /// One controller, which dispatches all computations of a step at once.
    Parallel,
}

impl Dispatch {
    /// Every one.
    pub const ALL: [Self; 4] = [
        Self::MultiController,
        Self::Synchronous,
        Self::Sequential,
        Self::Parallel,
    ];

    /// The one of a name.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| Error::unknown("controller", name, Self::ALL.map(Self::name)))
    }

    /// Name, as users write it.
    pub fn name(self) -> &'static str {
        self.controller().name()
    }

    /// Where it is described.
    pub fn source(self) -> &'static str {
        self.controller().source()
    }

    pub(super) fn controller(self) -> &'static dyn Controller {
        match self {
            Self::MultiController => &MultiController,
            Self::Synchronous => &Synchronous,
            Self::Sequential => &Sequential,
            Self::Parallel => &Parallel,
        }
    }
}

impl Serialize for Dispatch {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}
