//! The report on the terminal: the rungs, the counts, and the figures that are not as in the articles.

use super::blocks;
use super::view::{ReproductionView, TableView, article, measured};
use crate::report::block::{self, ReportBlock};
use crate::report::table::{Table, TableCell};
use crate::report::terminal::Style;
use crate::reproduce::reproduced::Reproduction;
use crate::reproduce::verdict::{FigureVerdict, number};
use crate::util::styled_text::StyledText;

/// The whole text.
pub fn render(reproduction: &Reproduction, style: Style) -> StyledText {
    let view = ReproductionView::of(reproduction);
    let mut shown = vec![ReportBlock::sentence(&*view.answer)];
    if let Some(lead) = &view.lead {
        shown.push(ReportBlock::Table(lead.table().note(&*lead.difference)));
    }
    shown.push(ReportBlock::Table(blocks::parts(&view, false)));
    for (verdict, heading) in [
        (FigureVerdict::NotReproduced, "Not reproduced"),
        (FigureVerdict::Undecided, "Undecided: the 95 % CI straddles the tolerance"),
    ] {
        let tables = view.parts.iter().flat_map(|part| &part.tables);
        let rows: Vec<[String; 4]> = tables.flat_map(|table| group(table, verdict)).collect();
        if !rows.is_empty() {
            let table = Table::of(heading, &rows)
                .column("figure", |row| &*row[0])
                .column("article", |row| TableCell::figure(&*row[1]))
                .column("here", |row| TableCell::figure(&*row[2]))
                .column("relative to", |row| &*row[3]);
            shown.push(ReportBlock::Table(table.done()));
        }
    }
    block::text(&shown, style)
}

/// The name of an article's table, and its rows with this verdict.
fn group(table: &TableView<'_>, verdict: FigureVerdict) -> Vec<[String; 4]> {
    let rows = table.rows.iter().filter(|row| row.verdict == verdict).map(|row| {
        let name = format!("  {}", row.fact.what);
        let times = |ratio: f64| format!("{} ×", number(ratio));
        match &row.ratio {
            Some(ratio) => [name, times(ratio.article), times(ratio.measured), ratio.to.clone()],
            None => [name, article(row), measured(row), String::new()],
        }
    });
    let rows: Vec<[String; 4]> = rows.collect();
    let title = table.table.name.as_ref().unwrap_or(&table.table.title);
    let heading = format!("{}: {}, {}", table.table.article, title, table.table.unit);
    let heading = (!rows.is_empty()).then(|| [heading, String::new(), String::new(), String::new()]);
    heading.into_iter().chain(rows).collect()
}
