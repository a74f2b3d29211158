//! Flame graphs of the stages of a pipeline.

use super::model::Recording;
use crate::profile::{Folded, ProcessName, Profile, Unit, listed};
use crate::report::files::{CODE, WINDOWS};
use crate::report::flamegraph::{self, GraphOptions};
use crate::report::stack_files::{self, FOLDED, PLACES};
use crate::result::Collector;
use crate::roles::Skid;
use crate::util::text::grouped;
use anyhow::Result;
use std::path::Path;

/// The name of the off-CPU flame graph, without its ending.
pub(crate) const OFF_CPU: &str = "off-cpu";

/// The name of a flame graph of all processes, before its collector.
const ALL: &str = "pipeline";

/// Processes that the line above a graph names: a longer line is cut, and with it what the graph shows.
const NAMED: usize = 5;

/// The collectors that a recording can use.
const PROFILED: [Collector; 2] = [Collector::Sample, Collector::Insn];

/// The flame graph and the folded stacks of each profile, one graph of all, and the graph of sleeps: file names and
/// contents.
///
/// # Errors
/// When a graph cannot be drawn.
pub(crate) fn files(
    recording: &Recording,
    profiles: &[Profile],
    off_cpu: Option<&Folded>,
) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let drawn: Vec<&Profile> = profiles.iter().filter(|profile| !profile.stacks.is_empty()).collect();
    for profile in &drawn {
        let options = options(recording, profile, &[profile.process], profile.stacks.total());
        let stem = format!("{}.{}", profile.process, profile.collector);
        files.extend(stack_files::files(&stem, &profile.stacks)?);
        files.push((format!("{stem}.svg"), flamegraph::render(&profile.stacks, &options)?.into_bytes()));
    }
    if let [one, _, ..] = drawn[..] {
        let all = flamegraph::together(drawn.iter().map(|profile| (profile.process.as_str(), &profile.stacks)));
        let names: Vec<ProcessName> = drawn.iter().map(|profile| profile.process).collect();
        let options = options(recording, one, &names, all.total());
        let name = format!("{ALL}.{}.svg", one.collector);
        files.push((name, flamegraph::render(&all, &options)?.into_bytes()));
    }
    if let Some(stacks) = off_cpu.filter(|stacks| !stacks.is_empty()) {
        let svg = flamegraph::render_waits(stacks, &off_cpu_options(recording))?;
        files.extend(stack_files::files(OFF_CPU, stacks)?);
        files.push((format!("{OFF_CPU}.svg"), svg.into_bytes()));
    }
    Ok(files)
}

/// How the graph of sleeps is drawn.
#[must_use]
pub(crate) fn off_cpu_options(recording: &Recording) -> GraphOptions {
    let subtitle =
        format!("off-CPU: where threads slept, and who woke them; Linux {}, microseconds", recording.kernel.release);
    GraphOptions {
        weights: "µs".to_owned(),
        processes: Vec::new(),
        ..GraphOptions::new(super::text::subject(recording), subtitle, Unit::Nanoseconds, Skid::None)
    }
}

/// The `files` to look at first, exports among them: without stacks and executed code, and without the graphs of
/// single processes where one of all exists. The page, which shows all pictures, is the first, and data comes last.
pub(super) fn most_telling(files: &[String]) -> Vec<&str> {
    let graph_of =
        |file: &str| PROFILED.into_iter().find(|collector| file.ends_with(&format!(".{}.svg", collector.name())));
    let of_all = |collector: Collector| format!("{ALL}.{}.svg", collector.name());
    let telling = |file: &&str| match graph_of(file) {
        Some(collector) => *file == of_all(collector) || !files.contains(&of_all(collector)),
        None => ![CODE, WINDOWS].contains(file) && !file.ends_with(FOLDED) && !file.ends_with(PLACES),
    };
    let mut named: Vec<&str> = files.iter().map(String::as_str).filter(telling).collect();
    named.sort_by_key(|file| match file.rsplit('.').next() {
        Some("html") => 0,
        Some("svg") => 1,
        _ => 2,
    });
    named
}

/// The profiles of `recording`, stored in `folder`: those that were sampled, otherwise those that were counted.
///
/// # Errors
/// When a file is missing or damaged.
pub(crate) fn stored(recording: &Recording, folder: &Path) -> Result<Vec<Profile>> {
    let sampled = recording.samples.iter().map(|sampled| {
        let names = sampled.processes.iter().map(|process| &process.name[..]).collect::<Vec<_>>();
        (names, &sampled.collector, Unit::Samples)
    });
    let counted = recording.instructions.iter().map(|counted| {
        let names = counted.stages.iter().map(|stage| &stage.name[..]).collect::<Vec<_>>();
        (names, &counted.collector, Unit::Instructions)
    });
    let Some((names, collector, unit)) = sampled.chain(counted).next() else { return Ok(Vec::new()) };
    let profile = |name: &str| {
        // The name is part of a path, and may come from somebody else's file.
        let process = ProcessName::new(name);
        let stem = format!("{process}.{}", collector.name.name());
        Ok(Profile {
            process,
            collector: collector.name.name().to_owned(),
            unit,
            skid: collector.skid.unwrap_or(Skid::None),
            stacks: stack_files::load(folder, &stem)?,
        })
    };
    names.into_iter().map(profile).collect()
}

/// The stacks of sleeps that are stored in `folder`, in microseconds, if it has them.
///
/// # Errors
/// When the file is damaged.
pub(crate) fn stored_off_cpu(folder: &Path) -> Result<Option<Folded>> {
    let path = folder.join(format!("{OFF_CPU}{FOLDED}"));
    path.exists().then(|| stack_files::load(folder, OFF_CPU)).transpose()
}

/// The lines above a graph of these processes: title, and what it shows.
#[must_use]
pub(crate) fn headings(recording: &Recording, processes: &[ProcessName], unit: Unit, total: u64) -> (String, String) {
    let names = match processes.split_at_checked(NAMED) {
        Some((first, further @ [_, _, ..])) => {
            let first: Vec<&str> = first.iter().map(|name| name.as_str()).collect();
            format!("{} and {} others", first.join(", "), further.len())
        }
        _ => listed(processes.iter().copied()),
    };
    let unit = flamegraph::unit_name(unit);
    let release = &recording.kernel.release;
    let kernel = if release.is_empty() { String::new() } else { format!(", Linux {release}") };
    (super::text::subject(recording), format!("{names}{kernel}, {} {unit}", grouped(total)))
}

fn options(recording: &Recording, profile: &Profile, processes: &[ProcessName], total: u64) -> GraphOptions {
    let (title, subtitle) = headings(recording, processes, profile.unit, total);
    GraphOptions { processes: processes.to_vec(), ..GraphOptions::new(title, subtitle, profile.unit, profile.skid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_comes_first_and_stacks_are_not_named() {
        let files = [
            "result.json",
            "timeline.svg",
            "record.html",
            "dd.sample.svg",
            "dd.sample.folded",
            "dd.sample.places.json.gz",
            "pipeline.sample.svg",
            "profile.pb.gz",
        ];
        let files = files.map(str::to_owned);
        assert_eq!(
            most_telling(&files),
            ["record.html", "timeline.svg", "pipeline.sample.svg", "result.json", "profile.pb.gz"]
        );
    }
}
