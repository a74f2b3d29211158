//! A program in a loop of a shell that reads what the loop was to read.

use crate::profile::few;
use crate::record::say::findings::view::FindingView;
use crate::record::start::command_line::reads_its_script;
use crate::result::{ChannelKind, DividedReader, Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedStream};
use crate::util::text::{clean, counted, grouped};
use std::collections::BTreeSet;

/// `` `grep` took 24 of 30 bytes of the same pipe that `bash` reads line by line, and which then got no more of them. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, pipe) in view.document.channels.iter().enumerate() {
        found.extend(divided(view, at, pipe));
        found.extend(pipe.readers.iter().filter_map(|end| own_script(view, at, pipe, end)));
        found.extend(pipe.readers.iter().find_map(|end| read_ahead(view, at, pipe, end)));
        // `read` of a shell reads byte by byte, so that others can read on. After a program has, the shell gets the end, or waits
        // for that program.
        let waits = |end: &RecordedEnd| {
            let below = |of: usize| of != end.process && view.with_starters(of).any(|above| above == end.process);
            // A header that the shell reads, and the rest that another program gets, end by themselves.
            let is_ended = view.process(end).is_some_and(|shell| shell.signal.is_some()) || view.document.is_excerpt();
            is_ended && pipe.readers.iter().any(|other| other.at_end > 0 && below(other.process))
        };
        let by_bytes = |end: &&RecordedEnd| {
            end.bytes > 0 && end.bytes + end.at_end == end.all_calls() && (end.at_end > 0 || waits(end))
        };
        let in_shell = |end: &&RecordedEnd| view.process(end).is_some_and(|process| process.is_shell());
        let Some(shell) = pipe.readers.iter().filter(in_shell).find(by_bytes) else { continue };
        let began = shell.moved_ns.map_or(0, |[first, _]| first);
        let is_all = pipe.read() == pipe.written();
        let takes = |end: &&RecordedEnd| {
            let later = view.process(end).is_some_and(|process| process.begin_ns >= began);
            // It read to the end, or all that was left.
            let by_blocks = (end.at_end > 0 || is_all) && end.bytes > end.all_calls() && !in_shell(end);
            // One that looks for keys, as encoders do, takes some bytes only. A shell that reads may be to do so.
            let by_keys = end.bytes + end.at_end == end.all_calls();
            let a_few = by_keys && view.process(end).is_some_and(|process| process.execs > 0 && !process.is_shell());
            end.process != shell.process && end.bytes > 0 && later && (by_blocks || a_few)
        };
        let Some(taker) = pipe.readers.iter().find(takes) else { continue };
        let all = pipe.read();
        let (name, loops) = (view.name(taker.process), view.name(shell.process));
        let rest = if taker.at_end > 0 { "and which then got no more of them" } else { "and which then lacks them" };
        let text = format!(
            "{name} took {} of {} of the same pipe that {loops} reads line by line, {rest}. `</dev/null` behind the command leaves \
             them.",
            taker.bytes,
            counted(all, "byte")
        );
        let finding = Finding::new(FindingKind::Taken, [taker.process, shell.process], text);
        found.push(Finding { channels: vec![at], bytes: Some(taker.bytes), of: Some(all), ..finding });
    }
    found.extend(from_files(view));
    found.extend(view.document.channels.iter().enumerate().find_map(|(at, terminal)| keys(view, at, terminal)));
    found
}

/// `` `bash` and `cat` both read what is typed at the terminal: they got 34 and 34 bytes. ``
///
/// A shell and what it has started take turns.
fn keys(view: &FindingView<'_>, at: usize, terminal: &RecordedChannel) -> Option<Finding> {
    if !terminal.is_typed() {
        return None;
    }
    let apart = |one: usize, other: usize| {
        !view.with_starters(one).any(|of| of == other) && !view.with_starters(other).any(|of| of == one)
    };
    let read = |end: &&RecordedEnd| end.bytes > 0 && view.is_one(end.process) && end.moved_ns.is_some();
    let first = terminal.readers.iter().filter(read).max_by_key(|end| end.bytes)?;
    let between = |end: &&RecordedEnd| {
        let [one, other] = [first, *end].map(|end| end.moved_ns.unwrap_or_default());
        one[0].max(other[0]) < one[1].min(other[1]) && apart(first.process, end.process)
    };
    let second = terminal.readers.iter().filter(read).find(between)?;
    let text = format!(
        "{} and {} both read what is typed at {}: they got {} and {}. Each key goes to one of them only; to see what is \
         typed, `script` or `tee` has to stand between the terminal and its program.",
        view.name(first.process),
        view.name(second.process),
        "the terminal",
        counted(first.bytes, "byte"),
        counted(second.bytes, "byte")
    );
    let finding = Finding::new(FindingKind::Taken, [first.process, second.process], text);
    Some(Finding { channels: vec![at], bytes: Some(second.bytes), of: Some(terminal.read()), ..finding })
}

/// `` `cat (11)` and `cat (12)` read the pipe from `a.py` at the same time: they got 600 and 400 of 1,000 bytes. ``
fn divided(view: &FindingView<'_>, at: usize, pipe: &RecordedChannel) -> Option<Finding> {
    let own = |reader: &DividedReader| Some((view.name_of_one(reader.process, reader.pid)?, grouped(reader.bytes)));
    let (names, parts): (Vec<String>, Vec<String>) = pipe.divided.iter().filter_map(own).unzip();
    let all = pipe.read();
    let remedy = match pipe.kind {
        ChannelKind::Pty => {
            "Each key goes to one of them only: let one ask after the other, as by `sudo -v` before a pipeline with several `sudo`."
        }
        _ => "What one of them reads, the others never get; `tee` in the pipe gives all of it to each.",
    };
    let text = format!(
        "{} read {} at the same time: they got {} of {}. {remedy}",
        few(names),
        view.pipe_from(pipe),
        few(parts),
        counted(all, "byte")
    );
    let processes: BTreeSet<usize> = pipe.divided.iter().map(|reader| reader.process).collect();
    let finding = Finding::new(FindingKind::Taken, processes, text);
    (!pipe.divided.is_empty()).then(|| Finding { channels: vec![at], of: Some(all), ..finding })
}

/// A shell whose script comes from its standard input, which `read` in that script reads, too.
fn own_script(view: &FindingView<'_>, at: usize, pipe: &RecordedChannel, end: &RecordedEnd) -> Option<Finding> {
    let shell = view.process(end).filter(|shell| shell.input == Some(at) && reads_its_script(&shell.args))?;
    let text = format!(
        "`read` in the script of {} took the next line of that script ({}): the script comes from {}, which is its standard \
         input. `read line </dev/tty` asks the terminal, and a script in a file leaves the standard input alone.",
        view.name(end.process),
        counted(end.by_read, "time"),
        view.pipe_from(pipe)
    );
    let finding = Finding { count: Some(end.by_read), ..Finding::new(FindingKind::Taken, [end.process], text) };
    (end.by_read > 0 && shell.is_one()).then(|| Finding { channels: vec![at], ..finding })
}

/// A shell that reads its script in blocks, and what it has started reads the same channel.
fn read_ahead(view: &FindingView<'_>, at: usize, pipe: &RecordedChannel, end: &RecordedEnd) -> Option<Finding> {
    let shell = view.process(end).filter(|shell| shell.is_shell() && reads_its_script(&shell.args))?;
    // bash reads byte by byte, so that others can read on.
    let in_blocks = shell.input == Some(at) && end.bytes > end.all_calls() && pipe.kind.is_pipe();
    let below = |of: usize| of != end.process && view.with_starters(of).any(|above| above == end.process);
    let mut others = pipe.readers.iter().filter(|other| other.bytes > 0 && other.process != end.process);
    let other = others.find(|other| below(other.process)).filter(|_| in_blocks)?;
    let (shell, name) = (view.name(end.process), view.name(other.process));
    let text = format!(
        "{shell} reads its script from {} in blocks, and {name}, which it started, reads the same: {name} got {} of {}, without what \
         {shell} had read ahead by then ({}), which that takes for commands. What is to be read needs a channel of its own, or the script a \
         file; `</dev/null` behind a command leaves the script alone.",
        view.pipe_from(pipe),
        grouped(other.bytes),
        counted(pipe.read(), "byte"),
        counted(end.bytes, "byte"),
    );
    let finding = Finding::new(FindingKind::Taken, [other.process, end.process], text);
    Some(Finding { channels: vec![at], bytes: Some(end.bytes), of: Some(pipe.read()), ..finding })
}

/// The same of a file: the programs in the loop share what the shell has opened, and its place.
fn from_files(view: &FindingView<'_>) -> Vec<Finding> {
    let reads = || view.document.streams.iter().filter(|stream| !stream.writes && !stream.script && stream.bytes > 0);
    let process = |stream: &RecordedStream| view.document.recorded.get(stream.process);
    let is_shell = |stream: &&RecordedStream| process(stream).is_some_and(|process| process.is_shell());
    let taken = |shell: &RecordedStream| {
        let taker = reads().filter(|stream| !is_shell(stream) && stream.at_end > 0).find(|stream| {
            let same = (stream.opened, stream.inode, stream.device) == (shell.opened, shell.inode, shell.device);
            same && stream.moved_ns[0] >= shell.moved_ns[0] && stream.moved_ns[1] <= shell.moved_ns[1]
        })?;
        let (name, loops) = (view.name(taker.process), view.name(shell.process));
        let text = format!(
            "{name} took {} of `{}`, which {loops} reads line by line, and which then got no more of them. `</dev/null` behind \
             the command leaves them.",
            counted(taker.bytes, "byte"),
            clean(&shell.file)
        );
        let finding = Finding::new(FindingKind::Taken, [taker.process, shell.process], text);
        Some(Finding { bytes: Some(taker.bytes), ..finding })
    };
    reads().filter(|stream| is_shell(stream) && stream.at_end > 0).filter_map(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, said_after, silent};
    use crate::result::{ChannelKind, Document, RecordedProcess};

    /// `sh` reads six bytes and the end, and `grep`, which begins then, reads the rest before.
    fn both(recording: &mut Document) {
        recording.recorded.push(RecordedProcess { name: "sh".to_owned(), ..RecordedProcess::default() });
        let calls = |count| [("read".to_owned(), count)].into();
        let shell = RecordedEnd { process: 3, bytes: 6, calls: calls(7), at_end: 1, ..RecordedEnd::default() };
        recording.recorded[1].begin_ns = 1000;
        let pipe = &mut recording.channels[0];
        let end = &mut pipe.readers[0];
        (end.bytes, end.calls, end.at_end) = (24, calls(2), 1);
        pipe.readers.push(RecordedEnd { moved_ns: Some([500, 900]), ..shell });
    }

    #[test]
    fn what_a_command_takes_from_the_loop_is_said() {
        let text = "`grep` took 24 of 30 bytes of the same pipe that `sh` reads line by line, and which then got no more of \
                    them. `</dev/null` behind the command leaves them.";
        assert_eq!(said(find, &both), [text]);
    }

    #[test]
    fn what_is_taken_from_a_loop_that_still_waits_is_said() {
        let waits = |started_by: Option<usize>| {
            said(find, &|recording| {
                both(recording);
                recording.recorded[1].started_by = started_by;
                recording.recorded[3].signal = Some(2);
                let end = &mut recording.channels[0].readers[1];
                (end.calls, end.at_end) = ([("read".to_owned(), 6)].into(), 0);
            })
        };
        assert!(
            waits(Some(3))[0].starts_with("`grep` took 24 of 30 bytes of the same pipe that `sh` reads line by line")
        );
        assert!(waits(None).is_empty(), "not in that loop");
    }

    #[test]
    fn keys_that_a_program_looks_for_are_said() {
        let keys = |name: &str| {
            said(find, &|recording| {
                both(recording);
                (recording.recorded[1].execs, recording.recorded[1].name) = (1, name.to_owned());
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.calls, end.at_end) = (24, [("read".to_owned(), 24)].into(), 0);
            })
        };
        let text = "`ffmpeg` took 24 of 30 bytes of the same pipe that `sh` reads line by line, and which then lacks them. \
                    `</dev/null` behind the command leaves them.";
        assert_eq!(keys("ffmpeg"), [text]);
        assert!(keys("bash").is_empty(), "a script that asks");
    }

    #[test]
    fn a_pipe_that_two_read_at_once_is_said() {
        let divided = said(find, &|recording| {
            let reader = |pid: u32, bytes: u64| DividedReader { process: 1, pid, bytes };
            recording.channels[0].divided = vec![reader(11, 600), reader(12, 400)];
        });
        let text = "`grep` (process 11) and `grep` (process 12) read the pipe from `seq` at the same time: they got 600 and 400 of \
                    1,000 bytes. What one of them reads, the others never get; `tee` in the pipe gives all of it to each.";
        assert_eq!(divided, [text]);
    }

    #[test]
    fn a_script_that_is_read_by_itself_is_said() {
        let script = |line: &str| {
            said(find, &|recording| {
                let shell = &mut recording.recorded[1];
                (shell.name, shell.input) = ("bash".to_owned(), Some(0));
                shell.args = line.split(' ').map(str::to_owned).collect();
                recording.channels[0].readers[0].by_read = 1;
            })
        };
        let text = "`read` in the script of `bash` took the next line of that script (1 time): the script comes from the pipe from `seq`";
        for line in ["bash", "bash -e", "bash -s -- --yes"] {
            assert!(script(line)[0].starts_with(text), "{line}");
        }
        for line in ["bash a.sh", "bash -c read", "grep -s"] {
            assert!(script(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_script_that_is_read_in_blocks_is_said() {
        let script = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let shell = &mut recording.recorded[1];
                (shell.name, shell.input, shell.args) = ("dash".to_owned(), Some(0), vec!["dash".to_owned()]);
                recording.recorded[2].started_by = Some(1);
                let end = RecordedEnd { bytes: 200, calls: [("read".to_owned(), 2)].into(), ..RecordedEnd::default() };
                recording.channels[0].readers.push(RecordedEnd { process: 2, ..end });
                change(recording);
            })
        };
        let text = "`dash` reads its script from the pipe from `seq` in blocks, and `cat`, which it started, reads the same: `cat` got 200 of 1,200 \
                    bytes, without what `dash` had read ahead by then (1,000 bytes), which that takes for commands. What is to be read needs a \
                    channel of its own, or the script a file; `</dev/null` behind a command leaves the script alone.";
        assert_eq!(script(&|_| {}), [text]);
        silent(
            &script,
            &[
                &|recording| recording.recorded[2].started_by = None,
                &|recording| recording.recorded[1].args.push("a.sh".to_owned()),
                &|recording| recording.channels[0].readers[0].calls = [("read".to_owned(), 1000)].into(),
            ],
        );
    }

    #[test]
    fn who_reads_on_purpose_is_not() {
        silent(
            &|change| said_after(find, &both, change),
            &[
                // `read header; sort`: the shell asks no more.
                &|recording| {
                    let shell = &mut recording.channels[0].readers[1];
                    (shell.at_end, shell.calls) = (0, [("read".to_owned(), 6)].into());
                },
                // `head -c 4`, again and again.
                &|recording| recording.channels[0].readers[0].at_end = 0,
                // `seq 9 | (cat; cat)`, and several that read as they can.
                &|recording| recording.channels[0].readers[1].bytes = 0,
                &|recording| recording.channels[0].readers[1].bytes = 2000,
            ],
        );
    }

    #[test]
    fn two_that_read_the_keys_of_one_terminal_are_said() {
        let typed = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let terminal = &mut recording.channels[0];
                (terminal.kind, terminal.inode) = (ChannelKind::Pty, 4);
                let end = |process, bytes, moved_ns| RecordedEnd {
                    process,
                    bytes,
                    calls: [("read".to_owned(), bytes)].into(),
                    moved_ns: Some(moved_ns),
                    ..RecordedEnd::default()
                };
                terminal.readers = vec![end(1, 44, [10, 900]), end(2, 25, [200, 800])];
                change(recording);
            })
        };
        let text = "`grep` and `cat` both read what is typed at the terminal: they got 44 bytes and 25 bytes. Each key goes to one of them \
                    only; to see what is typed, `script` or `tee` has to stand between the terminal and its program.";
        assert_eq!(typed(&|_| {}), [text]);
        silent(
            &typed,
            &[
                // A shell and its program.
                &|recording| recording.recorded[2].started_by = Some(1),
                &|recording| recording.channels[0].readers[1].moved_ns = Some([901, 990]),
                &|recording| recording.channels[0].inode = 5,
            ],
        );
    }
}
