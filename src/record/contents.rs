//! The files of a result's folder.

use crate::record::say::graphs::TIMELINE_FILE;
use crate::record::say::html::{self, PAGE_FILE};
use crate::record::say::{critical, timeline_svg};
use crate::report::files;
use crate::result::Outcome;
use anyhow::Result;

/// All files of `outcome`, and `further` ones: names and contents. Sets the document's `files`.
pub fn files(outcome: &mut Outcome, further: Vec<(String, Vec<u8>)>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = critical::files(outcome)?;
    files.extend(files::contents(outcome)?);
    if outcome.document.target.workload().is_none() {
        let page = html::page(&outcome.document, &files)?;
        files.push((PAGE_FILE.to_owned(), page.into_bytes()));
        let timeline = timeline_svg::svg(&outcome.document);
        files.extend(timeline.map(|svg| (TIMELINE_FILE.to_owned(), svg.into_bytes())));
    }
    files.extend(further);
    files::with_document(outcome, files)
}

/// The files of several results, each with its `further` ones in a folder of its own with this name.
pub fn files_of_each<'a>(
    results: impl Iterator<Item = (String, &'a mut Outcome, Vec<(String, Vec<u8>)>)>,
) -> Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for (folder, outcome, further) in results {
        let own = files(outcome, further)?;
        all.extend(own.into_iter().map(|(name, bytes)| (format!("{folder}/{name}"), bytes)));
    }
    Ok(all)
}
