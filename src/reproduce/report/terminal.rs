//! The report on the terminal: the rungs, the counts, and the figures that are not as in the articles.

use super::{FigureVerdict, ReproductionView, TableView, lead};
use crate::report::terminal::Style;
use crate::report::terminal::text::{paragraph, shortened};
use crate::reproduce::Reproduction;
use comfy_table::{CellAlignment, Table};

/// The whole text.
#[must_use]
pub(crate) fn render(reproduction: &Reproduction, style: Style) -> String {
    let view = ReproductionView::of(reproduction);
    let mut text = paragraph("", &view.answer, style);
    if let Some(lead) = &view.lead {
        let rows = lead
            .rungs
            .iter()
            .map(|rung| [&rung.name, &rung.theirs, &rung.ours, &rung.their_ratio, &rung.our_ratio].map(String::clone));
        text.push_str(&format!("\n{}", table(lead::HEADER, rows, 1..5)));
        if !lead.difference.is_empty() {
            text.push_str(&format!("\n{}", paragraph("", &lead.difference, style)));
        }
    }
    let seconds = |part: &super::PartView<'_>| part.result.seconds.round() as u64;
    let parts = view.parts.iter().map(|part| (part.id, part.counts, seconds(part)));
    let all = (view.parts.len() > 1).then(|| ("all", view.counts, view.parts.iter().map(seconds).sum()));
    let rows = parts.chain(all).map(|(id, counts, seconds)| {
        let [a, b, c, d, e] = counts.map(|count| count.to_string());
        [id.to_owned(), a, b, c, d, e, seconds.to_string()]
    });
    let header = ["part", "reproduced", "not reproduced", "undecided", "another machine", "not testable", "seconds"];
    text.push_str(&format!("\n{}", table(header, rows, 1..7)));
    for (verdict, heading) in [
        (FigureVerdict::NotReproduced, "Not reproduced"),
        (FigureVerdict::Undecided, "Undecided: the 95 % CI straddles the tolerance"),
    ] {
        let tables = view.parts.iter().flat_map(|part| &part.tables);
        let rows: Vec<[String; 4]> = tables.flat_map(|table| group(table, verdict)).collect();
        if !rows.is_empty() {
            let header = ["figure", "article", "here", "relative to"];
            text.push_str(&format!("\n{heading}:\n{}", table(header, rows.into_iter(), 1..3)));
        }
    }
    text
}

/// The name of an article's table, and its rows with this verdict.
fn group(table: &TableView<'_>, verdict: FigureVerdict) -> Vec<[String; 4]> {
    let rows = table.rows.iter().filter(|row| row.verdict == verdict.words()[0]).map(|row| {
        let name = format!("  {}", shortened(&row.what, WIDEST));
        match &row.ratio {
            Some([article, here, to]) => [name, article.clone(), here.clone(), shortened(to, WIDEST)],
            None => [name, row.article.clone(), row.measured.clone(), String::new()],
        }
    });
    let rows: Vec<[String; 4]> = rows.collect();
    let title = table.table.title.split(", ").next().unwrap_or_default();
    let heading = format!("{}: {}, {}", table.table.article, title, table.table.unit);
    let heading = (!rows.is_empty()).then(|| [heading, String::new(), String::new(), String::new()]);
    heading.into_iter().chain(rows).collect()
}

/// Longest name of a figure in a table of the terminal.
const WIDEST: usize = 44;

/// A table whose columns in `numbers` are aligned to the right.
fn table<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    numbers: std::ops::Range<usize>,
) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}
