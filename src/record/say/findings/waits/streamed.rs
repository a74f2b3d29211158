//! Programs whose first bytes come late, while they work.

use crate::record::say::findings::view::{FindingView, after};
use crate::record::say::programs::{Does, does};
use crate::result::{Finding, FindingKind, RecordedEnd, RecordedProcess};
use crate::util::text::counted;

/// It lives so long at least, ns, is on a CPU for this part of that, and writes first in the rest after this part.
const LONG_NS: u64 = 500_000_000;
const WORKS: f64 = 0.5;
const LATE: f64 = 0.8;

/// `` `mbgc` wrote nothing until 5.02 s, while it was on a CPU: `head`, which wanted only 8,192 bytes, had to wait for all of its work. ``
pub(crate) fn all_before_the_first(view: &FindingView<'_>) -> Vec<Finding> {
    let found = view.writers().filter_map(|(at, pipe, end)| {
        let writer = view.process(end).filter(|process| works_first(end, process))?;
        let [reader] = &pipe.readers[..] else { return None };
        // Who reads to the end of file wants all of it.
        let process = view.process(reader).filter(|process| process.end_ns < view.document.processes.window_ns)?;
        let wants_little = reader.at_end == 0 && reader.bytes > 0 && process.signal.is_none() && process.is_one();
        // What a program tells itself is no output.
        if !wants_little || !pipe.kind.is_pipe() || reader.process == end.process || does(&writer.name, Does::WritesAtEnd) {
            return None;
        }
        let [first, _] = end.moved_ns?;
        let text = format!(
            "{} wrote nothing until {}, while it was on a CPU: {}, which wanted only {}, had to wait for all of its work. It has to write \
             while it works, not at its end.",
            view.name(end.process),
            after(first),
            view.name(reader.process),
            counted(reader.bytes, "byte")
        );
        let finding = Finding::new(FindingKind::Late, [end.process], text);
        Some(Finding { channels: vec![at], at_ns: Some(first), ..finding })
    });
    found.collect()
}

/// Whether a process writes first after most of its life, and works meanwhile.
fn works_first(end: &RecordedEnd, process: &RecordedProcess) -> bool {
    let lived = process.end_ns.saturating_sub(process.begin_ns);
    let first = end.moved_ns.map_or(0, |[first, _]| first.saturating_sub(process.begin_ns));
    lived >= LONG_NS
        && process.is_one()
        && first as f64 >= LATE * lived as f64
        && process.cpu_ns as f64 >= WORKS * lived as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::say::findings::tests::{MS, WINDOW, said, silent};
    use crate::result::Document;

    #[test]
    fn work_before_the_first_byte_is_said() {
        let late = |change: &dyn Fn(&mut Document)| {
            said(all_before_the_first, &|recording| {
                recording.recorded[0].cpu_ns = WINDOW / 4 * 3;
                recording.channels[0].writers[0].moved_ns = Some([WINDOW / 10 * 9, WINDOW]);
                change(recording);
            })
        };
        let text = "`seq` wrote nothing until 3.60 s, while it was on a CPU: `grep`, which wanted only 1,000 bytes, had to wait for all of \
                    its work. It has to write while it works, not at its end.";
        assert_eq!(late(&|_| {}), [text]);
        silent(
            &late,
            &[
                &|recording| recording.channels[0].readers[0].at_end = 1,
                &|recording| recording.recorded[0].cpu_ns = 100 * MS,
                &|recording| recording.channels[0].writers[0].moved_ns = Some([0, WINDOW]),
                &|recording| recording.recorded[0].name = "sort".to_owned(),
            ],
        );
    }
}
