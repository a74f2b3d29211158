//! One feature of the machine, and what its limitation costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a feature works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FeatureState {
    Ok,
    /// Works in part.
    Limited,
    Missing,
}

/// One feature of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Feature {
    /// Stable, in kebab case: `kprobes`.
    pub id: String,
    /// For people: `hardware breakpoints`.
    pub title: String,
    pub state: FeatureState,
    /// What the check found.
    pub found: String,
    /// What the user cannot do because of the limitation; empty if the state is `ok`.
    #[serde(rename = "costs")]
    pub impact: String,
    /// How to fix it; empty if the state is `ok`.
    #[serde(rename = "mend")]
    pub fix: String,
}

impl Feature {
    /// A feature that works.
    pub fn ok(id: &str, title: &str, found: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            state: FeatureState::Ok,
            found: found.into(),
            impact: String::new(),
            fix: String::new(),
        }
    }

    /// The same feature with a limitation.
    pub fn limited(mut self, state: FeatureState, impact: impl Into<String>, fix: impl Into<String>) -> Self {
        self.state = state;
        self.impact = impact.into();
        self.fix = fix.into();
        self
    }
}

/// The kernel's limit for the sampling rate of perf events.
pub const MOST_SAMPLES: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// The sampling rate that pipeprof requests, per second and CPU.
pub const WANTED_SAMPLES: u64 = 4999;

/// The fix that works wherever QEMU does.
pub(crate) const IN_A_GUEST: &str = "use a guest with another kernel (--kernel NAME)";
