//! Folded stacks: of stackcollapse-perf.pl, inferno, bcc's `profile -f` and others.

use super::{Commands, ImportFormat, ImportedProfile};
use crate::profile::Folded;
use anyhow::{Result, anyhow};
use std::collections::BTreeMap;

pub(super) fn parse(text: &str) -> Result<ImportedProfile> {
    let stacks = Folded::parse(text).map_err(|error| {
        anyhow!("{error}: neither perf script output nor folded stacks (each line a stack, a space and a weight)")
    })?;
    Ok(ImportedProfile {
        format: ImportFormat::Folded,
        event: None,
        other_events: BTreeMap::new(),
        without_stack: 0,
        release: None,
        commands: Commands::of(&stacks).0,
    })
}
