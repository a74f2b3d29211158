//! `record.html`: the recording as one page that needs no network. The template escapes all values except the timeline,
//! which is drawn here.

use super::model::Recording;
use super::tables::{self, RecordTable};
use super::{text, timeline_svg};
use crate::kernel::resolve::Resolution;
use crate::profile::RoleShare;
use crate::report::html::{environment, pack};
use crate::report::terminal::roles::functions;
use crate::roles;
use crate::util::text::grouped;
use anyhow::{Context as _, Result};
use minijinja::{Value, context};
use serde::Serialize;

/// The page's name in its folder.
pub(crate) const PAGE_FILE: &str = "record.html";

/// Graphs in the page: the others are in the folder. A shell can start many programs.
const GRAPHS: usize = 8;

/// Roles with a smaller share are not in the page.
const SMALL: f64 = 0.005;

#[derive(Serialize)]
struct RecordTableView {
    title: String,
    headings: Vec<String>,
    /// The cells of each row; the first and the last are text.
    rows: Vec<Vec<String>>,
    further: String,
}

/// What one process or stage executed.
#[derive(Serialize)]
struct ExecutedView {
    name: String,
    /// `2,312 samples`.
    weight: String,
    roles: Vec<ExecutedRoleView>,
}

#[derive(Serialize)]
struct ExecutedRoleView {
    title: &'static str,
    colour: &'static str,
    share: f64,
    ci95: Option<[f64; 2]>,
    /// ns or instructions.
    per_kib: Option<f64>,
    functions: String,
}

#[derive(Serialize)]
struct RecordGraphView {
    id: String,
    title: String,
    packed: String,
}

/// The page. `files`: the other files of the folder, of which it shows the graphs.
///
/// # Errors
/// When a graph or the template cannot be rendered.
pub(crate) fn page(recording: &Recording, files: &[(String, Vec<u8>)]) -> Result<String> {
    let tables: Vec<RecordTableView> = tables::all(recording).iter().map(table_view).collect();
    let counted = recording.instructions.iter().flat_map(|counted| {
        counted.stages.iter().map(|stage| {
            let weight = format!("{} instructions", grouped(stage.instructions));
            ExecutedView { name: stage.name.clone(), weight, roles: role_views(&counted.symbols, &stage.roles) }
        })
    });
    let sampled = recording.samples.iter().flat_map(|sampled| {
        text::most_sampled(sampled).into_iter().map(|process| {
            let weight = format!("{} samples", grouped(process.samples));
            ExecutedView { name: process.name.clone(), weight, roles: role_views(&[], &process.roles) }
        })
    });
    let executed: Vec<ExecutedView> = sampled.chain(counted).collect();
    let unit = if recording.instructions.is_some() { "instructions/KiB" } else { "ns/KiB" };
    let mut graphs = Vec::new();
    // Those of several programs first.
    let mut drawn: Vec<&(String, Vec<u8>)> = files.iter().filter(|(name, _)| name.ends_with(".svg")).collect();
    drawn.sort_by_key(|(name, _)| !name.starts_with("pipeline."));
    for (number, (name, svg)) in drawn.into_iter().take(GRAPHS).enumerate() {
        let svg = std::str::from_utf8(svg).context("a flame graph is text")?;
        let title = name.trim_end_matches(".svg").to_owned();
        graphs.push(RecordGraphView { id: format!("graph-{number}"), title, packed: pack(svg)? });
    }
    let timeline = timeline_svg::svg(recording).map(|svg| {
        // Within a page, without prolog and document type.
        Value::from_safe_string(svg.get(svg.find("<svg").unwrap_or(0)..).unwrap_or_default().to_owned())
    });
    let mut environment = environment()?;
    environment.add_filter("percent", |share: f64| format!("{:.1} %", 100.0 * share));
    environment.add_filter("number", crate::report::number::number);
    environment
        .add_filter("parts", |sentence: &str| -> Vec<String> { sentence.split('`').map(str::to_owned).collect() });
    // The extension enables escaping.
    environment.add_template(PAGE_FILE, include_str!("record.html")).context("record template")?;
    environment
        .get_template(PAGE_FILE)
        .and_then(|template| {
            template.render(context! {
                r => recording, about => text::about(recording), subject => text::subject(recording),
                tables, executed, unit, graphs, timeline, limits => text::limit_lines(recording),
            })
        })
        .context("cannot render record.html")
}

fn table_view(table: &RecordTable) -> RecordTableView {
    let (first, last) = (&table.first, &table.last);
    let mut headings = vec![first.0.to_owned()];
    headings.extend(table.figures.iter().map(|figures| figures.heading.clone()));
    headings.push(last.0.to_owned());
    let cell = |cells: &[String], row: usize| cells.get(row).cloned().unwrap_or_default();
    let rows = (0..first.1.len()).map(|row| {
        let figures = table.figures.iter().map(|figures| cell(&figures.cells, row));
        std::iter::once(cell(&first.1, row)).chain(figures).chain([cell(&last.1, row)]).collect()
    });
    RecordTableView { title: table.title.clone(), headings, rows: rows.collect(), further: table.further.clone() }
}

fn role_views(symbols: &[Resolution], shares: &[RoleShare]) -> Vec<ExecutedRoleView> {
    let view = |share: &RoleShare| ExecutedRoleView {
        title: roles::by_id(share.role).title,
        colour: roles::by_id(share.role).colour,
        share: share.share,
        ci95: share.share_ci95,
        per_kib: share.ns_per_kib.or(share.instructions_per_kib),
        functions: functions(symbols, share),
    };
    shares.iter().filter(|share| share.share >= SMALL).map(view).collect()
}
