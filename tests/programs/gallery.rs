//! Make a stored run small enough for a repository: `make gallery`.

use anyhow::Result;
use pipeprof::report::files::Folder;
use pipeprof::result;
use std::path::PathBuf;

/// Stacks with less than this fraction of a profile are merged into their parents.
const LEAST: u64 = 10_000;

/// The picture that the gallery shows. The others can be drawn again from the stacks.
const SHOWN: &str = "both.svg";

/// Copy a stored run without small stacks, other processes, executed code, and all pictures but one
#[derive(Debug, clap::Args)]
pub(crate) struct GalleryArgs {
    /// A folder written by `pipeprof run`
    #[arg(value_name = "DIR")]
    run: PathBuf,
    /// Folder to create
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

impl GalleryArgs {
    /// Copy.
    ///
    /// # Errors
    /// When the run cannot be read, or the folder cannot be created.
    pub(crate) fn run(&self) -> Result<()> {
        let mut outcome = result::open(&self.run)?;
        outcome.code = None;
        outcome.profiles.retain(|profile| profile.process.is_of_target());
        for profile in &mut outcome.profiles {
            profile.stacks = profile.stacks.pruned(profile.stacks.total() / LEAST);
        }
        let folder = Folder::prepare(Some(&self.output), &outcome.document.started, &outcome.document.mode)?;
        let written = folder.write(&mut outcome)?;
        for entry in std::fs::read_dir(&written.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "svg") && !path.ends_with(SHOWN) {
                std::fs::remove_file(path)?;
            }
        }
        println!("{}", written.folder.display());
        Ok(())
    }
}
