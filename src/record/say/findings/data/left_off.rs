//! Programs that stopped reading before the end of their input.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::programs::reads_all;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd};
use crate::util::text::counted;

/// `` `rec.pl` ended at 12.0 ms, when it had got the end of one pipe from `job.sh`, but not that of the other one: ... ``
pub(crate) fn first_end(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let writer = view.process(end).filter(|writer| writer.is_one())?;
        let broke = end.epipe > 0 || writer.signal == Some(libc::SIGPIPE.cast_unsigned());
        let [reader] = &pipe.readers[..] else { return None };
        // Programs that compare two inputs have not started who writes them.
        let is_child = |of: usize| view.with_starters(of).any(|of| of == reader.process);
        let process = view.process(reader).filter(|_| broke && is_child(end.process))?;
        let is_over = process.end_ns < writer.end_ns && process.signal.is_none() && process.is_one();
        let from_same = |(other, channel, own): &(usize, &RecordedChannel, &RecordedEnd)| {
            let written = channel.writers.iter().all(|of| is_child(of.process));
            // Who starts a program gets an end without a byte when that is executed.
            *other != at && own.process == reader.process && own.at_end > 0 && own.bytes > 0 && channel.kind.is_pipe() && written
        };
        let (other, ..) = view.readers().find(from_same)?;
        if !is_over || reader.at_end > 0 || !pipe.kind.is_pipe() {
            return None;
        }
        let name = view.name(end.process);
        let text = format!(
            "{} ended at {}, when it had got the end of one of the two pipes from {name}: what {name} wrote to the other one after that is \
             lost{}. It has to read on until both are at their end, and then to wait for {name}.",
            view.name(reader.process),
            after(process.end_ns),
            if writer.signal.is_some() { ", and SIGPIPE ended it" } else { " (EPIPE)" }
        );
        let finding = Finding::new(FindingKind::Cut, [reader.process, end.process], text);
        Some(Finding { channels: vec![at, other], at_ns: Some(process.end_ns), ..finding })
    });
    found.take(1).collect()
}

/// `` `coreutils tee` ended at 7.20 ms, before the end of its input: ... ``
pub(crate) fn left_off(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let writer = view.process(end)?;
        let broke = end.epipe > 0 || writer.signal == Some(libc::SIGPIPE.cast_unsigned());
        let [reader] = &pipe.readers[..] else { return None };
        let process = view.process(reader).filter(|_| broke)?;
        let program = process.applet().unwrap_or(&process.name);
        let is_over = process.end_ns < writer.end_ns && process.signal.is_none() && process.exit_code.is_none();
        let is_short = reader.at_end == 0 && reader.eagain == 0 && reader.short > 0 && reader.unsent > 0;
        if !is_over || !is_short || !view.is_one(reader.process) || !reads_all(program) {
            return None;
        }
        let name = view.name(reader.process);
        let how = if writer.signal.is_some() { "was ended by SIGPIPE" } else { "could not (EPIPE)" };
        let text = format!(
            "{name} ended at {} after {}, without the end of its input: {}, which was to write more, {how}. A read that gives less than \
             was asked for is not the end; that is one of 0 bytes.",
            after(process.end_ns),
            counted(reader.bytes, "byte"),
            view.name(end.process)
        );
        let finding = Finding::new(FindingKind::Cut, [reader.process, end.process], text);
        Some(Finding { channels: vec![at], at_ns: Some(process.end_ns), ..finding })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::said;
    use crate::result::Document;

    #[test]
    fn who_takes_a_short_read_for_the_end_is_said() {
        let left = |change: &dyn Fn(&mut Document)| {
            said(left_off, &|recording| {
                recording.recorded[0].signal = Some(libc::SIGPIPE.cast_unsigned());
                let tee = &mut recording.recorded[1];
                (tee.name, tee.end_ns) = ("coreutils".to_owned(), 7_200_000);
                tee.args = ["coreutils", "tee", "log"].map(str::to_owned).to_vec();
                let end = &mut recording.channels[0].readers[0];
                (end.bytes, end.short, end.unsent) = (7, 1, 8185);
                change(recording);
            })
        };
        let text = "`coreutils tee` ended at 7.20 ms after 7 bytes, without the end of its input: `seq`, which was to write more, was ended by \
                    SIGPIPE. A read that gives less than was asked for is not the end; that is one of 0 bytes.";
        assert_eq!(left(&|_| {}), [text]);
        let ignores = left(&|recording| {
            recording.recorded[0].signal = None;
            recording.channels[0].writers[0].epipe = 1;
        });
        assert!(ignores[0].contains("`seq`, which was to write more, could not (EPIPE)."), "{ignores:?}");
        assert!(left(&|recording| recording.recorded[1].args[1] = "head".to_owned()).is_empty());
        assert!(left(&|recording| recording.channels[0].readers[0].at_end = 1).is_empty());
        assert!(left(&|recording| recording.recorded[1].exit_code = Some(1)).is_empty(), "it failed");
    }

    #[test]
    fn who_ends_at_the_first_of_two_ends_is_said() {
        let two = |change: &dyn Fn(&mut Document)| {
            said(first_end, &|recording| {
                // `seq`, a child of `grep`, writes to both of its pipes.
                (recording.recorded[0].started_by, recording.recorded[0].signal) = (Some(1), Some(13));
                recording.recorded[1].end_ns = 12_000_000;
                recording.channels[1].writers.clear();
                recording.channels[1].readers[0].process = 1;
                recording.channels[1].readers[0].at_end = 1;
                change(recording);
            })
        };
        let text = "`grep` ended at 12.0 ms, when it had got the end of one of the two pipes from `seq`: what `seq` wrote to the other one \
                    after that is lost, and SIGPIPE ended it. It has to read on until both are at their end, and then to wait for `seq`.";
        assert_eq!(two(&|_| {}), [text]);
        assert!(two(&|recording| recording.recorded[0].started_by = None).is_empty(), "as `cmp <(a) <(b)`");
        assert!(two(&|recording| recording.channels[0].readers[0].at_end = 1).is_empty());
    }
}
