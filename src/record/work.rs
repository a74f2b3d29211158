//! What tells whether two recordings of a pipeline did the same work.

use super::count::REP_BYTES;
use super::stages;
use crate::result::{Document, RecordedPipe};

/// What a recorded pipeline did, where a run has its workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PipelineWork {
    /// Of each stage.
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
        let pipe = |pipe: &RecordedPipe| PipeWork { between: stages::between(pipe, &all, &names), bytes: pipe.taken() };
        let ends = document.pipes.iter().flat_map(RecordedPipe::ends);
        Some(Self {
            exit_codes: document.exit_codes.clone(),
            // Where the kernel skipped programs, calls and their bytes are missing.
            pipes: (document.skipped == 0)
                .then(|| document.pipes.iter().filter(|pipe| pipe.is_used()).map(pipe).collect()),
            rep_bytes: document.processes.totals.values().map(|totals| totals.counters.get(REP_BYTES)).sum(),
            on_disk: !document.on_disk.is_empty(),
            needless: ends.map(|end| end.needless).sum(),
        })
    }
}
