//! Write a history: the page and its pictures, Markdown, JSON and CSV.

mod blocks;
mod charts;
pub mod sentences;

use super::History;
use super::neighbours;
use crate::campaign::CellStore;
use crate::report::table::Table;
use crate::roles;
use crate::util::atomic_file;
use crate::util::stored_json::json_text;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Write the history to `page`, such as history.html, and next to it history.md, history.json and history.csv; with its
/// store, also the folder history-steps with a comparison for each step. The paths of the files, without those of steps.
pub fn write(history: &History, store: Option<&CellStore>, page: &Path) -> Result<Vec<PathBuf>> {
    let stem = page.file_stem().context("-o: give a file, such as history.html")?.to_string_lossy().into_owned();
    let folder = format!("{stem}-steps");
    let parent = page.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        std::fs::create_dir_all(parent).with_context(|| format!("-o: cannot make the folder {}", parent.display()))?;
    }
    let links = match store {
        Some(store) => neighbours::write(history, store, &page.with_file_name(&folder))?,
        None => BTreeMap::new(),
    };
    let link = |pair: &neighbours::Neighbours| links.get(pair).map(|name| format!("{folder}/{name}"));
    let json = json_text(history).context("cannot write the history as JSON")? + "\n";
    let files = [
        (page.to_owned(), blocks::page(history, &link)?),
        (page.with_extension("md"), blocks::markdown(history, &link)),
        (page.with_extension("json"), json),
        (page.with_extension("csv"), csv(history).csv()),
    ];
    let mut written = Vec::new();
    for (path, contents) in files {
        atomic_file::write(&path, contents.as_bytes())?;
        written.push(path);
    }
    Ok(written)
}

/// `history.csv`: one row per workload, kernel and role. The rows `total` and `without-scheduling` are sums.
fn csv(history: &History) -> Table {
    let rows = history.lines.iter().flat_map(|line| line.points.iter().map(move |point| (line, point)));
    let rows = rows.flat_map(|(line, point)| {
        let sums = [("without-scheduling", point.without_scheduling), ("total", point.total)];
        let roles = point.roles.iter().map(|(role, span)| (roles::by_id(*role).id.as_str(), *span));
        let kernel = history.kernels.get(point.kernel);
        let release = if line.source_alone { Some(&point.cell) } else { kernel.map(|kernel| &kernel.release) };
        sums.into_iter().chain(roles).map(move |(role, span)| (line, kernel, release, role, span))
    });
    Table::of("", rows)
        .column("mode", |(line, ..)| &line.mode[..])
        .column("cpus", |(line, ..)| u64::from(line.cpus))
        .column("setting", |(line, ..)| line.shown_setting())
        .column("kernel", |(_, kernel, ..)| kernel.map(|kernel| &kernel.label[..]))
        .column("release", |(_, _, release, ..)| release.map(|release| &release[..]))
        .column("role", |(.., role, _)| *role)
        .column("instructions_per_kib", |(.., span)| format!("{:.4}", span.value))
        .column("least", |(.., span)| format!("{:.4}", span.low))
        .column("greatest", |(.., span)| format!("{:.4}", span.high))
        .done()
}
