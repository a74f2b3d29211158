//! Exact counts of one workload in several windows of one guest, at different phases of the timer tick and after
//! different warm-ups. `windows.json.gz`, next to `result.json`, has their profiles.

use crate::process::Phase;
use crate::profile::WindowPart;
use crate::profile::{Profile, SchedulingWeight};
use crate::util::gzip_json;
use anyhow::{Result, ensure};
use flate2::Compression;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The name of the file with the profiles of all windows.
pub const WINDOWS: &str = "windows.json.gz";

/// The `schema` of `windows.json.gz`.
const SCHEMA: &str = "pipeprof.windows/1";

/// The windows of an exact profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ensemble {
    /// Index of the window that the rest of the document describes: the median by instructions without scheduling.
    pub shown: usize,
    /// In the order of the document's `runs`.
    pub windows: Vec<WindowCount>,
    /// How the size of the windows was found; absent where it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizing: Option<FoundSize>,
    /// Of a pipeline: a hash of what the first run executed, block by block in each calling context. Equal ones executed the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_digest: Option<String>,
}

/// How the size of windows was found: they grow until they differ little, or until growing does not help.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoundSize {
    /// The wanted range over the windows, as a part of their median (`--precision`).
    pub precision: f64,
    /// In the order in which they were tried; the last need not be the one that was kept.
    pub tried: Vec<TriedSize>,
}

/// A size of windows, and what it gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TriedSize {
    /// Bytes through each pipe.
    pub bytes: u64,
    /// The range over the windows without scheduling, as a part of their median.
    pub spread: f64,
}

/// Instructions of one window, of the target's processes together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WindowCount {
    /// When the window began: nanoseconds after a tick of the clock.
    pub tick_offset_ns: i64,
    /// Blocks of warm-up in addition to the workload's.
    pub warmup_blocks: u64,
    pub instructions: u64,
    /// Of these: the roles that depend on scheduling.
    pub scheduling: SchedulingWeight,
    /// Bytes that `rep` instructions copied or cleared, without these roles; absent if not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rep_bytes: Option<u64>,
}

impl WindowCount {
    /// The counts of the window of this phase, with blocks of `block` bytes.
    pub fn of(phase: Phase, block: u64, profiles: &[Profile]) -> Self {
        let mut count = Self {
            tick_offset_ns: phase.tick_offset_ns(),
            warmup_blocks: phase.warmup_blocks(block),
            instructions: 0,
            scheduling: SchedulingWeight::default(),
            rep_bytes: None,
        };
        for profile in profiles.iter().filter(|profile| profile.process.is_of_target()) {
            count.instructions += profile.stacks.total();
            count.scheduling += SchedulingWeight::of(profile);
        }
        count
    }

    /// Instructions without the roles that depend on scheduling.
    pub fn without_scheduling(&self) -> u64 {
        self.instructions.saturating_sub(self.scheduling.total())
    }
}

impl Ensemble {
    /// Choose the window to show.
    pub fn new(windows: Vec<WindowCount>) -> Self {
        let mut order: Vec<usize> = (0..windows.len()).collect();
        order.sort_by_key(|window| (windows[*window].without_scheduling(), *window));
        // The lower one of an even number.
        let shown = order.get(order.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        Self { shown, windows, sizing: None, first_digest: None }
    }

    /// The range over the windows of the instructions without scheduling, as a part of the shown window's.
    pub fn spread(&self) -> f64 {
        let counts = || self.windows.iter().map(WindowCount::without_scheduling);
        let range = counts().max().unwrap_or(0) - counts().min().unwrap_or(0);
        let shown = self.windows.get(self.shown).map_or(0, WindowCount::without_scheduling);
        range as f64 / shown.max(1) as f64
    }
}

#[derive(Serialize, Deserialize)]
struct File<'a> {
    schema: String,
    windows: Cow<'a, [Vec<Profile>]>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    parts: Cow<'a, [Vec<WindowPart>]>,
}

/// The bytes of `windows.json.gz`. Equal profiles and parts give equal bytes.
pub fn to_bytes(windows: &[Vec<Profile>], parts: &[Vec<WindowPart>]) -> Result<Vec<u8>> {
    let file = File { schema: SCHEMA.to_owned(), windows: Cow::Borrowed(windows), parts: Cow::Borrowed(parts) };
    gzip_json::to_bytes(&file, Compression::default())
}

/// The profiles and the parts of each window.
type StoredWindows = (Vec<Vec<Profile>>, Vec<Vec<WindowPart>>);

/// Read `windows.json.gz`.
pub fn from_bytes(bytes: &[u8]) -> Result<StoredWindows> {
    let file: File<'_> = gzip_json::from_bytes(bytes, "profiles of windows")?;
    ensure!(file.schema == SCHEMA, "its schema {} is not {SCHEMA}", file.schema);
    Ok((file.windows.into_owned(), file.parts.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::places::FramePlace;
    use crate::profile::{Folded, ProcessName, Unit};
    use crate::roles::Skid;

    #[test]
    fn the_median_window_is_shown() {
        let window = |without_scheduling| WindowCount {
            tick_offset_ns: 0,
            warmup_blocks: 0,
            instructions: without_scheduling + 10,
            scheduling: SchedulingWeight { sleeps: 7, preemptions: 2, interrupts: 1 },
            rep_bytes: None,
        };
        let shown = |counts: &[u64]| Ensemble::new(counts.iter().copied().map(window).collect()).shown;
        assert_eq!(shown(&[5, 1, 3]), 2);
        assert_eq!(shown(&[5, 1, 3, 9]), 2);
        assert_eq!(shown(&[7, 7, 7]), 1);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_of_windows_is_read(
            stacks in proptest::collection::vec((".*", ".{1,5}", 1..1_u64 << 60, proptest::option::of(0..u64::MAX)), 0..5),
        ) {
            let profile = |(process, frame, weight, address): &(String, String, u64, Option<u64>)| {
                let place = address.map(|address| FramePlace { address: Some(address), ..FramePlace::default() });
                let mut stacks = Folded::new();
                stacks.add_located([("a", None), (&**frame, place)], *weight);
                Profile {
                    process: ProcessName::new(process), collector: process.clone(), unit: Unit::Instructions, skid: Skid::None,
                    stacks,
                }
            };
            let windows: Vec<Vec<Profile>> = stacks.iter().map(|stack| vec![profile(stack)]).collect();
            let bytes = to_bytes(&windows, &[]).unwrap();
            proptest::prop_assert_eq!(from_bytes(&bytes).unwrap(), (windows, Vec::new()));
        }
    }
}
