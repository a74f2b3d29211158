//! Data that was lost because a program of the pipeline was killed, which the exit code does not show.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess};
use crate::util::text::{counted, grouped};
use std::collections::BTreeSet;

/// A writer notices so soon that its reader has ended, at most, ns.
const SOON: u64 = 100_000_000;

/// `` `gzip` was killed by SIGKILL at 12.3 ms, and 65,536 of 588,895 bytes that `seq` had written for it were not read. The
/// pipeline's exit code is 0. ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.exit_codes.last() != Some(&0) || document.is_excerpt() || document.skipped > 0 {
        return Vec::new();
    }
    let killed = |process: &RecordedProcess| killed::at_once(process.signal);
    let all: Vec<usize> = (0..document.recorded.len()).filter(|at| killed(&document.recorded[*at]).is_some()).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let unread = |pipe: &RecordedChannel| {
        let seen = pipe.kind.is_pipe() && pipe.other_readers.is_empty() && pipe.other_writers.is_empty();
        let unseen = pipe.ends().filter_map(|end| view.process(end)).any(RecordedProcess::moves_unseen);
        pipe.written().checked_sub(pipe.read()).filter(|lost| *lost > 0 && seen && !unseen)
    };
    let mut found = Vec::new();
    for (channel, pipe) in document.channels.iter().enumerate() {
        let readers: BTreeSet<usize> =
            pipe.readers.iter().filter(|end| end.all_calls() > 0).map(|end| end.process).collect();
        // What only it writes itself wakes its own threads.
        let own = |at: usize| pipe.writers.iter().all(|end| end.process == at);
        // So does a byte that another thread writes.
        let is_wake_up = pipe.written() == 1 && pipe.writers.iter().all(|end| end.printed == 0);
        if is_wake_up {
            continue;
        }
        let wrote = pipe.writers.iter().filter_map(|end| end.moved_ns).map(|[first, _]| first).min();
        let lived = |at: &usize| wrote.is_none_or(|first| first < document.recorded[*at].end_ns);
        let of = match readers.into_iter().collect::<Vec<usize>>()[..] {
            [reader] if all.contains(&reader) && !own(reader) && pipe.readers.iter().all(|end| end.at_end == 0) => {
                Some(vec![reader])
            }
            // It was killed before it read: a copy of a shell, or who ended just before its writer got SIGPIPE. What leads out of
            // the recording has other readers.
            // Who was killed itself may have written it for its own threads.
            [] if !leads_out(view, channel) && !pipe.writers.iter().all(|end| all.contains(&end.process)) => Some(
                all.iter()
                    .copied()
                    .filter(|at| lived(at) && !own(*at) && could_read(view, pipe, &document.recorded[*at]))
                    .collect(),
            ),
            _ => None,
        };
        let Some((of, lost)) = of.filter(|of: &Vec<usize>| !of.is_empty()).zip(unread(pipe)) else { continue };
        let signals: BTreeSet<&str> = of.iter().filter_map(|at| killed(&document.recorded[*at])).collect();
        let written = pipe.written();
        let (names, writers) = (few(of.iter().map(|at| view.name(*at))), view.names(&pipe.writers));
        let (were, it) = if of.len() == 1 { ("was", "its") } else { ("were", "their") };
        let part = match lost == written {
            true => counted(lost, "byte"),
            false => format!("{} of {}", grouped(lost), counted(written, "byte")),
        };
        let text = format!(
            "{names} {were} killed by {}, and nobody read {part} that {writers} wrote to {it} pipe: {} lost, and the \
             exit code is 0.",
            few(signals),
            if lost == 1 { "it is" } else { "they are" }
        );
        let at_ns = of.iter().map(|at| document.recorded[*at].end_ns).max();
        let finding = Finding::new(FindingKind::HiddenFailure, of, text);
        found.push(Finding { channels: vec![channel], bytes: Some(lost), at_ns, ..finding });
    }
    found.extend(all.into_iter().filter_map(|at| taken_for_all(view, at)));
    found
}

/// What a killed process, or what it had started, had written by then, if who read that took it for all.
fn taken_for_all(view: &FindingView<'_>, at: usize) -> Option<Finding> {
    let process = view.document.recorded.get(at).filter(|_| view.is_one(at))?;
    let ended = process.end_ns;
    // Whoever ends what it reads does so on purpose.
    let wanted = |end: &RecordedEnd| process.ended_by != Some(end.process);
    let reads_on = |reader: &RecordedEnd| {
        let reads = reader.process != at && reader.at_end > 0 && wanted(reader);
        // The kernel closes its files, which ends the pipe, before it is gone.
        reads && view.process(reader).is_some_and(|of| of.end_ns + SOON >= ended && of.started_by != Some(at))
    };
    let (channel, pipe) = view.document.channels.iter().enumerate().find(|(channel, pipe)| {
        let own = pipe.writers.iter().any(|end| end.process == at && end.bytes > 0);
        let children = process.output == Some(*channel) && process.forks > 0;
        (own || children) && pipe.kind.is_pipe() && pipe.readers.iter().any(reads_on)
    })?;
    let is_of_it =
        |end: &&RecordedEnd| end.process == at || view.process(end).is_some_and(|of| of.started_by == Some(at));
    let bytes: u64 = pipe.writers.iter().filter(is_of_it).map(|end| end.bytes).sum();
    if bytes == 0 {
        return None;
    }
    let sender = match process.ended_by {
        Some(by) if by == at => " that it sent itself".to_owned(),
        Some(by) => format!(" of {}", view.name(by)),
        None => String::new(),
    };
    let text = format!(
        "{} was killed by {}{sender} at {}, after {} to {}, which took that for all: the exit code is 0. {}",
        view.name(at),
        killed::at_once(process.signal)?,
        after(ended),
        counted(bytes, "byte"),
        view.pipe_to(pipe),
        who_sees(view, at, process, pipe)
    );
    let finding = Finding::new(FindingKind::HiddenFailure, [at], text);
    Some(Finding { channels: vec![channel], at_ns: Some(ended), ..finding })
}

/// How the end of a process can be seen.
fn who_sees(view: &FindingView<'_>, at: usize, killed: &RecordedProcess, pipe: &RecordedChannel) -> String {
    let reads = |at: &usize| pipe.readers.iter().any(|end| end.process == *at && end.at_end > 0);
    let Some(starter) = killed.started_by.filter(reads) else {
        return format!("{} shows it.", view.pipefail(at));
    };
    if view.document.recorded.get(starter).is_some_and(|starter| starter.is_shell()) {
        "A shell does not get the exit code of `<(...)`: `wait $!` does.".to_owned()
    } else {
        let name = view.name(starter);
        format!(
            "{name}, which started it, has to look at how it ended: a signal is a negative return code in Python, and a `signal` in node."
        )
    }
}

/// Whether a pipe is the standard output that the recording began with.
fn leads_out(view: &FindingView<'_>, channel: usize) -> bool {
    let is_first = |process: &RecordedProcess| process.started_by.is_none() && process.output == Some(channel);
    view.document.channels[channel].between.is_none() && view.document.recorded.iter().any(is_first)
}

/// Whether a killed process may have been the reader of a pipe that nobody read.
fn could_read(view: &FindingView<'_>, pipe: &RecordedChannel, killed: &RecordedProcess) -> bool {
    let broke = |end: &RecordedEnd| {
        view.process(end).is_some_and(|writer| {
            let is_broken = end.epipe > 0 || writer.signal == Some(libc::SIGPIPE.cast_unsigned());
            is_broken && writer.end_ns.abs_diff(killed.end_ns) < SOON
        })
    };
    killed.execs == 0 || killed.forks > 0 || pipe.writers.iter().any(broke)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    fn kill(recording: &mut Document, at: usize, signal: i32) {
        recording.exit_codes = vec![0];
        recording.recorded[at].signal = Some(signal.cast_unsigned());
    }

    #[test]
    fn what_a_killed_program_did_not_read_or_write_is_said() {
        let unread = said(find, &|recording| {
            kill(recording, 2, libc::SIGKILL);
            recording.channels[1].writers[0].bytes = 5000;
        });
        let text = "`cat` was killed by SIGKILL, and nobody read 4,000 of 5,000 bytes that `grep` wrote to its pipe: they are lost, \
                    and the exit code is 0.";
        assert_eq!(unread, [text]);
        let first = |signal: i32| {
            said(find, &|recording| {
                kill(recording, 2, libc::SIGKILL);
                recording.recorded[2].execs = 1;
                recording.recorded[1].signal = Some(signal.cast_unsigned());
                recording.channels[1].readers.clear();
            })
        };
        let text = "`cat` was killed by SIGKILL, and nobody read 1,000 bytes that `grep` wrote to its pipe: they are lost, and the \
                    exit code is 0.";
        assert_eq!(first(libc::SIGPIPE), [text]);
        assert!(first(libc::SIGTERM).is_empty(), "another one was its reader");
        let out = said(find, &|recording| {
            kill(recording, 2, libc::SIGKILL);
            recording.recorded[0].output = Some(1);
            recording.channels[1].readers.clear();
        });
        assert!(out.is_empty(), "it leads out of the recording: {out:?}");
        let cut = said(find, &|recording| {
            kill(recording, 0, libc::SIGSEGV);
            recording.channels[0].readers[0].at_end = 1;
        });
        let text = "`seq` was killed by SIGSEGV at 4.00 s, after 1,000 bytes to the pipe to `grep`, which took that for all: the \
                    exit code is 0. `set -o pipefail` shows it.";
        assert_eq!(cut, [text]);
    }

    #[test]
    fn what_was_ended_on_purpose_or_is_shown_is_not() {
        for signal in [libc::SIGPIPE, libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
            let ended = said(find, &|recording| {
                kill(recording, 2, signal);
                recording.channels[1].writers[0].bytes = 5000;
            });
            assert!(ended.is_empty(), "{ended:?}");
        }
        assert!(said(find, &|recording| kill(recording, 2, libc::SIGKILL)).is_empty(), "it had read all");
        let shown = said(find, &|recording| {
            kill(recording, 2, libc::SIGKILL);
            recording.channels[1].writers[0].bytes = 5000;
            recording.exit_codes = vec![137];
        });
        assert!(shown.is_empty(), "{shown:?}");
    }
}
