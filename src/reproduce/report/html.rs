//! `report.html`: one file, no network. The template escapes all text except the SVGs that are drawn here.

use super::ReproductionView;
use crate::report::chart::Theme;
use crate::report::html::{environment, pack};
use anyhow::{Context as _, Result};
use minijinja::{Value, context};
use serde::Serialize;

#[derive(Serialize)]
struct Drawn {
    part: String,
    charts: Vec<Value>,
    graphs: Vec<Packed>,
}

#[derive(Serialize)]
struct Packed {
    id: String,
    packed: Value,
}

/// The whole page.
///
/// # Errors
/// When a chart or the template cannot be rendered.
pub fn render(view: &ReproductionView<'_>) -> Result<String> {
    let mut drawn = Vec::new();
    for part in &view.parts {
        let charts = part
            .charts
            .iter()
            .map(|chart| Ok(Value::from_safe_string(chart.svg(Theme::Page)?)))
            .collect::<Result<_>>()?;
        let graphs = part
            .graphs
            .iter()
            .map(|graph| {
                // base64 needs no escaping.
                Ok(Packed { id: format!("g-{}", graph.id), packed: Value::from_safe_string(pack(&graph.svg)?) })
            })
            .collect::<Result<_>>()?;
        drawn.push(Drawn { part: part.id.to_owned(), charts, graphs });
    }
    let mut environment = environment()?;
    environment.add_template("reproduce.html", include_str!("reproduce.html")).context("report template")?;
    environment
        .get_template("reproduce.html")
        .and_then(|template| template.render(context! { v => view, drawn => drawn }))
        .context("cannot render report.html")
}
