//! What the BPF programs count: definitions of bpf/record.h.
#![allow(missing_docs, reason = "documented in the header it is made from")]
#![allow(dead_code, unreachable_pub, reason = "generated; the BPF programs use the rest")]

include!(concat!(env!("OUT_DIR"), "/record.rs"));

impl PrTrace {
    /// The addresses, innermost first.
    pub(super) fn addresses(&self) -> &[u64] {
        self.frames.split(|address| *address == 0).next().unwrap_or_default()
    }
}
