//! Output of programs that who started them never read.

use crate::record::say::findings::view::FindingView;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedProcess};
use crate::util::text::counted;

/// What one program wrote so to its standard output.
#[derive(Default)]
struct Unread {
    channels: Vec<usize>,
    bytes: u64,
}

/// `` `sh` wrote 180 bytes to its standard output in 20 runs, which nobody read, although `run.py` had made pipes for them: ... ``
///
/// A shell gives each pipe to a program that is to read it.
pub(crate) fn unread_child(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    if document.is_excerpt() || document.skipped > 0 {
        return Vec::new();
    }
    let of = |at: usize| document.recorded.get(at);
    let reads = |at: usize| view.readers().any(|(_, _, end)| end.process == at && end.bytes > 0);
    let maker = |process: &RecordedProcess| {
        let by = process.started_by?;
        let later = |maker: &&RecordedProcess| maker.end_ns > process.end_ns;
        let maker = of(by).filter(|maker| !maker.is_shell() && !maker.moves_unseen()).filter(later)?;
        (maker.execs > 0 && view.is_one(by) && reads(by)).then_some(by)
    };
    let mut found: Vec<((usize, usize), Unread)> = Vec::new();
    for (at, pipe) in document.channels.iter().enumerate().filter(|(_, pipe)| is_unread(pipe)) {
        let [end] = &pipe.writers[..] else { continue };
        // Of a row of several processes, each has one of its own.
        let is_output = |process: &&RecordedProcess| {
            let several = process.output.is_none() && process.execs > 0 && process.pids.len() > 1;
            process.signal.is_none() && (process.output == Some(at) || several)
        };
        let Some(by) = of(end.process).filter(is_output).and_then(maker) else { continue };
        // A pipe that who started it has as its own output is for others.
        if view.with_starters(by).any(|of| document.recorded[of].output == Some(at)) {
            continue;
        }
        let key = (end.process, by);
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, unread)) => {
                unread.channels.push(at);
                unread.bytes += pipe.written();
            }
            None => found.push((key, Unread { channels: vec![at], bytes: pipe.written() })),
        }
    }
    let text = |((process, by), unread): ((usize, usize), Unread)| {
        let (name, maker) = (view.name(process), view.name(by));
        let runs = unread.channels.len() as u64;
        let text = format!(
            "{name} wrote {} to {} to {maker}, which never read {}: that is lost. {maker} has to read until the end of each, also when the \
             process has ended already; what it does not want can go to /dev/null.",
            counted(unread.bytes, "byte"),
            counted(runs, "pipe"),
            if runs == 1 { "it" } else { "them" }
        );
        let finding = Finding::new(FindingKind::NeverRead, [process, by], text);
        Finding { channels: unread.channels, bytes: Some(unread.bytes), ..finding }
    };
    found.into_iter().map(text).collect()
}

fn is_unread(pipe: &RecordedChannel) -> bool {
    pipe.kind.is_pipe() && pipe.written() > 0 && pipe.readers.is_empty() && pipe.other_readers.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{said, silent};
    use crate::result::Document;

    #[test]
    fn output_that_its_starter_never_reads_is_said() {
        let lost = |change: &dyn Fn(&mut Document)| {
            said(unread_child, &|recording| {
                recording.recorded.iter_mut().for_each(|process| process.execs = 1);
                // `cat` has started `grep`, and reads something else.
                recording.recorded[1].started_by = Some(2);
                recording.recorded[1].end_ns = 5;
                recording.recorded[1].output = Some(1);
                recording.channels[1].readers.clear();
                let writer = &mut recording.channels[1].writers[0];
                (writer.bytes, writer.calls) = (9, [("write".to_owned(), 1)].into());
                let reader = &mut recording.channels[0].readers[0];
                (reader.process, reader.bytes) = (2, 8);
                change(recording);
            })
        };
        let text = "`grep` wrote 9 bytes to 1 pipe to `cat`, which never read it: that is lost. `cat` has to read until the end of each, also \
                    when the process has ended already; what it does not want can go to /dev/null.";
        assert_eq!(lost(&|_| {}), [text]);
        let row = lost(&|recording| {
            (recording.recorded[1].output, recording.recorded[1].pids) = (None, vec![2, 9]);
        });
        assert_eq!(row, [text], "of several, it is unknown");
        silent(
            &lost,
            &[
                &|recording| recording.recorded[2].name = "bash".to_owned(),
                &|recording| recording.recorded[2].output = Some(1),
                &|recording| recording.recorded[1].output = None,
                &|recording| recording.recorded[1].started_by = None,
                &|recording| recording.recorded[1].signal = Some(13),
                &|recording| recording.channels[0].readers[0].bytes = 0,
                &|recording| recording.duration_ns = Some(1),
            ],
        );
    }
}
