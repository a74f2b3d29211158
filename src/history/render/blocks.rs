//! What the page and the Markdown of a history show.

use super::charts::{self, largest};
use super::sentences;
use crate::history::neighbours::Neighbours;
use crate::history::{CountSpan, History, HistoryLine, HistoryPoint};
use crate::report::block::ReportBlock;
use crate::report::html::HtmlPage;
use crate::report::markdown;
use crate::report::number::{exact, span as range};
use crate::report::table::{Table, TableCell};
use crate::roles::{self, RoleId};
use anyhow::Result;

/// What the numbers are.
const ABOUT: &str = "Instructions of writer and reader per KiB moved, counted exactly in several windows of \
    deterministic guests, without the roles that depend on scheduling. A step is a change that the windows of the \
    kernels since the last step cannot explain. Steps between kernels of different compilers name both: another compiler \
    changes counts by several percent by itself. Instructions are not time.";

/// What those of pipelines are.
const ABOUT_PIPELINES: &str = "Pipelines have instructions of the kernel in all stages per KiB that went through the \
    pipes, without those for scheduling, counted in one run each. A step of a pipeline is a change larger than what the \
    schedule alone can change: 1 % with one CPU, 3 % with several.";

/// What the numbers of `history` are.
fn about(history: &History) -> String {
    let has = |pipeline: bool| history.lines.iter().any(|line| line.pipeline == pipeline);
    let texts = [(false, ABOUT), (true, ABOUT_PIPELINES)].into_iter().filter(|(pipeline, _)| has(*pipeline));
    texts.map(|(_, text)| text).collect::<Vec<_>>().join(" ")
}

/// `history.html`: one file that needs no network.
pub(super) fn page(history: &History, link: &dyn Fn(&Neighbours) -> Option<String>) -> Result<String> {
    let answers = sentences::all(history, link);
    let overview = overview(&answers, &|number, text| TableCell::Link { text, to: format!("#line-{number}") });
    let mut blocks = Vec::new();
    for (number, (line, answer)) in (1..).zip(history.lines.iter().zip(answers)) {
        let heading = answer.title.clone();
        let mut below = line_blocks(answer);
        below.extend(
            [
                ("The kernels as they are, and the source alone", charts::sums(history, line)?),
                ("All roles", charts::areas(history, line)?),
                ("The roles that change most", charts::lines(history, line)?),
            ]
            .into_iter()
            .filter(|(_, svg)| !svg.is_empty())
            .map(|(title, svg)| ReportBlock::picture(title, svg)),
        );
        below.push(ReportBlock::Details {
            id: String::new(),
            summary: "Values of each kernel".to_owned(),
            is_open: false,
            blocks: vec![ReportBlock::Table(values(history, line, usize::MAX))],
        });
        blocks.push(ReportBlock::Section { id: format!("line-{number}"), heading, blocks: below });
    }
    let kernels = Table::of("", &history.kernels)
        .column("kernel", |kernel| &kernel.label[..])
        .column("release", |kernel| &kernel.release[..])
        .column("SHA-256 of the image", |kernel| kernel.sha256.get(..16).unwrap_or_default())
        .done();
    let sources = history.sources.iter().map(|sources| {
        let table = Table::of("", &sources.kernels)
            .column("source of", |built| history.label(built.kernel))
            .column("source", |built| &built.source[..])
            .column("built", |built| &built.release[..]);
        ReportBlock::Table(table.done())
    });
    blocks.push(ReportBlock::section("Kernels", std::iter::once(ReportBlock::Table(kernels)).chain(sources).collect()));
    let last = history.kernels.len().saturating_sub(1);
    let kernels = format!("{} kernels", history.kernels.len());
    let page = HtmlPage {
        title: format!("pipeprof history: {kernels}"),
        heading: format!("{kernels}, {} to {}", history.label(0), history.label(last)),
        about: vec![ReportBlock::Table(overview), introduction(history)],
        blocks,
        made_by: format!("pipeprof {}, `{}`", history.version, history.command),
    };
    Ok(page.html())
}

/// `history.md`: the answers, and a table for each workload.
pub(super) fn markdown(history: &History, link: &dyn Fn(&Neighbours) -> Option<String>) -> String {
    let answers = sentences::all(history, link);
    let overview = overview(&answers, &|_, title| TableCell::Text(title));
    let mut blocks = vec![ReportBlock::Table(overview), introduction(history)];
    for (line, answer) in history.lines.iter().zip(answers) {
        let heading = answer.title.clone();
        let values = ReportBlock::Table(values(history, line, ROLES));
        blocks.push(ReportBlock::section(heading, line_blocks(answer).into_iter().chain([values]).collect()));
    }
    markdown::document("Kernels over time", &blocks)
}

/// The answers; `title` makes a cell of a line's number and title.
fn overview(answers: &[sentences::LineAnswer], title: &dyn Fn(usize, String) -> TableCell) -> Table {
    Table::of("", (1..).zip(answers))
        .column("workload", |(number, answer)| title(*number, answer.title.clone()))
        .column("what changed", |(_, answer)| &answer.sentence[..])
        .done()
}

/// Roles in a table of the Markdown.
const ROLES: usize = 8;

fn introduction(history: &History) -> ReportBlock {
    ReportBlock::Sentence(format!("{} {}", about(history), sentences::counted_by(history)))
}

/// The answer of one line, and its steps.
fn line_blocks(answer: sentences::LineAnswer) -> Vec<ReportBlock> {
    let steps = Table::of("", answer.steps)
        .column("step", |step| match &step.link {
            Some(to) => TableCell::Link { text: step.kernels.clone(), to: to.clone() },
            None => TableCell::Text(step.kernels.clone()),
        })
        .column("per KiB", |step| TableCell::Figure(step.change.clone()))
        .column("roles", |step| step.roles.clone())
        .done();
    let steps = (!steps.is_empty()).then_some(ReportBlock::Table(steps));
    std::iter::once(ReportBlock::Sentence(format!("{}.", answer.sentence))).chain(steps).collect()
}

/// The values of each kernel: those of so many roles.
fn values(history: &History, line: &HistoryLine, roles: usize) -> Table {
    let of = |point: &HistoryPoint, role: RoleId| point.roles.get(&role).map(|span| TableCell::Figure(shown(span)));
    let mut table = Table::of("", &line.points)
        .column("kernel", |point| history.label(point.kernel))
        .column("without scheduling", |point| TableCell::Figure(shown(&point.without_scheduling)))
        .column("total", |point| TableCell::Figure(shown(&point.total)));
    for role in largest(line, roles) {
        table = table.column(roles::by_id(role).title, |point| of(point, role));
    }
    table.done()
}

/// `470.10`, or with the range of the windows if they differ: `470.10 (470.08 to 470.52)`.
fn shown(span: &CountSpan) -> String {
    let value = exact(span.value);
    let range = range([span.low, span.high], exact);
    if range == value { value } else { format!("{value} ({range})") }
}
