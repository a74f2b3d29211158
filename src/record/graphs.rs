//! Flame graphs of the stages of a pipeline.

use super::model::Recording;
use crate::profile::{ProcessName, Profile, listed};
use crate::report::flamegraph::{self, GraphOptions};
use crate::util::text::grouped;
use anyhow::Result;

/// The flame graph and the folded stacks of each profile, and one graph of all: file names and contents.
///
/// # Errors
/// When a graph cannot be drawn.
pub(crate) fn files(recording: &Recording, profiles: &[Profile]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let drawn: Vec<&Profile> = profiles.iter().filter(|profile| !profile.stacks.is_empty()).collect();
    for profile in &drawn {
        let options = options(recording, profile, &[profile.process], profile.stacks.total());
        let stem = format!("{}.{}", profile.process, profile.collector);
        files.push((format!("{stem}.folded"), profile.stacks.to_text().into_bytes()));
        files.push((format!("{stem}.svg"), flamegraph::render(&profile.stacks, &options)?.into_bytes()));
    }
    if let [one, _, ..] = drawn[..] {
        let all = flamegraph::together(drawn.iter().map(|profile| (profile.process.as_str(), &profile.stacks)));
        let names: Vec<ProcessName> = drawn.iter().map(|profile| profile.process).collect();
        let options = options(recording, one, &names, all.total());
        let name = format!("pipeline.{}.svg", one.collector);
        files.push((name, flamegraph::render(&all, &options)?.into_bytes()));
    }
    Ok(files)
}

fn options(recording: &Recording, profile: &Profile, processes: &[ProcessName], total: u64) -> GraphOptions {
    let unit = flamegraph::unit_name(profile.unit);
    let subtitle =
        format!("{}, Linux {}, {} {unit}", listed(processes.iter().copied()), recording.kernel.release, grouped(total));
    let title = recording.pipeline.text();
    GraphOptions { processes: processes.to_vec(), ..GraphOptions::new(title, subtitle, profile.unit, profile.skid) }
}
