//! Stacks, folding, attribution to roles; without input or output.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use {::arch, ::roles, ::util};

pub mod attribution;
pub mod cycles;
pub mod folded;
mod parts;
pub mod places;
pub mod process;
mod schedule;
mod stacks;

pub use attribution::{Attributor, Moved, RoleShare, attribute};
pub use cycles::{ClassCounts, ClassifiedStacks, CycleModel, RoleCycles};
pub use folded::Folded;
pub use parts::{PartWork, WindowPart};
pub use process::few;
pub use process::{ByProcess, ProcessName, listed};
pub use schedule::SchedulingWeight;
pub use stacks::CallStack;

use crate::roles::Skid;
use serde::{Deserialize, Serialize};

/// Unit of a profile's weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    #[default]
    Samples,
    Instructions,
    Nanoseconds,
    /// Instructions priced by a model ([`CycleModel`]).
    EstimatedCycles,
}

/// One collector's stacks of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PortableProfile", into = "PortableProfile")]
pub struct Profile {
    pub process: ProcessName,
    /// The collector's name: `sample`, `insn`, `fgraph`.
    pub collector: String,
    pub unit: Unit,
    /// The skid of its samples.
    pub skid: Skid,
    pub stacks: Folded,
}

/// The form of a [`Profile`] between host and guest, and in files.
#[derive(Serialize, Deserialize)]
struct PortableProfile {
    process: ProcessName,
    collector: String,
    unit: Unit,
    skid: Skid,
    stacks: Folded,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    places: Option<places::StoredPlaces>,
}

impl From<Profile> for PortableProfile {
    fn from(profile: Profile) -> Self {
        let Profile { process, collector, unit, skid, stacks } = profile;
        let places = stacks.stored_places();
        Self { process, collector, unit, skid, stacks, places }
    }
}

impl From<PortableProfile> for Profile {
    fn from(portable: PortableProfile) -> Self {
        let PortableProfile { process, collector, unit, skid, mut stacks, places } = portable;
        // Roles and pictures need no places: those that do not fit are left out.
        let _ = places.iter().try_for_each(|places| stacks.restore_places(places));
        Self { process, collector, unit, skid, stacks }
    }
}
