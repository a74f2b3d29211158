//! `result.json`.

use super::edits;
use crate::export::{self, Exported, ExportedRecording};
use crate::record::change::RecordingChange;
use crate::record::{self, change_text, contents, stored, text};
use crate::record::{Recorded, Recording};
use crate::report::terminal::Style;
use clap::ValueEnum as _;
use std::path::Path;

/// Documents to edit: stages that pipeprof started, a shell with samples, and stages that are stopped, traced and frozen,
/// one of them many processes.
const BASES: [&str; 3] = [
    include_str!("../../fuzz/base/stages.json"),
    include_str!("../../fuzz/base/shell.json"),
    include_str!("../../fuzz/base/held.json"),
];

/// The bytes of a `result.json`.
///
/// Properties: what is read is written so that it reads the same, and can be answered, printed, drawn, compared and
/// exported, without control characters.
///
/// # Panics
/// If one does not hold.
pub fn record_json(bytes: &[u8]) {
    match stored::parse(bytes, Path::new("result.json")) {
        Ok(recording) => check(&recording),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A `result.json` with a few changed values: the first byte chooses the document, each three further bytes one change.
///
/// Properties: those of [`record_json`], which reaches few documents that can be read.
///
/// # Panics
/// If one does not hold.
pub fn record_edits(bytes: &[u8]) {
    let Some((base, changes)) = bytes.split_first() else { return };
    let base = BASES[usize::from(*base) % BASES.len()];
    record_json(edits::edited(base, changes).as_bytes());
}

fn check(recording: &Recording) {
    let written = |recording: &Recording| match serde_json::to_string(recording) {
        Ok(text) => text,
        Err(error) => panic!("{error}"),
    };
    let again = written(recording);
    match stored::parse(again.as_bytes(), Path::new("result.json")) {
        Ok(read) => assert_eq!(written(&read), again),
        Err(error) => panic!("{error:#}"),
    }
    let recorded = Recorded { recording: recording.clone(), ..Recorded::default() };
    let files = match contents::files(&recorded) {
        Ok(files) => files,
        Err(error) => panic!("{error:#}"),
    };
    for (name, bytes) in &files {
        let page = String::from_utf8_lossy(bytes);
        let odd = page.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert!(odd.is_none() || name.ends_with(".json"), "{name}: {odd:?}");
    }
    for style in [Style::PLAIN, Style { width: Some(40), colour: true }] {
        assert!(!text::render(recording, None, style).is_empty());
    }
    let folders = [Path::new("before"), Path::new("after")];
    if let Ok(change) = RecordingChange::new([recording, recording], folders) {
        let _ = change_text::render(&change, Style::PLAIN);
    }
    let exported = ExportedRecording { recording, profiles: &[], off_cpu: None, code: None };
    let _ = export::all(export::ExportFormat::value_variants(), &Exported::Recording(exported));
    record::answer_of(recording);
}
