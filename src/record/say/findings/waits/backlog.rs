//! What a program holds in memory, because it reads faster than its reader.

use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess};
use crate::util::text::{clean, counted};

/// Less is a buffer, bytes.
const LEAST: u64 = 16 << 20;

/// So much longer than it read it wrote, ns, and for this part of the time.
const LONG_NS: u64 = 1_000_000_000;
const MUCH: f64 = 0.2;

/// `` `node anon.js` had read all of its input by 2.83 s and wrote until 10.3 s, as fast as `gzip` took it: ... ``
///
/// Who blocks in its writes reads no more meanwhile. Who sorts writes only when it has read all.
pub(crate) fn backlog(view: &FindingView<'_>) -> Vec<Finding> {
    if view.document.skipped > 0 {
        return Vec::new();
    }
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let process = view.process(end).filter(|_| view.is_one(end.process))?;
        let [first, last] = end.moved_ns?;
        let (bytes, read) = input(view, end.process, at)?;
        let goes_on = end.eagain > 0 || process.has_threads();
        let rest = last.saturating_sub(read);
        let is_long = rest >= LONG_NS && rest as f64 >= MUCH * view.window();
        if !goes_on || !is_long || 2 * first > read || !waits_for_room(pipe, process, end) {
            return None;
        }
        // As if its reader took as much at all times.
        let held = (end.bytes as f64 * rest as f64 / last.saturating_sub(first).max(1) as f64) as u64;
        if held.min(bytes) < LEAST {
            return None;
        }
        let peak = match process.peak_memory {
            peak if peak >= held => format!("; it took up to {} in all", counted(peak >> 20, "MiB")),
            _ => String::new(),
        };
        let text = format!(
            "{name} had read all of its input by {}, and wrote until {}, as fast as {} took that: meanwhile, the rest was in its memory, by an \
             estimate {}{peak}. It reads on although its output has no room; to wait for that first (`'drain'` of a stream in node, `drain()` in \
             asyncio, a queue with a limit) needs little memory.",
            after(read),
            after(last),
            view.names(&pipe.readers),
            counted(held >> 20, "MiB"),
            name = view.name(end.process),
        );
        let finding = Finding::new(FindingKind::Backlog, [end.process], text);
        Some(Finding { channels: vec![at], bytes: Some(held), at_ns: Some(read), ..finding })
    });
    found.collect()
}

/// From this much memory on, bytes, and this many times what it read, a program keeps all of it; and less input does not matter.
const LARGE: u64 = 256 << 20;
const TIMES: u64 = 2;
const INPUT: u64 = 8 << 20;

/// What has a program work bit by bit.
const BIT_BY_BIT: [(&str, &str); 3] = [
    ("jq", "`jq --stream` works bit by bit, and so does `jq -n 'inputs | …'` where the input is many values"),
    ("xmllint", "`xmllint --stream` works bit by bit"),
    ("xq", "a parser that reports each element works bit by bit"),
];

/// `` `jq` took up to 910 MiB of memory: it keeps all that it reads; ... ``
pub(crate) fn in_memory(view: &FindingView<'_>) -> Vec<Finding> {
    let keeps = |(at, process): (usize, &RecordedProcess)| {
        let program = BIT_BY_BIT.iter().find(|(name, _)| *name == process.name).map(|(_, how)| *how);
        // Whatever it reads: files that it opened itself are not counted.
        if let Some(how) = program.filter(|_| process.peak_memory >= LARGE && view.is_one(at)) {
            let (name, peak) = (view.name(at), counted(process.peak_memory >> 20, "MiB"));
            let text = format!("{name} took up to {peak} of memory: it keeps all that it reads; {how}.");
            return Some(Finding {
                bytes: Some(process.peak_memory),
                ..Finding::new(FindingKind::Backlog, [at], text)
            });
        }
        if let Some(found) = of_file(view, at, process) {
            return Some(found);
        }
        let (bytes, read) = input(view, at, usize::MAX)?;
        let wrote = wrote_first(view, at);
        let is_large = process.peak_memory >= LARGE.max(TIMES * bytes) && bytes >= INPUT;
        if !is_large || !view.is_one(at) || wrote.is_some_and(|first| first < read) {
            return None;
        }
        let text = format!(
            "{} read all of its input ({}) before it wrote anything, and took up to {} of memory: it keeps all that it reads. A program that \
             works line by line, or record by record, needs little.",
            view.name(at),
            counted(bytes >> 20, "MiB"),
            counted(process.peak_memory >> 20, "MiB")
        );
        Some(Finding { bytes: Some(process.peak_memory), ..Finding::new(FindingKind::Backlog, [at], text) })
    };
    view.document.recorded.iter().enumerate().filter_map(keeps).collect()
}

/// When a process wrote first, to a channel or to its standard output, ns.
fn wrote_first(view: &FindingView<'_>, at: usize) -> Option<u64> {
    let writes = view.writers().filter(|(_, _, end)| end.process == at && end.bytes > 0);
    let writes = writes.filter_map(|(_, _, end)| Some(end.moved_ns?[0]));
    let files = view.document.streams.iter().filter(|stream| stream.process == at && stream.writes);
    writes.chain(files.map(|stream| stream.moved_ns[0])).min()
}

/// So much more memory than a file has bytes is not only a buffer for it.
const TIMES_OF_FILE: u64 = 8;

/// Who writes after so small a part of its life does not keep what it reads until the end.
const EARLY: f64 = 0.2;

/// `` `bedtools` took up to 4,198 MiB of memory, and the file that it read last, `reads.bam`, has 19 MiB: ... ``
fn of_file(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let read = process.last_read.as_ref().filter(|read| read.size >= INPUT && view.is_one(at))?;
    let text = format!(
        "{} took up to {} of memory, and the file that it read last, `{}`, has {}: it keeps what it reads, or what it makes of that. An option \
         that works record by record, as for sorted input, needs little{}.",
        view.name(at),
        counted(process.peak_memory >> 20, "MiB"),
        clean(&read.file),
        counted(read.size >> 20, "MiB"),
        if process.name == "bedtools" { " (for `bedtools`, `-sorted`)" } else { "" }
    );
    let lived = process.end_ns.saturating_sub(process.begin_ns) as f64;
    let streams =
        wrote_first(view, at).is_some_and(|first| (first.saturating_sub(process.begin_ns) as f64) < EARLY * lived);
    let is_much = process.peak_memory >= LARGE.max(TIMES_OF_FILE * read.size) && !streams;
    is_much.then(|| Finding { bytes: Some(process.peak_memory), ..Finding::new(FindingKind::Backlog, [at], text) })
}

/// How much a process read from all others than its channel `output`, and when it did so last.
fn input(view: &FindingView<'_>, process: usize, output: usize) -> Option<(u64, u64)> {
    let channels = view.readers().filter(|(at, _, end)| end.process == process && *at != output);
    let channels = channels.filter_map(|(_, _, end)| Some((end.bytes, end.moved_ns?[1])));
    let streams = view.document.streams.iter().filter(|stream| stream.process == process && !stream.writes);
    let streams = streams.map(|stream| (stream.bytes, stream.moved_ns[1]));
    channels.chain(streams).max_by_key(|(bytes, _)| *bytes)
}

/// Whether a channel's room is why a process writes so long: it found none, or slept for it.
fn waits_for_room(pipe: &RecordedChannel, process: &RecordedProcess, end: &RecordedEnd) -> bool {
    let slept = end.blocked_ns as f64 >= MUCH * process.lived_ns.max(1) as f64;
    !pipe.readers.is_empty() && (end.eagain > 0 || slept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, ReadFile, RecordedStream};

    #[test]
    fn what_is_made_of_a_file_in_memory_is_said() {
        let keeps = |peak: u64| {
            said(in_memory, &|recording| {
                recording.recorded[1].peak_memory = peak;
                recording.channels[1].writers[0].moved_ns = Some([WINDOW / 2, WINDOW]);
                recording.recorded[1].last_read =
                    Some(ReadFile { file: "reads.bam".to_owned(), bytes: 19 << 20, size: 19 << 20 });
            })
        };
        let text = "`grep` took up to 4,198 MiB of memory, and the file that it read last, `reads.bam`, has 19 MiB: ";
        assert!(keeps(4198 << 20)[0].starts_with(text), "{:?}", keeps(4198 << 20));
        assert!(keeps(100 << 20).is_empty());
    }

    #[test]
    fn what_is_kept_in_memory_is_said() {
        let keeps = |change: &dyn Fn(&mut Document)| {
            said(in_memory, &|recording| {
                recording.recorded[1].peak_memory = 900 << 20;
                recording.channels[1].writers[0].process = 1;
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.moved_ns) = (90 << 20, Some([0, WINDOW / 2]));
                recording.channels[1].writers[0].moved_ns = Some([WINDOW / 2, WINDOW]);
                change(recording);
            })
        };
        let text = "`grep` read all of its input (90 MiB) before it wrote anything, and took up to 900 MiB of memory: it keeps all that it reads.";
        assert!(keeps(&|_| {}).concat().starts_with(text), "{:?}", keeps(&|_| {}));
        let jq = keeps(&|recording| {
            recording.recorded[1].name = "jq".to_owned();
            recording.channels[0].readers.clear();
        });
        assert!(
            jq[0].starts_with("`jq` took up to 900 MiB of memory: it keeps all that it reads; `jq --stream`"),
            "{jq:?}"
        );
        silent(
            &keeps,
            &[
                &|recording| recording.recorded[1].peak_memory = 100 << 20,
                &|recording| recording.channels[1].writers[0].moved_ns = Some([0, WINDOW]),
                &|recording| recording.channels[0].readers[0].bytes = 1 << 20,
            ],
        );
    }

    #[test]
    fn what_was_read_too_early_is_said() {
        let held = |change: &dyn Fn(&mut Document)| {
            said(backlog, &|recording| {
                let end = &mut recording.channels[0].writers[0];
                (end.bytes, end.eagain, end.moved_ns) = (100 << 20, 4, Some([0, WINDOW]));
                let file = RecordedStream {
                    process: 0,
                    bytes: 100 << 20,
                    moved_ns: [0, WINDOW / 4],
                    ..RecordedStream::default()
                };
                recording.streams.push(file);
                change(recording);
            })
        };
        let text = "`seq` had read all of its input by 1.00 s, and wrote until 4.00 s, as fast as `grep` took that: meanwhile, the rest was in its \
                    memory, by an estimate 75 MiB. It reads on although";
        assert!(held(&|_| {}).concat().starts_with(text), "{:?}", held(&|_| {}));
        silent(
            &held,
            &[
                &|recording| recording.channels[0].writers[0].eagain = 0,
                &|recording| recording.channels[0].writers[0].bytes = 1 << 20,
                &|recording| recording.streams[0].moved_ns[1] = WINDOW,
                // It sorts.
                &|recording| recording.channels[0].writers[0].moved_ns = Some([WINDOW / 4, WINDOW]),
            ],
        );
    }
}
