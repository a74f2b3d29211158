//! Detects by trying what this kernel and this user's privileges allow, with the impact and the fix of each
//! limitation.

mod feature;
mod privilege;
mod settings;
mod tracing;

use super::reach::Live;
use super::symbols::Symbols;
pub(crate) use feature::IN_A_GUEST;
pub use feature::{Feature, FeatureState, MOST_SAMPLES, WANTED_SAMPLES};
pub use privilege::Rights;

/// What this kernel allows this user. Every probe is removed again.
pub fn detect() -> Vec<Feature> {
    let symbols = Symbols::running();
    let ways = Live::running();
    let rights = Rights::own();
    let mut features = privilege::detect(&symbols, rights);
    features.extend(tracing::detect(symbols.as_ref().ok(), &ways, rights));
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
            let complete = !feature.impact.is_empty() && !feature.fix.is_empty();
            assert_eq!(feature.state != FeatureState::Ok, complete, "{feature:?}");
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
