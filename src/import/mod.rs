//! Profiles that other tools took: read, and attributed to roles.
//!
//! [`folded`], [`perf_script`] and [`pprof`] read files. [`recording`] makes of them what `pipeprof record` makes of its
//! own samples, so that everything that takes a recording takes them.

mod folded;
mod perf_script;
pub(crate) mod pprof;
pub(crate) mod recording;

use crate::profile::places::FramePlace;
use crate::profile::{Folded, ProcessName};
use crate::roles::{KERNEL, Skid, is_kernel_entry};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;

/// The longest file that is read, bytes.
const LONGEST: u64 = 4 << 30;

/// The mark of inferno and stackcollapse-perf.pl at the names of kernel functions.
const KERNEL_MARK: &str = "_[k]";

/// The frame that bcc's `profile -d` puts between the user's and the kernel's part.
const BCC_DELIMITERS: [&str; 2] = ["-", "--"];

/// A form of profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImportFormat {
    Folded,
    PerfScript,
    Pprof,
}

impl ImportFormat {
    /// As in messages.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Folded => "folded stacks",
            Self::PerfScript => "perf script",
            Self::Pprof => "pprof",
        }
    }
}

/// A profile by another tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ImportedProfile {
    pub format: ImportFormat,
    /// What was sampled, such as `cpu-clock`, if the file says so.
    pub event: Option<String>,
    /// Events in the file that were not read, with their numbers of samples.
    pub other_events: BTreeMap<String, u64>,
    /// Samples that have no stack and are left out.
    pub without_stack: u64,
    /// The kernel's release, if the file says so.
    pub release: Option<String>,
    /// The stacks of each command, with the command as first frame.
    pub commands: BTreeMap<ProcessName, Folded>,
}

impl ImportedProfile {
    /// Whether samples are late that were due while interrupts were off. Linux has two clocks that are hrtimers, and
    /// these are: tools/perf, `cpu-clock` and `task-clock`. The interrupts of hardware counters cannot be masked on x86.
    #[must_use]
    pub(crate) fn skid(&self) -> Skid {
        match self.event.as_deref() {
            Some("cpu-clock" | "task-clock") => Skid::CpuClock,
            _ => Skid::None,
        }
    }
}

/// Read the profile in the file `path`. `event`: which one, if there are several.
///
/// # Errors
/// When it cannot be read, or has no stacks.
pub(crate) fn read(path: &Path, event: Option<&str>) -> Result<ImportedProfile> {
    let shown = || path.display().to_string();
    let bytes = crate::util::regular::read(path, LONGEST).with_context(shown)?;
    let profile = parse(&bytes, event).with_context(shown)?;
    if profile.commands.is_empty() {
        bail!("{}: it has no stacks: record with `perf record -g`", shown());
    }
    Ok(profile)
}

/// The profile in `bytes`.
///
/// # Errors
/// When its form is not known, or it is damaged.
pub(crate) fn parse(bytes: &[u8], event: Option<&str>) -> Result<ImportedProfile> {
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

/// Adds stacks to those of their commands.
#[derive(Debug, Default)]
struct Commands(BTreeMap<ProcessName, Folded>);

impl Commands {
    /// Those of stacks whose first frame is the command.
    fn of(stacks: &Folded) -> Self {
        let mut commands = Self::default();
        stacks.iter().for_each(|(stack, weight)| commands.add(stack.frames().map(|name| (name, None)), weight));
        commands
    }

    /// Add `weight` to the stack of these frames, root first, with their places; the first one is the command. The
    /// kernel's part begins at the first frame that is marked, or whose name shows it.
    fn add<'a>(&mut self, frames: impl IntoIterator<Item = (&'a str, Option<FramePlace>)>, weight: u64) {
        let mut frames = frames.into_iter();
        let Some((command, _)) = frames.next() else { return };
        let command = ProcessName::new(command);
        let mut stack = vec![(command.as_str(), None)];
        let mut in_kernel = false;
        for (frame, place) in frames {
            let name = frame.strip_suffix(KERNEL_MARK);
            if BCC_DELIMITERS.contains(&frame) {
                stack.push((KERNEL, None));
                in_kernel = true;
                continue;
            }
            let plain = name.unwrap_or(frame);
            if !in_kernel && (name.is_some() || is_kernel_entry(plain)) {
                in_kernel = true;
                if !is_kernel_entry(plain) {
                    stack.push((KERNEL, None));
                }
            }
            stack.push((plain, place));
        }
        self.0.entry(command).or_default().add_located(stack, weight);
    }
}

#[cfg(test)]
mod tests;
