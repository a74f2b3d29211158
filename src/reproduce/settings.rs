//! How to reproduce, and where.

use crate::util::sha256;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How to reproduce.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Fewer and shorter runs, few guests: about a minute.
    pub quick: bool,
    pub output: PathBuf,
    /// Continue in the folder of an interrupted call.
    pub resume: bool,
    /// Seed of the order of runs.
    pub seed: u64,
    /// The kernel of the guest that runs timed experiments; `None` for this machine.
    pub in_guest: Option<String>,
    /// The kernel of exact counts, by the name that was given.
    pub kernel: Option<String>,
    /// Programs that pipeprof does not contain, by the names in [`super::facts::PROGRAMS`].
    pub programs: BTreeMap<String, GivenProgram>,
}

/// A program that the user gave.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenProgram {
    pub path: PathBuf,
    /// Says in reports which program it was: others have it in another folder.
    sha256: String,
}

impl GivenProgram {
    pub fn open(path: PathBuf) -> Result<Self> {
        let sha256 = sha256::of_file(&path)?;
        Ok(Self { path, sha256 })
    }
}

impl Settings {
    /// What the results of a part depend on: `--resume` keeps only those with an equal key.
    pub fn key(&self) -> String {
        let speed = if self.quick { "quick" } else { "full" };
        let place =
            self.in_guest.as_ref().map_or("on this machine".to_owned(), |kernel| format!("in a guest with {kernel}"));
        let counts =
            self.kernel.as_ref().map_or("no exact counts".to_owned(), |kernel| format!("exact counts on {kernel}"));
        let programs =
            self.programs.iter().map(|(name, program)| format!(", {name} with SHA-256 {:.12}", program.sha256));
        format!("{speed}, {place}, {counts}, seed {}{}", self.seed, programs.collect::<String>())
    }

    /// Runs per contestant of a race.
    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }

    /// Length of a timed window.
    pub fn window_ns(&self) -> u64 {
        if self.quick { 120_000_000 } else { 500_000_000 }
    }
}

/// Create a folder of the output.
pub(super) fn create_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}: choose another with -o", folder.display()))
}

#[cfg(test)]
impl Settings {
    pub(super) fn of_test(output: &Path, resume: bool) -> Self {
        let programs = BTreeMap::new();
        Self { quick: true, output: output.to_owned(), resume, seed: 1, in_guest: None, kernel: None, programs }
    }
}
