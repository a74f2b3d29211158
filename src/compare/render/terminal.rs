//! A comparison on a terminal: the answer first, then the roles and functions that changed.

use super::causes;
use super::tables;
pub use super::tables::StepExtent;
use crate::compare::answer;
use crate::compare::model::{Caveat, CaveatCase, Comparison, Difference, Section, Step, cpus_text, section_title};
use crate::compare::settings::{self, EMULATED_CPU};
use crate::report::block::{self, ReportBlock};
use crate::report::number::{change, signed};
use crate::report::table::{Table, TableCell};
use crate::report::terminal::Style;

/// Values of settings that are longer are listed, not in a table.
const LONG_VALUE: usize = 12;

/// How much of each step to print.
pub const SHOWN: StepExtent = StepExtent { roles: 12, functions: 12, page: false };

fn style(width: usize) -> Style {
    Style { width: u16::try_from(width).ok(), colour: false }
}

/// The answers alone.
pub fn answers(comparison: &Comparison, width: usize) -> String {
    block::text(&answer_blocks(comparison), style(width)).into()
}

/// The whole comparison as text.
pub fn render(comparison: &Comparison, width: usize, shown: StepExtent) -> String {
    let mut blocks = answer_blocks(comparison);
    blocks.extend(comparison.sections.iter().map(|section| {
        // Of two processors, the answer has said all.
        let compared = section.steps.iter().filter(|step| !step.other_processor);
        let steps = compared.map(|step| step_block(comparison, section, step, shown));
        let cells = ReportBlock::Table(tables::cells(comparison, section, false));
        ReportBlock::section(section.title(), std::iter::once(cells).chain(causes(section)).chain(steps).collect())
    }));
    blocks.extend(environment_blocks(comparison));
    block::text(&blocks, style(width)).into()
}

/// Why the kernels of a section differ, if that is known.
pub(super) fn causes(section: &Section) -> Vec<ReportBlock> {
    section.causes.as_ref().map(causes::blocks).unwrap_or_default()
}

/// The differences between the columns, and all caveats.
pub fn environment(comparison: &Comparison, width: usize) -> String {
    block::text(&environment_blocks(comparison), style(width)).into()
}

/// A sentence for each mode and two columns, and the facts behind it.
pub(super) fn answer_blocks(comparison: &Comparison) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    for line in answer::lines(comparison) {
        let item = |level: usize| format!("{}{}", " ".repeat(2 * (level - 1)), line.text);
        match (line.level, blocks.last_mut()) {
            (0, _) => blocks.push(ReportBlock::Sentence(line.text)),
            (level, Some(ReportBlock::Items(items))) => items.push(item(level)),
            (level, _) => blocks.push(ReportBlock::Items(vec![item(level)])),
        }
    }
    blocks.extend(emulated_cpu(comparison).map(ReportBlock::Sentence));
    blocks
}

/// Which CPU executed the instructions: others execute other code.
fn emulated_cpu(comparison: &Comparison) -> Option<String> {
    let cpu = comparison.shared.iter().find(|shared| shared.what == EMULATED_CPU)?;
    Some(format!("Executed on the emulated CPU {} (TCG).", cpu.value))
}

/// One step: verdict, roles, functions.
pub(super) fn step_block(comparison: &Comparison, section: &Section, step: &Step, shown: StepExtent) -> ReportBlock {
    let (from, to) = comparison.step_labels(step);
    let verdict = &step.verdict;
    let by = format!(", {} {} ({})", signed(verdict.delta), comparison.verdict_unit(), change(verdict.ratio));
    // Without values, there is no change.
    let by = if verdict.before > 0.0 { by } else { String::new() };
    let what = if step.roles.is_empty() { String::new() } else { format!(": {}{by}", verdict.word.text()) };
    let heading = format!("{from} -> {to}{what}");
    let remarks = ReportBlock::Items(step.remarks.iter().cloned().chain(verdict.noise()).collect());
    ReportBlock::section(
        heading,
        std::iter::once(remarks).chain(step_tables(comparison, section, step, shown)).collect(),
    )
}

/// What changed: the tables that are not empty.
pub(super) fn step_tables(
    comparison: &Comparison,
    section: &Section,
    step: &Step,
    shown: StepExtent,
) -> Vec<ReportBlock> {
    let mut all = vec![
        tables::path(comparison, step, shown),
        tables::pipes(step, shown),
        tables::system_calls(step, shown),
        tables::shares(step, shown),
    ];
    all.push(tables::roles(comparison, section, step, shown));
    all.extend(tables::cycles(step, shown));
    all.push(tables::functions(comparison, step, shown));
    all.extend(tables::locks(section, step, shown));
    all.push(tables::sums(comparison, step, shown));
    all.into_iter().filter(|table| !table.is_empty()).map(ReportBlock::Table).collect()
}

/// What differs between the columns, and why the answer may be doubted.
pub(super) fn environment_blocks(comparison: &Comparison) -> Vec<ReportBlock> {
    let mut differs = Vec::new();
    let value = |difference: &Difference, value: &String| settings::shown(&difference.what, value);
    let is_short = |text: String| text.chars().count() <= LONG_VALUE;
    let short = |difference: &&Difference| difference.values.iter().all(|one| is_short(value(difference, one)));
    for difference in comparison.differences.iter().filter(|difference| !short(difference)) {
        let why = if difference.matters.is_empty() { String::new() } else { format!(" ({})", difference.matters) };
        let values = comparison.columns.iter().zip(&difference.values);
        let values = values.map(|(column, one)| format!("  {}: {}", column.label, value(difference, one)));
        let name = settings::name(&difference.what);
        differs.push(ReportBlock::Items(std::iter::once(format!("{name}{why}")).chain(values).collect()));
    }
    let rows: Vec<&Difference> = comparison.differences.iter().filter(short).collect();
    let mut table = Table::of("", &rows).column("setting", |difference| settings::name(&difference.what));
    for (at, column) in comparison.columns.iter().enumerate() {
        table = table.column(&*column.label, |difference| {
            difference.values.get(at).map(|one| TableCell::Figure(value(difference, one)))
        });
    }
    let mut table = table.done();
    for difference in rows {
        let reason = format!("{}: {}", settings::family(&difference.what), difference.matters);
        if !difference.matters.is_empty() && !table.notes.contains(&reason) {
            table.notes.push(reason);
        }
    }
    if !table.is_empty() {
        differs.push(ReportBlock::Table(table));
    }
    let others = match comparison.other_options.len() {
        0 if differs.is_empty() => Some("nothing: all known settings are equal".to_owned()),
        0 => None,
        1 => Some("1 other built-in option differs (report.html names it); nothing shows that it matters".to_owned()),
        some => Some(format!(
            "{some} other built-in options differ (report.html lists them); nothing shows that one of them matters"
        )),
    };
    differs.extend(others.map(|text| ReportBlock::Items(vec![text])));
    vec![ReportBlock::section("What differs", differs), ReportBlock::section("Caveats", vec![caveats(comparison)])]
}

pub(super) fn caveats(comparison: &Comparison) -> ReportBlock {
    let caveat = |caveat: &Caveat| {
        let scope: Vec<String> = cases(comparison, caveat).into_iter().chain(caveat.columns.iter().cloned()).collect();
        if scope.is_empty() { caveat.text.clone() } else { format!("{}: {}", scope.join(", "), caveat.text) }
    };
    ReportBlock::Items(comparison.caveats.iter().map(caveat).collect())
}

/// The cases for which a caveat holds: `1 CPU` in all modes, `write` on all numbers of CPUs, or one by one; nothing for
/// all.
fn cases(comparison: &Comparison, caveat: &Caveat) -> Vec<String> {
    let held = |mode: &str, cpus| caveat.cases.iter().any(|case| case.mode == mode && case.cpus == cpus);
    // Whether it holds for all cases that are alike.
    let holds = |alike: &dyn Fn(&Section) -> bool| {
        comparison.sections.iter().filter(|section| alike(section)).all(|section| held(&section.mode, section.cpus))
    };
    let of = |case: &CaveatCase| match case.cpus {
        Some(cpus) if holds(&|section| section.cpus == case.cpus) => cpus_text(cpus),
        _ if holds(&|section| section.mode == case.mode) => case.mode.clone(),
        _ => section_title(&case.mode, case.cpus),
    };
    let mut names: Vec<String> = Vec::new();
    caveat.cases.iter().map(of).for_each(|name| {
        if !names.contains(&name) {
            names.push(name)
        }
    });
    names
}
