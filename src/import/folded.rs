//! Folded stacks: of stackcollapse-perf.pl, inferno, bcc's `profile -f` and others.

use super::{Commands, ImportFormat, ImportedProfile};
use crate::profile::Folded;
use anyhow::{Result, anyhow};

pub(super) fn parse(text: &str) -> Result<ImportedProfile> {
    let stacks = Folded::parse(text).map_err(|error| {
        anyhow!("{error}: neither perf script output nor folded stacks (each line a stack, a space and a weight)")
    })?;
    let commands = Commands::of(&stacks).0;
    Ok(ImportedProfile { format: ImportFormat::Folded, commands, ..ImportedProfile::default() })
}
