//! What would let a circle of waits go on.

use crate::profile::few;
use crate::record::model::labels::labels;
use crate::record::say::findings::children::make::jobs;
use crate::record::say::findings::line_cut;
use crate::record::say::findings::view::FindingView;
use crate::record::say::programs::{Does, does, reads_all};
use crate::record::say::standstill::taken::taken;
use crate::record::say::standstill::waiting::{channel_name, has_holder, recorded};
use crate::report::number::time;
use crate::result::{
    AwaitedChannel, ChannelHolder, ChannelKind, Document, LastWait, RecordedChannel, RecordedEnd, RecordedStream,
    SeenProcess, WaitedFor,
};
use crate::util::text::{capitalized, clean, counted};
use std::collections::BTreeSet;

/// Standard input, output and error: what a program was given on purpose.
pub(super) const LAST_GIVEN: u32 = 2;

/// A write of 2 to the power of this, in bytes, may come in parts; and how many there are for each write.
const LARGE: usize = 15;
const PARTS: u64 = 2;

/// This part of the reads asked for the rest of a block.
const IN_BLOCKS: f64 = 0.5;

/// What would let a circle go on.
pub(super) fn remedy(
    recording: &Document,
    members: &[&LastWait],
    name: &impl Fn(&SeenProcess) -> String,
) -> Option<String> {
    if let Some(text) = no_longer_read(recording, members, name).or_else(|| kept_open(recording, members, name)) {
        return Some(text);
    }
    let full = members.iter().find_map(|wait| Some((wait, wait.channels().iter().find(|channel| channel.room)?)));
    let Some((writer, channel)) = full else {
        let all_empty = members.iter().all(|wait| !wait.channels().is_empty());
        // What was cut has a sentence of its own.
        let view = FindingView::new(recording);
        let cuts = line_cut(&view).into_iter().flat_map(|finding| finding.channels);
        let cuts: Vec<&RecordedChannel> = cuts.filter_map(|at| recording.channels.get(at)).collect();
        let is_cut = |channel: &AwaitedChannel| cuts.iter().any(|cut| cut.is(channel));
        if members.iter().any(|wait| wait.channels().iter().any(is_cut)) {
            return None;
        }
        if let Some(text) = job_server(recording, members) {
            return Some(text);
        }
        if !all_empty {
            return silent_input(recording, members, name);
        }
        let said = taken(&view, members, name).or_else(|| silent_input(recording, members, name));
        let said = said.or_else(|| input_ended(recording, members, name));
        let said = told(recording, members, name).or(said).or_else(|| of_its_shell(recording, members, name));
        let said = said.or_else(|| substituted(recording, members, name));
        let said = said.or_else(|| passes_no_end(recording, members, name));
        return Some(said.or_else(|| last_said(recording, members, name)).unwrap_or_else(|| {
            format!(
                "{} for data: one has to write first, to flush what it has written, or to close its end. Who reads lines waits for the end \
                 of one.",
                all_wait(members)
            )
        }));
    };
    let for_room = |wait: &&LastWait| wait.channels().iter().any(|channel| channel.room);
    if members.iter().all(for_room) {
        return Some("One of them has to read while it writes, as in another thread.".to_owned());
    }
    let holds = |wait: &&&LastWait| channel.holders.iter().any(|holder| holder.process.pid == wait.process.pid);
    let reader = members.iter().filter(|wait| wait.process.pid != writer.process.pid).find(holds)?;
    let waits_for_it =
        reader.channels().iter().any(|other| !other.room && has_holder(other, &[writer.process.pid].into()));
    let name = capitalized(&name(&reader.process));
    // It may have been for another program.
    let others_read = recorded(recording, channel).is_some_and(|pipe| {
        pipe.readers.iter().any(|end| Some(end.process) != reader.process.recorded && end.all_calls() > 0)
    });
    Some(if waits_for_it {
        format!("{name} has to read both at once, as with threads or poll, or to discard one of them.")
    } else if let Some(fd) = holder_fd(channel, &reader.process).filter(|fd| *fd > LAST_GIVEN && others_read) {
        format!(
            "{name} has to close its copy of the read end (descriptor {fd}), as another program has read that, or to read itself while it \
             waits, as in another thread."
        )
    } else {
        format!("{name} has to read while it waits, as in another thread.")
    })
}

fn all_wait(members: &[&LastWait]) -> &'static str {
    if members.len() == 2 { "Both wait" } else { "All of them wait" }
}

/// If a member waits for a token of the job server of `make`, which gets those back when its jobs end.
fn job_server(recording: &Document, members: &[&LastWait]) -> Option<String> {
    let of_make = |channel: &&AwaitedChannel| {
        let pipe = recorded(recording, channel).filter(|_| !channel.room && channel.fd > LAST_GIVEN)?;
        let writer = pipe.writers.first().and_then(|end| recording.recorded.get(end.process))?;
        let jobs = jobs(writer).filter(|_| channel.holders.iter().any(|holder| holder.process.name == writer.name))?;
        Some(format!("{} {jobs}", writer.name))
    };
    let make = members.iter().flat_map(|wait| wait.channels()).find_map(|channel| of_make(&channel))?;
    Some(format!(
        "That pipe is the job server of `{make}`, which gets a token back only when a job ends, and none was left. What a job starts and waits for \
         has to work with the job's own token."
    ))
}

/// What asks on its standard input.
const ASKS: &str = "ffmpeg";

/// If a member waits for its standard input, to which another one has written nothing.
fn silent_input(recording: &Document, members: &[&LastWait], name: &impl Fn(&SeenProcess) -> String) -> Option<String> {
    let is_silent = |channel: &AwaitedChannel| {
        let wrote = |pipe: &RecordedChannel| pipe.writers.iter().any(|end| end.bytes > 0);
        channel.fd == 0 && recorded(recording, channel).is_none_or(|pipe| !wrote(pipe))
    };
    let (reader, channel) =
        members.iter().find_map(|wait| Some((wait, wait.channels().iter().find(|of| is_silent(of))?)))?;
    let holder = channel.holders.iter().find(|holder| holder.process.pid != reader.process.pid)?;
    let from_begin = recording.target.pids().is_empty() && recording.looks.is_none();
    let asked = &reader.process;
    let (reader, holder) = (name(&reader.process), name(&holder.process));
    let all_empty = members.iter().all(|wait| !wait.channels().is_empty());
    let asks = if asked.name == ASKS {
        " `ffmpeg` asks there whether it may overwrite a file (`-y`, `-n`), or reads keys (`-nostdin`)."
    } else {
        ""
    };
    let begin = if all_empty { format!("{} for data: {reader}", all_wait(members)) } else { capitalized(&reader) };
    from_begin.then(|| {
        format!(
            "{begin} reads its standard input, to which {holder} has written nothing. {holder} has to write \
             and flush, to close its end, or, if no input is meant, to start {reader} with `</dev/null` (`stdin: 'ignore'`, \
             `stdin=DEVNULL`).{asks}"
        )
    })
}

/// If a member has got the end of its input, and keeps its connection open for writing: who waits for the end of that gets none.
fn input_ended(recording: &Document, members: &[&LastWait], name: &impl Fn(&SeenProcess) -> String) -> Option<String> {
    let (wait, channel) = members.iter().find_map(|wait| {
        let at = wait.process.recorded?;
        let input = recording.channels.get(recording.recorded.get(at)?.input?)?;
        let is_over = input.readers.iter().any(|end| end.process == at && end.at_end > 0 && end.bytes > 0);
        let socket = wait.channels().iter().find(|of| !of.kind.is_pipe() && of.fd > LAST_GIVEN)?;
        is_over.then_some((wait, socket))
    })?;
    let other = channel.holders.iter().find(|holder| holder.process.pid != wait.process.pid)?;
    let (own, other) = (name(&wait.process), name(&other.process));
    let option = if does(&wait.process.name, Does::Connects) { " (`nc -N`, `ncat --send-only`)" } else { "" };
    Some(format!(
        "{} has read the end of its standard input, but keeps its {} open for writing, so {other} waits for more. {own} has to shut \
         that down when its input ends{option}, or {other} must not wait for the end.",
        capitalized(&own),
        channel.kind.noun()
    ))
}

/// If a member has taken what it read of another one out of its epoll set, and not closed it.
fn no_longer_read(
    recording: &Document,
    members: &[&LastWait],
    name: &impl Fn(&SeenProcess) -> String,
) -> Option<String> {
    let member = |end: &RecordedEnd| members.iter().find(|wait| wait.process.recorded == Some(end.process));
    let (channel, reader, writer) = recording.channels.iter().find_map(|channel| {
        let ([from], [to]) = (&channel.writers[..], &channel.readers[..]) else { return None };
        let is_left = to.unwatched > to.watched && to.at_end == 0 && from.bytes > 0 && from.process != to.process;
        Some((channel, &member(to).filter(|_| is_left)?.process, &member(from)?.process))
    })?;
    let asyncio = "asyncio does so when a stream holds twice its `limit` (64 KiB) and nobody takes data out of it: who waits there for a longer \
                   line or only for the end, or a task that has ended. It has to read in parts, or needs a larger `limit`.";
    let node = "node does so for a stream that is paused or has no reader.";
    let why = match reader.name.as_str() {
        of if of.starts_with("python") => asyncio.to_owned(),
        of if of.starts_with("node") => node.to_owned(),
        _ => format!("{asyncio} {node}"),
    };
    Some(format!(
        "{} has stopped reading the {} from {}: it took that out of its epoll set (EPOLL_CTL_DEL). {why}",
        capitalized(&name(reader)),
        channel.kind.noun(),
        name(writer)
    ))
}

/// If a shell waits for the output of a member that reads to the end of its input, as in `x=$(cat)`, and another member has that open.
fn substituted(recording: &Document, members: &[&LastWait], name: &impl Fn(&SeenProcess) -> String) -> Option<String> {
    members.iter().find_map(|filter| {
        let of = recording.recorded.get(filter.process.recorded?)?;
        let input = filter.channels().iter().find(|channel| channel.fd == 0 && !channel.room)?;
        let holder = input.holders.iter().find(|holder| members.iter().any(|of| of.process.pid == holder.process.pid))?;
        let shell = members.iter().find(|wait| {
            let is_its = wait.process.recorded.is_some() && wait.process.recorded == of.started_by;
            let is_shell = of.started_by.and_then(|by| recording.recorded.get(by)).is_some_and(|of| of.is_shell());
            is_its && is_shell && wait.channels().iter().any(|channel| has_holder(channel, &[filter.process.pid].into()))
        })?;
        if !reads_all(&of.name) {
            return None;
        }
        let [own, shell, holder_name] = [&filter.process, &shell.process, &holder.process].map(name);
        Some(format!(
            "{} reads to the end of its input, and {shell} to the end of what it writes, as `$(...)` does; but {holder_name} has that input open \
             (descriptor {}), and waits for an answer. One line needs no end (`read -r`, `head -n 1`); else {holder_name} has to close its end.",
            capitalized(&own),
            holder.fd
        ))
    })
}

/// If a member has passed on to another one all that it read from somebody else, and has read the end of that.
fn passes_no_end(
    recording: &Document,
    members: &[&LastWait],
    name: &impl Fn(&SeenProcess) -> String,
) -> Option<String> {
    let waits = members.iter().flat_map(|reader| reader.channels().iter().map(move |channel| (reader, channel)));
    waits.into_iter().find_map(|(reader, channel)| {
        let pipe = recorded(recording, channel)?;
        let [to] = &pipe.writers[..] else { return None };
        let relay = members.iter().find(|wait| wait.process.recorded == Some(to.process))?;
        let fd = holder_fd(channel, &relay.process)?;
        let ended = |of: &&RecordedChannel| {
            let reads = |end: &RecordedEnd| end.process == to.process && end.at_end > 0 && end.bytes == to.bytes;
            of.readers.iter().any(reads) && of.writers.iter().all(|end| Some(end.process) != reader.process.recorded)
        };
        let source = recording.channels.iter().find(ended).filter(|_| to.bytes > 0)?;
        let from: BTreeSet<usize> = source.writers.iter().map(|end| end.process).collect();
        let labels = labels(recording);
        let from = few(from.iter().filter_map(|at| labels.get(*at)).map(|label| format!("`{label}`")));
        let [reader, own] = [&reader.process, &relay.process].map(name);
        Some(format!(
            "{} passes to {reader} what {from} writes ({}), and has read the end of that: it has to close the write end to {reader} \
             (descriptor {fd}), too, so that {reader} gets the end.",
            capitalized(&own),
            counted(to.bytes, "byte")
        ))
    })
}

/// If a member that was to end has a connection to another one.
fn told(recording: &Document, members: &[&LastWait], name: &impl Fn(&SeenProcess) -> String) -> Option<String> {
    let (wait, at, channel) = members.iter().find_map(|wait| {
        let at = recording.recorded.get(wait.process.recorded?)?.told_to_end_ns?;
        let connection = wait.channels().iter().find(|of| !of.kind.is_pipe() && of.kind != ChannelKind::Pty)?;
        Some((wait, at, connection))
    })?;
    let other = channel.holders.iter().find(|holder| holder.process.pid != wait.process.pid)?;
    let (own, other) = (name(&wait.process), name(&other.process));
    Some(format!(
        "{} was to end at {} (a signal), but keeps its {} to {other} open, and waits for what that sends or for its end. When it is to end, it \
         has to close such connections, too.",
        capitalized(&own),
        time(at as f64 / 1e9),
        channel.kind.noun()
    ))
}

/// If a member reads the standard input of the shell that started it, which has its commands from there.
fn of_its_shell(recording: &Document, members: &[&LastWait], name: &impl Fn(&SeenProcess) -> String) -> Option<String> {
    members.iter().find_map(|wait| {
        let at = wait.process.recorded?;
        let shell = recording.recorded.get(at)?.started_by?;
        let channel = wait.channels().iter().find(|of| of.fd == 0 && of.kind.is_pipe())?;
        let readers = &recorded(recording, channel)?.readers;
        let read = |of: usize| readers.iter().find(|end| end.process == of && end.bytes > 0);
        let taken = read(at).map_or(0, |end| end.bytes);
        recording.recorded.get(shell).filter(|of| of.is_shell()).and(read(shell))?;
        let labels = labels(recording);
        let took = if taken > 0 { format!(", of which it took {}", counted(taken, "byte")) } else { String::new() };
        Some(format!(
            "{} reads the standard input of `{}`, which has its commands from there{took}. `</dev/null` behind the command leaves them to \
             the shell.",
            capitalized(&name(&wait.process)),
            labels.get(shell)?
        ))
    })
}
fn holder_fd(channel: &AwaitedChannel, process: &SeenProcess) -> Option<u32> {
    channel.holders.iter().find(|holder| holder.process.pid == process.pid).map(|holder| holder.fd)
}

/// Of processes that all wait for data, what was written last: who has read it waits for more of it.
fn last_said(recording: &Document, members: &[&LastWait], name: &impl Fn(&SeenProcess) -> String) -> Option<String> {
    let said = members.iter().flat_map(|reader| reader.channels().iter().map(move |channel| (reader, channel)));
    let said = said.filter_map(|(reader, channel)| {
        let pipe = recorded(recording, channel)?;
        let ([from], [to]) = (&pipe.writers[..], &pipe.readers[..]) else { return None };
        let writer = members.iter().find(|wait| wait.process.recorded == Some(from.process))?;
        let is_read = from.process != to.process
            && from.bytes > 0
            && from.bytes == to.bytes
            && reader.process.recorded == Some(to.process);
        let [_, last] = from.moved_ns.filter(|_| is_read)?;
        Some((last, from, reader, writer, to))
    });
    // Who gets the end of its input may write then: what is known of that is of later.
    let looked = recording.last_look.as_ref().map_or(u64::MAX, |look| look.at_ns);
    let (last, from, reader, writer, to) = said.filter(|(last, ..)| *last <= looked).max_by_key(|(last, ..)| *last)?;
    let (reader, writer) = (name(&reader.process), name(&writer.process));
    let reads = to.all_calls() - to.at_end;
    if to.resumed > 0 && to.resumed as f64 >= IN_BLOCKS * reads as f64 {
        return Some(format!(
            "{} has read all {} that {writer} wrote, and each time asked for the rest of a larger block: it waits until that is \
             full, as `fread` or `read_exact` do. It has to use what one read gives (`read`), or {writer} has to close its end.",
            capitalized(&reader),
            counted(from.bytes, "byte")
        ));
    }
    let (writes, largest) = (from.all_calls().max(1), from.log2_sizes.len().saturating_sub(1));
    if largest >= LARGE && reads >= PARTS * writes {
        return Some(format!(
            "Last, at {}, {writer} wrote, {} in all with {}, which {reader} got in {reads} parts: if it takes one of these for a whole \
             message, the rest is wrong for it. It has to read until it has as many bytes as the message says, or until its end.",
            time(last as f64 / 1e9),
            counted(from.bytes, "byte"),
            counted(writes, "call")
        ));
    }
    // The other way: what the reader has written, and the writer read.
    let back = recording.channels.iter().find_map(|channel| match (&channel.writers[..], &channel.readers[..]) {
        ([one], [other]) if one.process == to.process && other.process == from.process && one.bytes > 0 => Some(one),
        _ => None,
    });
    let asked = back.map_or_else(String::new, |back| {
        format!(" {} wrote {} to {writer}.", capitalized(&reader), counted(back.all_calls(), "time"))
    });
    let elsewhere = elsewhere(recording, from.process).map_or_else(String::new, |text| {
        format!(" {} also wrote {text}: an answer that goes there does not come.", capitalized(&writer))
    });
    Some(format!(
        "Each has read all that the other one wrote: {writer} wrote {} to {reader}, {} in all, the last at {}.{asked}{elsewhere} One of them waits for more than the \
         other has sent: for the end of a line or of the input, for an answer that stays in a buffer (`stdbuf -oL`, `python3 -u`, `flush`), or \
         for one that came in a form that it does not know, as with other text before it.",
        counted(writes, "time"),
        counted(from.bytes, "byte"),
        time(last as f64 / 1e9),
    ))
}

/// `95 bytes to `server.log` (at 0.84 s)`: what a process wrote to a file, or to a pipe that is its standard error.
fn elsewhere(recording: &Document, process: usize) -> Option<String> {
    // What a signal that ended the recording had it say comes later.
    let looked = recording.last_look.as_ref().map_or(u64::MAX, |look| look.at_ns);
    let answers = |stream: &&RecordedStream| stream.writes && stream.bytes > 0 && stream.moved_ns[0] <= looked;
    let streams = recording.streams.iter().filter(|stream| stream.process == process).filter(answers);
    let last = streams.max_by_key(|stream| stream.moved_ns[1])?;
    let (bytes, at) = (counted(last.bytes, "byte"), time(last.moved_ns[1] as f64 / 1e9));
    Some(format!("{bytes} to `{}`, the last at {at}", clean(&last.file)))
}

/// If a member of a circle has an end open that it does not need, or not any more: it has to close it.
fn kept_open(recording: &Document, members: &[&LastWait], name: &impl Fn(&SeenProcess) -> String) -> Option<String> {
    for (wait, channel) in members.iter().flat_map(|wait| wait.channels().iter().map(move |channel| (wait, channel))) {
        let others: Vec<&ChannelHolder> =
            channel.holders.iter().filter(|holder| holder.process.pid != wait.process.pid).collect();
        let Some((holder, own)) = others.iter().find_map(|holder| {
            Some((*holder, members.iter().find(|member| member.process.pid == holder.process.pid)?))
        }) else {
            continue;
        };
        let (what, fd) = (channel_name(channel), holder.fd);
        let [of, who] = [&wait.process, &own.process].map(name);
        let (is_copy, others_moved) = moved(recording, channel, holder).unwrap_or_default();
        if channel.room {
            // Others read it and have ended: once its last reader is gone, the writer gets SIGPIPE.
            if is_copy && others.len() == 1 && !others_moved.is_empty() {
                let who = capitalized(&who);
                return Some(format!(
                    "{who} has to close its copy of the read end of {what} (descriptor {fd}): {others_moved} no longer reads it, \
                     and {of} gets SIGPIPE only when nobody has it open."
                ));
            }
            continue;
        }
        if others.len() == 1 && needs_end(&wait.process, own) {
            let of = capitalized(&of);
            if let Some(bytes) = taken_by_others(recording, channel) {
                return Some(format!(
                    "{of} waits for more than the {} that {who} wrote to {what}: another process has read that. poll tells all that wait, \
                     and only one gets it: with O_NONBLOCK, the others would not sleep in read.",
                    counted(bytes, "byte")
                ));
            }
            return Some(format!(
                "{of} waits for the end of {what}: {who} has to close its write end (descriptor {fd}) before it waits."
            ));
        }
        // What a later process has open of the standard input of an earlier one it has inherited.
        let began = |process: &SeenProcess| Some(recording.recorded.get(process.recorded?)?.begin_ns);
        let is_later = began(&holder.process).zip(began(&wait.process)).is_some_and(|(holder, own)| holder > own);
        if is_copy && holder.fd > LAST_GIVEN && channel.fd == 0 && is_later {
            let who = capitalized(&who);
            return Some(format!(
                "{who} has inherited the write end of {what} to {of} (descriptor {fd}), and never wrote to it: it has to close \
                 that, or to be started without it (O_CLOEXEC)."
            ));
        }
    }
    None
}

/// Whether a process that has the write end of what another one reads waits until that has ended, or for what it writes only at
/// its end.
fn needs_end(reader: &SeenProcess, holder: &LastWait) -> bool {
    match &holder.awaited {
        WaitedFor::Children(children) => children.iter().any(|child| child.pid == reader.pid),
        WaitedFor::Channels { any, .. } => {
            let program = reader.name.split(' ').next().unwrap_or_default();
            does(program, Does::WritesAtEnd) && any.iter().any(|of| !of.room && has_holder(of, &[reader.pid].into()))
        }
        _ => false,
    }
}

/// How many bytes were written to a pipe that several processes have read, if nothing is left.
fn taken_by_others(recording: &Document, channel: &AwaitedChannel) -> Option<u64> {
    let pipe = recorded(recording, channel)?;
    let processes =
        |end: &RecordedEnd| recording.recorded.get(end.process).map_or(0, |process| process.pids.len().max(1));
    let waiting = |end: &&RecordedEnd| end.bytes > 0 || end.blocked_ns > 0;
    let readers: usize = pipe.readers.iter().filter(waiting).map(processes).sum();
    let written = pipe.written();
    // Who asks for more waits for the end.
    let asked: u64 = pipe.readers.iter().map(|end| end.requested).sum();
    (readers > 1 && written > 0 && pipe.read() == written && asked == written).then_some(written)
}

/// Whether a process that has an end open has never moved data there, and the names of the other recorded processes that have.
/// `None` if that is not known.
fn moved(recording: &Document, channel: &AwaitedChannel, holder: &ChannelHolder) -> Option<(bool, String)> {
    if !recording.target.pids().is_empty() || recording.looks.is_some() {
        return None;
    }
    let pipe = recorded(recording, channel)?;
    let at = holder.process.recorded?;
    let ends = if channel.room { &pipe.readers } else { &pipe.writers };
    let moves = |end: &&RecordedEnd| end.bytes > 0;
    let of = |end: &RecordedEnd| recording.recorded.get(end.process).map(|process| format!("`{}`", process.name));
    let others = few(ends.iter().filter(moves).filter(|end| end.process != at).filter_map(of));
    Some((!ends.iter().filter(moves).any(|end| end.process == at), others))
}
