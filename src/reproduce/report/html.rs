//! `report.html`: one file, no network. The template escapes all text except the SVGs that are drawn here.

use super::ReproductionView;
use crate::report::chart::Theme;
use crate::report::html::{environment, pack};
use anyhow::{Context as _, Result};
use minijinja::{Value, context};

/// The whole page.
///
/// # Errors
/// When a chart or the template cannot be rendered.
pub(crate) fn render(view: &ReproductionView<'_>) -> Result<String> {
    let mut drawn = Vec::new();
    for part in &view.parts {
        let charts = part.charts.iter().map(|chart| Ok(Value::from_safe_string(chart.svg(Theme::Page)?)));
        let graphs = part.result.found.graphs.iter().map(|graph| {
            // base64 needs no escaping.
            let packed = Value::from_safe_string(pack(&graph.svg)?);
            Ok(context! { id => format!("g-{}", graph.id), packed => packed })
        });
        let (charts, graphs) = (charts.collect::<Result<Vec<_>>>()?, graphs.collect::<Result<Vec<_>>>()?);
        drawn.push(context! { charts => charts, graphs => graphs });
    }
    let mut environment = environment()?;
    environment.add_template("reproduce.html", include_str!("reproduce.html")).context("report template")?;
    environment
        .get_template("reproduce.html")
        .and_then(|template| template.render(context! { v => view, drawn => drawn }))
        .context("cannot render report.html")
}
