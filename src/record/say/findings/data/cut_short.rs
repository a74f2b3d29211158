//! What a signal, a closed terminal or a kill cut short: reads that are not begun anew, output to a terminal that is gone, and files
//! that were emptied and not written again.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed;
use crate::result::{ChannelKind, Finding, FindingKind, NameUse};
use crate::util::text::{clean, grouped};

/// A program ends so long after what it does not get over, at most, ns.
const SOON: u64 = 300_000_000;

pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    [interrupted(view), hung_up(view), emptied(view), refused(view)].into_iter().flatten().collect()
}

/// `` `ttyplot` ended at 0.62 s after a read had failed, before the end of the FIFO from `bash`: ... ``
fn interrupted(view: &FindingView<'_>) -> Option<Finding> {
    view.readers().find_map(|(at, pipe, end)| {
        let process = view.process(end).filter(|_| pipe.kind.is_pipe() && end.errors > 0 && end.at_end == 0)?;
        // Who was to end does so.
        let by_itself = process.signal.is_none() && process.told_to_end_ns.is_none() && view.is_one(end.process) && !process.has_threads();
        let window = view.document.processes.window_ns;
        let writes_on = |writer: &crate::result::RecordedEnd| {
            let lives_on = view.process(writer).is_some_and(|of| of.end_ns > process.end_ns + SOON);
            writer.process != end.process && (writer.epipe > 0 || lives_on)
        };
        let last = end.moved_ns.map_or(0, |[_, last]| last);
        if !by_itself || process.end_ns >= window || last > process.end_ns || !pipe.writers.iter().any(writes_on) {
            return None;
        }
        let text = format!(
            "{} ended at {} after a read had failed, before the end of {}: a signal for which it has a handler, such as SIGWINCH or \
             SIGCHLD, interrupts a read (EINTR), unless the handler was set with SA_RESTART. An interrupted read is not the end of the \
             input: it has to read again.",
            view.name(end.process),
            after(process.end_ns),
            view.pipe_from(pipe),
        );
        let finding = Finding::new(FindingKind::Cut, [end.process], text);
        Some(Finding { channels: vec![at], at_ns: Some(process.end_ns), ..finding })
    })
}

/// `` `node agent.js` could not write to its terminal any more (EIO), which `python3 term.py` had closed, and ended by SIGABRT ... ``
fn hung_up(view: &FindingView<'_>) -> Option<Finding> {
    view.writers().find_map(|(at, terminal, end)| {
        let process = view.process(end).filter(|_| terminal.kind == ChannelKind::Pty && end.errors > 0)?;
        let [reader] = &terminal.readers[..] else { return None };
        let last = end.moved_ns.map_or(0, |[_, last]| last).max(reader.moved_ns.map_or(0, |[_, last]| last));
        let crashed = process.signal.filter(|_| !killed::by_others(process));
        let how = match (crashed, process.exit_code) {
            (Some(_), _) => format!("was ended by {}", killed::at_once(crashed)?),
            (None, Some(code)) if code > 0 => format!("failed with exit code {code}"),
            _ => return None,
        };
        if !view.is_one(end.process) || process.end_ns < last || reader.process == end.process {
            return None;
        }
        let text = format!(
            "{name} could not write to its terminal any more (EIO), because {} had closed the other side, and {how} at {}. It has to expect that \
             its output can fail: `nohup`, `setsid` and a file in place of the terminal, or a handler of the error, keep it alive.",
            view.name(reader.process),
            after(process.end_ns),
            name = view.name(end.process),
        );
        let finding = Finding::new(FindingKind::Broken, [end.process], text);
        Some(Finding { channels: vec![at], at_ns: Some(process.end_ns), ..finding })
    })
}

/// `` `node a.js` was ended by SIGKILL at 2.03 s, after it had emptied `plan.json` and before it had written it again ... ``
fn emptied(view: &FindingView<'_>) -> Option<Finding> {
    let files = view.document.named_files.iter();
    let mut empties = files.filter(|file| file.does == NameUse::Empties && file.error.is_none() && file.inode > 0);
    empties.find_map(|file| {
        let process = view.document.recorded.get(file.process).filter(|of| of.signal.is_some())?;
        let signal = killed::at_once(process.signal).or_else(|| killed::requested(process))?;
        let at = file.at_ns[1];
        let own = view.document.streams.iter().filter(|of| of.writes && of.inode == file.inode && of.pid == file.pid);
        // It has written it before.
        let last = own.map(|stream| stream.moved_ns[1]).max()?;
        let is_soon = process.end_ns.saturating_sub(at) < SOON;
        if last > at || !is_soon || !view.is_one(file.process) {
            return None;
        }
        let text = format!(
            "{} was ended by {signal} at {}, after it had emptied `{}` (O_TRUNC, at {}) and before it had written it again: what was in it \
             is lost. Write a new file and rename it over the old one: its readers then always get a whole one.",
            view.name(file.process),
            after(process.end_ns),
            clean(file.last_name()),
            after(at),
        );
        let finding = Finding::new(FindingKind::Cut, [file.process], text);
        Some(Finding { at_ns: Some(at), ..finding })
    })
}

/// Fewer writes that failed are those of who has just not noticed.
const MANY: u64 = 1000;

/// `` `node a.js` went on although 51,668 of its writes failed with EPIPE ... ``, at sockets whose other side
/// had been closed before.
fn refused(view: &FindingView<'_>) -> Option<Finding> {
    let all = view.document.recorded.iter().enumerate();
    all.filter(|(at, process)| process.refused_writes >= MANY && view.is_one(*at)).find_map(|(at, process)| {
        let known: u64 = view.writers().filter(|(_, _, end)| end.process == at).map(|(_, _, end)| end.epipe).sum();
        let rest = process.refused_writes.checked_sub(known).filter(|rest| *rest >= MANY)?;
        let text = format!(
            "{} went on although {} of its writes failed with EPIPE, because who was to read that had ended: it ignores or catches \
             SIGPIPE. It has to end at the first one, and not to report the error to the same place.",
            view.name(at),
            grouped(rest),
        );
        Some(Finding { count: Some(rest), ..Finding::new(FindingKind::Broken, [at], text) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, WINDOW, said, silent};
    use crate::result::{Document, NamedFile, RecordedStream};

    #[test]
    fn a_read_that_is_not_begun_anew_is_said() {
        let cut = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                recording.recorded[1].end_ns = WINDOW / 4;
                let pipe = &mut recording.channels[0];
                (pipe.readers[0].errors, pipe.readers[0].at_end, pipe.writers[0].epipe) = (1, 0, 1);
                pipe.readers[0].moved_ns = Some([1, 2]);
                change(recording);
            })
        };
        let text = "`grep` ended at 1.00 s after a read had failed, before the end of the pipe from `seq`: a signal for which it has a \
                    handler, such as SIGWINCH or SIGCHLD, interrupts a read (EINTR), unless the handler was set with SA_RESTART. An \
                    interrupted read is not the end of the input: it has to read again.";
        assert_eq!(cut(&|_| {}), [text]);
        silent(
            &cut,
            &[
                &|recording| recording.channels[0].readers[0].errors = 0,
                &|recording| recording.channels[0].readers[0].at_end = 1,
                &|recording| recording.recorded[1].told_to_end_ns = Some(5),
                &|recording| recording.recorded[1].signal = Some(15),
                &|recording| recording.recorded[1].end_ns = WINDOW,
            ],
        );
    }

    #[test]
    fn output_to_a_closed_terminal_is_said() {
        let hung = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                recording.channels[0].kind = ChannelKind::Pty;
                recording.channels[0].writers[0].errors = 1;
                (recording.recorded[0].signal, recording.recorded[0].end_ns) = (Some(6), WINDOW);
                change(recording);
            })
        };
        let text = "`seq` could not write to its terminal any more (EIO), because `grep` had closed the other side, and was ended by \
                    SIGABRT at";
        assert!(hung(&|_| {}).concat().starts_with(text), "{:?}", hung(&|_| {}));
        silent(
            &hung,
            &[
                &|recording| recording.channels[0].writers[0].errors = 0,
                &|recording| recording.recorded[0].signal = None,
                &|recording| recording.channels[0].kind = ChannelKind::Pipe,
            ],
        );
    }

    #[test]
    fn many_writes_that_fail_are_said() {
        let text = "`seq` went on although 51,668 of its writes failed with EPIPE, because who was to read that had ended: it ignores or \
                    catches SIGPIPE. It has to end at the first one, and not to report the error to the same place.";
        assert_eq!(said(find, &|recording| recording.recorded[0].refused_writes = 51_668), [text]);
        let known = said(find, &|recording| {
            recording.recorded[0].refused_writes = 51_668;
            recording.channels[0].writers[0].epipe = 51_000;
        });
        assert!(known.is_empty(), "{known:?}");
    }

    #[test]
    fn a_file_that_was_emptied_before_the_kill_is_said() {
        let cut = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                (recording.recorded[0].signal, recording.recorded[0].end_ns) = (Some(9), 2020 * MS);
                let (inode, pid, at_ns) = (7, 11, [100 * MS, 2000 * MS]);
                let path = "/d/plan.json".to_owned();
                recording.named_files =
                    vec![NamedFile { path, does: NameUse::Empties, inode, pid, at_ns, ..NamedFile::default() }];
                recording.streams = vec![RecordedStream {
                    writes: true,
                    inode,
                    pid,
                    moved_ns: [110 * MS, 1900 * MS],
                    ..RecordedStream::default()
                }];
                change(recording);
            })
        };
        let text = "`seq` was ended by SIGKILL at 2.02 s, after it had emptied `plan.json` (O_TRUNC, at 2.00 s) and before it had written \
                    it again: what was in it is lost. Write a new file and rename it over the old one: its readers then always get a whole \
                    one.";
        assert_eq!(cut(&|_| {}), [text]);
        silent(
            &cut,
            &[
                &|recording| recording.recorded[0].signal = None,
                &|recording| recording.streams[0].moved_ns[1] = 2001 * MS,
                &|recording| recording.streams.clear(),
                &|recording| recording.named_files[0].at_ns[1] = 1000 * MS,
            ],
        );
    }
}
