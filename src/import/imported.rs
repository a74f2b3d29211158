//! What is read of another tool's profile, whatever its form.

use crate::profile::places::FramePlace;
use crate::profile::{Folded, ProcessName};
use crate::roles::{KERNEL, Skid, is_kernel_entry};
use std::collections::BTreeMap;

/// The mark of inferno and stackcollapse-perf.pl at the names of kernel functions.
pub(super) const KERNEL_MARK: &str = "_[k]";

/// The frame that bcc's `profile -d` puts between the user's and the kernel's part.
const BCC_DELIMITERS: [&str; 2] = ["-", "--"];

/// A form of profiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImportFormat {
    #[default]
    Folded,
    PerfScript,
    Pprof,
}

impl ImportFormat {
    /// As in messages.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Folded => "folded stacks",
            Self::PerfScript => "perf script",
            Self::Pprof => "pprof",
        }
    }
}

/// A profile by another tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportedProfile {
    pub format: ImportFormat,
    /// What was sampled, such as `cpu-clock`, if the file says so.
    pub event: Option<String>,
    /// Events in the file that were not read, with their numbers of samples.
    pub(crate) other_events: BTreeMap<String, u64>,
    /// Samples that have no stack and are left out.
    pub(crate) without_stack: u64,
    /// The kernel's release, if the file says so.
    pub release: Option<String>,
    /// The stacks of each command, with the command as first frame.
    pub commands: BTreeMap<ProcessName, Folded>,
}

impl ImportedProfile {
    /// Whether samples are late that were due while interrupts were off. Linux has two clocks that are hrtimers, and
    /// these are: tools/perf, `cpu-clock` and `task-clock`. The interrupts of hardware counters cannot be masked on x86.
    pub fn skid(&self) -> Skid {
        match self.event.as_deref() {
            Some("cpu-clock" | "task-clock") => Skid::CpuClock,
            _ => Skid::None,
        }
    }
}

/// Adds stacks to those of their commands.
#[derive(Debug, Default)]
pub(super) struct Commands(pub(super) BTreeMap<ProcessName, Folded>);

impl Commands {
    /// Those of stacks whose first frame is the command.
    pub(super) fn of(stacks: &Folded) -> Self {
        let mut commands = Self::default();
        stacks.iter().for_each(|(stack, weight)| commands.add(stack.frames().map(|name| (name, None)), weight));
        commands
    }

    /// Add `weight` to the stack of these frames, root first, with their places; the first one is the command. The
    /// kernel's part begins at the first frame that is marked, or whose name shows it.
    pub(super) fn add<'a>(&mut self, frames: impl IntoIterator<Item = (&'a str, Option<FramePlace>)>, weight: u64) {
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
