//! `report.html`: one file that needs no network.

use super::tables::{self, StepExtent, step_id};
use super::{chart, graphs, markdown, terminal};
use crate::compare::answer;
use crate::compare::build::Compared;
use crate::compare::details;
use crate::compare::measure::Measure;
use crate::compare::model::{Comparison, Difference, Section, Step};
use crate::compare::settings;
use crate::report::block::ReportBlock;
use crate::report::html::HtmlPage;
use crate::report::number::change;
use crate::report::table::{Table, TableCell};
use crate::util::text::capitalized;
use anyhow::Result;

/// What a page shows: all roles, and as many functions.
const SHOWN: StepExtent = StepExtent { roles: usize::MAX, functions: 30, page: true };

/// The whole page.
pub fn render(compared: &Compared) -> Result<String> {
    let comparison = &compared.comparison;
    let labels: Vec<&str> = comparison.columns.iter().map(|column| column.label.as_str()).collect();
    let sentences = answer::sentences(comparison).into_iter().map(|text| ReportBlock::Sentence(format!("{text}.")));
    let answers = ReportBlock::Table(tables::answers(comparison));
    let mut blocks = vec![ReportBlock::Section {
        id: "answers".to_owned(),
        heading: "What changed, by how much, and the largest contributors".to_owned(),
        blocks: sentences.chain([answers]).collect(),
    }];
    let mut links = Vec::new();
    for (mode, (section, measures)) in (1..).zip(comparison.sections.iter().zip(&compared.measures)) {
        let (id, heading) = (format!("mode-{mode}"), section.title());
        links.push((heading.clone(), format!("#{id}")));
        let profiles: Vec<Option<&Measure>> = measures.iter().map(|one| one.as_ref()?.profile.as_deref()).collect();
        blocks.push(ReportBlock::Section {
            id,
            heading,
            blocks: section_blocks(comparison, mode, section, &profiles)?,
        });
    }
    links.push(("environment and caveats".to_owned(), "#environment".to_owned()));
    blocks.push(environment(comparison));
    let page = HtmlPage {
        title: format!("pipeprof compare: {}", labels.join(", ")),
        heading: labels.join(" → "),
        about: vec![ReportBlock::sentence(markdown::how(comparison)), ReportBlock::Links(links)],
        blocks,
        made_by: format!("{}, pipeprof {}, `{}`", comparison.schema, comparison.version, comparison.command),
    };
    Ok(page.html())
}

fn section_blocks(
    comparison: &Comparison,
    mode: usize,
    section: &Section,
    measures: &[Option<&Measure>],
) -> Result<Vec<ReportBlock>> {
    let mut blocks = vec![
        ReportBlock::picture("", chart::stacked(comparison, section)?),
        ReportBlock::Table(tables::cells(comparison, section, true)),
    ];
    blocks.extend(terminal::causes(section));
    for (number, step) in (1..).zip(&section.steps) {
        blocks.push(ReportBlock::Details {
            id: step_id(mode, number),
            summary: summary(comparison, step),
            is_open: section.steps.len() == 1,
            blocks: step_blocks(comparison, section, step, measures)?,
        });
    }
    let plain = graphs::plain(comparison, section, measures)?;
    if !plain.is_empty() {
        let graphs = vec![ReportBlock::Beside(plain.into_iter().map(ReportBlock::Graph).collect())];
        blocks.push(ReportBlock::section("Flame graphs of all columns", graphs));
    }
    Ok(blocks)
}

fn summary(comparison: &Comparison, step: &Step) -> String {
    let (from, to) = comparison.step_labels(step);
    let by = if step.verdict.before > 0.0 { format!(", {}", change(step.verdict.ratio)) } else { String::new() };
    format!("{from} → {to}: {}{by}", step.word())
}

fn step_blocks(
    comparison: &Comparison,
    section: &Section,
    step: &Step,
    measures: &[Option<&Measure>],
) -> Result<Vec<ReportBlock>> {
    let details = details::details(comparison, section, step).into_iter().chain(step.remarks.iter().cloned());
    let mut blocks = vec![
        ReportBlock::Sentence(format!("{}.", capitalized(&answer::answer(comparison, &[(section, step)])))),
        ReportBlock::Items(details.collect()),
    ];
    if let Some(noise) = step.verdict.noise() {
        blocks.push(ReportBlock::Note(format!("{}.", capitalized(&noise))));
    }
    blocks.extend(terminal::step_tables(comparison, section, step, SHOWN));
    let calls = tables::calls(comparison, step);
    if !calls.is_empty() {
        let about =
            "Loops execute in another order. Calls between mutex_lock and mutex_unlock are made under the lock.";
        blocks.push(ReportBlock::Note(about.to_owned()));
        blocks.push(ReportBlock::Beside(calls.into_iter().map(ReportBlock::Table).collect()));
    }
    let graphs = graphs::differential(comparison, section, step, measures)?;
    if !graphs.is_empty() {
        let about = ReportBlock::Note("Click a frame to zoom; Ctrl-F searches.".to_owned());
        let graphs = std::iter::once(about).chain(graphs.into_iter().map(ReportBlock::Graph)).collect();
        blocks.push(ReportBlock::section("Differential flame graphs, with the widths of both profiles", graphs));
    }
    Ok(blocks)
}

fn environment(comparison: &Comparison) -> ReportBlock {
    let settings = |rows: &[Difference], reasons: bool| {
        let mut table = Table::of("", rows).column("setting", |row| TableCell::Name(settings::name(&row.what)));
        for (at, column) in comparison.columns.iter().enumerate() {
            table = table.column(&*column.label, |row| {
                row.values.get(at).map(|value| TableCell::Name(settings::shown(&row.what, value)))
            });
        }
        ReportBlock::Table(table.when(reasons, |table| table.column("why it matters", |row| &row.matters[..])).done())
    };
    let folded = |summary: String, blocks: Vec<ReportBlock>| ReportBlock::Details {
        id: String::new(),
        summary,
        is_open: false,
        blocks,
    };
    let differs = match &comparison.differences[..] {
        [] => ReportBlock::sentence("Nothing: all known settings are equal."),
        rows => settings(rows, true),
    };
    let mut blocks = vec![ReportBlock::section("What differs", vec![differs])];
    if !comparison.other_options.is_empty() {
        let about = "Nothing shows that they matter to these workloads. `-`: off, or a module.";
        let summary = format!("Other built-in options that differ ({})", comparison.other_options.len());
        blocks.push(folded(summary, vec![ReportBlock::sentence(about), settings(&comparison.other_options, false)]));
    }
    blocks.push(ReportBlock::section("Caveats", vec![terminal::caveats(comparison)]));
    let shared = Table::of("", &comparison.shared)
        .column("setting", |one| TableCell::Name(settings::name(&one.what)))
        .column("value", |one| TableCell::Name(settings::shown(&one.what, &one.value)))
        .done();
    let summary = format!("Settings that are the same in all columns ({} settings)", shared.len());
    blocks.push(folded(summary, vec![ReportBlock::Table(shared)]));
    let files = comparison.columns.iter().map(|column| {
        let sources: Vec<String> = column.sources.iter().map(|source| format!("`{source}`")).collect();
        format!("{} ({}): {}", column.label, column.release, sources.join(", "))
    });
    blocks.push(folded("Files of the runs".to_owned(), vec![ReportBlock::Items(files.collect())]));
    ReportBlock::Section { id: "environment".to_owned(), heading: "Environment and caveats".to_owned(), blocks }
}
