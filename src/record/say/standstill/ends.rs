//! Who has the ends of channels that are waited for, and their names.

use crate::record::model::labels::with_id;
use crate::result::{AwaitedChannel, ChannelKind, Document, RecordedChannel, SeenProcess};
use crate::util::text::clean;
use std::collections::BTreeSet;

/// `` `cat` (process 4711)``.
pub(super) fn full_name(process: &SeenProcess) -> String {
    with_id(&process.name, process.pid)
}

pub(super) fn has_holder(channel: &AwaitedChannel, members: &BTreeSet<u32>) -> bool {
    channel.holders.iter().any(|holder| members.contains(&holder.process.pid))
}

/// The recorded pipe of a channel.
pub(super) fn recorded<'a>(recording: &'a Document, channel: &AwaitedChannel) -> Option<&'a RecordedChannel> {
    recording.channels.iter().find(|pipe| pipe.inode == channel.inode && pipe.device == channel.device)
}

pub(super) fn channel_name(channel: &AwaitedChannel) -> String {
    match (&channel.kind, &channel.path) {
        (ChannelKind::Fifo, path) => format!("the FIFO `{}`", clean(path.as_deref().unwrap_or_default())),
        (ChannelKind::Pipe, _) => "the pipe".to_owned(),
        (kind, Some(path)) => format!("the {} `{}`", kind.noun(), clean(path)),
        (kind, None) => format!("the {}", kind.noun()),
    }
}
