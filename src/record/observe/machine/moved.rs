//! What BPF programs (bpf/all.bpf.c) count at the pipes and sockets of the whole machine.

use crate::collect::attach;
use crate::collect::bpf::{Object, ToLoad};
use crate::record::observe::look::ChannelKey;
use crate::record::observe::raw::{PR_READ, PR_WRITE, PrMoved, PrPlace};
use anyhow::Result;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// The program that counts what calls move, and the one that reads how full pipes are.
const MOVE: &str = "pr_move";
const FILL: &str = "pr_fill";

/// The attached programs. Dropping this detaches them.
pub(crate) struct ByteCounter {
    object: Object,
    _attached: OwnedFd,
}

/// What was counted, by inode and device; sockets have the device 0.
#[derive(Debug, Default)]
pub(crate) struct MovedNow(HashMap<ChannelKey, PrMoved>);

impl ByteCounter {
    /// # Errors
    /// When the kernel refuses them: the reason and a fix.
    pub(crate) fn start() -> Result<Self> {
        let object = ToLoad::all(vec![MOVE, FILL]).load()?;
        let attached = attach::raw_tracepoint(object.program(MOVE)?, "sys_exit")?;
        Ok(Self { object, _attached: attached })
    }

    /// What has been counted until now, and how full pipes are.
    pub(crate) fn read(&self) -> Result<MovedNow> {
        attach::run_iterator(self.object.program(FILL)?)?;
        let entries: Vec<(PrPlace, PrMoved)> = self.object.entries("moved")?;
        let entry = |(place, moved): (PrPlace, PrMoved)| ((place.inode, place.device as u32), moved);
        Ok(MovedNow(entries.into_iter().map(entry).collect()))
    }

    /// For how many calls or files there was no room.
    pub(crate) fn lost(&self) -> u64 {
        self.object.element("lost", 0).unwrap_or_default()
    }
}

impl MovedNow {
    /// Slots in use and all slots of a pipe.
    pub(crate) fn slots(&self, channel: ChannelKey) -> Option<[u32; 2]> {
        let moved = self.0.get(&channel).filter(|moved| moved.slots > 0)?;
        Some([moved.used.min(moved.slots), moved.slots])
    }

    /// Bytes that were read from a pipe, or of which only the write was seen.
    pub(crate) fn of_pipe(&self, channel: ChannelKey) -> u64 {
        self.0.get(&channel).map_or(0, |moved| moved.bytes[PR_READ].max(moved.bytes[PR_WRITE]))
    }

    /// The same of the direction from one socket to another.
    pub(crate) fn of_sockets(&self, [from, to]: [u64; 2]) -> u64 {
        let bytes = |inode: u64, side: usize| self.0.get(&(inode, 0)).map_or(0, |moved| moved.bytes[side]);
        bytes(to, PR_READ).max(bytes(from, PR_WRITE))
    }

    /// Bytes of all that `is_known` does not know.
    pub(crate) fn others(&self, is_known: impl Fn(&ChannelKey) -> bool) -> u64 {
        let unknown = self.0.iter().filter(|(channel, _)| !is_known(channel));
        unknown.map(|(_, moved)| moved.bytes[PR_READ].max(moved.bytes[PR_WRITE])).sum()
    }
}
