//! What a program had in its buffer when a signal ended it.

use crate::record::say::findings::late::{STEPS, at_once};
use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed::by_others;
use crate::result::{Finding, FindingKind, RecordedProcess, WaitReason};
use crate::util::text::counted;

/// Bytes of a write at least that is of a full buffer, and the shortest time after the last one, ns.
const FULL: u64 = 4000;
const SINCE_NS: u64 = 100_000_000;

/// `` `a.py` wrote 8,175 bytes to the FIFO to `cat` with 1 call, the last at 1.58 s, and a signal ended it 1.03 s later: ... ``
pub(crate) fn left_in_buffer(view: &FindingView<'_>) -> Vec<Finding> {
    let each = view.document.recorded.iter().enumerate();
    each.filter_map(|(at, process)| of_process(view, at, process)).collect()
}

/// A script that wrote whole buffers to its standard output only, and a signal that ended it with the next one.
fn of_process(view: &FindingView<'_>, at: usize, process: &RecordedProcess) -> Option<Finding> {
    let (switch, channel) = (at_once(process)?, process.output?);
    let pipe = view.document.channels.get(channel).filter(|pipe| pipe.kind.is_pipe())?;
    let end = pipe.writers.iter().find(|end| end.process == at)?;
    let [_, last] = end.moved_ns.filter(|_| by_others(process) && process.pids.len() == 1)?;
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
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::{Document, WaitTotal};

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
}
