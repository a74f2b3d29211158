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
    let text =
        template.and_then(|template| template.render(context! { v => view })).context("cannot render report.md")?;
    Ok(text.lines().map(wrapped).fold(String::new(), |all, line| all + &line + "\n"))
}

/// Maximum number of columns, except of tables, headings and pictures, which cannot be wrapped.
const WIDTH: usize = 120;

fn wrapped(line: &str) -> String {
    if line.starts_with(['|', '#', '!', ' ']) {
        return line.to_owned();
    }
    let options = textwrap::Options::new(WIDTH)
        .subsequent_indent(if line.starts_with("- ") { "  " } else { "" })
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::fill(line, options)
}

/// Text without Markdown's own characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '|' | '_' | '*' | '`' => out.extend(['\\', c]),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_and_items_are_wrapped_and_tables_are_not() {
        let long = "word ".repeat(40);
        let item = wrapped(&format!("- {long}"));
        assert!(item.lines().count() == 2 && item.lines().all(|line| line.len() <= WIDTH), "{item}");
        assert!(item.lines().skip(1).all(|line| line.starts_with("  word")), "{item}");
        let row = format!("| {long} |");
        assert_eq!(wrapped(&row), row);
        assert_eq!(wrapped(""), "");
    }
}
