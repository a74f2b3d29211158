//! `pipeprof gallery`: a stored run made small enough for a repository.

use crate::profile::Side;
use crate::report::files::{self, Folder};
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// Stacks of less than this part of a profile are cut to where they join others, 1 in so many.
const LEAST: u64 = 10_000;

/// Copy a stored run without its small stacks, without what neither side did, and without executed code
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder that `pipeprof run` wrote
    #[arg(value_name = "DIR")]
    run: PathBuf,
    /// The folder to make
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

impl Args {
    /// Copy.
    ///
    /// # Errors
    /// A run that cannot be read, a folder that cannot be made.
    pub fn run(&self) -> Result<ExitCode> {
        let mut outcome = files::load(&self.run)?;
        outcome.profiles.retain(|profile| profile.side != Side::Other);
        for profile in &mut outcome.profiles {
            profile.stacks = profile.stacks.pruned(profile.stacks.total() / LEAST);
        }
        let folder = Folder::prepare(Some(&self.output), &outcome.document.started, &outcome.document.mode)?;
        let written = folder.write(&mut outcome)?;
        crate::outln!("{}", written.folder.display());
        Ok(ExitCode::SUCCESS)
    }
}
