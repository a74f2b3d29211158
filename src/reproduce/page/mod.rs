//! The report: one view of a reproduction, rendered as a self-contained HTML page, as Markdown with its pictures next to
//! it, and on the terminal.

mod blocks;
mod lead;
pub mod terminal;
mod view;

use super::reproduced::Reproduction;
use super::settings::create_folder;
use crate::report::chart::Theme;
use crate::util::atomic_file;
use anyhow::Result;
use std::path::{Path, PathBuf};
use view::ReproductionView;

/// Write `report.html`, `report.md`, the charts and the graphs into `folder`; returns the page's path.
pub fn write(reproduction: &Reproduction, folder: &Path) -> Result<PathBuf> {
    let view = ReproductionView::of(reproduction);
    let charts = view.parts.iter().flat_map(|part| &part.charts);
    let charts = charts.map(|chart| Ok((&chart.id, chart.svg(Theme::File)?))).collect::<Result<Vec<_>>>()?;
    let graphs = view.parts.iter().flat_map(|part| &part.result.found.graphs);
    let graphs = graphs.map(|graph| (&graph.id, graph.svg.clone())).collect();
    for (name, pictures) in [("charts", charts), ("graphs", graphs)] {
        let below = folder.join(name);
        if !pictures.is_empty() {
            create_folder(&below)?;
        }
        for (id, svg) in pictures {
            atomic_file::write(&below.join(format!("{id}.svg")), svg.as_bytes())?;
        }
    }
    atomic_file::write(&folder.join("report.md"), blocks::markdown(&view)?.as_bytes())?;
    let page = folder.join("report.html");
    atomic_file::write(&page, blocks::page(&view)?.as_bytes())?;
    Ok(page)
}

#[cfg(test)]
mod tests;
