//! What a process waited for in poll and its like when a recording last looked.

use crate::profile::few;
use crate::record::say::standstill::remedy::LAST_GIVEN;
use crate::record::say::standstill::waiting::{NAMED, channel_name, role};
use crate::result::{AwaitedChannel, Document, EventSource, EventWait, LastWait, WaitedFor};
use crate::util::text::{clean, counted};
use std::collections::BTreeSet;

/// What only a process itself has open is for these.
const OWN_THREADS: &str = "its own threads and signals";

/// What a process waited for in poll or its like when it was last looked, if that is known.
pub(crate) fn polled(recording: &Document, process: usize) -> Option<String> {
    let waits = recording.last_look.iter().flat_map(|look| &look.waits);
    let polls = waits.filter(|wait| wait.process.recorded == Some(process)).filter_map(|wait| match &wait.awaited {
        WaitedFor::Channels { any, others, polled: true, limited } => Some((wait, any, *others, *limited)),
        _ => None,
    });
    // What only it has open itself is for its own threads.
    let is_own = |wait: &LastWait| wait.channels().iter().all(|of| of.is_only_of(wait.process.pid));
    let is_given = |of: &AwaitedChannel| (1..=LAST_GIVEN).contains(&of.fd) && of.kind.is_pipe();
    let (own, mut others): (Vec<_>, Vec<_>) = polls.partition(|(wait, ..)| is_own(wait));
    // With several threads, it is not known which of them the path ends with.
    let (wait, any, others, limited) = match (others.pop(), others.pop()) {
        (Some(poll), None) => poll,
        (None, _) => match own.iter().find(|(_, any, ..)| any.iter().any(is_given)) {
            Some(poll) => *poll,
            None => {
                let internal = || (!own.is_empty()).then(|| OWN_THREADS.to_owned());
                return event_of(recording, process).or_else(internal);
            }
        },
        _ => return None,
    };
    let own = wait.process.pid;
    let mut all: BTreeSet<String> = BTreeSet::new();
    for channel in any {
        let holders = channel.holders.iter().filter(|holder| holder.process.pid != own);
        let names: BTreeSet<String> = holders.map(|holder| format!("`{}`", clean(&holder.process.name))).collect();
        let way = if channel.room { "to" } else { "from" };
        // What only it has open itself is for its own signals and threads.
        all.extend((!names.is_empty()).then(|| format!("{} {way} {}", channel_name(channel), few(names))));
    }
    if all.is_empty() {
        let given = any.iter().find(|channel| is_given(channel));
        let own = given.and_then(|channel| Some(format!("its own {}", role(channel.fd)?)));
        all.insert(own.unwrap_or_else(|| OWN_THREADS.to_owned()));
    }
    let more = others + all.len().saturating_sub(NAMED) as u64;
    let mut said: Vec<String> = all.into_iter().take(NAMED).collect();
    said.extend((more > 0).then(|| counted(more, "other descriptor")));
    said.extend(limited.then(|| "a timer".to_owned()));
    Some(said.join(", or "))
}

/// `changes of files (inotify) or a timer`: what ends the sleep of a process that no channel ends, unless it has several such threads.
pub(crate) fn event_of(recording: &Document, process: usize) -> Option<String> {
    let all = recording.last_look.iter().flat_map(|look| &look.events);
    let own = all.filter(|event| event.process.recorded == Some(process));
    // Other threads wait for work of this one.
    let is_internal = |event: &&EventWait| event.any.iter().all(|source| *source == EventSource::OwnThreads);
    let (internal, mut others): (Vec<&EventWait>, Vec<&EventWait>) = own.partition(is_internal);
    let (event, is_one) = match (others.pop(), others.pop()) {
        (None, _) => (internal.iter().copied().max_by_key(|event| event.limited)?, true),
        (Some(event), another) => (event, another.is_none()),
    };
    let text = |source: &EventSource| match source {
        EventSource::Client => "a client that connects",
        EventSource::Network => "the network",
        EventSource::FileChanges => "changes of files (inotify)",
        EventSource::Signal => "a signal (signalfd)",
        EventSource::ProcessEnd => "the end of a process (pidfd)",
        EventSource::Timer => "a timer",
        EventSource::OwnThreads => OWN_THREADS,
        EventSource::Other => "another event",
    };
    let timer = event.limited && !event.any.contains(&EventSource::Timer);
    let named = event.any.iter().filter(|source| event.any.len() == 1 || **source != EventSource::OwnThreads);
    let all: Vec<&str> = named.map(text).chain(timer.then_some("a timer")).collect();
    is_one.then(|| if all.is_empty() { "nothing but a signal".to_owned() } else { all.join(" or ") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::standstill::tests::{channels, first, recording, seen, wait};

    #[test]
    fn what_is_polled_is_named() {
        let [other, own] = [wait(0, 1, 5, false, &[1]), wait(0, 7, 6, false, &[0])].map(first);
        let polls = LastWait { awaited: channels(vec![other, own.clone()], 2, true), ..wait(0, 1, 5, false, &[1]) };
        let text = "the pipe from `server`, or 2 other descriptors";
        assert_eq!(polled(&recording(vec![polls.clone()]), 0).as_deref(), Some(text));
        assert_eq!(polled(&recording(vec![polls.clone()]), 1), None);
        let own = LastWait { awaited: channels(vec![own], 0, true), ..polls.clone() };
        assert_eq!(polled(&recording(vec![own]), 0).as_deref(), Some("its own threads and signals"));
        assert_eq!(polled(&recording(vec![polls.clone(), polls]), 0), None, "of two threads");
    }

    #[test]
    fn what_no_channel_ends_is_named() {
        let event = |any: &[EventSource], limited: bool| EventWait {
            process: seen(0),
            any: any.iter().copied().collect(),
            limited,
        };
        let said = |events: Vec<EventWait>| {
            let mut recording = recording(Vec::new());
            recording.last_look.as_mut().unwrap().events = events;
            polled(&recording, 0)
        };
        let [client, own] = [EventSource::Client, EventSource::OwnThreads];
        assert_eq!(said(vec![event(&[client], false)]).as_deref(), Some("a client that connects"));
        // Threads that wait for work of the others do not matter.
        let both = said(vec![event(&[client, own], true), event(&[own], false)]);
        assert_eq!(both.as_deref(), Some("a client that connects or a timer"));
        assert_eq!(
            said(vec![event(&[own], true), event(&[own], false)]).as_deref(),
            Some("its own threads and signals or a timer")
        );
        assert_eq!(
            said(vec![event(&[client], false), event(&[EventSource::FileChanges], false)]),
            None,
            "of two threads"
        );
        assert_eq!(said(vec![event(&[], false)]).as_deref(), Some("nothing but a signal"));
    }
}
