//! What a program had in its buffer when a signal ended it.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::findings::waits::late::{STEPS, at_once, is_script};
use crate::record::say::killed::{self, by_others};
use crate::report::number::time;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedProcess, WaitReason};
use crate::util::text::{clean, counted};

/// Bytes of a write at least that is of a full buffer, and the shortest time after the last one, ns.
const FULL: u64 = 4000;
const SINCE_NS: u64 = 100_000_000;

/// `` `a.py` wrote 8,175 bytes to the FIFO to `cat` with 1 call, the last at 1.58 s, and a signal ended it 1.03 s later: ... ``
pub(crate) fn left_in_buffer(view: &FindingView<'_>) -> Vec<Finding> {
    let each = view.document.recorded.iter().enumerate();
    let rules = [of_process, not_flushed, nothing_yet];
    each.filter_map(|(at, process)| rules.iter().find_map(|find| find(view, at, process))).collect()
}

/// `` `python3 a.py` wrote nothing to `nohup.out` in 8.00 s, in which it slept 15 times: ... `` A script that works in steps, whose
/// output is a file to which nobody wrote, or a pipe.
fn nothing_yet(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let switch = at_once(process).filter(|_| view.is_one(at))?;
    let steps = process.waits.get(&WaitReason::Timer).map_or(0, |wait| wait.count);
    let lived = process.end_ns.min(view.document.processes.window_ns).saturating_sub(process.begin_ns);
    let goes_on = view.document.is_excerpt() && process.signal.is_none();
    if lived < LONG_NS || steps < STEPS || !(goes_on || by_others(process)) {
        return None;
    }
    let to = match (process.output, process.output_file) {
        (Some(at), _) => {
            let pipe = view.document.channels.get(at).filter(|pipe| pipe.kind.is_pipe() && pipe.written() == 0)?;
            view.pipe_to(pipe)
        }
        (None, Some([inode, device])) => {
            let is_it = |other: (u64, u32)| other == (inode, device as u32);
            let mut written = view.document.streams.iter().filter(|stream| stream.writes);
            let mut names = view.document.named_files.iter().filter(|file| is_it((file.inode, file.device)));
            let name = names.next().filter(|_| !written.any(|stream| is_it((stream.inode, stream.device))))?;
            format!("`{}`", clean(name.last_name()))
        }
        (None, None) => return None,
    };
    let text = format!(
        "{} wrote nothing to {to} in {}, in which it slept {}: what it prints is in its buffer until that has 8 KiB, and is lost if a \
         signal ends it. {switch} writes at once.",
        view.name(at),
        time(lived as f64 / 1e9),
        counted(steps, "time")
    );
    let channels = process.output.into_iter().collect();
    Some(Finding { channels, ns: Some(lived), ..Finding::new(FindingKind::Unsent, [at], text) })
}

/// Who waits for this part of its life, and lived so long, ns, does nothing with what it has printed.
const WAITS: f64 = 0.5;
const LONG_NS: u64 = 1_000_000_000;

/// Programs that ask what their standard output is for another reason.
const ASKS: [&str; 14] =
    ["cat", "dd", "grep", "gzip", "mbuffer", "pv", "ssh", "tail", "tar", "tee", "watch", "xz", "yes", "zstd"];

/// `` `snooze` wrote nothing to the pipe to `cat`, but asked what that is: what it printed is in its buffer while it waits. ``
///
/// The C library asks what its standard output is (`fstat`) when it first puts something into its buffer (libio/filedoalloc.c of glibc).
/// A program that reads others' data may ask that itself.
fn not_flushed(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let channel = process.output.filter(|_| process.asked_output > 0 && process.is_one())?;
    let pipe = view.document.channels.get(channel).filter(|pipe| pipe.kind.is_pipe())?;
    let lived = process.end_ns.min(view.document.processes.window_ns).saturating_sub(process.begin_ns);
    let waits = [WaitReason::Timer, WaitReason::Poll, WaitReason::Network, WaitReason::Signal];
    let slept: u64 = waits.iter().filter_map(|why| process.waits.get(why)).map(|wait| wait.ns).sum();
    let crashed = !by_others(process) && killed::at_once(process.signal).is_some();
    let is_ended = by_others(process) || crashed;
    let goes_on = view.document.is_excerpt() && process.signal.is_none();
    let is_known = is_script(process) || process.is_shell() || ASKS.contains(&process.name.as_str());
    let waits_long = lived >= LONG_NS && slept as f64 >= WAITS * lived as f64;
    if is_known || !(crashed || waits_long && (is_ended || goes_on)) {
        return None;
    }
    let mut ends = view.document.channels.iter().flat_map(RecordedChannel::ends);
    if ends.any(|end| end.process == at && end.all_calls() + end.sleeps > 0) {
        return None;
    }
    let then = if is_ended { ", and is lost when a signal ends it" } else { " while it waits" };
    let text = format!(
        "{} wrote nothing to {}, but asked what that is (`fstat`), as programs of C do when they first print: what it printed is in its \
         buffer{then}. `stdbuf -oL` before the command, or `fflush`, writes at once.",
        view.name(at),
        view.pipe_to(pipe)
    );
    Some(Finding { channels: vec![channel], ..Finding::new(FindingKind::Unsent, [at], text) })
}

/// A script that wrote whole buffers to its standard output only, and a signal that ended it with the next one.
fn of_process(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let (switch, channel) = (at_once(process)?, process.output?);
    let pipe = view.document.channels.get(channel).filter(|pipe| pipe.kind.is_pipe())?;
    let end = pipe.writers.iter().find(|end| end.process == at)?;
    let [_, last] = end.moved_ns.filter(|_| by_others(process) && process.is_one())?;
    let (writes, since) = (end.all_calls(), process.end_ns.saturating_sub(last));
    let steps = process.waits.get(&WaitReason::Timer).map_or(0, |wait| wait.count);
    let by_buffers = end.bytes >= FULL * writes && steps >= STEPS * writes;
    (by_buffers && since >= SINCE_NS && end.short + end.epipe + end.eagain == 0).then(|| {
        let text = format!(
            "{} wrote {} to {} with {}, the last at {}, and a signal ended it {} later: what it printed in between was in its buffer, and is \
             lost. {switch} writes at once.",
            view.name(at),
            counted(end.bytes, "byte"),
            view.pipe_to(pipe),
            counted(writes, "call"),
            after(last),
            after(since)
        );
        Finding { channels: vec![channel], ..Finding::new(FindingKind::Unsent, [at], text) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent, used};
    use crate::result::{Document, NameUse, NamedFile, RecordedStream, WaitTotal};

    #[test]
    fn what_a_signal_ends_with_a_part_of_its_output_is_said() {
        let ended = |change: &dyn Fn(&mut Document)| {
            said(left_in_buffer, &|recording| {
                let process = &mut recording.recorded[0];
                process.args = vec!["python3".to_owned(), "a.py".to_owned()];
                (process.signal, process.output, process.end_ns) = (Some(9), Some(0), WINDOW);
                process.waits = [(WaitReason::Timer, WaitTotal { ns: WINDOW / 10 * 9, count: 170 })].into();
                let end = &mut recording.channels[0].writers[0];
                (end.bytes, end.calls) = (8175, [("write".to_owned(), 1)].into());
                end.moved_ns = Some([WINDOW / 2, WINDOW / 2]);
                change(recording);
            })
        };
        let text = "`seq a.py` wrote 8,175 bytes to the pipe to `grep` with 1 call, the last at 2.00 s, and a signal ended it 2.00 s later: what it \
                    printed in between was in its buffer, and is lost. `python3 -u`, or PYTHONUNBUFFERED=1, writes at once.";
        assert_eq!(ended(&|_| {}), [text]);
        silent(
            &ended,
            &[
                &|recording| recording.recorded[0].signal = None,
                &|recording| recording.channels[0].writers[0].bytes = 40,
                &|recording| recording.recorded[0].args.push("-u".to_owned()),
                &|recording| recording.recorded[0].end_ns = WINDOW / 2 + 1000,
            ],
        );
    }

    #[test]
    fn a_script_that_has_written_nothing_yet_is_said() {
        let printed = |change: &dyn Fn(&mut Document)| {
            said(left_in_buffer, &|recording| {
                recording.duration_ns = Some(WINDOW);
                let process = &mut recording.recorded[2];
                process.args = vec!["python3".to_owned(), "a.py".to_owned()];
                (process.output_file, process.begin_ns, process.end_ns) = (Some([7, 1]), 0, WINDOW);
                process.waits = [(WaitReason::Timer, WaitTotal { ns: WINDOW / 10 * 9, count: 15 })].into();
                recording.named_files = vec![NamedFile { device: 1, ..used(2, NameUse::Creates, 1) }];
                change(recording);
            })
        };
        let text = "`cat a.py` wrote nothing to `f` in 4.00 s, in which it slept 15 times: what it prints is in its buffer until that has 8 \
                    KiB, and is lost if a signal ends it. `python3 -u`, or PYTHONUNBUFFERED=1, writes at once.";
        assert_eq!(printed(&|_| {}), [text]);
        silent(
            &printed,
            &[
                &|recording| recording.duration_ns = None,
                &|recording| recording.recorded[2].args.push("-u".to_owned()),
                &|recording| recording.recorded[2].output_file = Some([8, 1]),
                &|recording| {
                    let stream = RecordedStream { inode: 7, device: 1, writes: true, ..RecordedStream::default() };
                    recording.streams = vec![stream];
                },
            ],
        );
    }

    #[test]
    fn what_is_printed_and_not_written_is_said() {
        let printed = |change: &dyn Fn(&mut Document)| {
            said(left_in_buffer, &|recording| {
                recording.duration_ns = Some(WINDOW);
                recording.channels[0].writers.clear();
                let process = &mut recording.recorded[0];
                process.args = vec!["snooze".to_owned()];
                (process.asked_output, process.output, process.end_ns) = (1, Some(0), WINDOW);
                process.waits = [(WaitReason::Timer, WaitTotal { ns: WINDOW / 10 * 9, count: 1 })].into();
                change(recording);
            })
        };
        let text = "`seq` wrote nothing to the pipe to `grep`, but asked what that is (`fstat`), as programs of C do when they first print: \
                    what it printed is in its buffer while it waits. `stdbuf -oL` before the command, or `fflush`, writes at once.";
        assert_eq!(printed(&|_| {}), [text]);
        let ended = printed(&|recording| recording.recorded[0].signal = Some(15));
        assert!(ended[0].contains("is in its buffer, and is lost when a signal ends it."), "{ended:?}");
        let crashed = printed(&|recording| {
            recording.recorded[0].waits.clear();
            recording.recorded[0].signal = Some(11);
        });
        assert_eq!(crashed, ended);
        silent(
            &printed,
            &[
                &|recording| recording.recorded[0].asked_output = 0,
                &|recording| recording.recorded[0].args.clear(),
                &|recording| recording.recorded[0].name = "cat".to_owned(),
                &|recording| {
                    recording.recorded[0].waits.clear();
                    recording.recorded[0].signal = Some(9);
                },
                &|recording| recording.channels[1].readers[0].process = 0,
            ],
        );
    }
}
