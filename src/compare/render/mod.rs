//! Write a comparison as text, Markdown, JSON and HTML.

pub mod causes;
pub mod chart;
pub mod graphs;
pub mod html;
pub mod markdown;
pub mod tables;
pub mod terminal;

use super::build::Compared;
use crate::util::atomic_file;
use crate::util::stored_json::stored_text;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// Write `report.html`, `report.md` and `report.json` into `folder`.
///
/// # Errors
/// A write error or a graph that cannot be drawn. Files already written stay complete.
pub fn write_all(folder: &Path, compared: &Compared) -> Result<Vec<PathBuf>> {
    let json = stored_text(&compared.comparison)
        .context("cannot write report.json: a number cannot be represented in JSON")?;
    let mut written = Vec::new();
    for (name, text) in [
        ("report.json", json + "\n"),
        ("report.md", markdown::render(&compared.comparison)),
        ("report.html", html::render(compared)?),
    ] {
        let path = folder.join(name);
        atomic_file::write(&path, text.as_bytes())?;
        written.push(path);
    }
    Ok(written)
}
