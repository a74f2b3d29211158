//! Output of several processes, or of one by several ways, that is mixed, doubled or cut.

use crate::record::say::findings::view::FindingView;
use crate::record::say::findings::waits::late::at_once;
use crate::result::{
    Document, DoubledBuffer, Finding, FindingKind, LastWait, RecordedChannel, RecordedEnd, RecordedStream, WaitReason,
};
use crate::util::text::{clean, counted, grouped};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer may have been torn at the start or the end only.
const MANY: u64 = 10;

/// So many processes of one row live at the same time, in the mean.
const AT_ONCE: f64 = 1.5;

/// `` 8 processes (`perl`) wrote to the pipe to `cat` at once, 8,192 bytes per call, which is more than PIPE_BUF (4,096
/// bytes): 312 of 784 writes waited in the middle, so that the data of others can be in between. ``
pub(crate) fn torn(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    // A socket keeps messages whole, or promises nothing for any size.
    for (at, pipe) in view.document.channels.iter().enumerate().filter(|(_, channel)| channel.kind.is_pipe()) {
        let ends: Vec<&RecordedEnd> = pipe.writers.iter().filter(|end| end.parted > 0).collect();
        let sum = |of: fn(&RecordedEnd) -> u64| ends.iter().map(|end| of(end)).sum::<u64>();
        let (parted, calls) = (sum(|end| end.parted), sum(RecordedEnd::all_calls));
        if parted < MANY || !(ends.iter().any(|end| is_several(view, end)) || overlap(&ends)) {
            continue;
        }
        let pids = ends.iter().filter_map(|end| view.process(end)).map(|process| process.pids.len().max(1) as u64);
        let processes = counted(pids.sum(), "process");
        let (names, pipe) = (view.names(ends.iter().copied()), view.pipe_to(pipe));
        let mean = sum(|end| end.bytes) / calls.max(1);
        let size = if mean > BUFFER {
            format!("{} per call, which is", counted(mean, "byte"))
        } else {
            "in some calls".to_owned()
        };
        let text = format!(
            "{processes} ({names}) wrote to {pipe} at once, {size} more than PIPE_BUF (4,096 bytes): \
             {} of {} writes waited for room, and the data of others can be in between. Whole lines in writes of at most 4,096 bytes, \
             or a pipe or file of its own for each, keep them whole.",
            grouped(parted),
            grouped(calls)
        );
        let finding = Finding::new(FindingKind::Torn, ends.iter().map(|end| end.process), text);
        found.push(Finding { channels: vec![at], count: Some(parted), of: Some(calls), ..finding });
    }
    found
}

/// `` Threads of `walk` write a line to the pipe to `cat` with several calls: 1,121 times, another one wrote in the middle of a line. ``
pub(crate) fn by_threads(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.document.channels.iter().enumerate().flat_map(|(at, channel)| {
        let is_it = |end: &&RecordedEnd| is_split(end.split, end.lines, end.all_calls());
        channel.writers.iter().filter(is_it).map(move |end| {
            let text = threads_split(view, end.process, &view.pipe_to(channel), end.split);
            let finding = Finding::new(FindingKind::Torn, [end.process], text);
            Finding { channels: vec![at], count: Some(end.split), of: Some(end.all_calls()), ..finding }
        })
    });
    let streams = view.document.streams.iter().filter(|stream| stream.writes);
    // `split` tells of files that several processes write.
    let alone = |one: &RecordedStream| {
        let other = |other: &RecordedStream| {
            other.writes && other.pid != one.pid && (other.inode, other.device) == (one.inode, one.device)
        };
        !view.document.streams.iter().any(other)
    };
    // One writer that moves between threads, as those of Go do, writes its buffer from any of them.
    let is_it =
        |of: &&RecordedStream| is_split(of.split, of.lines, of.calls) && of.moves == 0 && alone(of) && !in_blocks(of);
    let files = streams.filter(is_it).map(|stream| {
        let text = threads_split(view, stream.process, &format!("`{}`", clean(&stream.file)), stream.split);
        Finding { count: Some(stream.split), ..Finding::new(FindingKind::Torn, [stream.process], text) }
    });
    found.chain(files).collect()
}

/// Whether these are lines, and some were split.
fn is_split(split: u64, lines: u64, calls: u64) -> bool {
    split >= MANY && LONGEST_LINE * lines >= calls
}

/// Calls for a line, at most, in the mean.
const LONGEST_LINE: u64 = 16;

fn threads_split(view: &FindingView<'_>, process: usize, to: &str, split: u64) -> String {
    format!(
        "Threads of {} write lines to {to} with several calls each: {}, another thread wrote in the middle of a line. One call for each line \
         (a buffer that is written at its end), or a lock around its calls, keeps lines whole.",
        view.name(process),
        counted(split, "time")
    )
}

/// Whether several processes of the row of this end lived at the same time.
fn is_several(view: &FindingView<'_>, end: &RecordedEnd) -> bool {
    view.process(end).is_some_and(|process| {
        let span = process.end_ns.saturating_sub(process.begin_ns);
        process.pids.len() > 1 && process.lived_ns as f64 >= AT_ONCE * span as f64
    })
}

/// Whether two of them moved data at the same time.
fn overlap(ends: &[&RecordedEnd]) -> bool {
    let mut times: Vec<[u64; 2]> = ends.iter().filter_map(|end| end.moved_ns).collect();
    times.sort_unstable();
    times.windows(2).any(|pair| pair[1][0] < pair[0][1])
}

/// Buffers of programs are so large, or several times.
const BUFFER: u64 = 4096;

/// So many full blocks of a process are no chance.
const LEAST: u64 = 2;

/// `` 8 processes (`perl`) write `log` at the same time in blocks of 8,192 bytes: ... ``
pub(crate) fn torn_file(view: &FindingView<'_>) -> Vec<Finding> {
    let mut files: BTreeMap<(u64, u32), Vec<&RecordedStream>> = BTreeMap::new();
    for stream in view.document.streams.iter().filter(|stream| stream.writes) {
        files.entry((stream.inode, stream.device)).or_default().push(stream);
    }
    files.values().filter_map(|streams| torn_in_blocks(view, streams).or_else(|| split(view, streams))).collect()
}

/// Whether all but its last calls wrote a full buffer.
fn in_blocks(stream: &RecordedStream) -> bool {
    stream.block > 0
        && stream.block.is_multiple_of(BUFFER)
        && stream.blocks >= LEAST
        && stream.calls <= stream.blocks + 1
}

fn torn_in_blocks(view: &FindingView<'_>, streams: &[&RecordedStream]) -> Option<Finding> {
    // Who writes at places of its own, as `dd seek=`, keeps apart.
    let together = |one: &RecordedStream, other: &RecordedStream| {
        let at_once = one.moved_ns[0] < other.moved_ns[1] && other.moved_ns[0] < one.moved_ns[1];
        one.pid != other.pid
            && at_once
            && in_blocks(other)
            && (one.opened == other.opened || one.appends && other.appends)
    };
    let mixed: Vec<&&RecordedStream> =
        streams.iter().filter(|one| in_blocks(one) && streams.iter().any(|other| together(one, other))).collect();
    let first = mixed.first()?;
    let pids: BTreeSet<u32> = mixed.iter().map(|stream| stream.pid).collect();
    let rows: BTreeSet<usize> = mixed.iter().map(|stream| stream.process).collect();
    let blocks: u64 = mixed.iter().map(|stream| stream.blocks).sum();
    let names = crate::profile::few(rows.iter().map(|at| view.name(*at)));
    let text = format!(
        "{} ({names}) write `{}` at the same time, in {} blocks of {}, the size of a buffer: a line at the end of a block \
         goes on behind a block of another process. A file for each, or one call for each line (line buffering), keeps lines \
         whole.",
        counted(pids.len() as u64, "process"),
        clean(&first.file),
        grouped(blocks),
        counted(first.block, "byte")
    );
    Some(Finding { count: Some(blocks), ..Finding::new(FindingKind::Torn, rows, text) })
}

/// Lines of several calls each, between which other processes wrote. Who starts them in between has nothing written within
/// theirs.
fn split(view: &FindingView<'_>, streams: &[&RecordedStream]) -> Option<Finding> {
    let is_text = |stream: &RecordedStream| 4 * stream.lines >= stream.calls;
    let torn_in_blocks: Vec<&&RecordedStream> =
        streams.iter().filter(|stream| stream.appends && stream.split > 0 && is_text(stream)).collect();
    let pids: BTreeSet<u32> = torn_in_blocks.iter().map(|stream| stream.pid).collect();
    let rows: BTreeSet<usize> = torn_in_blocks.iter().map(|stream| stream.process).collect();
    let count: u64 = torn_in_blocks.iter().map(|stream| stream.split).sum();
    let text = format!(
        "{} ({}) append to `{}` at the same time and write a line with several calls: {} times, another one wrote in the middle of \
         a line. One call for each line, or a lock around them (`flock`), keeps lines whole.",
        counted(pids.len() as u64, "process"),
        crate::profile::few(rows.iter().map(|at| view.name(*at))),
        clean(&torn_in_blocks.first()?.file),
        grouped(count)
    );
    (pids.len() > 1 && count >= LEAST)
        .then(|| Finding { count: Some(count), ..Finding::new(FindingKind::Torn, rows, text) })
}

/// `` `main` and 3 children that it forked wrote the same 24 bytes first to the pipe to `cat`: ... ``
pub(crate) fn doubled(view: &FindingView<'_>) -> Vec<Finding> {
    let channels = view.document.channels.iter().enumerate();
    let channels = channels.filter_map(|(at, channel)| Some((Some(at), view.pipe_to(channel), channel.doubled?)));
    let mut files: Vec<&RecordedStream> =
        view.document.streams.iter().filter(|stream| stream.doubled.is_some()).collect();
    files.dedup_by_key(|stream| (stream.inode, stream.device));
    let files =
        files.into_iter().filter_map(|stream| Some((None, format!("`{}`", clean(&stream.file)), stream.doubled?)));
    let text = |(channel, to, doubled): (Option<usize>, String, DoubledBuffer)| {
        let children = if doubled.children == 1 {
            "a child that it forked".to_owned()
        } else {
            format!("{} children that it forked", grouped(doubled.children))
        };
        let text = format!(
            "{} and {children} began with the same {} in {to}: what is in a buffer at a `fork` is written by both. To flush it \
             before (`fflush`), or to end the child with `_exit`, writes it once.",
            view.name(doubled.process),
            counted(doubled.bytes, "byte"),
        );
        let finding = Finding::new(FindingKind::Doubled, [doubled.process], text);
        let channels = channel.into_iter().collect();
        Finding { channels, bytes: Some(doubled.bytes), count: Some(doubled.children), ..finding }
    };
    channels.chain(files).map(text).collect()
}

/// Fewer lines may have been written first on purpose.
const OUT_OF_ORDER_LEAST: u64 = 3;

/// Before a summary of one program, nothing need have been printed.
const LEAST_CHILDREN: u64 = 2;

/// `` `python3 a.py` wrote 8 times to its standard error before it wrote to its standard output, the same pipe, ... ``
pub(crate) fn out_of_order(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, channel, end) in view.writers() {
        let Some(process) = view.process(end) else { continue };
        let Some(switch) = at_once(process) else { continue };
        // All that was printed came at once.
        if end.aside < OUT_OF_ORDER_LEAST || end.printed != 1 || process.pids.len() != 1 {
            continue;
        }
        let text = format!(
            "{} wrote {} times to its standard error before it first wrote to its standard output, the same {}: only standard \
             output is buffered, so what is printed first can come last. {switch} keeps the order.",
            view.name(end.process),
            grouped(end.aside),
            channel.kind.noun()
        );
        let finding = Finding::new(FindingKind::OutOfOrder, [end.process], text);
        found.push(Finding { channels: vec![at], count: Some(end.aside), ..finding });
    }
    found.extend(
        view.writers().filter_map(|(at, channel, end)| {
            Some(Finding { channels: vec![at], ..after_children(view, channel, end)? })
        }),
    );
    found
}

/// What a script printed comes at its end, after what the programs wrote that it had started meanwhile.
fn after_children(view: &FindingView<'_>, channel: &RecordedChannel, end: &RecordedEnd) -> Option<Finding> {
    let process = view.process(end)?;
    let switch = at_once(process)?;
    let [first, _] = end.moved_ns?;
    let is_child = |other: &&RecordedEnd| {
        let child = view.process(other).is_some_and(|of| of.started_by == Some(end.process) && of.execs > 0);
        child && other.bytes > 0 && other.moved_ns.is_some_and(|[_, last]| last <= first)
    };
    let children: Vec<&RecordedEnd> = channel.writers.iter().filter(is_child).collect();
    let count: usize = children.iter().filter_map(|child| view.process(child)).map(|of| of.pids.len()).sum();
    let waits = process.waits.get(&WaitReason::Child).is_some_and(|wait| wait.count >= LEAST_CHILDREN);
    if end.all_calls() != 1 || process.pids.len() != 1 || !waits || (count as u64) < LEAST_CHILDREN {
        return None;
    }
    let text = format!(
        "{} wrote all that it printed at its end ({}), behind what the programs that it had started before ({}) wrote to the \
         same {}: it buffers its output, so what it prints before it starts them comes after theirs. {switch} keeps the order, and so does a \
         flush before each start.",
        view.name(end.process),
        counted(end.bytes, "byte"),
        view.names(children),
        channel.kind.noun()
    );
    Some(Finding::new(FindingKind::OutOfOrder, [end.process], text))
}

/// What a line of a terminal in canonical mode can hold, and its end (`N_TTY_BUF_SIZE`, drivers/tty/n_tty.c). Without this
/// mode, the buffer never has so much at once.
pub(crate) const LONGEST: u64 = 4096;

/// Whether a process waited at the end for more data in the channel: it has read all that is there.
fn is_awaited(document: &Document, channel: &RecordedChannel) -> bool {
    let waits = document.last_look.iter().flat_map(|look| &look.waits);
    waits.flat_map(LastWait::channels).any(|of| !of.room && channel.is(of))
}

/// `` The terminal cut what was typed at 4,095 bytes in a line: `a` read 4,096 of 6,001 bytes. ... ``
pub(crate) fn line_cut(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let mut found = Vec::new();
    for (at, channel) in document.channels.iter().enumerate() {
        // What is shown has an odd number.
        if !channel.is_typed() || document.skipped > 0 || document.is_excerpt() && !is_awaited(document, channel) {
            continue;
        }
        let (typed, read) = (channel.written(), channel.read());
        let whole = LONGEST.ilog2() as usize;
        let lines = |end: &RecordedEnd| end.log2_sizes.get(whole).copied().unwrap_or(0);
        // What is typed to end the input (Ctrl-D) is not read.
        let ended: u64 = channel.readers.iter().map(|end| end.at_end).sum();
        let Some(reader) = channel.readers.iter().find(|end| lines(end) > 0) else { continue };
        // Some was typed and never read in lines as long as they can be.
        if typed <= read + ended || lines(reader) * LONGEST > reader.bytes {
            continue;
        }
        let text = format!(
            "The terminal cut lines at {} bytes: {} read {} of {} that were typed, and the rest is lost. In canonical mode, a line can have no more; \
             `stty -icanon` takes longer ones, and so does a pipe.",
            grouped(LONGEST - 1),
            view.names(&channel.readers),
            grouped(read),
            counted(typed, "byte")
        );
        let finding = Finding::new(FindingKind::LineCut, [reader.process], text);
        found.push(Finding { channels: vec![at], bytes: Some(typed - read), ..finding });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, said_after, silent};
    use crate::result::{AwaitedChannel, ChannelKind, LastLook, LastWait, SeenProcess, WaitedFor};

    /// Eight processes of one name that write at the same time.
    fn eight(recording: &mut Document) {
        let process = &mut recording.recorded[0];
        (process.pids, process.lived_ns) = ((0..8).collect(), 7 * WINDOW);
        let end = &mut recording.channels[0].writers[0];
        (end.parted, end.calls, end.bytes) = (312, [("write".to_owned(), 784)].into(), 784 * 8192);
    }

    /// `cat` writes to it as well, at this time.
    fn second(recording: &mut Document, moved_ns: [u64; 2]) {
        let end = &mut recording.channels[0].writers[0];
        (end.parted, end.moved_ns) = (20, Some([0, 1000]));
        let other = RecordedEnd { process: 2, moved_ns: Some(moved_ns), ..end.clone() };
        recording.channels[0].writers.push(other);
    }

    #[test]
    fn large_writes_of_several_at_once_are_said() {
        let text = "8 processes (`seq`) wrote to the pipe to `grep` at once, 8,192 bytes per call, which is more than PIPE_BUF \
                    (4,096 bytes): 312 of 784 writes waited for room, and the data of others can be in between. \
                    Whole lines in writes of at most 4,096 bytes, or a pipe or file of its own for each, keep them whole.";
        assert_eq!(said(torn, &eight), [text]);
        let two = said(torn, &|recording| second(recording, [500, 2000]));
        assert!(two[0].starts_with("2 processes (`seq` and `cat`) wrote to the pipe to `grep` at once"), "{two:?}");
    }

    #[test]
    fn one_after_the_other_and_atomic_writes_are_not() {
        assert!(said(torn, &|recording| second(recording, [1000, 2000])).is_empty());
        silent(
            &|change| said_after(torn, &eight, change),
            &[
                &|recording| recording.channels[0].writers[0].parted = 0,
                &|recording| recording.recorded[0].pids = vec![1],
                &|recording| recording.recorded[0].lived_ns = WINDOW,
            ],
        );
    }

    type Change<'a> = dyn Fn(&mut [RecordedStream; 2]) + 'a;

    fn two(change: &Change<'_>) -> Vec<String> {
        said(torn_file, &|recording| {
            let stream = |pid: u32| RecordedStream {
                pid,
                opened: u64::from(pid),
                file: "log".to_owned(),
                writes: true,
                calls: 4,
                appends: true,
                block: 8192,
                blocks: 3,
                moved_ns: [0, WINDOW],
                ..RecordedStream::default()
            };
            let mut streams = [stream(1), stream(2)];
            change(&mut streams);
            recording.streams = streams.to_vec();
        })
    }

    #[test]
    fn blocks_of_several_in_one_file_are_said() {
        let text = "2 processes (`seq`) write `log` at the same time, in 6 blocks of 8,192 bytes, the size of a buffer: a line at the \
                    end of a block goes on behind a block of another process. A file for each, or one call for each line (line \
                    buffering), keeps lines whole.";
        assert_eq!(two(&|_| {}), [text]);
        let lines = |split: u64, lines: u64| {
            two(&move |streams| {
                for stream in streams {
                    (stream.block, stream.calls, stream.lines, stream.split) = (20, 1000, lines, split);
                }
            })
        };
        let text = "2 processes (`seq`) append to `log` at the same time and write a line with several calls: 24 times, another one \
                    wrote in the middle of a line. One call for each line, or a lock around them (`flock`), keeps lines whole.";
        assert_eq!(lines(12, 500), [text]);
        assert!(lines(0, 500).is_empty() && lines(12, 4).is_empty(), "whole lines, and what is no text");
        let silent: [&Change<'_>; 5] = [
            &|streams| streams[0].appends = false,
            &|streams| streams[0].block = 8150,
            &|streams| streams[0].calls = 20,
            &|streams| streams[0].inode = 9,
            &|streams| (streams[0].moved_ns, streams[1].moved_ns) = ([0, 10], [20, 30]),
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(two(change).is_empty(), "{at}");
        }
    }

    #[test]
    fn lines_of_threads_that_are_split_are_said() {
        let threads = |split: u64, lines: u64| {
            said(by_threads, &|recording| {
                let end = &mut recording.channels[0].writers[0];
                (end.split, end.lines, end.calls) = (split, lines, [("write".to_owned(), 3000)].into());
            })
        };
        let text = "Threads of `seq` write lines to the pipe to `grep` with several calls each: 24 times, another thread wrote in the middle \
                    of a line. One call for each line (a buffer that is written at its end), or a lock around its calls, keeps lines whole.";
        assert_eq!(threads(24, 1000), [text]);
        assert!(threads(2, 1000).is_empty() && threads(24, 10).is_empty(), "by chance, and what is no text");
        let in_file = |others: u32| {
            said(by_threads, &|recording| {
                let file = |pid| RecordedStream {
                    pid,
                    file: "log".to_owned(),
                    writes: true,
                    calls: 3000,
                    lines: 1000,
                    split: 24,
                    ..RecordedStream::default()
                };
                recording.streams = (1..=others).map(file).collect();
            })
        };
        assert_eq!(in_file(1), [text.replace("the pipe to `grep`", "`log`")]);
        assert!(in_file(2).is_empty(), "another rule says that");
    }

    #[test]
    fn a_buffer_that_was_forked_is_said() {
        let text = "`seq` and 3 children that it forked began with the same 24 bytes in the pipe to `grep`: what is in a buffer at a \
                    `fork` is written by both. To flush it before (`fflush`), or to end the child with `_exit`, writes it once.";
        let doubled = said(doubled, &|recording| {
            recording.channels[0].doubled = Some(DoubledBuffer { process: 0, children: 3, bytes: 24 });
        });
        assert_eq!(doubled, [text]);
        let in_file = said(super::doubled, &|recording| {
            let doubled = Some(DoubledBuffer { process: 0, children: 3, bytes: 24 });
            let file = "log".to_owned();
            recording.streams = vec![RecordedStream { file, writes: true, doubled, ..RecordedStream::default() }];
        });
        assert_eq!(in_file, [text.replace("the pipe to `grep`", "`log`")]);
    }

    fn wrote(line: &str, aside: u64, printed: u64) -> Vec<String> {
        said(out_of_order, &|recording| {
            recording.recorded[0].args = line.split_whitespace().map(str::to_owned).collect();
            let end = &mut recording.channels[0].writers[0];
            (end.aside, end.printed) = (aside, printed);
        })
    }

    #[test]
    fn output_that_is_buffered_behind_standard_error_is_said() {
        let text = "`seq log.py` wrote 8 times to its standard error before it first wrote to its standard output, the same pipe: only \
                    standard output is buffered, so what is printed first can come last. `python3 -u`, or PYTHONUNBUFFERED=1, keeps the order.";
        assert_eq!(wrote("/usr/bin/python3 log.py", 8, 1), [text]);
        for (line, aside, printed) in
            [("python3 -u log.py", 8, 1), ("curl -v", 8, 1), ("python3 log.py", 1, 1), ("python3 log.py", 8, 9)]
        {
            assert!(wrote(line, aside, printed).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_for_a_terminal_is_said() {
        let typed = |change: &dyn Fn(&mut Document)| {
            said(line_cut, &|recording| {
                let channel = &mut recording.channels[0];
                (channel.kind, channel.inode) = (ChannelKind::Pty, 4);
                channel.writers[0].bytes = 6001;
                channel.readers[0].bytes = 4096;
                channel.readers[0].log2_sizes = [vec![0; 12], vec![1]].concat();
                change(recording);
            })
        };
        let text = "The terminal cut lines at 4,095 bytes: `grep` read 4,096 of 6,001 bytes that were typed, and the rest is lost. In \
                    canonical mode, a line can have no more; `stty -icanon` takes longer ones, and so does a pipe.";
        assert_eq!(typed(&|_| {}), [text]);
        let waits = |inode: u64| {
            typed(&|recording| {
                let channel = AwaitedChannel { inode, ..AwaitedChannel::default() };
                let awaited = WaitedFor::Channels { any: vec![channel], others: 0, polled: false, limited: false };
                let wait = LastWait { process: SeenProcess::default(), awaited, endless: true, stuck: true };
                recording.last_look = Some(LastLook { waits: vec![wait], ..LastLook::default() });
                recording.duration_ns = Some(WINDOW);
            })
        };
        assert_eq!(waits(4), [text], "it waits for the rest");
        assert!(waits(6).is_empty(), "it may still read the rest");
        assert!(typed(&|recording| recording.channels[0].inode = 5).is_empty(), "what is shown");
        assert!(typed(&|recording| recording.channels[0].kind = ChannelKind::Pipe).is_empty());
        assert!(typed(&|recording| recording.channels[0].readers[0].log2_sizes = vec![0, 9]).is_empty(), "short lines");
        assert!(typed(&|recording| recording.channels[0].writers[0].bytes = 4096).is_empty(), "all was read");
    }
}
