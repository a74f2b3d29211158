//! Signals that the kernel sends to a child when the thread that started it ends.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::killed;
use crate::result::{Finding, FindingKind, RecordedProcess};

/// A process that ends so soon afterwards ended itself, ns.
const SOON_NS: u64 = 10_000_000;

/// `` `job.sh` was ended by SIGKILL at 1.20 s, which the kernel sent when the thread of `runc` ended that had started it ... ``
pub(crate) fn find(view: &FindingView<'_>) -> Vec<Finding> {
    let document = view.document;
    let found = |(at, process): (usize, &RecordedProcess)| {
        let (ended, by) = (process.ended_by_thread?, process.ended_by?);
        let parent = document.recorded.get(by)?;
        let signal = killed::requested(process)?;
        let (name, who) = (view.name(at), view.name(by));
        let asked = "as the child had asked for (`prctl` with PR_SET_PDEATHSIG)";
        let (kind, text) = if parent.end_ns > ended + SOON_NS {
            let text = format!(
                "{name} was ended by {signal} at {}, which nobody sent by a call: the kernel did, {asked}, when the thread of {who} ended that had \
                 started it. That is for the thread, not for the process: {who} has to start it from a thread that stays, such as the first \
                 one, or without PR_SET_PDEATHSIG.",
                after(ended)
            );
            (FindingKind::GroupEnded, text)
        } else {
            let at = after(ended);
            let text =
                format!("{name} was ended by {signal} at {at} when {who}, which had started it, ended, {asked}.");
            (FindingKind::Ended, text)
        };
        Some(Finding { at_ns: Some(ended), ..Finding::new(kind, [at, by], text) })
    };
    document.recorded.iter().enumerate().filter_map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::Document;

    #[test]
    fn a_thread_that_ends_and_its_child_are_said() {
        let ended = |change: &dyn Fn(&mut Document)| {
            said(find, &|recording| {
                let child = &mut recording.recorded[1];
                (child.signal, child.ended_by, child.ended_by_thread) = (Some(15), Some(0), Some(WINDOW / 4));
                change(recording);
            })
        };
        let asked = "as the child had asked for (`prctl` with PR_SET_PDEATHSIG)";
        let text = format!(
            "`grep` was ended by SIGTERM at 1.00 s, which nobody sent by a call: the kernel did, {asked}, when the thread of `seq` ended that had \
             started it. That is for the thread, not for the process: `seq` has to start it from a thread that stays, such as the first one, or \
             without PR_SET_PDEATHSIG."
        );
        assert_eq!(ended(&|_| {}), [text]);
        let whole = ended(&|recording| recording.recorded[0].end_ns = WINDOW / 4);
        assert_eq!(
            whole,
            [format!("`grep` was ended by SIGTERM at 1.00 s when `seq`, which had started it, ended, {asked}.")]
        );
        silent(
            &ended,
            &[&|recording| recording.recorded[1].ended_by_thread = None, &|recording| {
                recording.recorded[1].signal = None
            }],
        );
    }
}
