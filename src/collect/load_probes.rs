//! Load the programs that count and time calls (bpf/calls.bpf.h).

use super::bpf::Object;
use super::bpf::shared::Settings;
use super::probes::{BREAKPOINT, COUNT, ENTER, LEAVE};
use super::{fentry, follow};
use crate::result::Loader;
use anyhow::Result;

/// The programs for probes, with the templates.
const PROGRAMS: [&str; 7] = [COUNT, ENTER, LEAVE, BREAKPOINT, fentry::COUNT, fentry::ENTER, fentry::LEAVE];

/// The loaded programs.
pub(super) struct Loaded {
    pub object: Object,
    /// Whether their probes have attach cookies.
    pub(crate) cookies: bool,
    /// The reason if forks and threads cannot be followed.
    pub(super) refused: Option<String>,
}

/// Load the programs, with attach cookies if the kernel supports them. `settings` has theirs, with and without.
pub(super) fn load(loader: Loader, settings: impl Fn(bool) -> Settings, stacks: u32) -> Result<Loaded> {
    let load = |cookies| {
        let (object, refused) = follow::load(loader, &settings(cookies), &PROGRAMS, stacks)?;
        Ok(Loaded { object, cookies, refused })
    };
    load(true).or_else(|_: anyhow::Error| load(false))
}

/// Give the programs the slot of each address.
pub(super) fn tell_slots(object: &mut Object, addresses: impl Iterator<Item = u64>) -> Result<()> {
    for (slot, address) in (0u32..).zip(addresses) {
        object.insert("slots", address, slot)?;
        // With CONFIG_X86_KERNEL_IBT a function begins with endbr64, and the probe is after it.
        object.insert("slots", address + 4, slot)?;
    }
    Ok(())
}
