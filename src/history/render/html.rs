//! `history.html`: one file that needs no network. The template escapes all values except the charts drawn here.

use super::{about, charts, largest, sentences, shown};
use crate::history::neighbours::Neighbours;
use crate::history::{History, HistoryLine};
use crate::roles;
use anyhow::{Context as _, Result};
use minijinja::{Value, context};
use serde::Serialize;

/// One workload for the template.
#[derive(Serialize)]
struct LineView {
    slug: String,
    answer: sentences::LineAnswer,
    areas: Value,
    lines: Value,
    /// Titles of the roles.
    roles: Vec<&'static str>,
    /// By kernel: its label, its release, and its values.
    rows: Vec<(String, String, Vec<String>)>,
}

/// The whole page.
///
/// # Errors
/// When a chart or the template cannot be rendered.
pub(super) fn render(history: &History, link: &dyn Fn(&Neighbours) -> Option<String>) -> Result<String> {
    let answers = sentences::all(history, link);
    let mut views = Vec::new();
    for (number, (line, answer)) in history.lines.iter().zip(answers).enumerate() {
        views.push(view(history, number, line, answer)?);
    }
    let mut environment = crate::report::html::environment()?;
    // The extension enables escaping.
    environment.add_template("history.html", include_str!("history.html")).context("history template")?;
    environment
        .get_template("history.html")
        .and_then(|template| {
            template.render(
                context! { h => history, about => about(history), counted => sentences::counted_by(history), views => views },
            )
        })
        .context("cannot render the history")
}

fn view(history: &History, number: usize, line: &HistoryLine, answer: sentences::LineAnswer) -> Result<LineView> {
    let shown_roles = largest(line, usize::MAX);
    let row = |point: &crate::history::HistoryPoint| {
        let kernel = history.kernels.get(point.kernel);
        let (label, release) = kernel.map_or(("", ""), |kernel| (&kernel.label, &kernel.release));
        let sums = [shown(&point.without_scheduling), shown(&point.total)];
        let roles = shown_roles.iter().map(|role| point.roles.get(role).map_or_else(|| "-".to_owned(), shown));
        (label.to_owned(), release.to_owned(), sums.into_iter().chain(roles).collect())
    };
    Ok(LineView {
        slug: format!("line-{}", number + 1),
        answer,
        areas: Value::from_safe_string(charts::areas(history, line)?),
        lines: Value::from_safe_string(charts::lines(history, line)?),
        rows: line.points.iter().map(row).collect(),
        roles: shown_roles.iter().map(|role| roles::by_id(*role).title).collect(),
    })
}
