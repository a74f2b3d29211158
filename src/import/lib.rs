//! Profiles that other tools took: read, and attributed to roles.
//!
//! [`folded`], [`perf_script`] and [`pprof`] read files. [`recording`] makes of them what `pipeprof record` makes of its
//! own samples, so that everything that takes a recording takes them.

// Paths are the same in all crates: `crate::MODULE::`.
pub(crate) use {::export, ::kernel, ::profile, ::record, ::report, ::result, ::roles, ::util};

mod folded;
mod imported;
mod perf_script;
pub mod pprof;
pub mod recording;

use crate::util::stored_json::HIGHEST;
use anyhow::{Context as _, Result, bail, ensure};
use imported::{Commands, KERNEL_MARK};
pub use imported::{ImportFormat, ImportedProfile};
use std::path::Path;

/// The longest file that is read, bytes.
const LONGEST: u64 = 4 << 30;

/// Read the profile in the file `path`. `event`: which one, if there are several.
pub fn read(path: &Path, event: Option<&str>) -> Result<ImportedProfile> {
    let shown = || path.display().to_string();
    let bytes = crate::util::regular::read(path, LONGEST).with_context(shown)?;
    let profile = parse(&bytes, event).with_context(shown)?;
    if profile.commands.is_empty() {
        bail!("{}: it has no stacks: record with `perf record -g`", shown());
    }
    Ok(profile)
}

/// The profile in `bytes`.
pub fn parse(bytes: &[u8], event: Option<&str>) -> Result<ImportedProfile> {
    let profile = parsed(bytes, event)?;
    // All numbers of a result are parts of this one. Those of results are less, too.
    let samples =
        profile.commands.values().fold(profile.without_stack, |sum, stacks| sum.saturating_add(stacks.total()));
    ensure!(
        samples < HIGHEST,
        "its weights add up to {samples}, and a profile has less than 2^53 samples: divide all weights by the same number"
    );
    Ok(profile)
}

fn parsed(bytes: &[u8], event: Option<&str>) -> Result<ImportedProfile> {
    if bytes.starts_with(b"PERFILE2") {
        bail!("this is perf.data: give the output of `perf script -i FILE`");
    }
    if bytes.starts_with(pprof::GZIP) {
        return pprof::parse(bytes, event);
    }
    let text = String::from_utf8_lossy(bytes);
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let Some(first) = first else { bail!("it is empty") };
    if perf_script::is_header(first) {
        perf_script::parse(&text, event)
    } else if event.is_some() {
        bail!("folded stacks do not say their event: leave out --event");
    } else {
        folded::parse(&text)
    }
}

#[cfg(test)]
mod tests;
