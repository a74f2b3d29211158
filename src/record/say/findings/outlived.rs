//! A program that ended what it had started, and then waited for what that had started.

use crate::profile::few;
use crate::record::say::findings::view::{FindingView, after};
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd, RecordedProcess};

/// What lives on for so long is not about to end, ns, and it is waited for this part of that.
const LONG_NS: u64 = 300_000_000;
const WAITED: f64 = 0.5;

/// `` `python3 a.py` ended `sh` at 1.04 s, but `sleep`, whose standard output is the same pipe, went on until 4.04 s: ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let channels = view.document.channels.iter().enumerate().filter(|(_, channel)| channel.kind.is_pipe());
    channels.filter_map(|(at, channel)| Some(Finding { channels: vec![at], ..outlived(view, at, channel)? })).collect()
}

fn outlived(view: &FindingView<'_>, at: usize, channel: &RecordedChannel) -> Option<Finding> {
    let reading: Vec<&RecordedEnd> = channel.readers.iter().filter(|end| end.all_calls() + end.sleeps > 0).collect();
    let [reader] = reading[..] else { return None };
    let has = |process: &RecordedProcess| process.output == Some(at);
    let all = || view.document.recorded.iter().enumerate();
    let (ended, target) = all().find(|(_, process)| has(process) && process.ended_by == Some(reader.process))?;
    let holders = all().filter(|(other, process)| {
        *other != ended && *other != reader.process && has(process) && process.end_ns > target.end_ns + LONG_NS
    });
    let holders: Vec<(usize, &RecordedProcess)> = holders.collect();
    let last = holders.iter().map(|(_, process)| process.end_ns).max()?;
    let polls = view.process(reader)?.waits.get(&crate::result::WaitReason::Poll).map_or(0, |wait| wait.ns);
    let waited = reader.blocked_ns + polls;
    if (waited as f64) < WAITED * last.saturating_sub(target.end_ns) as f64 {
        return None;
    }
    let (name, killed) = (view.name(reader.process), view.name(ended));
    let text = format!(
        "{name} ended {killed} at {}, but {}, whose standard output is the same pipe, went on until {}, and {name} waited for the end of \
         the pipe. Signals to the whole group end both (`start_new_session` and `killpg`, `setsid` and `kill -- -PID`).",
        after(target.end_ns),
        few(holders.iter().map(|(at, _)| view.name(*at))),
        after(last)
    );
    let finding = Finding::new(FindingKind::Held, [reader.process, ended], text);
    Some(Finding { at_ns: Some(target.end_ns), ns: Some(last - target.end_ns), ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said};
    use crate::result::Document;

    fn kills(change: &dyn Fn(&mut Document)) -> Vec<String> {
        said(find, &|recording| {
            let target = &mut recording.recorded[0];
            (target.output, target.ended_by, target.signal, target.end_ns) = (Some(0), Some(1), Some(9), WINDOW / 4);
            (recording.recorded[2].output, recording.recorded[2].end_ns) = (Some(0), WINDOW);
            recording.channels[0].readers[0].blocked_ns = WINDOW / 4 * 3;
            change(recording);
        })
    }

    #[test]
    fn what_outlives_a_process_that_was_ended_is_said() {
        let text = "`grep` ended `seq` at 1.00 s, but `cat`, whose standard output is the same pipe, went on until 4.00 s, and `grep` waited \
                    for the end of the pipe. Signals to the whole group end both (`start_new_session` and `killpg`, `setsid` and \
                    `kill -- -PID`).";
        assert_eq!(kills(&|_| {}), [text]);
        let silent: [&dyn Fn(&mut Document); 4] = [
            &|recording| recording.recorded[0].ended_by = Some(2),
            &|recording| recording.recorded[2].output = None,
            &|recording| recording.recorded[2].end_ns = WINDOW / 4,
            &|recording| recording.channels[0].readers[0].blocked_ns = 0,
        ];
        for (at, change) in silent.into_iter().enumerate() {
            assert!(kills(change).is_empty(), "{at}");
        }
    }
}
