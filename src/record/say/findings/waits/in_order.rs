//! Who reads what several others write one after the other, each to its end.

use crate::profile::few;
use crate::record::say::findings::view::FindingView;
use crate::report::number::percent;
use crate::result::{Finding, FindingKind, RecordedChannel, RecordedEnd};

/// It waits for data for this part of the window, and the others for room, together.
const WAITS: f64 = 0.5;

/// Fewer others than this do not tell.
const OTHERS: usize = 2;

/// `` `driver` reads the pipes from 4 `frontend` one after the other, each to its end: ... ``
pub(crate) fn in_order(view: &FindingView<'_>) -> Vec<Finding> {
    let all = view.document.recorded.iter().enumerate();
    let found = all.filter(|(at, _)| view.is_one(*at)).find_map(|(at, process)| {
        let own = |(_, pipe, end): &(usize, &RecordedChannel, &RecordedEnd)| {
            end.process == at && end.bytes > 0 && pipe.kind.is_pipe() && pipe.readers.len() == 1 && pipe.writers.len() == 1
        };
        let mut pipes: Vec<(usize, &RecordedChannel, &RecordedEnd)> = view.readers().filter(own).collect();
        pipes.sort_by_key(|(_, _, end)| end.moved_ns);
        // Each was read when the one before had been.
        let apart = pipes.windows(2).all(|two| {
            let [before, after] = [two[0].2.moved_ns, two[1].2.moved_ns];
            before.zip(after).is_some_and(|([_, last], [first, _])| last <= first)
        });
        let slept: u64 = pipes.iter().map(|(_, _, end)| end.blocked_ns).sum();
        let full: Vec<&(usize, &RecordedChannel, &RecordedEnd)> =
            pipes.iter().filter(|(_, pipe, _)| pipe.writers[0].blocked_ns as f64 >= SOME * view.window()).collect();
        let blocked: u64 = full.iter().map(|(_, pipe, _)| pipe.writers[0].blocked_ns).sum();
        let waits = [slept, blocked].into_iter().all(|ns| ns as f64 >= WAITS * view.window());
        if !apart || full.len() < OTHERS || !waits || process.has_threads() {
            return None;
        }
        let text = format!(
            "{name} reads {} pipes one after the other, each to its end: while it waits for data from one, {} of the time in all, the others are \
             full, and {} wait for room. It has to read all at once (`poll`, or a thread for each).",
            pipes.len(),
            percent((slept as f64 / view.window()).min(1.0)),
            few(full.iter().map(|(_, pipe, _)| {
                let end = &pipe.writers[0];
                format!("{} {}", view.name(end.process), percent((end.blocked_ns as f64 / view.window()).min(1.0)))
            })),
            name = view.name(at),
        );
        let finding = Finding::new(FindingKind::InOrder, [at], text);
        Some(Finding { channels: pipes.iter().map(|(channel, ..)| *channel).collect(), ns: Some(blocked), ..finding })
    });
    found.into_iter().collect()
}

/// A writer waits for room for this part of the window.
const SOME: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{WINDOW, said, silent};
    use crate::result::Document;

    #[test]
    fn pipes_that_are_read_one_after_the_other_are_said() {
        let reads = |change: &dyn Fn(&mut Document)| {
            said(in_order, &|recording| {
                let pipe = |part: u64| {
                    let (begin, end) = (WINDOW / 4 * part, WINDOW / 4 * (part + 1));
                    let reader =
                        RecordedEnd { process: 1, bytes: 900, blocked_ns: WINDOW / 4, ..RecordedEnd::default() };
                    let reader = RecordedEnd { moved_ns: Some([begin, end]), ..reader };
                    let writer = RecordedEnd {
                        process: if part == 0 { 0 } else { 2 },
                        blocked_ns: begin,
                        ..RecordedEnd::default()
                    };
                    RecordedChannel { readers: vec![reader], writers: vec![writer], ..RecordedChannel::default() }
                };
                recording.channels = (0..4).map(pipe).collect();
                change(recording);
            })
        };
        let text = "`grep` reads 4 pipes one after the other, each to its end: while it waits for data from one, 100 % of the time in all, the others \
                    are full, and `cat` 25 %, `cat` 50 % and `cat` 75 % wait for room. It has to read all at once (`poll`, or a thread for each).";
        assert_eq!(reads(&|_| {}), [text]);
        silent(
            &reads,
            &[
                &|recording| recording.channels[1].readers[0].moved_ns = Some([0, WINDOW]),
                &|recording| recording.channels.iter_mut().for_each(|pipe| pipe.writers[0].blocked_ns = 0),
                &|recording| recording.channels.iter_mut().for_each(|pipe| pipe.readers[0].blocked_ns = 0),
            ],
        );
    }
}
