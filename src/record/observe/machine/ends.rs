//! Who has the ends of each channel open.

use super::MachineNow;
use crate::record::observe::look::{ChannelKey, channel_of, path_of};
use crate::record::start::open_files::{FileKind, OpenFile};
use crate::result::ChannelKind;
use std::collections::HashMap;

/// A channel and the processes that have it open, each with its first descriptor, by process id.
#[derive(Debug, Default)]
pub(crate) struct ChannelEnds {
    pub kind: ChannelKind,
    pub path: Option<String>,
    /// The sockets that send and receive, if it is between two.
    pub sockets: Option<[u64; 2]>,
    pub writers: Vec<(u32, u32)>,
    pub readers: Vec<(u32, u32)>,
}

impl ChannelEnds {
    /// Those that can end a wait for room, or for data.
    pub(crate) fn enders(&self, room: bool) -> &[(u32, u32)] {
        if room { &self.readers } else { &self.writers }
    }
}

impl MachineNow {
    /// All channels.
    pub(crate) fn ends(&self) -> HashMap<ChannelKey, ChannelEnds> {
        let mut all: HashMap<ChannelKey, ChannelEnds> = HashMap::new();
        for (pid, process) in &self.processes {
            for file in process.files.iter().flatten() {
                for (is_open, room) in [(file.reads, false), (file.writes, true)] {
                    let Some((kind, key)) = channel_of(file, room, &self.peers).filter(|_| is_open) else { continue };
                    let ends = all.entry(key).or_insert_with(|| ChannelEnds {
                        kind,
                        path: path_of(file),
                        sockets: self.sockets_of(file, room),
                        ..ChannelEnds::default()
                    });
                    let side = if room { &mut ends.writers } else { &mut ends.readers };
                    match side.last_mut() {
                        Some((last, fd)) if last == pid => *fd = file.fd.min(*fd),
                        _ => side.push((*pid, file.fd)),
                    }
                }
            }
        }
        all
    }

    /// The sockets that send and receive what goes through one.
    fn sockets_of(&self, file: &OpenFile, room: bool) -> Option<[u64; 2]> {
        let FileKind::Socket(own) = file.kind else { return None };
        let peer = self.peers.get(&own)?.inode;
        Some(if room { [own, peer] } else { [peer, own] })
    }
}
