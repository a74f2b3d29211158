//! What is asked for of a pipeline, or of running processes.

use super::{GuestMachine, Keep, Remedy};
use crate::result::{Collector, Observer, PipelineCommand, Probe, RecordLevel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What `pipeprof record` measures. Absent fields leave the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingRequest {
    pub target: RecordingTarget,
    /// The guest's kernel as given; absent: the kernel of this machine.
    pub kernel: Option<String>,
    pub machine: GuestMachine,
    /// Files that the guest gets into its memory.
    pub files: Vec<SentFile>,
    /// Files that are on a disk of the guest.
    pub disk: Vec<SentFile>,
    /// After this time, ns, it ends.
    pub duration_ns: Option<u64>,
    pub level: RecordLevel,
    /// How it is observed. Absent: by BPF programs, or without rights for these by looks into /proc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observer: Option<Observer>,
    /// Only the last time before something happens is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
    /// Whether it is stored when each thread had a CPU, and who woke it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub switches: bool,
    /// Size of the pipes between the stages, bytes.
    pub pipe_size: Option<u64>,
    /// What is collected besides the recording.
    pub collect: Option<Collector>,
    /// The functions that kprobe probes.
    pub probe: Option<Probe>,
    /// Changes to measure it with and without.
    pub changes: Vec<Remedy>,
    /// Whether what the recording suggests is tried, too.
    pub advise: bool,
    /// Runs of each that is tried, or counted runs.
    pub runs: Option<u32>,
    /// How many calling contexts of user code are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_contexts: Option<UserContexts>,
}

/// The limits of the calling contexts of user code. What is beyond them counts as `[deeper]`: sums stay exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserContexts {
    /// Calls within one another, at most [`Self::DEEPEST`]; 0: no contexts.
    pub depth: u32,
    /// With so many contexts, user and kernel, user code gets no more.
    pub number: u32,
}

impl UserContexts {
    /// Functions only.
    pub const NONE: Self = Self { depth: 0, number: u32::MAX };

    /// What is counted if nothing else is asked for.
    pub const DEFAULT: Self = Self { depth: Self::DEEPEST, number: 400_000 };

    /// Calls within one another that can be followed (`USER_FRAMES` in store.h).
    pub const DEEPEST: u32 = 256;

    /// `DEPTH[,NUMBER]`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (depth, number) = text.split_once(',').map_or((text, None), |(depth, number)| (depth, Some(number)));
        let parsed = |text: &str| text.trim().parse::<u32>().map_err(|_| format!("'{text}' is not a number"));
        let depth = parsed(depth)?;
        if depth > Self::DEEPEST {
            return Err(format!("a depth of at most {} can be followed", Self::DEEPEST));
        }
        let number = number.map_or(Ok(Self::DEFAULT.number), parsed)?;
        Ok(if depth == 0 { Self::NONE } else { Self { depth, number } })
    }
}

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingTarget {
    /// A pipeline that is started.
    Pipeline(PipelineCommand),
    /// Running processes, and those at the other ends of their pipes.
    Attached(Vec<u32>),
    /// The processes of a cgroup and of those below, by its path.
    Cgroup(String),
    /// Those of a container, by its name or the begin of its id.
    Container(String),
    /// All processes of the machine.
    All,
}

impl Default for RecordingTarget {
    fn default() -> Self {
        Self::Pipeline(PipelineCommand::default())
    }
}

/// A file for the guest: `PATH[:DEST]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentFile {
    /// On this machine; absolute.
    pub from: PathBuf,
    /// In the guest; absolute.
    pub to: PathBuf,
}

impl SentFile {
    /// What of `files` is outside of `folder`, also by way of links: it is named before a guest gets it that runs what others
    /// have stored.
    pub fn outside<'a>(files: impl IntoIterator<Item = &'a Self>, folder: &Path) -> BTreeSet<PathBuf> {
        let (mut outside, mut inside) = (BTreeSet::new(), BTreeSet::new());
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mut waiting: Vec<PathBuf> = files.into_iter().map(|file| file.from.clone()).collect();
        while let Some(path) = waiting.pop() {
            let Ok(whole) = path.canonicalize() else { continue };
            if !whole.starts_with(&folder) {
                outside.insert(whole);
            } else if inside.insert(whole.clone()) {
                let entries = std::fs::read_dir(&whole).into_iter().flatten().flatten();
                waiting.extend(entries.map(|entry| entry.path()));
            }
        }
        outside
    }

    /// As on the command line. A relative path in the guest begins at the current folder, as here.
    ///
    /// # Errors
    /// A message for the flag.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = match text.rsplit_once(':') {
            // A name with a colon.
            Some(_) if Path::new(text).exists() => (text, text),
            Some((from, to)) => (from, to),
            None => (text, text),
        };
        if !Path::new(from).exists() {
            return Err(format!("{from} does not exist"));
        }
        let absolute = |path: &str| std::path::absolute(path).map_err(|error| format!("'{path}': {error}"));
        Ok(Self { from: absolute(from)?, to: absolute(to)? })
    }

    /// As on a command line, with absolute paths.
    pub fn text(&self) -> String {
        let from = self.from.display();
        if self.is_here() { from.to_string() } else { format!("{from}:{}", self.to.display()) }
    }

    /// Whether it is at the same path in the guest.
    pub fn is_here(&self) -> bool {
        self.from == self.to
    }
}
