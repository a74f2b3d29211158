//! What this kernel and this user's rights allow, found out by trying; what each lack costs, and how to mend it.

mod privilege;
mod settings;
mod tracing;

use super::reach::Live;
use super::symbols::Symbols;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of a feature there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    /// Something works, not all.
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
    pub state: State,
    /// What was found.
    pub found: String,
    /// What its lack costs the user; empty where the state is `ok`.
    pub costs: String,
    /// The exact way to mend it; empty where the state is `ok`.
    pub mend: String,
}

impl Feature {
    /// A feature that is there.
    #[must_use]
    pub fn ok(id: &str, title: &str, found: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            state: State::Ok,
            found: found.into(),
            costs: String::new(),
            mend: String::new(),
        }
    }

    /// The feature with a lack.
    #[must_use]
    pub fn lacking(mut self, state: State, costs: impl Into<String>, mend: impl Into<String>) -> Self {
        self.state = state;
        self.costs = costs.into();
        self.mend = mend.into();
        self
    }
}

/// The most samples per second that perf events may ask for.
pub const MOST_SAMPLES: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// The samples per second and CPU that pipeprof asks for. A prime, so that no period of the workload keeps step with it.
pub const WANTED_SAMPLES: u64 = 4999;

/// The way out that works wherever QEMU does.
pub(crate) const IN_A_GUEST: &str = "add --kernel NAME: guests need nothing of this kernel";

/// What this kernel allows this user. Nothing stays attached.
#[must_use]
pub fn detect() -> Vec<Feature> {
    let symbols = Symbols::running();
    let ways = Live::new();
    let mut features = privilege::detect(&symbols);
    features.extend(tracing::detect(symbols.as_ref().ok(), &ways));
    features.extend(settings::detect());
    features
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_lack_has_its_cost_and_its_mend() {
        let features = detect();
        let mut ids = HashSet::new();
        for feature in &features {
            assert!(ids.insert(&feature.id), "{} twice", feature.id);
            assert!(!feature.found.is_empty(), "{}: nothing found", feature.id);
            let complete = !feature.costs.is_empty() && !feature.mend.is_empty();
            assert_eq!(feature.state != State::Ok, complete, "{feature:?}");
        }
        for id in [
            "privilege",
            "btf",
            "kprobes",
            "fentry",
            "kprobe-multi",
            "hardware-breakpoints",
            "pmu",
            "tracefs",
            "perf-event-paranoid",
            "sample-rate",
            "kptr-restrict",
            "lockdown",
            "pid-namespace",
            "huge-pages",
        ] {
            assert!(ids.contains(&id.to_owned()), "{id} is not looked at");
        }
    }
}
