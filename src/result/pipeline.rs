//! What a recorded pipeline did, where a run has its workload.

/// What tells whether two recordings of a pipeline did the same work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PipelineWork {
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
pub struct PipeWork {
    /// `dd to wc`.
    pub between: String,
    pub bytes: u64,
}
