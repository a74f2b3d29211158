//! How long the windows of counted runs are: they grow until the counts of one kernel agree. The rule depends on counts only,
//! so that every machine finds the same size.

use crate::result::{FoundSize, Outcome, TriedSize, WindowSizing};
use crate::util::progress;
use crate::util::size;
use crate::workload::Spec;
use crate::workload::spec::Amount;
use anyhow::{Context as _, Result};
use easy_ext::ext;

/// The first size: so many bytes or calls, whichever is less. Bursts of the page allocator are 8 MiB apart
/// (docs/exactness.md).
const FIRST_BYTES: u64 = 16 << 20;
const FIRST_CALLS: u64 = 8192;

/// The fewest calls of a window: parts of a window are weighed by calls.
const LEAST_CALLS: u64 = 64;

/// Each size is this many times the one before. Smaller factors mean more guests.
const GROWTH: u64 = 4;

/// The first size for this workload on so many CPUs, in whole blocks. If pages are freed on another CPU than they are
/// allocated on, the first size never was enough, and the windows of the second one are the result.
pub(crate) fn first(spec: &Spec, cpus: u32) -> Amount {
    let block = spec.block();
    let growth = if cpus > 1 && spec.copies() { GROWTH } else { 1 };
    let bytes = block.saturating_mul(FIRST_CALLS).min(FIRST_BYTES).saturating_mul(growth);
    Amount::Bytes(bytes.div_ceil(block).max(LEAST_CALLS).saturating_mul(block))
}

#[ext(FindSize)]
impl WindowSizing {
    /// Count with `count` in windows that grow, and return the outcome whose windows differ least.
    pub(crate) fn counted(self, first: u64, count: impl Fn(Amount) -> Result<Outcome>) -> Result<Outcome> {
        let mut tried: Vec<TriedSize> = Vec::new();
        let mut best: Option<(f64, Outcome)> = None;
        let mut bytes = first;
        loop {
            let outcome = count(Amount::Bytes(bytes))?;
            let ensemble = outcome.document.ensemble.as_ref().context("counted runs have windows")?;
            let spread = ensemble.spread();
            let instructions = ensemble.windows.iter().map(|window| window.instructions).max().unwrap_or(0);
            tried.push(TriedSize { bytes, spread });
            if best.as_ref().is_none_or(|(least, _)| spread < *least) {
                best = Some((spread, outcome));
            }
            if spread <= self.precision || instructions.saturating_mul(GROWTH) > self.limit {
                break;
            }
            bytes = bytes.saturating_mul(GROWTH);
            progress::detail(|| format!("windows range over {:.2} %: {} each", 100.0 * spread, size::format(bytes)));
        }
        let (_, mut outcome) = best.context("at least one size is tried")?;
        if let Some(ensemble) = &mut outcome.document.ensemble {
            ensemble.sizing = Some(FoundSize { precision: self.precision, tried });
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::SchedulingWeight;
    use crate::result::{Document, Ensemble, WindowCount};
    use crate::workload::spec::Writer;
    use std::cell::RefCell;

    /// The sizes in MiB that are tried, and the one that is kept, where windows of each size range over `spreads` (in tenths
    /// of a percent) and execute 1,000 instructions per KiB.
    fn found(limit: u64, spreads: &[u64]) -> (Vec<u64>, u64) {
        let tried = RefCell::new(Vec::new());
        let count = |amount: Amount| {
            let Amount::Bytes(bytes) = amount else { panic!("bytes") };
            let instructions = bytes / 1024 * 1000;
            let spread = spreads[tried.borrow().len()];
            tried.borrow_mut().push(bytes >> 20);
            let window = |instructions| WindowCount {
                tick_offset_ns: 0,
                warmup_blocks: 0,
                instructions,
                scheduling: SchedulingWeight::default(),
                rep_bytes: None,
            };
            let windows = [0, 0, spread].map(|more| window(instructions + instructions / 1000 * more)).to_vec();
            let mut outcome = outcome();
            outcome.document.target.workload_mut().unwrap().amount = amount;
            outcome.document.ensemble = Some(Ensemble::new(windows));
            Ok(outcome)
        };
        let sizing = WindowSizing { precision: 0.002, limit };
        let outcome = sizing.counted(16 << 20, count).unwrap();
        let found = outcome.document.ensemble.unwrap().sizing.unwrap();
        assert_eq!(found.tried.iter().map(|size| size.bytes >> 20).collect::<Vec<_>>(), tried.into_inner());
        let Amount::Bytes(kept) = outcome.document.target.workload().unwrap().amount else { panic!("bytes") };
        (found.tried.iter().map(|size| size.bytes >> 20).collect(), kept >> 20)
    }

    fn outcome() -> Outcome {
        let gallery =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../flamegraphs/6.1-write-exact/result.json");
        let document: Document = serde_json::from_slice(&std::fs::read(gallery).unwrap()).unwrap();
        let (windows, classes) = (Vec::new(), crate::profile::ByProcess::default());
        Outcome { document, windows, classes, ..Outcome::default() }
    }

    #[test]
    fn windows_grow_until_they_agree_or_the_limit_is_reached() {
        assert_eq!(found(u64::MAX, &[1]), (vec![16], 16));
        assert_eq!(found(u64::MAX, &[9, 5, 2]), (vec![16, 64, 256], 256));
        // 64 MiB execute 65.5 million instructions, 256 MiB four times as many.
        assert_eq!(found(100_000_000, &[9, 5, 2]), (vec![16, 64], 64));
        // The size whose windows differ least is kept.
        assert_eq!(found(100_000_000, &[5, 9]), (vec![16, 64], 16));
    }

    #[test]
    fn the_first_size_is_bounded_in_bytes_and_calls() {
        let of = |writer, buffer_size, cpus| {
            let spec = Spec { writer, buffer_size, ..Spec::default() };
            let Amount::Bytes(bytes) = first(&spec, cpus) else { panic!("bytes") };
            bytes
        };
        let write = |buffer_size| of(Writer::Write, buffer_size, 1);
        assert_eq!([1, 512, 4096, 256 << 10].map(write), [8192, 4 << 20, 16 << 20, 16 << 20]);
        assert_eq!(write(1 << 20), 64 << 20, "64 calls at least");
        assert!(write(3 << 12).is_multiple_of(3 << 12), "whole calls");
        assert_eq!([Writer::Write, Writer::Vmsplice].map(|writer| of(writer, 256 << 10, 2)), [64 << 20, 16 << 20]);
    }
}
