//! Runs for the tests of formats.

use crate::profile::{Folded, ProcessName, Profile, Unit};
use crate::result;
use crate::result::code::{CODE_SCHEMA, ExecutedCode, ExecutedFunction};
use crate::result::{ExecutedOn, Outcome, PairRecord};
use crate::roles::Skid;
use std::path::Path;

/// A run of the committed gallery.
pub(super) fn gallery(name: &str) -> Outcome {
    result::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../flamegraphs").join(name)).unwrap()
}

/// Names that could break a format.
pub(super) const ODD: [&str; 6] =
    ["<T as \"x\">::f(a, b) 12", "\u{1b}[31m\u{202e}", "a,b\r", "naïve::ü", "</script>", "+0x0 (a) b\\"];

/// A sampled run with 9 samples, 5 of them in odd functions, in 900 ns of CPU time.
pub(super) fn odd() -> Outcome {
    let mut outcome = gallery("6.1-write");
    outcome.document.started = "2026-01-01T00:00:00Z".to_owned();
    outcome.document.executed_on = ExecutedOn::Hardware;
    let mut stacks = Folded::new();
    stacks.add_frames(["writer"].into_iter().chain(ODD), 5);
    stacks.add_frames(["writer", ODD[0], "entry_SYSCALL_64_after_hwframe", "do_syscall_64", "pipe_write"], 4);
    let (process, collector) = (ProcessName::WRITER, "sample".to_owned());
    outcome.profiles = vec![Profile { process, collector, unit: Unit::Samples, skid: Skid::CpuClock, stacks }];
    let mut record = PairRecord { collectors: vec!["sample".to_owned()], ..PairRecord::default() };
    record.processes.of_mut(process).user_ns = 500;
    record.processes.of_mut(process).system_ns = 400;
    outcome.document.runs = vec![record];
    let function =
        |address| ExecutedFunction { name: "pipe_write".to_owned(), file: None, address, instructions: Vec::new() };
    outcome.code = Some(ExecutedCode {
        schema: CODE_SCHEMA.to_owned(),
        processor: Default::default(),
        processes: vec![process],
        // A program can have a function of the same name.
        files: std::collections::BTreeMap::new(),
        functions: vec![function(0xffff_ffff_8100_0000), function(0x40_0000)],
    });
    outcome
}
