//! What tells whether two recordings of a pipeline did the same work.

use super::count::REP_BYTES;
use super::stages;
use super::timed::BROKEN_PIPE;
use crate::report::number::number;
use crate::result::{Document, RecordedEnd, RecordedPipe};

/// Pipes whose bytes differ by more than this part did not do the same work.
const SAME_BYTES: f64 = 0.01;

/// What a recorded pipeline did, where a run has its workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PipelineWork {
    /// Of each stage. Whether SIGPIPE ends one before it has ended by itself is chance: 0 both times, but for the last one.
    pub exit_codes: Vec<u8>,
    /// Those that were used; `None` if calls, and with them bytes, may be missing.
    pub pipes: Option<Vec<PipeWork>>,
    /// Bytes that instructions with a `rep` prefix copied, cleared or searched; `None` if not counted.
    pub rep_bytes: Option<u64>,
    /// Whether files were on a disk of the guest.
    pub on_disk: bool,
    /// Sleeps at pipes that ended without anything moved, followed by another in the same call.
    pub needless: u64,
}

/// What went through one pipe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PipeWork {
    /// `dd to wc`.
    pub between: String,
    pub bytes: u64,
    /// Whether a writer found no reader: how much was read before is chance.
    pub cut: bool,
}

impl PipelineWork {
    /// The work of a recording; `None` for a built-in pair.
    #[must_use]
    pub(crate) fn of(document: &Document) -> Option<Self> {
        if document.target.workload().is_some() {
            return None;
        }
        let all = stages::stages(document);
        let names = stages::names(document, &all);
        let ended = |end: &RecordedEnd| all.of(end.process).and_then(|stage| document.exit_codes.get(stage));
        let is_cut = |end: &RecordedEnd| end.epipe > 0 || ended(end) == Some(&BROKEN_PIPE);
        let pipe = |pipe: &RecordedPipe| PipeWork {
            between: stages::between(pipe, &all, &names),
            bytes: pipe.taken(),
            cut: pipe.writers.iter().any(is_cut),
        };
        let mut exit_codes = document.exit_codes.clone();
        let others = exit_codes.split_last_mut().map_or(&mut [][..], |(_, others)| others);
        others.iter_mut().filter(|code| **code == BROKEN_PIPE).for_each(|code| *code = 0);
        let ends = document.pipes.iter().flat_map(RecordedPipe::ends);
        Some(Self {
            exit_codes,
            // Where the kernel skipped programs, calls and their bytes are missing.
            pipes: (document.skipped == 0)
                .then(|| document.pipes.iter().filter(|pipe| pipe.is_used()).map(pipe).collect()),
            rep_bytes: document.processes.totals.values().map(|totals| totals.counters.get(REP_BYTES)).sum(),
            on_disk: !document.on_disk.is_empty(),
            needless: ends.map(|end| end.needless).sum(),
        })
    }
}

/// In what two pipelines did not do the same.
#[must_use]
pub(crate) fn unequal(before: &PipelineWork, after: &PipelineWork) -> Vec<String> {
    let mut reasons = Vec::new();
    if before.exit_codes != after.exit_codes {
        let [old, new] = [before, after].map(|work| {
            let codes: Vec<String> = work.exit_codes.iter().map(u8::to_string).collect();
            if codes.is_empty() { "none".to_owned() } else { codes.join(", ") }
        });
        reasons.push(format!("they ended differently: exit codes {old} and {new}"));
    }
    let far = |(old, new): &(&PipeWork, &PipeWork)| {
        let differ = old.bytes.abs_diff(new.bytes) as f64 > SAME_BYTES * old.bytes.max(new.bytes) as f64;
        differ && !old.cut && !new.cut
    };
    let both = before.pipes.as_ref().zip(after.pipes.as_ref()).filter(|(old, new)| old.len() == new.len());
    if let Some((old, new)) = both.and_then(|(old, new)| old.iter().zip(new).find(far)) {
        let [first, second] = [old, new].map(|pipe| number(pipe.bytes as f64 / f64::from(1 << 20)));
        reasons.push(format!("they did not move the same data: from {} {first} and {second} MiB", old.between));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_leaves_early_is_no_other_work() {
        let end = |bytes| RecordedEnd { bytes, sleeps: 1, ..RecordedEnd::default() };
        let recording = |codes: [u8; 2], read| {
            let pipe = RecordedPipe {
                between: Some([0, 1]),
                writers: vec![RecordedEnd { process: 0, ..end(9000) }],
                readers: vec![RecordedEnd { process: 1, ..end(read) }],
                ..RecordedPipe::default()
            };
            let process = |stage| crate::result::RecordedProcess { stage, ..Default::default() };
            let document = Document {
                exit_codes: codes.to_vec(),
                pipes: vec![pipe],
                recorded: vec![process(0), process(1)],
                ..Document::default()
            };
            PipelineWork::of(&document).unwrap()
        };
        assert_eq!(unequal(&recording([141, 0], 4096), &recording([0, 0], 8192)), [""; 0]);
        assert!(unequal(&recording([0, 0], 4096), &recording([0, 0], 8192))[0].contains("did not move the same data"));
        assert!(unequal(&recording([1, 0], 4096), &recording([0, 0], 4096))[0].contains("exit codes 1, 0 and 0, 0"));
        assert!(unequal(&recording([0, 0], 4096), &recording([0, 141], 4096))[0].contains("0, 0 and 0, 141"));
    }
}
