//! Profiles of other tools.

use crate::import::{self, ImportedProfile};
use crate::record::contents;
use crate::record::say::text;
use crate::report::terminal::Style;
use crate::util::text::is_hidden;

/// Output of `perf script`, or folded stacks.
///
/// Properties: what is read can be attributed, printed and drawn; each sample is in one role of one command; nothing
/// hidden reaches the terminal.
///
/// # Panics
/// If one does not hold.
pub fn perf_script(bytes: &[u8]) {
    match import::parse(bytes, None) {
        Ok(profile) => check(&profile),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A message of profile.proto, not compressed.
///
/// Properties: as of [`perf_script`].
///
/// # Panics
/// If one does not hold.
pub fn pprof_message(bytes: &[u8]) {
    match import::pprof::decoded(bytes, None) {
        Ok(profile) => check(&profile),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn check(profile: &ImportedProfile) {
    let mut outcome = import::recording::outcome(profile, "file", profile.skid());
    let attribution = &outcome.document.attribution;
    for profile in &outcome.profiles {
        let roles = attribution.of(profile.process).iter().fold(0u64, |sum, share| sum.saturating_add(share.weight));
        assert_eq!(roles, profile.stacks.total(), "each sample has one role");
    }
    let printed = text::render(&outcome.document, None, Style::PLAIN);
    assert!(!printed.contains(|c: char| is_hidden(c) && c != '\n'), "{printed:?}");
    assert!(contents::files(&mut outcome, Vec::new()).is_ok());
}
