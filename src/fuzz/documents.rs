//! `result.json`.

use super::edits;
use crate::compare::render::{markdown, terminal as tables};
use crate::compare::{CompareOptions, Input, compare};
use crate::profile::{ByProcess, Folded, Profile};
use crate::report::files;
use crate::report::terminal::{self, Style};
use crate::result::{Document, Outcome};
use crate::roles::Skid;

/// Profiles of the processes.
const STACKS: &str = "write;entry_SYSCALL_64;do_syscall_64;pipe_write 30\nwrite;entry_SYSCALL_64;schedule 7\nmain 1\n";

/// Documents to edit.
const BASES: [&str; 2] = [include_str!("../../fuzz/base/sampled.json"), include_str!("../../fuzz/base/exact.json")];

/// The bytes of a `result.json`.
///
/// Properties: what is read is written so that it reads the same, and can be printed and compared.
///
/// # Panics
/// If one does not hold.
pub fn run_json(bytes: &[u8]) {
    match files::parse_document(bytes) {
        Ok(document) => check(document),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A `result.json` with a few changed values: the first byte chooses the document, each three further bytes one change.
///
/// Properties: those of [`run_json`], which reaches few documents that can be read.
///
/// # Panics
/// If one does not hold.
pub fn run_edits(bytes: &[u8]) {
    let Some((base, changes)) = bytes.split_first() else { return };
    let base = BASES[usize::from(*base) % BASES.len()];
    run_json(edits::edited(base, changes).as_bytes());
}

fn check(document: Document) {
    // As text: a document may have its processes in another order, in which it is not written.
    let written = |document: &Document| match files::to_json(document) {
        Ok(text) => text,
        Err(error) => panic!("{error:#}"),
    };
    let text = written(&document);
    match files::parse_document(text.as_bytes()) {
        Ok(again) => assert_eq!(written(&again), text),
        Err(error) => panic!("{error:#}"),
    }
    for style in [Style::PLAIN, Style { width: Some(40), colour: true }] {
        assert!(!terminal::render(&document, None, style).is_empty());
    }
    let _ = files::title(&document);
    let profiles = document.processes.totals.names().map(|process| Profile {
        process,
        collector: document.attribution.collector.clone(),
        unit: document.unit,
        skid: Skid::None,
        stacks: Folded::parse(STACKS).unwrap_or_default(),
    });
    let profiles = profiles.collect();
    let outcome =
        Outcome { document, profiles, windows: Vec::new(), classes: ByProcess::default(), code: None, pipeline: None };
    let input = || Input { label: None, runs: vec![("run".to_owned(), outcome.clone())] };
    if let Ok(compared) = compare(&[input(), input()], &CompareOptions::default()) {
        let extent = tables::Extent { width: 80, roles: 12, functions: 12 };
        let _ = tables::render(&compared.comparison, extent);
        let _ = markdown::render(&compared.comparison);
    }
}
