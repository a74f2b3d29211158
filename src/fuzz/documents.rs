//! `result.json`.

use super::edits;
use crate::compare::render::{markdown, terminal as tables};
use crate::compare::{CompareOptions, Input, compare, pipelines};
use crate::export::{Exported, FORMATS, all as export_all};
use crate::profile::{Folded, Profile};
use crate::record::say::text;
use crate::record::{self, contents};
use crate::report::files;
use crate::report::terminal::{self, Style};
use crate::result::{Document, Outcome, parse};
use crate::roles::Skid;
use crate::util::stored_json::stored_text;
use crate::util::text::is_hidden;
use std::path::PathBuf;

/// Profiles of the processes.
const STACKS: &str = "write;entry_SYSCALL_64;do_syscall_64;pipe_write 30\nwrite;entry_SYSCALL_64;schedule 7\nmain 1\n";

/// Documents to edit: built-in pairs, sampled and counted; stages that pipeprof started, a shell with samples, and stages
/// that are stopped, traced and frozen, one of them many processes.
const BASES: [&str; 5] = [
    include_str!("../../fuzz/base/sampled.json"),
    include_str!("../../fuzz/base/exact.json"),
    include_str!("../../fuzz/base/stages.json"),
    include_str!("../../fuzz/base/shell.json"),
    include_str!("../../fuzz/base/held.json"),
];

/// The bytes of a `result.json`.
///
/// Properties: what is read is written so that it reads the same, and can be answered, printed, drawn, compared and
/// exported, without anything hidden.
///
/// # Panics
/// If one does not hold.
pub fn result_json(bytes: &[u8]) {
    match parse(bytes) {
        Ok(document) => check(document),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A `result.json` with a few changed values: the first byte chooses the document, each three further bytes one change.
///
/// Properties: those of [`result_json`], which reaches few documents that can be read.
///
/// # Panics
/// If one does not hold.
pub fn result_edits(bytes: &[u8]) {
    let Some((base, changes)) = bytes.split_first() else { return };
    let base = BASES[usize::from(*base) % BASES.len()];
    result_json(edits::edited(base, changes).as_bytes());
}

fn check(document: Document) {
    // As text: a document may have its processes in another order, in which it is not written.
    let written = |document: &Document| match files::to_json(document) {
        Ok(text) => text,
        Err(error) => panic!("{error:#}"),
    };
    let text = written(&document);
    match parse(text.as_bytes()) {
        Ok(again) => assert_eq!(written(&again), text),
        Err(error) => panic!("{error:#}"),
    }
    let _ = files::title(&document);
    if document.target.workload().is_none() {
        check_recording(&document);
    }
    let profiles = document.processes.totals.names().map(|process| Profile {
        process,
        collector: document.attribution.collector.clone(),
        unit: document.unit,
        skid: Skid::None,
        stacks: Folded::parse(STACKS).unwrap_or_default(),
    });
    let outcome = Outcome { profiles: profiles.collect(), document, ..Outcome::default() };
    for style in STYLES {
        shown("terminal", &terminal::render(&outcome.document, None, style));
    }
    let (exports, _) = export_all(FORMATS, &Exported::Result(&outcome));
    let texts = exports.iter().filter_map(|(name, bytes)| Some((name, std::str::from_utf8(bytes).ok()?)));
    texts.for_each(|(name, text)| shown(name, text));
    let input = || Input { label: None, runs: vec![("run".to_owned(), outcome.clone())] };
    let inputs = || vec![input(), input()];
    let named = pipelines::columns(inputs(), &["before", "after"].map(PathBuf::from));
    for inputs in [inputs()].into_iter().chain(named) {
        if let Ok(compared) = compare(&inputs, &CompareOptions::default()) {
            shown("comparison", &tables::render(&compared.comparison, 80, tables::SHOWN));
            shown("report.md", &markdown::render(&compared.comparison));
            // What would not be read is not written, and that is for sums of counts only.
            let refused = stored_text(&compared.comparison).err().map(|error| error.to_string());
            assert!(refused.as_ref().is_none_or(|why| why.contains("count")), "report.json: {refused:?}");
        }
    }
}

fn check_recording(document: &Document) {
    let mut outcome = Outcome { document: document.clone(), ..Outcome::default() };
    let files = match contents::files(&mut outcome, Vec::new()) {
        Ok(files) => files,
        Err(error) => panic!("{error:#}"),
    };
    for (name, bytes) in &files {
        if !name.ends_with(".gz") {
            shown(name, &String::from_utf8_lossy(bytes));
        }
    }
    for style in STYLES {
        shown("recording", &text::render(document, None, style));
    }
    record::answer_of(document);
}

/// Without and with our own styles.
const STYLES: [Style; 2] = [Style::PLAIN, Style { width: Some(40), colour: true }];

/// Check that `text` says something, and hides nothing.
fn shown(name: &str, text: &str) {
    assert!(!text.is_empty(), "{name}");
    let odd = text.chars().find(|c| is_hidden(*c) && !matches!(c, '\n' | '\t' | '\u{1b}'));
    assert!(odd.is_none(), "{name}: {odd:?}");
    let own = text.split('\u{1b}').skip(1).all(|rest| ["[1m", "[0m", "[38;2;"].iter().any(|own| rest.starts_with(own)));
    assert!(own, "{name}");
}
