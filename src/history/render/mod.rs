//! Write a history: the page and its pictures, Markdown, JSON and CSV.

mod blocks;
mod charts;
pub(crate) mod sentences;

use super::neighbours;
use super::{CountSpan, History, HistoryLine};
use crate::campaign::CellStore;
use crate::report::number::{exact, span as range};
use crate::report::table::Table;
use crate::roles::{self, RoleId};
use crate::util::atomic_file;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the numbers are.
const ABOUT: &str = "Instructions of writer and reader per KiB moved, counted exactly in several windows of \
    deterministic guests, without the roles that depend on scheduling. A step is a change that the windows of the \
    kernels since the last step cannot explain. Steps between kernels of different compilers name both: another compiler \
    changes counts by several percent by itself. Instructions are not time.";

/// What those of pipelines are.
const ABOUT_PIPELINES: &str = "Pipelines have instructions of the kernel in all stages per KiB that went through the \
    pipes, without those for scheduling, counted in one run each. A step of a pipeline is a change larger than what the \
    schedule alone can change: 1 % with one CPU, 3 % with several.";

/// What the numbers of `history` are.
fn about(history: &History) -> String {
    let has = |pipeline: bool| history.lines.iter().any(|line| line.pipeline == pipeline);
    let texts = [(false, ABOUT), (true, ABOUT_PIPELINES)].into_iter().filter(|(pipeline, _)| has(*pipeline));
    texts.map(|(_, text)| text).collect::<Vec<_>>().join(" ")
}

/// Write the history to `page`, such as history.html, and next to it history.md, history.json and history.csv; with its
/// store, also the folder history-steps with a comparison for each step. The paths of the files, without those of steps.
///
/// # Errors
/// When a comparison or a chart cannot be made, or a file not be written.
pub(crate) fn write(history: &History, store: Option<&CellStore>, page: &Path) -> Result<Vec<PathBuf>> {
    let stem = page.file_stem().context("-o: give a file, such as history.html")?.to_string_lossy().into_owned();
    let folder = format!("{stem}-steps");
    let links = match store {
        Some(store) => neighbours::write(history, store, &page.with_file_name(&folder))?,
        None => BTreeMap::new(),
    };
    let link = |pair: &neighbours::Neighbours| links.get(pair).map(|name| format!("{folder}/{name}"));
    let json = serde_json::to_string_pretty(history).context("cannot write the history as JSON")? + "\n";
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
        sums.into_iter().chain(roles).map(move |(role, span)| (line, history.kernels.get(point.kernel), role, span))
    });
    Table::of("", rows)
        .column("mode", |(line, ..)| &line.mode[..])
        .column("cpus", |(line, ..)| u64::from(line.cpus))
        .column("setting", |(line, ..)| &line.setting[..])
        .column("kernel", |(_, kernel, ..)| kernel.map(|kernel| &kernel.label[..]))
        .column("release", |(_, kernel, ..)| kernel.map(|kernel| &kernel.release[..]))
        .column("role", |(_, _, role, _)| *role)
        .column("instructions_per_kib", |(.., span)| format!("{:.4}", span.value))
        .column("least", |(.., span)| format!("{:.4}", span.low))
        .column("greatest", |(.., span)| format!("{:.4}", span.high))
        .done()
}

/// `470.10`, or with the range of the windows if they differ: `470.10 (470.08 to 470.52)`.
fn shown(span: &CountSpan) -> String {
    let value = exact(span.value);
    let range = range([span.low, span.high], exact);
    if range == value { value } else { format!("{value} ({range})") }
}

/// The roles that take most on any kernel, in the order of legends.
fn largest(line: &HistoryLine, count: usize) -> Vec<RoleId> {
    let most = |role: RoleId| {
        line.points.iter().filter_map(|point| point.roles.get(&role)).map(|span| span.value).fold(0.0, f64::max)
    };
    let mut all: Vec<(RoleId, f64)> = roles::all()
        .iter()
        .filter(|role| !roles::SCHEDULING.contains(&role.id))
        .map(|role| (role.id, most(role.id)))
        .filter(|(_, most)| *most > 0.0)
        .collect();
    let mut sorted: Vec<f64> = all.iter().map(|(_, most)| *most).collect();
    sorted.sort_by(|left, right| right.total_cmp(left));
    let least = sorted.get(count.saturating_sub(1)).copied().unwrap_or(0.0);
    all.retain(|(_, most)| *most >= least);
    all.truncate(count);
    all.into_iter().map(|(role, _)| role).collect()
}
