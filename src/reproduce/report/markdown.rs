//! The report in Markdown; charts and graphs are files next to it.

use super::ReproductionView;
use anyhow::{Context as _, Result};
use minijinja::{Environment, context};

/// The whole text.
///
/// # Errors
/// When the template cannot be rendered.
pub(crate) fn render(view: &ReproductionView<'_>) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_filter("text", |text: &str| escaped(text));
    environment.add_filter("anchor", |title: &str| anchor(title));
    environment.add_template("reproduce.md", include_str!("reproduce.md")).context("report template")?;
    let template = environment.get_template("reproduce.md");
    template.and_then(|template| template.render(context! { v => view })).context("cannot render report.md")
}

/// Text without Markdown's own characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '|' | '_' | '*' | '`' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A heading's anchor as GitHub makes it.
fn anchor(title: &str) -> String {
    let kept = title.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}
