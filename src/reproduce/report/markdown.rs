//! The report in Markdown; charts and graphs are files beside it.

use super::{PartView, Row, View};
use crate::reproduce::result::ExtraTable;
use std::fmt::Write as _;

/// The whole text.
#[must_use]
pub fn render(view: &View<'_>) -> String {
    let mut out = String::new();
    let total = &view.total;
    let _ = writeln!(out, "# The articles' figures on this machine\n");
    let _ = writeln!(
        out,
        "{} figures reproduced, {} not reproduced, {} undecided here (too noisy), {} not testable here. Made by `{}`, pipeprof {}; nothing below is \
         typed in by hand.\n",
        total.reproduced,
        total.not_reproduced,
        total.undecided,
        total.not_testable,
        view.command.replace('`', "'"),
        view.version
    );
    if !view.unfinished.is_empty() {
        let _ = writeln!(
            out,
            "**Not finished: {}.** It ended early; the same command with --resume goes on.\n",
            view.unfinished.join(", ")
        );
    }
    let _ = writeln!(out, "| part | reproduced | not reproduced | undecided here | not testable here | seconds |");
    let _ = writeln!(out, "|---|--:|--:|--:|--:|--:|");
    for summary in &view.summary {
        let _ = writeln!(
            out,
            "| [{}](#{}) | {} | {} | {} | {} | {} |",
            cell(&summary.title),
            anchor(&summary.title),
            summary.reproduced,
            summary.not_reproduced,
            summary.undecided,
            summary.not_testable,
            summary.seconds
        );
    }
    let _ = writeln!(out, "\n## Machines\n\n| | |\n|---|---|");
    let ours = view.machine.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ");
    let _ = writeln!(out, "| this machine | {} |", cell(&ours));
    for (letter, article) in &view.articles {
        let year = if article.year > 0 { format!(", {}", article.year) } else { String::new() };
        let _ = writeln!(
            out,
            "| article {letter}: \"{}\" ({}{year}) | {}. {} |",
            cell(&article.title),
            cell(&article.author),
            cell(&article.machine),
            cell(&article.setup)
        );
    }
    for part in &view.parts {
        part_text(&mut out, part);
    }
    out
}

fn part_text(out: &mut String, part: &PartView<'_>) {
    let _ = writeln!(out, "\n## {}\n\nMeasured {} ({}).", part.title, part.started, part.key);
    if !part.doubt.is_empty() {
        let _ = writeln!(out, "\n**{}**", cell(&part.doubt));
    }
    if !part.findings.is_empty() {
        out.push('\n');
        for finding in part.findings {
            let _ = writeln!(out, "- {}", cell(finding));
        }
    }
    for chart in &part.charts {
        let _ = writeln!(
            out,
            "\n![{}](charts/{}.svg)\n\n*{}. {}*",
            cell(&chart.title),
            chart.id,
            cell(&chart.title),
            cell(&chart.caption)
        );
    }
    for table in &part.tables {
        let _ = writeln!(out, "\n### Article {}: {} ({})\n", table.article, cell(table.title), cell(table.unit));
        let _ = writeln!(out, "| figure | theirs | ours | verdict | why |\n|---|--:|--:|---|---|");
        for row in &table.rows {
            let _ = writeln!(out, "{}", fact(row));
        }
        if !table.criteria.is_empty() {
            let _ = writeln!(out, "\nReproduced means: {}.", cell(&table.criteria));
        }
    }
    for table in part.extra {
        extra(out, table);
    }
    if !part.graphs.is_empty() {
        out.push_str("\n### Flame graphs\n\n");
        for graph in part.graphs {
            let _ = writeln!(out, "- [{}](graphs/{}.svg): {}", cell(&graph.title), graph.id, cell(&graph.about));
        }
    }
    if !part.notes.is_empty() {
        out.push_str("\nNotes:\n\n");
        for note in part.notes {
            let _ = writeln!(out, "- {}", cell(note));
        }
    }
}

fn fact(row: &Row) -> String {
    let ours =
        if row.spread.is_empty() { cell(&row.ours) } else { format!("{} ({})", cell(&row.ours), cell(&row.spread)) };
    let command =
        if row.command.is_empty() { String::new() } else { format!("; `{}`", row.command.replace('|', "\\|")) };
    format!("| {} | {} | {ours} | {} | {}{command} |", cell(&row.what), cell(&row.theirs), row.verdict, cell(&row.why))
}

fn extra(out: &mut String, table: &ExtraTable) {
    let _ = writeln!(out, "\n### {}\n", cell(&table.title));
    let line =
        |cells: &[String]| format!("| {} |", cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "));
    let _ = writeln!(out, "{}\n|{}", line(&table.header), "---|".repeat(table.header.len()));
    for row in &table.rows {
        let _ = writeln!(out, "{}", line(row));
    }
    if !table.note.is_empty() {
        let _ = writeln!(out, "\n{}", cell(&table.note));
    }
}

/// Text that Markdown takes as it is.
fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' => out.push_str("\\|"),
            '<' => out.push_str("&lt;"),
            '_' | '*' | '`' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A heading's anchor as GitHub makes it.
fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}
