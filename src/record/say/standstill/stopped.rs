//! Long waits for processes that are stopped and were not recorded.

use super::waiting::{NAMED, channel_name, full_name, is_stuck, of_its};
use crate::profile::few;
use crate::result::{AwaitedChannel, Document, LastLook, LastWait, WaitedFor};

/// A process of the recording waits at a channel, and all that have its other end open are stopped. Of those that are
/// recorded, the path tells it.
pub(super) fn stopped(recording: &Document, look: &LastLook) -> Vec<String> {
    let mut said = Vec::new();
    for wait in look.waits.iter().filter(|wait| wait.process.recorded.is_some() && is_stuck(recording, wait)) {
        let WaitedFor::Channels { any, polled: false, .. } = &wait.awaited else { continue };
        said.extend(any.iter().filter_map(|channel| text(recording, wait, channel)));
    }
    said.truncate(NAMED);
    said
}

fn text(recording: &Document, wait: &LastWait, channel: &AwaitedChannel) -> Option<String> {
    let others: Vec<_> =
        channel.holders.iter().map(|holder| &holder.process).filter(|holder| holder.pid != wait.process.pid).collect();
    if !others.iter().all(|holder| holder.stopped) || others.iter().all(|holder| holder.recorded.is_some()) {
        return None;
    }
    let what = if channel.room { "room in" } else { "data from" };
    let of = of_its(recording, wait.process.recorded, channel);
    let (does, is) = match (channel.room, others.len()) {
        (true, 1) => ("reads", "is"),
        (true, _) => ("read", "are"),
        (false, 1) => ("writes", "is"),
        (false, _) => ("write", "are"),
    };
    let (name, names) = (full_name(&wait.process), few(others.into_iter().map(full_name)));
    Some(format!("{name} waits for {what} {}{of}: {names}, which {does} it, {is} stopped.", channel_name(channel)))
}
