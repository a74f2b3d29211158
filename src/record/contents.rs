//! The files of a recording's folder.

use super::html::{self, PAGE_FILE};
use super::timeline_svg::{self, TIMELINE_FILE};
use super::{Recorded, Recording, graphs};
use crate::report;
use crate::result::RESULT_FILE;
use anyhow::{Context as _, Result};

/// The recording as text.
///
/// # Errors
/// When JSON cannot represent a number in it.
pub(crate) fn to_json(recording: &Recording) -> Result<String> {
    let mut text = serde_json::to_string_pretty(recording).context("cannot write the recording as JSON")?;
    text.push('\n');
    Ok(text)
}

/// All files: names and contents.
///
/// # Errors
/// When a graph or the page cannot be drawn.
pub(crate) fn files(recorded: &Recorded) -> Result<Vec<(String, Vec<u8>)>> {
    let Recorded { recording, off_cpu, profiles, windows, code } = recorded;
    let mut files = vec![(RESULT_FILE.to_owned(), to_json(recording)?.into_bytes())];
    files.extend(timeline_svg::svg(recording).map(|svg| (TIMELINE_FILE.to_owned(), svg.into_bytes())));
    let graphs = graphs::files(recording, profiles, off_cpu.as_ref())?;
    files.push((PAGE_FILE.to_owned(), html::page(recording, &graphs)?.into_bytes()));
    files.extend(graphs);
    if !windows.is_empty() {
        files.push(report::files::windows_file(windows)?);
    }
    files.extend(code.as_ref().map(report::files::code_file).transpose()?);
    Ok(files)
}
